/* Every pointer of every public function as NULL: a documented answer (context.h), no crash. A function
 * that takes a pointer and that neither this file nor those of OTHERS names fails the last test. */
#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "support/test.h"

enum { WIDTH = 4, CLASSES = 3, BATCH = 4 };

static const float X[BATCH * WIDTH] = {1, 2, 3, 4, 4, 3, 2, 1, 1, 0, 1, 0, 0, 1, 0, 1};
static const int32_t Y[BATCH] = {0, 1, 2, 0};
static const lks_batch SAMPLES = {.x = X, .y = Y, .count = BATCH};
static const lks_dataset_info INFO = {.samples = BATCH, .shape = {1, {WIDTH}}, .classes = CLASSES};

static lks_context *context;
static lks_graph *graph;
static lks_tensor *x, *y, *logits, *loss;
static lks_model *model;
static lks_dataset *data;
static lks_loader *loader;
static char path[4300], folder[4200];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", lkt_make_folder());
    snprintf(path, sizeof path, "%s/file", folder);
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = "ref"}));
    LKT_OK(lks_graph_create(&graph, context));
    x = lks_input(graph, &(lks_input_opts){.shape = {1, {WIDTH}}});
    y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    logits = lks_dense(graph, x, &(lks_dense_opts){.name = "fc", .units = CLASSES});
    loss = lks_cross_entropy(graph, logits, y, NULL);
    LKT_OK(lks_model_compile(&model, graph,
                             &(lks_model_opts){.loss = loss, .global_batch = BATCH, .workers = 1}));
    LKT_OK(lks_dataset_from_arrays(&data, context, &INFO, X, Y));
    LKT_OK(lks_loader_create(&loader, context, data, &(lks_loader_opts){.global_batch = BATCH}));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lks_loader_destroy(loader);
    lks_dataset_destroy(data);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    lkt_remove_folder();
    return 0;
}

/* Refused as an argument, with a sentence. */
#define REFUSES(expression) LKT_FAILS(LKS_E_INVALID, "", expression)

static void of_contexts(void **state)
{
    lks_context *other;
    (void)state;
    REFUSES(lks_context_create(NULL, NULL));
    LKT_OK(lks_context_create(&other, NULL));
    lks_context_destroy(other);
    lks_context_destroy(NULL);
    assert_string_equal(lks_context_device(NULL), "");
    assert_int_equal(lks_context_seed(NULL), 0);
    assert_string_equal(lks_context_fingerprint(NULL), "");
    assert_true(lks_machine_get(NULL).cpus > 0);
    lks_libraries(NULL, 10);
    REFUSES(lks_file_write(NULL, "a", 1));
    REFUSES(lks_file_write(path, NULL, 1));
    LKT_OK(lks_file_write(path, NULL, 0));
    REFUSES(lks_file_update(NULL, "a", 1));
    REFUSES(lks_file_update(path, NULL, 1));
    LKT_OK(lks_file_update(path, NULL, 0));
    REFUSES(lks_file_try(NULL));
    assert_int_equal(lks_shape_elements(NULL), 0);
    assert_int_equal(lks_tensor_shape(NULL).ndim, 0);
    assert_int_equal(lks_tensor_dtype(NULL), LKS_F32);
    assert_string_equal(lks_tensor_name(NULL), "");
}

static lks_status say_nothing(const char *format)
{
    return lks_fail(LKS_E_IO, format, 1);
}

static void of_sentences(void **state)
{
    (void)state;
    assert_int_equal(say_nothing(NULL), LKS_E_IO);
    assert_string_equal(lks_last_error()->message, lks_status_text(LKS_E_IO));
}

static lks_status read_sample(void *user, int64_t index, void *to_x, void *to_y)
{
    (void)user, (void)index;
    memcpy(to_x, X, WIDTH * sizeof *X);
    memcpy(to_y, Y, sizeof *Y);
    return LKS_OK;
}

static void of_data_sets(void **state)
{
    const lks_dataset_ops ops = {.info = INFO, .read = read_sample};
    lks_dataset *out, *other;
    lks_idx_info idx;
    lks_pack_result packed;
    const lks_pack_opts pack = {.width = 8, .height = 8};
    uint64_t hash;
    float values[WIDTH];
    int32_t label;
    (void)state;
    REFUSES(lks_dataset_create(NULL, context, "a", &ops, NULL));
    REFUSES(lks_dataset_create(&out, context, "a", NULL, NULL));
    LKT_OK(lks_dataset_create(&out, NULL, NULL, &ops, NULL));
    LKT_OK(lks_dataset_hash(out, &hash));
    lks_dataset *rest, *held;
    LKT_OK(lks_dataset_split(&rest, &held, out, 1)); /* the seed of no context is 0 */
    lks_dataset_destroy(rest);
    lks_dataset_destroy(held);
    lks_dataset_destroy(out);
    REFUSES(lks_dataset_from_arrays(NULL, context, &INFO, X, Y));
    REFUSES(lks_dataset_from_arrays(&out, context, NULL, X, Y));
    REFUSES(lks_dataset_from_arrays(&out, context, &INFO, NULL, Y));
    REFUSES(lks_dataset_from_arrays(&out, context, &INFO, X, NULL));
    LKT_OK(lks_dataset_from_arrays(&out, NULL, &INFO, X, Y));
    lks_dataset_destroy(out);
    REFUSES(lks_dataset_open_idx(NULL, context, path, NULL, 0));
    REFUSES(lks_dataset_open_idx(&out, context, NULL, NULL, 0));
    REFUSES(lks_dataset_open_npy(NULL, context, path, NULL, 0));
    REFUSES(lks_dataset_open_npy(&out, context, NULL, NULL, 0));
    REFUSES(lks_dataset_open_pictures(NULL, context, path, &LKS_SHAPE(1, 1, 3), 0));
    REFUSES(lks_dataset_open_pictures(&out, context, NULL, &LKS_SHAPE(1, 1, 3), 0));
    REFUSES(lks_dataset_open_pictures(&out, context, path, NULL, 0));
    LKT_FAILS(LKS_E_IO, "", lks_dataset_open_idx(&out, NULL, path, NULL, 0));
    REFUSES(lks_idx_check(NULL, context, path, 0));
    REFUSES(lks_idx_check(&idx, context, NULL, 0));
    LKT_FAILS(LKS_E_IO, "", lks_idx_check(&idx, NULL, path, 0));
    REFUSES(lks_pack_pictures(NULL, context, path, &pack));
    REFUSES(lks_pack_pictures(&packed, context, NULL, &pack));
    REFUSES(lks_pack_pictures(&packed, context, path, NULL));
    REFUSES(lks_pack_pictures(&packed, context, path, &pack)); /* no folder */
    REFUSES(lks_dataset_open_folder(NULL, context, folder, false, 0));
    LKT_FAILS(LKS_E_IO, "", lks_dataset_open_folder(&out, NULL, NULL, false, 0));
    REFUSES(lks_dataset_open_mnist(NULL, context, folder, false));
    LKT_FAILS(LKS_E_IO, "", lks_dataset_open_mnist(&out, NULL, NULL, false));
    assert_false(lks_dataset_folder_has(NULL, true));
    assert_false(lks_idx_find(NULL, 10, folder, false, false, 0));
    assert_false(lks_idx_find(path, sizeof path, NULL, false, false, 0));
    REFUSES(lks_dataset_open_digits(NULL, context, NULL));
    LKT_OK(lks_dataset_open_digits(&out, NULL, NULL));
    lks_dataset_destroy(out);
    REFUSES(lks_dataset_slice(NULL, data, 0, 1));
    REFUSES(lks_dataset_slice(&out, NULL, 0, 1));
    REFUSES(lks_dataset_split(NULL, &other, data, 1));
    REFUSES(lks_dataset_split(&out, NULL, data, 1));
    REFUSES(lks_dataset_split(&out, &other, NULL, 1));
    REFUSES(lks_dataset_write_idx(NULL, path, "b"));
    REFUSES(lks_dataset_write_idx(data, NULL, path));
    REFUSES(lks_dataset_write_idx(data, path, NULL));
    lks_dataset_destroy(NULL);
    assert_int_equal(lks_dataset_get_info(NULL).samples, 0);
    assert_string_equal(lks_dataset_name(NULL), "");
    assert_int_equal(lks_dataset_position(NULL, 0), -1);
    assert_null(lks_dataset_class(NULL, 0));
    assert_null(lks_dataset_units(NULL));
    assert_null(lks_dataset_sample(NULL, 0));
    REFUSES(lks_dataset_read(NULL, 0, values, &label));
    REFUSES(lks_dataset_read(data, 0, NULL, &label));
    REFUSES(lks_dataset_read(data, 0, values, NULL));
    REFUSES(lks_dataset_hash(NULL, &hash));
    REFUSES(lks_dataset_hash(data, NULL));
}

static void of_loaders(void **state)
{
    lks_loader *out;
    lks_batch batch;
    (void)state;
    const lks_dataset_info info = lks_dataset_get_info(data);
    REFUSES(lks_augmentation_check(NULL, &info));
    REFUSES(lks_augmentation_check(&(lks_augmentation){0}, NULL));
    REFUSES(lks_loader_create(NULL, context, data, &(lks_loader_opts){.global_batch = 1}));
    REFUSES(lks_loader_create(&out, context, NULL, &(lks_loader_opts){.global_batch = 1}));
    REFUSES(lks_loader_create(&out, context, data, NULL)); /* a batch is required */
    LKT_OK(lks_loader_create(&out, NULL, data, &(lks_loader_opts){.global_batch = 1}));
    LKT_OK(lks_loader_next(out, &batch));
    lks_loader_destroy(out);
    lks_loader_destroy(NULL);
    assert_null(lks_loader_dataset(NULL));
    assert_int_equal(lks_loader_batches(NULL), 0);
    assert_false(lks_loader_continues(NULL));
    REFUSES(lks_loader_next(NULL, &batch));
    REFUSES(lks_loader_next(loader, NULL));
    REFUSES(lks_loader_seek(NULL, 0));
    REFUSES(lks_loader_share(NULL, 1, 0, 1));
}

static void of_graphs(void **state)
{
    lks_graph *out;
    (void)state;
    REFUSES(lks_graph_create(NULL, context));
    REFUSES(lks_graph_create(&out, NULL));
    lks_graph_destroy(NULL);
    REFUSES(lks_graph_status(NULL));
    REFUSES(lks_graph_sync_batch_norm(NULL, NULL));
    assert_null(lks_graph_fail(NULL, "of no graph"));
    LKT_OK(lks_graph_create(&out, context));
    const char *format = NULL;
    assert_null(lks_graph_fail(out, format, 1));
    REFUSES(lks_graph_status(out));
    lks_graph_destroy(out);
}

/* Builders of one input and no, or some, options: their calls with a graph, a tensor, options. */
typedef lks_tensor *(*builder)(lks_graph *g, lks_tensor *t, bool opts);

#define PLAIN(name)                                                                                \
    static lks_tensor *plain_##name(lks_graph *g, lks_tensor *t, bool opts)                        \
    {                                                                                              \
        (void)opts;                                                                                \
        return name(g, t);                                                                         \
    }
#define WITH_OPTS(name, type)                                                                      \
    static lks_tensor *plain_##name(lks_graph *g, lks_tensor *t, bool opts)                        \
    {                                                                                              \
        return name(g, t, opts ? &(type){0} : NULL);                                               \
    }
PLAIN(lks_global_avg_pool)
PLAIN(lks_relu)
PLAIN(lks_relu6)
PLAIN(lks_silu)
PLAIN(lks_tanh)
PLAIN(lks_sigmoid)
PLAIN(lks_softplus)
PLAIN(lks_log_softmax)
PLAIN(lks_flatten)
PLAIN(lks_sequence)
WITH_OPTS(lks_normalize, lks_normalize_opts)
WITH_OPTS(lks_conv2d, lks_conv2d_opts)
WITH_OPTS(lks_dense, lks_dense_opts)
WITH_OPTS(lks_embedding, lks_embedding_opts)
WITH_OPTS(lks_masking, lks_masking_opts)
WITH_OPTS(lks_position, lks_position_opts)
WITH_OPTS(lks_rnn, lks_recurrent_opts)
WITH_OPTS(lks_lstm, lks_recurrent_opts)
WITH_OPTS(lks_gru, lks_recurrent_opts)
WITH_OPTS(lks_batch_norm, lks_batch_norm_opts)
WITH_OPTS(lks_layer_norm, lks_layer_norm_opts)
WITH_OPTS(lks_rms_norm, lks_rms_norm_opts)
WITH_OPTS(lks_max_pool, lks_pool_opts)
WITH_OPTS(lks_avg_pool, lks_pool_opts)
WITH_OPTS(lks_leaky_relu, lks_leaky_relu_opts)
WITH_OPTS(lks_gelu, lks_gelu_opts)
WITH_OPTS(lks_scale, lks_scale_opts)
WITH_OPTS(lks_select, lks_select_opts)
WITH_OPTS(lks_dropout, lks_dropout_opts)
WITH_OPTS(lks_mlp, lks_mlp_opts)
WITH_OPTS(lks_mnist_cnn, lks_mnist_cnn_opts)
WITH_OPTS(lks_gpt, lks_transformer_opts)
WITH_OPTS(lks_encoder, lks_transformer_opts)
WITH_OPTS(lks_vit, lks_transformer_opts)
#define network(g, t, opts) lks_network(g, t, "resnet18", opts)
WITH_OPTS(network, lks_network_opts)
static lks_tensor *plain_block(lks_graph *g, lks_tensor *t, bool opts)
{
    return lks_transformer_block(g, t, t, opts ? &(lks_transformer_opts){0} : NULL);
}
static lks_tensor *plain_lks_attention(lks_graph *g, lks_tensor *t, bool opts)
{
    return lks_attention(g, t, NULL, opts ? &(lks_attention_opts){0} : NULL);
}
#define language_model(g, t, opts) lks_language_model(g, t, "lstm_lm", opts)
WITH_OPTS(language_model, lks_language_model_opts)

static const builder BUILDERS[] = {
    plain_lks_global_avg_pool,
    plain_lks_relu,
    plain_lks_relu6,
    plain_lks_silu,
    plain_lks_tanh,
    plain_lks_sigmoid,
    plain_lks_softplus,
    plain_lks_log_softmax,
    plain_lks_flatten,
    plain_lks_sequence,
    plain_lks_normalize,
    plain_lks_conv2d,
    plain_lks_dense,
    plain_lks_embedding,
    plain_lks_masking,
    plain_lks_position,
    plain_lks_rnn,
    plain_lks_lstm,
    plain_lks_gru,
    plain_lks_attention,
    plain_lks_batch_norm,
    plain_lks_layer_norm,
    plain_lks_rms_norm,
    plain_lks_max_pool,
    plain_lks_avg_pool,
    plain_lks_leaky_relu,
    plain_lks_gelu,
    plain_lks_scale,
    plain_lks_select,
    plain_lks_dropout,
    plain_lks_mlp,
    plain_lks_gpt,
    plain_lks_encoder,
    plain_lks_vit,
    plain_block,
    plain_network,
    plain_language_model,
    plain_lks_mnist_cnn,
};

/* No options are options that are all zero. */
static void of_builders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BUILDERS / sizeof *BUILDERS; i++) {
        lks_status status[2];
        char message[2][600];
        assert_null(BUILDERS[i](NULL, x, true));
        for (int opts = 0; opts < 2; opts++) {
            lks_graph *g;
            LKT_OK(lks_graph_create(&g, context));
            lks_tensor *in = lks_input(g, &(lks_input_opts){.shape = {3, {30, 30, 3}}});
            const lks_tensor *made = BUILDERS[i](g, in, opts == 1);
            status[opts] = lks_graph_status(g);
            assert_int_equal(made != NULL, status[opts] == LKS_OK);
            snprintf(message[opts], sizeof message[opts], "%s",
                     status[opts] == LKS_OK ? "" : lks_last_error()->message);
            lks_graph_destroy(g);
            LKT_OK(lks_graph_create(&g, context));
            assert_null(BUILDERS[i](g, NULL, opts == 1));
            lks_graph_destroy(g);
        }
        assert_int_equal(status[0], status[1]);
        assert_string_equal(message[0], message[1]);
    }
}

/* A NULL input makes a NULL output, and the graph has an error then, or NULL had one before. */
static void of_pairs(void **state)
{
    lks_tensor *(*const pairs[])(lks_graph *, lks_tensor *, lks_tensor *) = {
        lks_add, lks_mul, lks_concat, lks_nll, lks_mse, lks_l1};
    lks_graph *g;
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_null(pairs[i](NULL, x, y));
        for (int which = 0; which < 3; which++) {
            LKT_OK(lks_graph_create(&g, context));
            lks_tensor *in = lks_input(g, &(lks_input_opts){.shape = {1, {4}}});
            assert_null(pairs[i](g, which == 1 ? in : NULL, which == 0 ? in : NULL));
            REFUSES(lks_graph_status(g));
            lks_graph_destroy(g);
        }
    }
    assert_null(lks_cross_entropy(NULL, logits, y, NULL));
    assert_null(lks_huber(NULL, x, y, NULL));
    assert_null(lks_input(NULL, &(lks_input_opts){.shape = {1, {4}}}));
    assert_null(lks_target(NULL, &(lks_target_opts){.classes = 2}));
    for (int which = 0; which < 4; which++) {
        LKT_OK(lks_graph_create(&g, context));
        lks_tensor *in = lks_input(g, &(lks_input_opts){.shape = {1, {4}}});
        assert_null(which == 0   ? lks_cross_entropy(g, NULL, in, NULL)
                    : which == 1 ? lks_cross_entropy(g, in, NULL, NULL)
                    : which == 2 ? lks_input(g, NULL)
                                 : lks_target(g, NULL));
        assert_int_not_equal(lks_graph_status(g), LKS_OK);
        lks_graph_destroy(g);
    }
}

static void write_nothing(void *user, const char *line)
{
    (void)user, (void)line;
}

static void of_models(void **state)
{
    lks_model *out;
    lks_predictor *predictor;
    lks_metrics sum = {0};
    uint64_t hash;
    float values[BATCH * CLASSES];
    (void)state;
    REFUSES(lks_model_compile(NULL, graph, &(lks_model_opts){.loss = loss, .global_batch = 1}));
    REFUSES(lks_model_compile(&out, NULL, &(lks_model_opts){.loss = loss, .global_batch = 1}));
    REFUSES(lks_model_compile(&out, graph, NULL));
    lks_model_destroy(NULL);
    assert_null(lks_model_context(NULL));
    REFUSES(lks_model_check_data(NULL, data));
    REFUSES(lks_model_check_data(model, NULL));
    lks_metrics_add(NULL, &sum);
    lks_metrics_add(&sum, NULL);
    assert_true(isnan(lks_metrics_loss(NULL)));
    assert_true(isnan(lks_rates_of(1, NULL, NULL, NULL).f1));
    REFUSES(lks_model_step(NULL, &SAMPLES, 0.1, &sum));
    REFUSES(lks_model_step(model, NULL, 0.1, &sum));
    LKT_OK(lks_model_step(model, &SAMPLES, 0.1, NULL));
    REFUSES(lks_model_step(model, &(lks_batch){.y = Y, .count = BATCH}, 0.1, &sum));
    REFUSES(lks_model_step(model, &(lks_batch){.x = X, .count = BATCH}, 0.1, &sum));
    assert_true(isnan(lks_model_last_step(NULL).gradient_norm));
    REFUSES(lks_model_gradient(NULL, &SAMPLES, &sum));
    REFUSES(lks_model_gradient(model, NULL, &sum));
    LKT_OK(lks_model_gradient(model, &SAMPLES, NULL));
    REFUSES(lks_model_forward(NULL, &SAMPLES, true, &sum));
    REFUSES(lks_model_forward(model, NULL, true, &sum));
    REFUSES(lks_model_backward_input(NULL, values));
    REFUSES(lks_model_backward_params(NULL));
    REFUSES(lks_model_zero_gradients(NULL));
    REFUSES(lks_model_update(NULL, 0.1));
    assert_int_equal(lks_model_value_count(NULL), 0);
    assert_null(lks_model_value_info(NULL, 0).name);
    assert_int_equal(lks_model_value_find(NULL, "fc"), -1);
    REFUSES(lks_model_value_read(NULL, 0, values, sizeof values));
    REFUSES(lks_model_value_read(model, 0, NULL, sizeof values));
    REFUSES(lks_dump(NULL, NULL, write_nothing, NULL));
    REFUSES(lks_dump(model, NULL, NULL, NULL));
    REFUSES(lks_model_use_averages(NULL, true));
    REFUSES(lks_model_evaluate(NULL, &SAMPLES, &sum));
    REFUSES(lks_model_evaluate(model, NULL, &sum));
    REFUSES(lks_model_evaluate(model, &SAMPLES, NULL));
    REFUSES(lks_model_evaluate_outputs(NULL, &SAMPLES, &sum, &(float){0}));
    REFUSES(lks_model_evaluate_outputs(model, NULL, &sum, &(float){0}));
    REFUSES(lks_model_evaluate_outputs(model, &SAMPLES, NULL, &(float){0}));
    REFUSES(lks_model_evaluate_outputs(model, &SAMPLES, &sum, NULL));
    REFUSES(lks_model_predict(NULL, X, 1, values));
    REFUSES(lks_model_predict(model, NULL, 1, values));
    REFUSES(lks_model_predict(model, X, 1, NULL));
    LKT_OK(lks_model_predict(model, NULL, 0, NULL));
    REFUSES(lks_predictor_create(NULL, model));
    REFUSES(lks_predictor_create(&predictor, NULL));
    LKT_OK(lks_predictor_create(&predictor, model));
    REFUSES(lks_predictor_predict(NULL, X, 1, values));
    REFUSES(lks_predictor_predict(predictor, NULL, 1, values));
    REFUSES(lks_predictor_predict(predictor, X, 1, NULL));
    lks_predictor_destroy(predictor);
    lks_predictor_destroy(NULL);
    REFUSES(lks_generator_create(NULL, model, NULL));
    REFUSES(lks_generator_feed(NULL, NULL, 0));
    REFUSES(lks_generator_feed_text(NULL, NULL, 0));
    REFUSES(lks_generator_next(NULL, NULL));
    lks_generator_destroy(NULL);
    REFUSES(lks_model_check_finite(NULL));
    REFUSES(lks_model_hash(NULL, &hash));
    REFUSES(lks_model_hash(model, NULL));
    assert_int_equal(lks_model_get_info(NULL).workers, 0);
    assert_int_equal(lks_model_border(NULL, 0), 0);
    REFUSES(lks_model_describe(NULL, LKS_DESCRIBE_LAYERS, write_nothing, NULL));
    REFUSES(lks_model_describe(model, LKS_DESCRIBE_LAYERS, NULL, NULL));
    LKT_OK(lks_model_describe(model, LKS_DESCRIBE_LAYERS, write_nothing, NULL));
}

static void of_state(void **state)
{
    float values[WIDTH * CLASSES];
    (void)state;
    assert_int_equal(lks_model_state_count(NULL), 0);
    assert_null(lks_model_state_info(NULL, 0).name);
    assert_null(lks_model_state_info(model, -1).name);
    assert_null(lks_model_state_info(model, 1000).name);
    assert_int_equal(lks_model_state_find(NULL, "fc.weight"), -1);
    assert_int_equal(lks_model_state_find(model, NULL), -1);
    REFUSES(lks_model_state_read(NULL, 0, values, sizeof values));
    REFUSES(lks_model_state_read(model, 0, NULL, sizeof values));
    REFUSES(lks_model_state_write(NULL, 0, values, sizeof values));
    REFUSES(lks_model_state_write(model, 0, NULL, sizeof values));
    assert_int_equal(lks_model_progress(NULL).step, 0);
    lks_model_set_progress(NULL, (lks_progress){0});
}

static void of_schedules(void **state)
{
    const lks_schedule schedule = {.kind = LKS_PLATEAU, .lr = 1};
    lks_plateau plateau = {.lr = 1};
    (void)state;
    assert_null(lks_group_of(NULL).match);
    assert_true(isnan(lks_schedule_at(NULL, 0, 0)));
    assert_true(lks_plateau_begin(NULL).lr == 0);
    lks_plateau_observe(NULL, &plateau, 1);
    lks_plateau_observe(&schedule, NULL, 1);
    assert_int_equal(plateau.bad, 0);
    REFUSES(lks_schedule_check(NULL));
    REFUSES(lks_optim_check(NULL));
}

static void of_profiles(void **state)
{
    lks_op_report report;
    double flops;
    char line[LKS_LINE_SIZE];
    (void)state;
    REFUSES(lks_profile_start(NULL));
    lks_profile_stop(NULL);
    assert_int_equal(lks_profile_total(NULL).rows, 0);
    assert_int_equal(lks_profile_get(NULL, 0).stage, -1);
    assert_int_equal(lks_model_stages(NULL), 0);
    assert_null(lks_model_stage_layer(NULL, 0, 0));
    assert_string_equal(lks_tensor_line(NULL, 1, line, sizeof line), "");
    assert_string_equal(lks_tensor_line(logits, 1, NULL, sizeof line), "");
    REFUSES(lks_op_check(NULL, context, logits, 1, 0.001));
    REFUSES(lks_op_check(&report, NULL, logits, 1, 0.001));
    REFUSES(lks_op_check(&report, context, NULL, 1, 0.001));
    REFUSES(lks_peak(NULL, context, 1, 0.001));
    LKT_OK(lks_peak(&flops, NULL, 1, 0.001));
}

static void of_files(void **state)
{
    lks_tensor_file *file;
    (void)state;
    LKT_OK(lks_weights_save(model, path));
    REFUSES(lks_tensor_file_open(NULL, context, path));
    REFUSES(lks_tensor_file_open(&file, context, NULL));
    LKT_OK(lks_tensor_file_open(&file, NULL, path));
    assert_int_equal(lks_tensor_file_find(file, NULL), -1);
    assert_null(lks_tensor_file_metadata(file, NULL));
    lks_tensor_file_close(file);
    lks_tensor_file_close(NULL);
    assert_int_equal(lks_tensor_file_count(NULL), 0);
    assert_null(lks_tensor_file_entry(NULL, 0).name);
    assert_int_equal(lks_tensor_file_find(NULL, "a"), -1);
    assert_null(lks_tensor_file_metadata(NULL, "a"));
    REFUSES(lks_weights_save(NULL, path));
    REFUSES(lks_weights_save(model, NULL));
    REFUSES(lks_weights_load_matching(NULL, path));
    REFUSES(lks_weights_load_matching(model, NULL));
    REFUSES(lks_weights_load(NULL, path));
    LKT_FAILS(LKS_E_INVALID, "lks_weights_load() got NULL as path", lks_weights_load(model, NULL));
}

static void of_checkpoints(void **state)
{
    lks_run run = {.global_batch = BATCH, .replicas = 8, .hash_every = 100, .best_step = -1};
    lks_folder_lock *lock;
    int64_t step;
    (void)state;
    LKT_FAILS(LKS_E_INVALID, "lks_checkpoint_save() got NULL as model",
              lks_checkpoint_save(NULL, &run, folder, 0));
    REFUSES(lks_checkpoint_save(model, NULL, folder, 0));
    REFUSES(lks_checkpoint_save(model, &run, NULL, 0));
    LKT_OK(lks_checkpoint_save(model, &run, folder, 0));
    REFUSES(lks_checkpoint_lock(NULL, context, folder));
    REFUSES(lks_checkpoint_lock(&lock, context, NULL));
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    lks_checkpoint_unlock(lock);
    lks_checkpoint_unlock(NULL);
    REFUSES(lks_checkpoint_find(NULL, &step));
    REFUSES(lks_checkpoint_find(folder, NULL));
    REFUSES(lks_checkpoint_load(context, model, NULL, folder, 0));
    REFUSES(lks_checkpoint_load(context, model, &run, NULL, 0));
    LKT_OK(lks_checkpoint_load(NULL, model, &run, folder, 0));
    lks_run_clear(&run);
    LKT_OK(lks_checkpoint_load(context, NULL, &run, folder, 0));
    lks_run_clear(&run);
    lks_run_clear(NULL);
    REFUSES(lks_checkpoint_check(context, NULL, 0));
    LKT_OK(lks_checkpoint_check(NULL, folder, 0));
}

static void of_trainings(void **state)
{
    lks_train_opts opts = {.model = model, .train = loader, .schedule.lr = 0.1, .steps = 1};
    lks_run run;
    (void)state;
    REFUSES(lks_train(context, NULL, &run)); /* a model is required */
    REFUSES(lks_train(context, NULL, NULL));
    LKT_OK(lks_train(NULL, &opts, NULL));
    opts.model = NULL;
    REFUSES(lks_train(context, &opts, NULL));
    opts.model = model, opts.train = NULL;
    REFUSES(lks_train(context, &opts, NULL));
}

static char *text_of(const char *name)
{
    char full[4300];
    snprintf(full, sizeof full, "%s/%s", getenv("LKT_SOURCE"), name);
    FILE *file = fopen(full, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 18);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 18) - 1, file) < (1 << 18) - 1);
    fclose(file);
    return text;
}

/* Whether the text has the name, and not only as a part of another. */
static bool has_name(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at += length) {
        const unsigned char before = at > text ? (unsigned char)at[-1] : ' ';
        const unsigned char after = (unsigned char)at[length];
        if (!isalnum(before) && before != '_' && !isalnum(after) && after != '_') return true;
    }
    return false;
}

enum { TEXTS = 4 };
static const char *const OTHERS[TEXTS] = {"core", "recipe", "comm", "text"};

/* Functions of a header that take a pointer: those that no test_nulls.c of OTHERS names. */
static int look_for(const char *header, char *const texts[TEXTS])
{
    int missing = 0;
    char *text = text_of(header);
    for (char *at = text; (at = strstr(at, "\nLKS_API ")) != NULL;) {
        char name[80] = "";
        char *open = strchr(++at, '('), *close = strchr(at, ')'), *begin = open;
        assert_true(open != NULL && close != NULL);
        while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_') begin--;
        snprintf(name, sizeof name, "%.*s", (int)(open - begin), begin);
        const char *star = strchr(open, '*');
        bool named = star == NULL || star > close;
        for (int i = 0; i < TEXTS; i++) named = named || has_name(texts[i], name);
        if (named) continue;
        print_error("%s: %s() is not called with NULL\n", header, name);
        missing++;
    }
    free(text);
    return missing;
}

static void of_every_function(void **state)
{
    (void)state;
    char headers[4300];
    int missing = 0, seen = 0;
    if (getenv("LKT_SOURCE") == NULL) skip(); /* ctest tells where the sources are */
    char *texts[TEXTS], path_of[100];
    for (int i = 0; i < TEXTS; i++) {
        snprintf(path_of, sizeof path_of, "tests/%s/test_nulls.c", OTHERS[i]);
        texts[i] = text_of(path_of);
    }
    snprintf(headers, sizeof headers, "%s/include/lockstep", getenv("LKT_SOURCE"));
    DIR *open = opendir(headers);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        char name[300];
        if (strstr(entry->d_name, ".h") == NULL) continue;
        snprintf(name, sizeof name, "include/lockstep/%s", entry->d_name);
        missing += look_for(name, texts);
        seen++;
    }
    closedir(open);
    for (int i = 0; i < TEXTS; i++) free(texts[i]);
    assert_true(seen >= 12);
    assert_int_equal(missing, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(of_contexts),    TEST(of_sentences), TEST(of_data_sets),      TEST(of_loaders),
        TEST(of_graphs),      TEST(of_builders),  TEST(of_pairs),          TEST(of_models),
        TEST(of_state),       TEST(of_schedules), TEST(of_profiles),       TEST(of_files),
        TEST(of_checkpoints), TEST(of_trainings), TEST(of_every_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
