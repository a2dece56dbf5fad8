/*
 * The gradients of dense layers with masks (masks.h) by rows: as rows.c, with units beside each other and one
 * input after the other. For 64 inputs, a strip, the masks of samples are turned into masks of inputs, whose
 * bits are samples; each is a list of the terms of one input's gradients:
 *
 *   dW[0 .. units)[k] = sum over the bits of k's mask, ascending, of x[s][k] * dy[s][0 .. units)
 *
 * Blocks of 64 samples, groups, totals and the tree are those of rows.c. The sums of 16 inputs are turned, so
 * that a unit's lie beside each other, as in the weight.
 */
#include "backend/cpu/vector/rows.h"
#include "backend/cpu/vector/transpose.h"

enum {
    STRIP = MASKS_STRIP,
    TURNED = 16,
    WORDS = SAMPLES / STRIP, /* masks of an input */
};
_Static_assert((int)STRIP == (int)LKI_BLOCK_TERMS, "a block of samples has one mask");

/* One strip. */
typedef struct strip {
    const block *b;
    int64_t width;                     /* units with padding */
    const float *x;                    /* of the input, for sample 0 */
    uint64_t active[STRIP][WORDS + 1]; /* the last is 0 */
} strip;

int64_t LKI_ISA_NAME(lki_vector_masks_columns)(block *b)
{
    const int64_t samples = b->total < SAMPLES ? b->total : SAMPLES;
    const int depth = lki_tree_slots(b->rows->replicas, b->node.lo, b->node.hi);
    int64_t columns = X_FLOATS / samples;
    b->stack_row = (3 + depth) * masks_width(b->row_count, 0);
    if (depth > MASKS_DEPTH) return 0;
    if (columns > MASKS_COLUMNS) columns = MASKS_COLUMNS;
    const int64_t waiting = (STACK_FLOATS - MASKS_STACKS) / b->stack_row;
    if (b->total > SAMPLES && columns > waiting) columns = waiting;
    return columns / STRIP * STRIP;
}

/* [sample][width], with zeros behind the last unit. */
void LKI_ISA_NAME(lki_vector_masks_copy)(const block *b)
{
    const int64_t width = masks_width(b->row_count, 0), units = b->shape->units;
    const float *from = b->rows->d_out + (b->begin + b->sample) * units + b->row;
    float *to = b->space->dy;
    for (int64_t s = 0; s < b->samples; s++, from += units, to += width) {
        for (int64_t u = b->row_count; u < width; u++) to[u] = 0;
        memcpy(to, from, sizeof(float) * (size_t)b->row_count);
    }
}

/* Of 64 x 64 bits, blocks of `by` x `by` change places across the diagonal. */
INLINE void turn_step(uint64_t *rows, const int by, uint64_t low)
{
    for (int first = 0; first < STRIP; first += 2 * by)
        for (int i = first; i < first + by; i++) {
            const uint64_t changed = ((rows[i] >> by) ^ rows[i + by]) & low;
            rows[i] ^= changed << by;
            rows[i + by] ^= changed;
        }
}

/* Bit j of row i becomes bit i of row j. */
INLINE void turn(uint64_t *rows)
{
    turn_step(rows, 32, 0x00000000ffffffff);
    turn_step(rows, 16, 0x0000ffff0000ffff);
    turn_step(rows, 8, 0x00ff00ff00ff00ff);
    turn_step(rows, 4, 0x0f0f0f0f0f0f0f0f);
    turn_step(rows, 2, 0x3333333333333333);
    turn_step(rows, 1, 0x5555555555555555);
}

static void strip_masks(strip *t, int64_t column)
{
    const block *b = t->b;
    const int64_t panel = panel_floats(b), left = b->columns - column;
    const int64_t panels = left < STRIP ? (left + PANEL - 1) / PANEL : STRIP / PANEL;
    const float *x = b->space->x + column / PANEL * panel;
    memset(t->active, 0, sizeof t->active);
    for (int64_t first = 0; first < b->samples; first += STRIP) {
        uint64_t rows[STRIP] = {0};
        const int64_t n = b->samples - first < STRIP ? b->samples - first : STRIP;
        for (int64_t s = 0; s < n; s++)
            for (int64_t p = 0; p < panels; p++) {
                const float *at = x + p * panel + (first + s) * PANEL;
                rows[s] |=
                    (uint64_t)(vf_nonzero(vf_load(at)) | vf_nonzero(vf_load(at + LANES)) << LANES)
                    << p * PANEL;
            }
        turn(rows);
        for (int64_t k = 0; k < STRIP; k++) t->active[k][first / STRIP] = rows[k];
    }
}

/* n <= 64 bits of an input's masks, from sample `first` on. */
INLINE uint64_t bits_of(const uint64_t *words, int64_t first, int64_t n)
{
    const int64_t shift = first % STRIP;
    uint64_t bits = words[first / STRIP] >> shift;
    if (shift != 0) bits |= words[first / STRIP + 1] << (STRIP - shift);
    return n == STRIP ? bits : bits & ((UINT64_C(1) << n) - 1);
}

/* As run_segment() and the tile's blocks, for all units of an input. */
INLINE bool sum_segment(const int V, const strip *t, const segment *s, const uint64_t *active,
                        const float *x, float *wait, vf acc[])
{
    double *total = (double *)(void *)wait;
    float *group = wait + 2 * V * LANES;
    for (int64_t k = 0; k < s->count;) {
        const int64_t n = s->count - k < STRIP ? s->count - k : STRIP, at = s->first + k;
        const int64_t before = s->number + k, end = before + n;
        masks_sum(V, acc, bits_of(active, at, n), x + at * PANEL, PANEL,
                  t->b->space->dy + at * V * LANES, V * LANES);
        k += n;
        if (before % LKI_GROUP_TERMS != 0) {
            UNROLL
            for (int v = 0; v < V; v++) acc[v] = vf_load(group + v * LANES) + acc[v];
        }
        if (end == s->terms) {
            UNROLL
            for (int v = 0; v < V && end > LKI_GROUP_TERMS; v++)
                acc[v] = vf_total(total + v * LANES, acc[v]);
            return true;
        }
        UNROLL
        for (int v = 0; v < V; v++) {
            if (end % LKI_GROUP_TERMS == 0)
                vf_fold(total + v * LANES, acc[v], end == LKI_GROUP_TERMS);
            else
                vf_store(group + v * LANES, acc[v]);
        }
    }
    return false;
}

/* Segments [i, end) of one input. */
INLINE void sum_input(const int V, const strip *t, int i, int end, const uint64_t *active,
                      const float *x, float *stack, float *to)
{
    const block *b = t->b;
    for (; i < end; i++) {
        const segment *s = &b->space->segment[i];
        const bool last = b->last && i == b->segments - 1, whole = s->terms <= STRIP;
        const uint64_t bits = whole ? bits_of(active, s->first, s->terms) : 0;
        float *top = stack + (3 + s->depth) * V * LANES;
        int merges = s->merges;
        vf acc[MASKS_VECTORS];
        if (whole && bits == 0 && merges > 0) { /* the sum that waits, and 0 */
            top -= V * LANES;
            if (--merges == 0 && !last) continue;
            UNROLL
            for (int v = 0; v < V; v++) acc[v] = vf_load(top + v * LANES);
        } else {
            if (whole)
                masks_sum(V, acc, bits, x + s->first * PANEL, PANEL,
                          b->space->dy + s->first * V * LANES, V * LANES);
            else if (!sum_segment(V, t, s, active, x, stack, acc))
                continue;
            UNROLL
            for (int v = 0; v < V; v++) acc[v] = vf_flush(acc[v]);
        }
        for (; merges > 0; merges--) {
            top -= V * LANES;
            UNROLL
            for (int v = 0; v < V; v++) acc[v] = vf_load(top + v * LANES) + acc[v];
        }
        if (last) top = to;
        UNROLL
        for (int v = 0; v < V; v++) vf_store(top + v * LANES, acc[v]);
    }
}

/* From [input][width] to [unit][MASKS_ROW]. */
static void turn_sums(const strip *t, const float *from, float *to)
{
    for (int64_t u = 0; u < t->b->row_count; u += 4)
        for (int64_t k = 0; k < TURNED; k += 4)
            transpose4(from + k * t->width + u, t->width, to + u * MASKS_ROW + k, MASKS_ROW, false);
}

/* Segments whose dy stays in the first-level cache. */
static int together(const block *b, int first)
{
    int end = first;
    int64_t samples = 0;
    while (end < b->segments && (samples += b->space->segment[end].count) <= STRIP) end++;
    return end > first ? end : first + 1;
}

INLINE void sum_strip(const int V, strip *t, int64_t column)
{
    const block *b = t->b;
    float *sums = b->space->stack, *turned = sums + MASKS_UNITS * MASKS_ROW;
    float *stack = sums + MASKS_STACKS + (b->samples < b->total ? column * b->stack_row : 0);
    const int64_t left = b->columns - column, n = left < STRIP ? left : STRIP;
    for (int i = 0, end; i < b->segments; i = end) {
        end = together(b, i);
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = column + k;
            const float *x = b->space->x + at / PANEL * panel_floats(b) + at % PANEL;
            sum_input(V, t, i, end, t->active[k], x, stack + k * b->stack_row,
                      turned + k % TURNED * V * LANES);
            if (b->last && end == b->segments && (k % TURNED == TURNED - 1 || k == n - 1))
                turn_sums(t, turned, sums + at / TURNED * TURNED);
        }
    }
}

static void run_strip(strip *t, int64_t column)
{
    strip_masks(t, column);
#define RUN(V) sum_strip(V, t, column)
    switch (t->width / PANEL) {
        MASKS_CASES(RUN)
    }
#undef RUN
}

void LKI_ISA_NAME(lki_vector_masks_block)(const block *b)
{
    strip t = {.b = b, .width = masks_width(b->row_count, 0)};
    for (int64_t column = 0; column < b->columns; column += STRIP) run_strip(&t, column);
    for (int64_t r = 0; r < b->row_count && b->last; r++)
        b->rows->sum(b->rows->user, b->node, 0, (b->row + r) * b->shape->inputs + b->column,
                     b->columns, b->space->stack + r * MASKS_ROW);
}
