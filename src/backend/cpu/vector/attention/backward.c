/* Attention, backward: tiles of 64 keys, of each those of 64 rows, with the weights formed again. */
#include "backend/cpu/vector/attention/attention.h"

/* A worker's arrays; matrices of all positions in panels, or by column. */
typedef struct backward_room {
    float *k, *k_columns, *v_columns, *d_k, *d_v; /* of a kv head */
    float *q, *d_o, *d_q;                         /* of a head */
    float *mean;                                  /* of each row: the sum of out d_out */
    float *s, *g;                                 /* tiles: weights, gradients of scores */
    float *rows;                                  /* two */
} backward_room;

static size_t backward_layout(int64_t positions, int64_t width, float *base, backward_room *out)
{
    const int64_t rows = whole_blocks(positions), wide = panel_width(width), all = rows * wide;
    float **const at[] = {&out->k,    &out->k_columns, &out->v_columns, &out->d_k,
                          &out->d_v,  &out->q,         &out->d_o,       &out->d_q,
                          &out->mean, &out->s,         &out->g,         &out->rows};
    const int64_t floats[] = {all, rows * width, rows * width, all,         all,         all,
                              all, all,          rows,         SIDE * SIDE, SIDE * SIDE, 2 * wide};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        if (base != NULL) *at[i] = base + bytes / sizeof(float);
        bytes = lki_plus(bytes, lki_align(sizeof(float) * (size_t)floats[i]));
    }
    return bytes;
}

size_t LKI_ISA_NAME(lki_attention_backward_bytes)(int64_t positions, int64_t width)
{
    backward_room room;
    return backward_layout(positions, width, NULL, &room);
}

/* Of all positions. */
static void backward_panels(const lki_attention_head *head, const backward_room *w, const float *x,
                            int64_t row, bool turns, float *panels)
{
    LKI_ISA_NAME(lki_attention_panels)
    (head, x, row, turns, 0, head->positions, whole_blocks(head->positions), w->rows, panels);
}

void LKI_ISA_NAME(lki_attention_backward_begin)(const lki_attention_head *head, void *workspace)
{
    backward_room w;
    const int64_t rows = whole_blocks(head->positions);
    const size_t bytes = sizeof(float) * (size_t)(rows * panel_width(head->width));
    backward_layout(head->positions, head->width, workspace, &w);
    backward_panels(head, &w, head->k, head->row, true, w.k);
    LKI_ISA_NAME(lki_attention_columns)(w.k, rows, head->width, w.k_columns);
    backward_panels(head, &w, head->v, head->row, false, w.q);
    LKI_ISA_NAME(lki_attention_columns)(w.q, rows, head->width, w.v_columns);
    memset(w.d_k, 0, bytes);
    memset(w.d_v, 0, bytes);
}

/* The sum of out d_out of a row, element d in lane d mod 16. */
static float mean_of_row(int64_t width, const float *out, const float *d_out)
{
    float lane[16] = {0};
    FOR_VECTORS(d, n, width)
    {
        float *at = lane + d % 16;
        vf_store(at, vf_fma(vf_get(out + d, n), vf_get(d_out + d, n), vf_load(at)));
    }
    return attention_lanes(lane);
}

/* Of a row of a tile: its scores become weights behind dropout, d_out V' the gradient of the scores but for the
 * scale. */
INLINE void attention_slopes(const lki_attention_head *head, const attention_tile *t, int64_t i,
                             int64_t reach, float most, float inverse, float mean, float *s,
                             float *g)
{
    const vf scale = vf_set(head->scale), m = vf_set(most), one = vf_set(inverse);
    const vf less = vf_set(-mean), end = vf_set((float)attention_limit(head, t, i));
    const vf keep = vf_set(head->keep);
    uint8_t dropped[SIDE] = {0};
    if (head->drop != NULL) attention_draw(head, t, i, dropped);
    for (int64_t j = 0; j < reach; j += LANES) {
        const vf p = vf_flush(exp_negative(attention_score(s, scale, t, j, end) - m) * one);
        vf d_p = vf_load(g + j), left = p;
        if (head->drop != NULL) {
            const vm keeps = vm_equal(vi_from_bytes(dropped + j), vi_set(0));
            d_p = vf_blend(keeps, d_p, vf_zero());
            left = vf_blend(keeps, p, vf_zero());
        }
        vf_store(s + j, left);
        vf_store(g + j, vf_flush(p * vf_fma(d_p, keep, less)));
    }
}

/* Rows [i, i + count) of the tile from row `first` on: weights, gradients of scores, what d_q gets. */
static void backward_rows(const lki_attention_head *head, const attention_tile *t,
                          const backward_room *w, int64_t first, int64_t i, int64_t count,
                          const float *most, const float *inverse)
{
    const int64_t reach = attention_reach(head, t, i + count), width = head->width;
    const int64_t rows = whole_blocks(head->positions);
    float *s = w->s + (i - first) * SIDE, *g = w->g + (i - first) * SIDE;
    if (reach == 0) return;
    LKI_ISA_NAME(lki_attention_scores)
    (w->q + i * PANEL, rows, w->k_columns + t->key * width, reach, width, count, s);
    LKI_ISA_NAME(lki_attention_scores)
    (w->d_o + i * PANEL, rows, w->v_columns + t->key * width, reach, width, count, g);
    for (int64_t r = 0; r < count; r++)
        attention_slopes(head, t, i + r, reach, most[i + r], inverse[i + r], w->mean[i + r],
                         s + r * SIDE, g + r * SIDE);
    LKI_ISA_NAME(lki_attention_products)
    (count, g, SIDE, 1, w->k + t->key * PANEL, rows, smaller(reach, t->count), width, NULL,
     w->d_q + i * PANEL, rows);
}

/* What the tile's keys get from its rows: those that see them, up to a multiple of STAIR. */
static void backward_keys(const lki_attention_head *head, const attention_tile *t,
                          const backward_room *w, int64_t first, int64_t count)
{
    const int64_t rows = whole_blocks(head->positions);
    const bool stairs = head->causal && first < t->key + SIDE - 1;
    for (int64_t j = 0, n; j < t->count; j += n) {
        const int64_t skip = stairs ? j : 0, at = (first + skip) * PANEL;
        n = smaller(t->count - j, stairs ? STAIR : SIDE);
        LKI_ISA_NAME(lki_attention_products)
        (n, w->s + skip * SIDE + j, 1, SIDE, w->d_o + at, rows, count - skip, head->width, NULL,
         w->d_v + (t->key + j) * PANEL, rows);
        LKI_ISA_NAME(lki_attention_products)
        (n, w->g + skip * SIDE + j, 1, SIDE, w->q + at, rows, count - skip, head->width, NULL,
         w->d_k + (t->key + j) * PANEL, rows);
    }
}

void LKI_ISA_NAME(lki_attention_backward)(const lki_attention_head *head, const float *out,
                                          const float *d_out, int64_t out_row, const float *most,
                                          const float *inverse, float *d_q, bool add,
                                          void *workspace)
{
    backward_room w;
    const int64_t positions = head->positions, wide = panel_width(head->width);
    backward_layout(positions, head->width, workspace, &w);
    backward_panels(head, &w, head->q, head->row, true, w.q);
    backward_panels(head, &w, d_out, out_row, false, w.d_o);
    memset(w.d_q, 0, sizeof(float) * (size_t)(whole_blocks(positions) * wide));
    for (int64_t i = 0; i < positions; i++)
        w.mean[i] = mean_of_row(head->width, out + i * out_row, d_out + i * out_row);
    for (int64_t key = 0; key < positions; key += SIDE) {
        for (int64_t i = head->causal ? key : 0; i < positions; i += SIDE) {
            const attention_tile t = attention_tile_of(head, i, key);
            const int64_t end = smaller(i + SIDE, positions);
            for (int64_t r = i, count; r < end; r += count) {
                count = attention_rows(head, &t, r, end);
                backward_rows(head, &t, &w, i, r, count, most, inverse);
            }
            backward_keys(head, &t, &w, i, end - i);
        }
    }
    LKI_ISA_NAME(lki_attention_put)(head, w.d_q, true, head->scale, d_q, add, w.rows);
}

void LKI_ISA_NAME(lki_attention_backward_end)(const lki_attention_head *head, float *d_k,
                                              float *d_v, bool add, void *workspace)
{
    backward_room w;
    backward_layout(head->positions, head->width, workspace, &w);
    LKI_ISA_NAME(lki_attention_put)(head, w.d_k, true, head->scale, d_k, add, w.rows);
    LKI_ISA_NAME(lki_attention_put)(head, w.d_v, false, head->keep, d_v, add, w.rows);
}
