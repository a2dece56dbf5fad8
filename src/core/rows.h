/* What a kernel forms gradients by rows of, and for whom (lki_kernel.rows). */
#ifndef LKI_CORE_ROWS_H
#define LKI_CORE_ROWS_H

#include "numeric/tree.h"

enum {
    LKI_PACKED_ROWS = 16, /* of a parameter, that no two workers pack at a time: they share lines */
    LKI_MAX_FACTORS = 3,  /* arrays that backward leaves for rows */
};

/* What an embedding has left of each replica for rows of the layer that has its weight, before the tree: sums of rows that
 * occur, each at the first of its places, places being [sample][position]. */
typedef struct lki_rows_added {
    const float *sum;   /* [place][elements of a row]; NULL: there is none */
    const int32_t *row; /* [place]: whose sum is there; -1: none is */
    int64_t positions;  /* of a sample */
} lki_rows_added;

/* A gradient by rows: sums over replicas for rows [row_first, row_first + row_count) of the first dimension
 * of the parameters (of every slot, equal there), formed replica by replica (samples ascending, one
 * accumulator from +0), combined in the tree, absent replicas left out, given to `sum` range by range. Of
 * replicas first .. last-1 there are the sums of their maximal nodes, those that have samples: one for
 * all, where these are all replicas. Of tokens `in` is int32_t. */
typedef struct lki_rows {
    const float *in;    /* [samples][elements of in[0]], from those of replica `first` on */
    const float *d_out; /* [samples][elements of out]; NULL where the kernel leaves factors, */
    const float
        *factor[LKI_MAX_FACTORS]; /* from those of the first sample on (lki_needs.factor_bytes) */
    const int64_t *start; /* [replicas + 1]: replica r has samples start[r] .. start[r + 1] - 1 */
    int64_t replicas;     /* of the tree */
    int64_t first, last;  /* those whose samples are here */
    int64_t row_first, row_count;
    /* Of a kernel that `lists`: the rows are these, ascending, and to `sum` they are rows from row_first on. NULL: they are. */
    const int32_t *row;
    /* The elements of a row of the first slot, cut at multiples of needs.columns; 0, 0: all. The other slots'
     * are given with the first. */
    int64_t column_first, column_count;
    /* Of a layer that has an embedding's weight: to the sums of its first slot. */
    lki_rows_added added;
    void *workspace;
    /* Not NULL: `sum` updates the parameters, and as soon as it has those of some rows and columns the kernel packs
     * them again, as lki_kernel.pack does. Parts are then cut at multiples of LKI_PACKED_ROWS. */
    const float *const *param;
    void *packed;
    /* Elements [first, first + count) of the parameter in this slot have these sums over the node's replicas. */
    void (*sum)(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                const float *sums);
    /* Sums of elements [first, first + count) of the parameter in this slot, and of as many at each of `rows` places `step` further,
     * follow soon: what takes them may fetch what it needs, which lies where no processor foresees it. NULL: need not be told. */
    void (*soon)(void *user, int slot, int64_t first, int64_t count, int64_t rows, int64_t step);
    void *user;
} lki_rows;

#endif
