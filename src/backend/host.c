/* Memory of devices that compute in the host's: ref, cpu. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include <lockstep/data.h>

#include "core/backend.h"

static void host_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

enum { LANES = 16 }; /* of loops that are vectorised */

/* NaNs count as less, but the first value, which then is it. */
static int64_t first_largest(const float *values, int64_t count)
{
    float most[LANES], largest = values[0];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) most[k] = largest;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) most[k] = values[i + k] > most[k] ? values[i + k] : most[k];
    for (int k = 0; k < LANES; k++) largest = most[k] > largest ? most[k] : largest;
    for (; i < count; i++) largest = values[i] > largest ? values[i] : largest;
    for (i = 0; i < count && values[i] != largest; i++) continue;
    return i < count ? i : 0;
}

static bool among_five(const float *values, int64_t count, int32_t label)
{
    enum { CHUNK = 256 };
    const float own = values[label];
    int64_t before = 0;
    if (isnan(own)) return false;
    for (int64_t i = 0, end; i < count && before < 5; i = end) {
        int32_t here = 0;
        end = count - i < CHUNK ? count : i + CHUNK;
        for (int64_t k = i; k < end; k++) here += values[k] > own;
        for (int64_t k = i; k < end && k < label; k++) here += values[k] == own;
        before += here;
    }
    return before < 5;
}

static int64_t host_count_correct(int64_t rows, int64_t width, const float *output,
                                  const int32_t *label, int64_t *top5)
{
    int64_t correct = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (label[i] == LKS_NO_CLASS) continue;
        correct += first_largest(output + i * width, width) == label[i];
        *top5 += among_five(output + i * width, width, label[i]);
    }
    return correct;
}

/* Both may be one array: all of a vector are read before one is written. */
static void host_mean(int64_t count, float scale, float most, const float *sums, float *gradient)
{
    typedef float vector __attribute__((vector_size(16), aligned(4), may_alias));
    typedef int32_t bits __attribute__((vector_size(16)));
    enum { WIDE = sizeof(vector) / sizeof(float) };
    int64_t done = 0;
    for (; done + WIDE <= count; done += WIDE) {
        const vector x = *(const vector *)(sums + done) * scale;
        const bits size = (bits)x & INT32_MAX;
        *(vector *)(gradient + done) = (vector)((bits)x & ~(bits)((vector)size < LKI_TINY));
    }
    for (; done < count; done++) gradient[done] = lki_flush(sums[done] * scale);
    if (isinf(most)) return;
    for (int64_t i = 0; i < count; i++) /* a NaN stays one */
        gradient[i] = gradient[i] > most ? most : gradient[i] < -most ? -most : gradient[i];
}

static void host_add_stats(int64_t count, double *left, const double *right)
{
    for (int64_t i = 0; i < count; i++) left[i] += right[i];
}

static void host_merge(const lki_node *node, double *left, const double *right)
{
    lki_op_get(node->op)->merge(node, left, right);
}

static void host_update_buffers(const lki_node *node, const double *sums, void *const buffer[])
{
    lki_op_get(node->op)->update_buffers(node, sums, buffer);
}

const lki_memory lki_host_memory = {
    .host = true,
    .alloc = lki_alloc,
    .free = lki_free,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .count_correct = host_count_correct,
    .copy = host_copy,
    .mean = host_mean,
    .add_stats = host_add_stats,
    .merge = host_merge,
    .update_buffers = host_update_buffers,
};
