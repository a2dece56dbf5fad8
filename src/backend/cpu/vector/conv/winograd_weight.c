/*
 * The weight gradient of Winograd's convolutions with 3 x 3 taps: with y = A' [sum over channels of U * V] A (winograd.h),
 *
 *     dU = sum over tiles of V * Y,    Y = A dy A'        * element by element, pixels beyond the result are 0
 *     dW = G' dU G                                        in double, rounded once
 *
 * dU is, for each place in a patch, a product [channels][tiles] x [tiles][filters] on the register tile: rows are
 * channels, columns filters. The tiles of a replica are numbered through its samples, which cuts sums into blocks and
 * groups (tile.h); a strip ends with a block or with the piece. Between strips sums wait, as in conv_weight.c. V is
 * formed for CHUNK channels at a time, and Y for a panel of filters, so that both stay in the second-level cache.
 * Of a replica that comes in one piece of few strips these follow each other under a chunk and a panel, whose sums
 * then never leave that cache.
 */
#include "backend/cpu/vector/conv/conv.h"
#include "backend/cpu/vector/conv/winograd_lines.h"
#include "backend/cpu/vector/transpose.h"

enum {
    CHUNK = WINOGRAD_ROW, /* channels */
    WHOLE_PLACES = 144,   /* of the strips of a replica, together */
    WRITTEN = 16          /* channels whose taps are written together */
};

static int64_t places_of(const lki_conv_shape *s)
{
    return (s->winograd + 2) * (s->winograd + 2);
}

static int64_t sum_count(const lki_conv_shape *s)
{
    return winograd_floats(s->winograd + 2, s->channels, s->filters);
}

static int64_t sum_terms(const lki_conv_shape *s)
{
    const winograd w = winograd_of(s, 1);
    return conv_terms(s, winograd_tiles(&w, 0) * winograd_tiles(&w, 1));
}

size_t LKI_ISA_NAME(lki_winograd_sums_bytes)(const lki_conv_shape *s)
{
    return conv_sums_bytes(sum_count(s), s->filters, sum_terms(s));
}

/* [panel][chunk][place][channel][PANEL]. */
static conv_sums sums_in(const lki_conv_shape *s, void *memory)
{
    return conv_sums_in(memory, sum_count(s), sum_terms(s));
}

/* Channels of V: whole vectors. */
static int64_t chunk_row(const lki_conv_shape *s)
{
    return s->channels < CHUNK ? (s->channels + 15) / 16 * 16 : CHUNK;
}

static int64_t v_plane(const lki_conv_shape *s)
{
    return winograd_plane(LKI_BLOCK_TERMS * chunk_row(s));
}

static int64_t y_plane(void)
{
    return winograd_plane(LKI_BLOCK_TERMS * PANEL);
}

size_t LKI_ISA_NAME(lki_winograd_weight_bytes)(const lki_conv_shape *s)
{
    return sizeof(float) * (size_t)(WHOLE_PLACES * v_plane(s) + places_of(s) * y_plane());
}

/* A y of n values, at the points they have. */
INLINE void gradient_line(const int side, const int n, const vf *y, vf *w)
{
    const float a = WINOGRAD_A, b = WINOGRAD_B;
    w[0] = y[0];
    w[side + 1] = side == 2 ? -y[n - 1] : y[n - 1];
    if (n == 1) {
        w[1] = y[0];
        return;
    }
    if (side == 2) {
        w[1] = y[0] + y[1];
        w[2] = y[0] - y[1];
        return;
    }
    const vf even_a = n > 2 ? vf_fma(vf_set(a * a), y[2], y[0]) : y[0];
    vf odd_a = vf_set(a) * y[1];
    if (n > 3) odd_a = vf_fma(vf_set(a * a * a), y[3], odd_a);
    w[1] = even_a + odd_a;
    w[2] = even_a - odd_a;
    if (n == 2) return;
    const vf even_b = vf_fma(vf_set(b * b), y[2], y[0]);
    vf odd_b = vf_set(b) * y[1];
    if (n > 3) odd_b = vf_fma(vf_set(b * b * b), y[3], odd_b);
    w[3] = even_b + odd_b;
    if (n > 3) w[4] = even_b - odd_b;
}

/* Row i of Y, `count` filters, and column j of what all rows give. */
INLINE void gradient_row(const int n, const int side, const winograd *w, const float *d_y,
                         int64_t count, vf *half)
{
    vf d[4];
    UNROLL for (int j = 0; j < n; j++) d[j] = vf_get(d_y + j * w->columns, count);
    gradient_line(side, n, d, half);
}

INLINE void gradient_column(const int n, const int side, const int j, vf half[][WINOGRAD_MOST],
                            const int64_t *at, float *to)
{
    vf d[4], out[WINOGRAD_MOST];
    UNROLL for (int i = 0; i < n; i++) d[i] = half[i][j];
    gradient_line(side, n, d, out);
    UNROLL
    for (int i = 0; i < side + 2; i++)
        if (winograd_has(side, side + 2, n, i))
            vf_store(to + at[i * (side + 2) + j], vf_flush(out[i]));
}

INLINE void gradient_tile(const int side, const winograd *w, const winograd_tile *t,
                          const float *d_y, int64_t count, const int64_t *at, float *to,
                          vf half[][WINOGRAD_MOST])
{
    const int64_t row = w->out[1] * w->columns;
    if (winograd_whole(side, t)) {
        vf lines[4][WINOGRAD_MOST];
        UNROLL
        for (int i = 0; i < side; i++) gradient_row(side, side, w, d_y + i * row, count, lines[i]);
        UNROLL for (int j = 0; j < side + 2; j++) gradient_column(side, side, j, lines, at, to);
        return;
    }
#define ROWS(n)                                                                                    \
    for (int i = 0; i < t->pixels[0]; i++) gradient_row(n, side, w, d_y + i * row, count, half[i]);
    WINOGRAD_PIXELS(side, t->pixels[1], ROWS);
#undef ROWS
#define COLUMNS(n)                                                                                 \
    for (int j = 0; j < side + 2; j++)                                                             \
        if (winograd_has(side, side + 2, t->pixels[1], j))                                         \
            gradient_column(n, side, j, half, at, to);
    WINOGRAD_PIXELS(side, t->pixels[0], COLUMNS);
#undef COLUMNS
}

/* Of tiles [first, first + tiles) the panel of filters that begins with `column`. */
INLINE void gradient_panel(const int side, const winograd *w, const float *d_y, int64_t first,
                           int64_t tiles, int64_t column, float *to)
{
    winograd_places places;
    vf half[4][WINOGRAD_MOST] = {{{0}}};
    winograd_tile t = winograd_first(w, first), ahead = winograd_first(w, first + FETCH_AHEAD);
    winograd_begin(w, PANEL, y_plane(), &places);
    for (int64_t k = 0; k < tiles; k++) {
        const float *tile = d_y + winograd_at_tile(w, &t) + column;
        winograd_fetch_panel(side, w, &ahead, d_y, column, false);
        for (int64_t v = 0; v < PANEL; v += LANES) {
            const float *from = tile + v;
            const int64_t left = w->columns - column - v, n = left < LANES ? left : LANES;
            for (int64_t p = 0; n <= 0 && p < (side + 2) * (side + 2); p++)
                vf_store(to + places.at[p] + v, vf_zero());
            if (n > 0) gradient_tile(side, w, &t, from, n, places.at, to + v, half);
        }
        winograd_further(side, side + 2, &t, &places);
        winograd_next(w, &t);
        winograd_next(w, &ahead);
    }
}

static void winograd_gradient_2(const winograd *w, const float *d_y, int64_t first, int64_t tiles,
                                int64_t column, float *to)
{
    gradient_panel(2, w, d_y, first, tiles, column, to);
}

static void winograd_gradient_4(const winograd *w, const float *d_y, int64_t first, int64_t tiles,
                                int64_t column, float *to)
{
    gradient_panel(4, w, d_y, first, tiles, column, to);
}

/* Tiles [number, number + tiles) of a block, of which so many have a place; a tile of V has a row. */
typedef struct strip {
    int64_t number, tiles, terms, row;
} strip;

/* R channels of one place. What is read next is fetched: `ahead` of V, and the sums of the channels that follow. */
INLINE void weight_tile(const int R, const float *v, const float *ahead, const float *y,
                        const strip *s, const conv_sums *at)
{
    const tile_wait wait = {.group = at->group, .total = at->total};
    const int64_t end = s->number + s->tiles;
    const float *beyond = (s->tiles < LKI_BLOCK_TERMS ? at->block : at->group) + R * PANEL;
    vf acc[TILE_ROWS][2];
    if (s->number % LKI_BLOCK_TERMS == 0)
        tile_zero(R, acc);
    else
        tile_load(R, acc, at->block, PANEL, PANEL);
    tile_run_fetch(R, acc, v, 1, s->row, y, PANEL, s->terms, ahead, s->row, beyond,
                   (R * PANEL + LKI_BLOCK_TERMS - 1) / LKI_BLOCK_TERMS);
    if (end % LKI_BLOCK_TERMS == 0)
        tile_block(R, acc, wait, end, end == LKI_GROUP_TERMS);
    else
        tile_store(R, acc, at->block, PANEL, PANEL);
}

/* One place, the channels of a chunk, and `next` the place behind it; sums lie at `at`, [channel][PANEL]. */
static __attribute__((noinline)) void winograd_weight_place(int64_t channels, const float *v,
                                                            const float *next, const float *y,
                                                            const strip *s, const conv_sums *all,
                                                            int64_t at)
{
    FOR_TILES(first, height, channels)
    {
        const int64_t here = at + first * PANEL, behind = first + height;
        const float *ahead = behind < channels ? v + behind + height - 1 : next;
        const conv_sums to = {
            .block = all->block + here, .group = all->group + here, .total = all->total + here};
#define WEIGHT(R) weight_tile(R, v + first, ahead, y, s, &to)
        switch (height) {
            TILE_CASES(WEIGHT)
        }
#undef WEIGHT
    }
}

/* G' u in double: of side + 2 values 3. */
INLINE void weight_line(const int64_t side, const vd *u, vd *g)
{
    const double a = (double)WINOGRAD_A, b = (double)WINOGRAD_B;
    if (side == 2) {
        const vd even = (u[1] + u[2]) * 0.5;
        g[0] = u[0] + even;
        g[1] = (u[1] - u[2]) * 0.5;
        g[2] = even + u[3];
        return;
    }
    const vd even_a = (u[1] + u[2]) * (-128.0 / 243.0), odd_a = (u[1] - u[2]) * (-128.0 / 243.0);
    const vd even_b = (u[3] + u[4]) * (32.0 / 243.0), odd_b = (u[3] - u[4]) * (32.0 / 243.0);
    g[0] = u[0] * (64.0 / 81.0) + (even_a + even_b);
    g[1] = odd_a * a + odd_b * b;
    g[2] = (even_a * (a * a) + even_b * (b * b)) + u[5];
}

/* The sum of a replica with so many tiles, rounded. */
INLINE vf whole_sum(const conv_sums *all, int64_t i, int64_t tiles)
{
    vf v = tiles % LKI_BLOCK_TERMS != 0 ? vf_load(all->block + i) : vf_zero();
    if (tiles % LKI_GROUP_TERMS >= LKI_BLOCK_TERMS) v = vf_load(all->group + i) + v;
    return tiles >= LKI_GROUP_TERMS ? vf_total(all->total + i, v) : v;
}

/* The taps of LANES filters of a channel, of the sums at i, which has them at `place` from place to place. */
INLINE void weight_taps(const int64_t side, const conv_sums *all, int64_t i, int64_t place,
                        int64_t tiles, float *taps)
{
    vd half[2][3][WINOGRAD_MOST];
    UNROLL
    for (int j = 0; j < side + 2; j++) {
        vd column[2][WINOGRAD_MOST], out[3];
        UNROLL
        for (int k = 0; k < side + 2; k++) {
            const vf v = whole_sum(all, i + (k * (side + 2) + j) * place, tiles);
            column[0][k] = vf_low(v);
            column[1][k] = vf_high(v);
        }
        UNROLL
        for (int part = 0; part < 2; part++) {
            weight_line(side, column[part], out);
            UNROLL for (int k = 0; k < 3; k++) half[part][k][j] = out[k];
        }
    }
    UNROLL
    for (int k = 0; k < 3; k++) {
        vd low[3], high[3];
        weight_line(side, half[0][k], low);
        weight_line(side, half[1][k], high);
        UNROLL
        for (int j = 0; j < 3; j++)
            vf_store(taps + (3 * k + j) * PANEL, vf_flush(vf_join(low[j], high[j])));
    }
}

/* Rows of `count` floats, from[float][PANEL], as they lie in memory; past the caches where they are whole vectors there. */
static void winograd_weight_rows(const float *from, int64_t count, int64_t rows, float *to,
                                 int64_t row)
{
    float line[4 * WRITTEN * 9];
    const bool four = count % 4 == 0, stream = count % LANES == 0 && row % LANES == 0 &&
                                               (uintptr_t)to % (sizeof(float) * LANES) == 0;
    for (int64_t i = 0; i < rows; i += 4) {
        const int64_t n = rows - i < 4 ? rows - i : 4;
        for (int64_t t = 0; four && t < count; t += 4)
            transpose4(from + t * PANEL + i, PANEL, line + t, WRITTEN * 9, false);
        for (int64_t t = 0; !four && t < count; t++)
            for (int64_t r = 0; r < n; r++) line[r * WRITTEN * 9 + t] = from[t * PANEL + i + r];
        for (int64_t r = 0; r < n; r++) {
            float *at = to + (i + r) * row;
            for (int64_t t = 0; stream && t < count; t += LANES)
                vf_stream(at + t, vf_load(line + r * WRITTEN * 9 + t));
            if (!stream) memcpy(at, line + r * WRITTEN * 9, sizeof(float) * (size_t)count);
        }
    }
}

/* What a chunk's sums give at the replica's end, `channels` from c on, of a panel of filters from f on. */
static void winograd_weight_write(const lki_conv_shape *s, const conv_sums *all, int64_t at,
                                  int64_t tiles, int64_t f, int64_t c, int64_t channels,
                                  float *weight)
{
    const int64_t row = 9 * s->channels, left = s->filters - f, place = channels * PANEL;
    float taps[WRITTEN * 9 * PANEL];
    for (int64_t k = 0, n; k < channels; k += n) {
        n = channels - k < WRITTEN ? channels - k : WRITTEN;
        for (int64_t i = 0; i < n * PANEL; i += LANES) {
            float *to = taps + i / PANEL * 9 * PANEL + i % PANEL;
            if (s->winograd == 2)
                weight_taps(2, all, at + k * PANEL + i, place, tiles, to);
            else
                weight_taps(4, all, at + k * PANEL + i, place, tiles, to);
        }
        winograd_weight_rows(taps, 9 * n, left < PANEL ? left : PANEL,
                             weight + f * row + (c + k) * 9, row);
    }
}

/* Tiles [first, first + all) of the piece, of which the first has this number. */
typedef struct round_of {
    int64_t first, all, number;
    bool last; /* no tile of the replica follows */
    bool whole;
} round_of;

static int64_t strip_end(const round_of *r, int64_t from)
{
    const int64_t left = LKI_BLOCK_TERMS - (r->number + from) % LKI_BLOCK_TERMS;
    return r->all - from < left ? r->all : from + left;
}

static void winograd_weight_round(const lki_conv_shape *s, const winograd *w, const round_of *r,
                                  const lki_conv_gradient *g)
{
    const int64_t places = places_of(s);
    const conv_sums to = sums_in(s, g->sums);
    float *all_v = g->workspace, *y = all_v + WHOLE_PLACES * v_plane(s);
    for (int64_t c = 0; c < s->channels; c += CHUNK) {
        const int64_t left = s->channels - c, channels = left < CHUNK ? left : CHUNK;
        float *v = all_v;
        for (int64_t from = 0, end; from < r->all; from = end, v += places * v_plane(s)) {
            end = strip_end(r, from);
            const winograd_patches p = {.first = r->first + from,
                                        .tiles = end - from,
                                        .channel = c,
                                        .channels = channels,
                                        .v = v,
                                        .row = chunk_row(s),
                                        .plane = v_plane(s)};
            LKI_ISA_NAME(lki_winograd_in)(w, &p);
        }
        for (int64_t f = 0; f < s->filters; f += PANEL) {
            const int64_t at = r->whole ? 0 : (f * s->channels + c * PANEL) * places;
            v = all_v;
            for (int64_t from = 0, end; from < r->all; from = end, v += places * v_plane(s)) {
                end = strip_end(r, from);
                if (s->winograd == 2)
                    winograd_gradient_2(w, g->d_y, r->first + from, end - from, f, y);
                else
                    winograd_gradient_4(w, g->d_y, r->first + from, end - from, f, y);
                const winograd_counts counts = winograd_count(w, r->first + from, end - from);
                strip part = {.number = r->number + from, .tiles = end - from, .row = chunk_row(s)};
                for (int64_t k = 0; k < places; k++) {
                    const float *here = v + k * v_plane(s);
                    part.terms = winograd_at(w, &counts, k);
                    winograd_weight_place(channels, here, here + v_plane(s), y + k * y_plane(),
                                          &part, &to, at + k * channels * PANEL);
                }
            }
            if (r->last)
                winograd_weight_write(s, &to, at, r->number + r->all, f, c, channels, g->d_weight);
        }
    }
}

void LKI_ISA_NAME(lki_winograd_weight)(const lki_conv_shape *s, int64_t count,
                                       const lki_conv_gradient *g)
{
    winograd w = winograd_of(s, count);
    w.x = g->x;
    const int64_t each = winograd_tiles(&w, 0) * winograd_tiles(&w, 1), begin = g->sample * each;
    const int64_t pixels = count * s->out[0] * s->out[1], all = count * each;
    const int64_t strips = (all + LKI_BLOCK_TERMS - 1) / LKI_BLOCK_TERMS;
    double *bias = sums_in(s, g->sums).bias;
    if (s->bias && g->sample == 0) memset(bias, 0, sizeof(double) * (size_t)s->filters);
    if (s->bias) LKI_ISA_NAME(lki_vector_norm_sums)(pixels, s->filters, s->filters, g->d_y, bias);
    round_of r = {.number = begin,
                  .whole = g->sample == 0 && g->last && strips * places_of(s) <= WHOLE_PLACES};
    for (; r.first < all; r.first += r.all, r.number += r.all) {
        r.all = all - r.first;
        if (!r.whole) r.all = strip_end(&r, 0);
        r.last = g->last && r.first + r.all == all;
        winograd_weight_round(s, &w, &r, g);
    }
    if (g->last) vf_stream_end();
    for (int64_t f = 0; g->last && f < s->filters && g->d_bias != NULL; f++)
        g->d_bias[f] = lki_flush((float)bias[f]);
}
