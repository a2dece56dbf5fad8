#include "cli/recipe/session.h"

#include <inttypes.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include "cli/recipe/dataset.h"

static void session_log_line(void *user, lks_log_level level, const char *line)
{
    (void)user;
    (void)level;
    say_error("%s", line);
}

/* The first `key` samples of a split, where the configuration limits them. */
static lks_status session_limit(lks_dataset **used, lks_dataset **slice, const cli_config *config,
                                lks_dataset *whole, config_key key)
{
    const int64_t samples = lks_dataset_get_info(whole).samples;
    *used = whole;
    if (!config_has(config, key) || config_int(config, key) == samples) return LKS_OK;
    if (config_int(config, key) > samples)
        return config_fail(config, key, "is %lld, but there %s only %lld sample%s",
                           (long long)config_int(config, key), samples == 1 ? "is" : "are",
                           (long long)samples, TEXT_S(samples));
    const lks_status status = lks_dataset_slice(slice, whole, 0, config_int(config, key));
    *used = *slice;
    return status;
}

/* Holds samples back for validation. */
static lks_status session_split(cli_session *s)
{
    const cli_config *config = s->config;
    const bool by_fraction = config_has(config, KEY_VALIDATION_FRACTION);
    const config_key key = by_fraction ? KEY_VALIDATION_FRACTION : KEY_VALIDATION_SAMPLES;
    if (!config_has(config, key)) return LKS_OK;
    lks_dataset *limited = s->train;
    const int64_t samples = lks_dataset_get_info(limited).samples;
    const int64_t held = by_fraction ? (int64_t)(config_float(config, key) * (double)samples)
                                     : config_int(config, key);
    if (held < 1 || held >= samples)
        return config_fail(config, key,
                           "would hold back %lld of %lld sample%s, expected at least 1 and not all",
                           (long long)held, (long long)samples, TEXT_S(samples));
    /* Of the limited part, which stays open beneath; where there is none, of the whole. */
    s->limited = s->slice[0];
    s->slice[0] = NULL;
    lks_status status;
    if (config_bool(config, KEY_VALIDATION_SHUFFLE)) {
        status = lks_dataset_split(&s->slice[0], &s->slice[1], limited, held);
    } else {
        status = lks_dataset_slice(&s->slice[0], limited, 0, samples - held);
        if (status == LKS_OK)
            status = lks_dataset_slice(&s->slice[1], limited, samples - held, held);
    }
    s->train = s->slice[0];
    s->valid = s->slice[1];
    return status;
}

/* data.classes may be more than the labels say, never less. */
static lks_status session_settle_classes(cli_session *s)
{
    const cli_config *config = s->config;
    if (!config_has(config, KEY_DATA_CLASSES)) return LKS_OK;
    const int64_t classes = config_int(config, KEY_DATA_CLASSES);
    if (s->info.classes > classes)
        return config_fail(config, KEY_DATA_CLASSES, "is %lld, but there are labels up to %lld",
                           (long long)classes, (long long)s->info.classes - 1);
    s->info.classes = classes;
    return LKS_OK;
}

static lks_status settle_info(cli_session *s)
{
    if (s->train != NULL) s->info = lks_dataset_get_info(s->train);
    if (s->test != NULL) {
        const lks_dataset_info test = lks_dataset_get_info(s->test);
        if (s->train != NULL &&
            (!dataset_same_shape(&s->info.shape, &test.shape) || s->info.dtype != test.dtype))
            return lks_fail(LKS_E_FORMAT, "samples of %s and %s have different shapes",
                            lks_dataset_name(s->train), lks_dataset_name(s->test));
        if (s->train == NULL) s->info = test;
    }
    return session_settle_classes(s);
}

lks_status session_begin(cli_session *out, cli_config *config)
{
    const lks_context_opts opts = {
        .device = config_text(config, KEY_TRAIN_DEVICE),
        .seed = (uint64_t)config_int(config, KEY_TRAIN_SEED),
        .log = session_log_line,
        .log_level = config_bool(config, KEY_LOG_VERBOSE) ? LKS_LOG_DEBUG : LKS_LOG_WARN};
    *out = (cli_session){.config = config};
    return lks_context_create(&out->context, &opts);
}

lks_status session_open(cli_session *out, cli_config *config, int data)
{
    lks_status status = out->context != NULL ? LKS_OK : session_begin(out, config);
    if (status == LKS_OK && (data & SESSION_TRAIN) != 0) {
        status = dataset_open(&out->whole[0], config, out->context, false);
        if (status == LKS_OK)
            status = session_limit(&out->train, &out->slice[0], config, out->whole[0],
                                   KEY_DATA_SAMPLES);
        if (status == LKS_OK) status = session_split(out);
    }
    const bool wanted = (data & SESSION_TEST) != 0 &&
                        (data == SESSION_TEST || dataset_has_test(config));
    if (status == LKS_OK && wanted) {
        status = dataset_open(&out->whole[1], config, out->context, true);
        if (status == LKS_OK)
            status = session_limit(&out->test, &out->slice[2], config, out->whole[1],
                                   KEY_DATA_TEST_SAMPLES);
    }
    return status == LKS_OK ? settle_info(out) : status;
}

lks_status session_open_shape(cli_session *out, cli_config *config)
{
    const int data = dataset_has_test(config) ? SESSION_TEST : SESSION_TRAIN;
    const lks_status status = session_open(out, config, data);
    const dataset_known *known = dataset_find(config_text(config, KEY_DATA_NAME));
    if (status != LKS_E_IO || known == NULL || out->context == NULL) return status;
    say_error("data set '%s' is not here; its shape is known", known->name);
    out->info = known->info;
    return session_settle_classes(out);
}

lks_status session_compile(cli_session *session, int workers)
{
    const cli_config *config = session->config;
    lks_model_destroy(session->model);
    lks_graph_destroy(session->graph);
    session->model = NULL;
    session->graph = NULL;
    lks_status status = lks_graph_create(&session->graph, session->context);
    if (status == LKS_OK)
        status = network_build(&session->network, session->config, session->graph, &session->info);
    if (status != LKS_OK) return status;
    if (workers == 0 && config_has(config, KEY_TRAIN_WORKERS))
        workers = (int)config_int(config, KEY_TRAIN_WORKERS);
    lks_model_opts opts = {
        .loss = session->network.loss,
        .output = session->network.output,
        .global_batch = config_int(config, KEY_TRAIN_BATCH_SIZE),
        .replicas = (int)config_int(config, KEY_TRAIN_REPLICAS),
        .accumulate = (int)config_int(config, KEY_TRAIN_ACCUMULATE),
        .workers = workers,
        .hash_every = (int)config_int(config, KEY_TRAIN_HASH_EVERY),
    };
    status = session_update(&opts, session->config);
    if (status == LKS_OK) status = lks_model_compile(&session->model, session->graph, &opts);
    if (status == LKS_OK && opts.ema_decay > 0)
        status = lks_model_use_averages(session->model,
                                        config_bool(config, KEY_TRAIN_EMA_EVALUATE));
    return status;
}

/* Whether a run ends with its best weights, by the configuration in its record. */
static bool restores_best(const lks_run *run)
{
    json_t *config = run->config != NULL ? json_loads(run->config, 0, NULL) : NULL;
    const json_t *section = json_object_get(config, "validation");
    const bool restores = json_is_integer(json_object_get(section, "patience")) &&
                          json_is_true(json_object_get(section, "restore_best"));
    json_decref(config);
    return restores;
}

/* From the newest step of a folder to the one that is wanted. */
static lks_status choose_step(int64_t *step, cli_session *session, const cli_args *cli,
                              const char *folder)
{
    lks_run run, best;
    if (cli->local[LOCAL_LAST] != NULL) return LKS_OK;
    lks_status status = lks_checkpoint_load(session->context, NULL, &run, folder, *step);
    if (status != LKS_OK) return status;
    const bool asked = cli->local[LOCAL_BEST] != NULL, wanted = asked || restores_best(&run);
    const int64_t newest = *step, found = run.best_step;
    lks_run_clear(&run);
    if (wanted && found >= 0) {
        status = lks_checkpoint_load(session->context, NULL, &best, folder, found);
        lks_run_clear(&best);
        if (status != LKS_E_IO) *step = found;
        if (status == LKS_OK || !asked) return LKS_OK;
        return lks_fail(status,
                        "the best loss of the run in %.200s was after step %" PRId64
                        ", which has no checkpoint; --last takes the newest, of step %" PRId64,
                        folder, found, newest);
    }
    if (!asked || found >= 0) return LKS_OK;
    return lks_fail(LKS_E_IO,
                    "the run in %.200s has no best loss: nothing has been evaluated until step "
                    "%" PRId64 "; --last takes that step's checkpoint",
                    folder, newest);
}

lks_status session_load(cli_session *session, const cli_args *cli, int64_t *step)
{
    const char *file = config_text(session->config, KEY_MODEL_INIT);
    const char *folder = config_text(session->config, KEY_CHECKPOINT_PATH);
    const bool best = cli->local[LOCAL_BEST] != NULL, last = cli->local[LOCAL_LAST] != NULL;
    *step = -1;
    if (best && last)
        return lks_fail(LKS_E_INVALID, "--best and --last name two checkpoints; drop one");
    if ((best || last) && (file != NULL || folder == NULL))
        return lks_fail(LKS_E_INVALID, "--%s is about a folder of checkpoints: give --out DIR%s",
                        best ? "best" : "last", file != NULL ? ", and no --init" : "");
    if (file != NULL) return lks_weights_load(session->model, file);
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID, "no weights; give --init FILE (a safetensors file), or "
                                       "--out DIR (a folder of checkpoints)");
    lks_status status = lks_checkpoint_find(folder, step);
    if (status == LKS_OK && *step < 0)
        return lks_fail(LKS_E_IO, "there is no checkpoint in %.300s; train with --out first",
                        folder);
    if (status == LKS_OK) status = choose_step(step, session, cli, folder);
    lks_run run = {0};
    if (status == LKS_OK)
        status = lks_checkpoint_load(session->context, session->model, &run, folder, *step);
    if (status == LKS_OK) lks_run_clear(&run);
    return status;
}

void session_close(cli_session *session)
{
    lks_model_destroy(session->model);
    lks_graph_destroy(session->graph);
    for (int i = 0; i < 3; i++) lks_dataset_destroy(session->slice[i]);
    lks_dataset_destroy(session->limited);
    for (int i = 0; i < 2; i++) lks_dataset_destroy(session->whole[i]);
    lks_context_destroy(session->context);
    *session = (cli_session){0};
}

lks_status session_run(const cli_args *cli,
                       lks_status (*body)(const cli_args *cli, cli_config *config,
                                          cli_session *session))
{
    cli_config *config;
    cli_session session = {0};
    lks_status status = cli_configure(&config, cli, cli->operand[0]);
    if (status == LKS_OK && cli->local[LOCAL_PRINT_CONFIG] != NULL)
        config_print(config, stdout);
    else if (status == LKS_OK)
        status = body(cli, config, &session);
    session_close(&session);
    config_destroy(config);
    return status;
}

lks_status session_loader(lks_loader **out, const cli_session *session, lks_dataset *dataset,
                          bool training)
{
    const cli_config *config = session->config;
    const int threads = (int)config_int(config, KEY_DATA_THREADS);
    const lks_loader_opts opts = {
        .global_batch = config_int(config,
                                   training ? KEY_TRAIN_BATCH_SIZE : KEY_TRAIN_TEST_BATCH_SIZE),
        .in_order = !training || !config_bool(config, KEY_DATA_SHUFFLE),
        .drop_last = training && config_bool(config, KEY_DATA_DROP_LAST),
        .threads = threads > 0 ? threads : -1,
        .ahead = (int)config_int(config, KEY_DATA_AHEAD),
    };
    return lks_loader_create(out, session->context, dataset, &opts);
}
