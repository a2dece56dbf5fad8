/* The passes of dense layers with masks: masks.h. */
#include "backend/cpu/vector/masks.h"
#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/transpose.h"

enum {
    ROWS = 128,  /* samples whose sums wait */
    SUMMED = 16, /* lanes of a sum over units */
    PARTS = SUMMED / LANES,
    TOGETHER = 4,       /* inputs whose gradients are formed together */
    W_FLOATS = 64 * 128 /* of the weight that all samples pass over */
};

/* One block of inputs for all samples of a call, a group of units. */
typedef struct masked {
    const lki_dense_shape *shape;
    int64_t rows;
    const float *x, *w,
        *bias;            /* x and w at the first input; w of the group, bias and y at its unit */
    int64_t first, depth; /* inputs */
    int64_t width, units; /* with and without padding */
    int64_t step;         /* floats of w from input to input: the width, but of a part of a group */
    float *group;         /* [rows][width]; and totals likewise */
    double *total;
    float *y;
} masked;

/* What other rows and blocks are about to read: rows are pages apart, and which lines of the weight are
 * read the masks say. */
INLINE void masked_fetch(const masked *m, int64_t row)
{
    const int64_t inputs = m->shape->inputs, next = LKI_BLOCK_TERMS * m->step + row * MASKS_UNITS;
    const float *x = m->x + (row + 2) * inputs;
    if (row + 2 < m->rows)
        for (int64_t i = 0; i < m->depth; i += 16) __builtin_prefetch(x + i);
    if (m->first + LKI_BLOCK_TERMS + next / m->step >= inputs) return;
    for (int64_t i = 0; i < MASKS_UNITS; i += 16) __builtin_prefetch(m->w + next + i, 0, 2);
}

/* The block joins the group, as in tile.h; behind the last input the sum is complete. */
INLINE void masked_end(const int V, const masked *m, int64_t row, vf acc[])
{
    float *group = m->group + row * V * LANES;
    double *total = m->total + row * V * LANES;
    const int64_t end = m->first + m->depth;
    if (m->first % LKI_GROUP_TERMS != 0) {
        UNROLL
        for (int v = 0; v < V; v++) acc[v] = vf_load(group + v * LANES) + acc[v];
    }
    if (end < m->shape->inputs && end % LKI_GROUP_TERMS != 0) {
        UNROLL
        for (int v = 0; v < V; v++) vf_store(group + v * LANES, acc[v]);
        return;
    }
    if (end < m->shape->inputs) {
        UNROLL
        for (int v = 0; v < V; v++) vf_fold(total + v * LANES, acc[v], end == LKI_GROUP_TERMS);
        return;
    }
    UNROLL
    for (int v = 0; v < V; v++) {
        const int64_t u = v * LANES, n = m->units - u < LANES ? m->units - u : LANES;
        if (n <= 0) return;
        vf sum = end > LKI_GROUP_TERMS ? vf_total(total + u, acc[v]) : acc[v];
        if (m->bias != NULL) sum += vf_get(m->bias + u, n);
        vf_put(m->y + row * m->shape->units + u, vf_flush(sum), n);
    }
}

INLINE void masked_rows(const int V, const bool whole, const masked *m)
{
    for (int64_t row = 0; row < m->rows; row++) {
        const float *x = m->x + row * m->shape->inputs;
        vf acc[MASKS_VECTORS];
        masked_fetch(m, row);
        masks_sum(V, acc, masks_of(x, m->depth), x, 1, m->w, whole ? V * LANES : m->step);
        masked_end(V, m, row, acc);
    }
}

static void masked_block(const masked *m)
{
#define RUN(V)                                                                                     \
    if (m->width == m->step)                                                                       \
        masked_rows(V, true, m);                                                                   \
    else                                                                                           \
        masked_rows(V, false, m)
    switch (m->width / PANEL) {
        MASKS_CASES(RUN)
    }
#undef RUN
}

static int64_t units_padded(const lki_dense_shape *s)
{
    return (s->units + PANEL - 1) / PANEL * PANEL;
}

size_t LKI_ISA_NAME(lki_vector_masks_bytes)(const lki_dense_shape *s, int64_t rows)
{
    const int64_t places = (rows < ROWS ? rows : ROWS) * MASKS_UNITS;
    const size_t forward = (size_t)places *
                           (sizeof(float) + (s->inputs > LKI_GROUP_TERMS ? sizeof(double) : 0));
    const size_t backward = sizeof(float) * (size_t)(rows * units_padded(s));
    return forward > backward ? forward : backward;
}

void LKI_ISA_NAME(lki_vector_masks_forward)(const lki_dense_shape *s, int64_t rows, const float *x,
                                            const float *packed, const float *bias, float *y,
                                            void *workspace)
{
    int64_t begin, end; /* units, with padding */
    lki_part_of(s->part, s->parts, units_padded(s) / PANEL, &begin, &end);
    begin *= PANEL;
    end *= PANEL;
    for (int64_t row = 0; row < rows; row += ROWS)
        for (int64_t u = begin, next; u < end; u = next) {
            const int64_t group = u / MASKS_UNITS * MASKS_UNITS;
            next = group + MASKS_UNITS < end ? group + MASKS_UNITS : end;
            masked m = {.shape = s,
                        .rows = rows - row < ROWS ? rows - row : ROWS,
                        .bias = bias != NULL ? bias + u : NULL,
                        .width = next - u,
                        .step = masks_width(s->units, group),
                        .units = s->units - u,
                        .total = workspace,
                        .y = y + row * s->units + u};
            m.group = workspace;
            if (s->inputs > LKI_GROUP_TERMS)
                m.group = (float *)(void *)(m.total + m.rows * MASKS_UNITS);
            for (; m.first < s->inputs; m.first += m.depth) {
                const int64_t left = s->inputs - m.first;
                m.depth = left < LKI_BLOCK_TERMS ? left : LKI_BLOCK_TERMS;
                m.x = x + row * s->inputs + m.first;
                m.w = packed + group * s->inputs + m.first * m.step + (u - group);
                masked_block(&m);
            }
        }
}

/* Of TOGETHER sums the lanes, l and l + 8, l + 4, l + 2, l + 1. */
INLINE v4 lanes_added(const float *sums)
{
    float some[4 * TOGETHER], turned[4 * TOGETHER];
    UNROLL
    for (int i = 0; i < TOGETHER; i++) {
        const v4_memory *of = (const v4_memory *)(sums + i * SUMMED);
        *(v4_memory *)(some + 4 * i) = (of[0] + of[2]) + (of[1] + of[3]);
    }
    transpose4(some, 4, turned, 4, false);
    const v4_memory *lane = (const v4_memory *)turned;
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

/* acc += the products of dy and V vectors of units of inputs k. */
INLINE void add_units(const int V, const float *w, const vf d_y[], const int64_t k[],
                      vf acc[TOGETHER][PARTS])
{
    const float *row[TOGETHER];
    UNROLL
    for (int i = 0; i < TOGETHER; i++) {
        row[i] = w + k[i] * V * LANES;
        __asm__("" : "+r"(row[i]));
    }
    UNROLL
    for (int v = 0; v < V; v++) {
        UNROLL
        for (int i = 0; i < TOGETHER; i++)
            acc[i][v % PARTS] = vf_fma(d_y[v], vf_load(row[i] + v * LANES), acc[i][v % PARTS]);
    }
}

/* The next TOGETHER bits, the last again where there are no more; returns how many there are. */
INLINE int next_inputs(uint64_t *mask, int64_t k[])
{
    const int count = __builtin_popcountll(*mask);
    UNROLL
    for (int i = 0; i < TOGETHER; i++) {
        k[i] = __builtin_ctzll(*mask);
        if (i + 1 < TOGETHER && count > i + 1) *mask &= *mask - 1;
    }
    *mask &= *mask - 1;
    return count;
}

/* The gradients of inputs [first, first + n), n <= 64, of one sample; V: vectors of the last group of units. */
INLINE void masks_gradient(const int V, const lki_dense_shape *s, int64_t first, int64_t n,
                           const float *x, const float *packed, const float *d_y, float *d_x,
                           bool add)
{
    const int64_t last = (s->units - 1) / MASKS_UNITS * MASKS_UNITS;
    uint64_t mask = masks_of(x + first, n);
    const float *w = packed + last * s->inputs + first * V * LANES;
    vf d[MASKS_VECTORS];
    d_x += first;
    if (!add) memset(d_x, 0, sizeof(float) * (size_t)n);
    UNROLL
    for (int v = 0; v < V; v++) d[v] = vf_load(d_y + last + v * LANES);
    while (mask != 0) {
        float sums[TOGETHER * SUMMED], sum[TOGETHER];
        int64_t k[TOGETHER];
        vf acc[TOGETHER][PARTS];
        const int count = next_inputs(&mask, k);
        UNROLL
        for (int i = 0; i < TOGETHER * PARTS; i++) acc[i / PARTS][i % PARTS] = vf_zero();
        for (int64_t u = 0; u < last; u += MASKS_UNITS) {
            vf other[MASKS_VECTORS];
            UNROLL
            for (int v = 0; v < MASKS_VECTORS; v++) other[v] = vf_load(d_y + u + v * LANES);
            add_units(MASKS_VECTORS, packed + u * s->inputs + first * MASKS_UNITS, other, k, acc);
        }
        add_units(V, w, d, k, acc);
        UNROLL
        for (int i = 0; i < TOGETHER * PARTS; i++)
            vf_store(sums + i * LANES, acc[i / PARTS][i % PARTS]);
        *(v4_memory *)sum = v4_flush(lanes_added(sums));
        UNROLL
        for (int i = 0; i < TOGETHER; i++) {
            float *to = d_x + k[i];
            __asm__("" : "+r"(to)); /* one by one: compilers know slower ways */
            if (!add)
                *to = sum[i];
            else if (i < count)
                *to = lki_flush(*to + sum[i]);
        }
    }
}

/* What masks_backward() goes through: inputs [first, first + count) of all samples. */
typedef struct gradients {
    const lki_dense_shape *shape;
    int64_t rows, first, count, width;
    const float *x, *packed, *d_y;
    float *d_x;
    bool add;
} gradients;

INLINE void gradient_rows(const int V, const gradients *g)
{
    const int64_t inputs = g->shape->inputs;
    for (int64_t row = 0; row < g->rows; row++) {
        const int64_t at = row * inputs, next = at + 4 * inputs + g->first;
        for (int64_t i = 0; i < g->count && row + 4 < g->rows; i += 16) {
            __builtin_prefetch(g->x + next + i);
            __builtin_prefetch(g->d_x + next + i, 1);
        }
        if (row < g->count && g->first + 2 * g->count <= inputs && g->width <= MASKS_UNITS)
            for (int v = 0; v < V * LANES; v += 16)
                __builtin_prefetch(g->packed + (g->first + g->count + row) * g->width + v, 0, 2);
        masks_gradient(V, g->shape, g->first, g->count, g->x + at, g->packed,
                       g->d_y + row * g->width, g->d_x + at, g->add);
    }
}

static void gradient_block(const gradients *g)
{
#define RUN(V) gradient_rows(V, g)
    switch ((g->width - 1) % MASKS_UNITS / PANEL + 1) {
        MASKS_CASES(RUN)
    }
#undef RUN
}

void LKI_ISA_NAME(lki_vector_masks_backward)(const lki_dense_shape *s, int64_t rows, const float *x,
                                             const float *d_y, const float *packed, float *d_x,
                                             bool add, void *workspace)
{
    float *copy = workspace;
    int64_t step = LKI_BLOCK_TERMS;
    gradients g = {.shape = s,
                   .rows = rows,
                   .width = units_padded(s),
                   .x = x,
                   .packed = packed,
                   .d_y = copy,
                   .d_x = d_x,
                   .add = add};
    while (step > LANES && step * g.width > W_FLOATS) step /= 2;
    for (int64_t row = 0; row < rows; row++, copy += g.width) {
        memcpy(copy, d_y + row * s->units, sizeof(float) * (size_t)s->units);
        for (int64_t u = s->units; u < g.width; u++) copy[u] = 0;
    }
    for (; g.first < s->inputs; g.first += step) {
        g.count = s->inputs - g.first < step ? s->inputs - g.first : step;
        gradient_block(&g);
    }
}
