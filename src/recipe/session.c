#include "recipe/session.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/shape.h"
#include "recipe/data/augment.h"
#include "recipe/data/published.h"
#include "recipe/data/source.h"

/* data.classes may be more than the labels say, never less. */
static lks_status session_settle_classes(lki_session *s)
{
    const lki_config *config = s->config;
    const bool numbers = s->info.classes == 0 && s->info.target_shape.ndim > 0;
    if (numbers || !lki_config_has(config, LKI_KEY_DATA_CLASSES)) return LKS_OK;
    const int64_t classes = lki_config_int(config, LKI_KEY_DATA_CLASSES);
    if (s->info.classes > classes)
        return lki_config_fail(config, LKI_KEY_DATA_CLASSES,
                               "is %lld, but there are labels up to %lld", (long long)classes,
                               (long long)s->info.classes - 1);
    s->info.classes = classes;
    return LKS_OK;
}

static lks_status compare_splits(const lki_session *s, const lks_dataset_info *test)
{
    char shape[2][80];
    const bool shapes = !lki_shape_equal(&s->info.shape, &test->shape);
    if (!shapes && s->info.dtype == test->dtype) return LKS_OK;
    return LKI_FAIL(
        LKS_E_FORMAT,
        "training samples (%.200s) are %s, but test samples (%.200s) are %s, expected one %s; "
        "'lockstep data check' looks at the files",
        lks_dataset_name(s->train),
        shapes ? lki_shape_print(&s->info.shape, shape[0], sizeof shape[0])
               : lks_dtype_name(s->info.dtype),
        lks_dataset_name(s->test),
        shapes ? lki_shape_print(&test->shape, shape[1], sizeof shape[1])
               : lks_dtype_name(test->dtype),
        shapes ? "shape" : "type");
}

static lks_status settle_info(lki_session *s)
{
    if (s->train != NULL) s->info = lks_dataset_get_info(s->train);
    if (s->test != NULL) {
        const lks_dataset_info test = lks_dataset_get_info(s->test);
        if (s->train != NULL) LKI_TRY(compare_splits(s, &test));
        if (s->train == NULL) s->info = test;
    }
    if (s->train != NULL) LKI_TRY(lki_augment_read(s->config, &s->info, NULL));
    s->vocabulary_hash = lks_tokenizer_hash(
        lks_dataset_tokenizer(s->test != NULL ? s->test : s->train));
    return session_settle_classes(s);
}

lks_status lki_session_begin(lki_session *out, lki_config *config)
{
    const lks_context_opts opts = {
        .device = lki_config_text(config, LKI_KEY_TRAIN_DEVICE),
        .seed = (uint64_t)lki_config_int(config, LKI_KEY_TRAIN_SEED),
        .log = out->log,
        .log_user = out->log_user,
        .log_level = lki_config_bool(config, LKI_KEY_LOG_VERBOSE) ? LKS_LOG_DEBUG : LKS_LOG_INFO};
    out->config = config;
    return lks_context_create(&out->context, &opts);
}

lks_status lki_session_open(lki_session *out, lki_config *config, int data)
{
    lks_status status = LKS_OK;
    if (out->context == NULL) /* nobody may be missing when shards are measured */
        status = lks_comm_agree(out->comm, lki_session_begin(out, config));
    if (status == LKS_OK && (data & LKI_SESSION_TRAIN) != 0) {
        status = lki_source_open(&out->whole[0], config, out->context, false, NULL, out->comm);
        if (status == LKS_OK) status = lki_parts_cut(&out->parts, config, out->whole[0]);
        out->train = out->parts.train;
        out->valid = out->parts.valid;
        if (status == LKS_OK) status = lki_source_open_valid(&out->whole[2], config, out->context);
        if (out->whole[2] != NULL) out->valid = out->whole[2];
    }
    const bool wanted = (data & LKI_SESSION_TEST) != 0 &&
                        (data == LKI_SESSION_TEST || lki_source_has_test(config));
    if (status == LKS_OK && wanted) {
        status = lki_source_open(&out->whole[1], config, out->context, true, out->whole[0],
                                 out->comm);
        if (status == LKS_OK)
            status = lki_parts_limit(&out->test, &out->tested, config, out->whole[1],
                                     LKI_KEY_DATA_TEST_SAMPLES);
    }
    return status == LKS_OK ? settle_info(out) : status;
}

lks_status lki_session_open_shape(lki_session *out, lki_config *config)
{
    const int data = lki_source_has_test(config) ? LKI_SESSION_TEST : LKI_SESSION_TRAIN;
    const lks_status status = lki_session_open(out, config, data);
    const lki_published *known = lki_published_find(lki_config_text(config, LKI_KEY_DATA_NAME));
    if (status != LKS_E_IO || known == NULL || out->context == NULL) return status;
    if (out->log != NULL)
        out->log(out->log_user, LKS_LOG_WARN,
                 lki_heap_format(&config->heap, "data set '%s' is not here; its shape is known",
                                 known->name));
    out->info = known->info;
    return session_settle_classes(out);
}

lks_status lki_session_open_like(lki_session *out, lki_config *config, const lks_dataset_info *info)
{
    if (out->context == NULL) LKI_TRY(lki_session_begin(out, config));
    out->info = *info;
    return session_settle_classes(out);
}

static lks_shard shard_of(const lki_config *config)
{
    const char *text = lki_config_text(config, LKI_KEY_TRAIN_SHARD);
    return strcmp(text, "true") == 0    ? LKS_SHARD_ON
           : strcmp(text, "false") == 0 ? LKS_SHARD_OFF
                                        : LKS_SHARD_AUTO;
}

static lks_exchange exchange_of(const lki_config *config)
{
    if (strcmp(lki_config_text(config, LKI_KEY_TRAIN_COMM), "none") == 0) return LKS_EXCHANGE_NONE;
    return lki_config_bool(config, LKI_KEY_TRAIN_OVERLAP) ? LKS_EXCHANGE_OVERLAPPED
                                                          : LKS_EXCHANGE_AFTER;
}

static lks_kernel_opts kernels_of(const lki_config *config)
{
    const char *text = lki_config_text(config, LKI_KEY_KERNELS_WINOGRAD);
    const char *dtype = lki_config_text(config, LKI_KEY_TRAIN_DTYPE);
    return (lks_kernel_opts){.winograd = strcmp(text, "off") == 0  ? LKS_WINOGRAD_OFF
                                         : strcmp(text, "f2") == 0 ? LKS_WINOGRAD_F2
                                         : strcmp(text, "f4") == 0 ? LKS_WINOGRAD_F4
                                                                   : LKS_WINOGRAD_AUTO,
                             .single = !lki_config_bool(config, LKI_KEY_KERNELS_FUSE),
                             .all_terms = !lki_config_bool(config, LKI_KEY_KERNELS_SKIP_ZEROS),
                             .bf16 = strcmp(dtype, "bf16") == 0,
                             .f16 = strcmp(dtype, "f16") == 0,
                             .bf16_storage = strcmp(dtype, "bf16_storage") == 0};
}

/* The weight of this process; alone it has all there is. */
static lks_status read_balance(lks_model_opts *opts, const lki_session *session)
{
    const int processes = lks_comm_size(session->comm);
    const lki_setting *balance = &session->config->value[LKI_KEY_TRAIN_BALANCE];
    if (!balance->set) return LKS_OK;
    if (balance->count == 0 && strcmp(balance->s, "auto") == 0) opts->balance = LKS_BALANCE_AUTO;
    if (balance->count == 0 || processes == 1) return LKS_OK;
    if (balance->count != processes)
        return lki_config_fail(session->config, LKI_KEY_TRAIN_BALANCE,
                               "has %d weight%s, but there are %d processes; give one for each",
                               balance->count, balance->count == 1 ? "" : "s", processes);
    opts->weight = balance->floats[lks_comm_rank(session->comm)];
    return LKS_OK;
}

lks_status lki_session_compile(lki_session *session, int workers)
{
    const lki_config *config = session->config;
    lks_model_destroy(session->model);
    lks_graph_destroy(session->graph);
    session->model = NULL;
    session->graph = NULL;
    lks_status status = lks_graph_create(&session->graph, session->context);
    if (status == LKS_OK)
        status = lki_network_build(&session->network, session->config, session->graph,
                                   &session->info);
    LKI_TRY(lks_comm_agree(session->comm, status)); /* nobody may be missing when it is compiled */
    if (workers == 0 && lki_config_has(config, LKI_KEY_TRAIN_WORKERS))
        workers = (int)lki_config_int(config, LKI_KEY_TRAIN_WORKERS);
    lks_model_opts opts = {
        .loss = session->network.loss,
        .output = session->network.output,
        .global_batch = lki_config_int(config, LKI_KEY_TRAIN_BATCH_SIZE),
        .replicas = (int)lki_config_int(config, LKI_KEY_TRAIN_REPLICAS),
        .accumulate = (int)lki_config_int(config, LKI_KEY_TRAIN_ACCUMULATE),
        .workers = workers,
        .comm = session->comm,
        .exchange = exchange_of(config),
        .shard = shard_of(config),
        .reduction = strcmp(lki_config_text(config, LKI_KEY_TRAIN_REDUCTION), "library") == 0
                         ? LKS_REDUCTION_LIBRARY
                         : LKS_REDUCTION_STRICT,
        .hash_every = (int)lki_config_int(config, LKI_KEY_TRAIN_HASH_EVERY),
        .kernels = kernels_of(config),
        .recompute = strcmp(lki_config_text(config, LKI_KEY_TRAIN_RECOMPUTE), "blocks") == 0,
        .mirror = lki_config_bool(config, LKI_KEY_VALIDATION_FLIP),
    };
    if (lki_config_has(config, LKI_KEY_TRAIN_AVERAGE_EVERY))
        opts.average_every = (int)lki_config_int(config, LKI_KEY_TRAIN_AVERAGE_EVERY);
    if (lki_config_has(config, LKI_KEY_TRAIN_BUCKET_BYTES))
        opts.bucket_bytes = (size_t)lki_config_int(config, LKI_KEY_TRAIN_BUCKET_BYTES);
    status = read_balance(&opts, session);
    if (status == LKS_OK) status = lki_session_update(&opts, session->config);
    status = lks_comm_agree(session->comm, status);
    if (status == LKS_OK) status = lks_model_compile(&session->model, session->graph, &opts);
    if (status == LKS_OK && opts.ema_decay > 0)
        status = lks_model_use_averages(session->model,
                                        lki_config_bool(config, LKI_KEY_TRAIN_EMA_EVALUATE));
    return status;
}

void lki_session_drop(lki_session *session)
{
    lks_model_destroy(session->model);
    lks_graph_destroy(session->graph);
    lks_dataset_destroy(session->tested);
    lki_parts_close(&session->parts);
    for (int i = 0; i < 3; i++) lks_dataset_destroy(session->whole[i]);
    *session = (lki_session){.log = session->log,
                             .log_user = session->log_user,
                             .config = session->config,
                             .comm = session->comm,
                             .context = session->context};
}

void lki_session_close(lki_session *session)
{
    lki_session_drop(session);
    lks_context_destroy(session->context);
    *session = (lki_session){0};
}

/* One for each of the model's workers, so that reading takes of all cores alike, and no worker comes late to where all
 * meet; fewer where little is read. */
static int reading_threads(const lki_session *session, const lks_loader_opts *opts,
                           const lks_dataset_info *info)
{
    enum { LEAST_BYTES = 1 << 16, MOST = 64 }; /* of a thread's part of a batch; of threads */
    const int64_t sample = lks_shape_elements(&info->shape) * (int64_t)lks_dtype_size(info->dtype);
    int64_t threads = lks_model_get_info(session->model).workers;
    int64_t count = opts->global_batch < info->samples ? opts->global_batch : info->samples;
    if (opts->shares > 0) count = count * (opts->last_share - opts->first_share) / opts->shares;
    const int64_t most = count * sample / LEAST_BYTES;
    if (threads > most) threads = most;
    return threads < 1 ? 1 : threads > MOST ? MOST : (int)threads;
}

lks_status lki_session_loader(lks_loader **out, const lki_session *session, lks_dataset *dataset,
                              lki_purpose purpose)
{
    const lki_config *config = session->config;
    const bool training = purpose == LKI_FOR_TRAINING;
    const lks_dataset_info data = lks_dataset_get_info(dataset);
    lks_loader_opts opts = {
        .global_batch = lki_config_int(config, training ? LKI_KEY_TRAIN_BATCH_SIZE
                                                        : LKI_KEY_TRAIN_TEST_BATCH_SIZE),
        .in_order = !training || !lki_config_bool(config, LKI_KEY_DATA_SHUFFLE),
        .drop_last = training && lki_config_bool(config, LKI_KEY_DATA_DROP_LAST),
        .ahead = (int)lki_config_int(config, LKI_KEY_DATA_AHEAD),
    };
    if (training) LKI_TRY(lki_augment_read(session->config, NULL, &opts));
    if (purpose == LKI_FOR_TESTING && data.columns > 1) opts.global_batch = data.columns;
    if (lks_comm_size(session->comm) > 1 && purpose != LKI_FOR_LOOKING) {
        const lks_model_info info = lks_model_get_info(session->model);
        opts.shares = info.shares;
        opts.first_share = info.first_share;
        opts.last_share = info.last_share;
    }
    opts.threads = lki_config_has(config, LKI_KEY_DATA_THREADS)
                       ? (int)lki_config_int(config, LKI_KEY_DATA_THREADS)
                       : reading_threads(session, &opts, &data);
    if (opts.threads == 0) opts.threads = -1;
    return lks_loader_create(out, session->context, dataset, &opts);
}
