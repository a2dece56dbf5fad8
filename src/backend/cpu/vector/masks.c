/* The passes of dense layers with masks: masks.h. */
#include "backend/cpu/vector/masks.h"
#include "backend/cpu/vector/local.h"

enum { ROWS = 128 /* samples whose sums wait */ };

/* One block of inputs for all samples of a call, a group of units. */
typedef struct masked {
    const lki_dense_shape *shape;
    int64_t rows;
    const float *x, *w,
        *bias;            /* x and w at the first input; w of the group, bias and y at its unit */
    int64_t first, depth; /* inputs */
    int64_t width, units; /* with and without padding */
    float *group;         /* [rows][width]; and totals likewise */
    double *total;
    float *y;
} masked;

/* What other rows and blocks are about to read: rows are pages apart, and which lines of the weight are
 * read the masks say. */
INLINE void masked_fetch(const masked *m, int64_t row)
{
    const int64_t inputs = m->shape->inputs, next = LKI_BLOCK_TERMS * m->width + row * MASKS_UNITS;
    const float *x = m->x + (row + 2) * inputs;
    if (row + 2 < m->rows)
        for (int64_t i = 0; i < m->depth; i += 16) __builtin_prefetch(x + i);
    if (m->first + LKI_BLOCK_TERMS + next / m->width >= inputs) return;
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

INLINE void masked_rows(const int V, const masked *m)
{
    for (int64_t row = 0; row < m->rows; row++) {
        const float *x = m->x + row * m->shape->inputs;
        vf acc[MASKS_VECTORS];
        masked_fetch(m, row);
        masks_sum(V, acc, masks_of(x, m->depth), x, 1, m->w);
        masked_end(V, m, row, acc);
    }
}

static void masked_block(const masked *m)
{
#define RUN(V) masked_rows(V, m)
    switch (m->width / PANEL) {
        MASKS_CASES(RUN)
    }
#undef RUN
}

size_t LKI_ISA_NAME(lki_vector_masks_bytes)(const lki_dense_shape *s, int64_t rows)
{
    const int64_t places = (rows < ROWS ? rows : ROWS) * MASKS_UNITS;
    return (size_t)places * (sizeof(float) + (s->inputs > LKI_GROUP_TERMS ? sizeof(double) : 0));
}

void LKI_ISA_NAME(lki_vector_masks_forward)(const lki_dense_shape *s, int64_t rows, const float *x,
                                            const float *packed, const float *bias, float *y,
                                            void *workspace)
{
    for (int64_t row = 0; row < rows; row += ROWS)
        for (int64_t u = 0; u < s->units; u += MASKS_UNITS) {
            masked m = {.shape = s,
                        .rows = rows - row < ROWS ? rows - row : ROWS,
                        .bias = bias != NULL ? bias + u : NULL,
                        .width = masks_width(s->units, u),
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
                m.w = packed + u * s->inputs + m.first * m.width;
                masked_block(&m);
            }
        }
}
