/* What the gradients of dense layers by rows are made of: see rows.c; and masks_rows.c, for layers with masks. */
#ifndef LKI_CPU_VECTOR_ROWS_H
#define LKI_CPU_VECTOR_ROWS_H

#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/masks.h"
#include "numeric/tree.h"

enum {
    SAMPLES = 4 * LKI_BLOCK_TERMS,
    TILE = TILE_ROWS * PANEL,
    WAITING = 3 * TILE, /* floats that the totals and the group of a tile take */
    BLOCK_ROWS = 256,   /* of units; whole panels */
    BLOCK_TILES = (BLOCK_ROWS + TILE_ROWS - 1) / TILE_ROWS, /* below each other in a block */
    SUMS_ROW = 512,                                         /* most columns of a block */
    PANELS = SUMS_ROW / PANEL,
    SUMS_ROWS = 32,     /* a tile's, at most */
    X_FLOATS = 65536,   /* of x in a block of samples */
    NODES = 2 * 32 + 2, /* replicas are counted by an int */
    TILES_FLOATS = (NODES / 2 * TILE + WAITING) * BLOCK_TILES,
    /* With masks: inputs of a strip, and most of a block; the sums of a block, [unit][MASKS_ROW], 16 of an input
     * that are not turned yet, and for each input of a strip a group, totals, and MASKS_DEPTH sums that wait. */
    MASKS_STRIP = 64,
    MASKS_COLUMNS = 256,
    MASKS_ROW = MASKS_COLUMNS + 16, /* not 4,096 bytes */
    MASKS_DEPTH = 12,
    MASKS_STACKS = MASKS_UNITS * (MASKS_ROW + 16),
    MASKS_FLOATS = MASKS_STACKS + MASKS_STRIP * (3 + MASKS_DEPTH) * MASKS_UNITS,
    STACK_FLOATS = TILES_FLOATS > MASKS_FLOATS ? TILES_FLOATS : MASKS_FLOATS,
    MASKS_FROM = 32 /* units, and samples of a replica on average: with fewer the tile is faster */
};

/* Consecutive samples of one replica in the current block: all of them, or SAMPLES, or its last. */
typedef struct segment {
    int64_t replica, first, count;
    int64_t number, terms; /* of the first in the replica, and how many samples that has */
    int merges;            /* with nodes of the tree that wait on the stack, after it */
    int depth;             /* of the stack before it */
} segment;

typedef struct space {
    segment segment[SAMPLES];
    float x[X_FLOATS + 16 * PANELS];       /* [panel][sample][PANEL] */
    float dy[(SAMPLES + 16) * BLOCK_ROWS]; /* [tile][sample][rows of the tile] */
    float sums[SUMS_ROWS][SUMS_ROW];
    float stack[STACK_FLOATS]; /* [tile][WAITING, then by depth TILE]; or as said above */
} space;

/* One block: rows of units, columns of inputs, a block of samples of a node. */
typedef struct block {
    const lki_dense_shape *shape;
    const lki_rows *rows;
    lki_tree_node node;
    int64_t begin, total; /* where its samples begin in those that are here, and how many it has */
    space *space;
    int64_t row, row_count;
    int64_t column, columns;
    int64_t column_end; /* of all */
    int64_t copied; /* columns of x whose copy the rows before left: all of the node's; 0: none */
    int64_t stack_row; /* floats from one tile's stack to the next; 0: one for all */
    int segments;
    int64_t sample, samples;
    int64_t
        places; /* of the samples in the copies: of bfloat16 segments begin at whole blocks, else as many */
    bool last; /* block of samples */
    const float
        *next;  /* the x that is copied behind this: as many samples and columns; NULL: none */
    bool masks; /* masks_rows.c */
} block;

/* Where the rows of x and d_y of replica r begin, in the whole batch. */
INLINE int64_t rows_start(const lki_dense_shape *shape, const lki_rows *rows, int64_t r)
{
    return shape->positions > 0 ? shape->positions * rows->start[r] : rows->start[r];
}

/* Floats from panel to panel: a line more than the samples take, as lines that are a multiple of
 * 4,096 bytes apart would push each other out of the cache. */
INLINE int64_t panel_floats(const block *b)
{
    return b->samples * PANEL + 16;
}

/* Floats of dy for each unit: behind a tile there is room for what a vector writes there. */
INLINE int64_t dy_floats(const block *b)
{
    return b->samples + 16;
}

/* The weight's rows [row, row + rows) and columns [column, column + columns) into both packings (dense_pack.c). */
void LKI_ISA_NAME(lki_dense_pack_part)(const lki_dense_shape *s, const float *weight, void *packed,
                                       int64_t row, int64_t rows, int64_t column, int64_t columns);

/* The sums of `rows` rows of a block from `row` on, which lie in space->sums, are handed out. */
INLINE void rows_give(const block *b, int64_t row, int64_t rows)
{
    const lki_rows *to = b->rows;
    for (int64_t r = 0; r < rows; r++)
        to->sum(to->user, b->node, 0, (b->row + row + r) * b->shape->inputs + b->column, b->columns,
                b->space->sums[r]);
}

/* The sums of these rows, `columns` from column k on, will be handed out: said of large weights. */
INLINE void rows_soon(const block *b, int64_t row, int64_t rows, int64_t k, int64_t columns)
{
    const int64_t inputs = b->shape->inputs, left = b->columns - k;
    if (b->rows->soon == NULL || !b->last || b->shape->units * inputs < LARGE_WEIGHT) return;
    b->rows->soon(b->rows->user, 0, (b->row + row) * inputs + b->column + k,
                  left < columns ? left : columns, rows, inputs);
}

/* For blocks with masks: the most columns, or 0 where too many sums wait; the copy of dy; all inputs. */
int64_t LKI_ISA_NAME(lki_vector_masks_columns)(block *b);
void LKI_ISA_NAME(lki_vector_masks_copy)(const block *b);
void LKI_ISA_NAME(lki_vector_masks_block)(const block *b);

/* The same for factors that are bfloat16 (bf16/bf16_rows.c); and packing of rows (bf16/bf16_pack.c). */
int64_t LKI_ISA_NAME(lki_bf16_rows_columns)(block *b);
void LKI_ISA_NAME(lki_bf16_rows_copy_x)(const block *b);
void LKI_ISA_NAME(lki_bf16_rows_copy_dy)(const block *b);
void LKI_ISA_NAME(lki_bf16_rows_block)(const block *b);
void LKI_ISA_NAME(lki_bf16_dense_pack_part)(const lki_dense_shape *s, const float *weight,
                                            void *packed, int64_t row, int64_t rows, int64_t column,
                                            int64_t columns);

#endif
