/* lockstep predict */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "dataset.h"
#include "session.h"
#include "text.h"

/* Outputs are logits or log-probabilities: softmax makes both probabilities. */
static double probability(const float *output, int64_t count, int64_t *best)
{
    double sum = 0;
    *best = 0;
    for (int64_t i = 1; i < count; i++)
        if (output[i] > output[*best]) *best = i;
    for (int64_t i = 0; i < count; i++) sum += exp((double)output[i] - (double)output[*best]);
    return 1 / sum;
}

static void print_sample(int64_t id, int64_t class, double share, const int32_t *label, bool json)
{
    if (!json) {
        printf("%lld\t%lld\t%.6f", (long long)id, (long long)class, share);
        if (label != NULL) printf("\t%d", (int)*label);
        putchar('\n');
        return;
    }
    json_t *line = json_pack("{s:I, s:I, s:o}", "sample", (json_int_t)id, "class",
                             (json_int_t) class, "probability", text_json_real(share));
    if (label != NULL) json_object_set_new(line, "label", json_integer(*label));
    text_print_json(stdout, line, 0);
    putchar('\n');
    json_decref(line);
}

static lks_status predict(const cli_session *session, lks_loader *loader, int64_t count,
                          bool labels, bool json)
{
    const lks_shape shape = lks_tensor_shape(session->network.output);
    const int64_t width = lks_shape_elements(&shape);
    const int64_t batch_size = config_int(session->config, KEY_TRAIN_TEST_BATCH_SIZE);
    float *output = malloc((size_t)(batch_size * width) * sizeof *output);
    if (output == NULL)
        return lks_fail(LKS_E_NOMEM,
                        "no memory for the outputs of %lld samples; choose a smaller "
                        "test batch",
                        (long long)batch_size);
    lks_status status = LKS_OK;
    while (count > 0 && status == LKS_OK) {
        lks_batch batch;
        status = lks_loader_next(loader, &batch);
        if (status != LKS_OK) break;
        const int64_t some = batch.count < count ? batch.count : count;
        status = lks_model_predict(session->model, batch.x, some, output);
        for (int64_t i = 0; i < some && status == LKS_OK; i++) {
            int64_t class;
            const double share = probability(output + i * width, width, &class);
            const int32_t *label = labels ? (const int32_t *)batch.y + i : NULL;
            print_sample(batch.ids[i], class, share, label, json);
        }
        count -= some;
    }
    free(output);
    return status;
}

/* --images: a file of images without labels, instead of the test set. */
static lks_status use_images(cli_session *session, const char *images)
{
    const lks_dataset_info wanted = session->info;
    lks_dataset *other;
    const lks_status status = lks_dataset_open_idx(&other, session->context, images, NULL,
                                                   wanted.classes);
    if (status != LKS_OK) return status;
    lks_dataset_destroy(session->slice[2]);
    session->slice[2] = session->test = other;
    const lks_dataset_info found = lks_dataset_get_info(other);
    if (dataset_same_shape(&found.shape, &wanted.shape)) return LKS_OK;
    return lks_fail(LKS_E_SHAPE,
                    "samples of %s have another shape than the data of the "
                    "configuration",
                    images);
}

static lks_status run(const cli_args *cli, cli_config *config, cli_session *session)
{
    const char *images = cli->local[LOCAL_IMAGES], *wanted = cli->local[LOCAL_COUNT];
    const bool json = strcmp(config_text(config, KEY_LOG_FORMAT), "json") == 0;
    int64_t step, count = INT64_MAX;
    if (wanted != NULL && (!text_is_int(wanted, &count) || count < 1))
        return lks_fail(LKS_E_INVALID, "--count is '%.60s', expected an integer of at least 1",
                        wanted);
    lks_status status = session_open_shape(session, config);
    if (status == LKS_OK && session->info.classes == 0)
        return lks_fail(LKS_E_UNSUPPORTED, "predict prints classes, but this data has none");
    if (status == LKS_OK && images != NULL) status = use_images(session, images);
    if (status == LKS_OK && session->test == NULL)
        return lks_fail(LKS_E_IO, "no test set is at hand; give --data DIR or --images FILE");
    if (status == LKS_OK) status = session_compile(session, 0);
    if (status == LKS_OK) status = session_load(session, cli, &step);
    lks_loader *loader = NULL;
    if (status == LKS_OK) status = session_loader(&loader, session, session->test, false);
    if (status == LKS_OK) {
        const int64_t samples = lks_dataset_get_info(session->test).samples;
        if (!json) printf("sample\tclass\tprobability%s\n", images == NULL ? "\tlabel" : "");
        status = predict(session, loader, count < samples ? count : samples, images == NULL, json);
    }
    lks_loader_destroy(loader);
    return status;
}

lks_status verb_predict(const cli_args *cli, int *code)
{
    (void)code;
    return session_run(cli, run);
}
