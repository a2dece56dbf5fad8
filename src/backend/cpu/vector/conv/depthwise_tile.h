/* The tiles of depthwise convolutions (depthwise.c): some pixels of a row, from their first tap to what is
 * stored. */
#ifndef LKI_CPU_VECTOR_CONV_DEPTHWISE_TILE_H
#define LKI_CPU_VECTOR_CONV_DEPTHWISE_TILE_H

#include "backend/cpu/vector/conv/depthwise.h"

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

/* Else wide tiles of a stride of 2 are those of all of them. */
enum { WIDER = WIDE > VECTORS || FEW < TILE_BY_2 };

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
    /* By vector_depthwise_ready(): */
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
    static void (*const by_kind[])(const strip *,
                                   int64_t) = {[ANY] = run_any,
                                               [BLOCKS] = run_blocks,
                                               [THREE] = run_three,
                                               [THREE_BY_2] = run_three_by_2,
                                               [WIDE_BY_2] = WIDER ? run_wide_by_2 : run_three_by_2,
                                               [PAIRS] = run_pairs};
    if (s->tiles > 0) by_kind[s->p->kind](s, pixels);
}

#endif
