/* Data sets, and the loader that orders, reads ahead and batches them. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_dataset lks_dataset;

typedef struct lks_dataset_info {
    int64_t samples;
    lks_shape shape;        /* of one sample; images are height, width, channels */
    lks_dtype dtype;        /* LKS_U8, LKS_F32, or LKS_I32: tokens, */
    int64_t vocabulary;     /* all from 0 to below this */
    int64_t classes;        /* targets are I32 indices below this; 0: floats of target_shape */
    lks_shape target_shape; /* with classes: positions, each with one; ndim 0: one a sample */
    int64_t columns; /* sample i goes on where sample i - columns ends, and there are so many that
                        this divides; 0: samples have nothing to do with each other */
} lks_dataset_info;

/* At a position of a target: nothing is wanted of it. It has no loss, and no part in metrics and means. */
enum { LKS_NO_CLASS = -1 };

/*
 * Your own data. `read` writes sample `index` to x (info.shape elements of info.dtype) and its
 * target to y (one int32_t, or the floats of target_shape). It is called from several threads at
 * once, and says why it failed with lks_fail(). `close` may be NULL; it is called when the data set
 * is destroyed, and not when creating it fails. `read_epoch` takes the place of `read` where samples
 * change from epoch to epoch: always the same bytes for an epoch (from 0) and an index, and for epoch
 * -1 the sample as it is, which lks_dataset_read() gives and the hash is made of. `counted` says how many
 * positions of the target of a sample are not LKS_NO_CLASS, without reading it; NULL: none is.
 */
typedef struct lks_dataset_ops {
    lks_dataset_info info;
    lks_status (*read)(void *user, int64_t index, void *x, void *y);
    void (*close)(void *user);
    lks_status (*read_epoch)(void *user, int64_t epoch, int64_t index, void *x, void *y);
    int64_t (*counted)(void *user, int64_t index);
} lks_dataset_ops;
LKS_API LKS_MUSTUSE lks_status lks_dataset_create(lks_dataset **out, lks_context *context,
                                                  const char *name, const lks_dataset_ops *ops,
                                                  void *user);

/* Arrays in memory, borrowed until the data set is destroyed: x is [samples][shape], y is
 * int32_t [samples] (or int32_t or float [samples][target_shape]). */
LKS_API LKS_MUSTUSE lks_status lks_dataset_from_arrays(lks_dataset **out, lks_context *context,
                                                       const lks_dataset_info *info, const void *x,
                                                       const void *y);

/*
 * IDX files: images (or any u8 samples) and labels, plain or .gz, read by mmap where plain. Every
 * label is checked to be below `classes` (0: the largest label + 1). `labels` NULL: images alone, to
 * predict from; every target is 0. One channel is added to 2-dimensional samples: rows, columns, 1.
 */
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_idx(lks_dataset **out, lks_context *context,
                                                    const char *images, const char *labels,
                                                    int64_t classes);

/*
 * The same of NumPy's .npy files. Samples: uint8, other integers from 0 to 255, or floats, which become F32; rows,
 * columns, channels, or channels first where they look like it (1 to 4 and less than both others, and the last
 * more than 4). Labels: integers, one a sample; at most 65,536 classes.
 */
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_npy(lks_dataset **out, lks_context *context,
                                                    const char *images, const char *labels,
                                                    int64_t classes);

/*
 * Pictures to predict from: a JPEG or PNG file, or all in a folder and below it in the order of their paths, resized as
 * `lockstep data pack` does to shape: height, width, 3 channels or 1 (Pillow's "L"). Files are opened when read; targets are 0.
 */
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_pictures(lks_dataset **out, lks_context *context,
                                                         const char *what, const lks_shape *shape,
                                                         int64_t classes);

/*
 * The training or the test split that lies in a folder, in the first format that it has anything of. IDX files:
 * train-images-idx3-ubyte and train-labels-idx1-ubyte, t10k-... or test-...; idx2 to idx5 by the dimensions of
 * the images; with '-' or '.' before "idx", plain preferred to .gz; in the folder or where torchvision puts
 * them, such as folder/MNIST/raw. CIFAR-10 and CIFAR-100: the binary or the Python version, files or the archive
 * as published. pictures.packed, of `lockstep data pack`. NumPy's arrays as x_train.npy, y_train.npy and the like
 * (docs/program.md), or in an .npz archive, whose own path may be given for the folder. `classes` 0: the largest
 * training label + 1, for both splits; 20: CIFAR-100's coarse ones.
 */
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_folder(lks_dataset **out, lks_context *context,
                                                       const char *folder, bool test_split,
                                                       int64_t classes);
/* The same with the 10 classes of MNIST and its like. */
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_mnist(lks_dataset **out, lks_context *context,
                                                      const char *folder, bool test_split);
/* Whether a folder has anything of the split, be it complete or not. */
LKS_API bool lks_dataset_folder_has(const char *folder, bool test_split);

/*
 * The embedded data set: digits drawn by code, 28x28x1 u8, 10 classes, sample by sample on demand.
 * A function of the seed alone. 60,000 for training and 10,000 for testing by default.
 */
typedef struct lks_digits_opts {
    uint64_t seed;   /* default 0 */
    int64_t samples; /* default 60,000, or 10,000 with `test` */
    bool test;       /* the test split: other samples from the same distribution */
} lks_digits_opts;
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_digits(lks_dataset **out, lks_context *context,
                                                       const lks_digits_opts *opts);

/* Samples [first, first + count) of `base`, which must outlive it: a validation split. */
LKS_API LKS_MUSTUSE lks_status lks_dataset_slice(lks_dataset **out, lks_dataset *base,
                                                 int64_t first, int64_t count);

/* Holds `count` samples of `base` back, drawn by the seed of its context (the last of the permutation
 * of epoch -1): a validation split of data in any order. Both parts keep the order of `base`, which
 * must outlive them. */
LKS_API LKS_MUSTUSE lks_status lks_dataset_split(lks_dataset **rest, lks_dataset **held,
                                                 lks_dataset *base, int64_t count);

/* The number of sample `index` in the data set that was opened, of which this one is a part, or of a series the row that
 * its target begins at; -1: there is no such sample. */
LKS_API int64_t lks_dataset_position(const lks_dataset *dataset, int64_t index);

/* Writes a data set of u8 samples and class targets as IDX files that other programs read. The
 * files appear whole or not at all. */
LKS_API LKS_MUSTUSE lks_status lks_dataset_write_idx(lks_dataset *dataset, const char *images,
                                                     const char *labels);

LKS_API void lks_dataset_destroy(lks_dataset *dataset); /* NULL is fine */
LKS_API lks_dataset_info lks_dataset_get_info(const lks_dataset *dataset);
LKS_API const char *lks_dataset_name(const lks_dataset *dataset); /* for messages */
/* The name of a class, as long as the data set lives; NULL: it has none. */
LKS_API const char *lks_dataset_class(const lks_dataset *dataset, int64_t number);
/* What a target of data without classes stands for: a network that learns standardised ones answers
 * (value - mean) / deviation, else the value. Mean and deviation are those of the training. */
typedef struct lks_unit {
    const char *name;
    double mean, deviation;
    bool standardised;
} lks_unit;
/* [elements of target_shape], as long as the data set lives; NULL: it says nothing of them. */
LKS_API const lks_unit *lks_dataset_units(const lks_dataset *dataset);
/* The name of a sample, such as its file, as long as the data set lives; NULL: it has none. */
LKS_API const char *lks_dataset_sample(const lks_dataset *dataset, int64_t index);
LKS_API LKS_MUSTUSE lks_status lks_dataset_read(lks_dataset *dataset, int64_t index, void *x,
                                                void *y);
/* Identity of the data: a hash over the info and all samples and targets. Reads everything. */
LKS_API LKS_MUSTUSE lks_status lks_dataset_hash(lks_dataset *dataset, uint64_t *out);

/* What can be done to a training image before the network sees it: X(KIND, name), in the order of help. */
#define LKS_AUGMENTATIONS(X)                                                                       \
    X(CROP, crop)                                                                                  \
    X(FLIP, flip)                                                                                  \
    X(ROTATE, rotate)                                                                              \
    X(TRANSLATE, translate)                                                                        \
    X(RESIZED_CROP, resized_crop)                                                                  \
    X(CUTOUT, cutout)                                                                              \
    X(JITTER, jitter)

#define LKS_KIND(KIND, name) LKS_AUGMENT_##KIND,
typedef enum lks_augmentation_kind { LKS_AUGMENTATIONS(LKS_KIND) } lks_augmentation_kind;
#undef LKS_KIND
/* What is seen beyond the border: black, or the image as in a mirror that stands on its last pixel. */
typedef enum lks_fill { LKS_FILL_ZERO, LKS_FILL_REFLECT } lks_fill;
typedef enum lks_interpolation { LKS_NEAREST, LKS_BILINEAR } lks_interpolation;
typedef enum lks_flip { LKS_FLIP_RANDOM, LKS_FLIP_ALTERNATING } lks_flip;

/*
 * One of them; zero members are the default. What it makes of an image is a function of (seed, epoch,
 * sample), with the same bits everywhere: docs/numerics.md has draws, formulas and rounding.
 *   CROP   pads by `padding` on every side, and takes one of the places that the image then has, all alike
 *   FLIP   mirrors left and right: RANDOM with `probability`, anew every epoch; ALTERNATING every second
 *          epoch, half of the images (drawn once) in the even ones (K. Jordan: "94% on CIFAR-10 in 3.29
 *          seconds on a single GPU", 2024)
 *   ROTATE about the centre, by up to `degrees` either way; black beyond the border
 *   TRANSLATE     by up to pixels[0] rows and pixels[1] columns
 *   RESIZED_CROP  a part of at least `scale` of the area, with sides in a ratio of at most `ratio`, enlarged
 *   CUTOUT a square of `size` has the byte `value`, at a border a part of it (T. DeVries, G. W. Taylor, 2017)
 *   JITTER changes brightness, contrast, saturation and hue, each by up to so much; images of 3 channels
 */
typedef struct lks_augmentation {
    lks_augmentation_kind kind;
    int64_t padding;                 /* CROP: default 4; less than rows and columns */
    lks_fill fill;                   /* CROP, TRANSLATE */
    lks_flip mode;                   /* FLIP */
    double probability;              /* FLIP, RANDOM: default 0.5 */
    double degrees;                  /* ROTATE: default 15, at most 180 */
    lks_interpolation interpolation; /* ROTATE */
    int64_t pixels[2];               /* TRANSLATE: default 4, 4; less than rows and columns */
    double scale, ratio;             /* RESIZED_CROP: default 0.08, 4/3 */
    int64_t size, value;             /* CUTOUT: default 8, 0 */
    double brightness, contrast, saturation,
        hue; /* JITTER: at most 1, 1, 1, 0.5; one of them is required */
} lks_augmentation;

/* Whether it can be done to such samples: rows, columns, channels of bytes. */
LKS_API LKS_MUSTUSE lks_status lks_augmentation_check(const lks_augmentation *augmentation,
                                                      const lks_dataset_info *info);

/* A sample that is mixed with another: `weight` of what it should answer is this class, the rest that of y. */
typedef struct lks_mix {
    int32_t label;
    float weight; /* 0 to 1 */
} lks_mix;

/* One global batch, or a part of it; pointers are borrowed until the next call on the loader. */
typedef struct lks_batch {
    const void *x;      /* [count][shape] */
    const void *y;      /* int32_t [count], or int32_t or float [count][target_shape] */
    const int64_t *ids; /* [count]: sample numbers in the data set */
    int64_t count;      /* samples; the last batch of an epoch may be short */
    int64_t epoch;      /* from 0 */
    int64_t index;      /* batch within the epoch, from 0 */
    int64_t first;      /* in a part: the place of its first sample in the global batch, */
    int64_t whole;      /* and how many samples that has; 0: count, it is all here */
    const lks_mix *mix; /* [count], of losses over classes; NULL: nothing is mixed */
    int64_t counted;    /* of classes at positions: how many of the global batch's are one, which a
                        part has to say; 0: those of a batch that is whole are looked for */
    bool continues; /* every sample goes on where the one at its place in the batch before ended, as
                        a layer with carry_state does; default: samples begin, and what is carried is zero */
} lks_batch;

typedef struct lks_loader lks_loader;

typedef struct lks_loader_opts {
    int64_t global_batch; /* required; nothing must divide by it */
    bool in_order;        /* default: a new order every epoch, the keyed permutation */
    bool drop_last;       /* leave out the short last batch */
    int threads;          /* reading threads, default 1; -1: read in lks_loader_next() itself */
    int ahead;            /* batches read ahead, default 2 */
    /* Of a batch of n samples only those from first_share * n / shares to last_share * n / shares, as
     * replicas share a batch: all that a process needs that has some of the replicas. Default: all. */
    int64_t shares, first_share, last_share;
    /* Done to every sample, one after the other, by the thread that reads it, drawn by the seed of the
     * context, the epoch, and lks_dataset_position(); copied. Default: none. */
    const lks_augmentation *augment;
    int augmentations;
    /* Behind that, where it is above 0, every sample is mixed with another one of the data set as the epoch sees it,
     * which, and in which shares, drawn in the same way: a share is Beta(mixup, mixup) (H. Zhang, M. Cisse, Y. Dauphin,
     * D. Lopez-Paz: "mixup: Beyond Empirical Risk Minimization", 2018). y has the class with the larger share, mix
     * the other. For targets that are classes; at most 1,000. */
    double mixup;
} lks_loader_opts;

/* Borrows the data set. A loader is one thread's at a time; behind a fork one that has reading threads
 * answers LKS_E_STATE. The order of samples is a function of (seed of the context, epoch) alone. */
LKS_API LKS_MUSTUSE lks_status lks_loader_create(lks_loader **out, lks_context *context,
                                                 lks_dataset *dataset, const lks_loader_opts *opts);
/* Whether its batches, but for the first of each epoch, are what lks_batch.continues says: columns in order,
 * as many as a batch has samples. */
LKS_API bool lks_loader_continues(const lks_loader *loader);
LKS_API void lks_loader_destroy(lks_loader *loader);
LKS_API const lks_dataset *lks_loader_dataset(const lks_loader *loader);
LKS_API int64_t lks_loader_batches(const lks_loader *loader); /* in one epoch */
/* The next batch; after an epoch's last comes the next epoch's first, without end. */
LKS_API LKS_MUSTUSE lks_status lks_loader_next(lks_loader *loader, lks_batch *out);
/* The next batch will be number `batch` since the beginning: resuming is a seek. */
LKS_API LKS_MUSTUSE lks_status lks_loader_seek(lks_loader *loader, int64_t batch);
/* From the next batch on these shares (lks_model_info has them, where a model's balance has changed its own);
 * no batch is left out or comes twice. A loader that was made with another number of shares, or with none,
 * stays as it is, and so does one behind a failure. */
LKS_API LKS_MUSTUSE lks_status lks_loader_share(lks_loader *loader, int64_t shares,
                                                int64_t first_share, int64_t last_share);

#ifdef __cplusplus
}
#endif
#endif
