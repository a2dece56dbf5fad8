/*
 * The gradients of a dense layer by rows: dW[u][k] = sum over samples of dy[s][u] * x[s][k], replica by
 * replica, combined in the tree over replicas, one maximal node of those that are here after the other.
 * That of the bias is the sum of dy, in double.
 *
 * A block of rows and columns is cut into tiles (tile.h: rows are units, columns are inputs, k are
 * samples, numbered from the replica's first). A tile takes one segment after the other: the samples
 * of a replica, or SAMPLES of them at most. The sums that wait in the tree lie on a stack, which stays
 * in the first-level cache:
 *
 *   samples  [ replica 0 | replica 1            | replica 2 ...    stack  [0,2) | [2,3) | ...
 *   segment    0         | 1: 0..255 | 2: 256.. | 3                depth    0       1
 *
 * Samples are copied, at most SAMPLES at a time, into panels of x and of dy; a segment is never cut.
 * Layers with masks have another kernel in place of tiles where it is faster, masks_rows.c, with the same bits; and factors
 * that are bfloat16 tiles of their own, bf16/bf16_rows.c.
 * Where there are more, every tile has a stack of its own, and below it the group and the totals (tile.h)
 * of the replica whose segments have not all been there.
 */
#include "backend/cpu/vector/bf16/bf16.h"
#include "backend/cpu/vector/rows.h"

enum { COPIED = 16 }; /* samples of dy, for all tiles before the next are */

size_t LKI_ISA_NAME(lki_vector_rows_bytes)(void)
{
    return sizeof(space);
}

/* Where we are in the replicas up to `end`, and the nodes of the tree that wait: node i covers replicas
 * [bound[i], bound[i + 1]); absent nodes need no place on the stack. */
typedef struct cursor {
    const lki_dense_shape *shape;
    const lki_rows *rows;
    int64_t end;
    int64_t step;          /* segments begin at places that are multiples of it */
    int64_t replica, done; /* samples of it that earlier segments have */
    int held, depth;
    int64_t bound[NODES];
    bool present[NODES];
} cursor;

/* The next replica is complete: how many merges of present nodes follow. */
static int finish_replica(cursor *c, bool present)
{
    int merges = 0;
    c->bound[c->held] = c->replica++;
    c->bound[c->held + 1] = c->replica;
    c->present[c->held++] = present;
    while (c->held >= 2 && lki_tree_siblings(c->rows->replicas, c->bound[c->held - 2],
                                             c->bound[c->held - 1], c->bound[c->held])) {
        const bool right = c->present[c->held - 1];
        c->bound[c->held - 1] = c->bound[c->held];
        c->held--;
        merges += right && c->present[c->held - 1];
        c->present[c->held - 1] |= right;
    }
    return merges;
}

static int64_t samples_of(const cursor *c)
{
    return rows_start(c->shape, c->rows, c->replica + 1) -
           rows_start(c->shape, c->rows, c->replica);
}

/* Replicas without samples, from the current one on. */
static int skip_absent(cursor *c)
{
    int merges = 0;
    while (c->replica < c->end && samples_of(c) == 0) merges += finish_replica(c, false);
    return merges;
}

/* The samples that fill the next SAMPLES places, or less, as segments; returns their number. */
static int next_segments(cursor *c, segment *to, int64_t *count, int64_t *places)
{
    int n = 0;
    *count = *places = 0;
    skip_absent(c);
    while (c->replica < c->end) {
        const int64_t left = samples_of(c) - c->done;
        const int64_t take = left < SAMPLES ? left : SAMPLES;
        if (*places + take > SAMPLES) break;
        segment *s = &to[n++];
        *s = (segment){.replica = c->replica,
                       .first = *places,
                       .count = take,
                       .number = c->done,
                       .terms = samples_of(c),
                       .depth = c->depth};
        *count += take;
        *places += (take + c->step - 1) / c->step * c->step;
        c->done += take;
        if (take < left) continue;
        s->merges = finish_replica(c, true) + skip_absent(c);
        c->depth += 1 - s->merges;
        c->done = 0;
    }
    return n;
}

/* Row by row: a sample's stretch is contiguous, samples are pages apart, and those that come are fetched. */
static void copy_x(const block *b)
{
    if (b->shape->bf16) {
        LKI_ISA_NAME(lki_bf16_rows_copy_x)(b);
        return;
    }
    const int64_t inputs = b->shape->inputs, panel = panel_floats(b);
    const int64_t whole = b->columns - b->columns % PANEL, rest = b->columns - whole;
    const float *from = b->rows->in + (b->begin + b->sample) * inputs + b->column;
    float *to = b->space->x;
    for (int64_t s = 0; s < b->samples; s++, to += PANEL, from += inputs) {
        float *at = to;
        for (int64_t k = 0; k < whole; k += PANEL, at += panel) {
            __builtin_prefetch(from + 4 * inputs + k);
            vf_store(at, vf_load(from + k));
            vf_store(at + LANES, vf_load(from + k + LANES));
        }
        if (rest > 0) {
            vf_store(at, vf_get(from + whole, rest < LANES ? rest : LANES));
            vf_store(at + LANES,
                     rest > LANES ? vf_get(from + whole + LANES, rest - LANES) : vf_zero());
        }
    }
}

/* R units of each sample, beside each other; a line behind them is fetched, for tiles that come. What a vector writes behind
 * them is written again, or behind the last there is room for it. */
INLINE void copy_tile(const int R, int64_t samples, const float *from, int64_t units, float *to)
{
    for (int64_t s = 0; s < samples; s++, from += units, to += R) {
        __builtin_prefetch(from + R + 16);
        UNROLL
        for (int r = 0; r < R; r += LANES)
            vf_store(to + r, vf_get(from + r, R - r < LANES ? R - r : LANES));
    }
}

/* A few samples for all tiles, then the next: their lines, which several tiles read, stay in the nearest cache. */
static void copy_dy(const block *b)
{
    const int64_t units = b->shape->units;
    if (b->masks || b->shape->bf16) {
        (b->masks ? LKI_ISA_NAME(lki_vector_masks_copy) : LKI_ISA_NAME(lki_bf16_rows_copy_dy))(b);
        return;
    }
    for (int64_t s = 0, n; s < b->samples; s += n) {
        n = b->samples - s < COPIED ? b->samples - s : COPIED;
        const float *from = b->rows->d_out + (b->begin + b->sample + s) * units + b->row;
        FOR_TILES(first, rows, b->row_count)
        {
            float *to = b->space->dy + first * dy_floats(b) + s * rows;
#define COPY(R) copy_tile(R, n, from + first, units, to)
            switch (rows) {
                TILE_CASES(COPY)
            }
#undef COPY
        }
    }
}

/* vf_flush(). The compiler may not have the constant ready before: in the loop over samples registers
 * are short. */
INLINE void flush_tile(const int R, vf acc[][2])
{
    int32_t mask = TINY_BITS;
    __asm__ volatile("" : "+r"(mask));
    UNROLL
    for (int r = 0; r < R; r++) {
        acc[r][0] = vf_where_bits(acc[r][0], mask);
        acc[r][1] = vf_where_bits(acc[r][1], mask);
    }
}

/* The sum of an embedding for a row in this replica; NULL: its token does not occur. */
static const float *added_sum(const block *b, int64_t replica, int64_t row)
{
    const lki_rows *rows = b->rows;
    const int32_t *head = b->shape->added, *next = head + rows->row_count;
    const int64_t here = rows->start[rows->first], positions = rows->added.positions;
    const int64_t begin = (rows->start[replica] - here) * positions;
    const int64_t end = (rows->start[replica + 1] - here) * positions;
    int32_t t = head[row - rows->row_first];
    while (t >= 0 && t < begin) t = next[t];
    return t >= 0 && t < end ? rows->added.sum + t * b->shape->inputs : NULL;
}

/* A replica's sums of a tile whose weight is an embedding's, too. */
INLINE void add_rows(const int R, const block *b, int64_t replica, int64_t row, int64_t column,
                     vf acc[][2])
{
    const int64_t left = b->columns - column;
    UNROLL
    for (int r = 0; r < R; r++) {
        const float *sum = added_sum(b, replica, b->row + row + r);
        if (sum == NULL) continue;
        sum += b->column + column;
        acc[r][0] = vf_flush(acc[r][0] + vf_get(sum, left < LANES ? left : LANES));
        if (left > LANES)
            acc[r][1] = vf_flush(acc[r][1] +
                                 vf_get(sum + LANES, left < PANEL ? left - LANES : LANES));
    }
}

/* The last sums go to `sums`, in the last block of samples. */
INLINE void run_tile(const int R, const block *b, int64_t row, int64_t column, const float *dy,
                     const float *x, float *stack, float *sums)
{
    const tile_wait at = {.total = (double *)(void *)stack, .group = stack + 2 * TILE};
    for (int i = 0; i < b->segments; i++) {
        const segment *s = &b->space->segment[i];
        float *top = stack + WAITING + s->depth * TILE;
        vf acc[TILE_ROWS][2];
        const tile_rows of = {.a = dy + s->first * R, .row = 1, .step = R};
        if (!tile_stretch(R, false, acc, at, s->number, s->number + s->count, s->terms, false,
                          false, of, x + s->first * PANEL, NULL, 0))
            continue; /* the replica goes on */
        flush_tile(R, acc);
        if (b->shape->added != NULL) add_rows(R, b, s->replica, row, column, acc);
        for (int m = 0; m < s->merges; m++) {
            top -= TILE;
            tile_add(R, acc, top);
        }
        if (b->last && i == b->segments - 1)
            tile_store(R, acc, sums, SUMS_ROW, PANEL);
        else
            tile_store(R, acc, top, PANEL, PANEL);
    }
}

/* A tile's share of the x that is copied next, which lies where no processor foresees it: of a panel some samples. */
INLINE void fetch_next(const block *b, int64_t first, int64_t rows, int64_t column)
{
    const int64_t end = (first + rows) * b->samples / b->row_count;
    for (int64_t s = first * b->samples / b->row_count; s < end; s++)
        for (int64_t k = 0; k < PANEL; k += 16)
            __builtin_prefetch(b->next + s * b->shape->inputs + column + k, 0, 2);
}

/* One tile after the other; in the last block of samples the sums are handed out. */
static void run_block(const block *b)
{
    float *stack = b->space->stack;
    FOR_TILES(first, rows, b->row_count)
    {
        const float *dy = b->space->dy + first * dy_floats(b);
        for (int64_t k = 0; k < b->columns; k += PANEL, stack += b->stack_row) {
            if (b->next != NULL) fetch_next(b, first, rows, k);
            rows_soon(b, first, rows, k, PANEL);
            const float *x = b->space->x + k / PANEL * panel_floats(b);
#define RUN(R) run_tile(R, b, first, k, dy, x, stack, &b->space->sums[0][k])
            switch (rows) {
                TILE_CASES(RUN)
            }
#undef RUN
        }
        if (b->last) rows_give(b, first, rows);
    }
}

/* The next samples of these columns, or the first ones of the next columns. Where all columns are taken together they are
 * copied for the first rows alone. */
static const float *next_x(const block *b)
{
    const int64_t inputs = b->shape->inputs;
    const float *first = b->rows->in + b->begin * inputs + b->column;
    const int64_t samples = b->sample + b->samples;
    if (!b->last) return samples + b->samples <= b->total ? first + samples * inputs : NULL;
    return b->column + 2 * b->columns <= b->column_end ? first + b->columns : NULL;
}

/* All sums of some rows and columns, and the packing of what they became. */
static void run_columns(block *b)
{
    const bool bf16 = b->shape->bf16;
    cursor c = {.shape = b->shape,
                .rows = b->rows,
                .end = b->node.hi,
                .replica = b->node.lo,
                .step = bf16 ? BF16_TERMS : 1};
    for (b->sample = 0; b->sample < b->total; b->sample += b->samples) {
        b->segments = next_segments(&c, b->space->segment, &b->samples, &b->places);
        b->last = b->sample + b->samples == b->total;
        b->next = next_x(b);
        /* The rows, the columns before left them there, unless they took several blocks of samples. */
        if (b->copied != b->columns || b->samples < b->total) copy_x(b);
        if (b->column == b->rows->column_first || b->samples < b->total) copy_dy(b);
        (b->masks ? LKI_ISA_NAME(lki_vector_masks_block)
         : bf16   ? LKI_ISA_NAME(lki_bf16_rows_block)
                  : run_block)(b);
    }
    if (b->rows->packed == NULL) return;
    (bf16 ? LKI_ISA_NAME(lki_bf16_dense_pack_part) : LKI_ISA_NAME(lki_dense_pack_part))(
        b->shape, b->rows->param[0], b->rows->packed, b->row, b->row_count, b->column, b->columns);
}

/* The sum of dy over replicas [lo, hi) for n units from u on; false where none has a sample. */
static bool vector_rows_bias_sum(const lki_dense_shape *s, const lki_rows *rows, int64_t u,
                                 int64_t n, int64_t lo, int64_t hi, vf *out)
{
    if (hi - lo == 1) {
        const int64_t here = rows_start(s, rows, rows->first);
        const int64_t begin = rows_start(s, rows, lo), end = rows_start(s, rows, hi);
        vd low = {0}, high = {0};
        for (int64_t i = begin; i < end; i++) {
            const vf dy = vf_get(rows->d_out + (i - here) * s->units + u, n);
            low += vf_low(dy);
            high += vf_high(dy);
        }
        *out = vf_flush(vf_join(low, high));
        return begin < end;
    }
    const int64_t middle = lki_tree_split(lo, hi);
    vf right;
    const bool left = vector_rows_bias_sum(s, rows, u, n, lo, middle, out);
    if (!vector_rows_bias_sum(s, rows, u, n, middle, hi, &right)) return left;
    *out = left ? *out + right : right;
    return true;
}

static void give_bias(const block *b)
{
    const lki_rows *to = b->rows;
    FOR_VECTORS(i, n, to->row_count)
    {
        float sums[LANES];
        vf sum;
        vector_rows_bias_sum(b->shape, to, to->row_first + i, n, b->node.lo, b->node.hi, &sum);
        vf_store(sums, sum);
        to->sum(to->user, b->node, 1, to->row_first + i, n, sums);
    }
}

/* As many columns together as x in a block of samples, and the sums that wait, have room for. */
static int64_t columns_of(block *b)
{
    int64_t width = X_FLOATS / ((b->total < SAMPLES ? b->total : SAMPLES) * PANEL);
    b->stack_row = 0;
    if (b->total > SAMPLES) {
        const int depth = lki_tree_slots(b->rows->replicas, b->node.lo, b->node.hi);
        const int64_t most = TILES_FLOATS / ((WAITING + depth * TILE) * BLOCK_TILES);
        if (width > most) width = most;
        b->stack_row = WAITING + depth * TILE;
    }
    return (width > PANELS ? PANELS : width) * PANEL;
}

static void run_node(block *b)
{
    const int64_t end = b->rows->row_first + b->rows->row_count, first = b->rows->column_first;
    const int64_t last = b->rows->column_count > 0 ? first + b->rows->column_count
                                                   : b->shape->inputs;
    const int64_t replicas = b->node.hi - b->node.lo;
    b->copied = 0;
    for (b->row = b->rows->row_first; b->row < end; b->row += b->row_count) {
        const int64_t left = end - b->row;
        int64_t width = 0;
        if (b->shape->masks && left >= MASKS_FROM && b->total >= replicas * MASKS_FROM) {
            b->row_count = left < MASKS_UNITS ? left : MASKS_UNITS;
            width = LKI_ISA_NAME(lki_vector_masks_columns)(b);
        }
        b->masks = width > 0;
        if (!b->masks) {
            b->row_count = left < BLOCK_ROWS ? left : BLOCK_ROWS;
            width = b->shape->bf16 ? LKI_ISA_NAME(lki_bf16_rows_columns)(b) : columns_of(b);
        }
        for (b->column = first; b->column < last; b->column += b->columns) {
            const int64_t more = last - b->column;
            b->columns = more < width ? more : width;
            b->column_end = last;
            run_columns(b);
            b->copied = b->columns == last - first ? b->columns : 0;
        }
    }
    if (b->shape->bias && first == 0) give_bias(b);
}

void LKI_ISA_NAME(lki_vector_rows)(const lki_dense_shape *shape, const lki_rows *rows)
{
    block b = {.shape = shape, .rows = rows, .space = rows->workspace};
    for (int64_t at = rows->first; at < rows->last; at = b.node.hi) {
        b.node = lki_tree_maximal(rows->replicas, at, rows->last);
        b.begin = rows_start(shape, rows, at) - rows_start(shape, rows, rows->first);
        b.total = rows_start(shape, rows, b.node.hi) - rows_start(shape, rows, at);
        if (b.total > 0) run_node(&b);
    }
}
