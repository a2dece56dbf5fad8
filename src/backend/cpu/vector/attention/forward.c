/* Attention, forward: rows in tiles of 64, key blocks ascending, softmax with a running maximum. */
#include "backend/cpu/vector/attention/attention.h"

/* A worker's arrays, in floats from the workspace's beginning. */
typedef struct forward_room {
    float *keys, *values; /* by column; in panels */
    float *q, *o;         /* of a tile, in panels */
    float *s;             /* a tile */
    float *lanes;         /* of a tile's rows: [16] sums */
    float *most, *factor; /* of its rows */
    float *row;
} forward_room;

static size_t forward_layout(int64_t positions, int64_t width, float *base, forward_room *out)
{
    const int64_t rows = whole_blocks(positions), wide = panel_width(width);
    float **const at[] = {&out->keys,  &out->values, &out->q,      &out->o,  &out->s,
                          &out->lanes, &out->most,   &out->factor, &out->row};
    const int64_t floats[] = {rows * width, rows * wide, SIDE * wide, SIDE * wide, SIDE * SIDE,
                              SIDE * 16,    SIDE,        SIDE,        wide};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        if (base != NULL) *at[i] = base + bytes / sizeof(float);
        bytes = lki_plus(bytes, lki_align(sizeof(float) * (size_t)floats[i]));
    }
    return bytes;
}

static size_t attention_forward_bytes(int64_t positions, int64_t width)
{
    forward_room room;
    return forward_layout(positions, width, NULL, &room);
}

/* Keys and values as they stand in the workspace. */
static size_t attention_cache_bytes(int64_t positions, int64_t width)
{
    const int64_t rows = whole_blocks(positions);
    return lki_times(sizeof(float) * (size_t)rows, (size_t)(width + panel_width(width)));
}

static forward_room forward_room_of(const lki_attention_head *head, void *workspace)
{
    forward_room w;
    forward_layout(head->positions, head->width, workspace, &w);
    if (head->cache != NULL) {
        w.keys = head->cache;
        w.values = w.keys + whole_blocks(head->positions) * head->width;
    }
    return w;
}

/* Rows [first, last) of a block that has rows already. */
static void forward_append(const lki_attention_head *head, const forward_room *w, int64_t first,
                           int64_t last, const float *v)
{
    const int64_t rows = whole_blocks(head->positions), width = head->width;
    for (int64_t r = first; r < last; r++, v += head->row) {
        float *key = w->keys + r / PANEL * PANEL * width + r % PANEL;
        const float *from = w->q + (r - first) * PANEL;
        for (int64_t d = 0; d < width; d++) {
            key[d * PANEL] = from[d / PANEL * SIDE * PANEL + d % PANEL];
            w->values[(d / PANEL * rows + r) * PANEL + d % PANEL] = v[d];
        }
    }
}

/* Block by block; behind the rows of the last one are zeros. */
static void attention_forward_begin(const lki_attention_head *head, int64_t first, int64_t last,
                                    void *workspace)
{
    const forward_room w = forward_room_of(head, workspace);
    const int64_t rows = whole_blocks(head->positions), width = head->width;
    for (int64_t i = first, end; i < last; i = end) {
        const float *k = head->k + (i - first) * head->row, *v = head->v + (i - first) * head->row;
        end = smaller(i / SIDE * SIDE + SIDE, last);
        LKI_ISA_NAME(lki_attention_panels)(head, k, head->row, true, i, end - i, SIDE, w.row, w.q);
        if (i % SIDE > 0) {
            forward_append(head, &w, i, end, v);
            continue;
        }
        LKI_ISA_NAME(lki_attention_columns)(w.q, SIDE, width, w.keys + i * width);
        LKI_ISA_NAME(lki_attention_panels)
        (head, v, head->row, false, i, end - i, rows, w.row, w.values + i * PANEL);
    }
}

/* The largest of a vector. */
INLINE float largest_of(vf x)
{
#if LANES == 16
    x = vf_most(
        x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    x = vf_most(
        x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    x = vf_most(
        x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    x = vf_most(
        x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return x[0];
#else
    float most = x[0];
    for (int l = 1; l < LANES; l++) most = x[l] > most ? x[l] : most;
    return most;
#endif
}

/* Scores of a row, scaled; the largest so far. */
INLINE float attention_largest(const lki_attention_head *head, const attention_tile *t, float *s,
                               int64_t reach, int64_t limit, float most)
{
    const vf scale = vf_set(head->scale), end = vf_set((float)limit);
    vf all = vf_set(most);
    for (int64_t j = 0; j < reach; j += LANES) {
        const vf x = attention_score(s, scale, t, j, end);
        vf_store(s + j, x);
        all = vf_most(all, x);
    }
    return largest_of(all);
}

/* 0 where no key was seen yet. */
INLINE vf finite_or_zero(vf most)
{
    return vf_blend(vm_gt(most, vf_infinity()), most, vf_zero());
}

/* Scores of a row become exponentials, whose sums are added to its lanes; then those that are dropped are 0. */
INLINE void attention_weights(const lki_attention_head *head, const attention_tile *t, int64_t i,
                              int64_t reach, float most, float factor, float *lanes, float *s)
{
    const vf m = vf_set(most), f = vf_set(factor);
    vf sum[PARTS];
    UNROLL
    for (int p = 0; p < PARTS; p++) sum[p] = vf_zero();
    for (int64_t j = 0; j < reach; j += 16) {
        UNROLL
        for (int p = 0; p < PARTS; p++) {
            const vf x = exp_negative(vf_load(s + j + p * LANES) - m);
            vf_store(s + j + p * LANES, x);
            sum[p] += x;
        }
    }
    UNROLL
    for (int p = 0; p < PARTS; p++)
        vf_store(lanes + p * LANES, vf_fma(vf_load(lanes + p * LANES), f, sum[p]));
    if (head->drop == NULL) return;
    uint8_t dropped[SIDE] = {0};
    attention_draw(head, t, i, dropped);
    for (int64_t j = 0; j < reach; j += LANES) {
        const vm keep = vm_equal(vi_from_bytes(dropped + j), vi_set(0));
        vf_store(s + j, vf_blend(keep, vf_load(s + j), vf_zero()));
    }
}

/* Rows [i, i + count) of the tile from row `first` on, and a block of keys. */
static void forward_block(const lki_attention_head *head, const attention_tile *t,
                          const forward_room *w, int64_t first, int64_t i, int64_t count)
{
    const int64_t r = i - first, reach = attention_reach(head, t, i + count);
    const int64_t rows = whole_blocks(head->positions);
    float *s = w->s + r * SIDE, *most = w->most + r, *factor = w->factor + r, use[SIDE];
    if (reach == 0) return;
    LKI_ISA_NAME(lki_attention_scores)
    (w->q + r * PANEL, SIDE, w->keys + t->key * head->width, reach, head->width, count, s);
    for (int64_t k = 0; k < count; k++)
        use[k] = attention_largest(head, t, s + k * SIDE, reach, attention_limit(head, t, i + k),
                                   most[k]);
    FOR_VECTORS(k, n, count)
    {
        const vf m = vf_get(use + k, n), now = finite_or_zero(m);
        vf_put(factor + k, exp_negative(vf_get(most + k, n) - now), n);
        vf_put(most + k, m, n);
        vf_put(use + k, now, n);
    }
    for (int64_t k = 0; k < count; k++)
        attention_weights(head, t, i + k, reach, use[k], factor[k], w->lanes + (r + k) * 16,
                          s + k * SIDE);
    LKI_ISA_NAME(lki_attention_products)
    (count, s, SIDE, 1, w->values + t->key * PANEL, rows, smaller(reach, t->count), head->width,
     factor, w->o + r * PANEL, SIDE);
}

/* A row is complete: o / l. */
static void forward_row(const lki_attention_head *head, const forward_room *w, int64_t r,
                        float *out, float *most, float *inverse)
{
    const float l = attention_lanes(w->lanes + r * 16), one = l == 0.0f ? 0.0f : 1.0f / l;
    const vf factor = vf_set(one * head->keep);
    FOR_VECTORS(d, n, head->width)
    {
        const vf o = vf_load(w->o + (d / PANEL * SIDE + r) * PANEL + d % PANEL);
        vf_put(out + d, vf_flush(o * factor), n);
    }
    if (inverse == NULL) return;
    *inverse = one;
    *most = w->most[r] > -__builtin_inff() ? w->most[r] : 0.0f;
}

static void attention_forward(const lki_attention_head *head, int64_t first, int64_t last,
                              float *out, int64_t out_row, float *most, float *inverse,
                              void *workspace)
{
    const forward_room w = forward_room_of(head, workspace);
    for (int64_t i = first; i < last; i += SIDE) {
        const int64_t end = smaller(i + SIDE, last);
        const int64_t keys = head->causal ? end : head->positions;
        LKI_ISA_NAME(lki_attention_panels)
        (head, head->q + (i - first) * head->row, head->row, true, i, end - i, SIDE, w.row, w.q);
        memset(w.o, 0, sizeof(float) * (size_t)(SIDE * panel_width(head->width)));
        memset(w.lanes, 0, sizeof(float) * SIDE * 16);
        for (int64_t r = 0; r < SIDE; r++) w.most[r] = -__builtin_inff();
        for (int64_t key = 0; key < keys; key += SIDE) {
            const attention_tile t = attention_tile_of(head, i, key);
            for (int64_t r = i, count; r < end; r += count) {
                count = attention_rows(head, &t, r, end);
                forward_block(head, &t, &w, i, r, count);
            }
        }
        for (int64_t r = i; r < end; r++)
            forward_row(head, &w, r - i, out + (r - first) * out_row,
                        most != NULL ? most + (r - first) : NULL,
                        inverse != NULL ? inverse + (r - first) : NULL);
    }
}

const lki_vector_attention LKI_ISA_NAME(lki_vector_attention) = {
    .forward_bytes = attention_forward_bytes,
    .backward_bytes = LKI_ISA_NAME(lki_attention_backward_bytes),
    .cache_bytes = attention_cache_bytes,
    .forward_begin = attention_forward_begin,
    .forward = attention_forward,
    .backward_begin = LKI_ISA_NAME(lki_attention_backward_begin),
    .backward = LKI_ISA_NAME(lki_attention_backward),
    .backward_end = LKI_ISA_NAME(lki_attention_backward_end),
};
