/* A model with options of training. */
#ifndef LKT_OPTIM_OPTIONS_H
#define LKT_OPTIM_OPTIONS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/tiny.h"

static void read_all(tiny *t, const char *name, float *out)
{
    const int index = lks_model_state_find(t->model, name);
    assert_true(index >= 0);
    LKT_OK(lks_model_state_read(t->model, index, out, lks_model_state_info(t->model, index).bytes));
}

#endif
