/* Matrices of attention in panels and by column, and products of them. */
#include "backend/cpu/vector/attention/attention.h"

#include "backend/cpu/vector/transpose.h"

/* A row of a head, turned by its position t, as in op/layer/attention.c; `sign` -1: back. */
static void attention_turn(const lki_attention_head *head, const float *x, int64_t t, float sign,
                           float *to)
{
    const int64_t half = head->width / 2;
    const float *cosine = head->cosine + t * half, *sine = head->sine + t * half;
    FOR_VECTORS(d, n, half)
    {
        const vf a = vf_get(x + d, n), b = vf_get(x + half + d, n);
        const vf c = vf_get(cosine + d, n), s = vf_get(sine + d, n) * vf_set(sign);
        vf_put(to + d, vf_flush(vf_fma(a, c, -(b * s))), n);
        vf_put(to + half + d, vf_flush(vf_fma(b, c, a * s)), n);
    }
}

void LKI_ISA_NAME(lki_attention_panels)(const lki_attention_head *head, const float *x, int64_t row,
                                        bool turns, int64_t first, int64_t count, int64_t rows,
                                        float *room, float *panels)
{
    const int64_t width = head->width;
    for (int64_t r = 0; r < whole_blocks(count); r++) {
        const float *from = x + (r < count ? r : 0) * row;
        if (r < count && turns && head->cosine != NULL) {
            attention_turn(head, from, first + r, 1.0f, room);
            from = room;
        }
        for (int64_t d = 0; d < width; d += LANES) {
            __builtin_prefetch(from + 8 * row + d); /* rows lie where no processor foresees them */
            float *to = panels + (d / PANEL * rows + r) * PANEL + d % PANEL;
            vf_store(to, r < count ? vf_get(from + d, smaller(width - d, LANES)) : vf_zero());
        }
        if ((width - 1) % PANEL < LANES) /* the panel's second vector */
            vf_store(panels + ((width - 1) / PANEL * rows + r) * PANEL + LANES, vf_zero());
    }
}

void LKI_ISA_NAME(lki_attention_columns)(const float *panels, int64_t rows, int64_t width,
                                         float *columns)
{
    for (int64_t r = 0; r < rows; r += 4) {
        float *to = columns + r / PANEL * PANEL * width + r % PANEL;
        for (int64_t d = 0; d < width; d += 4) {
            const float *from = panels + (d / PANEL * rows + r) * PANEL + d % PANEL;
            float corner[16];
            const bool whole = d + 4 <= width;
            transpose4(from, PANEL, whole ? to + d * PANEL : corner, whole ? PANEL : 4, false);
            for (int64_t e = d; !whole && e < width; e++)
                memcpy(to + e * PANEL, corner + 4 * (e - d), 4 * sizeof(float));
        }
    }
}

void LKI_ISA_NAME(lki_attention_put)(const lki_attention_head *head, const float *panels,
                                     bool turns, float factor, float *x, bool add, float *room)
{
    const int64_t rows = whole_blocks(head->positions), width = head->width;
    float *turned = room + panel_width(width);
    for (int64_t r = 0; r < head->positions; r++) {
        const float *from = room;
        for (int64_t d = 0; d < width; d += LANES)
            vf_store(room + d,
                     vf_flush(vf_load(panels + (d / PANEL * rows + r) * PANEL + d % PANEL) *
                              vf_set(factor)));
        if (turns && head->cosine != NULL) {
            attention_turn(head, room, r, -1.0f, turned);
            from = turned;
        }
        FOR_VECTORS(d, n, width)
        vf_put_result(x + r * head->row + d, vf_get(from + d, n), n, add);
    }
}

INLINE void scores_tile(const int R, const float *a, int64_t rows, const float *b, int64_t width,
                        float *s)
{
    for (int64_t d = 0; d < width; d += SIDE) {
        const int64_t end = smaller(width, d + SIDE);
        vf acc[TILE_ROWS][2], before[TILE_ROWS][2];
        tile_zero(R, acc);
        for (int64_t e = d; e < end; e += PANEL)
            tile_run(R, acc, a + e * rows, PANEL, 1, b + e * PANEL, smaller(end - e, PANEL));
        if (d > 0) {
            tile_load(R, before, s, SIDE, PANEL);
            UNROLL
            for (int r = 0; r < R; r++) {
                acc[r][0] = before[r][0] + acc[r][0];
                acc[r][1] = before[r][1] + acc[r][1];
            }
        }
        tile_store(R, acc, s, SIDE, PANEL);
    }
}

void LKI_ISA_NAME(lki_attention_scores)(const float *a, int64_t rows, const float *b,
                                        int64_t columns, int64_t width, int64_t count, float *s)
{
    for (int64_t c = 0; c < columns; c += PANEL) {
        FOR_TILES(r, height, count)
        {
#define SCORES(R) scores_tile(R, a + r * PANEL, rows, b + c * width, width, s + r * SIDE + c)
            switch (height) {
                TILE_CASES(SCORES)
            }
#undef SCORES
        }
    }
}

INLINE void products_tile(const int R, const float *a, int64_t row, int64_t step, const float *b,
                          int64_t depth, const float *factor, float *o)
{
    vf acc[TILE_ROWS][2], before[TILE_ROWS][2];
    tile_zero(R, acc);
    tile_run(R, acc, a, row, step, b, depth);
    tile_load(R, before, o, PANEL, PANEL);
    UNROLL
    for (int r = 0; r < R; r++) {
        const vf f = vf_set(factor != NULL ? factor[r] : 1.0f);
        acc[r][0] = vf_flush(vf_fma(before[r][0], f, acc[r][0]));
        acc[r][1] = vf_flush(vf_fma(before[r][1], f, acc[r][1]));
    }
    tile_store(R, acc, o, PANEL, PANEL);
}

void LKI_ISA_NAME(lki_attention_products)(int64_t count, const float *a, int64_t row, int64_t step,
                                          const float *b, int64_t terms, int64_t depth,
                                          int64_t width, const float *factor, float *o,
                                          int64_t rows)
{
    for (int64_t d = 0; d < width; d += PANEL) {
        FOR_TILES(r, height, count)
        {
#define PRODUCTS(R)                                                                                \
    products_tile(R, a + r * row, row, step, b + d * terms, depth,                                 \
                  factor != NULL ? factor + r : NULL, o + d * rows + r * PANEL)
            switch (height) {
                TILE_CASES(PRODUCTS)
            }
#undef PRODUCTS
        }
    }
}
