/* What ranks tell each other in a step: whether all is well, metrics, and whether all still have the
 * same bits. */
#include <stdio.h>

#include "base/check.h"
#include "model/model.h"
#include "model/step/batch.h"
#include "numeric/hash.h"

/* A program that gives each rank samples of its own, as it would for other trainers, must not train on a part of them in silence.
 * It does so from the first batch on, and the first and last sample tell. */
static uint64_t batch_digest(const lks_model *model)
{
    const lks_batch *batch = model->across->batch;
    const size_t bytes = lki_tensor_bytes(model->program.graph->input);
    if (batch == NULL || batch->whole != 0 || batch->count == 0 || model->across->trained) return 0;
    const char *last = (const char *)batch->x + (size_t)(batch->count - 1) * bytes;
    return lki_hash_link(lki_hash(batch->x, bytes), batch->count, lki_hash(last, bytes));
}

static lki_word word_of(const lks_model *model)
{
    return (lki_word){.step = model->progress.step,
                      .count = model->pass.count,
                      .lr = model->lr,
                      .link = model->progress.link,
                      .bad_position = -1};
}

static void count_bad(const lks_model *model, lki_word *word)
{
    const lks_batch *batch = model->across->batch;
    for (int w = 0; w < model->workers; w++) {
        const lki_worker *worker = &model->worker[w];
        lks_metrics_add(&word->metrics, &worker->metrics);
        for (int i = 0; i < worker->bad_count && word->bad_count < LKI_MAX_BAD; i++) {
            if (word->bad_count == 0) word->bad_position = worker->bad_position[0];
            word->bad_id[word->bad_count++] = lki_sample_id(batch, worker->bad_position[i]);
        }
    }
}

/* Of ranks that differ: the first that has not what most have, and the first that has; where two have
 * each what as many have, the first two. */
static void find_odd(const lki_across *across, int *odd, int *even)
{
    int most = 0;
    *even = 0;
    for (int r = 0; r < across->ranks; r++) {
        int equal = 0;
        for (int o = 0; o < across->ranks; o++)
            equal += across->word[o].link == across->word[r].link;
        if (equal > most) {
            most = equal;
            *even = r;
        }
    }
    *odd = 0;
    while (across->word[*odd].link == across->word[*even].link) (*odd)++;
}

/* `what` of the ranks their links are the hashes of. */
static lks_status check_links(const lks_model *model, const char *what)
{
    const lki_across *across = model->across;
    bool equal = true;
    for (int r = 1; r < across->ranks; r++) equal &= across->word[r].link == across->word[0].link;
    if (equal) return LKS_OK;
    int odd, even, odds = 0;
    char who[LKI_WHO_SIZE], other[LKI_WHO_SIZE];
    find_odd(across, &odd, &even);
    for (int r = 0; r < across->ranks; r++) odds += across->word[r].link != across->word[even].link;
    const char *hint = model->opts.reduction == LKS_REDUCTION_LIBRARY
                           ? ", or with reduction: library sums are not the same on all"
                           : "";
    lki_comm_who(across->comm, odd, who);
    lki_comm_who(across->comm, even, other);
    if (2 * odds < across->ranks)
        return LKI_FAIL(LKS_E_COMM,
                        "after step %lld the %s of %s%s are not those of the other %d "
                        "ranks: hash %016llx, theirs is %016llx; its memory or processor may be "
                        "faulty%s: go on from the last checkpoint without that host",
                        (long long)model->progress.step, what, who, odds > 1 ? " and others" : "",
                        across->ranks - odds, (unsigned long long)across->word[odd].link,
                        (unsigned long long)across->word[even].link, hint);
    return LKI_FAIL(LKS_E_COMM,
                    "after step %lld the %s of %s have hash %016llx, those of %s %016llx, "
                    "and neither has a majority: memory or a processor may be faulty, or a program "
                    "has changed the state of one of them%s; go on from the last checkpoint",
                    (long long)model->progress.step, what, who,
                    (unsigned long long)across->word[odd].link, other,
                    (unsigned long long)across->word[even].link, hint);
}

/* Whether all are about to do the same, from the same bits. */
static lks_status check_words(const lks_model *model)
{
    const lki_across *across = model->across;
    for (int r = 1; r < across->ranks; r++) {
        const lki_word *first = &across->word[0], *word = &across->word[r];
        char who[LKI_WHO_SIZE];
        if (word->step != first->step || word->count != first->count)
            return LKI_FAIL(
                LKS_E_INVALID,
                "%s takes step %lld with a batch of %lld samples, rank 0 step %lld with "
                "%lld; all ranks must be given the same batches",
                lki_comm_who(across->comm, r, who), (long long)word->step + 1,
                (long long)word->count, (long long)first->step + 1, (long long)first->count);
        if (word->lr != first->lr)
            return LKI_FAIL(
                LKS_E_INVALID,
                "%s takes step %lld at the learning rate %.9g, rank 0 at %.9g; all ranks "
                "must be given the same",
                lki_comm_who(across->comm, r, who), (long long)word->step + 1, word->lr, first->lr);
        if (word->batch != first->batch && word->batch != 0 && first->batch != 0)
            return LKI_FAIL(
                LKS_E_INVALID,
                "%s takes step %lld with other samples than rank 0; give all ranks the same "
                "global batch, or each its part of it (first and whole of lks_batch)",
                lki_comm_who(across->comm, r, who), (long long)word->step + 1);
    }
    return check_links(model, "parameters");
}

/* Without an exchange only this rank's, as if it were alone. */
static lks_status exchange_words(lks_model *model, const lki_word *own)
{
    lki_across *across = model->across;
    if (model->common != NULL) return lki_common_words(model, own);
    if (model->opts.exchange != LKS_EXCHANGE_NONE)
        return lki_comm_gather(across->comm, own, sizeof *own, across->word, "words of a step");
    for (int r = 0; r < across->ranks; r++) {
        across->word[r] = *own;
        if (r != across->rank) across->word[r].metrics = (lks_metrics){0};
    }
    return LKS_OK;
}

lks_status lki_across_tell(lks_model *model, lks_status status)
{
    lki_across *across = model->across;
    lki_word own = word_of(model);
    own.status = (int32_t)status;
    own.raised = (int32_t)atomic_exchange(&model->raise, 0);
    if (status == LKS_OK) count_bad(model, &own);
    if (status == LKS_OK) own.batch = batch_digest(model);
    LKI_TRY(exchange_words(model, &own));
    across->well = true;
    for (int r = 0; r < across->ranks; r++) {
        const lki_word *word = &across->word[r];
        if (model->raised == LKS_OK) model->raised = (lks_status)word->raised;
        across->well &= word->status == LKS_OK && word->bad_count == 0;
    }
    for (int r = 0; r < across->ranks; r++)
        if (across->word[r].status != LKS_OK) return LKS_OK; /* which all shall hear */
    LKI_TRY(check_words(model));
    across->trained = true;
    return LKS_OK;
}

lks_status lki_across_same(lks_model *model, const char *what, uint64_t hash)
{
    lki_word own = word_of(model);
    own.link = hash;
    LKI_TRY(exchange_words(model, &own));
    return check_links(model, what);
}

/* Whoever finds that a message has changed tells the others, in the exchange of words. */
lks_status lki_across_compare(lks_model *model)
{
    if (model->opts.exchange != LKS_EXCHANGE_NONE) LKI_TRY(lki_comm_check(model->across->comm));
    return lki_across_same(model, "parameters", model->progress.link);
}
