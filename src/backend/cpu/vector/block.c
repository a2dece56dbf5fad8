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
 * Order: forward is a sum over kernel rows and runs (tile.h).
 *
 * d_weight and d_bias take units in ascending position through the images of the replica. Pooled rows
 * come in strips, by a rule of the shape, and strips that together have 256 windows or more, if the last
 * of an image were whole, are a block: one accumulator from +0 for each element of d_weight. Blocks are
 * added in double, and so are all units of d_bias. Borders lie between strips, so whether a unit is
 * active moves none.
 *
 *   images   [ 0                      | 1                      | 2 ...
 *   strips     0      1      2      3   4      5      6      7   8      12 x 12 windows, 36 a strip
 *   blocks   [ 0 ............................................. | 1 ...  8 * 36 >= 256
 *
 * d_x: for each kernel row, window and place, ascending, the sum over the units of this place, one
 * accumulator from +0, is added to the pixel: in this order whatever the width of vectors.
 */
#include "backend/cpu/vector/conv/winograd.h"
#include "backend/cpu/vector/window.h"
#include "numeric/tree.h"

enum {
    STRIP_BYTES = 28 * 1024, /* of x under a strip: the first-level cache, less a little */
    WINDOWS = 256,           /* of a block of d_weight, at least */
    MOST = 12                /* vectors of a run in registers */
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

static int64_t vector_block_strip_of(const lki_block_shape *s)
{
    const int64_t row = s->in_columns * s->channels * (int64_t)sizeof(float);
    const int64_t rows = (STRIP_BYTES / row - s->kernel[0] + 1) / 2;
    return rows < 1 ? 1 : rows < s->rows ? rows : s->rows;
}

static int64_t weights_of(const lki_block_shape *s)
{
    return s->filters * s->kernel[0] * run_of(s);
}

/* Floats of the weight as forward has it. */
static int64_t forward_floats(const lki_block_shape *s)
{
    return s->winograd ? winograd_floats(s->winograd, s->channels, s->filters) : weights_of(s);
}

static size_t vector_block_packed_bytes(const lki_block_shape *s)
{
    return sizeof(float) * (size_t)(forward_floats(s) + weights_of(s));
}

/* Forward: [panel][kernel row][run][PANEL], or Winograd's; backward: [kernel row][filter][run]. */
static void vector_block_pack(const lki_block_shape *s, const float *weight, void *packed, int part,
                              int parts)
{
    const int64_t run = run_of(s), kernel = s->kernel[0] * s->kernel[1], channels = s->channels;
    float *forward = packed, *backward = forward + forward_floats(s);
    const int64_t last = lki_share(part + 1, parts, s->filters);
    const winograd_weight transformed = {.taps = weight,
                                         .side = s->winograd,
                                         .depth = channels,
                                         .columns = s->filters,
                                         .depth_step = kernel,
                                         .column_step = channels * kernel};
    if (s->winograd) LKI_ISA_NAME(lki_winograd_pack)(&transformed, forward, part, parts);
    for (int64_t f = lki_share(part, parts, s->filters); f < last; f++) {
        float *panel = forward + f / PANEL * PANEL * s->kernel[0] * run + f % PANEL;
        for (int64_t kh = 0; kh < s->kernel[0]; kh++)
            for (int64_t kw = 0; kw < s->kernel[1]; kw++)
                for (int64_t c = 0; c < channels; c++) {
                    const float w = weight[(f * channels + c) * kernel + kh * s->kernel[1] + kw];
                    if (!s->winograd) panel[(kh * run + kw * channels + c) * PANEL] = w;
                    backward[(kh * s->filters + f) * run + kw * channels + c] = w;
                }
    }
}

static lists lists_in(const lki_block_shape *s, char *memory)
{
    lists l = {.strip = vector_block_strip_of(s)};
    const size_t windows = (size_t)(l.strip * s->columns), filters = (size_t)s->filters;
    l.by_filter = (unit *)(void *)memory;
    l.by_window = l.by_filter + windows * filters;
    l.count = (int32_t *)(void *)(l.by_window + windows * filters);
    l.end = l.count + filters;
    return l;
}

static size_t vector_block_workspace_bytes(const lki_block_shape *s)
{
    const size_t windows = (size_t)(vector_block_strip_of(s) * s->columns),
                 filters = (size_t)s->filters;
    const size_t backward = 2 * windows * filters * sizeof(unit) +
                            (filters + windows * PLACES) * sizeof(int32_t);
    const size_t direct = (sizeof(double) + sizeof(float)) * (size_t)(TILE_ROWS * PANEL) +
                          sizeof(float) * (size_t)(2 * 2 * s->columns * PANEL);
    const size_t forward = s->winograd ? LKI_ISA_NAME(lki_winograd_block_bytes)(s) : direct;
    return forward > backward ? forward : backward;
}

/* One row of the convolution, a panel of filters: to[pixel][PANEL]. */
INLINE void row_tile(const int R, const lki_block_shape *s, const float *x, const float *weight,
                     tile_wait at, float *to)
{
    const int64_t run = run_of(s);
    tile_sum sum = {0};
    vf acc[TILE_ROWS][2];
    tile_zero(R, acc);
    for (int64_t kh = 0; kh < s->kernel[0]; kh++)
        tile_terms(R, acc, at, &sum, x + kh * s->in_columns * s->channels, s->channels,
                   weight + kh * run * PANEL, run);
    tile_end(R, acc, at, sum.number, !sum.begun);
    tile_store(R, acc, to, PANEL, PANEL);
}

static void convolve_row(const lki_block_shape *s, const float *x, const float *weight,
                         tile_wait at, float *to)
{
    const int64_t pixels = 2 * s->columns;
    FOR_TILES(first, height, pixels)
    {
#define ROW_TILE(R) row_tile(R, s, x + first * s->channels, weight, at, to + first * PANEL)
        switch (height) {
            TILE_CASES(ROW_TILE)
        }
#undef ROW_TILE
    }
}

/* The window below and beside these pixels. */
INLINE void pool_pixels(const float *top, const float *below, vf bias, float *out, uint8_t *where)
{
    const vf from[PLACES] = {vf_load(top), vf_load(top + PANEL), vf_load(below),
                             vf_load(below + PANEL)};
    pool_window(from, bias, out, where);
}

static void vector_block_forward(const lki_block_shape *s, const float *x, const void *packed,
                                 const float *bias, float *out, uint8_t *where, void *workspace)
{
    const int64_t panel = s->kernel[0] * run_of(s) * PANEL;
    const int64_t in_row = s->in_columns * s->channels, pixels = 2 * s->columns * PANEL;
    double *total = workspace;
    float *group = (float *)(void *)(total + TILE_ROWS * PANEL), *rows = group + TILE_ROWS * PANEL;
    const tile_wait wait = {.group = group, .total = total};
    if (s->winograd) {
        LKI_ISA_NAME(lki_winograd_block)(s, x, packed, bias, out, where, workspace);
        return;
    }
    for (int64_t f = 0; f < s->filters; f += PANEL) {
        const float *weight = (const float *)packed + f / PANEL * panel;
        const vf bias0 = bias != NULL ? vf_load(bias + f) : vf_zero();
        const vf bias1 = bias != NULL ? vf_load(bias + f + LANES) : vf_zero();
        for (int64_t r = 0; r < s->rows; r++) {
            convolve_row(s, x + 2 * r * in_row, weight, wait, rows);
            convolve_row(s, x + (2 * r + 1) * in_row, weight, wait, rows + pixels);
            for (int64_t c = 0; c < s->columns; c++) {
                const int64_t at = (r * s->columns + c) * s->filters + f;
                const float *top = rows + 2 * c * PANEL;
                pool_pixels(top, top + pixels, bias0, out + at, where + at);
                pool_pixels(top + LANES, top + pixels + LANES, bias1, out + at + LANES,
                            where + at + LANES);
            }
        }
    }
}

/* Sums of a replica: of the weight [filter][kernel row][run], in floats the unfinished block, in doubles
 * the total of the blocks before it; of the bias [filter], in doubles. */
typedef struct sums {
    float *block;
    double *total, *bias;
    bool begins, ends; /* a block, with this strip */
    bool only;         /* no block of the replica came before its */
} sums;

/* The gradient of the bias will lie behind that of the weight. */
static size_t vector_block_sums_bytes(const lki_block_shape *s)
{
    return (size_t)(weights_of(s) + s->filters) * (sizeof(float) + sizeof(double));
}

/* Strips of an image, and of a block. */
static int64_t strips_of(const lki_block_shape *s)
{
    return (s->rows + vector_block_strip_of(s) - 1) / vector_block_strip_of(s);
}

static int64_t block_strips(const lki_block_shape *s)
{
    const int64_t windows = vector_block_strip_of(s) * s->columns;
    return (WINDOWS + windows - 1) / windows;
}

/* As the replica's strip of this number finds them. */
static sums sums_at(const lki_block_shape *s, void *memory, int64_t strip)
{
    const int64_t each = block_strips(s);
    double *total = memory;
    return (sums){.total = total,
                  .bias = total + weights_of(s),
                  .block = (float *)(void *)(total + weights_of(s) + s->filters),
                  .begins = strip % each == 0,
                  .ends = strip % each == each - 1,
                  .only = strip < each};
}

/* One window: its active units into both lists, places in ascending order; and into the bias. */
static int32_t gather_window(const lki_block_shape *s, const lki_block_backward *b, lists *l,
                             double *bias, int64_t window, int64_t position, int32_t used)
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
                if (bias != NULL) bias[filter] += (double)value;
            }
        l->end[window * PLACES + place] = used;
    }
    return used;
}

INLINE void zero_runs(const int R, vf *acc)
{
    UNROLL for (int i = 0; i < R; i++) acc[i] = vf_zero();
}

/* acc[i] += value * from[offset ...] for every unit, in their order. */
INLINE void sum_runs(const int R, vf *acc, const unit *list, int64_t count, const float *from)
{
    for (int64_t n = 0; n < count; n++) {
        const vf value = vf_set(list[n].value);
        const float *run = from + list[n].offset;
        __asm__("" : "+r"(run)); /* one address and constants, not R addresses */
        UNROLL for (int i = 0; i < R; i++) acc[i] = vf_fma(value, vf_load(run + i * LANES), acc[i]);
    }
}

/* Vectors [at, at + R) of the runs of all filters. */
INLINE void weight_runs(const int R, const lki_block_shape *s, const lki_block_backward *b,
                        const lists *l, const sums *to, int64_t at)
{
    const int64_t run = run_of(s), room = l->strip * s->columns;
    for (int64_t f = 0; f < s->filters; f++)
        for (int64_t kh = 0; kh < s->kernel[0]; kh++) {
            const int64_t place = (f * s->kernel[0] + kh) * run + at;
            float *block = to->block + place;
            double *total = to->total + place;
            vf acc[MOST];
            if (to->begins)
                zero_runs(R, acc);
            else
                UNROLL for (int i = 0; i < R; i++) acc[i] = vf_load(block + i * LANES);
            sum_runs(R, acc, l->by_filter + f * room, l->count[f],
                     b->x + kh * s->in_columns * s->channels + at);
            if (to->ends)
                UNROLL for (int i = 0; i < R; i++) vf_fold(total + i * LANES, acc[i], to->only);
            else
                UNROLL for (int i = 0; i < R; i++) vf_store(block + i * LANES, acc[i]);
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

static void strip_weight(const lki_block_shape *s, const lki_block_backward *b, const lists *l,
                         const sums *to)
{
    const int64_t vectors = run_of(s) / LANES;
    for (int64_t v = 0; v < vectors;) {
#define WEIGHT(R) weight_runs(R, s, b, l, to, v *LANES)
        v += RUN_CASES(WEIGHT, vectors - v);
#undef WEIGHT
    }
}

/* d_x[0 .. R * LANES) += the sum of these units. */
INLINE void data_run(const int R, float *d_x, const unit *list, int64_t count, const float *weight)
{
    vf acc[MOST];
    zero_runs(R, acc);
    sum_runs(R, acc, list, count, weight);
    UNROLL for (int i = 0; i < R; i++) vf_store(d_x + i * LANES, vf_load(d_x + i * LANES) + acc[i]);
}

/* d_x under the windows of pooled rows [first, first + rows). R: vectors of a run, a constant where
 * registers hold it; 0: any. */
INLINE void data_runs(const int R, const lki_block_shape *s, const lki_block_backward *b,
                      const lists *l, int64_t first, int64_t rows)
{
    const int64_t run = run_of(s), vectors = run / LANES;
    const float *weight = (const float *)b->packed + forward_floats(s);
    for (int64_t kh = 0; kh < s->kernel[0]; kh++, weight += s->filters * run) {
        int32_t begin = 0;
        const int32_t *end = l->end;
        for (int64_t r = first; r < first + rows; r++)
            for (int64_t c = 0; c < s->columns; c++)
                for (int place = 0; place < PLACES; begin = *end++, place++) {
                    const int64_t row = 2 * r + place / 2 + kh, column = 2 * c + place % 2;
                    float *d_x = b->d_x + (row * s->in_columns + column) * s->channels;
                    const unit *list = l->by_window + begin;
                    const int64_t count = *end - begin;
                    if (count == 0) continue;
                    if (R > 0) data_run(R, d_x, list, count, weight);
                    for (int64_t v = 0; R == 0 && v < vectors;) {
#define PART(N) data_run(N, d_x + v * LANES, list, count, weight + v * LANES)
                        v += RUN_CASES(PART, vectors - v);
#undef PART
                    }
                }
    }
}

static void strip_data(const lki_block_shape *s, const lki_block_backward *b, const lists *l,
                       int64_t first, int64_t rows)
{
    switch (run_of(s) / LANES) {
    case 12:
        data_runs(12, s, b, l, first, rows);
        break;
    case 6:
        data_runs(6, s, b, l, first, rows);
        break;
    default:
        data_runs(0, s, b, l, first, rows);
    }
}

/* Pixels [first, last) of d_x, which no strip after this one adds to. */
static void vector_block_flush(const lki_block_shape *s, float *d_x, int64_t first, int64_t last)
{
    for (int64_t i = first * s->channels; i < last * s->channels; i += LANES)
        vf_store(d_x + i, vf_flush(vf_load(d_x + i)));
}

static void vector_block_backward(const lki_block_shape *s, const lki_block_backward *b)
{
    lists l = lists_in(s, b->workspace);
    int64_t strip = b->sample * strips_of(s);
    for (int64_t first = 0; first < s->rows; first += l.strip, strip++) {
        const bool last = s->rows - first <= l.strip;
        const int64_t rows = last ? s->rows - first : l.strip;
        const sums to = b->sums != NULL ? sums_at(s, b->sums, strip) : (sums){0};
        int32_t used = 0;
        memset(l.count, 0, sizeof(int32_t) * (size_t)s->filters);
        if (b->sums != NULL && strip == 0) memset(to.bias, 0, sizeof(double) * (size_t)s->filters);
        for (int64_t w = 0; w < rows * s->columns; w++)
            used = gather_window(s, b, &l, to.bias, w, first * s->columns + w, used);
        if (b->sums != NULL) strip_weight(s, b, &l, &to);
        if (b->d_x == NULL) continue;
        strip_data(s, b, &l, first, rows);
        vector_block_flush(s, b->d_x, 2 * first * s->in_columns,
                           (last ? s->in_rows : 2 * (first + rows)) * s->in_columns);
    }
}

static const float *vector_block_gradient(const lki_block_shape *s, int64_t samples, void *memory)
{
    const int64_t strips = samples * strips_of(s), each = block_strips(s);
    const sums all = sums_at(s, memory, 0);
    for (int64_t i = 0; i < weights_of(s); i += LANES) {
        vf v = strips % each != 0 ? vf_load(all.block + i) : vf_zero();
        if (strips >= each) v = vf_total(all.total + i, v);
        vf_store(all.block + i, vf_flush(v));
    }
    for (int64_t f = 0; f < s->filters; f++)
        all.block[weights_of(s) + f] = lki_flush((float)all.bias[f]);
    return all.block;
}

const lki_vector_block LKI_ISA_NAME(lki_vector_block) = {
    .packed_bytes = vector_block_packed_bytes,
    .pack = vector_block_pack,
    .workspace_bytes = vector_block_workspace_bytes,
    .sums_bytes = vector_block_sums_bytes,
    .forward = vector_block_forward,
    .backward = vector_block_backward,
    .gradient = vector_block_gradient,
};
