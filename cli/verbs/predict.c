/* lockstep predict */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"

typedef enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON } format;

typedef struct table {
    format format;
    bool labels;        /* print them too */
    bool probabilities; /* of every class */
    bool outputs;       /* of the network as they are */
    int64_t width;      /* of an output: how many classes */
    int columns;        /* of the terminal where text is for people; else 0 */
    int id_width;
    int used; /* of the line */
} table;

/* Columns of the widest value, or of the title. */
enum { CLASS_WIDTH = 5, SHARE_WIDTH = 11, NUMBER_WIDTH = 15 };

/* The shortest decimal that reads back as the same float, as a double of few digits. */
static double shortened(float value)
{
    char text[40];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return strtod(text, NULL);
}

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
    const int length = (int)strlen(text);
    if (length > width) width = length;
    const bool broken = t->used > 0 && t->used + GAP + width > t->columns;
    const int gap = broken ? INDENT : t->used > 0 ? GAP : 0;
    if (broken) putchar('\n');
    printf("%*s%*s", gap, "", width, text);
    t->used = (broken ? 0 : t->used) + gap + width;
}

static void end_line(table *t)
{
    putchar('\n');
    t->used = 0;
}

static void predict_print_head(table *t)
{
    char title[TEXT_NUMBER_SIZE];
    if (t->format == FORMAT_JSON) return;
    put_field(t, t->id_width, "sample");
    put_field(t, CLASS_WIDTH, "class");
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

static void predict_print_row(table *t, const lks_prediction *p)
{
    char number[TEXT_NUMBER_SIZE];
    put_int(t, t->id_width, p->id);
    put_int(t, CLASS_WIDTH, p->best);
    snprintf(number, sizeof number, "%.6f", p->softmax[p->best]);
    put_field(t, SHARE_WIDTH, number);
    if (t->labels) put_int(t, CLASS_WIDTH, p->label);
    for (int64_t i = 0; t->probabilities && i < t->width; i++)
        put_field(t, NUMBER_WIDTH - 1, lks_text_number(number, shortened((float)p->softmax[i])));
    for (int64_t i = 0; t->outputs && i < t->width; i++)
        put_field(t, NUMBER_WIDTH, lks_text_number(number, shortened(p->output[i])));
    end_line(t);
}

static void predict_print_json(const table *t, const lks_prediction *p)
{
    json_t *line = json_pack("{s:I, s:I, s:o}", "sample", (json_int_t)p->id, "class",
                             (json_int_t)p->best, "probability",
                             text_json_real(p->softmax[p->best]));
    if (t->labels) json_object_set_new(line, "label", json_integer(p->label));
    for (int k = 0; k < 2; k++) {
        if (!(k == 0 ? t->probabilities : t->outputs)) continue;
        json_t *list = json_array();
        for (int64_t i = 0; i < t->width; i++)
            json_array_append_new(
                list, text_json_real(shortened(k == 0 ? (float)p->softmax[i] : p->output[i])));
        json_object_set_new(line, k == 0 ? "probabilities" : "outputs", list);
    }
    text_print_json(stdout, line, 0);
    putchar('\n');
    json_decref(line);
}

static void predict_print(void *user, const lks_prediction *prediction)
{
    table *t = user;
    if (t->format == FORMAT_JSON)
        predict_print_json(t, prediction);
    else
        predict_print_row(t, prediction);
}

/* --format, or else log.format. */
static lks_status read_format(format *out, const cli_args *cli, const lks_recipe *recipe)
{
    static const char *const names[] = {"text", "csv", "json"};
    const char *wanted = cli->local[LOCAL_FORMAT];
    const char *name = wanted != NULL ? wanted : lks_recipe_text(recipe, "log.format");
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (format)i;
        return LKS_OK;
    }
    return lks_fail(LKS_E_INVALID, "--format is '%.60s', expected text, csv or json", name);
}

/* --images: a file of images without labels. */
static lks_status open_images(lks_dataset **out, const lks_recipe_parts *parts, const char *images)
{
    const lks_shape *wanted = &parts->data.shape;
    const char *end = strrchr(images, '.');
    const bool npy = end != NULL && strcmp(end, ".npy") == 0;
    const lks_status status = (npy ? lks_dataset_open_npy : lks_dataset_open_idx)(
        out, parts->context, images, NULL, parts->data.classes);
    if (status != LKS_OK) return status;
    if (lks_dataset_get_info(*out).dtype != parts->data.dtype)
        return lks_fail(LKS_E_SHAPE, "samples of %s are %s, but those of the data are %s", images,
                        lks_dtype_name(lks_dataset_get_info(*out).dtype),
                        lks_dtype_name(parts->data.dtype));
    const lks_shape found = lks_dataset_get_info(*out).shape;
    if (lks_shape_equal(&found, wanted)) return LKS_OK;
    return lks_fail(LKS_E_SHAPE,
                    "samples of %s have another shape than the data of the "
                    "configuration",
                    images);
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

static lks_status print_predictions(table *t, lks_recipe *recipe, lks_dataset *data, int64_t count)
{
    const lks_shape shape = lks_tensor_shape(lks_recipe_get_parts(recipe).output);
    const int64_t samples = lks_dataset_get_info(data).samples;
    const int64_t last = lks_dataset_position(data, (count < samples ? count : samples) - 1);
    t->width = lks_shape_elements(&shape);
    t->id_width = snprintf(NULL, 0, "%lld", (long long)last);
    if (t->id_width < (int)strlen("sample")) t->id_width = (int)strlen("sample");
    predict_print_head(t);
    return lks_recipe_predict(recipe, data, count, predict_print, t);
}

static lks_status predict_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    const char *images = cli->local[LOCAL_IMAGES];
    table t = {.labels = images == NULL,
               .probabilities = cli->local[LOCAL_PROBABILITIES] != NULL,
               .outputs = cli->local[LOCAL_OUTPUTS] != NULL};
    const cli_split *split;
    lks_dataset *other = NULL, *data = NULL;
    int64_t step, count;
    lks_status status = read_options(&t, &count, cli, recipe);
    if (status == LKS_OK && images != NULL && cli->local[LOCAL_SPLIT] != NULL)
        return lks_fail(LKS_E_INVALID, "--images and --split name two sets of samples; drop one");
    if (status == LKS_OK)
        status = images != NULL ? lks_recipe_open_data(recipe, LKS_RECIPE_SHAPE)
                                : cli_split_open(&split, cli, recipe);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK && parts.data.classes == 0)
        return lks_fail(LKS_E_UNSUPPORTED, "predict prints classes, but this data has none");
    if (status == LKS_OK && images != NULL) status = open_images(&other, &parts, images);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = cli_load(cli, recipe, &step);
    if (status == LKS_OK && images == NULL) status = cli_split_data(&data, split, recipe, step);
    if (status == LKS_OK)
        status = print_predictions(&t, recipe, images != NULL ? other : data, count);
    lks_dataset_destroy(other);
    return status;
}

lks_status verb_predict(const cli_args *cli, int *code)
{
    return cli_with_recipe(cli, code, NULL, predict_run);
}
