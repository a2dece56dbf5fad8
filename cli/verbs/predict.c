/* lockstep predict */
#include <stdlib.h>
#include <string.h>

#include <lockstep/text.h>

#include "cli/cli.h"
#include "cli/data/images.h"
#include "cli/out/array.h"
#include "cli/out/text.h"
#include "cli/report/report.h"

typedef enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON, FORMAT_NPY } format;

typedef struct table {
    format format;
    bool labels;        /* print them too */
    bool probabilities; /* of every class */
    bool outputs;       /* of the network as they are */
    int64_t width;      /* of an output: how many classes */
    int columns;        /* of the terminal where text is for people; else 0 */
    bool texts;         /* samples have a number and, in a column behind it, their text */
    int id_width, text_width;
    int name_width;                /* of the widest name of a class */
    const char *const *class_name; /* [classes], or NULL: they have numbers alone */
    int64_t classes;               /* there may be more outputs */
    const lks_unit *unit;          /* of predicted numbers, [width]; NULL: classes are predicted */
    const lks_dataset *data;       /* what is predicted: its samples may have names */
    const cli_images *images;      /* where they are images */
    int64_t bad, good;             /* of these */
    cli_pool *pool;
    int used;    /* of the line */
    array array; /* what is written at the end, of .npy */
} table;

/* Columns of the widest value, or of the title. */
enum { CLASS_WIDTH = 5, SHARE_WIDTH = 11, NUMBER_WIDTH = 15 };

static const lks_unit plain;

/* Begins a line; text for people on a terminal has columns, all else one byte between fields. */
static void put_field(table *t, int width, const char *text)
{
    enum { GAP = 2, INDENT = 4 };
    if (t->columns == 0) {
        if (t->used > 0) putchar(t->format == FORMAT_CSV ? ',' : '\t');
        fputs(text, stdout);
        t->used = 1;
        return;
    }
    const int length = text_length(text);
    if (length > width) width = length;
    const bool broken = t->used > 0 && t->used + GAP + width > t->columns;
    const int gap = broken ? INDENT : t->used > 0 ? GAP : 0;
    if (broken) putchar('\n');
    printf("%*s%s", gap + width - length, "", text);
    t->used = (broken ? 0 : t->used) + gap + width;
}

static void end_line(table *t)
{
    putchar('\n');
    t->used = 0;
}

static void put_sample_titles(table *t)
{
    put_field(t, t->id_width, "sample");
    if (t->texts) put_field(t, t->text_width, "text");
}

static void predict_print_head(table *t)
{
    char title[TEXT_NUMBER_SIZE];
    if (t->format >= FORMAT_JSON) return;
    put_sample_titles(t);
    put_field(t, CLASS_WIDTH, "class");
    if (t->class_name != NULL) put_field(t, t->name_width, "name");
    put_field(t, SHARE_WIDTH, "probability");
    if (t->labels) put_field(t, CLASS_WIDTH, "label");
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; (k == 0 ? t->probabilities : t->outputs) && i < t->width; i++) {
            snprintf(title, sizeof title, "%c%lld", k == 0 ? 'p' : 'y', (long long)i);
            put_field(t, k == 0 ? NUMBER_WIDTH - 1 : NUMBER_WIDTH, title);
        }
    end_line(t);
}

static void put_int(table *t, int width, int64_t number)
{
    char text[TEXT_NUMBER_SIZE];
    snprintf(text, sizeof text, "%lld", (long long)number);
    put_field(t, width, text);
}

/* A name that another wrote; in CSV between quotes, doubled inside, where it has what separates fields. */
static void put_name(table *t, int width, const char *name)
{
    if (t->format != FORMAT_CSV || strpbrk(name, ",\"\r\n") == NULL) {
        put_field(t, width, name);
        return;
    }
    char *quoted = pool_alloc(t->pool, 2 * strlen(name) + 3), *to = quoted;
    *to++ = '"';
    for (; *name != '\0'; *to++ = *name++)
        if (*name == '"') *to++ = '"';
    *to++ = '"';
    *to = '\0';
    put_field(t, width, quoted);
}

/* What a sample is called, such as its file, or the time of a forecast; NULL: it has its number alone. */
static const char *sample_name(const table *t, const lks_prediction *p)
{
    const char *name = lks_dataset_sample(t->data, p->index);
    return name == NULL || t->format == FORMAT_CSV ? name : text_clean(t->pool, name);
}

/* The same for JSON, which has a way to write all characters but those that are none. */
static void set_sample(const table *t, const lks_prediction *p, json_t *line, const char *key)
{
    const char *name = lks_dataset_sample(t->data, p->index);
    json_t *text = name != NULL && t->texts ? json_string(name) : NULL;
    if (text == NULL && name != NULL) text = json_string(text_clean(t->pool, name));
    if (text != NULL) json_object_set_new(line, t->texts ? "text" : key, text);
}

static void put_sample(table *t, const lks_prediction *p)
{
    enum { DOTS = 3 };
    const char *sample = sample_name(t, p);
    const int width = t->texts ? t->text_width : t->id_width;
    if (sample == NULL || t->texts) put_int(t, t->id_width, p->id);
    if (sample != NULL && t->columns > 0 && text_length(sample) > width)
        put_field(t, width,
                  pool_format(t->pool, "%.*s...", text_bytes(sample, width - DOTS), sample));
    else if (sample != NULL)
        put_name(t, width, sample);
}

static const char *best_name(const table *t, const lks_prediction *p)
{
    return p->best < t->classes ? t->class_name[p->best] : "";
}

static const char *target_name(const table *t, int64_t target)
{
    return text_clean(t->pool, t->unit[target].name);
}

static void print_numbers_head(table *t)
{
    if (t->format >= FORMAT_JSON) return;
    put_sample_titles(t);
    for (int64_t i = 0; i < t->width; i++) put_name(t, NUMBER_WIDTH, target_name(t, i));
    for (int64_t i = 0; t->labels && i < t->width; i++)
        put_name(t, NUMBER_WIDTH, pool_format(t->pool, "%s_true", target_name(t, i)));
    end_line(t);
}

/* Predicted numbers in their own units, and behind them those of the data. */
static void print_numbers(table *t, const lks_prediction *p)
{
    char number[TEXT_NUMBER_SIZE];
    put_sample(t, p);
    for (int k = 0; k < (t->labels ? 2 : 1); k++)
        for (int64_t i = 0; i < t->width; i++) {
            const double value = cli_shortened(&t->unit[i], (k == 0 ? p->output : p->wanted)[i]);
            put_field(t, NUMBER_WIDTH, lks_text_number(number, value));
        }
    end_line(t);
}

static void print_numbers_json(const table *t, const lks_prediction *p)
{
    json_t *line = json_pack("{s:I}", "sample", (json_int_t)p->id);
    set_sample(t, p, line, "time");
    for (int k = 0; k < (t->labels ? 2 : 1); k++) {
        json_t *values = json_object();
        for (int64_t i = 0; i < t->width; i++)
            json_object_set_new(
                values, target_name(t, i),
                text_json_real(cli_shortened(&t->unit[i], (k == 0 ? p->output : p->wanted)[i])));
        json_object_set_new(line, k == 0 ? "predicted" : "true", values);
    }
    text_say_json(line, 0);
    json_decref(line);
}

static void predict_print_row(table *t, const lks_prediction *p)
{
    char number[TEXT_NUMBER_SIZE];
    put_sample(t, p);
    put_int(t, CLASS_WIDTH, p->best);
    if (t->class_name != NULL) put_name(t, t->name_width, best_name(t, p));
    snprintf(number, sizeof number, "%.6f", p->softmax[p->best]);
    put_field(t, SHARE_WIDTH, number);
    if (t->labels) put_int(t, CLASS_WIDTH, p->label);
    for (int64_t i = 0; t->probabilities && i < t->width; i++)
        put_field(t, NUMBER_WIDTH - 1,
                  lks_text_number(number, cli_shortened(&plain, (float)p->softmax[i])));
    for (int64_t i = 0; t->outputs && i < t->width; i++)
        put_field(t, NUMBER_WIDTH, lks_text_number(number, cli_shortened(&plain, p->output[i])));
    end_line(t);
}

static void predict_print_json(const table *t, const lks_prediction *p)
{
    json_t *line = json_pack("{s:I}", "sample", (json_int_t)p->id);
    set_sample(t, p, line, "file");
    json_object_set_new(line, "class", json_integer(p->best));
    if (t->class_name != NULL) json_object_set_new(line, "name", json_string(best_name(t, p)));
    json_object_set_new(line, "probability", text_json_real(p->softmax[p->best]));
    if (t->labels) json_object_set_new(line, "label", json_integer(p->label));
    for (int k = 0; k < 2; k++) {
        if (!(k == 0 ? t->probabilities : t->outputs)) continue;
        json_t *list = json_array();
        for (int64_t i = 0; i < t->width; i++)
            json_array_append_new(list, text_json_real(cli_shortened(
                                            &plain, k == 0 ? (float)p->softmax[i] : p->output[i])));
        json_object_set_new(line, k == 0 ? "probabilities" : "outputs", list);
    }
    text_say_json(line, 0);
    json_decref(line);
}

/* The numbers of a line that are predicted, in its order. */
static void keep_row(table *t, const lks_prediction *p)
{
    if (t->unit == NULL) {
        array_add(&t->array, (double)p->best);
        array_add(&t->array, p->softmax[p->best]);
    }
    for (int64_t i = 0; t->probabilities && i < t->width; i++) array_add(&t->array, p->softmax[i]);
    for (int64_t i = 0; (t->unit != NULL || t->outputs) && i < t->width; i++)
        array_add(&t->array, cli_shortened(t->unit != NULL ? &t->unit[i] : &plain, p->output[i]));
}

/* Whether the sample is a picture that cannot be read, which is named. */
static bool is_bad(table *t, const lks_prediction *p)
{
    if (t->images == NULL || t->images->bad == NULL) return false;
    const char *reason = atomic_load(&t->images->bad[p->index]);
    if (reason != NULL) say_error("%s", reason);
    t->bad += reason != NULL;
    t->good += reason == NULL;
    return reason != NULL;
}

static void predict_print(void *user, const lks_prediction *prediction)
{
    table *t = user;
    if (is_bad(t, prediction)) return;
    if (t->format == FORMAT_NPY)
        keep_row(t, prediction);
    else if (t->unit != NULL && t->format == FORMAT_JSON)
        print_numbers_json(t, prediction);
    else if (t->unit != NULL)
        print_numbers(t, prediction);
    else if (t->format == FORMAT_JSON)
        predict_print_json(t, prediction);
    else
        predict_print_row(t, prediction);
}

/* --format, or else log.format. */
static lks_status read_format(format *out, const cli_args *cli, const lks_recipe *recipe)
{
    static const char *const names[] = {"text", "csv", "json", "npy"};
    const char *wanted = cli->local[LOCAL_FORMAT];
    const char *name = wanted != NULL ? wanted : lks_recipe_text(recipe, "log.format");
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (format)i;
        return *out == FORMAT_NPY ? array_check_place() : LKS_OK;
    }
    return lks_fail(LKS_E_INVALID, "--format is '%.60s', expected text, csv, json or npy", name);
}

/* --count and --format, and how wide the columns are. */
static lks_status read_options(table *t, int64_t *count, const cli_args *cli,
                               const lks_recipe *recipe)
{
    const char *wanted = cli->local[LOCAL_COUNT];
    *count = INT64_MAX;
    if (wanted != NULL && (!lki_text_is_int(wanted, count) || *count < 1))
        return lks_fail(LKS_E_INVALID, "--count is '%.60s', expected an integer of at least 1",
                        wanted);
    const lks_status status = read_format(&t->format, cli, recipe);
    if (status == LKS_OK && t->format == FORMAT_TEXT) t->columns = say_columns();
    return status;
}

static void name_classes(table *t, const lks_dataset *known)
{
    t->class_name = cli_class_names(t->pool, known);
    t->classes = lks_dataset_get_info(known).classes;
    t->name_width = (int)strlen("name");
    for (int64_t c = 0; t->class_name != NULL && c < t->classes; c++)
        if (text_length(t->class_name[c]) > t->name_width)
            t->name_width = text_length(t->class_name[c]);
}

static const lks_dataset *data_of(const lks_recipe_parts *parts)
{
    return parts->test != NULL ? parts->test : parts->train;
}

/* Columns of a sample's number, or its name; texts leave room for what stands behind them on a terminal. */
static void widen_samples(table *t, int64_t count)
{
    enum { LEAST = 20, GAP = 2 };
    const int64_t last = lks_dataset_position(t->data, count - 1);
    const int numbers = (int)(t->width < t->columns ? t->width : t->columns) * (GAP + NUMBER_WIDTH);
    int rest = t->unit != NULL ? numbers : GAP + CLASS_WIDTH + GAP + SHARE_WIDTH;
    int widest = (int)strlen("text");
    if (t->labels) rest += t->unit != NULL ? numbers : GAP + CLASS_WIDTH;
    if (t->class_name != NULL) rest += GAP + t->name_width;
    t->id_width = snprintf(NULL, 0, "%lld", (long long)last);
    if (t->id_width < (int)strlen("sample")) t->id_width = (int)strlen("sample");
    for (int64_t i = 0; i < count; i++) {
        const char *name = lks_dataset_sample(t->data, i);
        if (name == NULL) break;
        if (text_length(name) > widest) widest = text_length(name);
    }
    if (!t->texts && widest > t->id_width) t->id_width = widest;
    const int left = t->columns - rest - t->id_width - GAP, room = left > LEAST ? left : LEAST;
    t->text_width = widest > room ? room : widest;
}

/* As 'data pack' has it: bad pictures are an error when all have been tried, or left out where that is asked for. */
static lks_status judge_bad(const table *t, const cli_args *cli)
{
    char bad[TEXT_NUMBER_SIZE], all[TEXT_NUMBER_SIZE];
    if (t->bad == 0) return LKS_OK;
    if (t->good == 0)
        return lks_fail(LKS_E_FORMAT, "no picture can be read, so nothing is predicted");
    lks_text_count(bad, t->bad);
    lks_text_count(all, t->bad + t->good);
    if (cli->local[LOCAL_SKIP_BAD] == NULL)
        return lks_fail(LKS_E_FORMAT,
                        "%s of %s pictures cannot be read, as said above, and have no prediction; "
                        "leave them out with --skip-bad, or put them right",
                        bad, all);
    say_error("%s bad picture%s left out", bad, t->bad == 1 ? " is" : "s are");
    return LKS_OK;
}

static lks_status print_predictions(table *t, lks_recipe *recipe, lks_dataset *data, int64_t count)
{
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const lks_shape shape = lks_tensor_shape(parts.output);
    const int64_t samples = lks_dataset_get_info(data).samples;
    t->width = lks_shape_elements(&shape);
    t->data = t->images != NULL ? t->images->data : data;
    const lks_dataset *known = data_of(&parts) != NULL ? data_of(&parts) : data;
    t->unit = lks_dataset_units(known);
    if (t->unit == NULL) name_classes(t, known);
    t->texts = lks_dataset_tokenizer(data) != NULL;
    widen_samples(t, samples < count ? samples : count);
    (t->unit != NULL ? print_numbers_head : predict_print_head)(t);
    const int64_t classes = t->unit == NULL ? 2 + t->width * (t->probabilities + t->outputs) : 0;
    if (t->format == FORMAT_NPY)
        array_begin(&t->array, t->pool, samples < count ? samples : count,
                    t->unit != NULL ? t->width : classes);
    const lks_status status = lks_recipe_predict(recipe, data, count, predict_print, t);
    return status == LKS_OK && t->format == FORMAT_NPY ? array_print(&t->array) : status;
}

/* What is predicted: samples of a file, or a split of the data, which is there once weights are loaded. */
static lks_status open_samples(lks_dataset **out, const cli_split **split, const cli_args *cli,
                               lks_recipe *recipe)
{
    const char *images = cli->local[LOCAL_IMAGES], *rows = cli->local[LOCAL_TABLE];
    if ((images != NULL) + (rows != NULL) + (cli->local[LOCAL_SPLIT] != NULL) > 1)
        return lks_fail(LKS_E_INVALID, "%s and %s name two sets of samples; drop one",
                        images != NULL ? "--images" : "--table",
                        images != NULL && rows != NULL ? "--table" : "--split");
    if (images == NULL && cli->local[LOCAL_SKIP_BAD] != NULL)
        return lks_fail(LKS_E_INVALID, "--skip-bad is of pictures; give --images, or drop it");
    if (rows != NULL) return lks_recipe_open_table(out, recipe, rows);
    return images != NULL ? lks_recipe_open_data(recipe, LKS_RECIPE_SHAPE)
                          : cli_split_open(split, cli, recipe);
}

static lks_status check_classes(const lks_recipe *recipe)
{
    const lks_dataset_info info = lks_recipe_get_parts(recipe).data;
    if (report_targets_of(&info) != REPORT_TOKENS) return LKS_OK;
    return lks_fail(
        LKS_E_UNSUPPORTED,
        "predictions are of samples that have one class, but these have one for each of %lld "
        "positions; %s'lockstep eval' has loss, perplexity and accuracy",
        (long long)lks_shape_elements(&info.target_shape),
        info.vocabulary > 0 ? "'lockstep sample' writes what comes behind a text, and " : "");
}

static lks_status predict_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    const char *what = cli->local[LOCAL_IMAGES];
    table t = {.pool = cli->pool,
               .labels = what == NULL && cli->local[LOCAL_TABLE] == NULL,
               .probabilities = cli->local[LOCAL_PROBABILITIES] != NULL,
               .outputs = cli->local[LOCAL_OUTPUTS] != NULL};
    const cli_split *split;
    cli_images pictures = {.data = NULL};
    lks_dataset *rows = NULL, *data = NULL;
    int64_t step, count;
    lks_status status = read_options(&t, &count, cli, recipe);
    if (status == LKS_OK) status = open_samples(&rows, &split, cli, recipe);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK && parts.data.classes == 0 && rows == NULL &&
        lks_dataset_units(data_of(&parts)) == NULL)
        status = lks_fail(LKS_E_UNSUPPORTED, "predict prints classes, or columns of a table, but "
                                             "this data has neither");
    if (status == LKS_OK && parts.data.classes == 0 && (t.probabilities || t.outputs))
        status = lks_fail(LKS_E_INVALID,
                          "--probabilities and --outputs are of classes, but this data has none");
    if (status == LKS_OK && what != NULL) status = images_open(&pictures, &parts, what);
    if (status == LKS_OK) status = check_classes(recipe); /* before a title is printed */
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = cli_load(cli, recipe, &step);
    if (status == LKS_OK && rows == NULL && what == NULL)
        status = cli_split_data(&data, split, recipe, step);
    if (what != NULL) {
        t.images = &pictures;
        data = pictures.read;
    }
    if (status == LKS_OK) status = print_predictions(&t, recipe, rows != NULL ? rows : data, count);
    if (status == LKS_OK) status = judge_bad(&t, cli);
    images_close(&pictures);
    lks_dataset_destroy(rows);
    return status;
}

lks_status verb_predict(const cli_args *cli, int *code)
{
    return cli_with_recipe(cli, code, NULL, predict_run);
}
