/*
 * Depthwise convolutions, NHWC: a filter for each channel, so that channels are the vector, and what
 * one of them reads no other does. Forward and data gradient are passes over a grid of pixels:
 *
 *     c[pixel][channel] = sum over taps of a[pixel under the tap][channel] * b[tap][channel]
 *
 *     a     . x x x x x x .     A tile is up to TILE pixels of a row and one or two vectors of channels,
 *     tap     \ | /             with an accumulator for each. A tap passes over all of it, its weights
 *     c         t t t t         in a register, before the next tap does; or, with fewer registers, a
 *                               column of a is read once, for all pixels that see it.
 *
 * An element takes its taps row by row, from left to right (the data gradient in the opposite order),
 * and numbers all of them, also those in the border, which are left out: no image is copied. A
 * kernel of more than 64 taps has several blocks (tile.h).
 *
 * The data gradient of a stride s is s * s passes: pixels whose row and column have the same rest
 * modulo the stride see the same taps. With three taps and a stride of 2 columns come in pairs, as rows
 * are written faster where they are written whole.
 *
 * Packed weights are [vector of channels][tap][LANES].
 */
#include "backend/cpu/vector/depthwise.h"
#include "backend/cpu/vector/phase.h"
#include "base/memory.h"
#include "numeric/tree.h"

/* Pixels of a tile; with a stride of 2; with more accumulators each. Vectors of channels; of a wide tile. */
#if LANES == 16 || defined(LKI_NEON) /* 32 registers */
#define CASES(KIND) CASES_8(KIND)
enum { TILE = 8, TILE_BY_2 = 8, FEW = 4, VECTORS = 2, WIDE = 2 };
#elif LANES == 8
#define CASES(KIND) CASES_8(KIND)
enum { TILE = 8, TILE_BY_2 = 7, FEW = 4, VECTORS = 1, WIDE = 2 };
#else /* a multiply-add is a page of code */
#define CASES(KIND) CASES_4(KIND)
enum { TILE = 4, TILE_BY_2 = 4, FEW = 4, VECTORS = 1, WIDE = 1 };
#endif
enum {
    CACHED = 20 * 1024, /* bytes: rows under a kernel that stay in the first-level cache */
    CHUNK = 64,         /* channels at least that an image is gone through with */
    LARGE = 768 * 1024, /* bytes: such an image does not wait in the second-level cache */
    PHASE_ROWS = 8      /* of a phase before the next one has its turn */
};

/* One direction of a pass. */
typedef struct axis {
    int64_t pixels;          /* of c that are computed */
    int64_t c_first, c_step; /* where they lie */
    int64_t a_first, a_step; /* what lies under the first tap of the first; from pixel to pixel */
    int64_t taps, a_tap;     /* pixels of a from tap to tap */
    int64_t b_first, b_tap;  /* the first tap's number in the kernel; from tap to tap */
    int64_t a_size, c_size;
} axis;

/* Three taps side by side with a stride of 1, of 2, of 2 with wide tiles. */
typedef enum kind { ANY, BLOCKS, THREE, THREE_BY_2, WIDE_BY_2, PAIRS } kind;

typedef struct pass {
    axis v, h;              /* rows; columns, or pairs of them */
    int64_t channels, taps; /* taps of the kernel */
    int64_t from, to;       /* channels */
    const float *b, *bias;  /* bias NULL: none */
    bool add, relu;
    /* By ready(): */
    kind kind;
    int64_t a_row, a_tap_row, a_tap, a_pixel, c_row, c_pixel; /* floats */
    int64_t b_tap_row, b_tap;
    int64_t tiles, pixels, more; /* in a row: tiles, each of so many pixels, some with one more */
    bool large;                  /* a does not wait in the second-level cache: by the caller */
    bool over;                   /* the last pixel's last tap is behind the end of the row */
} pass;

/* Tiles of one size, side by side. */
typedef struct strip {
    const pass *p;
    const float *a, *b; /* under the first tap inside the image of the first pixel; that tap */
    float *c;
    int64_t column;           /* of a */
    int64_t first, rows;      /* rows of taps inside the image */
    int tiles, before, after; /* the tile whose first, and last, column is outside; -1: none */
} strip;

typedef struct place {
    const float *a, *b;
    float *c;
    int64_t column, channel, n; /* n channels, where they are less than a vector */
    bool before, after;
} place;

INLINE vf get(const float *from, bool whole, int64_t n)
{
    return whole ? vf_load(from) : vf_load_some(from, n);
}

INLINE void finish(const int R, const int V, const bool whole, const pass *p, const place *at,
                   int64_t step, vf acc[][WIDE])
{
    float *c = at->c;
    if (p->bias != NULL) {
        UNROLL for (int k = 0; k < V; k++)
        {
            const vf bias = get(p->bias + at->channel + k * LANES, whole, at->n);
            UNROLL for (int i = 0; i < R; i++) acc[i][k] += bias;
        }
    }
    if (p->add) {
        UNROLL for (int i = 0; i < R; i++)
        {
            UNROLL for (int k = 0; k < V; k++)
                acc[i][k] = get(c + i * step + k * LANES, whole, at->n) + acc[i][k];
        }
    }
    if (p->relu) {
        UNROLL for (int i = 0; i < R; i++)
        {
            UNROLL for (int k = 0; k < V; k++) acc[i][k] = vf_relu(acc[i][k]);
        }
    }
    UNROLL for (int i = 0; i < R; i++, c += step)
    {
        UNROLL for (int k = 0; k < V; k++)
        {
            const vf x = vf_flush(acc[i][k]);
            if (whole)
                vf_store(c + k * LANES, x);
            else
                vf_store_some(c + k * LANES, x, at->n);
        }
    }
}

INLINE void clear(const int R, const int V, vf acc[][WIDE])
{
    UNROLL for (int i = 0; i < R; i++)
    {
        UNROLL for (int k = 0; k < V; k++) acc[i][k] = vf_zero();
    }
}

/* Columns that the next tile will be the first to read. */
INLINE void fetch(const int columns, const int V, const float *a, int64_t channels, int64_t channel)
{
    if (V * LANES < 16 && channel % 16 != 0) return; /* its line comes with another vector */
    UNROLL for (int i = 0; i < columns; i++, a += channels)
    {
        UNROLL for (int k = 0; k < V * LANES; k += 16) __builtin_prefetch(a + k);
    }
}

/* The taps of a row, one after the other: each passes over all pixels. */
INLINE void three_by_tap(const int R, const int V, const bool whole, const int S, const pass *p,
                         const place *at, const float *a, const float *b, vf acc[][WIDE])
{
    const int64_t vector = p->taps * LANES;
    UNROLL
    for (int h = 0; h < 3; h++) {
        const float *x = a + h * p->channels;
        vf w[WIDE];
        UNROLL
        for (int k = 0; k < V; k++) w[k] = vf_load(b + h * p->b_tap + k * vector);
        UNROLL
        for (int i = 0; i < R; i++, x += S * p->channels) {
            if (h == 0 && i == 0 && at->before) continue;
            if (h == 2 && i == R - 1 && at->after) continue;
            UNROLL
            for (int k = 0; k < V; k++)
                acc[i][k] = vf_fma(get(x + k * LANES, whole, at->n), w[k], acc[i][k]);
        }
    }
}

/* The columns of a row, one after the other: each is read once and gives to all pixels that see it. */
INLINE void three_by_column(const int R, const int V, const bool whole, const int S, const pass *p,
                            const place *at, const float *a, const float *b, vf acc[][WIDE])
{
    const int64_t vector = p->taps * LANES;
    const int last = (R - 1) * S + 2;
    int64_t apart[4] = {0, p->channels, 2 * p->channels, 3 * p->channels};
    vf w[3][WIDE];
    UNROLL
    for (int t = 1; t < 4; t++) OPAQUE(apart[t]); /* so that they stay in registers */
    UNROLL
    for (int h = 0; h < 3; h++) {
        UNROLL
        for (int k = 0; k < V; k++) w[h][k] = vf_load(b + h * p->b_tap + k * vector);
    }
    UNROLL
    for (int j = 0; j <= last; j++) {
        if (j > 0 && j % 4 == 0) a += 4 * p->channels;
        if ((j == 0 && at->before) || (j == last && at->after)) continue;
        UNROLL
        for (int k = 0; k < V; k++) {
            vf x = get(a + apart[j % 4] + k * LANES, whole, at->n);
            OPAQUE_VECTOR(x);
            UNROLL
            for (int h = 0; h < 3; h++) {
                const int i = (j - h) / S;
                if (j >= h && (j - h) % S == 0 && i < R) acc[i][k] = vf_fma(x, w[h][k], acc[i][k]);
            }
        }
    }
}

/* Rows of three taps side by side, with stride S, by the way that is faster; both have the same order. */
INLINE void three(const int R, const int V, const bool whole, const int S, const strip *s,
                  const place *at)
{
    const pass *p = s->p;
    const float *a = at->a, *b = at->b;
    vf acc[TILE][WIDE];
    clear(R, V, acc);
    for (int64_t v = 0; v < s->rows; v++, a += p->a_tap_row, b += p->b_tap_row) {
        OPAQUE(a); /* else a pointer for each column goes from row to row, in memory */
        if (p->large && v + S >= s->rows)
            fetch(R * S, V, a + (R * S + 3 - S) * p->channels, p->channels, at->channel);
        if (LANES == 16)
            three_by_tap(R, V, whole, S, p, at, a, b, acc);
        else
            three_by_column(R, V, whole, S, p, at, a, b, acc);
    }
    finish(R, V, whole, p, at, p->c_pixel, acc);
}

/* R pairs of columns: the first sees tap 1 of three, the second 2, and 0 a pixel further. */
INLINE void pairs(const int R, const int V, const bool whole, const strip *s, const place *at)
{
    const pass *p = s->p;
    const int64_t channels = p->channels;
    const float *a = at->a, *b = at->b;
    vf acc[2 * FEW][WIDE];
    clear(2 * R, V, acc);
    for (int64_t v = 0; v < s->rows; v++, a += p->a_tap_row, b += p->b_tap_row) {
        OPAQUE(a);
        if (p->large && v + 1 == s->rows)
            fetch(R, V, a + (R + 1) * channels, channels, at->channel);
        UNROLL for (int k = 0; k < V; k++)
        {
            const float *x = a + k * LANES, *w = b + k * p->taps * LANES;
            const vf w0 = vf_load(w), w1 = vf_load(w + LANES), w2 = vf_load(w + 2 * LANES);
            UNROLL for (int i = 0; i <= R; i++, x += channels)
            {
                if (i == R && at->after) continue;
                const vf d = get(x, whole, at->n);
                if (i > 0) acc[2 * i - 1][k] = vf_fma(d, w0, acc[2 * i - 1][k]);
                if (i < R) acc[2 * i][k] = vf_fma(d, w1, acc[2 * i][k]);
                if (i < R) acc[2 * i + 1][k] = vf_fma(d, w2, acc[2 * i + 1][k]);
            }
        }
    }
    finish(2 * R, V, whole, p, at, channels, acc);
}

/* The unfinished group of a sum of several blocks, and the groups before it. */
typedef struct waiting {
    vf group;
    vd total[2];
} waiting;

/* A block ends in front of the tap of this number. */
INLINE void end_block(waiting *w, vf *acc, int64_t number)
{
    w->group += *acc;
    *acc = vf_zero();
    if (number % LKI_GROUP_TERMS != 0) return;
    w->total[0] += vf_low(w->group);
    w->total[1] += vf_high(w->group);
    w->group = vf_zero();
}

/* Any taps, of one block or, if `many`, of several. */
INLINE void any(const int R, const bool whole, const bool many, const strip *s, const place *at)
{
    const pass *p = s->p;
    const axis *h = &p->h;
    const uint64_t width = (uint64_t)h->a_size;
    const bool inside = at->column >= 0 &&
                        at->column + (R - 1) * h->a_step + (h->taps - 1) * h->a_tap < h->a_size;
    const float *a = at->a, *b = at->b;
    int64_t number = s->first * h->taps;
    vf acc[TILE][WIDE];
    waiting wait[FEW];
    clear(R, 1, acc);
    if (many) memset(wait, 0, sizeof wait);
    for (int64_t v = 0; v < s->rows; v++, a += p->a_tap_row, b += p->b_tap_row)
        for (int64_t k = 0; k < h->taps; k++) {
            const vf w = vf_load(b + k * p->b_tap);
            const float *x = a + k * p->a_tap;
            int64_t column = at->column + k * h->a_tap;
            UNROLL
            for (int i = 0; i < R; i++, x += p->a_pixel, column += h->a_step)
                if (inside || (uint64_t)column < width)
                    acc[i][0] = vf_fma(get(x, whole, at->n), w, acc[i][0]);
            if (!many || ++number % LKI_BLOCK_TERMS != 0) continue;
            UNROLL
            for (int i = 0; i < R; i++) end_block(&wait[i], &acc[i][0], number);
        }
    if (many) {
        UNROLL
        for (int i = 0; i < R; i++) {
            end_block(&wait[i], &acc[i][0], 0);
            acc[i][0] = vf_join(wait[i].total[0], wait[i].total[1]);
        }
    }
    finish(R, 1, whole, p, at, p->c_pixel, acc);
}

INLINE void tile(const kind of, const int R, const int V, const bool whole, const strip *s,
                 place at, int64_t channel, int64_t n)
{
    at.a += channel;
    at.b = s->b + channel * s->p->taps;
    at.c += channel;
    at.channel = channel;
    at.n = n;
    if (of == THREE || of == THREE_BY_2 || of == WIDE_BY_2)
        three(R, V, whole, of == THREE ? 1 : 2, s, &at);
    else if (of == PAIRS)
        pairs(R, V, whole, s, &at);
    else
        any(R, whole, of == BLOCKS, s, &at);
}

INLINE void tiles(const kind of, const int R, const strip *given)
{
    const int V = of == ANY || of == BLOCKS ? 1 : of == WIDE_BY_2 ? WIDE : VECTORS;
    /* Copies, so that nothing of them has to be read again behind a store. */
    const pass copy = *given->p, *const p = &copy;
    strip here = *given, *const s = &here;
    s->p = p;
    place at = {.a = s->a, .c = s->c, .column = s->column};
    for (int t = 0; t < s->tiles; t++) {
        int64_t c = p->from;
        at.before = t == s->before;
        at.after = t == s->after;
        for (; c + V * LANES <= p->to; c += V * LANES) tile(of, R, V, true, s, at, c, LANES);
        if (V > 1 && c + LANES <= p->to) {
            tile(of, R, 1, true, s, at, c, LANES);
            c += LANES;
        }
        if (c < p->to) tile(of, R, 1, false, s, at, c, p->to - c);
        at.a += R * p->a_pixel;
        at.c += R * p->c_pixel;
        at.column += R * p->h.a_step;
    }
}

#define CASE(KIND, R)                                                                              \
    case R:                                                                                        \
        tiles(KIND, R, s);                                                                         \
        break;
#define CASES_4(KIND) CASE(KIND, 1) CASE(KIND, 2) CASE(KIND, 3) CASE(KIND, 4)
#define CASES_8(KIND) CASES_4(KIND) CASE(KIND, 5) CASE(KIND, 6) CASE(KIND, 7) CASE(KIND, 8)
/* The number of pixels is a constant in what it calls. */
#define RUN(name, KIND, LIST)                                                                      \
    static void name(const strip *s, int64_t pixels)                                               \
    {                                                                                              \
        switch (pixels) {                                                                          \
            LIST(KIND)                                                                             \
        }                                                                                          \
    }
// clang-format off
RUN(run_any, ANY, CASES)
RUN(run_blocks, BLOCKS, CASES_4)
RUN(run_three, THREE, CASES)
RUN(run_three_by_2, THREE_BY_2, CASES)
RUN(run_wide_by_2, WIDE_BY_2, CASES_4)
RUN(run_pairs, PAIRS, CASES_4)
// clang-format on

static void vector_depthwise_run(const strip *s, int64_t pixels)
{
    static void (*const by_kind[])(const strip *, int64_t) = {[ANY] = run_any,
                                                              [BLOCKS] = run_blocks,
                                                              [THREE] = run_three,
                                                              [THREE_BY_2] = run_three_by_2,
                                                              [WIDE_BY_2] = run_wide_by_2,
                                                              [PAIRS] = run_pairs};
    if (s->tiles > 0) by_kind[s->p->kind](s, pixels);
}

/* What is the same in all rows. */
static void ready(pass *p)
{
    const axis *v = &p->v, *h = &p->h;
    const int64_t last = h->a_first + (h->pixels - 1) * h->a_step + (h->taps - 1) * h->a_tap;
    p->a_row = h->a_size * p->channels;
    p->a_tap_row = v->a_tap * p->a_row;
    p->a_tap = h->a_tap * p->channels;
    p->a_pixel = h->a_step * p->channels;
    p->c_row = h->c_size * p->channels;
    p->c_pixel = h->c_step * p->channels;
    p->b_tap_row = v->b_tap * LANES;
    p->b_tap = h->b_tap * LANES;
    p->over = last == h->a_size;
    /* A stride of 2 reads twice as many columns at a time, which are too many streams from memory. */
    const bool wide = p->large ||
                      (WIDE > VECTORS && h->pixels % TILE_BY_2 != 0 && h->pixels % FEW == 0);
    if (p->kind != PAIRS) {
        p->kind = v->taps * h->taps > LKI_BLOCK_TERMS ? BLOCKS : ANY;
        if (h->taps == 3 && h->a_tap == 1 && h->a_first >= -1 && last <= h->a_size &&
            p->kind == ANY && h->a_step <= 2)
            p->kind = h->a_step == 1 ? THREE : wide ? WIDE_BY_2 : THREE_BY_2;
    }
    const bool few = p->kind == PAIRS || p->kind == BLOCKS || p->kind == WIDE_BY_2;
    const int64_t most = few ? FEW : p->kind == THREE_BY_2 ? TILE_BY_2 : TILE;
    p->tiles = (h->pixels + most - 1) / most;
    p->pixels = h->pixels / p->tiles;
    p->more = h->pixels - p->pixels * p->tiles;
}

/* Row y of the grid; a and c are images. */
static void run_row(const pass *p, const float *a, float *c, int64_t y)
{
    const axis *v = &p->v, *h = &p->h;
    const int64_t row = v->a_first + y * v->a_step;
    int64_t from = 0, to = v->taps;
    while (from < to && row + from * v->a_tap < 0) from++;
    while (to > from && row + (to - 1) * v->a_tap >= v->a_size) to--;
    strip s = {.p = p,
               .a = a + row * p->a_row + from * p->a_tap_row + h->a_first * p->channels,
               .b = p->b + (v->b_first + h->b_first) * LANES + from * p->b_tap_row,
               .c = c + (v->c_first + y * v->c_step) * p->c_row + h->c_first * p->channels,
               .column = h->a_first,
               .first = from,
               .rows = to - from,
               .tiles = (int)p->more,
               .before = h->a_first < 0 ? 0 : -1,
               .after = -1};
    if (p->more > 0) {
        vector_depthwise_run(&s, p->pixels + 1);
        const int64_t done = p->more * (p->pixels + 1);
        s.a += done * p->a_pixel;
        s.c += done * p->c_pixel;
        s.column += done * h->a_step;
        s.before = -1;
    }
    s.tiles = (int)(p->tiles - p->more);
    if (p->over) s.after = s.tiles - 1;
    vector_depthwise_run(&s, p->pixels);
}

static bool is_large(const lki_conv_shape *s)
{
    return s->in[0] * s->in[1] * s->channels > LARGE / (int64_t)sizeof(float);
}

/* Channels of an image that are gone through together: the rows of a (its columns) under a kernel's
 * rows wait in the first-level cache for the next row. */
static int64_t chunk_of(const lki_conv_shape *s, int64_t columns)
{
    const int64_t row = s->channels * columns * (int64_t)sizeof(float);
    if (s->stride[0] > 1 && is_large(s)) return s->channels;
    const int64_t chunks = (row * s->kernel[0] + CACHED - 1) / CACHED;
    const int64_t blocks = (depthwise_blocks(s) + chunks - 1) / chunks;
    return blocks * LANES > CHUNK ? blocks * LANES : CHUNK;
}

/* Channels [p->from, p->to). */
static void vector_depthwise_take(pass *p, int64_t from, int64_t chunk)
{
    p->from = from;
    p->to = p->channels - from < chunk ? p->channels : from + chunk;
}

static void vector_depthwise_forward(const lki_conv_shape *s, int64_t count, const float *x,
                                     const void *packed, const float *bias, bool relu, float *y,
                                     void *workspace)
{
    const int64_t x_size = s->in[0] * s->in[1] * s->channels,
                  y_size = s->out[0] * s->out[1] * s->channels;
    const int64_t chunk = chunk_of(s, s->in[1]);
    axis axes[2];
    (void)workspace;
    for (int i = 0; i < 2; i++)
        axes[i] = (axis){.pixels = s->out[i],
                         .c_step = 1,
                         .a_first = -s->padding[i],
                         .a_step = s->stride[i],
                         .taps = s->kernel[i],
                         .a_tap = s->dilation[i],
                         .b_tap = i == 0 ? s->kernel[1] : 1,
                         .a_size = s->in[i],
                         .c_size = s->out[i]};
    pass p = {.v = axes[0],
              .h = axes[1],
              .channels = s->channels,
              .taps = s->kernel[0] * s->kernel[1],
              .b = packed,
              .bias = bias,
              .relu = relu,
              .large = is_large(s)};
    ready(&p);
    for (int64_t n = 0; n < count; n++)
        for (int64_t c = 0; c < s->channels; c += chunk) {
            vector_depthwise_take(&p, c, chunk);
            for (int64_t r = 0; r < s->out[0]; r++) run_row(&p, x + n * x_size, y + n * y_size, r);
        }
}

static axis axis_of_phase(const lki_conv_shape *s, int i, int64_t pixel)
{
    const phase p = phase_of(s, i, pixel);
    const int64_t tap = i == 0 ? s->kernel[1] : 1;
    return (axis){.pixels = p.pixels,
                  .c_first = p.pixel,
                  .c_step = s->stride[i],
                  .a_first = p.out,
                  .a_step = 1,
                  .taps = p.taps,
                  .a_tap = p.out_step,
                  .b_first = p.tap * tap,
                  .b_tap = -p.step * tap,
                  .a_size = s->out[i],
                  .c_size = s->in[i]};
}

/* Whether columns come in pairs, and then these. */
static bool pairs_of(const lki_conv_shape *s, axis *h)
{
    *h = (axis){.pixels = s->in[1] / 2,
                .c_step = 2,
                .a_step = 1,
                .taps = 2,
                .a_tap = 1,
                .a_size = s->out[1],
                .c_size = s->in[1]};
    return s->kernel[1] == 3 && s->stride[1] == 2 && s->padding[1] == 1 && s->dilation[1] == 1 &&
           s->in[1] % 2 == 0 && 2 * s->kernel[0] <= LKI_BLOCK_TERMS;
}

/* Rows [first, first + PHASE_ROWS) of each phase. */
static void backward_rows(const lki_conv_shape *s, pass *p, const float *d_y, float *d_x,
                          int64_t first)
{
    axis paired;
    const bool pair = pairs_of(s, &paired);
    const int64_t rows = phases(s, 0), columns = pair ? 1 : phases(s, 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            p->v = axis_of_phase(s, 0, i);
            p->h = pair ? paired : axis_of_phase(s, 1, j);
            p->kind = pair ? PAIRS : ANY;
            ready(p);
            const int64_t end = p->v.pixels - first < PHASE_ROWS ? p->v.pixels : first + PHASE_ROWS;
            for (int64_t y = first; y < end; y++) run_row(p, d_y, d_x, y);
        }
}

static void vector_depthwise_backward(const lki_conv_shape *s, int64_t count, const float *d_y,
                                      const void *packed, float *d_x, bool add, void *workspace)
{
    const int64_t x_size = s->in[0] * s->in[1] * s->channels,
                  y_size = s->out[0] * s->out[1] * s->channels;
    const int64_t chunk = chunk_of(s, s->out[1]);
    const int64_t rows = (s->in[0] + s->stride[0] - 1) / s->stride[0];
    pass p = {.channels = s->channels,
              .taps = s->kernel[0] * s->kernel[1],
              .b = packed,
              .add = add,
              .large = is_large(s)};
    (void)workspace;
    for (int64_t n = 0; n < count; n++)
        for (int64_t c = 0; c < s->channels; c += chunk) {
            vector_depthwise_take(&p, c, chunk);
            for (int64_t r = 0; r < rows; r += PHASE_ROWS)
                backward_rows(s, &p, d_y + n * y_size, d_x + n * x_size, r);
        }
}

static size_t vector_depthwise_packed_bytes(const lki_conv_shape *s)
{
    const size_t taps = lki_times((size_t)s->kernel[0], (size_t)s->kernel[1]);
    return lki_times(taps, sizeof(float) * (size_t)(depthwise_blocks(s) * LANES));
}

static void vector_depthwise_pack(const lki_conv_shape *s, const float *weight, void *packed,
                                  int part, int parts)
{
    const int64_t blocks = depthwise_blocks(s), taps = s->kernel[0] * s->kernel[1];
    for (int64_t b = lki_share(part, parts, blocks); b < lki_share(part + 1, parts, blocks); b++) {
        float *to = (float *)packed + b * taps * LANES;
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t c = b * LANES; c < (b + 1) * LANES; c++)
                *to++ = c < s->channels ? weight[c * taps + tap] : 0;
    }
}

static size_t vector_depthwise_workspace_bytes(const lki_conv_shape *s, int64_t count)
{
    (void)s, (void)count;
    return 0;
}

const lki_vector_conv LKI_ISA_NAME(lki_vector_depthwise) = {
    .packed_bytes = vector_depthwise_packed_bytes,
    .pack = vector_depthwise_pack,
    .workspace_bytes = vector_depthwise_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_depthwise_sums_bytes),
    .forward = vector_depthwise_forward,
    .backward = vector_depthwise_backward,
    .backward_weight = LKI_ISA_NAME(lki_depthwise_weight),
};
