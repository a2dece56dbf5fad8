/* The folder of a test's checkpoints, new for each test. */
#ifndef LKT_TRAIN_FOLDER_H
#define LKT_TRAIN_FOLDER_H

#include "support/test.h"

static char folder[4200];

static inline int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/run", lkt_make_folder());
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

#endif
