/*
 * Small models that together have every implementation with a rule, each in several ways: prediction, gradients, a
 * step, and a look at every number that comes out; and options with padding. By itself it says that all are finite; under valgrind, whose test
 * is cpu/valgrind, that none of them rests on memory that nobody wrote, and that no kernel reads or writes
 * memory that is not its own.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include <lockstep/tools.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/chains/chains.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_UNDEFINED(memory, bytes) ((void)(memory), (void)(bytes))
#endif

enum { EACH = 3, MOST = 4000, MOST_COST = 400000 };

static void look(const lkt_chain *c, const char *what, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            fail_msg("%s: %s[%lld] is %g", c->text, what, (long long)i, (double)values[i]);
}

static void look_at_state(const lkt_chain *c, lks_model *model)
{
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.dtype != LKS_F32) continue;
        float *values = test_malloc(info.bytes);
        LKT_OK(lks_model_state_read(model, i, values, info.bytes));
        look(c, info.name, values, (int64_t)(info.bytes / sizeof *values));
        test_free(values);
    }
}

/* Nothing of what workers have for a pass is left to the next: all of it was zeroed once, so memcheck would not see that. */
static void forget(const lks_model *model)
{
    const lki_program *program = &model->program;
    for (int w = 0; w < model->workers; w++)
        VALGRIND_MAKE_MEM_UNDEFINED(model->worker[w].local.memory,
                                    program->local_bytes + program->workspace_bytes);
}

static void use(const lkt_chain *c, lks_model *model)
{
    const lks_batch batch = {.x = c->of.x, .y = c->of.y, .count = c->count};
    const int64_t outs = c->count * lks_shape_elements(&c->output->shape);
    float *found = test_malloc((size_t)outs * sizeof *found);
    forget(model);
    LKT_OK(lks_model_predict(model, c->of.x, c->count, found));
    look(c, "the prediction", found, outs);
    forget(model);
    LKT_OK(lks_model_gradient(model, &batch, NULL));
    look_at_state(c, model);
    for (int step = 0; step < 2; step++) {
        forget(model);
        LKT_OK(lks_model_step(model, &batch, 0.01, NULL));
    }
    look_at_state(c, model);
    test_free(found);
}

static void every_kernel_is_clean(void **state)
{
    const lkt_random start = lkt_random_make("every_kernel_is_clean", 900);
    lkt_met met = lkt_met_none();
    (void)state;
    for (int k = 0; k < MOST && lkt_met_fewer(&met, EACH) != NULL; k++) {
        lkt_chain c;
        lkt_chain_draw(&c, start.state + (uint64_t)k);
        if (lkt_chain_cost(&c) < MOST_COST) {
            lkt_chain_fill(&c);
            if (k % 2 == 0) c.opts.optim = lks_adadelta();
            for (int b = 0; lkt_backends()[b] != NULL; b++) {
                lks_model *model = lkt_chain_compile(&c, lkt_backends()[b]->name);
                if (lkt_met_others(&met, model, EACH)) use(&c, model);
                lks_model_destroy(model);
            }
        }
        lkt_chain_free(&c);
    }
    if (lkt_met_fewer(&met, EACH) != NULL) fail_msg("%s was not met", lkt_met_fewer(&met, EACH));
}

static void forget_padding(lks_init *init)
{
    const size_t end = offsetof(lks_init, fan_out) + sizeof init->fan_out;
    VALGRIND_MAKE_MEM_UNDEFINED((char *)init + end, sizeof *init - end);
}

/* What lies between the members of options is whatever was there. */
static void padding_of_options_is_not_read(void **state)
{
    lks_context *context;
    lks_graph *graph;
    lks_dense_opts dense = {.units = 3, .weight_init = {.kind = LKS_INIT_XAVIER_UNIFORM}};
    lks_target_opts wanted = {.classes = 3};
    char line[LKS_LINE_SIZE];
    (void)state;
    forget_padding(&dense.weight_init);
    forget_padding(&dense.bias_init);
    VALGRIND_MAKE_MEM_UNDEFINED((char *)&wanted.shape + sizeof wanted.shape.ndim,
                                offsetof(lks_shape, dim) - sizeof wanted.shape.ndim);
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(4)});
    lks_tensor *y = lks_target(graph, &wanted);
    x = lks_dense(graph, x, &dense);
    assert_string_equal(lks_tensor_line(x, 2, line, sizeof line),
                        "dense units=3 weight_init=xavier_uniform in=2x4");
    assert_non_null(lks_cross_entropy(graph, x, y, NULL));
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel_is_clean),
                                       cmocka_unit_test(padding_of_options_is_not_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
