/* What a step does at its edges: shares without samples, a first step that fails, steps that are
 * skipped, ties, and losses that are not finite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { BATCH = 16, PIXELS = 12 * 10 * 3, CLASSES = 5 };

typedef struct session {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lkt_images images;
} session;

static void open_session(session *s, const char *device, lkt_net net, lks_model_opts opts)
{
    LKT_OK(lks_context_create(&s->context, &(lks_context_opts){.device = device, .seed = 3}));
    LKT_OK(lks_graph_create(&s->graph, s->context));
    opts.loss = net(s->graph);
    opts.global_batch = BATCH;
    LKT_OK(lks_model_compile(&s->model, s->graph, &opts));
    s->images = lkt_images_make(2 * BATCH);
}

static void close_session(session *s)
{
    lks_model_destroy(s->model);
    lks_graph_destroy(s->graph);
    lks_context_destroy(s->context);
    lkt_images_free(&s->images);
}

static void step(session *s, int64_t first, int64_t count)
{
    const lks_batch batch = {
        .x = s->images.x + first * PIXELS, .y = s->images.y + first, .count = count};
    LKT_OK(lks_model_step(s->model, &batch, 0.05, NULL));
}

static uint64_t hash_of(const session *s)
{
    uint64_t hash;
    LKT_OK(lks_model_hash(s->model, &hash));
    return hash;
}

/* All state and where the run is, as a checkpoint would bring it. */
static void copy_state(const session *from, session *to)
{
    for (int i = 0; i < lks_model_state_count(from->model); i++) {
        const lks_state_info info = lks_model_state_info(from->model, i);
        if (info.kind == LKS_GRADIENT) continue;
        void *values = malloc(info.bytes);
        assert_non_null(values);
        LKT_OK(lks_model_state_read(from->model, i, values, info.bytes));
        LKT_OK(lks_model_state_write(to->model, i, values, info.bytes));
        free(values);
    }
    lks_model_set_progress(to->model, lks_model_progress(from->model));
}

/* A full batch leaves statistics of all replicas behind. Those that the next, short one leaves without
 * samples have no part in it: a model that never saw the full batch goes on in the same way. */
static void absent_replicas_have_no_statistics(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int workers = 1; workers <= 3; workers += 2) {
            const lks_model_opts opts = {.replicas = 8, .workers = workers};
            session full, fresh;
            open_session(&full, lkt_backends()[b]->name, lkt_net_residual, opts);
            open_session(&fresh, lkt_backends()[b]->name, lkt_net_residual, opts);
            step(&full, 0, BATCH);
            copy_state(&full, &fresh);
            step(&full, BATCH, 3);
            step(&fresh, BATCH, 3);
            assert_true(hash_of(&full) == hash_of(&fresh));
            close_session(&fresh);
            close_session(&full);
        }
}

/* ---------------------------------------------------------------- a small network of floats */

enum { WIDTH = 4, SAMPLES = 6 };
static const float X[SAMPLES * WIDTH] = {1, 2, 3, 4, -1, 0, 1, 2, .5f, .25f, 0, 1,
                                         0, 1, 0, 1, 2,  2, 2, 2, 3,   -3,   1, 0};
static const int32_t Y[SAMPLES] = {0, 1, 2, 0, 1, 2};
static const int64_t IDS[SAMPLES] = {100, 101, 102, 103, 104, 105};

static void open_small(session *s, lks_model_opts opts)
{
    *s = (session){0};
    LKT_OK(lks_context_create(&s->context,
                              &(lks_context_opts){.device = lkt_device(NULL), .seed = 1}));
    LKT_OK(lks_graph_create(&s->graph, s->context));
    lks_tensor *x = lks_input(s->graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    lks_tensor *y = lks_target(s->graph, &(lks_target_opts){.classes = 3});
    x = lks_dense(s->graph, x, &(lks_dense_opts){.name = "fc", .units = 3});
    opts.loss = lks_cross_entropy(s->graph, x, y, NULL);
    opts.output = x;
    opts.global_batch = SAMPLES;
    LKT_OK(lks_model_compile(&s->model, s->graph, &opts));
}

/* The six samples, the first `bad` of them with an infinity in `x`. */
static lks_batch batch_with(float x[SAMPLES * WIDTH], int bad)
{
    memcpy(x, X, sizeof X);
    for (int i = 0; i < bad; i++) x[i * WIDTH + 1] = INFINITY;
    return (lks_batch){.x = x, .y = Y, .ids = IDS, .count = SAMPLES};
}

/* The chain begins at the first step that succeeds as it would have at the first of all. */
static void a_failed_first_step_leaves_no_trace(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH];
    uint64_t hash[2][2];
    for (int fails = 0; fails < 2; fails++) {
        session s;
        open_small(&s, (lks_model_opts){.hash_every = 2, .optim = lks_adam()});
        const lks_batch bad = batch_with(x, 1);
        for (int i = 0; i < 2 * fails; i++)
            LKT_FAILS(LKS_E_NUMERIC, "not finite for sample 100",
                      lks_model_step(s.model, &bad, 0.1, NULL));
        hash[fails][0] = hash_of(&s);
        const lks_batch good = batch_with(x, 0);
        for (int i = 0; i < 3; i++) LKT_OK(lks_model_step(s.model, &good, 0.1, NULL));
        hash[fails][1] = hash_of(&s);
        close_session(&s);
    }
    assert_true(hash[0][0] == hash[1][0]);
    assert_true(hash[0][1] == hash[1][1]);
}

/* Before the first update there are no averages to use, however many steps were skipped. */
static void averages_begin_with_the_first_update(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH], plain[SAMPLES * 3], averaged[SAMPLES * 3];
    session s;
    open_small(&s, (lks_model_opts){.ema_decay = 0.9f, .skip_not_finite = true});
    for (int steps = 0; steps < 3; steps++) {
        LKT_OK(lks_model_use_averages(s.model, false));
        LKT_OK(lks_model_predict(s.model, X, SAMPLES, plain));
        LKT_OK(lks_model_use_averages(s.model, true));
        LKT_OK(lks_model_predict(s.model, X, SAMPLES, averaged));
        assert_false(lks_model_get_info(s.model).averages);
        assert_memory_equal(plain, averaged, sizeof plain);
        const lks_batch bad = batch_with(x, 1);
        LKT_OK(lks_model_step(s.model, &bad, 0.1, NULL));
        assert_true(lks_model_last_step(s.model).skipped);
    }
    const lks_batch good = batch_with(x, 0);
    LKT_OK(lks_model_step(s.model, &good, 0.1, NULL));
    LKT_OK(lks_model_step(s.model, &good, 0.1, NULL));
    assert_true(lks_model_get_info(s.model).averages);
    LKT_OK(lks_model_predict(s.model, X, SAMPLES, averaged));
    LKT_OK(lks_model_use_averages(s.model, false));
    LKT_OK(lks_model_predict(s.model, X, SAMPLES, plain));
    assert_memory_not_equal(plain, averaged, sizeof plain);
    close_session(&s);
}

/* Of several largest outputs the first is the answer. */
static void ties_are_the_first_class(void **state)
{
    (void)state;
    static const float zeros[3 * WIDTH] = {0};
    static const float bias[][3] = {{0, 0, 0}, {-1, 2, 2}};
    session s;
    open_small(&s, (lks_model_opts){.replicas = 2});
    const lks_batch all = {.x = X, .y = Y, .count = SAMPLES};
    LKT_OK(lks_model_state_write(s.model, lks_model_state_find(s.model, "fc.weight"), zeros,
                                 sizeof zeros));
    for (int k = 0; k < 2; k++) {
        lks_metrics sum = {0};
        LKT_OK(lks_model_state_write(s.model, lks_model_state_find(s.model, "fc.bias"), bias[k],
                                     sizeof bias[k]));
        LKT_OK(lks_model_evaluate(s.model, &all, &sum));
        assert_int_equal(sum.samples, SAMPLES);
        assert_int_equal(sum.correct, 2); /* those with label 0, then those with label 1 */
        LKT_OK(lks_model_evaluate(s.model, &(lks_batch){.x = X, .y = Y + k, .count = 1}, &sum));
        assert_int_equal(sum.correct, 3);
    }
    close_session(&s);
}

/* The mean is over the samples that it counts. */
static void losses_are_averaged_over_finite_samples(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH];
    lks_metrics some = {0}, finite = {0};
    session s;
    open_small(&s, (lks_model_opts){.replicas = 2});
    const lks_batch two_bad = batch_with(x, 2);
    LKT_OK(lks_model_evaluate(s.model, &two_bad, &some));
    const lks_batch rest = {.x = X + 2 * WIDTH, .y = Y + 2, .count = SAMPLES - 2};
    LKT_OK(lks_model_evaluate(s.model, &rest, &finite));
    assert_int_equal(some.samples, SAMPLES);
    assert_int_equal(some.not_finite, 2);
    assert_true(lks_metrics_loss(&finite) > 0);
    assert_true(lks_metrics_loss(&some) == lks_metrics_loss(&finite));
    lks_metrics none = {0};
    LKT_OK(lks_model_evaluate(s.model, &(lks_batch){.x = x, .y = Y, .count = 2}, &none));
    assert_int_equal(none.not_finite, 2);
    assert_true(isnan(lks_metrics_loss(&none)));
    close_session(&s);
}

/* lks_model_gradient() is the gradient; clipping is the update's. */
static void gradients_are_asked_for_as_they_are(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH], gradient[2][3 * WIDTH];
    for (int clipped = 0; clipped < 2; clipped++) {
        session s;
        open_small(&s, (lks_model_opts){.clip_value = clipped ? 1e-3f : 0, .replicas = 3});
        const lks_batch good = batch_with(x, 0);
        LKT_OK(lks_model_gradient(s.model, &good, NULL));
        LKT_OK(lks_model_state_read(s.model, lks_model_state_find(s.model, "gradient.fc.weight"),
                                    gradient[clipped], sizeof gradient[clipped]));
        close_session(&s);
    }
    float most = 0;
    for (int i = 0; i < 3 * WIDTH; i++) most = fmaxf(most, fabsf(gradient[0][i]));
    assert_true(most > 1e-2f);
    assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
}

/* Only a step can be skipped: of a batch without a gradient nobody gets one. */
static void gradients_are_not_skipped(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH];
    session s;
    open_small(&s, (lks_model_opts){.skip_not_finite = true});
    const lks_batch bad = batch_with(x, 1);
    LKT_FAILS(LKS_E_NUMERIC, "not finite for sample 100", lks_model_gradient(s.model, &bad, NULL));
    assert_false(lks_model_last_step(s.model).skipped);
    assert_int_equal(lks_model_progress(s.model).skipped, 0);
    close_session(&s);
}

/* A norm of just clip_norm is scaled too, by clip_norm / (norm + 1e-6), as PyTorch does. */
static void a_norm_at_its_limit_is_clipped(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH], weight[3][3 * WIDTH];
    double norm = 0;
    for (int k = 0; k < 3; k++) { /* far below the limit, at it, twice as far below */
        session s;
        open_small(&s, (lks_model_opts){.clip_norm = k == 1 ? norm : k == 0 ? 1e3 : 2e3});
        const lks_batch good = batch_with(x, 0);
        LKT_OK(lks_model_step(s.model, &good, 1.0, NULL));
        norm = lks_model_last_step(s.model).gradient_norm;
        assert_true(norm > 0.1 && norm < 10);
        LKT_OK(lks_model_state_read(s.model, lks_model_state_find(s.model, "fc.weight"), weight[k],
                                    sizeof weight[k]));
        close_session(&s);
    }
    assert_memory_equal(weight[0], weight[2], sizeof weight[0]);
    assert_memory_not_equal(weight[0], weight[1], sizeof weight[0]);
}

/* Running statistics and averages are what a finished run is used with. */
static void buffers_are_looked_at(void **state)
{
    (void)state;
    static const char *const kinds[] = {".running_mean", "ema."};
    for (int k = 0; k < 2; k++) {
        session s;
        open_session(&s, lkt_device("ref"), lkt_net_residual, (lks_model_opts){.ema_decay = 0.5});
        LKT_OK(lks_model_check_finite(s.model));
        for (int i = 0; i < lks_model_state_count(s.model); i++) {
            const lks_state_info info = lks_model_state_info(s.model, i);
            if (strstr(info.name, kinds[k]) == NULL) continue;
            float *values = calloc(1, info.bytes);
            assert_non_null(values);
            values[1] = NAN;
            LKT_OK(lks_model_state_write(s.model, i, values, info.bytes));
            free(values);
            LKT_FAILS(LKS_E_NUMERIC, info.name, lks_model_check_finite(s.model));
            assert_non_null(strstr(lks_last_error()->message, k == 0 ? "buffer '" : "parameter '"));
            break;
        }
        assert_true(lks_model_check_finite(s.model) == LKS_E_NUMERIC);
        close_session(&s);
    }
}

/* The longest name of a layer, whole in those of its entries. */
static void names_are_whole(void **state)
{
    (void)state;
    static const char *const ends[] = {".weight", ".running_mean", ".num_batches_tracked"};
    char layer[64], name[100];
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    memset(layer, 'n', sizeof layer - 1);
    layer[sizeof layer - 1] = '\0';
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device("ref")}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    x = lks_batch_norm(graph, x, &(lks_batch_norm_opts){.name = layer});
    LKT_OK(lks_model_compile(&model, graph, &(lks_model_opts){.output = x, .global_batch = 2}));
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s%s", layer, ends[k]);
        const int at = lks_model_state_find(model, name);
        if (at < 0) fail_msg("there is no '%s'", name);
        assert_string_equal(lks_model_state_info(model, at).name, name);
    }
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

/* An entry is read and written whole. */
static void entries_have_one_size(void **state)
{
    (void)state;
    float values[3 * WIDTH + 1] = {0};
    session s;
    open_small(&s, (lks_model_opts){0});
    const int weight = lks_model_state_find(s.model, "fc.weight");
    const size_t bytes = 3 * WIDTH * sizeof(float);
    for (int more = -1; more <= 1; more += 2) {
        const size_t other = bytes + (size_t)(more * (int)sizeof(float));
        LKT_FAILS(LKS_E_INVALID, "state 'fc.weight' has 48 bytes, the buffer",
                  lks_model_state_read(s.model, weight, values, other));
        LKT_FAILS(LKS_E_INVALID, "state 'fc.weight' has 48 bytes, the buffer",
                  lks_model_state_write(s.model, weight, values, other));
    }
    LKT_OK(lks_model_state_write(s.model, weight, values, bytes));
    close_session(&s);
}

/* As many replicas as there may be, on one worker, and one more. */
static void replicas_have_a_limit(void **state)
{
    (void)state;
    enum { MOST = 1 << 16 };
    for (int more = 0; more < 2; more++) {
        session s = {0};
        LKT_OK(lks_context_create(&s.context, &(lks_context_opts){.device = lkt_device(NULL)}));
        LKT_OK(lks_graph_create(&s.graph, s.context));
        lks_tensor *x = lks_input(s.graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
        const lks_model_opts opts = {.output = lks_relu(s.graph, x),
                                     .global_batch = 4,
                                     .workers = 1,
                                     .replicas = more ? MOST + 1 : MOST / 4,
                                     .accumulate = more ? 1 : 4};
        if (more)
            LKT_FAILS(LKS_E_INVALID, "product at most 65536",
                      lks_model_compile(&s.model, s.graph, &opts));
        else
            LKT_OK(lks_model_compile(&s.model, s.graph, &opts));
        close_session(&s);
    }
}

/* As many as fit are named, and where there are more it says so. */
static void a_message_names_four_samples(void **state)
{
    (void)state;
    float x[SAMPLES * WIDTH];
    session s;
    open_small(&s, (lks_model_opts){.replicas = 3, .workers = 1});
    const lks_batch five = batch_with(x, 5);
    LKT_FAILS(LKS_E_NUMERIC, "100, 101, 102, 103, ...;", lks_model_step(s.model, &five, 0.1, NULL));
    const lks_batch four = batch_with(x, 4);
    LKT_FAILS(LKS_E_NUMERIC, "100, 101, 102, 103;", lks_model_step(s.model, &four, 0.1, NULL));
    x[5 * WIDTH] = NAN; /* a fifth, and none between them */
    LKT_FAILS(LKS_E_NUMERIC, "100, 101, 102, 103, ...;", lks_model_step(s.model, &four, 0.1, NULL));
    close_session(&s);
}

/* Progress that no training has come to ends the next step, with a sentence. */
static void progress_is_one_that_can_be(void **state)
{
    (void)state;
    static const lks_progress wrong[] = {
        {.step = -5}, {.step = INT64_MAX}, {.step = 3, .skipped = 4}, {.skipped = -1}};
    session s;
    open_small(&s, (lks_model_opts){.replicas = 1});
    const lks_batch batch = {.x = X, .y = Y, .count = SAMPLES};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lks_model_set_progress(s.model, wrong[i]);
        LKT_FAILS(LKS_E_INVALID, "the model's progress is",
                  lks_model_step(s.model, &batch, 0.05, NULL));
    }
    lks_model_set_progress(s.model, (lks_progress){.step = 3, .skipped = 3});
    LKT_OK(lks_model_step(s.model, &batch, 0.05, NULL));
    close_session(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_replicas_have_no_statistics),
        cmocka_unit_test(progress_is_one_that_can_be),
        cmocka_unit_test(a_failed_first_step_leaves_no_trace),
        cmocka_unit_test(averages_begin_with_the_first_update),
        cmocka_unit_test(ties_are_the_first_class),
        cmocka_unit_test(losses_are_averaged_over_finite_samples),
        cmocka_unit_test(gradients_are_asked_for_as_they_are),
        cmocka_unit_test(gradients_are_not_skipped),
        cmocka_unit_test(a_norm_at_its_limit_is_clipped),
        cmocka_unit_test(buffers_are_looked_at),
        cmocka_unit_test(names_are_whole),
        cmocka_unit_test(entries_have_one_size),
        cmocka_unit_test(replicas_have_a_limit),
        cmocka_unit_test(a_message_names_four_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
