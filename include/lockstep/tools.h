/*
 * What only tools want, such as the verbs of the program `lockstep`. Nothing here belongs to what a
 * version number promises: with any version functions may change, or go (docs/compatibility.md).
 */
#ifndef LOCKSTEP_TOOLS_H
#define LOCKSTEP_TOOLS_H

#include <lockstep/recipe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- texts */

/* The shortest decimal that reads back as the same number, 1 as 1.0; a count as "60,000"; "28x28x1". */
LKS_API const char *lks_text_number(char out[32], double number);
LKS_API const char *lks_text_count(char out[32], int64_t count);
LKS_API const char *lks_shape_text(char *out, size_t size, const lks_shape *shape);
LKS_API bool lks_shape_equal(const lks_shape *a, const lks_shape *b);

/* ---- the machine */

/* What the machine gives this process. */
typedef struct lks_machine {
    int cpus;       /* in the affinity mask; at least 1 */
    int cores;      /* physical cores that they belong to; at least 1 */
    int quota;      /* CPU quota of the control groups in whole cores, rounded up; 0: none */
    int64_t memory; /* limit of the control groups in bytes; 0: none */
} lks_machine;

/* `root` stands before /proc and /sys, to read a copy of them; NULL: the machine's own. */
LKS_API lks_machine lks_machine_get(const char *root);

/* The libraries in use with their versions, as they tell them: "zlib 1.2.13, xxHash 0.8.1". Those
 * of a device are in its fingerprint. */
LKS_API void lks_libraries(char *out, size_t size);

/* ---- ranks */

/* Who started this process with how many others, by the variables that launchers set. */
typedef struct lks_launch {
    const char *launcher; /* "mpirun (Open MPI)"; NULL: none that is known */
    const char *variable; /* that says so */
    const char *alone;    /* how to start one process by it, with all the cores */
    int64_t size, rank;   /* -1: it does not say */
} lks_launch;
LKS_API lks_launch lks_launch_get(void);

/* What carries bytes to another rank. */
enum { LKS_LINK_MEMORY = 8 << 20 };
typedef struct lks_link {
    int rank;
    bool common;      /* they have memory in common: as much as above of each was tried */
    double latency;   /* seconds that 8 bytes take one way: half of the median trip */
    double bandwidth; /* bytes a second of a mebibyte one way, the best */
} lks_link;
/* Measures links to `most` other ranks (equal on all) or to all; out[most] has those of this one. Every rank has
 * a partner at a time, so that links are measured as a step uses them. Collective. */
LKS_API LKS_MUSTUSE lks_status lks_comm_measure(lks_comm *comm, lks_link *out, int most,
                                                int *count);
/* How far the time of day here is ahead of rank 0's, in seconds, and how wrong that may be. Collective. */
LKS_API LKS_MUSTUSE lks_status lks_comm_clock(lks_comm *comm, double *ahead, double *error);
/* Whether it would be noticed that this rank is lost (lks_comm_opts.watch_s). */
LKS_API bool lks_comm_watched(const lks_comm *comm);
/* Workers that this rank has by default: its cores, or its part of those that ranks of its host share. */
LKS_API int lks_comm_cores(const lks_comm *comm);

/* The modules for MPI that this program finds, best first: returns how many there are, and fills in up to
 * `most`. `searched` (may be NULL) gets the folders. To ask one for its MPI, "Open MPI 4.1.4", loads it. */
typedef struct lks_mpi_module {
    char path[512];
    char name[64]; /* "openmpi" of ".../liblockstep-openmpi.so" */
} lks_mpi_module;
LKS_API int lks_mpi_modules(lks_mpi_module *out, int most, char *searched, size_t size);
LKS_API LKS_MUSTUSE lks_status lks_mpi_library(char *out, size_t size, const char *path);
LKS_API bool lks_mpi_loaded(void); /* Whether an MPI is in this process. */

/* ---- files of data */

/*
 * Checks one IDX file by itself: its gzip data to the end, a header that makes sense, as many bytes as
 * that promises, and of labels that each is below `classes` (0: it is a file of images).
 */
typedef struct lks_idx_info {
    int64_t count;   /* images or labels */
    lks_shape shape; /* of an image as the file has it, without a channel added; of a label () */
    bool packed;     /* by gzip */
    int64_t values[256]; /* how often each byte occurs among the pixels or labels */
} lks_idx_info;
LKS_API LKS_MUSTUSE lks_status lks_idx_check(lks_idx_info *out, lks_context *context,
                                             const char *path, int64_t classes);
/* For looking at the files: `path` of the number-th (from 0, best first) in `folder` itself that may be the images or the
 * labels of a split; false: there are not so many. And the places below a folder where they may lie: "", ..., or NULL. */
LKS_API bool lks_idx_find(char *path, size_t size, const char *folder, bool test_split, bool labels,
                          int number);
LKS_API const char *lks_idx_place(int number);
enum { LKS_NPY_HEAD = 512 }; /* What an .npy file of floats begins with, and how long that is. */
LKS_API size_t lks_npy_head(uint8_t out[LKS_NPY_HEAD], int64_t rows, int64_t columns);

/*
 * Packs pictures of one's own into a file that lks_dataset_open_folder() reads: JPEG and PNG become red, green and blue
 * of one size (Pillow's bilinear resizing, antialiased). `what` is a folder with a folder for each class, or with such
 * ones in train and in val (valid, validation, test), or a CSV file of files and classes. The bytes of the file follow
 * from pictures and options, not from threads. A call that did not come to its end is gone on with by the next one.
 */
typedef struct lks_pack_opts {
    const char *out;   /* folder for the file, made where it is missing */
    int width, height; /* 1 to 2048 */
    double
        split; /* holds this share of each class back as test pictures, where there are none; below 1 */
    uint64_t seed; /* draws them */
    bool
        skip_bad; /* leaves bad pictures out; default: they are an error, and nothing is finished */
    int threads;  /* default: one for each CPU */
    /* Ten times a second, by the calling thread; false ends it: LKS_E_STOPPED. May be NULL. */
    bool (*progress)(void *user, int64_t done, int64_t all);
    void (*bad)(void *user, const char *path,
                const char *reason); /* at the end; at once for folders without any; may be NULL */
    void *user;
} lks_pack_opts;
typedef struct lks_pack_result {
    int64_t samples[2]; /* packed for training, for testing */
    int64_t classes;
    int64_t bad;    /* left out */
    int64_t kept;   /* packed by an earlier call */
    int64_t others; /* files that are no pictures by their names */
    int64_t bytes;  /* of the file */
    char how[256];  /* how classes and splits were found, for people */
} lks_pack_result;
LKS_API LKS_MUSTUSE lks_status lks_pack_pictures(lks_pack_result *out, lks_context *context,
                                                 const char *what, const lks_pack_opts *opts);

/* ---- shards */

/* Mean and deviation of each column of data.shards, samples' and targets', over the rows of the training that the recipe
 * says, in a file beside the data: trainings with the same rows take them from there. The same bits for any number of
 * threads (0: one for each core), and of ranks, where the recipe has some: all call it. */
typedef struct lks_shards_stats {
    int64_t rows, all_rows; /* of the training, and there are */
    int64_t columns[2];     /* of samples and targets */
    int64_t constant;       /* of these have one value only */
    double seconds;
    char path[4096]; /* NumPy's, float64, shape (2, columns): means, deviations */
} lks_shards_stats;
LKS_API LKS_MUSTUSE lks_status lks_recipe_measure_shards(lks_shards_stats *out, lks_recipe *recipe,
                                                         lks_context *context, int threads);

/*
 * Shards as data.shards reads them (docs/shards.md): of two .npy files or datasets of HDF5 files ("x.h5:/x"), whose rows are
 * samples and their targets, any numbers, which become float32; or of drawn columns of air, 4,128 inputs and 552 fluxes each.
 * Files appear whole or not at all; a call that did not come to its end is gone on with by the next one. Their bytes follow
 * from the numbers, not from threads or ranks.
 */
typedef struct lks_shards_opts {
    const char *out; /* folder, made where it is missing */
    int64_t rows;    /* of a shard; default 320 */
    int threads;     /* default: one for each core */
    uint64_t seed;   /* of drawn columns */
    lks_comm *
        comm; /* its ranks make them together, all with the same arrays and options; NULL: this process alone */
    /* Behind some shards, by the calling thread; false ends it: LKS_E_STOPPED. May be NULL. */
    bool (*progress)(void *user, int64_t done, int64_t all);
    void *user;
} lks_shards_opts;
typedef struct lks_shards_result {
    int64_t rows, columns[2], shards, bytes;
    int64_t kept; /* shards that an earlier call had written */
} lks_shards_result;
LKS_API LKS_MUSTUSE lks_status lks_shards_cut(lks_shards_result *out, lks_context *context,
                                              const char *samples, const char *targets,
                                              const lks_shards_opts *opts);
LKS_API LKS_MUSTUSE lks_status lks_shards_draw(lks_shards_result *out, lks_context *context,
                                               int64_t rows, const lks_shards_opts *opts);

/* ---- where the time of a step goes, and what the cores could do at most */

/*
 * From now on lks_model_step() measures where its time goes, with clock_gettime() and in memory that
 * is allocated here; counting starts at zero. It changes no bit of a run. lks_profile_stop() ends
 * it, and what was counted can still be read.
 */
LKS_API LKS_MUSTUSE lks_status lks_profile_start(lks_model *model);
LKS_API void lks_profile_stop(lks_model *model);

typedef struct lks_profile {
    int64_t steps, samples;
    double seconds; /* in lks_model_step() */
    int rows;
} lks_profile;
LKS_API lks_profile lks_profile_total(const lks_model *model); /* zero: never started */

/*
 * Where the time went, row by row: seconds of all rows together are those of the total. A worker's
 * time from the call of a step to its return is in one of its rows.
 */
typedef struct lks_profile_row {
    int stage;        /* 0 .. lks_model_stages() - 1; -1: of no stage */
    const char *pass; /* forward, backward, rows (gradients by rows), update, prepare; start, tree,
                           metrics, wait gradients, wait parameters, hash, end */
    int64_t calls;    /* of all workers */
    double seconds;   /* mean over workers */
    double flops;     /* of all workers: two for each multiply-add of the definition, also where a
                           kernel skips zeros; 0: none */
    double bytes;     /* that all workers together read and write at least; 0: not counted */
} lks_profile_row;
LKS_API lks_profile_row lks_profile_get(const lks_model *model, int row);

/* The stages of a compiled model: a kernel and the layers that it computes. */
LKS_API int lks_model_stages(const lks_model *model);
/* Layer `index` of a stage, from 0; NULL: it has no more. */
LKS_API const lks_tensor *lks_model_stage_layer(const lks_model *model, int stage, int index);

/* A buffer of this size holds any such line; of a list that is too long, 64 values and "... (136 more)". */
#define LKS_LINE_SIZE 2560

/* The operation that makes a tensor, as `lockstep op` reads it: "conv2d filters=32 kernel=3x3
 * in=8x28x28x1", for so many samples (0: without `in`). Returns buffer. */
LKS_API const char *lks_tensor_line(const lks_tensor *tensor, int64_t samples, char *buffer,
                                    size_t size);

/*
 * One operation alone: the context's device against ref, on random numbers in [-1, 1) and on others in
 * [0, 1), whose sums grow; and its speed on the calling thread.
 */
typedef struct lks_op_error {
    char what[64];       /* "output", "gradient of weight" */
    double error, bound; /* of the element that is the farthest in units of its bound; the bound is
                              derived from the order of sums in docs/numerics.md */
    double share;        /* error / bound: at most 1 where all is well */
} lks_op_error;

typedef struct lks_op_time {
    const char *pass; /* forward, backward, rows (gradient of the parameters by rows) */
    int runs;
    double median, least, most; /* seconds, of all samples */
    double flops, bytes;        /* as in lks_profile_row */
} lks_op_time;

typedef struct lks_op_report {
    bool good; /* every error is within its bound */
    lks_op_error errors[12];
    int error_count;
    lks_op_time times[3];
    int time_count;
    double peak;        /* of the thread, as lks_peak() measures it */
    int64_t slice;      /* samples that the kernel takes at a time */
    char algorithm[48]; /* that the kernel chose; may be empty */
} lks_op_report;

/* Checks and times the operation that makes `tensor`, with inputs of the shapes that its graph gives
 * them, for about `seconds` each pass. */
LKS_API LKS_MUSTUSE lks_status lks_op_check(lks_op_report *out, lks_context *context,
                                            const lks_tensor *tensor, int64_t samples,
                                            double seconds);

/* Floating-point operations a second of so many threads, each with fused multiply-adds in registers
 * alone (two operations each), measured for `seconds`. */
LKS_API LKS_MUSTUSE lks_status lks_peak(double *flops, lks_context *context, int threads,
                                        double seconds);

/* ---- recipes */

/* The steps of lks_recipe_train(), for who talks in between: takes the folder of checkpoints, which
 * lks_recipe_start() does too; trains alone. *complete (may be NULL): the run has its hash, by its end,
 * a stop, or where but the last checkpoint could not be saved. Then weights and record are written. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_lock(lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_run(lks_recipe *recipe, const lks_train_events *events,
                                              const lks_run **run, bool *complete);

/* What classes were taken for: sums over samples, so that any number of processes has the same. */
typedef struct lks_class_counts {
    int64_t classes;
    int64_t *right, *given, *there; /* [classes], as lks_rates_of() takes them */
    int64_t *confusion;             /* [class][class that it was given], or NULL */
} lks_class_counts;
/* All 0, with the matrix or without. Free it, also after a failure. */
LKS_API LKS_MUSTUSE lks_status lks_class_counts_make(lks_class_counts *out, int64_t classes,
                                                     bool matrix);
LKS_API void lks_class_counts_free(lks_class_counts *counts);
/* The class that a sample is given: the first of the largest outputs. */
LKS_API int64_t lks_class_given(const float *output, int64_t classes);
/* One sample; nothing where no output stands for its class. */
LKS_API void lks_class_counts_add(lks_class_counts *counts, int64_t label, int64_t given);
/* Of all processes, without the matrix; and the matrix. Collective. */
LKS_API LKS_MUSTUSE lks_status lks_class_counts_sum(lks_class_counts *counts, lks_comm *comm);
LKS_API LKS_MUSTUSE lks_status lks_class_counts_sum_matrix(lks_class_counts *counts,
                                                           lks_comm *comm);

/* As lks_recipe_evaluate(), and in the same pass each sample of this process as lks_recipe_predict() tells them; `each`
 * may be NULL. Collective. */
LKS_API LKS_MUSTUSE lks_status
lks_recipe_evaluate_each(lks_recipe *recipe, lks_dataset *dataset, lks_metrics *out,
                         void (*each)(void *user, const lks_prediction *prediction), void *user);

/* Of a target of data without classes, in its own units: R2 = 1 - sum (y - out)^2 / sum (y - mean y)^2, mean absolute
 * error, root of the mean square error; NaN where that is none. `out` has one for each; the same on all processes. */
typedef struct lks_fit {
    const char *name; /* NULL: it has none */
    double r2, mae, rmse;
} lks_fit;
LKS_API LKS_MUSTUSE lks_status lks_recipe_fits(lks_recipe *recipe, lks_dataset *dataset,
                                               lks_metrics *sum, lks_fit *out);

/* What each process of several does, the same on all: gathered behind every epoch, and where steps have a link of the hash
 * chain; counted since the epoch began. NULL: of one process, or nothing yet. [*count], after *step; both may be NULL. */
typedef struct lks_pace {
    double samples_per_second, tokens_per_second; /* of its part of batches */
    double waited; /* share of the time of its steps in which it waited for others */
    int64_t peak_rss_bytes;
} lks_pace;
LKS_API const lks_pace *lks_recipe_paces(const lks_recipe *recipe, int *count, int64_t *step);

/* The files of model.save and of log.record, or NULL; and the record, written as at the end of a training. */
LKS_API const char *lks_recipe_weights(lks_recipe *recipe);
LKS_API const char *lks_recipe_record_file(const lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_save_record(const lks_recipe *recipe);
/* Its record counts from here: this much time was over before this call. */
LKS_API void lks_recipe_clock(lks_recipe *recipe, double seconds, const char *from);

/* LKS_E_MISMATCH where the training data that is open is not what the run in checkpoint.path had at a
 * step; weights of a file (step -1) do not tell. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_check_samples(lks_recipe *recipe, int64_t step);

/* A key of the recipe: whether it is set; whether by lks_recipe_set() or an option, not by its file or a
 * default; its value, which must have that type. A text that is not set is NULL. */
LKS_API bool lks_recipe_has(const lks_recipe *recipe, const char *key);
LKS_API bool lks_recipe_given(const lks_recipe *recipe, const char *key);
LKS_API int64_t lks_recipe_int(const lks_recipe *recipe, const char *key);
LKS_API double lks_recipe_float(const lks_recipe *recipe, const char *key);
LKS_API bool lks_recipe_bool(const lks_recipe *recipe, const char *key);
LKS_API const char *lks_recipe_text(const lks_recipe *recipe, const char *key);
/* Sets it from an option: a text is taken as it is. Sentences name `where`, "--workers". */
LKS_API LKS_MUSTUSE lks_status lks_recipe_option(lks_recipe *recipe, const char *key,
                                                 const char *text, const char *where);
/* LKS_E_INVALID "<where it was set>: <key> <sentence>". */
LKS_API lks_status lks_recipe_fail(const lks_recipe *recipe, const char *key, const char *format,
                                   ...) LKS_PRINTF(3, 4);
/* The names of the configurations in a file, a line for each; "" where it is one without a name; free() it. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_names(const char *path, char **out);
/* Every key with its value as JSON, as checkpoints keep it; free() it. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_json(lks_recipe *recipe, char **out);
/* The first key whose values make two runs of them, or NULL. */
LKS_API const char *lks_recipe_difference(const lks_recipe *a, const lks_recipe *b);

/* For recipes that are not resolved: calls data that has a folder, but no name, as the folder is called;
 * where the data is, or is looked for (NULL: there is no home); the whole training or test split. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_name_data(lks_recipe *recipe);
LKS_API const char *lks_recipe_folder(lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_dataset(lks_dataset **out, lks_recipe *recipe,
                                                  lks_context *context, bool test);
/* The validation data that is apart from the training's, as a text may have; NULL: there is none. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_valid_dataset(lks_dataset **out, lks_recipe *recipe,
                                                        lks_context *context);
/* Whether there is test data. */
LKS_API bool lks_recipe_has_test(lks_recipe *recipe);
/* Sets what data.augment and data.mixup say of a loader; the list is there as long as the recipe is open. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_augment(lks_recipe *recipe, lks_loader_opts *out);
/* Makes a folder, with its parents, where it is missing, and sees that files can be written there. */
LKS_API LKS_MUSTUSE lks_status lks_folder_make(const char *path);
/* The operation of a line such as "conv2d filters=32 kernel=3 in=8x28x28x1", in a graph of its own. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_line(lks_tensor **out, int64_t *samples,
                                               lks_recipe *recipe, lks_graph *graph,
                                               const char *line);

/* In the place of lks_recipe_open_data(): all rows of another table than data.table, as the run in checkpoint.path saw its
 * own: with its means and texts, which lie beside its checkpoints. It needs no targets. Destroyed before the recipe. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_open_table(lks_dataset **out, lks_recipe *recipe,
                                                     const char *path);
/* In the place of lks_recipe_open_data(): as if there were data like this. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_open_like(lks_recipe *recipe,
                                                    const lks_dataset_info *info);

/* Network `number` of the zoo, from 0, as it was published; false behind the last. */
typedef struct lks_network_info {
    const char *name, *what;
    lks_shape image;             /* of tokens: positions */
    int64_t classes, parameters; /* no parameters where the context is NULL */
    int64_t vocabulary;          /* of tokens; 0: x is an image */
    bool by_position;            /* it has classes at each position */
} lks_network_info;
LKS_API bool lks_network_get(lks_network_info *out, lks_context *context, int number);

/* What there is by name, and the options of each: for help, forms, documents. */
typedef enum lks_list {
    LKS_LIST_LAYERS, /* of model.layers, lks_graph_line() and, but for blocks, `lockstep op` */
    LKS_LIST_LOSSES,
    LKS_LIST_OPTIMIZERS,    /* with the members of lks_optim */
    LKS_LIST_AUGMENTATIONS, /* of data.augment, with those of lks_augmentation */
} lks_list;
typedef struct lks_option {
    const char *name;
    bool required;
    const char *standard; /* its default, as it would be typed; NULL: none */
    const char *help;     /* "" where the name says it */
    char expected[200];   /* "an integer of at least 1" */
} lks_option;
/* Number `number` of a list, from 0, and what it does in a few words (may be NULL); NULL behind the
 * last. And its options, in the order of help; false behind the last. */
LKS_API const char *lks_list_name(lks_list list, int number, const char **what);
LKS_API bool lks_list_option(lks_list list, int number, int option, lks_option *out);

#ifdef __cplusplus
}
#endif
#endif
