/*
 * The inside of a data set. There are two kinds:
 *
 *   in memory   x -> [sample first][sample first + 1] ...    arrays, IDX files
 *               y -> [target first][target first + 1] ...
 *   on demand   read(user, first + index, x, y)              callbacks, digits
 *               read_epoch(user, epoch, first + index, x, y)
 *
 * A slice is a copy of its base with another `first` and no `close`; a part of a split has a list of
 * its samples' positions, too, in which `first` then counts.
 */
#ifndef LKI_DATA_DATASET_H
#define LKI_DATA_DATASET_H

#include <lockstep/text.h>

struct lks_dataset {
    lks_context *context;
    lks_dataset_info info;
    size_t x_bytes, y_bytes; /* of one sample, of one target */
    int64_t first;           /* a slice starts here; else 0 */
    const int64_t *position; /* of the samples, in a part of a split; else NULL */
    int64_t positions;       /* how many of them this one has to free; 0: none */
    int64_t row,
        stride; /* of a series: of the base's first target, and to the next sample's; stride 0: none */
    const uint8_t *x; /* in memory: all samples of the base, or NULL */
    const uint8_t *y; /* all targets, as a batch wants them: int32_t or float */
    lks_status (*read)(void *user, int64_t index, void *x, void *y); /* where x is NULL */
    lks_status (*read_epoch)(void *user, int64_t epoch, int64_t index, void *x,
                             void *y);             /* in its place, or NULL */
    int64_t (*counted)(void *user, int64_t index); /* or NULL */
    void (*close)(void *user);                     /* may be NULL */
    void *user;
    const char *const *class_name; /* [classes_named], or NULL */
    int64_t classes_named;
    const lks_unit *unit; /* of targets that are floats, or NULL */
    const char *const *
        sample_name; /* of all samples of the base, of a series of all rows and the one behind; or NULL */
    const lks_tokenizer
        *tokenizer;   /* of a text, or of a table's texts, which are in memory; or NULL */
    uint64_t content; /* stands for all samples of the base in its hash; 0: they are read */
    char name[256];
};

/* A data set in memory. `close` (may be NULL) releases `user`; on failure it is not called. */
lks_status lki_dataset_in_memory(lks_dataset **out, lks_context *context, const char *name,
                                 const lks_dataset_ops *ops, void *user, const void *x,
                                 const void *y);

/* Names for the first `count` classes, borrowed as long as the data set and its parts live. */
void lki_dataset_name_classes(lks_dataset *dataset, const char *const *names, int64_t count);

/* The same for every sample. */
void lki_dataset_name_samples(lks_dataset *dataset, const char *const *names);

enum { LKI_NO_EPOCH = -1 }; /* a sample as it is */

/* Positions of the sample's target that have a class; of others 1. */
int64_t lki_dataset_counted(const lks_dataset *dataset, int64_t index);

/* A sample as it is in an epoch, without a check of `index`. Errors name data set and sample. */
lks_status lki_dataset_fetch(const lks_dataset *dataset, int64_t epoch, int64_t index, void *x,
                             void *y);

#endif
