/*
 * The weight gradient of a dense layer by rows: dW[u][k] = sum over samples of dy[s][u] * x[s][k],
 * replica by replica, combined in the tree over replicas. The bias gradient is one more column, of
 * ones.
 *
 * A block of rows and columns is cut into tiles (tile.h: rows are units, columns are inputs, k are
 * samples). A tile takes the samples of one replica after the other; the sums that wait in the
 * tree lie on a stack, which stays in the first-level cache:
 *
 *   samples  [ replica 0 | replica 1 | replica 2 ...        stack  [0,2) | [2,3) | ...
 *   segment   0           1           2                     depth    0       1
 *
 * Samples are copied, at most SAMPLES at a time, into panels of x and of dy. Where there are more,
 * every tile has a stack of its own, and a replica may be cut: its accumulators wait on top of the
 * stack for the next block of samples.
 */
#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/tile.h"
#include "base/tree.h"

enum {
    SAMPLES = 256,
    TILE = TILE_ROWS * PANEL,
    BLOCK_TILES = 126 / TILE_ROWS,        /* tiles below each other in a block */
    BLOCK_ROWS = BLOCK_TILES * TILE_ROWS, /* of units */
    PANELS = 512 / PANEL,                 /* most panels beside each other in a block */
    X_FLOATS = 32768,                     /* of x in a block of samples */
    NODES = 2 * 32 + 2,                   /* replicas are counted by an int */
    STACK_FLOATS = NODES / 2 * TILE * BLOCK_TILES
};

/* Consecutive samples of one replica in the current block. */
typedef struct segment {
    int64_t first, count;
    bool resumes; /* the replica began in an earlier block of samples */
    int merges;   /* with nodes of the tree that wait on the stack, after it */
    int depth;    /* of the stack before it */
} segment;

typedef struct space {
    segment segment[SAMPLES];
    float x[X_FLOATS + 16 * PANELS]; /* [panel][sample][PANEL] */
    float dy[SAMPLES * BLOCK_ROWS];  /* [tile][sample][rows of the tile] */
    float sums[TILE_ROWS][PANELS * PANEL];
    float stack[STACK_FLOATS]; /* [tile][depth][TILE] */
} space;

size_t LKI_ISA_NAME(lki_vector_rows_bytes)(void)
{
    return sizeof(space);
}

/* Where we are in the replicas, and the nodes of the tree that wait: node i covers replicas
 * [bound[i], bound[i + 1]); absent nodes need no place on the stack. */
typedef struct cursor {
    const lki_rows *rows;
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
    return c->rows->start[c->replica + 1] - c->rows->start[c->replica];
}

/* Replicas without samples, from the current one on. */
static int skip_absent(cursor *c)
{
    int merges = 0;
    while (c->replica < c->rows->replicas && samples_of(c) == 0) merges += finish_replica(c, false);
    return merges;
}

/* The next at most SAMPLES samples as segments; returns their number, and the samples in `count`. */
static int next_segments(cursor *c, segment *to, int64_t *count)
{
    int n = 0;
    *count = 0;
    skip_absent(c);
    while (c->replica < c->rows->replicas && *count < SAMPLES) {
        const int64_t left = samples_of(c) - c->done, room = SAMPLES - *count;
        segment *s = &to[n++];
        *s = (segment){.first = *count,
                       .count = left < room ? left : room,
                       .resumes = c->done > 0,
                       .depth = c->depth};
        *count += s->count;
        c->done += s->count;
        if (s->count < left) break;
        s->merges = finish_replica(c, true) + skip_absent(c);
        c->depth += 1 - s->merges;
        c->done = 0;
    }
    return n;
}

/* One block: rows of units, columns of inputs (or the column of ones), a block of samples. */
typedef struct block {
    const lki_dense_shape *shape;
    const lki_rows *rows;
    space *space;
    const float *const *start; /* values the sums start from; NULL: 0 */
    int64_t row, row_count;
    int64_t column, columns; /* column == inputs: of ones */
    int64_t stack_row;       /* floats from one tile's stack to the next; 0: one for all */
    int segments;
    int64_t sample, samples;
    bool last; /* block of samples */
} block;

/* Floats from panel to panel: a line more than the samples take, as lines that are a multiple of
 * 4,096 bytes apart would push each other out of the cache. */
INLINE int64_t panel_floats(const block *b)
{
    return b->samples * PANEL + 16;
}

/* Row by row: a sample's stretch is contiguous, samples are pages apart. */
static void copy_x(const block *b)
{
    const int64_t inputs = b->shape->inputs, panel = panel_floats(b);
    const int64_t whole = b->columns - b->columns % PANEL, rest = b->columns - whole;
    const float *from = b->rows->in + b->sample * inputs + b->column;
    float *to = b->space->x;
    for (int64_t s = 0; s < b->samples; s++, to += PANEL, from += inputs) {
        float *at = to;
        if (b->column == inputs) {
            vf_store(at, vf_set(1));
            vf_store(at + LANES, vf_set(1));
            continue;
        }
        for (int64_t k = 0; k < whole; k += PANEL, at += panel) {
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

static void copy_dy(const block *b)
{
    const int64_t units = b->shape->units;
    FOR_TILES(first, rows, b->row_count)
    {
        const float *from = b->rows->d_out + b->sample * units + b->row + first;
        float *to = b->space->dy + first * b->samples;
        for (int64_t s = 0; s < b->samples; s++)
            for (int64_t r = 0; r < rows; r++) to[s * rows + r] = from[s * units + r];
    }
}

/* The last sums go to `sums`, in the last block of samples. */
INLINE void run_tile(const int R, const block *b, const float *dy, const float *x, float *stack,
                     float *sums)
{
    for (int i = 0; i < b->segments; i++) {
        const segment *s = &b->space->segment[i];
        float *top = stack + s->depth * TILE;
        vf acc[TILE_ROWS][2];
        if (s->resumes)
            tile_load(R, acc, top, PANEL, PANEL);
        else
            tile_zero(R, acc);
        tile_run(R, acc, dy + s->first * R, 1, R, x + s->first * PANEL, s->count);
        for (int m = 0; m < s->merges; m++) {
            top -= TILE;
            for (int r = 0; r < R; r++) {
                acc[r][0] = vf_load(top + r * PANEL) + acc[r][0];
                acc[r][1] = vf_load(top + r * PANEL + LANES) + acc[r][1];
            }
        }
        if (b->last && i == b->segments - 1)
            tile_store(R, acc, sums, PANELS * PANEL, PANEL);
        else
            tile_store(R, acc, top, PANEL, PANEL);
    }
}

/* The values a tile's sums start from, as if an earlier block of samples had left them. */
static void preset(const block *b, int64_t row, int64_t rows, int64_t k, float *stack)
{
    const int64_t inputs = b->shape->inputs, left = b->columns - k;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < (left < PANEL ? left : PANEL); i++)
            stack[r * PANEL + i] =
                b->column == inputs ? b->start[1][b->row + row + r]
                                    : b->start[0][(b->row + row + r) * inputs + b->column + k + i];
}

/* Hands out the sums of `rows` rows, which lie in space->sums. */
static void give(const block *b, int64_t row, int64_t rows)
{
    const lki_rows *to = b->rows;
    const int64_t inputs = b->shape->inputs;
    if (b->column < inputs) {
        for (int64_t r = 0; r < rows; r++)
            to->sum(to->user, 0, (b->row + row + r) * inputs + b->column, b->columns,
                    b->space->sums[r]);
        return;
    }
    float ones[TILE_ROWS];
    for (int64_t r = 0; r < rows; r++) ones[r] = b->space->sums[r][0];
    to->sum(to->user, 1, b->row + row, rows, ones);
}

/* One tile after the other; in the last block of samples the sums are handed out. */
static void run_block(const block *b)
{
    float *stack = b->space->stack;
    FOR_TILES(first, rows, b->row_count)
    {
        const float *dy = b->space->dy + first * b->samples;
        for (int64_t k = 0; k < b->columns; k += PANEL, stack += b->stack_row) {
            const float *x = b->space->x + k / PANEL * panel_floats(b);
            if (b->start != NULL && b->sample == 0) preset(b, first, rows, k, stack);
#define RUN(R) run_tile(R, b, dy, x, stack, &b->space->sums[0][k])
            switch (rows) {
                TILE_CASES(RUN)
            }
#undef RUN
        }
        if (b->last) give(b, first, rows);
    }
}

static void run_columns(block *b)
{
    cursor c = {.rows = b->rows};
    const int64_t total = b->rows->start[b->rows->replicas];
    for (b->sample = 0; b->sample < total; b->sample += b->samples) {
        b->segments = next_segments(&c, b->space->segment, &b->samples);
        b->last = b->sample + b->samples == total;
        if (b->start != NULL && b->sample == 0) b->space->segment[0].resumes = true;
        copy_x(b);
        /* The columns before left it there, unless they took several blocks of samples. */
        if (b->column == 0 || b->samples < total) copy_dy(b);
        run_block(b);
    }
}

static void give_zeros(block *b)
{
    memset(b->space->sums, 0, sizeof b->space->sums);
    for (int64_t r = 0; r < b->row_count; r += TILE_ROWS)
        give(b, r, b->row_count - r < TILE_ROWS ? b->row_count - r : TILE_ROWS);
}

void LKI_ISA_NAME(lki_vector_rows)(const lki_dense_shape *shape, const lki_rows *rows,
                                   const float *const start[2])
{
    block b = {.shape = shape, .rows = rows, .space = rows->workspace, .start = start};
    const int64_t total = rows->start[rows->replicas];
    int64_t width = X_FLOATS / ((total < 1 ? 1 : total < SAMPLES ? total : SAMPLES) * PANEL);
    if (total > SAMPLES) {
        const int depth = lki_tree_slots(rows->replicas, 0, rows->replicas);
        const int64_t most = STACK_FLOATS / (depth * TILE * BLOCK_TILES);
        if (width > most) width = most;
        b.stack_row = depth * TILE;
    }
    width = (width > PANELS ? PANELS : width) * PANEL;
    const int64_t end = rows->row_first + rows->row_count;
    for (b.row = rows->row_first; b.row < end; b.row += b.row_count) {
        b.row_count = end - b.row < BLOCK_ROWS ? end - b.row : BLOCK_ROWS;
        for (b.column = 0; b.column < shape->inputs + shape->bias; b.column += b.columns) {
            const int64_t left = shape->inputs - b.column;
            b.columns = left <= 0 ? 1 : left < width ? left : width;
            if (total > 0)
                run_columns(&b);
            else
                give_zeros(&b);
        }
    }
}
