#include "cli/report/runs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <lockstep/tools.h>

#include "recipe/config.h"
#include "cli/verbs/record.h"

const char *const run_titles[RUN_COLUMNS] = {
    "run",         "data",         "model",         "workers",      "replicas",   "batch",
    "optimizer",   "lr",           "epochs",        "best valid %", "valid loss", "valid ppl",
    "best test %", "final test %", "final top 5 %", "final F1 %",   "test loss",  "test ppl",
    "samples/s",   "time",         "hash",
};

bool run_column_is_number(run_column column)
{
    return column >= RUN_WORKERS && column <= RUN_TIME && column != RUN_OPTIMIZER;
}

bool run_column_is_used(const cli_runs *runs, run_column column)
{
    for (int r = 0; r < runs->count; r++)
        if (strcmp(runs->cell[r][column].text, "-") != 0) return true;
    return false;
}

static run_cell text_cell(const char *text)
{
    return (run_cell){text, (double)NAN};
}

static run_cell unknown(void)
{
    return text_cell("-");
}

const json_t *runs_setting_of(const cli_run *run, const char *section, const char *key)
{
    return json_object_get(json_object_get(json_object_get(run->record, "config"), section), key);
}

static run_cell string_cell(cli_pool *pool, const json_t *json)
{
    return json_is_string(json) ? text_cell(text_clean(pool, json_string_value(json))) : unknown();
}

/* A number as it stands there, in its shortest form. */
static run_cell number_cell(cli_pool *pool, const json_t *json)
{
    char text[TEXT_NUMBER_SIZE];
    if (json_is_integer(json))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    else if (json_is_real(json))
        snprintf(text, sizeof text, "%g", json_real_value(json));
    else
        return unknown();
    return (run_cell){pool_format(pool, "%s", text), json_number_value(json)};
}

static run_cell real_cell(cli_pool *pool, const char *format, double number)
    __attribute__((format(printf, 2, 0)));
static run_cell real_cell(cli_pool *pool, const char *format, double number)
{
    char text[64];
    if (!(fabs(number) < 1e15)) return unknown();
    snprintf(text, sizeof text, format, number);
    return (run_cell){pool_format(pool, "%s", text), number};
}

double runs_number_of(const json_t *object, const char *key)
{
    const json_t *json = json_object_get(object, key);
    return json_is_number(json) ? json_number_value(json) : (double)NAN;
}

/* The data, and how many samples of it an epoch trained on: without those held back or not used. */
static run_cell data_cell(cli_pool *pool, const cli_run *run)
{
    run_cell cell = string_cell(pool, runs_setting_of(run, "data", "name"));
    const json_t *limit = runs_setting_of(run, "data", "samples"), *epoch;
    double samples = json_is_integer(limit) ? json_number_value(limit) : (double)NAN, most = 0;
    size_t i;
    json_array_foreach(json_object_get(run->record, "epochs"), i, epoch)
    {
        const double trained = runs_number_of(epoch, "train_samples");
        if (trained > most) most = trained;
    }
    if (most > 0) samples = most;
    if (samples >= 0 && samples < 1e15)
        cell.text = pool_format(pool, "%s (%.0f)", cell.text, samples);
    return cell;
}

/* Whether a setting says no more than its default does. */
static bool is_usual(const char *key, const json_t *value, const char *text)
{
    if (json_is_null(value) || json_is_false(value)) return true;
    if (json_is_number(value) && json_number_value(value) == 0) return true;
    for (int k = 0; k < LKI_KEY_COUNT; k++) {
        const lki_key_row *row = &lki_key_rows[k];
        if (strncmp(row->spec.name, "optimizer.", 10) != 0 || strcmp(row->spec.name + 10, key) != 0)
            continue;
        double number;
        if (row->fallback == NULL) break;
        return strcmp(row->fallback, text) == 0 ||
               (json_is_number(value) && lki_text_is_float(row->fallback, &number) &&
                number == json_number_value(value));
    }
    /* The divisor's guard has a default that depends on the name. */
    return strcmp(key, "eps") == 0 &&
           (json_number_value(value) == 1e-8 || json_number_value(value) == 1e-6);
}

/* "sgd, momentum 0.9, weight_decay 0.0005": the name, and what is not as usual. */
static run_cell optimizer_cell(cli_pool *pool, const cli_run *run)
{
    run_cell cell = string_cell(pool, runs_setting_of(run, "optimizer", "name"));
    json_t *optimizer = json_object_get(json_object_get(run->record, "config"), "optimizer"),
           *value;
    const char *key;
    json_object_foreach(optimizer, key, value)
    {
        if (strcmp(key, "name") == 0 || strcmp(key, "lr") == 0) continue;
        const char *text = text_clean(pool, text_yaml(pool, value));
        if (is_usual(key, value, text)) continue;
        cell.text = json_is_true(value)
                        ? pool_format(pool, "%s, %s", cell.text, text_clean(pool, key))
                        : pool_format(pool, "%s, %s %s", cell.text, text_clean(pool, key), text);
    }
    return cell;
}

static run_cell epochs_cell(cli_pool *pool, const cli_run *run)
{
    const size_t epochs = json_array_size(json_object_get(run->record, "epochs"));
    const bool stopped = json_is_false(json_object_get(run->record, "finished"));
    return (run_cell){pool_format(pool, "%zu%s", epochs, stopped ? ", stopped" : ""),
                      (double)epochs};
}

/* Samples a second while training, over all epochs. */
static run_cell speed_cell(cli_pool *pool, const cli_run *run)
{
    char text[TEXT_NUMBER_SIZE];
    size_t i;
    const json_t *epoch;
    double samples = 0, seconds = 0;
    json_array_foreach(json_object_get(run->record, "epochs"), i, epoch)
    {
        samples += runs_number_of(epoch, "train_samples");
        seconds += runs_number_of(epoch, "seconds");
    }
    const double speed = samples / seconds;
    if (!(speed >= 0 && speed < 1e15)) return unknown();
    lks_text_count(text, (int64_t)speed);
    return (run_cell){pool_format(pool, "%s", text), speed};
}

const char *runs_time(cli_pool *pool, double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) return "not known";
    const long long whole = (long long)(seconds + 0.5);
    return seconds < 1       ? pool_format(pool, "%.2f s", seconds)
           : seconds < 59.95 ? pool_format(pool, "%.1f s", seconds)
           : whole < 3600    ? pool_format(pool, "%lld min %02lld s", whole / 60, whole % 60)
                          : pool_format(pool, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
}

static run_cell time_cell(cli_pool *pool, double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) return unknown();
    return (run_cell){runs_time(pool, seconds), seconds};
}

/* The last value of a curve, or the largest. */
static double value_of(const plot_curve *curve, bool largest)
{
    double value = (double)NAN;
    for (int i = 0; i < curve->points; i++)
        if (!largest || !(value >= curve->y[i])) value = curve->y[i];
    return value;
}

/* The last epoch that has this key; NULL: none has. */
static const json_t *last_with(const cli_run *run, const char *key)
{
    const json_t *epochs = json_object_get(run->record, "epochs");
    for (size_t i = json_array_size(epochs); i > 0; i--) {
        const json_t *epoch = json_array_get(epochs, i - 1);
        if (json_object_get(epoch, key) != NULL) return epoch;
    }
    return NULL;
}

/* Of a set, what was counted: samples, or positions. */
static double counted_of(const json_t *epoch, const char *set)
{
    char key[24];
    snprintf(key, sizeof key, "%s_counted", set);
    if (json_object_get(epoch, key) == NULL) snprintf(key, sizeof key, "%s_samples", set);
    return runs_number_of(epoch, key);
}

/* In percent, of a share from 0 to 1. */
static run_cell share_cell(cli_pool *pool, double share)
{
    return real_cell(pool, "%.2f", share >= 0 && share <= 1 ? 100 * share : (double)NAN);
}

static bool has_classes(const cli_run *run)
{
    const json_t *classes = json_object_get(run->record, "classes");
    return classes == NULL || json_integer_value(classes) > 0; /* older records do not say */
}

static run_cell top5_cell(cli_pool *pool, const cli_run *run)
{
    const json_t *epoch = has_classes(run) ? last_with(run, "test_top5") : NULL;
    return share_cell(pool, runs_number_of(epoch, "test_top5") / counted_of(epoch, "test"));
}

static void fill_cells(cli_runs *runs, int r)
{
    cli_pool *pool = &runs->pool;
    const cli_run *run = &runs->run[r];
    const plot_curve *accuracy = &run->curve[RUN_TEST_ACCURACY];
    run_cell *cell = runs->cell[r];
    cell[RUN_NAME] = text_cell(run->name);
    cell[RUN_DATA] = data_cell(pool, run);
    cell[RUN_MODEL] = string_cell(pool, runs_setting_of(run, "model", "name"));
    cell[RUN_WORKERS] = number_cell(pool, json_object_get(run->record, "workers"));
    cell[RUN_REPLICAS] = number_cell(pool, json_object_get(run->record, "replicas"));
    cell[RUN_BATCH] = number_cell(pool, json_object_get(run->record, "global_batch"));
    cell[RUN_OPTIMIZER] = optimizer_cell(pool, run);
    cell[RUN_LR] = number_cell(pool, runs_setting_of(run, "optimizer", "lr"));
    cell[RUN_EPOCHS] = epochs_cell(pool, run);
    cell[RUN_VALID_BEST] = real_cell(pool, "%.2f", value_of(&run->curve[RUN_VALID_ACCURACY], true));
    cell[RUN_VALID_LAST] = real_cell(pool, "%.4f", value_of(&run->curve[RUN_VALID_LOSS], false));
    cell[RUN_VALID_PERPLEXITY] = real_cell(
        pool, "%.2f", runs_number_of(last_with(run, "valid_loss"), "valid_perplexity"));
    cell[RUN_BEST] = real_cell(pool, "%.2f", value_of(accuracy, true));
    cell[RUN_FINAL] = real_cell(pool, "%.2f", value_of(accuracy, false));
    cell[RUN_TOP5] = top5_cell(pool, run);
    cell[RUN_F1] = share_cell(pool, runs_number_of(last_with(run, "test_loss"), "test_macro_f1"));
    cell[RUN_LOSS] = real_cell(pool, "%.4f", value_of(&run->curve[RUN_TEST_LOSS], false));
    cell[RUN_PERPLEXITY] = real_cell(
        pool, "%.2f", runs_number_of(last_with(run, "test_loss"), "test_perplexity"));
    cell[RUN_SPEED] = speed_cell(pool, run);
    cell[RUN_TIME] = time_cell(pool, runs_number_of(run->record, "seconds"));
    cell[RUN_HASH] = string_cell(pool, json_object_get(run->record, "hash"));
}

static bool is_accuracy(run_series series)
{
    return series == RUN_VALID_ACCURACY || series == RUN_TEST_ACCURACY;
}

/* A value of one epoch: false where the epoch has none, NaN where it was not finite. */
static bool epoch_value(const json_t *epoch, run_series series, double *out)
{
    static const char *const keys[RUN_SERIES] = {"train_loss", "valid_loss", "test_loss",
                                                 "valid_correct", "test_correct"};
    const json_t *value = json_object_get(epoch, keys[series]);
    *out = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (is_accuracy(series)) {
        const bool valid = series == RUN_VALID_ACCURACY;
        const double share = *out / counted_of(epoch, valid ? "valid" : "test");
        *out = share >= 0 && share <= 1 ? 100 * share : (double)NAN;
    }
    return value != NULL;
}

static void fill_curve(cli_pool *pool, cli_run *run, run_series series, int style)
{
    const json_t *epochs = json_object_get(run->record, "epochs"), *epoch;
    double *x = pool_alloc(pool, 2 * json_array_size(epochs) * sizeof *x + 1);
    double *y = x + json_array_size(epochs);
    size_t i;
    plot_curve *curve = &run->curve[series];
    *curve = (plot_curve){.name = run->name, .style = style, .x = x, .y = y};
    if (is_accuracy(series) && !has_classes(run)) return;
    json_array_foreach(epochs, i, epoch)
    {
        if (!epoch_value(epoch, series, &y[curve->points])) continue;
        const double number = runs_number_of(epoch, "epoch");
        x[curve->points++] = number >= 0 && number < 1e9 ? number : (double)i + 1;
    }
}

/* File names without folder and ".json"; where two are equal, as much of the path as was given, else numbered. */
static void name_runs(cli_runs *runs, char **paths)
{
    for (int r = 0; r < runs->count; r++) {
        const char *stem = record_stem(&runs->pool, paths[r]), *slash = strrchr(stem, '/');
        runs->name[r] = text_clean(&runs->pool, slash != NULL ? slash + 1 : stem);
    }
    for (int pass = 0; pass < 2; pass++) {
        bool again[RUNS_MOST] = {false};
        for (int r = 0; r < runs->count; r++)
            for (int s = 0; s < runs->count; s++)
                again[r] |= (pass == 0 ? s != r : s < r) &&
                            strcmp(runs->name[r], runs->name[s]) == 0;
        for (int r = 0; r < runs->count; r++) {
            if (!again[r]) continue;
            runs->name[r] = pass == 0 ? text_clean(&runs->pool, paths[r])
                                      : pool_format(&runs->pool, "%s (%d)", runs->name[r], r + 1);
        }
    }
}

static const char *setting_text(cli_pool *pool, const json_t *json)
{
    if (json == NULL || json_is_null(json)) return "-";
    return text_clean(pool, text_yaml(pool, json));
}

/* `section` NULL: a field of the record itself. */
static void add_setting(cli_runs *runs, const char *section, const char *key)
{
    const char *dot = section != NULL ? "." : "";
    run_setting s = {
        .key = pool_format(&runs->pool, "%s%s%s", section != NULL ? section : "", dot, key)};
    s.key = text_clean(&runs->pool, s.key);
    for (int i = 0; i < runs->settings; i++)
        if (strcmp(runs->setting[i].key, s.key) == 0) return;
    s.text = pool_alloc(&runs->pool, (size_t)runs->count * sizeof *s.text);
    for (int r = 0; r < runs->count; r++) {
        const cli_run *run = &runs->run[r];
        s.text[r] = setting_text(&runs->pool, section != NULL ? runs_setting_of(run, section, key)
                                                              : json_object_get(run->record, key));
        s.differs |= strcmp(s.text[r], s.text[0]) != 0;
    }
    if (runs->settings % 64 == 0) {
        run_setting *more = pool_alloc(&runs->pool, (size_t)(runs->settings + 64) * sizeof *more);
        if (runs->settings > 0) memcpy(more, runs->setting, (size_t)runs->settings * sizeof *more);
        runs->setting = more;
    }
    runs->differing += s.differs;
    runs->setting[runs->settings++] = s;
}

static void fill_settings(cli_runs *runs)
{
    static const char *const facts[] = {"workers",     "parameters", "steps",   "device",
                                        "fingerprint", "numerics",   "version", "build"};
    for (int r = 0; r < runs->count; r++) {
        const char *section, *key;
        json_t *keys, *value;
        json_object_foreach(json_object_get(runs->run[r].record, "config"), section, keys)
        {
            json_object_foreach(keys, key, value)
            {
                /* Where a run was written to says nothing about it. */
                if (strcmp(section, "log") == 0 && strcmp(key, "record") == 0) continue;
                if (strcmp(section, "checkpoint") == 0 && strcmp(key, "path") == 0) continue;
                add_setting(runs, section, key);
            }
        }
    }
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) add_setting(runs, NULL, facts[i]);
}

static bool same_bits(const cli_run *a, const cli_run *b)
{
    return json_equal(json_object_get(a->record, "hash"), json_object_get(b->record, "hash")) &&
           json_equal(json_object_get(a->record, "steps"), json_object_get(b->record, "steps"));
}

static void fill_same(cli_runs *runs)
{
    bool done[RUNS_MOST] = {false};
    runs->same_run = pool_alloc(&runs->pool, RUNS_MOST * sizeof *runs->same_run);
    for (int r = 0; r < runs->count; r++) {
        const char *names = runs->name[r];
        bool found = false;
        for (int s = r + 1; s < runs->count && !done[r]; s++) {
            if (!same_bits(&runs->run[r], &runs->run[s])) continue;
            names = pool_format(&runs->pool, "%s, %s", names, runs->name[s]);
            done[s] = found = true;
        }
        if (found) runs->same_run[runs->same++] = names;
    }
}

static void fill_panels(cli_runs *runs)
{
    static const char *const titles[RUN_SERIES] = {"Training loss", "Validation loss", "Test loss",
                                                   "Validation accuracy, %", "Test accuracy, %"};
    for (int series = 0; series < RUN_SERIES; series++) {
        plot_panel *panel = &runs->panel[runs->panels];
        *panel = (plot_panel){.title = titles[series],
                              .may_log = !is_accuracy((run_series)series),
                              .is_percent = is_accuracy((run_series)series),
                              .curve = runs->curve[series]};
        for (int r = 0; r < runs->count; r++)
            if (runs->run[r].curve[series].points > 0)
                runs->curve[series][panel->curves++] = runs->run[r].curve[series];
        runs->panels += plot_fit(panel);
    }
}

static void fill_runs(cli_runs *runs)
{
    for (int r = 0; r < runs->count; r++) runs->run[r].name = runs->name[r];
    for (int r = 0; r < runs->count; r++) {
        for (int series = 0; series < RUN_SERIES; series++)
            fill_curve(&runs->pool, &runs->run[r], (run_series)series, r);
        fill_cells(runs, r);
    }
    fill_settings(runs);
    fill_same(runs);
    fill_panels(runs);
}

lks_status runs_read(cli_runs *out, int count, char **paths, const char *const *names)
{
    *out = (cli_runs){.count = 0};
    for (int r = 0; r < count; r++) {
        const lks_status status = record_read(&out->run[r].record, paths[r]);
        if (status != LKS_OK) return status;
        out->count++;
    }
    if (names == NULL) name_runs(out, paths);
    for (int r = 0; names != NULL && r < count; r++) out->name[r] = names[r];
    fill_runs(out);
    return LKS_OK;
}

void runs_take(cli_runs *out, json_t *record, char *path)
{
    *out = (cli_runs){.count = 1};
    out->run[0].record = json_incref(record);
    name_runs(out, &path);
    fill_runs(out);
}

void runs_clear(cli_runs *runs)
{
    for (int r = 0; r < runs->count; r++) json_decref(runs->run[r].record);
    pool_clear(&runs->pool);
}
