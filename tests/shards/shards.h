/* Shards in the test's folder, and recipes of them. */
#ifndef LKT_SHARDS_SHARDS_H
#define LKT_SHARDS_SHARDS_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/npy_files.h"
#include "data/numpy/npy.h"
#include "recipe/recipes.h"

enum { ROWS = 50, EACH = 8, SHARDS = 7, WIDTH = 5, TARGETS = 3 };

/* Element `column` of a row; targets are columns from WIDTH on. The last of the samples is always the same. */
static inline float element(int row, int column)
{
    if (column == WIDTH - 1) return 7;
    return (float)((row * 37 + column * 11) % 101) * (column == 1 ? 1e-6f : 0.25f) +
           (column == 2 ? 1e4f : 0);
}

/* A file of rows [first, first + rows) of samples (0) or targets (1). */
static inline void write_shard(int array, int shard, const char *type, int rows, int columns,
                               bool fortran, float nan_at_0)
{
    static bytes file;
    char shape[40], name[80];
    snprintf(shape, sizeof shape, "(%d, %d)", rows, columns);
    put_npy(&file, type, fortran, shape);
    if (shard % 2 == 0 && strcmp(type, "<f4") == 0 &&
        !fortran) { /* floats at their places in memory */
        uint8_t head[LKI_NPY_HEAD];
        const lki_npy npy = {.kind = LKI_NPY_FLOAT, .size = 4, .ndim = 2, .dim = {rows, columns}};
        file.count = 0;
        put(&file, head, lki_npy_write_head(head, &npy, 1));
    }
    for (int i = 0; i < rows * columns; i++) {
        const int row = shard * EACH + i / columns, column = i % columns + (array ? WIDTH : 0);
        const float value = i == 0 && nan_at_0 != 0 ? nan_at_0 : element(row, column);
        const double wide = (double)value;
        put(&file, strchr(type, '8') ? (const void *)&wide : &value, strchr(type, '8') ? 8 : 4);
    }
    snprintf(name, sizeof name, "s/data/processed/flattened-1000/%c/%d.npy", array ? 'y' : 'x',
             shard);
    write_bytes(in_folder(name), &file);
}

static inline int rows_of(int shard)
{
    return shard + 1 < SHARDS ? EACH : ROWS - (SHARDS - 1) * EACH;
}

#define METADATA                                                                                   \
    "{\"1000\": {\"flattened\": {\"dtype\": \"float32\", \"dataset_len\": 50, \"num_shards\": 7, " \
    "\"x_shape\": [8, 5], \"y_shape\": [8, 3]}}}"

static inline void make_folders(void)
{
    static const char *const folders[] = {"s",
                                          "s/data",
                                          "s/data/processed",
                                          "s/data/processed/flattened-1000",
                                          "s/data/processed/flattened-1000/x",
                                          "s/data/processed/flattened-1000/y"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        (void)mkdir(in_folder(folders[i]), 0777);
}

/* All that is right. */
static inline void write_shards(void)
{
    make_folders();
    for (int i = 0; i < SHARDS; i++) {
        write_shard(0, i, "<f4", rows_of(i), WIDTH, false, 0);
        write_shard(1, i, "<f4", rows_of(i), TARGETS, false, 0);
    }
    write_text("s/metadata.json", METADATA);
    write_text("s/config.yaml", "timestep: 1000\nnum_workers: 16\nloading_mode: efficient\n");
}

/* Opens data.shards with `keys`, the inside of a flow map, and `more` lines behind. */
static inline lks_status open_shards(lks_recipe **out, const char *keys, const char *more, int data)
{
    char text[1024];
    snprintf(text, sizeof text, "data: {shards: %s%s%s}\nmodel: {name: mlp, hidden: [6]}\n%s",
             in_folder("s"), keys[0] != '\0' ? ", " : "", keys, more);
    lks_status status = lks_recipe_open_text(out, "r", text);
    return status == LKS_OK ? lks_recipe_open_data(*out, data) : status;
}

#endif
