/* Every optimizer and option of training under the theorem: any number of workers, by rows or by
 * replica, the same bits. And what groups of parameters do. */
#include "optim/options.h"
#include "support/optims.h"

/* Batch 23 of 37 samples in 6 replicas: shares differ, the second batch of an epoch has 14. */
static lkt_run make_run(const char *device, lkt_net net, const lks_model_opts *opts)
{
    lkt_run run = {
        .device = device, .net = net, .samples = 37, .batch = 23, .steps = 4, .opts = *opts};
    run.opts.replicas = 6;
    run.opts.hash_every = 3;
    return run;
}

static void check(const char *name, const lks_model_opts *opts)
{
    static const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual};
    static const int workers[] = {2, 3, 5};
    static size_t calls;
    calls++;
    for (size_t b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
            if (lkt_in_part() && n != calls % 3) continue; /* one after the other */
            if (lkt_in_part() && lkt_backends()[1] != NULL && b != calls % 2) continue;
            lkt_run run = make_run(lkt_backends()[b]->name, nets[n], opts);
            lks_metrics one[2], other[2];
            run.opts.workers = 1;
            const uint64_t expected = lkt_run_hash(&run, one);
            for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
                run.opts.workers = workers[w];
                run.opts.by_replica = w == 2;
                if (lkt_run_hash(&run, other) != expected || memcmp(one, other, sizeof one) != 0)
                    fail_msg("%s, %s, net %zu: %d workers have other bits", name,
                             lkt_backends()[b]->name, n, workers[w]);
            }
        }
}

static void optimizers(void **state)
{
    (void)state;
    lks_optim optim;
    const char *name;
    for (int i = 0; (name = lkt_optim(i, &optim)) != NULL; i++)
        check(name, &(lks_model_opts){.optim = optim});
    lks_optim adamp = lks_adamp();
    adamp.delta = 1.5f; /* what is projected is another part of the rows than with 0.1 */
    check("adamp, delta 1.5", &(lks_model_opts){.optim = adamp});
}

static void groups_of_parameters(void **state)
{
    (void)state;
    lks_group groups[] = {lks_group_of("*.bias"), lks_group_of("*.weight")};
    groups[0].lr_factor = 0.5;
    groups[1].weight_decay = 0.25;
    check("groups", &(lks_model_opts){.optim = lks_adamw(), .groups = groups, .group_count = 2});
}

static void clipping(void **state)
{
    (void)state;
    check("clip_norm", &(lks_model_opts){.optim = lks_sgd(0.9), .clip_norm = 0.125});
    check("clip_value", &(lks_model_opts){.optim = lks_adadelta(), .clip_value = 0.001});
    check("both and AdamP",
          &(lks_model_opts){.optim = lks_adamp(), .clip_norm = 0.125, .clip_value = 0.001});
    lks_optim lars = lks_lars();
    lars.momentum = 0.9;
    check("clip_norm and LARS", &(lks_model_opts){.optim = lars, .clip_norm = 0.125});
}

static uint64_t hash_with(const lks_model_opts *opts)
{
    const lkt_run run = make_run(lkt_backends()[0]->name, lkt_net_residual, opts);
    return lkt_run_hash(&run, NULL);
}

static void averages(void **state)
{
    (void)state;
    check("ema", &(lks_model_opts){.optim = lks_adam(), .ema_decay = 0.875});
    check("ema of kept gradients",
          &(lks_model_opts){.optim = lks_adamp(), .ema_decay = 0.875, .skip_not_finite = true});
}

/* Keeping gradients changes no bit; nor do limits that are not reached. Those that are do. */
static void kept_gradients_change_no_bit(void **state)
{
    (void)state;
    const lks_optim list[] = {lks_sgd(0.9), lks_adam(), lks_adadelta(), lks_adamw(), lks_rmsprop()};
    for (size_t i = 0; i < sizeof list / sizeof *list; i += lkt_in_part() ? 2 : 1) {
        const uint64_t plain = hash_with(&(lks_model_opts){.optim = list[i]});
        assert_true(plain ==
                    hash_with(&(lks_model_opts){.optim = list[i], .skip_not_finite = true}));
        assert_true(plain == hash_with(&(lks_model_opts){.optim = list[i], .clip_norm = 1e6}));
        assert_true(plain == hash_with(&(lks_model_opts){.optim = list[i], .clip_value = 1e6}));
        assert_true(plain != hash_with(&(lks_model_opts){.optim = list[i], .clip_value = 1e-3}));
        assert_true(plain != hash_with(&(lks_model_opts){.optim = list[i], .ema_decay = 0.5}));
        assert_true(plain != hash_with(&(lks_model_opts){.optim = list[i], .clip_norm = 0.01}));
    }
}

static uint64_t with_groups(const lks_optim *optim, const lks_group *groups, int count,
                            lks_decay decay_of)
{
    const lkt_run run = make_run(
        lkt_backends()[0]->name, lkt_net_residual,
        &(lks_model_opts){
            .optim = *optim, .groups = groups, .group_count = count, .decay_of = decay_of});
    return lkt_run_hash(&run, NULL);
}

static lks_group decay(const char *match, double weight_decay)
{
    lks_group group = lks_group_of(match);
    group.weight_decay = weight_decay;
    return group;
}

static lks_group factor(const char *match, double lr_factor)
{
    lks_group group = lks_group_of(match);
    group.lr_factor = lr_factor;
    return group;
}

/* Limits far below the range of f32 are limits all the same: nothing moves. */
static void the_smallest_limits_limit(void **state)
{
    (void)state;
    const lks_optim sgd = lks_sgd(0);
    const lks_group frozen = factor("*", 0);
    const uint64_t still = with_groups(&sgd, &frozen, 1, LKS_DECAY_ALL);
    assert_true(still == hash_with(&(lks_model_opts){.optim = sgd, .clip_norm = 1e-60}));
    assert_true(still == hash_with(&(lks_model_opts){.optim = sgd, .clip_value = 1e-60}));
    assert_true(still != hash_with(&(lks_model_opts){.optim = sgd}));
}

/* Two ways to say the same thing have the same bits. */
static void groups_say_what_they_say(void **state)
{
    (void)state;
    const lks_optim plain = lks_sgd(0.9);
    lks_optim decaying = plain;
    decaying.weight_decay = 0.125;
    const uint64_t none = with_groups(&plain, NULL, 0, LKS_DECAY_ALL);
    const uint64_t all = with_groups(&decaying, NULL, 0, LKS_DECAY_ALL);
    const uint64_t weights = with_groups(&decaying, NULL, 0, LKS_DECAY_WEIGHTS);
    assert_true(none != all && all != weights && none != weights);

    const lks_group zero = decay("*", 0), eighth = decay("*", 0.125f);
    assert_true(with_groups(&decaying, &zero, 1, LKS_DECAY_ALL) == none);
    assert_true(with_groups(&plain, &eighth, 1, LKS_DECAY_ALL) == all);
    /* A group has the last word over decay_of. */
    assert_true(with_groups(&plain, &eighth, 1, LKS_DECAY_WEIGHTS) == all);
    const lks_group not_norm[] = {decay("*.bias", 0), decay("batch_norm*.weight", 0)};
    assert_true(with_groups(&decaying, not_norm, 2, LKS_DECAY_ALL) == weights);
    /* All that match apply; the later of two that set the same thing wins. */
    const lks_group later[] = {decay("*", 7), factor("*", 0.5f), decay("*", 0.125f),
                               factor("*", 1)};
    assert_true(with_groups(&plain, later, 4, LKS_DECAY_ALL) == all);
    const lks_group half = factor("conv*", 0.5f);
    assert_true(with_groups(&plain, &half, 1, LKS_DECAY_ALL) != none);
}

/* lr_factor 0: that parameter stays, others do not. */
static void parameters_can_be_frozen(void **state)
{
    (void)state;
    const lks_group frozen = factor("fc1.*", 0);
    float before[2][64] = {{0}}, after[2][64] = {{0}};
    tiny t = tiny_open(&(tiny_opts){.model = {.groups = &frozen, .group_count = 1}});
    read_all(&t, "fc1.weight", before[0]);
    read_all(&t, "head.weight", before[1]);
    tiny_steps(&t, 3);
    read_all(&t, "fc1.weight", after[0]);
    read_all(&t, "head.weight", after[1]);
    assert_memory_equal(before[0], after[0], sizeof before[0]);
    assert_memory_not_equal(before[1], after[1], sizeof before[1]);
    tiny_close(&t);
}

static void refuses(const lks_model_opts *more, const char *part)
{
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lks_model_opts opts = *more;
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device(NULL)}));
    LKT_OK(lks_graph_create(&graph, context));
    opts.loss = lkt_net_mlp(graph);
    opts.global_batch = 4;
    LKT_FAILS(LKS_E_INVALID, part, lks_model_compile(&model, graph, &opts));
    assert_null(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    const lks_group none = lks_group_of("fc9.*"), empty = lks_group_of(""), null = {0};
    const lks_group negative = decay("*", -1), infinite = factor("*", INFINITY);
    refuses(&(lks_model_opts){.groups = &none, .group_count = 1},
            "group 'fc9.*' matches no parameter; there are 4, from 'dense_1.weight' to");
    refuses(&(lks_model_opts){.groups = &empty, .group_count = 1}, "group 1 of parameters has no");
    refuses(&(lks_model_opts){.groups = &null, .group_count = 1}, "group 1 of parameters has no");
    refuses(&(lks_model_opts){.groups = &negative, .group_count = 1},
            "group '*': weight_decay is -1, expected 0 or more");
    refuses(&(lks_model_opts){.groups = &infinite, .group_count = 1}, "lr_factor is inf");
    refuses(&(lks_model_opts){.group_count = 2}, "there are 2 groups of parameters, but no");
    refuses(&(lks_model_opts){.group_count = -2}, "there are -2 groups");
    refuses(&(lks_model_opts){.decay_of = 5}, "decay_of is 5");
    refuses(&(lks_model_opts){.clip_norm = -1}, "clip_norm is -1, expected a positive number");
    refuses(&(lks_model_opts){.clip_value = NAN}, "clip_value is");
    refuses(&(lks_model_opts){.ema_decay = 1}, "ema_decay is 1, expected a number above 0 and");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers),
        cmocka_unit_test(groups_of_parameters),
        cmocka_unit_test(groups_say_what_they_say),
        cmocka_unit_test(parameters_can_be_frozen),
        cmocka_unit_test(clipping),
        cmocka_unit_test(averages),
        cmocka_unit_test(kept_gradients_change_no_bit),
        cmocka_unit_test(the_smallest_limits_limit),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
