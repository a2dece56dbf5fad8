/* The public calls that train a model: step, gradient. */
#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "model/model.h"
#include "model/step/batch.h"
#include "numeric/real.h"
#include "numeric/tree.h"

lks_status lki_model_prepare(lks_model *model)
{
    if (model->prepared) return LKS_OK;
    LKI_TRY(lki_model_run(model, LKI_PREPARE));
    model->prepared = true;
    return LKS_OK;
}

void lki_gather_metrics(const lks_model *model, lks_metrics *sum)
{
    for (int w = 0; w < model->workers; w++) lks_metrics_add(sum, &model->worker[w].metrics);
}

/* Of all ranks. */
static void sum_words(const lks_model *model, lks_metrics *sum)
{
    for (int r = 0; r < model->across->ranks; r++)
        lks_metrics_add(sum, &model->across->word[r].metrics);
}

static int64_t first_bad_position(const lks_model *model)
{
    const lki_across *across = model->across;
    for (int r = 0; across != NULL && r < across->ranks; r++)
        if (across->word[r].bad_count > 0) return across->word[r].bad_position;
    if (across != NULL) return -1;
    for (int w = 0; w < model->workers; w++)
        if (model->worker[w].bad_count > 0) return model->worker[w].bad_position[0];
    return -1;
}

lks_step_info lks_model_last_step(const lks_model *model)
{
    return model != NULL ? model->last : (lks_step_info){.gradient_norm = (double)NAN};
}

/* Why there was no update though every loss is finite. */
static lks_status bad_gradient(const lks_model *model)
{
    return LKI_FAIL(
        LKS_E_NUMERIC,
        "step %lld: the norm of the gradient is %g, though every loss is finite; nothing "
        "was updated; lower the learning rate, or look for values near the end of the "
        "range of f32",
        (long long)model->progress.step + 1, model->last.gradient_norm);
}

/* `count` elements of `bytes` from number `first` on, where kernels read them. */
static const void *place_part(const lks_model *model, const void *from, char *room, size_t bytes,
                              int64_t first, int64_t count)
{
    return lki_to_device(model->program.backend->memory, (const char *)from + (size_t)first * bytes,
                         room, (size_t)count * bytes);
}

void lki_place_samples(const lks_model *model, lki_pass *pass, const lks_batch *batch,
                       int64_t first, int64_t count)
{
    const lks_graph *graph = model->program.graph;
    pass->x = place_part(model, batch->x, model->batch_x, lki_tensor_bytes(graph->input), first,
                         count);
    if (batch->y != NULL)
        pass->y = place_part(model, batch->y, model->batch_y, lki_tensor_bytes(graph->target),
                             first, count);
    if (batch->mix != NULL)
        pass->mix = place_part(model, batch->mix, model->batch_mix, sizeof(lks_mix), first, count);
}

static double scale_of(const lks_model *model)
{
    return model->progress.loss_scale > 0 ? model->progress.loss_scale : 1;
}

/* What makes the mean of sums. The scale is a power of two: it only shifts the exponent. */
static float mean_of(const lks_model *model, int64_t counted)
{
    return (float)(1.0 / ((double)counted * scale_of(model)));
}

/* Replicas of others are absent where a rank steps alone. */
static void cut_shares(lks_model *model, int64_t whole)
{
    const int64_t begin = model->pass.begin, end = begin + lki_own_samples(model, &model->pass);
    for (int64_t r = 0; r <= model->program.replicas; r++) {
        int64_t start = lki_share(r, model->program.replicas, whole);
        if (lki_averages(model)) start = start < begin ? begin : start > end ? end : start;
        model->share_start[r] = start;
    }
}

lks_status lki_begin_pass(lks_model *model, const lks_batch *batch)
{
    const int64_t whole = lki_whole_of(batch);
    lki_model_choose(model, false);
    LKI_TRY(lki_model_prepare(model));
    model->last = (lks_step_info){.gradient_norm = (double)NAN};
    model->pass = lki_own_pass(model, whole);
    lki_place_samples(model, &model->pass, batch, batch->count == whole ? model->pass.begin : 0,
                      lki_own_samples(model, &model->pass));
    model->pass.step = (uint64_t)model->progress.step;
    model->pass.training = model->pass.backward = true;
    model->pass.all = model->program.all;
    lki_carried_begin(model, &model->pass, batch);
    if (model->common != NULL) lki_common_place_x(model);
    lki_program_seed(&model->program, (float)scale_of(model));
    model->scale = mean_of(model, model->counted);
    cut_shares(model, whole);
    if (lki_sums_across(model)) lki_ranks_begin(&model->across->sums, model->share_start);
    return LKS_OK;
}

/* Behind the gradient of a step whose losses are finite. Whether it was too large for the scale, which is then halved, and
 * nothing was updated. */
static bool loss_scale_fell(lks_model *model, bool finite)
{
    lks_progress *p = &model->progress;
    const bool falls = !finite && p->loss_scale > 1;
    const bool rises = finite && p->scale_good + 1 >= model->opts.loss_scale_steps &&
                       p->loss_scale < ldexp(1, LKI_MOST_LOSS_SCALE);
    if (model->opts.loss_scale_steps == 0) return false;
    p->loss_scale *= falls ? 0.5 : rises ? 2 : 1;
    p->scale_downs += falls;
    p->scale_ups += rises;
    p->scale_good = falls || rises ? 0 : p->scale_good + 1;
    return falls;
}

/* Forward and backward of a batch, then what `mode` says. With several ranks also one that could not
 * begin, which is what `status` says, comes here: all have to hear of it. */
static lks_status pass_batch(lks_model *model, const lks_batch *batch, lki_mode mode,
                             lks_metrics *metrics, lks_status status)
{
    if (mode != LKI_TRAIN) model->lr = 0;
    if (model->common != NULL) {
        const lks_error error = *lks_last_error();
        lki_model_choose(model, false);
        LKI_TRY(lki_common_begin(model));
        if (status != LKS_OK) lki_error_restore(&error);
    }
    if (model->across != NULL) {
        const lks_status ready = lki_across_begin(model, batch);
        if (status == LKS_OK) status = ready;
    }
    if (status == LKS_OK) status = lki_begin_pass(model, batch);
    if (model->across != NULL)
        status = lki_across_outcome(model, status == LKS_OK ? lki_model_run(model, mode)
                                                            : lki_across_stay(model, status));
    else if (status == LKS_OK)
        status = lki_model_run(model, mode);
    LKI_TRY(status);
    if (lki_sums_across(model) && model->across->well)
        (void)!lki_ranks_release(&model->across->sums); /* the step is done: the next one says it */
    if (metrics != NULL) {
        *metrics = (lks_metrics){0};
        (model->across != NULL ? sum_words : lki_gather_metrics)(model, metrics);
    }
    const int64_t bad = first_bad_position(model);
    const bool measured = mode == LKI_TRAIN && model->measures;
    const bool finite = !(measured && !isfinite(model->last.gradient_norm));
    const bool fell = bad < 0 && mode == LKI_TRAIN && loss_scale_fell(model, finite);
    if (bad < 0 && finite) return LKS_OK;
    model->last.skipped = fell || (mode == LKI_TRAIN && model->opts.skip_not_finite);
    if (model->last.skipped) return LKS_OK;
    if (bad < 0) return bad_gradient(model);
    return model->across != NULL ? lki_across_diagnose(model, batch)
                                 : lki_diagnose(model, batch, bad, NULL);
}

/* What a step's updates have in common, and what is their rule's. */
static void begin_updates(lks_model *model, double lr, int64_t counted)
{
    const lks_optim *optim = &model->opts.optim;
    const int64_t step = model->progress.step - model->progress.skipped + 1;
    const double correction1 = lki_power_rest(optim->beta1, step);
    const double correction2 = lki_power_rest(optim->beta2, step);
    for (int r = 0; r < model->rules; r++) {
        lki_update *update = &model->rule[r].update;
        update->lr = lr * model->rule[r].lr_factor;
        update->scale = mean_of(model, counted);
        update->step = step;
        update->correction1 = correction1;
        update->correction2 = correction2;
    }
}

static lks_status begin_step(lks_model *model, double lr, int64_t counted)
{
    if (!isfinite(lr) || lr < 0)
        return LKI_FAIL(LKS_E_INVALID, "the learning rate is %g, expected a number of at least 0",
                        lr);
    if (model->progress.step == 0)
        LKI_TRY(lki_state_hash(model, &model->progress.link)); /* the chain's first link */
    begin_updates(model, lr, counted);
    model->lr = lr;
    model->link_after = (model->progress.step + 1) % model->opts.hash_every == 0;
    lki_average_begin(model, counted);
    return LKS_OK;
}

/* Anybody may have set it. */
static lks_status check_progress(const lks_progress *p)
{
    if (p->skipped >= 0 && p->step >= p->skipped && p->step < INT64_MAX) return LKS_OK;
    return LKI_FAIL(
        LKS_E_INVALID,
        "the model's progress is %lld steps, %lld of them skipped; expected 0 or more, and "
        "no more skipped than there are (lks_model_set_progress())",
        (long long)p->step, (long long)p->skipped);
}

static lks_status begin_train(lks_model *model, const lks_batch *batch, double lr)
{
    LKI_TRY(check_progress(&model->progress));
    LKI_TRY(lki_check_train_batch(model, batch));
    return begin_step(model, lr, model->counted);
}

/* Parameters are new, or were left as they are on purpose. */
static lks_status end_step(lks_model *model)
{
    if ((model->last.skipped || model->alone.ends) && model->link_after)
        LKI_TRY(lki_model_run(model, LKI_HASH));
    lki_carried_end(model);
    model->progress.step++;
    if (model->last.skipped) model->progress.skipped++;
    if (model->link_after) {
        model->progress.link = lki_state_hash_finish(model);
        if (model->across != NULL) LKI_TRY(lki_across_compare(model));
    }
    return LKS_OK;
}

lks_status lki_take_formed(lks_model *model, double lr, int64_t counted)
{
    LKI_TRY(begin_step(model, lr, counted));
    model->scale = (float)(1.0 / (double)counted);
    model->last = (lks_step_info){.gradient_norm = (double)NAN};
    LKI_TRY(lki_model_run(model, LKI_TRAIN));
    if (model->measures && !isfinite(model->last.gradient_norm)) {
        model->last.skipped = model->opts.skip_not_finite;
        if (!model->last.skipped) return bad_gradient(model);
    }
    return end_step(model);
}

static lks_status take_step(lks_model *model, const lks_batch *batch, double lr,
                            lks_metrics *metrics)
{
    const int64_t begin = lki_balance_begin(model->balance);
    model->raised = model->across == NULL ? (lks_status)atomic_exchange(&model->raise, 0) : LKS_OK;
    LKI_TRY(pass_batch(model, batch, LKI_TRAIN, metrics, begin_train(model, batch, lr)));
    lki_average_note(model);
    if (model->alone.ends) LKI_TRY(lki_average(model));
    LKI_TRY(end_step(model));
    return lki_balance_step(model, begin);
}

void lks_model_raise(lks_model *model, lks_status status)
{
    if (model != NULL) atomic_store(&model->raise, (int)status);
}

lks_status lks_model_raised(const lks_model *model)
{
    return model != NULL ? model->raised : LKS_OK;
}

lks_status lks_model_step(lks_model *model, const lks_batch *batch, double lr, lks_metrics *metrics)
{
    if (batch == NULL) return LKI_FAIL_NULL(batch);
    LKI_TRY(lki_model_enter(model, __func__));
    lki_profile_begin(model);
    const lks_status status = take_step(model, batch, lr, metrics);
    lki_profile_end(model, status == LKS_OK);
    return lki_model_leave(model, status);
}

lks_status lks_model_fail(lks_model *model, lks_status status)
{
    if (status == LKS_OK)
        status = LKI_FAIL(LKS_E_INVALID,
                          "lks_model_fail() got LKS_OK, expected why there is no batch");
    const lks_error error = *lks_last_error();
    LKI_TRY(lki_model_enter(model, __func__));
    lki_error_restore(&error);
    return lki_model_leave(model, pass_batch(model, NULL, LKI_TRAIN, NULL, status));
}

static lks_status form_gradient(lks_model *model, const lks_batch *batch, lks_metrics *metrics)
{
    if (lki_averages(model))
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "lks_model_gradient() forms the gradient of a whole batch, and with "
                        "average_every ranks form that of their own samples alone; compile the "
                        "model without");
    lks_status status = lki_check_train_batch(model, batch);
    if (status == LKS_OK) status = lki_gradients_make(model); /* memory only where somebody asks */
    return pass_batch(model, batch, LKI_GRADIENT, metrics, status);
}

lks_status lks_model_gradient(lks_model *model, const lks_batch *batch, lks_metrics *metrics)
{
    if (batch == NULL) return LKI_FAIL_NULL(batch);
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, form_gradient(model, batch, metrics));
}
