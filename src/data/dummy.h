/* Random bytes as images, and random labels (torchvision's FakeData): a function of the options alone. */
#ifndef LKI_DATA_DUMMY_H
#define LKI_DATA_DUMMY_H

#include <lockstep/data.h>

/* 0: 100 training or 300 test samples of 224x224x3 in 1,000 classes. */
typedef struct lki_dummy_opts {
    uint64_t seed;
    int64_t samples, classes;
    lks_shape shape;
    bool test;
} lki_dummy_opts;
lks_status lki_dataset_open_dummy(lks_dataset **out, lks_context *context,
                                  const lki_dummy_opts *opts);

/* The picture of the toy network: a checkerboard, whose target is a one for the first class and zeros for the others.
 * So many samples, all alike, of height, width and channels; `outputs` numbers as the target. */
lks_status lki_dataset_open_checkerboard(lks_dataset **out, lks_context *context,
                                         const lks_shape *shape, int64_t outputs, int64_t samples);

#endif
