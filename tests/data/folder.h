/* A context, and a folder for a test's files. */
#ifndef LKT_DATA_FOLDER_H
#define LKT_DATA_FOLDER_H

#include <lockstep/data.h>

#include "support/test.h"

static lks_context *context;
static const char *folder;

static int set_up(void **state)
{
    (void)state;
    folder = lkt_make_folder();
    return lks_context_create(&context, NULL) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    lkt_remove_folder();
    return 0;
}

#endif
