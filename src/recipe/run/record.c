/* What a run leaves for people and programs: its record. */
#include "recipe/run/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "recipe/recipe.h"

#include "base/check.h"
#include "base/text.h"

static void emit_count(lki_emit *e, const char *set, const char *what, int64_t count)
{
    char key[32];
    snprintf(key, sizeof key, "%s_%s", set, what);
    lki_emit_key(e, key);
    lki_emit_int(e, count);
}

static void emit_rates(lki_emit *e, const char *set, const lks_metrics *metrics,
                       const lks_rates *rates)
{
    const struct {
        const char *key;
        double value;
    } all[] = {{"macro_precision", rates->precision},
               {"macro_recall", rates->recall},
               {"macro_f1", rates->f1},
               {"micro_f1", (double)metrics->correct / (double)metrics->counted}};
    if (metrics->samples == 0 || isnan(rates->f1)) return;
    for (int i = 0; i < 4; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_%s", set, all[i].key);
        lki_emit_key(e, key);
        lki_emit_real(e, all[i].value);
    }
}

static bool by_position(const lks_metrics *metrics)
{
    return metrics->counted != metrics->samples;
}

static void emit_metrics(lki_emit *e, const char *set, const lks_metrics *metrics)
{
    char loss[32];
    if (metrics->samples == 0) return;
    snprintf(loss, sizeof loss, "%s_loss", set);
    lki_emit_key(e, loss);
    lki_emit_real(e, lks_metrics_loss(metrics));
    emit_count(e, set, "correct", metrics->correct);
    emit_count(e, set, "top5", metrics->top5);
    emit_count(e, set, "samples", metrics->samples);
    if (!by_position(metrics)) return;
    emit_count(e, set, "counted", metrics->counted);
    snprintf(loss, sizeof loss, "%s_perplexity", set);
    lki_emit_key(e, loss);
    lki_emit_real(e, lks_metrics_perplexity(metrics));
}

static void emit_speed(lki_emit *e, const lks_metrics *trained, double seconds)
{
    lki_emit_key(e, "samples_per_second");
    lki_emit_real(e, (double)trained->samples / seconds);
    if (!by_position(trained)) return;
    lki_emit_key(e, "tokens_per_second");
    lki_emit_real(e, (double)trained->counted / seconds);
}

void lki_emit_epoch(lki_emit *e, const lks_epoch *epoch)
{
    lki_emit_key(e, "epoch");
    lki_emit_int(e, epoch->epoch);
    emit_metrics(e, "train", &epoch->train);
    emit_metrics(e, "valid", &epoch->valid);
    emit_rates(e, "valid", &epoch->valid, &epoch->valid_rates);
    emit_metrics(e, "test", &epoch->test);
    emit_rates(e, "test", &epoch->test, &epoch->test_rates);
    lki_emit_key(e, "lr");
    lki_emit_real(e, epoch->learning_rate);
    lki_emit_key(e, "seconds");
    lki_emit_real(e, epoch->seconds);
    emit_speed(e, &epoch->train, epoch->seconds);
}

static void emit_text(lki_emit *e, const char *key, const char *text)
{
    lki_emit_key(e, key);
    lki_emit_string(e, text);
}

static void emit_int(lki_emit *e, const char *key, int64_t number)
{
    lki_emit_key(e, key);
    lki_emit_int(e, number);
}

static void emit_head(lki_emit *e, const lks_recipe *recipe)
{
    const lks_model_info info = lks_model_get_info(recipe->session.model);
    const lks_comm *comm = recipe->session.comm;
    emit_int(e, "numerics", lks_numerics());
    emit_text(e, "version", lks_version());
    emit_text(e, "build", lks_build_info());
    emit_text(e, "fingerprint", lks_context_fingerprint(recipe->session.context));
    emit_text(e, "device", lks_context_device(recipe->session.context));
    lki_emit_key(e, "config");
    lki_config_emit(e, recipe->config);
    emit_int(e, "workers", info.all_workers);
    emit_int(e, "processes", lks_comm_size(comm) > 1 ? lks_comm_size(comm) : 1);
    if (lks_comm_size(comm) > 1) emit_text(e, "processes_meet_by", lks_comm_library(comm));
    lki_emit_key(e, "bits_depend_on_processes");
    lki_emit_bool(e, info.own_bits);
    emit_int(e, "replicas", info.replicas);
    emit_int(e, "global_batch", info.global_batch);
    lki_emit_key(e, "learning_rate"); /* that the schedule begins from */
    lki_emit_real(e, recipe->opts.schedule.lr);
    emit_int(e, "parameters", info.parameters);
    emit_int(e, "classes",
             lks_dataset_get_info(recipe->session.train).classes); /* 0: the data has numbers */
}

/* Where there is one: what it has come to, and how. */
static void emit_loss_scale(lki_emit *e, const lks_progress *progress)
{
    if (!(progress->loss_scale > 0)) return;
    lki_emit_key(e, "loss_scale");
    lki_emit_real(e, progress->loss_scale);
    emit_int(e, "loss_scale_ups", progress->scale_ups);
    emit_int(e, "loss_scale_downs", progress->scale_downs);
}

static void emit_run(lki_emit *e, const lks_recipe *recipe)
{
    const lks_run *run = &recipe->run;
    emit_int(e, "steps", run->progress.step);
    emit_int(e, "skipped_steps", run->progress.skipped);
    emit_loss_scale(e, &run->progress);
    lki_emit_key(e, "epochs");
    lki_emit_open(e, '[', run->epochs == 0);
    for (int64_t i = 0; i < run->epochs; i++) {
        lki_emit_open(e, '{', false);
        lki_emit_epoch(e, &run->history[i]);
        lki_emit_close(e, '}');
    }
    lki_emit_close(e, ']');
    lki_emit_key(e, "finished");
    lki_emit_bool(e, run->finished);
    lki_emit_key(e, "best_loss");
    lki_emit_real(e, run->best_loss);
    lki_emit_key(e, "best_step");
    if (run->best_step >= 0)
        lki_emit_int(e, run->best_step);
    else
        lki_emit_null(e);
    emit_int(e, "weights_step", lks_model_progress(recipe->session.model).step);
}

/* Of the epoch that goes on, what the lines of steps have of their last one. */
static void emit_so_far(lki_emit *e, const lks_run *run, const lks_step_event *event)
{
    emit_int(e, "epoch_step", (event->epoch - 1) * event->batches);
    lki_emit_key(e, "last_step");
    lki_emit_open(e, '{', true);
    emit_int(e, "step", event->step);
    emit_int(e, "epoch", event->epoch);
    emit_int(e, "batches", event->batches);
    lki_emit_key(e, "seconds"); /* of the epoch */
    lki_emit_real(e, run->so_far_seconds);
    lki_emit_key(e, "loss");
    lki_emit_real(e, lks_metrics_loss(&run->so_far));
    emit_speed(e, &run->so_far, run->so_far_seconds);
    lki_emit_close(e, '}');
}

lki_ahead lki_ahead_of(const lks_fit *fit, const lks_unit *unit, int64_t count)
{
    lki_ahead out = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        const double rmse = fit[i].rmse / unit[i].deviation;
        out.mse += rmse * rmse / (double)count;
        out.mae += fit[i].mae / unit[i].deviation / (double)count;
    }
    return out;
}

/* Of a series, by time ahead. */
static void emit_horizons(lki_emit *e, const lks_recipe *recipe)
{
    const lki_scores *s = &recipe->scores;
    const int64_t times = lki_config_int(recipe->config, LKI_KEY_DATA_HORIZON);
    const int64_t each = s->targets / times;
    const lks_unit *unit = lks_dataset_units(recipe->session.test);
    lki_emit_key(e, "test_horizons");
    lki_emit_open(e, '[', false);
    for (int64_t i = 0; i < times; i++) {
        const lki_ahead found = lki_ahead_of(s->fit + i * each, unit + i * each, each);
        lki_emit_open(e, '{', true);
        emit_int(e, "ahead", i + 1);
        lki_emit_key(e, "mse");
        lki_emit_real(e, found.mse);
        lki_emit_key(e, "mae");
        lki_emit_real(e, found.mae);
        lki_emit_close(e, '}');
    }
    lki_emit_close(e, ']');
}

static void emit_targets(lki_emit *e, const lki_scores *s)
{
    lki_emit_key(e, "test_targets");
    lki_emit_open(e, '{', s->targets == 0);
    for (int64_t t = 0; t < s->targets; t++) {
        const lks_fit *fit = &s->fit[t];
        char number[LKI_NUMBER_SIZE];
        lki_text(number, sizeof number, "%lld", (long long)t);
        lki_emit_key(e, fit->name != NULL ? fit->name : number);
        lki_emit_open(e, '{', true);
        lki_emit_key(e, "r2");
        lki_emit_real(e, fit->r2);
        lki_emit_key(e, "mae");
        lki_emit_real(e, fit->mae);
        lki_emit_key(e, "rmse");
        lki_emit_real(e, fit->rmse);
        lki_emit_close(e, '}');
    }
    lki_emit_close(e, '}');
}

/* Of each target; and of classes the cells that are not 0, [class, class that it was given, samples]. */
static void emit_scores(lki_emit *e, const lks_recipe *recipe)
{
    const int64_t *confusion = recipe->run.confusion, classes = recipe->run.confusion_classes;
    const int64_t cells = confusion != NULL ? classes * classes : 0;
    if (recipe->scores.fit != NULL) emit_targets(e, &recipe->scores);
    if (recipe->scores.fit != NULL && lki_config_has(recipe->config, LKI_KEY_DATA_SERIES))
        emit_horizons(e, recipe);
    if (cells == 0) return;
    if (lks_dataset_class(recipe->session.test, 0) != NULL) {
        lki_emit_key(e, "class_names");
        lki_emit_open(e, '[', true);
        for (int64_t c = 0; c < classes; c++)
            lki_emit_string(e, lks_dataset_class(recipe->session.test, c));
        lki_emit_close(e, ']');
    }
    lki_emit_key(e, "test_confusion");
    lki_emit_open(e, '[', true);
    for (int64_t i = 0; i < cells; i++) {
        if (confusion[i] == 0) continue;
        lki_emit_open(e, '[', true);
        lki_emit_int(e, i / classes);
        lki_emit_int(e, i % classes);
        lki_emit_int(e, confusion[i]);
        lki_emit_close(e, ']');
    }
    lki_emit_close(e, ']');
}

static void emit_tail(lki_emit *e, const lks_recipe *recipe)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    lki_emit_key(e, "seconds_to_first_step");
    if (recipe->first_step > 0)
        lki_emit_real(e, recipe->first_step);
    else
        lki_emit_null(e);
    emit_text(e, "seconds_counted_from", recipe->counted_from);
    lki_emit_key(e, "seconds");
    lki_emit_real(e, lki_recipe_seconds(recipe));
    emit_int(e, "peak_rss_bytes", (int64_t)usage.ru_maxrss * 1024);
    lki_emit_key(e, "links");
    lki_emit_open(e, '[', recipe->link_count == 0);
    for (int64_t i = 0; i < recipe->link_count; i++) {
        lki_emit_open(e, '{', false);
        emit_int(e, "step", recipe->links[i].step);
        lki_emit_key(e, "link");
        lki_emit_hex(e, recipe->links[i].link);
        lki_emit_close(e, '}');
    }
    lki_emit_close(e, ']');
    if (recipe->config->value[LKI_KEY_TRAIN_BALANCE].set) lki_cuts_emit(e, recipe);
    lki_emit_key(e, "hash");
    lki_emit_hex(e, recipe->run.hash);
}

static lks_status print_record(char **out, const lks_recipe *recipe, const lks_step_event *within)
{
    lki_emit emit = {.indent = 2};
    lks_status status = LKS_OK;
    if (!recipe->started)
        return LKI_FAIL(LKS_E_STATE, "a recipe has no record before its run is started");
    lki_emit_open(&emit, '{', false);
    emit_head(&emit, recipe);
    emit_run(&emit, recipe);
    if (within != NULL) emit_so_far(&emit, &recipe->run, within);
    emit_scores(&emit, recipe);
    lki_paces_emit(&emit, recipe);
    emit_tail(&emit, recipe);
    lki_emit_close(&emit, '}');
    lki_emit_raw(&emit, "\n", 1);
    *out = lki_emit_take(&emit, "the record", &status);
    return status;
}

lks_status lks_recipe_record(const lks_recipe *recipe, char **out)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    return recipe != NULL ? print_record(out, recipe, NULL) : LKI_FAIL_NULL(recipe);
}

lks_status lki_record_write(const lks_recipe *recipe, const lks_step_event *within, bool at_end)
{
    char *text;
    LKI_TRY(print_record(&text, recipe, within));
    const size_t bytes = strlen(text);
    const lks_status status = at_end ? lks_file_write(recipe->record, text, bytes)
                                     : lks_file_update(recipe->record, text, bytes);
    free(text);
    return status;
}
