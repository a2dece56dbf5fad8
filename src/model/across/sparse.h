/*
 * Sums over ranks of a gradient by rows in which few rows occur: an embedding's, of more than twice as many rows as a
 * batch has tokens. Behind its replicas every rank tells all others which of its rows occur, a bit for each; what is
 * then formed, sent and added are the rows that occur on any rank, one behind the other:
 *
 *     rank 0 has tokens 7 2 7     bits 00100001     rows of all: 2 5 7     sums of rank 0: [2] 0 [7]
 *     rank 1 has tokens 5 2       bits 00100100                            sums of rank 1: [2] [5] 0
 *
 * All other rows have the gradient 0, which is what would come of adding theirs, so there are no other bits. They are
 * updated as the others are.
 */
#ifndef LKI_MODEL_SPARSE_H
#define LKI_MODEL_SPARSE_H

#include <lockstep/model.h>

typedef struct lki_sparse {
    int stage;
    int64_t rows, units; /* of the weight, and floats of a row */
    int64_t tokens;      /* of a sample */
    int64_t most;        /* rows that may occur in a batch */
    int64_t words;       /* of bits, row by row from the lowest on, */
    uint64_t *bits;      /* [ranks][words + 1], and their hash */
    int flight;
    int32_t *row; /* [most]: those that occur in this batch, ascending, */
    int64_t count;
} lki_sparse;

/* Takes the stage that gains most, if any does; it is asked for in front of what lies where. */
lks_status lki_sparse_choose(lks_model *model);
/* Of a stage; NULL: it is another one. */
const lki_sparse *lki_sparse_of(const lks_model *model, int stage);
/* Behind the replicas of this rank, whose tokens are there where they were `formed`, starts to tell which rows these have;
 * and waits for the others', by which buckets get their size. Without such a stage both do nothing. */
lks_status lki_sparse_tell(lks_model *model, bool formed);
lks_status lki_sparse_hear(lks_model *model);
/* How many of so many places in the list, from `first` on, have a row in this batch. */
static inline int64_t lki_sparse_here(const lki_sparse *sparse, int64_t first, int64_t count)
{
    const int64_t left = sparse->count > first ? sparse->count - first : 0;
    return left < count ? left : count;
}
/* Elements [first, first + count) of the weight's sums, of which those of the rows that occur are at `sums`. */
void lki_sparse_spread(const lki_sparse *sparse, const float *sums, int64_t first, int64_t count,
                       float *out);

#endif
