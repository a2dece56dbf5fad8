/* lockstep predict */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "recipe/source.h"
#include "cli/session.h"

typedef enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON } format;

typedef struct prediction {
    format format;
    bool labels;        /* print them too */
    bool probabilities; /* of every class */
    bool outputs;       /* of the network as they are */
    int64_t width;      /* of an output: how many classes */
    double *share;      /* [width]: room for the probabilities of a sample */
} prediction;

/* Outputs are logits or log-probabilities: softmax makes both probabilities. */
static int64_t classify(double *share, const float *output, int64_t count)
{
    double sum = 0;
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (output[i] > output[best]) best = i;
    for (int64_t i = 0; i < count; i++) {
        share[i] = exp((double)output[i] - (double)output[best]);
        sum += share[i];
    }
    /* One that is no number has no sign: processors disagree about it, and printf() shows it. */
    for (int64_t i = 0; i < count; i++) share[i] = isnan(sum) ? (double)NAN : share[i] / sum;
    return best;
}

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

static void predict_print_head(const prediction *p)
{
    const char joint = p->format == FORMAT_CSV ? ',' : '\t';
    if (p->format == FORMAT_JSON) return;
    printf("sample%cclass%cprobability", joint, joint);
    if (p->labels) printf("%clabel", joint);
    for (int64_t i = 0; p->probabilities && i < p->width; i++)
        printf("%cp%lld", joint, (long long)i);
    for (int64_t i = 0; p->outputs && i < p->width; i++) printf("%cy%lld", joint, (long long)i);
    putchar('\n');
}

static void predict_print_row(const prediction *p, int64_t id, int64_t class, const float *output,
                              const int32_t *label)
{
    const char joint = p->format == FORMAT_CSV ? ',' : '\t';
    char number[TEXT_NUMBER_SIZE];
    printf("%lld%c%lld%c%.6f", (long long)id, joint, (long long)class, joint, p->share[class]);
    if (p->labels) printf("%c%d", joint, (int)*label);
    for (int64_t i = 0; p->probabilities && i < p->width; i++)
        printf("%c%s", joint, text_number(number, shortened((float)p->share[i])));
    for (int64_t i = 0; p->outputs && i < p->width; i++)
        printf("%c%s", joint, text_number(number, shortened(output[i])));
    putchar('\n');
}

static void predict_print_json(const prediction *p, int64_t id, int64_t class, const float *output,
                               const int32_t *label)
{
    json_t *line = json_pack("{s:I, s:I, s:o}", "sample", (json_int_t)id, "class",
                             (json_int_t) class, "probability", text_json_real(p->share[class]));
    if (p->labels) json_object_set_new(line, "label", json_integer(*label));
    for (int k = 0; k < 2; k++) {
        if (!(k == 0 ? p->probabilities : p->outputs)) continue;
        json_t *list = json_array();
        for (int64_t i = 0; i < p->width; i++)
            json_array_append_new(
                list, text_json_real(shortened(k == 0 ? (float)p->share[i] : output[i])));
        json_object_set_new(line, k == 0 ? "probabilities" : "outputs", list);
    }
    text_print_json(stdout, line, 0);
    putchar('\n');
    json_decref(line);
}

static lks_status print_batches(const prediction *p, const lki_session *session, lks_loader *loader,
                                int64_t count, float *output)
{
    lks_status status = LKS_OK;
    while (count > 0 && status == LKS_OK) {
        lks_batch batch;
        status = lks_loader_next(loader, &batch);
        if (status != LKS_OK) break;
        const int64_t some = batch.count < count ? batch.count : count;
        status = lks_model_predict(session->model, batch.x, some, output);
        for (int64_t i = 0; i < some && status == LKS_OK; i++) {
            const float *y = output + i * p->width;
            const int64_t class = classify(p->share, y, p->width);
            (p->format == FORMAT_JSON ? predict_print_json : predict_print_row)(
                p, batch.ids[i], class, y, (const int32_t *)batch.y + i);
        }
        count -= some;
    }
    return status;
}

static lks_status predict(prediction *p, const lki_session *session, lks_loader *loader,
                          int64_t count)
{
    const lks_shape shape = lks_tensor_shape(session->network.output);
    p->width = lks_shape_elements(&shape);
    const int64_t batch_size = lki_config_int(session->config, LKI_KEY_TRAIN_TEST_BATCH_SIZE);
    float *output = malloc((size_t)(batch_size * p->width) * sizeof *output);
    p->share = malloc((size_t)p->width * sizeof *p->share);
    lks_status status = LKS_OK;
    if (output == NULL || p->share == NULL)
        status = lks_fail(LKS_E_NOMEM,
                          "no memory for the outputs of %lld sample%s; choose a smaller test batch",
                          (long long)batch_size, TEXT_S(batch_size));
    if (status == LKS_OK) {
        predict_print_head(p);
        status = print_batches(p, session, loader, count, output);
    }
    free(p->share);
    free(output);
    return status;
}

/* --format, or else log.format. */
static lks_status read_format(format *out, const cli_args *cli, const lki_config *config)
{
    static const char *const names[] = {"text", "csv", "json"};
    const char *wanted = cli->local[LOCAL_FORMAT];
    const char *name = wanted != NULL ? wanted : lki_config_text(config, LKI_KEY_LOG_FORMAT);
    for (int i = 0; i < 3; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (format)i;
        return LKS_OK;
    }
    return lks_fail(LKS_E_INVALID, "--format is '%.60s', expected text, csv or json", name);
}

/* --images: a file of images without labels, instead of the test set. */
static lks_status use_images(lki_session *session, const char *images)
{
    const lks_dataset_info wanted = session->info;
    lks_dataset *other;
    const lks_status status = lks_dataset_open_idx(&other, session->context, images, NULL,
                                                   wanted.classes);
    if (status != LKS_OK) return status;
    lks_dataset_destroy(session->slice[2]);
    session->slice[2] = session->test = other;
    const lks_dataset_info found = lks_dataset_get_info(other);
    if (lki_same_shape(&found.shape, &wanted.shape)) return LKS_OK;
    return lks_fail(LKS_E_SHAPE,
                    "samples of %s have another shape than the data of the "
                    "configuration",
                    images);
}

static lks_status predict_run(const cli_args *cli, lki_config *config, lki_session *session)
{
    const char *images = cli->local[LOCAL_IMAGES], *wanted = cli->local[LOCAL_COUNT];
    prediction p = {.labels = images == NULL,
                    .probabilities = cli->local[LOCAL_PROBABILITIES] != NULL,
                    .outputs = cli->local[LOCAL_OUTPUTS] != NULL};
    int64_t step, count = INT64_MAX;
    if (wanted != NULL && (!lki_text_is_int(wanted, &count) || count < 1))
        return lks_fail(LKS_E_INVALID, "--count is '%.60s', expected an integer of at least 1",
                        wanted);
    lks_status status = read_format(&p.format, cli, config);
    if (status == LKS_OK) status = lki_session_open_shape(session, config);
    if (status == LKS_OK && session->info.classes == 0)
        return lks_fail(LKS_E_UNSUPPORTED, "predict prints classes, but this data has none");
    if (status == LKS_OK && images != NULL) status = use_images(session, images);
    if (status == LKS_OK && session->test == NULL)
        return lks_fail(LKS_E_IO, "no test set is at hand; give --data DIR or --images FILE");
    if (status == LKS_OK) status = lki_session_compile(session, 0);
    if (status == LKS_OK) status = session_load(session, cli, &step);
    lks_loader *loader = NULL;
    if (status == LKS_OK) status = lki_session_loader(&loader, session, session->test, false);
    if (status == LKS_OK) {
        const int64_t samples = lks_dataset_get_info(session->test).samples;
        status = predict(&p, session, loader, count < samples ? count : samples);
    }
    lks_loader_destroy(loader);
    return status;
}

lks_status verb_predict(const cli_args *cli, int *code)
{
    (void)code;
    return session_run(cli, predict_run);
}
