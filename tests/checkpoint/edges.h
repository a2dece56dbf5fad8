/* Files at their edges. */
#ifndef LKT_CHECKPOINT_EDGES_H
#define LKT_CHECKPOINT_EDGES_H

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numeric/hash.h"
#include "train/folder.h"
#include "train/saved.h"
#include "train/tiny.h"

static void write_file(const char *name, const void *data, size_t bytes)
{
    unlink(in_folder(name));
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
