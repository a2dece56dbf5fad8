/* What classes were taken for, counted in one way by whoever tests: the training loop, records, `eval`. */
#include <lockstep/tools.h>

#include <stdlib.h>

#include "base/check.h"

enum { TABLES = 3, PIECE = 1 << 16 /* counts that a rank sends at a time */ };

static lks_status no_counts(int64_t classes)
{
    return LKI_FAIL(LKS_E_NOMEM, "no memory for the counts of %lld classes", (long long)classes);
}

lks_status lks_class_counts_make(lks_class_counts *out, int64_t classes, bool matrix)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_class_counts){0};
    if (classes < 0 || classes > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID, "lks_class_counts_make() got %lld classes, expected 0 to %d",
                        (long long)classes, INT32_MAX);
    out->right = calloc((size_t)classes + 1, TABLES * sizeof *out->right);
    if (out->right == NULL) return no_counts(classes);
    if (matrix)
        out->confusion = calloc((size_t)classes + 1, ((size_t)classes + 1) * sizeof *out->right);
    if (matrix && out->confusion == NULL) {
        lks_class_counts_free(out);
        return no_counts(classes);
    }
    out->classes = classes;
    out->given = out->right + classes;
    out->there = out->given + classes;
    return LKS_OK;
}

void lks_class_counts_free(lks_class_counts *counts)
{
    if (counts == NULL) return;
    free(counts->confusion);
    free(counts->right);
    *counts = (lks_class_counts){0};
}

int64_t lks_class_given(const float *output, int64_t classes)
{
    int64_t best = 0;
    for (int64_t i = 1; i < classes && output != NULL; i++)
        if (output[i] > output[best]) best = i;
    return best;
}

void lks_class_counts_add(lks_class_counts *counts, int64_t label, int64_t given)
{
    if (counts == NULL || label < 0 || label >= counts->classes) return;
    counts->right[given] += given == label;
    counts->given[given]++;
    counts->there[label]++;
    if (counts->confusion != NULL) counts->confusion[label * counts->classes + given]++;
}

/* A piece at a time, so that many ranks need no memory for a matrix of each. */
static lks_status sum_counts(int64_t *count, int64_t length, lks_comm *comm)
{
    const int ranks = lks_comm_size(comm);
    if (ranks == 1 || length == 0) return LKS_OK;
    const int64_t most = length < PIECE ? length : PIECE;
    int64_t *all = malloc((size_t)ranks * (size_t)most * sizeof *all);
    lks_status status = lks_comm_agree(
        comm, all != NULL ? LKS_OK
                          : LKI_FAIL(LKS_E_NOMEM, "no memory for counts of %d processes", ranks));
    for (int64_t at = 0; at < length && status == LKS_OK; at += most) {
        const int64_t some = length - at < most ? length - at : most;
        status = lks_comm_all_gather(comm, count + at, (size_t)some * sizeof *count, all);
        for (int64_t i = 0; i < some && status == LKS_OK; i++) {
            count[at + i] = 0;
            for (int r = 0; r < ranks; r++) count[at + i] += all[r * some + i];
        }
    }
    free(all);
    return status;
}

lks_status lks_class_counts_sum(lks_class_counts *counts, lks_comm *comm)
{
    if (counts == NULL) return LKI_FAIL_NULL(counts);
    return sum_counts(counts->right, TABLES * counts->classes, comm);
}

lks_status lks_class_counts_sum_matrix(lks_class_counts *counts, lks_comm *comm)
{
    if (counts == NULL || counts->confusion == NULL)
        return LKI_FAIL(LKS_E_INVALID, "lks_class_counts_sum_matrix() got no matrix");
    return sum_counts(counts->confusion, counts->classes * counts->classes, comm);
}
