/*
 * Convolution + relu + max-pool 2x2 in one pass, and a backward pass that skips exact zeros: behind
 * the pool at most one in four gradients of the convolution's output is not zero, and relu and
 * dropout leave fewer.
 *
 * x is [in_rows][in_columns][channels], so the kernel's columns and channels of one kernel row are
 * one run of kernel[1] * channels floats beside each other, for x and for d_x alike. Everything
 * backward is then one loop (sum_runs): a run of accumulators in registers, and for each active unit
 * of a list, value * run is added to it.
 *
 *              accumulators            list of (value, offset)      offset finds
 *   d_weight   [filter][kernel row]    units of this filter         the pixels under the unit in x
 *   d_x        a pixel, a row below    units of this window with    the run of that filter in the
 *                                      the maximum at one place     weight
 *
 * Order: d_weight and d_bias take units in ascending position, one accumulator each, so pieces and
 * strips change no bit. d_x of an image follows strips, kernel rows, windows, places.
 */
#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/tile.h"
#include "base/memory.h"
#include "base/tree.h"

enum {
    STRIP_BYTES = 28 * 1024, /* of x under a strip: the first-level cache, less a little */
    PLACES = 4
};

typedef struct unit {
    float value;
    int32_t offset;
} unit;

/* Workspace of backward: the active units of a strip of pooled rows. */
typedef struct lists {
    int64_t strip;   /* most pooled rows */
    unit *by_filter; /* [filters][strip * columns] */
    int32_t *count;  /* [filters] */
    unit *by_window; /* window by window, place by place */
    int32_t *end;    /* [strip * columns][PLACES]: in by_window */
} lists;

static int64_t run_of(const lki_block_shape *s)
{
    return s->kernel[1] * s->channels;
}

static int64_t strip_of(const lki_block_shape *s)
{
    const int64_t row = s->in_columns * s->channels * (int64_t)sizeof(float);
    const int64_t rows = (STRIP_BYTES / row - s->kernel[0] + 1) / 2;
    return rows < 1 ? 1 : rows < s->rows ? rows : s->rows;
}

static size_t forward_bytes(const lki_block_shape *s)
{
    return sizeof(float) * (size_t)(s->kernel[0] * run_of(s) * s->filters);
}

static size_t packed_bytes(const lki_block_shape *s)
{
    return 2 * forward_bytes(s);
}

/* Forward: [panel][kernel row][run][PANEL]; backward: [kernel row][filter][run]. */
static void pack(const lki_block_shape *s, const float *weight, void *packed, int part, int parts)
{
    const int64_t run = run_of(s), kernel = s->kernel[0] * s->kernel[1], channels = s->channels;
    float *forward = packed, *backward = forward + s->kernel[0] * run * s->filters;
    const int64_t last = lki_share(part + 1, parts, s->filters);
    for (int64_t f = lki_share(part, parts, s->filters); f < last; f++) {
        float *panel = forward + f / PANEL * PANEL * s->kernel[0] * run + f % PANEL;
        for (int64_t kh = 0; kh < s->kernel[0]; kh++)
            for (int64_t kw = 0; kw < s->kernel[1]; kw++)
                for (int64_t c = 0; c < channels; c++) {
                    const float w = weight[(f * channels + c) * kernel + kh * s->kernel[1] + kw];
                    panel[(kh * run + kw * channels + c) * PANEL] = w;
                    backward[(kh * s->filters + f) * run + kw * channels + c] = w;
                }
    }
}

static lists lists_in(const lki_block_shape *s, char *memory)
{
    lists l = {.strip = strip_of(s)};
    const size_t windows = (size_t)(l.strip * s->columns), filters = (size_t)s->filters;
    l.by_filter = (unit *)(void *)memory;
    l.by_window = l.by_filter + windows * filters;
    l.count = (int32_t *)(void *)(l.by_window + windows * filters);
    l.end = l.count + filters;
    return l;
}

static size_t workspace_bytes(const lki_block_shape *s)
{
    const size_t windows = (size_t)(strip_of(s) * s->columns), filters = (size_t)s->filters;
    const size_t backward = 2 * windows * filters * sizeof(unit) +
                            (filters + windows * PLACES) * sizeof(int32_t);
    const size_t forward = sizeof(float) * (size_t)(2 * 2 * s->columns * PANEL);
    return forward > backward ? forward : backward;
}

/* One row of the convolution, a panel of filters: to[pixel][PANEL]. */
INLINE void row_tile(const int R, const lki_block_shape *s, const float *x, const float *weight,
                     float *to)
{
    const int64_t run = run_of(s);
    vf acc[TILE_ROWS][2];
    tile_zero(R, acc);
    for (int64_t kh = 0; kh < s->kernel[0]; kh++)
        tile_run(R, acc, x + kh * s->in_columns * s->channels, s->channels, 1,
                 weight + kh * run * PANEL, run);
    tile_store(R, acc, to, PANEL, PANEL);
}

static void convolve_row(const lki_block_shape *s, const float *x, const float *weight, float *to)
{
    const int64_t pixels = 2 * s->columns;
    FOR_TILES(first, height, pixels)
    {
#define ROW_TILE(R) row_tile(R, s, x + first * s->channels, weight, to + first * PANEL)
        switch (height) {
            TILE_CASES(ROW_TILE)
        }
#undef ROW_TILE
    }
}

/* bias, relu and the maximum of a window for one vector of filters. */
INLINE void pool_window(const float *top, const float *below, vf bias, float *out, uint8_t *where)
{
    const float *from[PLACES] = {top, top + PANEL, below, below + PANEL};
    vf best = vf_zero();
    vi place = vi_set(LKI_BLOCK_OFF);
    for (int i = 0; i < PLACES; i++) {
        const vf v = vf_load(from[i]) + bias;
        const vm better = vm_gt(v, best); /* false for NaN */
        best = vf_blend(better, v, best);
        place = vi_blend(better, vi_set(i), place);
    }
    vf_store(out, best);
    vi_to_bytes(where, place);
}

static void forward(const lki_block_shape *s, const float *x, const void *packed, const float *bias,
                    float *out, uint8_t *where, void *workspace)
{
    const int64_t panel = s->kernel[0] * run_of(s) * PANEL;
    const int64_t in_row = s->in_columns * s->channels, pixels = 2 * s->columns * PANEL;
    float *rows = workspace;
    for (int64_t f = 0; f < s->filters; f += PANEL) {
        const float *weight = (const float *)packed + f / PANEL * panel;
        const vf bias0 = bias != NULL ? vf_load(bias + f) : vf_zero();
        const vf bias1 = bias != NULL ? vf_load(bias + f + LANES) : vf_zero();
        for (int64_t r = 0; r < s->rows; r++) {
            convolve_row(s, x + 2 * r * in_row, weight, rows);
            convolve_row(s, x + (2 * r + 1) * in_row, weight, rows + pixels);
            for (int64_t c = 0; c < s->columns; c++) {
                const int64_t at = (r * s->columns + c) * s->filters + f;
                const float *top = rows + 2 * c * PANEL;
                pool_window(top, top + pixels, bias0, out + at, where + at);
                pool_window(top + LANES, top + pixels + LANES, bias1, out + at + LANES,
                            where + at + LANES);
            }
        }
    }
}

/* One window: its active units into both lists, places in ascending order. */
static int32_t gather_window(const lki_block_shape *s, const lki_block_backward *b, lists *l,
                             int64_t window, int64_t position, int32_t used)
{
    const int64_t r = position / s->columns, c = position % s->columns, run = run_of(s);
    const uint8_t *where = b->where + position * s->filters;
    const float *d_out = b->d_out + position * s->filters;
    const int64_t room = l->strip * s->columns;
    for (int place = 0; place < PLACES; place++) {
        const int64_t pixel = (2 * r + place / 2) * s->in_columns + 2 * c + place % 2;
        const int32_t under = (int32_t)(pixel * s->channels);
        for (int64_t f = 0; f < s->filters; f += 32)
            for (uint32_t bits = bytes_equal(where + f, (uint8_t)place); bits != 0;
                 bits &= bits - 1) {
                const int64_t filter = f + __builtin_ctz(bits);
                const float value = d_out[filter] * b->scale;
                l->by_window[used++] = (unit){.value = value, .offset = (int32_t)(filter * run)};
                l->by_filter[filter * room + l->count[filter]++] = (unit){.value = value,
                                                                          .offset = under};
                if (b->d_bias != NULL) b->d_bias[filter] += value;
            }
        l->end[window * PLACES + place] = used;
    }
    return used;
}

/* sums[0 .. R * LANES) += value * from[offset ...] for every unit, in their order. */
INLINE void sum_runs(const int R, float *sums, const unit *list, int64_t count, const float *from)
{
    vf acc[12];
    for (int i = 0; i < R; i++) acc[i] = vf_load(sums + i * LANES);
    for (int64_t n = 0; n < count; n++) {
        const vf value = vf_set(list[n].value);
        const float *run = from + list[n].offset;
        for (int i = 0; i < R; i++) acc[i] = vf_fma(value, vf_load(run + i * LANES), acc[i]);
    }
    for (int i = 0; i < R; i++) vf_store(sums + i * LANES, acc[i]);
}

/* Vectors [at, at + R) of the runs of all filters. */
INLINE void weight_runs(const int R, const lki_block_shape *s, const lki_block_backward *b,
                        const lists *l, int64_t at)
{
    const int64_t run = run_of(s), room = l->strip * s->columns;
    for (int64_t f = 0; f < s->filters; f++)
        for (int64_t kh = 0; kh < s->kernel[0]; kh++)
            sum_runs(R, b->d_weight + (f * s->kernel[0] + kh) * run + at, l->by_filter + f * room,
                     l->count[f], b->x + kh * s->in_columns * s->channels + at);
}

/* The same of d_x under the windows of pooled rows [first, first + rows). */
INLINE void data_runs(const int R, const lki_block_shape *s, const lki_block_backward *b,
                      const lists *l, int64_t first, int64_t rows, int64_t at)
{
    const int64_t run = run_of(s);
    const float *weight = (const float *)b->packed + s->kernel[0] * run * s->filters + at;
    for (int64_t kh = 0; kh < s->kernel[0]; kh++, weight += s->filters * run) {
        int32_t begin = 0;
        const int32_t *end = l->end;
        for (int64_t r = first; r < first + rows; r++)
            for (int64_t c = 0; c < s->columns; c++)
                for (int place = 0; place < PLACES; place++, end++) {
                    const int64_t row = 2 * r + place / 2 + kh, column = 2 * c + place % 2;
                    float *d_x = b->d_x + (row * s->in_columns + column) * s->channels + at;
                    if (*end > begin) sum_runs(R, d_x, l->by_window + begin, *end - begin, weight);
                    begin = *end;
                }
    }
}

/* A run is cut into as many vectors as registers allow: 12, then what is left. */
#define RUN_CASES(F, vectors)                                                                      \
    (vectors >= 12  ? (F(12), 12)                                                                  \
     : vectors >= 8 ? (F(8), 8)                                                                    \
     : vectors >= 6 ? (F(6), 6)                                                                    \
     : vectors >= 4 ? (F(4), 4)                                                                    \
     : vectors >= 2 ? (F(2), 2)                                                                    \
                    : (F(1), 1))

static void backward(const lki_block_shape *s, const lki_block_backward *b)
{
    lists l = lists_in(s, b->workspace);
    const int64_t vectors = run_of(s) / LANES;
    for (int64_t first = 0; first < s->rows; first += l.strip) {
        const int64_t rows = s->rows - first < l.strip ? s->rows - first : l.strip;
        int32_t used = 0;
        memset(l.count, 0, sizeof(int32_t) * (size_t)s->filters);
        for (int64_t w = 0; w < rows * s->columns; w++)
            used = gather_window(s, b, &l, w, first * s->columns + w, used);
        for (int64_t v = 0; v < vectors && b->d_weight != NULL;) {
#define WEIGHT(R) weight_runs(R, s, b, &l, v *LANES)
            v += RUN_CASES(WEIGHT, vectors - v);
#undef WEIGHT
        }
        for (int64_t v = 0; v < vectors && b->d_x != NULL;) {
#define DATA(R) data_runs(R, s, b, &l, first, rows, v *LANES)
            v += RUN_CASES(DATA, vectors - v);
#undef DATA
        }
    }
}

const lki_vector_block LKI_ISA_NAME(lki_vector_block) = {
    .packed_bytes = packed_bytes,
    .pack = pack,
    .workspace_bytes = workspace_bytes,
    .forward = forward,
    .backward = backward,
};
