/*
 * Activations formed again in backward: for every device, network and number of workers the bits are those of
 * activations that were kept, in less memory. (Over ranks: ranks/switches. Memory of values that are there twice:
 * program/memory.)
 */
#include <string.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

/* What a run's program is. */
typedef struct found {
    int again; /* stages that are run again */
    int blocks;
    size_t bytes; /* of a worker's activations */
    size_t packed;
    int64_t cohort;
} found;

/* Of blocks that are run again nothing that kernels save for backward is kept, and no leg ends with a block. */
static void look_at_plan(const lki_program *program)
{
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        int end = program->part[stage->second].segment;
        while (end < program->segments &&
               program->segment[end].again > program->part[stage->second].segment)
            end++;
        if (end < program->segments && stage->saved != LKI_NO_VALUE && stage->backward)
            assert_true(program->value[stage->saved].again > program->value[stage->saved].last);
    }
    for (int leg = 0; leg <= program->meetings; leg++)
        if (lki_program_leg(program, leg + 1) < program->segments)
            assert_true(program->segment[lki_program_leg(program, leg + 1) - 1].again >=
                        lki_program_leg(program, leg + 1));
}

static void look(lks_model *model, void *user)
{
    const lki_program *program = &model->program;
    look_at_plan(program);
    *(found *)user = (found){.blocks = 1,
                             .bytes = program->local_bytes,
                             .packed = program->packed_bytes,
                             .cohort = program->cohort};
    for (int s = 0; s < program->stages; s++) ((found *)user)->again += program->stage[s].again;
    for (int g = 0; g < program->segments; g++)
        ((found *)user)->blocks += program->segment[g].again <= g;
}

static lkt_run usual(const char *device, lkt_net net, found *now)
{
    return (lkt_run){
        .device = device,
        .net = net,
        .samples = 21,
        .batch = 11, /* shares of one and two samples; the second batch of an epoch has ten */
        .steps = 3,
        .opts = {.replicas = 6, .hash_every = 3, .optim = lks_adam()},
        .compiled = look,
        .user = now};
}

static void check_net(const char *device, lkt_net net, bool by_replica, int *again)
{
    found kept, now;
    lks_metrics expected[2], metrics[2];
    lkt_run run = usual(device, net, &kept);
    run.opts.workers = 2;
    run.opts.by_replica = by_replica;
    const uint64_t hash = lkt_run_hash(&run, expected);
    assert_int_equal(kept.again, 0);
    assert_int_equal(kept.blocks, 1);
    run.user = &now;
    run.opts.recompute = true;
    for (run.opts.workers = 1; run.opts.workers <= 3; run.opts.workers++) {
        assert_true(lkt_run_hash(&run, metrics) == hash);
        assert_memory_equal(metrics, expected, sizeof metrics);
        *again += now.again;
    }
}

static void bits_are_those_of_what_was_kept(void **state)
{
    (void)state;
    const lkt_net nets[] = {lkt_net_deep,   lkt_net_mlp,   lkt_net_conv,  lkt_net_residual,
                            lkt_net_synced, lkt_net_gated, lkt_net_joined};
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
            int again = 0;
            check_net(lkt_backends()[b]->name, nets[n], false, &again);
            check_net(lkt_backends()[b]->name, nets[n], true, &again);
            if (nets[n] != lkt_net_mlp && nets[n] != lkt_net_conv) /* which are one block on cpu */
                assert_true(again > 0);
        }
}

/* A convolution by Winograd's algorithm whose U has more than 2^20 numbers, and one of 1x1 with more than 2^16. */
static lks_tensor *large(lks_graph *g)
{
    const lks_conv2d_opts stem = {.filters = 176, .kernel = {3, 3}, .stride = {3, 2}};
    const lks_conv2d_opts tiles = {.filters = 176, .kernel = {3, 3}, .padding = {1, 1}};
    const lks_conv2d_opts wide = {.filters = 400, .kernel = {1, 1}};
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(g, x, &(lks_normalize_opts){.count = 1, .std = (float[]){255}});
    x = lks_relu(g, lks_conv2d(g, x, &stem));
    x = lks_relu(g, lks_batch_norm(g, lks_conv2d(g, x, &tiles), NULL));
    x = lks_relu(g, lks_conv2d(g, x, &wide));
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = 5});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.name = "y", .classes = 5});
    return lks_cross_entropy(g, x, y, NULL);
}

/* Nor are large packed weights there that can be formed again. */
static void large_weights_are_formed(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        found kept, now;
        lkt_run run = usual(lkt_backends()[b]->name, large, &kept);
        run.steps = 2;
        run.opts.hash_every = 2;
        run.opts.workers = 2;
        const uint64_t hash = lkt_run_hash(&run, NULL);
        run.opts.recompute = true;
        run.user = &now;
        assert_true(lkt_run_hash(&run, NULL) == hash);
        if (strcmp(run.device, "cpu") == 0)
            assert_true(now.packed < kept.packed / 4);
        else
            assert_true(now.packed == kept.packed);
    }
}

/* All replicas of a worker in one cohort, whose head has blocks. */
static void replicas_of_a_cohort_take_turns(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        found kept, now;
        lkt_run run = usual(lkt_backends()[b]->name, lkt_net_deep, &kept);
        run.opts.workers = 1;
        const uint64_t hash = lkt_run_hash(&run, NULL);
        run.opts.recompute = true;
        run.user = &now;
        assert_true(lkt_run_hash(&run, NULL) == hash);
        assert_true(now.cohort > 1);
        assert_true(now.blocks > 2);
    }
}

/* What runs once for all replicas of a cohort is not cut, nor is it a block by itself: `before` layers in front of it
 * have more memory than it has. */
static void check_joint(const char *device, int before, int blocks)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    found now;
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(30)});
    x = lks_dense(m.graph, x, &(lks_dense_opts){.units = 30});
    x = lks_layer_norm(m.graph, x, NULL);
    for (int i = 0; i < before; i++) x = lks_tanh(m.graph, x);
    for (int i = 0; i < 12; i++)
        x = lks_dense(m.graph, lks_tanh(m.graph, x), &(lks_dense_opts){.units = 64});
    lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.classes = 64});
    lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, x, y, NULL),
                                      .global_batch = 12,
                                      .workers = 1,
                                      .recompute = true});
    look(m.model, &now);
    assert_true(now.cohort > 1);
    assert_int_equal(now.blocks, blocks);
    lkt_end(&m);
}

static void joint_layers_are_one_block(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        check_joint(lkt_backends()[b]->name, 0, 1);
        check_joint(lkt_backends()[b]->name, 60, 3);
    }
}

/* A chain of equal layers keeps about the root of what there is: of 36 outputs, 6 between blocks and those of one. */
static lks_tensor *even(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(16, 16, 4)});
    x = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 4, .kernel = {1, 1}});
    for (int i = 0; i < 36; i++) x = lks_tanh(g, x);
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = 2});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 2}), NULL);
}

static size_t bytes_of(const char *device, bool recompute, int *blocks)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    found now;
    lkt_compile(
        &m, &(lks_model_opts){
                .loss = even(m.graph), .global_batch = 3, .replicas = 1, .recompute = recompute});
    look(m.model, &now);
    lkt_end(&m);
    *blocks = now.blocks;
    return now.bytes;
}

static void memory_is_that_of_the_root(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const size_t layer = 3 * 16 * 16 * 4 * sizeof(float);
        int blocks;
        assert_true(bytes_of(lkt_backends()[b]->name, false, &blocks) >= 36 * layer);
        /* Of the layers between two blocks, those of one, and two gradients. */
        const size_t bytes = bytes_of(lkt_backends()[b]->name, true, &blocks);
        if (blocks < 5 || blocks > 8 || bytes > 15 * layer)
            fail_msg("%s: %d blocks, %.1f layers", lkt_backends()[b]->name, blocks,
                     (double)bytes / (double)layer);
    }
}

/* A program that only predicts has no backward pass. */
static void predictions_need_no_blocks(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    found now;
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(4, 4, 2)});
    for (int i = 0; i < 9; i++) x = lks_tanh(m.graph, x);
    lkt_compile(&m, &(lks_model_opts){.output = x, .global_batch = 2, .recompute = true});
    look(m.model, &now);
    assert_int_equal(now.blocks, 1);
    assert_int_equal(now.again, 0);
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_what_was_kept),
        cmocka_unit_test(large_weights_are_formed),
        cmocka_unit_test(replicas_of_a_cohort_take_turns),
        cmocka_unit_test(joint_layers_are_one_block),
        cmocka_unit_test(memory_is_that_of_the_root),
        cmocka_unit_test(predictions_need_no_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
