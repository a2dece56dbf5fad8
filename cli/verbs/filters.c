/* lockstep info CHECKPOINT --filters: what the first convolution looks for, as a picture. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out/sheet.h"
#include "cli/out/text.h"
#include "cli/verbs/filters.h"

enum { RGB = 3 };

/* The first weight of a convolution that reads pixels of one channel or three colours; else the first of any. */
static int find_filters(const lks_tensor_file *file)
{
    int first = -1;
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        const int64_t *dim = entry.shape.dim;
        if (entry.shape.ndim != 4 || entry.dtype != LKS_F32 || dim[2] * dim[3] == 1) continue;
        if (dim[1] == 1 || dim[1] == RGB) return i;
        if (first < 0) first = i;
    }
    return first;
}

/* Half grey is 0; the largest value of all filters, up or down, is white or black. */
static uint8_t shade(double value, double most)
{
    return (uint8_t)lrint(127.5 + (most > 0 ? 127.5 * value / most : 0));
}

/* [filter][channel][row][column] becomes rows of pixels: colours where there are three, else the mean. */
static void draw_filters(uint8_t *pixels, const float *weight, const int64_t dim[4])
{
    const int64_t area = dim[2] * dim[3], channels = dim[1], shown = channels == RGB ? RGB : 1;
    double most = 0;
    for (int turn = 0; turn < 2; turn++) /* the largest first */
        for (int64_t f = 0; f < dim[0]; f++)
            for (int64_t i = 0; i < area * shown; i++) {
                const float *at = weight + f * channels * area + i / shown;
                double value = 0;
                for (int64_t c = 0; c < channels && shown == 1; c++)
                    value += (double)at[c * area] / (double)channels;
                if (shown == RGB) value = (double)at[i % RGB * area];
                if (!isfinite(value)) value = 0;
                if (turn == 0)
                    most = fmax(most, fabs(value));
                else
                    pixels[f * area * shown + i] = shade(value, most);
            }
}

lks_status filters_write(lks_context *context, const char *tensors, const char *path)
{
    lks_tensor_file *file;
    lks_status status = lks_tensor_file_open(&file, context, tensors);
    if (status != LKS_OK) return status;
    cli_pool pool = {0};
    const int found = find_filters(file);
    if (found < 0) {
        lks_tensor_file_close(file);
        return lks_fail(LKS_E_INVALID,
                        "%.300s has no weight of a convolution with more than one tap, so there "
                        "are no filters to draw",
                        tensors);
    }
    const lks_tensor_entry entry = lks_tensor_file_entry(file, found);
    const int64_t *dim = entry.shape.dim;
    const int shown = dim[1] == RGB ? RGB : 1;
    uint8_t *pixels = malloc((size_t)(dim[0] * dim[2] * dim[3] * shown));
    int32_t *number = malloc((size_t)dim[0] * sizeof *number);
    if (pixels == NULL || number == NULL) {
        status = lks_fail(LKS_E_NOMEM, "out of memory for %lld filters", (long long)dim[0]);
    } else {
        for (int64_t f = 0; f < dim[0]; f++) number[f] = (int32_t)f;
        draw_filters(pixels, entry.data, dim);
        const cli_sheet sheet = {
            .title = pool_format(&pool, "%s: %lld filters of %lldx%lldx%lld%s",
                                 text_clean(&pool, entry.name), (long long)dim[0],
                                 (long long)dim[2], (long long)dim[3], (long long)dim[1],
                                 dim[1] == 1 || dim[1] == RGB ? "" : ", means over channels"),
            .count = dim[0],
            .height = (int)dim[2],
            .width = (int)dim[3],
            .channels = shown,
            .pixels = pixels,
            .labels = number};
        status = sheet_write_png(&sheet, path);
        if (status == LKS_OK)
            say("%s: %lld filter%s of %s", path, (long long)dim[0], TEXT_S(dim[0]),
                text_clean(&pool, entry.name));
    }
    free(number);
    free(pixels);
    pool_clear(&pool);
    lks_tensor_file_close(file);
    return status;
}
