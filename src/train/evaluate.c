/* The training loop: what the model makes of a data set. */
#include "train/loop.h"

#include <stdlib.h>

#include <lockstep/tools.h>

/* Where a sample has one class: what it was given. */
typedef struct counts {
    lks_class_counts of; /* no classes: nothing is counted */
    float *output;       /* of a batch */
    int64_t width, room; /* of a sample; samples */
} counts;

lks_status lki_loop_follow_shares(const loop *l, lks_loader *loader)
{
    const lks_model_info info = lks_model_get_info(l->opts.model);
    return info.cuts > 0 ? lks_loader_share(loader, info.shares, info.first_share, info.last_share)
                         : LKS_OK;
}

static lks_status make_room(counts *c, int64_t samples)
{
    if (samples < c->room) return LKS_OK;
    free(c->output);
    c->room = samples + 1; /* a process may have none */
    c->output = malloc((size_t)(c->room * c->width) * sizeof *c->output);
    return c->output != NULL
               ? LKS_OK
               : lks_fail(LKS_E_NOMEM, "training: no memory for %lld outputs of %lld samples",
                          (long long)c->width, (long long)samples);
}

static void count_batch(counts *c, const lks_batch *batch)
{
    const int32_t *label = batch->y;
    for (int64_t i = 0; i < batch->count; i++)
        lks_class_counts_add(&c->of, label[i],
                             lks_class_given(c->output + i * c->of.classes, c->of.classes));
}

/* Somebody may want to know all outputs behind the last step, where there are no classes to count; not before, as sums over
 * many targets may take longer than a small network's outputs. */
static int64_t told_width(const loop *l, const lks_loader *loader)
{
    const lks_dataset_info info = lks_dataset_get_info(lks_loader_dataset(loader));
    const bool told = loader == l->opts.test && l->opts.events.on_test && info.classes == 0 &&
                      l->run->progress.step >= l->last_step;
    return told ? lks_shape_elements(&info.target_shape) : 0;
}

static lks_status evaluate_batch(loop *l, const lks_batch *batch, lks_metrics *sum, counts *c)
{
    const lks_train_events *events = &l->opts.events;
    if (c->width == 0) return lks_model_evaluate(l->opts.model, batch, sum);
    TRY(make_room(c, batch->count));
    TRY(lks_model_evaluate_outputs(l->opts.model, batch, sum, c->output));
    if (c->of.classes > 0)
        count_batch(c, batch);
    else
        events->on_test(events->user, batch, c->output);
    return LKS_OK;
}

/* What other processes have a part of is a part; alone it would be left out. */
static lks_status check_whole(const loop *l, const lks_loader *loader, const lks_batch *batch)
{
    const int64_t whole = batch->whole != 0 ? batch->whole : batch->count;
    if (batch->count == whole || lks_comm_size(lks_model_comm(l->opts.model)) > 1) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "training: the loader of '%s', which is to be evaluated, reads %lld of %lld "
                    "samples of a batch, and one process evaluates all of them; give it no shares",
                    lks_dataset_name(lks_loader_dataset(loader)), (long long)batch->count,
                    (long long)whole);
}

/* This process's part of a data set, once. */
static lks_status evaluate_part(loop *l, lks_loader *loader, lks_metrics *sum, counts *c)
{
    const lks_model_info info = lks_model_get_info(l->opts.model);
    const int64_t classes = info.positions == 0 ? info.classes : 0;
    const bool matrix = loader == l->opts.test && classes > 0 && classes <= LKS_CONFUSION_CLASSES;
    TRY(lks_class_counts_make(&c->of, classes, matrix));
    c->width = classes > 0 ? classes : told_width(l, loader);
    TRY(lki_loop_follow_shares(l, loader));
    TRY(lks_loader_seek(loader, 0));
    for (int64_t i = lks_loader_batches(loader); i > 0; i--) {
        lks_batch batch;
        TRY(lks_loader_next(loader, &batch));
        TRY(check_whole(l, loader, &batch));
        TRY(evaluate_batch(l, &batch, sum, c));
    }
    return LKS_OK;
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
    if (status == LKS_OK) status = lks_class_counts_sum(&c.of, lks_model_comm(l->opts.model));
    if (status == LKS_OK) {
        *rates = lks_rates_of(c.of.classes, c.of.right, c.of.given, c.of.there);
        if (c.of.confusion != NULL) {
            free(l->confusion);
            l->confusion = c.of.confusion;
            l->confusion_step = l->run->progress.step;
            c.of.confusion = NULL;
        }
    }
    free(c.output);
    lks_class_counts_free(&c.of);
    return status;
}

void lki_loop_keep_confusion(loop *l)
{
    free(l->best_confusion);
    l->best_confusion = l->confusion;
    l->best_confusion_step = l->confusion_step;
    l->confusion = NULL;
}

lks_status lki_loop_give_confusion(loop *l)
{
    const int64_t step = lks_model_progress(l->opts.model).step;
    lks_class_counts c = {.classes = lks_model_get_info(l->opts.model).classes};
    int64_t **from = l->confusion != NULL && l->confusion_step == step ? &l->confusion
                                                                       : &l->best_confusion;
    if (*from == NULL || (from == &l->best_confusion && l->best_confusion_step != step))
        return LKS_OK;
    c.confusion = *from;
    TRY(lks_class_counts_sum_matrix(&c, lks_model_comm(l->opts.model)));
    l->run->confusion = *from;
    l->run->confusion_classes = c.classes;
    *from = NULL;
    return LKS_OK;
}
