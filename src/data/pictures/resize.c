#include "data/pictures/resize.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/memory.h"

enum { BITS = 22, HALF = 1 << (BITS - 1), CHANNELS = LKI_PICTURE_CHANNELS };

static int64_t weight_of(int n, int m, int output, int input)
{
    const int64_t widest = n > m ? n : m;
    const int64_t distance = (2 * (int64_t)input + 1) * m - (2 * (int64_t)output + 1) * n;
    return 2 * widest - (distance < 0 ? -distance : distance);
}

/* At most so many inputs have a weight: they lie less than max(n, m) / m from the centre. */
static int taps_of(int n, int m)
{
    return 2 * ((n > m ? n : m) / m + 1) + 1;
}

static size_t axis_bytes(int n, int m)
{
    const size_t weights = lki_times((size_t)m, (size_t)taps_of(n, m));
    return lki_plus(2 * lki_align((size_t)m * sizeof(int)),
                    lki_align(lki_times(weights, sizeof(int32_t))));
}

/* Takes its arrays from *memory. */
static void axis_fill(lki_resize_axis *axis, uint8_t **memory, int n, int m)
{
    const size_t list = lki_align((size_t)m * sizeof(int));
    axis->taps = taps_of(n, m);
    axis->first = (int *)(void *)*memory;
    axis->count = (int *)(void *)(*memory + list);
    axis->weight = (int32_t *)(void *)(*memory + 2 * list);
    *memory += axis_bytes(n, m);
    for (int o = 0; o < m; o++) {
        int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
        /* The input whose middle is the next to the output's always has a weight; others stand beside it. */
        int first = (int)((2 * (int64_t)o + 1) * n / (2 * (int64_t)m)), end = first + 1;
        while (first > 0 && weight_of(n, m, o, first - 1) > 0) first--;
        while (end < n && weight_of(n, m, o, end) > 0) end++;
        int64_t sum = 0;
        for (int x = first; x < end; x++) sum += weight_of(n, m, o, x);
        for (int x = first; x < end; x++)
            weight[x - first] = (int32_t)(((weight_of(n, m, o, x) << BITS) + sum / 2) / sum);
        axis->first[o] = first;
        axis->count[o] = end - first;
    }
}

static lks_status resize_make_room(lki_resize *resize, int height, int width)
{
    const size_t narrow = lki_times(lki_times((size_t)height, (size_t)resize->width), CHANNELS);
    const size_t bytes = lki_plus(
        lki_plus(axis_bytes(width, resize->width), axis_bytes(height, resize->height)), narrow);
    if (bytes > resize->bytes) {
        lki_resize_free(resize);
        LKI_TRY(lki_alloc(resize->context, &resize->memory, bytes, "resizing a picture"));
        resize->bytes = bytes;
    }
    uint8_t *at = resize->memory;
    if (resize->narrow == NULL || resize->from_width != width || resize->from_height != height) {
        axis_fill(&resize->across, &at, width, resize->width);
        axis_fill(&resize->down, &at, height, resize->height);
        resize->narrow = at;
    }
    resize->from_height = height;
    resize->from_width = width;
    resize->rows = 0;
    return LKS_OK;
}

lks_status lki_resize_begin(lki_resize *resize, uint64_t height, uint64_t width)
{
    if (height < 1 || width < 1) return LKI_FAIL(LKS_E_FORMAT, "it has no pixels");
    if (height > LKI_PICTURE_SIDE || width > LKI_PICTURE_SIDE ||
        height * width > LKI_PICTURE_PIXELS)
        return LKI_FAIL(LKS_E_FORMAT,
                        "it has %" PRIu64 " x %" PRIu64
                        " pixels, expected at most %d million, and %d on a side",
                        width, height, LKI_PICTURE_PIXELS / 1000000, LKI_PICTURE_SIDE);
    return resize_make_room(resize, (int)height, (int)width);
}

/* Rounded weights of many inputs may add up to more than 1. */
static uint8_t to_byte(int32_t sum)
{
    const int32_t value = sum >> BITS;
    return (uint8_t)(value > UINT8_MAX ? UINT8_MAX : value);
}

void lki_resize_row(lki_resize *resize, const uint8_t *row)
{
    const lki_resize_axis *axis = &resize->across;
    uint8_t *out = resize->narrow + (size_t)resize->rows++ * (size_t)resize->width * CHANNELS;
    for (int o = 0; o < resize->width; o++, out += CHANNELS) {
        const uint8_t *from = row + (size_t)axis->first[o] * CHANNELS;
        const int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
        int32_t red = HALF, green = HALF, blue = HALF;
        for (int k = 0; k < axis->count[o]; k++, from += CHANNELS) {
            red += weight[k] * from[0];
            green += weight[k] * from[1];
            blue += weight[k] * from[2];
        }
        out[0] = to_byte(red);
        out[1] = to_byte(green);
        out[2] = to_byte(blue);
    }
}

void lki_resize_end(const lki_resize *resize, uint8_t *out)
{
    enum { SOME = 512 }; /* columns at a time, whose sums stay in the cache */
    const lki_resize_axis *axis = &resize->down;
    const int width = resize->width * CHANNELS;
    int32_t sum[SOME];
    for (int o = 0; o < resize->height; o++, out += width) {
        const int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
        for (int left = 0; left < width; left += SOME) {
            const int count = width - left < SOME ? width - left : SOME;
            for (int i = 0; i < count; i++) sum[i] = HALF;
            for (int k = 0; k < axis->count[o]; k++) {
                const uint8_t *row = resize->narrow + (size_t)(axis->first[o] + k) * (size_t)width +
                                     left;
                for (int i = 0; i < count; i++) sum[i] += weight[k] * row[i];
            }
            for (int i = 0; i < count; i++) out[left + i] = to_byte(sum[i]);
        }
    }
}

void lki_resize_free(lki_resize *resize)
{
    lki_free(resize->context, resize->memory, resize->bytes);
    resize->memory = NULL;
    resize->bytes = 0;
    resize->narrow = NULL;
}
