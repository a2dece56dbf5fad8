/*
 * Training from shards beside training from memory: samples a second of the loader alone, and of whole steps, with the same
 * samples from data.shards and from arrays that were filled from them before.
 *
 *   build/release/cli/lockstep data columns --rows 20480 --out columns
 *   build/release/tests/bench_shards CONFIG     (whose data.shards is that folder)
 *
 * The two take turns; each figure is the median of ROUNDS epochs, with the files in the page cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/recipe.h>

#include "base/context.h"

enum { ROUNDS = 7 };

static void try(lks_status status)
{
    if (status == LKS_OK) return;
    fprintf(stderr, "bench_shards: %s\n", lks_last_error()->message);
    exit(1);
}

static lks_dataset *copy_of(lks_context *context, lks_dataset *set)
{
    const lks_dataset_info info = lks_dataset_get_info(set);
    const size_t x = (size_t)lks_shape_elements(&info.shape),
                 y = (size_t)lks_shape_elements(&info.target_shape);
    float *samples = malloc((size_t)info.samples * x * sizeof(float));
    float *targets = malloc((size_t)info.samples * y * sizeof(float));
    lks_dataset *copy;
    if (samples == NULL || targets == NULL) exit(1);
    for (int64_t i = 0; i < info.samples; i++)
        try(lks_dataset_read(set, i, samples + (size_t)i * x, targets + (size_t)i * y));
    try(lks_dataset_from_arrays(&copy, context, &info, samples, targets)); /* until the end */
    return copy;
}

/* Samples a second of an epoch. `model` NULL: they are only read. */
static double run_epoch(lks_loader *loader, lks_model *model, int64_t samples)
{
    lks_batch batch;
    lks_metrics metrics;
    int64_t seen = 0;
    const double begin = lki_seconds();
    while (seen < samples) {
        try(lks_loader_next(loader, &batch));
        seen += batch.count;
        if (model != NULL) try(lks_model_step(model, &batch, 1e-4, &metrics));
    }
    return (double)samples / (lki_seconds() - begin);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"shards", "memory"};
    lks_recipe *recipe;
    lks_loader *loader[2];
    double rate[2][2][ROUNDS];
    if (argc != 2) {
        fprintf(stderr, "usage: bench_shards CONFIG\n");
        return 2;
    }
    try(lks_recipe_open(&recipe, argv[1]));
    try(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    try(lks_recipe_compile(recipe, 0));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_dataset *const set[2] = {parts.train, copy_of(parts.context, parts.train)};
    for (int k = 0; k < 2; k++) try(lks_recipe_loader(&loader[k], recipe, set[k], true));
    for (int r = 0; r < ROUNDS; r++)
        for (int step = 0; step < 2; step++)
            for (int k = 0; k < 2; k++)
                rate[step][k][r] = run_epoch(loader[k], step ? parts.model : NULL,
                                             parts.data.samples);
    for (int step = 0; step < 2; step++)
        for (int k = 0; k < 2; k++) {
            qsort(rate[step][k], ROUNDS, sizeof(double), compare);
            printf("%-7s %s %8.0f samples/s (%.0f to %.0f)\n", step ? "steps" : "loader", names[k],
                   rate[step][k][ROUNDS / 2], rate[step][k][0], rate[step][k][ROUNDS - 1]);
        }
    for (int k = 0; k < 2; k++) lks_loader_destroy(loader[k]);
    lks_dataset_destroy(set[1]);
    lks_recipe_close(recipe);
    return 0;
}
