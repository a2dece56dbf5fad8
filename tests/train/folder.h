/* The folder of a test's checkpoints, new for each test. */
#ifndef LKT_TRAIN_FOLDER_H
#define LKT_TRAIN_FOLDER_H

#include <stdbool.h>
#include <unistd.h>

#include "support/test.h"

enum { FOLDER_PATH = 8500 }; /* longer than a system takes */

static char folder[4200];

static inline int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/run", lkt_make_folder());
    return 0;
}

static inline const char *in_folder(const char *name)
{
    static char path[FOLDER_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline bool there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

static inline void write_file(const char *name, const void *data, size_t bytes)
{
    unlink(in_folder(name));
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
