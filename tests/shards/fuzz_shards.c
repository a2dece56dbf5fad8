/*
 * Data in shards. Input: what metadata.json, config.yaml, x/0.npy and y/0.npy have, each but the last behind its length (two
 * bytes). Whatever opens has samples of its shape that can be read, mapped or not, or a sentence says why not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/recipe.h>

#include "fuzz/fuzz.h"

static char folder[] = "/tmp/fuzz-shards-XXXXXX";

static void clean_up(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (strncmp(folder, "/tmp/fuzz-shards-", 17) == 0) (void)!system(command);
}

static void make_folders(void)
{
    static const char *const below[] = {"/data", "/data/processed", "/data/processed/flattened-1",
                                        "/data/processed/flattened-1/x",
                                        "/data/processed/flattened-1/y"};
    char path[100];
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    atexit(clean_up);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        snprintf(path, sizeof path, "%s%s", folder, below[i]);
        FUZZ_CHECK(mkdir(path, 0700) == 0);
    }
}

static void write_file(const char *name, const uint8_t *data, size_t bytes)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

static void read_samples(lks_dataset *set)
{
    const lks_dataset_info info = lks_dataset_get_info(set);
    FUZZ_CHECK(info.samples > 0 && info.classes == 0 && info.dtype == LKS_F32);
    float *x = malloc((size_t)lks_shape_elements(&info.shape) * sizeof *x);
    float *y = malloc((size_t)lks_shape_elements(&info.target_shape) * sizeof *y);
    FUZZ_CHECK(x != NULL && y != NULL);
    for (int64_t i = 0; i < info.samples; i++) {
        const lks_status status = lks_dataset_read(set, i, x, y);
        if (status != LKS_OK) fuzz_check_failure(status);
    }
    free(x);
    free(y);
}

static void open_data(const char *more)
{
    char text[200];
    lks_recipe *recipe;
    snprintf(text, sizeof text, "data: {shards: %s%s}\nmodel: {name: mlp}\n", folder, more);
    FUZZ_CHECK(lks_recipe_open_text(&recipe, "input", text) == LKS_OK);
    const lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    if (status != LKS_OK)
        fuzz_check_failure(status);
    else
        read_samples(lks_recipe_get_parts(recipe).train);
    lks_recipe_close(recipe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"metadata.json", "config.yaml",
                                        "data/processed/flattened-1/x/0.npy",
                                        "data/processed/flattened-1/y/0.npy"};
    static bool made;
    if (!made) make_folders();
    made = true;
    for (int i = 0; i < 4; i++) {
        size_t length = bytes;
        if (i < 3) {
            if (bytes < 2) return 0;
            length = (size_t)data[0] | (size_t)data[1] << 8;
            data += 2;
            bytes -= 2;
            if (length > bytes) length = bytes;
        }
        write_file(names[i], data, length);
        data += length;
        bytes -= length;
    }
    open_data("");
    open_data(", standardize: false");
    return 0;
}
