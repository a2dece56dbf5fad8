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

#endif
