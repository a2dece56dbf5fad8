/* The training loop: what the model makes of a data set. */
#include "train/loop.h"

#include <math.h>
#include <stdlib.h>

/* Where a sample has one class, of each class: samples of it that were given it, samples that were given it, samples of
 * it. Sums of integers, so that any number of processes has the same. */
typedef struct counts {
    int64_t classes; /* 0: nothing is counted */
    int64_t *right, *given, *there;
    float *output; /* of a batch */
    int64_t room;  /* samples */
} counts;

enum { TABLES = 3 }; /* one behind the other: right, given, there */

lks_status lki_loop_follow_shares(const loop *l, lks_loader *loader)
{
    const lks_model_info info = lks_model_get_info(l->opts.model);
    return info.cuts > 0 ? lks_loader_share(loader, info.shares, info.first_share, info.last_share)
                         : LKS_OK;
}

static lks_status no_memory(int64_t classes)
{
    return lks_fail(LKS_E_NOMEM, "training: no memory for the counts of %lld classes",
                    (long long)classes);
}

static lks_status counts_make(counts *c, int64_t classes)
{
    if (classes == 0) return LKS_OK;
    c->right = calloc((size_t)classes, TABLES * sizeof *c->right);
    if (c->right == NULL) return no_memory(classes);
    c->classes = classes;
    c->given = c->right + classes;
    c->there = c->given + classes;
    return LKS_OK;
}

static lks_status make_room(counts *c, int64_t samples)
{
    if (samples < c->room) return LKS_OK;
    free(c->output);
    c->room = samples + 1; /* a process may have none */
    c->output = malloc((size_t)(c->room * c->classes) * sizeof *c->output);
    return c->output != NULL ? LKS_OK : no_memory(c->classes);
}

/* The class that a sample is given is the first of the largest outputs. */
static void count_batch(counts *c, const lks_batch *batch)
{
    const int32_t *label = batch->y;
    for (int64_t i = 0; i < batch->count; i++) {
        const float *output = c->output + i * c->classes;
        int64_t best = 0;
        for (int64_t j = 1; j < c->classes; j++)
            if (output[j] > output[best]) best = j;
        c->right[best] += best == label[i];
        c->given[best]++;
        c->there[label[i]]++;
    }
}

/* This process's part of a data set, once. */
static lks_status evaluate_part(loop *l, lks_loader *loader, lks_metrics *sum, counts *c)
{
    lks_model *model = l->opts.model;
    const lks_model_info info = lks_model_get_info(model);
    TRY(counts_make(c, info.positions == 0 ? info.classes : 0));
    TRY(lki_loop_follow_shares(l, loader));
    TRY(lks_loader_seek(loader, 0));
    for (int64_t i = lks_loader_batches(loader); i > 0; i--) {
        lks_batch batch;
        TRY(lks_loader_next(loader, &batch));
        if (c->classes > 0) {
            TRY(make_room(c, batch.count));
            TRY(lks_model_evaluate_outputs(model, &batch, sum, c->output));
            count_batch(c, &batch);
        } else {
            TRY(lks_model_evaluate(model, &batch, sum));
        }
    }
    return LKS_OK;
}

/* The counts of all processes. */
static lks_status counts_gather(const loop *l, counts *c)
{
    lks_comm *comm = lks_model_comm(l->opts.model);
    const int ranks = lks_comm_size(comm);
    const int64_t count = TABLES * c->classes;
    const size_t bytes = (size_t)count * sizeof *c->right;
    if (ranks == 1 || count == 0) return LKS_OK;
    int64_t *all = malloc((size_t)ranks * bytes);
    lks_status status = agree(l, all != NULL ? LKS_OK : no_memory(c->classes));
    if (status == LKS_OK) status = lks_comm_all_gather(comm, c->right, bytes, all);
    for (int64_t i = 0; i < count && status == LKS_OK; i++) {
        c->right[i] = 0;
        for (int r = 0; r < ranks; r++) c->right[i] += all[r * count + i];
    }
    free(all);
    return status;
}

static double quotient(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

lks_rates lks_rates_of(int64_t classes, const int64_t *right, const int64_t *given,
                       const int64_t *there)
{
    lks_rates sum = {0};
    double count = 0;
    if (right == NULL || given == NULL || there == NULL) return LKI_NO_RATES;
    for (int64_t i = 0; i < classes; i++) {
        if (given[i] + there[i] == 0) continue;
        sum.precision += quotient(right[i], given[i]);
        sum.recall += quotient(right[i], there[i]);
        sum.f1 += quotient(2 * right[i], given[i] + there[i]);
        count++;
    }
    if (count == 0.0) return LKI_NO_RATES;
    return (lks_rates){sum.precision / count, sum.recall / count, sum.f1 / count};
}

lks_status lki_loop_evaluate(loop *l, lks_loader *loader, lks_metrics *sum, lks_rates *rates)
{
    counts c = {0};
    if (!loader) return LKS_OK;
    lks_status status = agree(l, evaluate_part(l, loader, sum, &c));
    if (status == LKS_OK) status = lks_comm_metrics(lks_model_comm(l->opts.model), sum);
    if (status == LKS_OK) status = counts_gather(l, &c);
    if (status == LKS_OK) *rates = lks_rates_of(c.classes, c.right, c.given, c.there);
    free(c.output);
    free(c.right);
    return status;
}
