#include "model/infer/draw.h"

#include <math.h>

#include "base/check.h"
#include "numeric/random.h"
#include "numeric/real.h"

/* The larger output first, of equal ones the smaller number. */
static bool is_before(lki_candidate a, lki_candidate b)
{
    return a.output != b.output ? a.output > b.output : a.token < b.token;
}

/* Lets the first of a heap, in which the last of all stands first, find its place. */
static void sink_first(lki_candidate *heap, int64_t count)
{
    const lki_candidate moved = heap[0];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_before(heap[child], heap[child + 1]);
        if (!is_before(moved, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void rise_last(lki_candidate *heap, int64_t count)
{
    const lki_candidate moved = heap[count - 1];
    int64_t at = count - 1;
    for (; at > 0 && is_before(heap[(at - 1) / 2], moved); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = moved;
}

/* The first `kept` tokens in their order. */
static void choose(lki_candidate *out, const float *outputs, int64_t size, int64_t kept)
{
    for (int64_t i = 0; i < size; i++) {
        const lki_candidate one = {outputs[i], (int32_t)i};
        if (i < kept) {
            out[i] = one;
            rise_last(out, i + 1);
        } else if (is_before(one, out[0])) {
            out[0] = one;
            sink_first(out, kept);
        }
    }
    for (int64_t left = kept - 1; left > 0; left--) {
        const lki_candidate last = out[0];
        out[0] = out[left];
        out[left] = last;
        sink_first(out, left);
    }
}

/* As few candidates as have the share top_p together, at least one as *total is above 0; theirs it is then. */
static int64_t cut_share(const lki_draw *draw, int64_t kept, double *total)
{
    double sum = 0;
    int64_t count = 0;
    if (draw->top_p >= 1) return kept;
    while (count < kept && sum < draw->top_p * *total) sum += draw->weight[count++];
    *total = sum;
    return count;
}

/* Uniform in [0, 1), a multiple of 2^-53. */
static double uniform(const lki_draw *draw, int64_t number)
{
    uint32_t word[4];
    lki_philox(
        draw->key,
        (const uint32_t[]){(uint32_t)number, (uint32_t)((uint64_t)number >> 32), draw->stream, 0},
        word);
    return (double)(((uint64_t)word[0] << 32 | word[1]) >> 11) * 0x1p-53;
}

lks_status lki_draw_token(int32_t *token, lki_draw *draw, const float *outputs, int64_t number)
{
    const int64_t size = draw->size;
    int64_t best = 0, kept = draw->top_k > 0 && draw->top_k < size ? draw->top_k : size;
    for (int64_t i = 0; i < size; i++) {
        if (!isfinite(outputs[i]))
            return LKI_FAIL(LKS_E_NUMERIC, "the network's output for token %lld is not finite",
                            (long long)i);
        if (outputs[i] > outputs[best]) best = i;
    }
    *token = (int32_t)best;
    if (draw->most_probable) return LKS_OK;
    if (kept < size || draw->top_p < 1)
        choose(draw->candidate, outputs, size, kept);
    else
        for (int64_t i = 0; i < size; i++)
            draw->candidate[i] = (lki_candidate){outputs[i], (int32_t)i};
    double total = 0, sum = 0;
    for (int64_t i = 0; i < kept; i++) {
        const double below = (double)draw->candidate[i].output - (double)outputs[best];
        draw->weight[i] = lki_exp(below / draw->temperature);
        total += draw->weight[i];
    }
    kept = cut_share(draw, kept, &total);
    const double at = uniform(draw, number) * total; /* below it, rounded too */
    for (int64_t i = 0; i < kept && sum <= at; i++) {
        sum += draw->weight[i];
        *token = draw->candidate[i].token;
    }
    return LKS_OK;
}
