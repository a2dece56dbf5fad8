/* Sizes that no machine has: a sentence, before anything is allocated. */
#include <string.h>
#include <sys/resource.h>

#include <lockstep/tools.h>

#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

typedef struct fixture {
    lkt_heap heap;
    lks_context *context;
    lks_graph *graph;
} fixture;

static void begin(fixture *f, const char *device)
{
    *f = (fixture){0};
    LKT_OK(lks_context_create(
        &f->context,
        &(lks_context_opts){.device = device, .allocator = lkt_heap_allocator(&f->heap)}));
    LKT_OK(lks_graph_create(&f->graph, f->context));
}

/* Lists and plans are small; arrays of such sizes would be gigabytes. */
static void assert_nothing_was_allocated(const fixture *f)
{
    assert_true(f->heap.most_bytes < 1 << 20);
}

static void end(fixture *f)
{
    lks_graph_destroy(f->graph);
    lks_context_destroy(f->context);
    assert_int_equal(f->heap.live, 0);
}

/* The image with its border has 2^62 floats: their bytes are 0 modulo 2^64. */
static lks_tensor *wide_border(lks_graph *graph, int64_t padding)
{
    const int64_t stride = padding / 900;
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(2, 2, 4096)});
    return lks_conv2d(graph, x,
                      &(lks_conv2d_opts){.filters = 1,
                                         .kernel = {1, 1},
                                         .stride = {stride, stride},
                                         .padding = {padding, padding}});
}

static void borders_beyond_the_address_space(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        if (strcmp(lkt_backends()[b]->name, "cpu") != 0) continue; /* others have no border */
        for (int64_t padding = 1 << 24; padding >= (1 << 24) - 1; padding--) {
            fixture f;
            lks_op_report report;
            lks_model *model;
            begin(&f, lkt_backends()[b]->name);
            lks_tensor *y = wide_border(f.graph, padding);
            LKT_OK(lks_graph_status(f.graph));
            LKT_FAILS(LKS_E_SHAPE, "conv2d 'conv2d_1': with these sizes its kernel needs more",
                      lks_model_compile(&model, f.graph,
                                        &(lks_model_opts){.output = y, .global_batch = 1}));
            assert_nothing_was_allocated(&f);
            LKT_FAILS(LKS_E_SHAPE, "needs more memory than can be addressed",
                      lks_op_check(&report, f.context, y, 1, 0.01));
            end(&f);
        }
    }
}

/* 2^31 - 1 samples of 2^31 - 1 floats. */
static void batches_beyond_the_address_space(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        fixture f;
        lks_model *model;
        begin(&f, lkt_backends()[b]->name);
        lks_tensor *x = lks_input(f.graph, &(lks_input_opts){.shape = LKS_SHAPE(INT32_MAX)});
        lks_tensor *y = lks_target(f.graph, &(lks_target_opts){.shape = LKS_SHAPE(INT32_MAX)});
        x = lks_relu(f.graph, x);
        for (int trains = 0; trains < 2; trains++)
            LKT_FAILS(
                LKS_E_SHAPE, "'relu_1' alone has 8589934588 bytes for each",
                lks_model_compile(&model, f.graph,
                                  &(lks_model_opts){.output = x,
                                                    .loss = trains ? lks_mse(f.graph, x, y) : NULL,
                                                    .global_batch = INT32_MAX,
                                                    .replicas = 1}));
        assert_nothing_was_allocated(&f);
        end(&f);
    }
}

/* Batch norms keep values of a whole batch. One of 2^63 - 2^32 bytes can be addressed, two cannot, and
 * three are, modulo 2^64, as many bytes as can be. */
static void sums_beyond_the_address_space(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int values = 2; values <= 5; values++) {
            fixture f;
            lks_model *model;
            begin(&f, lkt_backends()[b]->name);
            lks_tensor *x = lks_input(f.graph, &(lks_input_opts){.shape = LKS_SHAPE(INT32_MAX)});
            lks_tensor *y = lks_target(f.graph, &(lks_target_opts){.shape = LKS_SHAPE(INT32_MAX)});
            for (int i = 0; i < values; i++) x = lks_batch_norm(f.graph, x, NULL);
            LKT_FAILS(LKS_E_SHAPE, "needs more memory than can be addressed: '",
                      lks_model_compile(&model, f.graph,
                                        &(lks_model_opts){.loss = lks_mse(f.graph, x, y),
                                                          .global_batch = 1 << 30,
                                                          .replicas = 1}));
            assert_nothing_was_allocated(&f);
            end(&f);
        }
}

/* Sizes that can be addressed, and that no machine has: 2^31 samples of 784 floats. */
static void models_beyond_the_memory(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        fixture f;
        lks_model *model;
        begin(&f, lkt_backends()[b]->name);
        lks_tensor *x = lks_input(f.graph, &(lks_input_opts){.shape = LKS_SHAPE(784)});
        x = lks_dense(f.graph, lks_relu(f.graph, x), &(lks_dense_opts){.units = 784});
        LKT_FAILS(LKS_E_NOMEM, "the model would take ",
                  lks_model_compile(
                      &model, f.graph,
                      &(lks_model_opts){.output = x, .global_batch = INT32_MAX, .replicas = 1}));
        assert_non_null(strstr(lks_last_error()->message, " MB of memory, but "));
        assert_null(model);
        assert_nothing_was_allocated(&f);
        end(&f);
    }
}

/* 2 GB of parameters where the process may have one. */
static int compile_in_one_gigabyte(void *user)
{
    const struct rlimit limit = {.rlim_cur = 1 << 30, .rlim_max = 1 << 30};
    fixture f;
    lks_model *model;
    (void)user;
    begin(&f, "ref");
    lks_tensor *x = lks_input(f.graph, &(lks_input_opts){.shape = LKS_SHAPE(1 << 14)});
    x = lks_dense(f.graph, x, &(lks_dense_opts){.units = 1 << 15});
    LKT_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    const lks_status status = lks_model_compile(
        &model, f.graph, &(lks_model_opts){.output = x, .global_batch = 1, .replicas = 1});
    LKT_CHECK(status == LKS_E_NOMEM);
    LKT_CHECK(strstr(lks_last_error()->message, "but ulimit -v allows 1073 MB; ") != NULL);
    LKT_CHECK(f.heap.most_bytes < 1 << 20);
    return 0;
}

static void models_beyond_the_limit(void **state)
{
    (void)state;
    if (lkt_sanitized()) skip(); /* it has more address space than that */
    assert_int_equal(lkt_in_child(compile_in_one_gigabyte, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borders_beyond_the_address_space),
        cmocka_unit_test(batches_beyond_the_address_space),
        cmocka_unit_test(sums_beyond_the_address_space),
        cmocka_unit_test(models_beyond_the_memory),
        cmocka_unit_test(models_beyond_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
