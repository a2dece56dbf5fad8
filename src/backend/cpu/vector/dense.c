/*
 * Dense layers: products with panels of the weight (dense_pack.c; with masks in wider ones, masks.h).
 *
 * STRETCH terms of a sum are the outer loop, so that a panel's part stays in the nearest caches
 * while all rows pass over it, and that of a row while all panels do. Meanwhile the part that comes next is
 * fetched, a quarter by each of the first four tiles (of large weights a half or all of it where there are fewer), and by the
 * first panel the rows of the next tile: they lie where no processor foresees them. Between stretches, and between blocks
 * (tile.h), the sums of ROWS rows and COLUMNS columns wait in the workspace, which stays in the second-level cache.
 */
#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/masks.h"
#include "backend/cpu/vector/narrow.h"

enum {
    STRETCH = 8 * LKI_BLOCK_TERMS,
    FETCHING = 4, /* tiles of a panel */
    ROWS = 128,   /* samples whose sums wait; */
    PASSING =
        65536, /* and where none do, floats of samples that pass: half of the second-level cache */
    COLUMNS = 256 /* and units or inputs; a multiple of every PANEL */
};

/* Rows and columns whose sums wait, groups and behind them totals: the same places again and again. */
static int64_t places(int64_t rows)
{
    return (rows < ROWS ? rows : ROWS) * COLUMNS;
}

static size_t vector_dense_workspace_bytes(const lki_dense_shape *s, int64_t rows)
{
    const int64_t most = s->inputs > s->units ? s->inputs : s->units;
    if (s->masks) return LKI_ISA_NAME(lki_vector_masks_bytes)(s, rows);
    if (most <= LKI_BLOCK_TERMS) return 0;
    return (size_t)places(rows) * (sizeof(float) + (most > LKI_GROUP_TERMS ? sizeof(double) : 0));
}

/* c = a * b, some terms: one panel, all rows. */
typedef struct product {
    const float *a;
    int64_t a_row;                /* from row to row */
    const float *b, *ahead;       /* this part of the panel, and the part that comes next */
    int64_t number, depth, terms; /* the first, how many, of how many */
    bool begun, more; /* of a sum in several runs (lki_dense_shape.run): in front, behind */
    float *c;
    int64_t c_row, columns;
    bool narrow;       /* narrow.h */
    bool add;          /* to what is in c, last */
    const float *bias; /* NULL: none */
    bool waits;        /* sums are not complete at its end */
    bool leads;        /* the first panel: rows have not been read yet */
    int64_t fetching;  /* tiles that fetch what is ahead */
    tile_wait at; /* [row][PANEL]; of a tile where nothing waits, so that it stays in the cache */
} product;

/* What a tile of `height` rows from `first` on fetches, so many floats of it with each term: of the weight, else of the next
 * rows, else what it reads itself. */
INLINE const float *product_ahead(const product *p, int64_t tile, int64_t first, int64_t height,
                                  int64_t *pace)
{
    *pace = PANEL / p->fetching;
    if (tile < p->fetching) return p->ahead + tile * p->depth / p->fetching * PANEL;
    if (!p->leads || p->depth != p->a_row) return p->b;
    *pace = height;
    return p->a + (first + height) * p->a_row;
}

INLINE void product_tile(const int R, const product *p, int64_t first)
{
    const int64_t place = p->waits ? first * PANEL : 0;
    const tile_wait at = {.group = p->at.group + place, .total = p->at.total + place};
    const tile_rows of = {.a = p->a + first * p->a_row, .row = p->a_row, .step = 1};
    int64_t pace;
    const float *ahead = product_ahead(p, (first + R - 1) / TILE_ROWS, first, R, &pace);
    const int64_t end = p->number + p->depth;
    vf acc[TILE_ROWS][2];
    if (end == p->terms) tile_fetch(R, p->c + first * p->c_row, p->c_row);
    if (!tile_stretch(R, false, acc, at, p->number, end, p->terms, p->begun, p->more, of, p->b,
                      ahead, pace))
        return;
    tile_put(R, acc, p->c + first * p->c_row, p->c_row, p->columns, p->bias, p->add, false);
}

/* The same where a vector has all columns: pairs of rows, half of `height` apart; of an odd height the middle one is in two. */
INLINE void product_pairs(const int R, const product *p, int64_t first, int64_t height)
{
    const int64_t place = p->waits ? first * PANEL : 0, gap = height - R;
    const tile_wait at = {.group = p->at.group + place, .total = p->at.total + place};
    const tile_rows of = {
        .a = p->a + first * p->a_row, .row = p->a_row, .step = 1, .gap = gap * p->a_row};
    int64_t pace;
    const float *ahead = product_ahead(p, (first + height - 1) / (2 * TILE_ROWS), first, height,
                                       &pace);
    vf acc[TILE_ROWS][2];
    if (!tile_stretch(R, true, acc, at, p->number, p->number + p->depth, p->terms, p->begun,
                      p->more, of, p->b, ahead, pace))
        return;
    tile_put_pairs(R, acc, p->c + first * p->c_row, p->c_row, gap * p->c_row, p->columns, p->bias,
                   p->add);
}

/* Whether the rows of pairs, so many floats apart, lie in enough sets of a first-level cache: of 12 rows that are 4,096 bytes
 * apart, or of 24 that are half of that, more would be in one than it has ways. */
static bool rows_spread(int64_t row)
{
    const int64_t apart = row * (TILE_ROWS / 6) % 1024;
    return apart >= 8 && apart <= 1024 - 8;
}

INLINE void multiply_pairs(const product *p, int64_t rows)
{
    FOR_TILES_OF(2 * TILE_ROWS, first, height, rows)
    {
#define TILE(R) product_pairs(R, p, first, height)
        switch ((height + 1) / 2) {
            TILE_CASES(TILE)
        }
#undef TILE
    }
}

/* The same for narrow results, whose sums wait in double. */
INLINE void product_narrow(const int R, const int V, const product *p, int64_t first)
{
    double *total = p->at.total + first * PANEL;
    vd acc[NARROW_ROWS][4];
    vf sums[TILE_ROWS][2];
    if (p->number == 0)
        narrow_zero(R, V, acc);
    else
        narrow_load(R, V, acc, total);
    narrow_run(R, V, acc, p->a + first * p->a_row, p->a_row, 1, p->b, p->depth);
    if (p->number + p->depth < p->terms) {
        narrow_store(R, V, acc, total);
        return;
    }
    narrow_round(R, V, acc, sums);
    tile_put(R, sums, p->c + first * p->c_row, p->c_row, p->columns, p->bias, p->add, false);
}

INLINE void multiply_narrow(const int V, const product *p, int64_t rows)
{
    FOR_TILES_OF(NARROW_ROWS, first, height, rows)
    {
#define TILE(R)                                                                                    \
    if ((R) <= NARROW_ROWS) product_narrow(R, V, p, first)
        switch (height) {
            TILE_CASES(TILE)
        }
#undef TILE
    }
}

static void vector_dense_multiply(const product *p, int64_t rows)
{
    if (p->narrow && narrow_panel(p->columns)) {
        multiply_narrow(4, p, rows);
        return;
    }
    if (p->narrow) {
        multiply_narrow(2, p, rows);
        return;
    }
    if (p->columns <= LANES && rows_spread(p->a_row)) {
        multiply_pairs(p, rows);
        return;
    }
    FOR_TILES(first, height, rows)
    {
#define TILE(R) product_tile(R, p, first)
        switch (height) {
            TILE_CASES(TILE)
        }
#undef TILE
    }
}

/* The rows and columns whose sums wait, terms [run, run + p.terms) of all. */
static void multiply_run(const product *whole, const product *now, int64_t run, int64_t height,
                         int64_t columns, const tile_wait *at)
{
    product p = *now;
    const int64_t all = whole->terms;
    const int64_t stretch = p.narrow ? LKI_GROUP_TERMS : STRETCH; /* totals wait behind a group */
    for (p.number = 0; p.number < p.terms; p.number += p.depth) {
        p.a = now->a + run + p.number;
        p.depth = p.terms - p.number < stretch ? p.terms - p.number : stretch;
        p.at = *at;
        const float *first = now->b + (run + p.number) * PANEL;
        for (int64_t c = 0; c < columns; c += PANEL) {
            p.b = first + c * all;
            p.ahead = c + PANEL < columns ? p.b + all * PANEL : first + p.depth * PANEL;
            p.leads = now->leads && c == 0;
            p.c = now->c + c;
            p.columns = columns - c < PANEL ? columns - c : PANEL;
            p.bias = now->bias != NULL ? now->bias + c : NULL;
            vector_dense_multiply(&p, height);
            p.at.total += p.waits * height * PANEL;
            p.at.group += p.waits * height * PANEL;
        }
    }
}

/* How many tiles of so many rows share in fetching what is read next of a weight; four, of which some may not be there,
 * where it comes from a cache. */
static int64_t fetching_of(int64_t rows, int64_t weight)
{
    if (weight < LARGE_WEIGHT || rows > 3 * TILE_ROWS) return FETCHING;
    return rows > TILE_ROWS ? 2 : 1;
}

/* A product of matrices [rows][terms] * [terms][columns]; `whole` starts at the first element of each, panels one after
 * the other. Its sums are in runs of so many terms; 0: in one. */
static void multiply_all(const product *whole, int64_t rows, int64_t columns, int64_t run,
                         void *workspace)
{
    const int64_t terms = whole->terms, each = run > 0 ? run : terms;
    double *totals = workspace;
    const tile_wait at = {
        .total = totals,
        .group = (float *)(void *)(totals + (terms > LKI_GROUP_TERMS ? places(rows) : 0))};
    product p = *whole;
    p.waits = terms > (p.narrow ? LKI_GROUP_TERMS : STRETCH);
    const int64_t most = p.waits ? ROWS : PASSING / terms; /* the weight passes once */
    const int64_t passes = (rows + most - 1) / most;
    for (int64_t pass = 0; pass < passes; pass++) {
        const int64_t row = pass * rows / passes, height = (pass + 1) * rows / passes - row;
        p.fetching = fetching_of(height, terms * columns);
        for (int64_t column = 0; column < columns; column += COLUMNS) {
            const int64_t width = columns - column < COLUMNS ? columns - column : COLUMNS;
            p.leads = column == 0;
            p.a = whole->a + row * p.a_row;
            p.b = whole->b + column * terms;
            p.c = whole->c + row * p.c_row + column;
            p.bias = whole->bias != NULL ? whole->bias + column : NULL;
            for (int64_t first = 0; first < terms; first += each) {
                p.terms = terms - first < each ? terms - first : each;
                p.begun = first > 0;
                p.more = first + p.terms < terms;
                multiply_run(whole, &p, first, height, width, &at);
            }
        }
    }
}

static void vector_dense_forward(const lki_dense_shape *s, int64_t rows, const float *x,
                                 const void *packed, const float *bias, float *y, void *workspace)
{
    if (s->masks) {
        LKI_ISA_NAME(lki_vector_masks_forward)(s, rows, x, packed, bias, y, workspace);
        return;
    }
    int64_t begin, end; /* units */
    lki_part_of(s->part, s->parts, (s->units + PANEL - 1) / PANEL, &begin, &end);
    begin *= PANEL;
    end = end * PANEL < s->units ? end * PANEL : s->units;
    const product whole = {.a = x,
                           .a_row = s->inputs,
                           .b = (const float *)packed + begin * s->inputs,
                           .terms = s->inputs,
                           .c = y + begin,
                           .c_row = s->units,
                           .narrow = s->units < LKI_NARROW,
                           .bias = bias != NULL ? bias + begin : NULL};
    multiply_all(&whole, rows, end - begin, s->run[0], workspace);
}

static void vector_dense_backward(const lki_dense_shape *s, int64_t rows, const float *x,
                                  const float *d_y, const void *packed, float *d_x, bool add,
                                  void *workspace)
{
    if (s->masks) {
        LKI_ISA_NAME(lki_vector_masks_backward)(s, rows, x, d_y, packed, d_x, add, workspace);
        return;
    }
    const product whole = {.a = d_y,
                           .a_row = s->units,
                           .b = (const float *)packed + LKI_ISA_NAME(lki_dense_forward_floats)(s),
                           .terms = s->units,
                           .c = d_x,
                           .c_row = s->inputs,
                           .narrow = s->inputs < LKI_NARROW,
                           .add = add};
    multiply_all(&whole, rows, s->inputs, s->run[1], workspace);
}

const lki_vector_dense LKI_ISA_NAME(lki_vector_dense) = {
    .packed_bytes = LKI_ISA_NAME(lki_dense_packed_bytes),
    .pack = LKI_ISA_NAME(lki_dense_pack),
    .workspace_bytes = vector_dense_workspace_bytes,
    .forward = vector_dense_forward,
    .backward = vector_dense_backward,
    .rows_bytes = LKI_ISA_NAME(lki_vector_rows_bytes),
    .rows = LKI_ISA_NAME(lki_vector_rows),
};
