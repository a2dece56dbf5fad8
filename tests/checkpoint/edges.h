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

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
