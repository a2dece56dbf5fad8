/* Winograd's transform of images, and its products with weights: see winograd.h. */
#include "backend/cpu/vector/conv/winograd_lines.h"
#include "numeric/tree.h"

enum {
    STRIP_BYTES = 384 * 1024, /* of V */
    STRIP_MOST = 96,          /* tiles, */
    LARGE_MOST = 64,          /* or of large weights always */
    PART_TILES = 24,          /* of a part, at least: enough to use what is read of U many times */
    /* Floats from place to place of a block of U that is formed. */
    FORMED = LKI_BLOCK_TERMS * PANEL + 16
};

/* Channels of V: whole vectors, and behind a block whole blocks. */
static int64_t depth_row(const winograd *w)
{
    const int64_t whole = w->depth < LKI_BLOCK_TERMS ? 16 : LKI_BLOCK_TERMS;
    return (w->depth + whole - 1) / whole * whole;
}

/* Tiles of a strip at most. */
static int64_t most_tiles(const winograd *w)
{
    const int64_t each = w->size * w->size * depth_row(w) * (int64_t)sizeof(float);
    const int64_t all = w->count * winograd_tiles(w, 0) * winograd_tiles(w, 1);
    int64_t most = STRIP_BYTES / each / TILE_ROWS * TILE_ROWS;
    if (most < 2 * TILE_ROWS) most = 2 * TILE_ROWS;
    if (most > STRIP_MOST) most = STRIP_MOST;
    if (winograd_large(w->size, w->depth, w->columns)) most = LARGE_MOST;
    return all < most ? all : most;
}

/* Of strips of equal length: fewer images may have longer ones. */
static int64_t strip_tiles(const winograd *w)
{
    const int64_t all = w->count * winograd_tiles(w, 0) * winograd_tiles(w, 1);
    const int64_t most = most_tiles(w), strips = all > 0 ? (all + most - 1) / most : 1;
    return (all + strips - 1) / strips;
}

/* Where the pixels of a patch lie, [WIDE] of a row, and places; pixels outside of the image are zeros, of which there are
 * as many as channels are taken between two looks at where they lie: those of a row of V. */
enum { WIDE = 8 };
typedef struct winograd_patch {
    uintptr_t at[WINOGRAD_MOST * WIDE];
    uintptr_t step[WINOGRAD_MOST * WIDE]; /* to the channels of the next row of V */
    winograd_places to;
} winograd_patch;

/* Without a branch, in vectors: which pixels are there is different from tile to tile. */
INLINE void find_patch(const int size, const winograd *w, const float *image, int64_t channels,
                       const winograd_tile *t, winograd_patch *p)
{
    static const float zeros[WINOGRAD_ROW + LANES];
    const int64_t row = t->row - w->before[0], column = t->column - w->before[1];
    const uintptr_t none = (uintptr_t)zeros, pixel = sizeof(float) * (uintptr_t)w->depth;
    uintptr_t at = (uintptr_t)image + (uintptr_t)(row * w->in[1] + column) * pixel, columns[WIDE];
    for (int j = 0; j < WIDE; j++)
        columns[j] = -(uintptr_t)((uint64_t)(column + j) < (uint64_t)w->in[1]);
    for (int i = 0; i < size; i++, at += (uintptr_t)w->in[1] * pixel) {
        const uintptr_t rows = -(uintptr_t)((uint64_t)(row + i) < (uint64_t)w->in[0]);
        for (int j = 0; j < WIDE; j++) {
            const uintptr_t there = rows & columns[j];
            p->at[i * WIDE + j] = none ^ ((none ^ (at + (uintptr_t)j * pixel)) & there);
            p->step[i * WIDE + j] = sizeof(float) * (uintptr_t)channels & there;
        }
    }
}

/* Row i of a patch of n columns, channels [c, c + count); `whole`: count is LANES. */
INLINE void row_in(const int size, const int n, const bool whole, const winograd_patch *p,
                   const int i, int64_t c, int64_t count, vf *half)
{
    vf d[WINOGRAD_MOST];
    UNROLL
    for (int j = 0; j < n; j++) {
        const float *at = (const float *)p->at[i * WIDE + j] + c;
        d[j] = whole ? vf_load(at) : vf_load_some(at, count);
    }
    winograd_in(size, n, d, half);
}

/* Column j of what all n rows give. */
INLINE void column_in(const int size, const int n, const winograd_patch *p, const int j,
                      vf half[][WINOGRAD_MOST], float *v)
{
    vf d[WINOGRAD_MOST], out[WINOGRAD_MOST];
    UNROLL for (int i = 0; i < n; i++) d[i] = half[i][j];
    winograd_in(size, n, d, out);
    UNROLL
    for (int i = 0; i < size; i++)
        if (winograd_has(size, size, n, i)) vf_store(v + p->to.at[i * size + j], vf_flush(out[i]));
}

/* Channels [c, c + count) of a whole tile, and of one that is cut. */
INLINE void patch_whole(const int size, const bool whole, const winograd_patch *p, int64_t c,
                        int64_t count, float *v)
{
    vf lines[WINOGRAD_MOST][WINOGRAD_MOST]; /* in registers, as far as there are */
    UNROLL
    for (int i = 0; i < size; i++) row_in(size, size, whole, p, i, c, count, lines[i]);
    UNROLL for (int j = 0; j < size; j++) column_in(size, size, p, j, lines, v);
}

INLINE void patch_cut(const int side, const int size, const bool whole, const winograd_tile *t,
                      const winograd_patch *p, int64_t c, int64_t count, float *v,
                      vf half[][WINOGRAD_MOST])
{
    const int more = size - side;
#define ROWS(n)                                                                                    \
    for (int i = 0; i < t->pixels[0] + more; i++)                                                  \
        row_in(size, n + more, whole, p, i, c, count, half[i]);
    WINOGRAD_PIXELS(side, t->pixels[1], ROWS);
#undef ROWS
#define COLUMNS(n)                                                                                 \
    for (int j = 0; j < size; j++)                                                                 \
        if (winograd_has(side, size, t->pixels[1], j)) column_in(size, n + more, p, j, half, v);
    WINOGRAD_PIXELS(side, t->pixels[0], COLUMNS);
#undef COLUMNS
}

/* Whole vectors of n channels, then what is left of one. The loop of whole tiles is a function of its own for each size:
 * beside the branches of cut ones its constants and addresses would not stay in registers. */
INLINE void tile_whole(const int size, const winograd_patch *p, int64_t n, float *v)
{
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES) patch_whole(size, true, p, c, LANES, v + c);
    if (c < n) patch_whole(size, false, p, c, n - c, v + c);
}

static __attribute__((noinline)) void winograd_whole_in_4(const winograd_patch *p, int64_t n,
                                                          float *v)
{
    tile_whole(4, p, n, v);
}

static __attribute__((noinline)) void winograd_whole_in_6(const winograd_patch *p, int64_t n,
                                                          float *v)
{
    tile_whole(6, p, n, v);
}

INLINE void tile_cut(const int side, const int size, const winograd_tile *t,
                     const winograd_patch *p, int64_t n, float *v, vf half[][WINOGRAD_MOST])
{
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES) patch_cut(side, size, true, t, p, c, LANES, v + c, half);
    if (c < n) patch_cut(side, size, false, t, p, c, n - c, v + c, half);
}

/* All channels of a tile, row by row of V. */
INLINE void tile_in(const int side, const int size, const winograd_tile *t,
                    const winograd_patches *all, winograd_patch *p, vf half[][WINOGRAD_MOST])
{
    float *v = all->v;
    for (int64_t left = all->channels; left > 0; left -= all->row, v += all->block) {
        const int64_t n = left < all->row ? left : all->row;
        if (!winograd_whole(side, t))
            tile_cut(side, size, t, p, n, v, half);
        else if (size == 4)
            winograd_whole_in_4(p, n, v);
        else
            winograd_whole_in_6(p, n, v);
        for (int i = 0; left > n && i < size * WIDE; i++) p->at[i] += p->step[i];
    }
}

/* What the patch of a tile has that those before it, beside and above, have not. */
INLINE void fetch_patch(const int side, const int size, const winograd *w,
                        const winograd_patches *p, const winograd_tile *t)
{
    const int64_t row = t->row - w->before[0] + size - side;
    const int64_t column = t->column - w->before[1] + size - side;
    const int64_t pixel = (t->image * w->in[0] + row) * w->in[1] + column;
    winograd_fetch(side, w, t, w->x + pixel * w->depth + p->channel, w->in[1] * w->depth, w->depth,
                   p->channels, false);
}

INLINE void strip_in(const int side, const int size, const winograd *w, const winograd_patches *p)
{
    winograd_tile t = winograd_first(w, p->first),
                  ahead = winograd_first(w, p->first + FETCH_AHEAD);
    winograd_patch patch;
    vf half[WINOGRAD_MOST][WINOGRAD_MOST] = {{{0}}};
    winograd_begin(w, p->row, p->plane, &patch.to);
    for (int64_t k = 0; k < p->tiles; k++) {
        const float *image = w->x + t.image * w->in[0] * w->in[1] * w->depth + p->channel;
        fetch_patch(side, size, w, p, &ahead);
        find_patch(size, w, image, p->row, &t, &patch);
        tile_in(side, size, &t, p, &patch, half);
        winograd_further(side, size, &t, &patch.to);
        winograd_next(w, &t);
        winograd_next(w, &ahead);
    }
}

static void winograd_strip_in_2(const winograd *w, const winograd_patches *p)
{
    strip_in(2, 4, w, p);
}

static void winograd_strip_in_4(const winograd *w, const winograd_patches *p)
{
    strip_in(4, 6, w, p);
}

static void winograd_strip_in_5(const winograd *w, const winograd_patches *p)
{
    strip_in(2, 6, w, p);
}

void LKI_ISA_NAME(lki_winograd_in)(const winograd *w, const winograd_patches *p)
{
    if (w->size == 4)
        winograd_strip_in_2(w, p);
    else if (w->side == 4)
        winograd_strip_in_4(w, p);
    else
        winograd_strip_in_5(w, p);
}

/* R tiles, terms [k, k + n) of the sum, which waits in m between blocks. What is read next is fetched: the terms of the
 * next tiles, and a share of the next block of U. */
INLINE void product_tile(const int R, const float *v, int64_t row, const float *u, int64_t k,
                         int64_t n, int64_t depth, tile_wait at, const float *next, int64_t pace)
{
    vf acc[TILE_ROWS][2];
    tile_zero(R, acc);
    tile_run_fetch(R, acc, v, row, 1, u, PANEL, n, v + R * row, R, next, pace);
    if (k + n < depth) {
        tile_block(R, acc, at, k + n, k + n == LKI_GROUP_TERMS);
        return;
    }
    tile_end(R, acc, at, depth, depth <= LKI_GROUP_TERMS);
    tile_store(R, acc, at.group, PANEL, PANEL);
}

/* What terms [k, end) add to M of one place, a panel of columns: block by block for all tiles, so that a block of U stays in
 * the first-level cache. A function of its own, where its addresses stay in registers. */
static __attribute__((noinline)) void winograd_products(int64_t tiles, int64_t depth, int64_t k,
                                                        int64_t end, const winograd_patches *p,
                                                        const float *v, const float *u, float *m,
                                                        double *total)
{
    const int64_t heights = (tiles + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t pace = tiles > 0 ? PANEL / heights : 0;
    for (int64_t n; k < end; k += n, v += p->block, u += n * PANEL) {
        n = end - k < LKI_BLOCK_TERMS ? end - k : LKI_BLOCK_TERMS;
        const float *next = u + n * PANEL;
        FOR_TILES(first, height, tiles)
        {
            const tile_wait wait = {.group = m + first * PANEL, .total = total + first * PANEL};
#define PRODUCT(R) product_tile(R, v + first * p->row, p->row, u, k, n, depth, wait, next, pace)
            switch (height) {
                TILE_CASES(PRODUCT)
            }
#undef PRODUCT
            next += pace * n;
        }
    }
}

/* Of all places, where U is formed: a block of it for all of them before the next, so that it stays in the second-level
 * cache. `total` is one for all, as with one group of terms none waits. */
static void winograd_formed(const winograd *w, const winograd_counts *counts,
                            const winograd_patches *p, const winograd_strip *s, float *m,
                            double *total, float *u)
{
    const int64_t places = w->size * w->size;
    const float *v = p->v;
    for (int64_t k = 0, end; k < w->depth; k = end, v += p->block) {
        end = w->depth - k < LKI_BLOCK_TERMS ? w->depth : k + LKI_BLOCK_TERMS;
        LKI_ISA_NAME(lki_winograd_form)(&w->weight, s->column, k, end, u, FORMED);
        for (int64_t i = 0; i < places; i++)
            winograd_products(winograd_at(w, counts, i), w->depth, k, end, p, v + i * p->plane,
                              u + i * FORMED, m + i * s->plane, total);
    }
}

size_t LKI_ISA_NAME(lki_winograd_bytes)(const winograd *w)
{
    const int64_t places = w->size * w->size, tiles = most_tiles(w);
    return sizeof(double) * (size_t)(tiles * PANEL) +
           sizeof(float) *
               (size_t)(places * (winograd_plane(tiles * depth_row(w)) +
                                  winograd_plane(tiles * PANEL) + (w->forms ? FORMED : 0)));
}

/* Which tiles and which columns are this part of the result. */
static void winograd_own(const winograd *w, int64_t tiles[2], int64_t columns[2])
{
    const int64_t all = w->count * winograd_tiles(w, 0) * winograd_tiles(w, 1);
    const bool some = !w->panels && !w->forms && all >= PART_TILES * w->parts;
    lki_part_of(w->part, some ? w->parts : 0, all, &tiles[0], &tiles[1]);
    lki_part_of(w->part, some ? 0 : w->parts, (w->columns + PANEL - 1) / PANEL, &columns[0],
                &columns[1]);
    for (int i = 0; i < 2; i++) columns[i] *= PANEL;
}

void LKI_ISA_NAME(lki_winograd_run)(const winograd *w, void *workspace)
{
    const int64_t places = w->size * w->size, most = strip_tiles(w);
    int64_t tiles[2], columns[2];
    const int64_t row = depth_row(w), v_plane = winograd_plane(most * row);
    double *total = workspace;
    float *v = (float *)(void *)(total + most * PANEL), *m = v + places * v_plane;
    winograd_strip s = {.pass = w, .m = m, .plane = winograd_plane(most * PANEL)};
    winograd_own(w, tiles, columns);
    for (s.first = tiles[0]; s.first < tiles[1] && columns[0] < columns[1]; s.first += s.tiles) {
        s.tiles = tiles[1] - s.first < most ? tiles[1] - s.first : most;
        const winograd_patches patches = {.first = s.first,
                                          .tiles = s.tiles,
                                          .channels = w->depth,
                                          .v = v,
                                          .row = row < LKI_BLOCK_TERMS ? row : LKI_BLOCK_TERMS,
                                          .block = most * LKI_BLOCK_TERMS,
                                          .plane = v_plane};
        const winograd_counts counts = winograd_count(w, s.first, s.tiles);
        LKI_ISA_NAME(lki_winograd_in)(w, &patches);
        for (s.column = columns[0]; s.column < columns[1]; s.column += PANEL) {
            if (w->forms)
                winograd_formed(w, &counts, &patches, &s, m, total, m + places * s.plane);
            else
                for (int64_t p = 0; p < places; p++)
                    winograd_products(winograd_at(w, &counts, p), w->depth, 0, w->depth, &patches,
                                      v + p * v_plane,
                                      w->u + (s.column * places + p * PANEL) * w->depth,
                                      m + p * s.plane, total);
            w->put(&s);
        }
    }
}
