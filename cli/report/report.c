#include "cli/report/report.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/arch/arch.h"
#include "cli/report/sc20.h"
#include "recipe/run/record.h"

static const double DRAW_SECONDS = 0.1, SMOOTH_SECONDS = 2.0;

/* Of the table that CSV is; an event fills in what it has. */
static const char *const titles[] = {
    "event",
    "epoch",
    "step",
    "loss",
    "lr",
    "gradient_norm",
    "skipped",
    "samples_per_second",
    "train_loss",
    "train_correct",
    "train_samples",
    "valid_loss",
    "valid_correct",
    "valid_samples",
    "test_loss",
    "test_correct",
    "test_samples",
    "seconds",
    "finished",
    "hash",
    "train_top5",
    "valid_top5",
    "test_top5",
    "valid_macro_precision",
    "valid_macro_recall",
    "valid_macro_f1",
    "valid_micro_f1",
    "test_macro_precision",
    "test_macro_recall",
    "test_macro_f1",
    "test_micro_f1",
    "perplexity",
    "tokens_per_second",
    "train_perplexity",
    "valid_perplexity",
    "test_perplexity",
    "train_counted",
    "valid_counted",
    "test_counted",
};
enum { COLUMNS = sizeof titles / sizeof *titles };

/* A file that has lines already has titles: a job that was queued again appends to its log. */
static bool goes_on(void)
{
    struct stat info;
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_APPEND) != 0 && fstat(STDOUT_FILENO, &info) == 0 &&
           S_ISREG(info.st_mode) && info.st_size > 0;
}

static void print_titles(void)
{
    for (int i = 0; i < COLUMNS; i++) printf("%s%s", i > 0 ? "," : "", titles[i]);
    putchar('\n');
}

/* What has no value, or none that is a number, is empty. */
static void report_print_row(const json_t *event)
{
    for (int i = 0; i < COLUMNS; i++) {
        const json_t *value = json_object_get(event, titles[i]);
        if (i > 0) putchar(',');
        if (json_is_string(value))
            fputs(json_string_value(value), stdout);
        else if (value != NULL && !json_is_null(value))
            text_print_json(stdout, value, 0);
    }
    putchar('\n');
}

static report_format format_of(const lks_recipe *recipe)
{
    const char *name = lks_recipe_text(recipe, "log.format");
    return strcmp(name, "json") == 0         ? REPORT_JSON
           : strcmp(name, "csv") == 0        ? REPORT_CSV
           : strcmp(name, "lightning") == 0  ? REPORT_LIGHTNING
           : strcmp(name, "ddp") == 0        ? REPORT_DDP
           : strcmp(name, "sc20") == 0       ? REPORT_SC20
           : strcmp(name, "iterations") == 0 ? REPORT_ITERATIONS
                                             : REPORT_TEXT;
}

bool report_is_text(report_format format)
{
    return format == REPORT_TEXT || format == REPORT_LIGHTNING || format == REPORT_DDP ||
           format == REPORT_SC20;
}

/* Lines for people. */
static bool is_text(const cli_report *r)
{
    return report_is_text(r->format) || r->format == REPORT_ITERATIONS;
}

void report_event(const cli_report *r, json_t *event)
{
    if (!is_text(r)) say_status(NULL);
    if (r->format == REPORT_JSON) {
        text_say_json(event, 0);
    } else if (r->format == REPORT_CSV) {
        report_print_row(event);
    }
    json_decref(event);
}

report_targets report_targets_of(const lks_dataset_info *info)
{
    return info->classes == 0            ? REPORT_NUMBERS
           : info->target_shape.ndim > 0 ? REPORT_TOKENS
                                         : REPORT_CLASSES;
}

/* What a rate is of. */
static const char *unit_of(const cli_report *r)
{
    return r->targets == REPORT_TOKENS ? "tokens" : "samples";
}

static int64_t rated(const cli_report *r, const lks_metrics *metrics)
{
    return r->targets == REPORT_TOKENS ? metrics->counted : metrics->samples;
}

void report_begin(cli_report *out, const lks_recipe *recipe, const lks_recipe_parts *parts)
{
    const bool asked = lks_recipe_given(recipe, "log.interval");
    *out = (cli_report){.quiet = lks_recipe_bool(recipe, "log.quiet"),
                        .format = format_of(recipe),
                        .targets = report_targets_of(&parts->data),
                        .interval = lks_recipe_int(recipe, "log.interval"),
                        .batch_size = lks_recipe_int(recipe, "train.batch_size"),
                        .samples = parts->data.samples,
                        .recipe = recipe,
                        .epochs = parts->epochs,
                        .last_step = parts->steps,
                        .step_clock = process_clock(),
                        .loss = (double)NAN};
    const bool out_is_terminal = isatty(STDOUT_FILENO);
    out->line_clock = out->draw_clock = out->part_clock = out->step_clock;
    out->bar = !out->quiet && say_width() > 0 && (report_is_text(out->format) || !out_is_terminal);
    out->lines = !out->quiet && report_is_text(out->format) &&
                 (asked || out->format == REPORT_SC20 || !(out->bar && out_is_terminal));
    setvbuf(stdout, NULL, _IOLBF, 0); /* whoever follows the file sees whole lines */
    if (out->format == REPORT_CSV && !goes_on()) print_titles();
}

static void report_draw(const cli_report *r, const lks_step_event *event)
{
    char head[64], loss[32], eta[32] = "", rate[64], count[TEXT_NUMBER_SIZE];
    const int64_t left = r->last_step - event->step;
    const double seconds = (double)left * (double)r->batch_size / r->sample_rate;
    const double share = (double)(event->batch + 1) / (double)event->batches;
    snprintf(head, sizeof head, "epoch %lld/%lld", (long long)event->epoch, (long long)r->epochs);
    snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    if (seconds < 1e7)
        snprintf(eta, sizeof eta, "ETA %lld:%02lld", (long long)seconds / 60,
                 (long long)seconds % 60);
    snprintf(rate, sizeof rate, "%s %s/s", lks_text_count(count, (int64_t)r->rate), unit_of(r));
    say_bar(head, share, (const char *const[]){loss, eta, rate}, 3);
}

static void begin_part(cli_report *r, double now)
{
    r->part_clock = now;
    r->part_samples = r->part_rated = 0;
    r->part_loss = 0;
}

static void update_bar(cli_report *r, const lks_step_event *event, double now)
{
    r->part_samples += event->metrics->samples;
    r->part_rated += rated(r, event->metrics);
    r->part_loss += lks_metrics_loss(event->metrics) * (double)event->metrics->samples;
    if (now - r->draw_clock < DRAW_SECONDS) return;
    const double past = now - r->part_clock;
    const double samples = (double)r->part_samples / past, rate = (double)r->part_rated / past;
    const double loss = r->part_loss / (double)r->part_samples;
    const double keep = isnan(r->loss) ? 0 : exp(-past / SMOOTH_SECONDS);
    r->rate = keep > 0 ? keep * r->rate + (1 - keep) * rate : rate;
    r->sample_rate = keep > 0 ? keep * r->sample_rate + (1 - keep) * samples : samples;
    r->loss = keep > 0 ? keep * r->loss + (1 - keep) * loss : loss;
    r->draw_clock = now;
    begin_part(r, now);
    report_draw(r, event);
}

/* What processes do, where that has been gathered behind this step; NULL: it has not. */
static json_t *paces_json(const cli_report *r, int64_t step)
{
    lki_emit emit = {0};
    lks_status status = LKS_OK;
    int64_t gathered;
    if (lks_recipe_paces(r->recipe, NULL, &gathered) == NULL || gathered != step) return NULL;
    lki_emit_open(&emit, '{', false);
    lki_paces_emit(&emit, r->recipe);
    lki_emit_close(&emit, '}');
    char *text = lki_emit_take(&emit, "an event", &status);
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
    json_t *ranks = json_incref(json_object_get(json, "ranks"));
    json_decref(json);
    free(text);
    return ranks;
}

/* The norm and the skipped step only where there is one. */
static json_t *step_json(const cli_report *r, const lks_step_event *event, double loss,
                         double seconds)
{
    json_t *json = json_pack("{s:s, s:I, s:I, s:o, s:f, s:o}", "event", "step", "step",
                             (json_int_t)event->step, "epoch", (json_int_t)event->epoch, "loss",
                             text_json_real(loss), "lr", event->learning_rate, "samples_per_second",
                             text_json_real((double)event->metrics->samples / seconds));
    if (!isnan(event->info.gradient_norm))
        json_object_set_new(json, "gradient_norm", text_json_real(event->info.gradient_norm));
    if (event->info.skipped) json_object_set_new(json, "skipped", json_true());
    json_t *ranks = paces_json(r, event->step);
    if (ranks != NULL) json_object_set_new(json, "ranks", ranks);
    if (r->targets != REPORT_TOKENS) return json;
    json_object_set_new(json, "perplexity", text_json_real(lks_metrics_perplexity(event->metrics)));
    json_object_set_new(json, "tokens_per_second",
                        text_json_real((double)event->metrics->counted / seconds));
    return json;
}

/* "Train Epoch: 1 [1280/50000 (3%)]	Loss: 4.605170	1,234 samples/s": those since the line before; of tokens with
 * "Perplexity: 100.00" in between. */
static void say_line(cli_report *r, const lks_step_event *event, double loss, double now)
{
    char count[TEXT_NUMBER_SIZE], more[64] = "";
    const double rate = (double)r->line_samples / (now - r->line_clock);
    r->line_clock = now;
    r->line_samples = 0;
    if (r->format == REPORT_SC20) {
        sc20_step(event, rate, r->targets == REPORT_TOKENS ? "tokens" : "img");
        return;
    }
    if (r->targets == REPORT_TOKENS)
        snprintf(more, sizeof more, "Perplexity: %.2f\t", lks_metrics_perplexity(event->metrics));
    say("Train Epoch: %lld [%lld/%lld (%.0f%%)]\tLoss: %.6f\t%s%s %s/s", (long long)event->epoch,
        (long long)(event->batch * r->batch_size), (long long)r->samples,
        100.0 * (double)event->batch / (double)event->batches, loss, more,
        lks_text_count(count, (int64_t)rate), unit_of(r));
}

void report_step(cli_report *r, const lks_step_event *event)
{
    const double now = process_clock(), loss = lks_metrics_loss(event->metrics);
    const double seconds = now - r->step_clock;
    r->step_clock = now;
    if (r->quiet) return;
    if (!is_text(r)) report_event(r, step_json(r, event, loss, seconds));
    if (r->format == REPORT_ITERATIONS && (event->step - 1) % r->interval == 0) {
        say("Iteration %lld, Loss: %f", (long long)event->step - 1, loss);
        cost_add(&r->costs, loss);
    }
    if (event->info.skipped)
        say_error("step %lld: the loss or the gradient is not finite; the step was skipped",
                  (long long)event->step);
    r->line_samples += rated(r, event->metrics);
    if (r->lines && event->batch % r->interval == 0) say_line(r, event, loss, now);
    if (r->bar) update_bar(r, event, now);
}

static void say_not_finite(const char *what, const lks_metrics *metrics)
{
    if (metrics->not_finite > 0)
        say_error("%s set: the loss of %lld sample%s is not a finite number; %s left out", what,
                  (long long)metrics->not_finite, TEXT_S(metrics->not_finite),
                  metrics->not_finite == 1 ? "it is" : "they are");
}

static double percent(const lks_metrics *metrics)
{
    return 100.0 * (double)metrics->correct / (double)metrics->counted;
}

void report_test(const char *what, const lks_metrics *metrics, report_targets targets, bool last)
{
    const char *end = last ? "\n" : "";
    char more[64] = "";
    const double loss = lks_metrics_loss(metrics);
    say_not_finite(what, metrics);
    if (targets == REPORT_TOKENS)
        snprintf(more, sizeof more, " Perplexity: %.2f,", lks_metrics_perplexity(metrics));
    if (targets == REPORT_NUMBERS)
        say("\n%s set: Average loss: %.4f%s", what, loss, end);
    else
        say("\n%s set: Average loss: %.4f,%s Accuracy: %lld/%lld (%.0f%%)%s", what, loss, more,
            (long long)metrics->correct, (long long)metrics->counted, percent(metrics), end);
}

/* Adds a field where there is room for it; else false. */
static bool add_field(char *line, size_t width, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool add_field(char *line, size_t width, const char *format, ...)
{
    const size_t used = strlen(line);
    char field[64];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(field, sizeof field, format, args);
    va_end(args);
    const bool fits = length > 0 && used + 2 + (size_t)length < width;
    if (fits) snprintf(line + used, width - used, "  %s", field);
    return fits;
}

static bool add_set(char *line, size_t width, const char *what, const lks_metrics *metrics,
                    report_targets targets, int narrow)
{
    if (metrics->samples == 0) return true;
    const double loss = lks_metrics_loss(metrics);
    if (targets == REPORT_NUMBERS) return add_field(line, width, "%s %.*f", what, 4 - narrow, loss);
    if (targets == REPORT_TOKENS)
        return add_field(line, width, "%s %.*f ppl %.*f", what, 4 - narrow, loss, 2 - narrow,
                         lks_metrics_perplexity(metrics));
    return add_field(line, width, "%s %.*f %.*f%%", what, 4 - narrow, loss, 2 - narrow,
                     percent(metrics));
}

/* "4,321 samples/s", "4,321/s", "4k/s" */
static bool add_rate(char *line, size_t width, const cli_report *r, double rate, int narrow)
{
    char count[TEXT_NUMBER_SIZE];
    if (narrow > 1 && rate >= 1000) return add_field(line, width, "%.0fk/s", rate / 1000);
    lks_text_count(count, (int64_t)rate);
    return narrow > 0 ? add_field(line, width, "%s/s", count)
                      : add_field(line, width, "%s %s/s", count, unit_of(r));
}

/* What there is room for, in one of these forms; whether that is all. */
enum { EPOCH_FORMS = 5 };
static bool epoch_line(char *line, size_t width, const cli_report *r, const lks_epoch *epoch,
                       int form)
{
    const int narrow = form == EPOCH_FORMS - 1; /* digits that are left out */
    snprintf(line, width, "epoch %lld/%lld", (long long)epoch->epoch, (long long)r->epochs);
    bool all = form == 0 ? add_set(line, width, "train", &epoch->train, r->targets, 0)
                         : add_field(line, width, "loss %.*f", 4 - narrow,
                                     lks_metrics_loss(&epoch->train));
    all &= add_set(line, width, "valid", &epoch->valid, r->targets, narrow);
    all &= add_set(line, width, "test", &epoch->test, r->targets, narrow);
    all &= add_field(line, width, "%.1f s", epoch->seconds);
    const int short_rate = form > 0 ? form - 1 : 0;
    const double rate = (double)rated(r, &epoch->train) / epoch->seconds;
    return add_rate(line, width, r, rate, short_rate) && all;
}

/* What stays of an epoch above the bar, and ends it among lines: "epoch 3/14  train 0.0481 98.50%  test 0.0287
 * 99.05%  4.6 s  13,104 samples/s"; in the first form that the terminal is wide enough for, else without the rest. */
static void say_epoch(const cli_report *r, const lks_epoch *epoch)
{
    enum { LONGEST = 160 };
    char line[LONGEST];
    const int columns = say_columns();
    const size_t width = columns > 0 && columns < LONGEST ? (size_t)columns + 1 : LONGEST;
    for (int form = 0; form < EPOCH_FORMS; form++)
        if (epoch_line(line, width, r, epoch, form)) {
            say("%s", line);
            return;
        }
    (void)epoch_line(line, width, r, epoch, 1);
    say("%s", line);
}

static json_t *epoch_json(const cli_report *r, const lks_epoch *epoch)
{
    lki_emit emit = {0};
    lks_status status = LKS_OK;
    lki_emit_open(&emit, '{', false);
    lki_emit_key(&emit, "event");
    lki_emit_string(&emit, "epoch");
    lki_emit_epoch(&emit, epoch);
    lki_paces_emit(&emit, r->recipe);
    lki_emit_close(&emit, '}');
    char *text = lki_emit_take(&emit, "an event", &status);
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return json;
}

void report_epoch(cli_report *r, const lks_epoch *epoch)
{
    r->step_clock = process_clock(); /* evaluation is no time of the next steps */
    r->line_clock = r->step_clock;
    r->line_samples = 0;
    begin_part(r, r->step_clock);
    if (r->quiet) return;
    if (!is_text(r)) {
        report_event(r, epoch_json(r, epoch));
        return;
    }
    if (r->format == REPORT_DDP && epoch->test.samples > 0) {
        say_not_finite("Test", &epoch->test);
        arch_print_results(&epoch->test, &epoch->test_rates);
        say_epoch(r, epoch);
        return;
    }
    if (r->format == REPORT_SC20 || (r->bar && !r->lines)) {
        say_not_finite("Validation", &epoch->valid);
        say_not_finite("Test", &epoch->test);
        if (r->format == REPORT_SC20)
            sc20_epoch(epoch, r->targets != REPORT_NUMBERS);
        else
            say_epoch(r, epoch);
        return;
    }
    if (epoch->valid.samples > 0)
        report_test("Validation", &epoch->valid, r->targets, epoch->test.samples == 0);
    if (epoch->test.samples > 0) report_test("Test", &epoch->test, r->targets, true);
    say_epoch(r, epoch);
}

void report_end(const cli_report *r, const lks_run *run)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016" PRIx64, run->hash);
    if (is_text(r))
        say("hash %s step %" PRId64, hash, run->progress.step);
    else
        report_event(r, json_pack("{s:s, s:I, s:b, s:s}", "event", "end", "step",
                                  (json_int_t)run->progress.step, "finished", run->finished, "hash",
                                  hash));
}
