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
} table;

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

static void predict_print_head(const table *t)
{
    const char joint = t->format == FORMAT_CSV ? ',' : '\t';
    if (t->format == FORMAT_JSON) return;
    printf("sample%cclass%cprobability", joint, joint);
    if (t->labels) printf("%clabel", joint);
    for (int64_t i = 0; t->probabilities && i < t->width; i++)
        printf("%cp%lld", joint, (long long)i);
    for (int64_t i = 0; t->outputs && i < t->width; i++) printf("%cy%lld", joint, (long long)i);
    putchar('\n');
}

static void predict_print_row(const table *t, const lks_prediction *p)
{
    const char joint = t->format == FORMAT_CSV ? ',' : '\t';
    char number[TEXT_NUMBER_SIZE];
    printf("%lld%c%lld%c%.6f", (long long)p->id, joint, (long long)p->best, joint,
           p->softmax[p->best]);
    if (t->labels) printf("%c%d", joint, (int)p->label);
    for (int64_t i = 0; t->probabilities && i < t->width; i++)
        printf("%c%s", joint, lks_text_number(number, shortened((float)p->softmax[i])));
    for (int64_t i = 0; t->outputs && i < t->width; i++)
        printf("%c%s", joint, lks_text_number(number, shortened(p->output[i])));
    putchar('\n');
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
    const table *t = user;
    (t->format == FORMAT_JSON ? predict_print_json : predict_print_row)(t, prediction);
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

/* --images: a file of images without labels, instead of the test set. */
static lks_status open_images(lks_dataset **out, const lks_recipe_parts *parts, const char *images)
{
    const lks_shape *wanted = &parts->data.shape;
    const lks_status status = lks_dataset_open_idx(out, parts->context, images, NULL,
                                                   parts->data.classes);
    if (status != LKS_OK) return status;
    const lks_shape found = lks_dataset_get_info(*out).shape;
    if (lks_shape_equal(&found, wanted)) return LKS_OK;
    return lks_fail(LKS_E_SHAPE,
                    "samples of %s have another shape than the data of the "
                    "configuration",
                    images);
}

static lks_status predict_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    const char *images = cli->local[LOCAL_IMAGES], *wanted = cli->local[LOCAL_COUNT];
    table t = {.labels = images == NULL,
               .probabilities = cli->local[LOCAL_PROBABILITIES] != NULL,
               .outputs = cli->local[LOCAL_OUTPUTS] != NULL};
    lks_dataset *other = NULL;
    int64_t step, count = INT64_MAX;
    if (wanted != NULL && (!lki_text_is_int(wanted, &count) || count < 1))
        return lks_fail(LKS_E_INVALID, "--count is '%.60s', expected an integer of at least 1",
                        wanted);
    lks_status status = read_format(&t.format, cli, recipe);
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_SHAPE);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK && parts.data.classes == 0)
        return lks_fail(LKS_E_UNSUPPORTED, "predict prints classes, but this data has none");
    if (status == LKS_OK && images != NULL) status = open_images(&other, &parts, images);
    if (status == LKS_OK && images == NULL && parts.test == NULL)
        return lks_fail(LKS_E_IO, "no test set is at hand; give --data DIR or --images FILE");
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = cli_load(cli, recipe, &step);
    if (status == LKS_OK) {
        const lks_shape shape = lks_tensor_shape(lks_recipe_get_parts(recipe).output);
        t.width = lks_shape_elements(&shape);
        predict_print_head(&t);
        status = lks_recipe_predict(recipe, other, count, predict_print, &t);
    }
    lks_dataset_destroy(other);
    return status;
}

lks_status verb_predict(const cli_args *cli, int *code)
{
    return cli_with_recipe(cli, code, predict_run);
}
