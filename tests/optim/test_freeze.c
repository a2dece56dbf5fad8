/* Frozen parameters: the bits of a run in which they stay as they are for another reason, on any number of workers,
 * and nothing computed or kept for them. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { MOST = 48, STEPS = 3 };

static const struct net {
    const char *name;
    lkt_net net;
} nets[] = {{"mlp", lkt_net_mlp},       {"conv", lkt_net_conv},   {"residual", lkt_net_residual},
            {"synced", lkt_net_synced}, {"gated", lkt_net_gated}, {"joined", lkt_net_joined}};
enum { NETS = sizeof nets / sizeof *nets };

/* The names of its parameters. */
typedef struct names {
    char name[MOST][64];
    int count;
} names;

static void list_names(lks_model *model, void *user)
{
    names *out = user;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_PARAMETER) continue;
        assert_true(out->count < MOST);
        snprintf(out->name[out->count++], 64, "%s", info.name);
    }
}

static lkt_run run_of(const char *device, lkt_net net, int optim)
{
    lkt_run run = {.device = device, .net = net, .samples = 37, .batch = 23, .steps = STEPS};
    run.opts.replicas = 5;
    run.opts.workers = 2;
    run.opts.hash_every = 2;
    run.opts.optim = optim == 0 ? lks_sgd(0.9) : lks_adam();
    run.opts.optim.weight_decay = 0.01;
    return run;
}

/* Frozen, and with a rate and a decay of 0: the same hash, which is of all parameters and statistics. */
static void compare(const lkt_run *run, const char *const *frozen, int count, const char *what)
{
    lks_group groups[MOST];
    lkt_run one = *run, other = *run;
    for (int i = 0; i < count; i++) {
        groups[i] = lks_group_of(frozen[i]);
        groups[i].lr_factor = groups[i].weight_decay = 0;
    }
    one.opts.freeze = frozen;
    one.opts.freeze_count = count;
    other.opts.groups = groups;
    other.opts.group_count = count;
    other.opts.workers = 1;
    if (lkt_run_hash(&one, NULL) != lkt_run_hash(&other, NULL))
        fail_msg("%s, %s: with '%s' and %d in all frozen there are other bits", run->device, what,
                 frozen[count - 1], count);
}

/* Each alone (where a layer has others that are trained, too), and from the first on. */
static void frozen_ones_stay_and_others_learn(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NETS; n++) {
            names all = {.count = 0};
            const char *frozen[MOST];
            lkt_run run = run_of(lkt_backends()[b]->name, nets[n].net, n % 2);
            run.compiled = list_names;
            run.user = &all;
            (void)lkt_run_hash(&run, NULL);
            run.compiled = NULL;
            for (int i = 0; i < all.count; i++) frozen[i] = all.name[i];
            const int every = lkt_in_part() || b > 0 ? 4 : 1;
            for (int i = 0; i < all.count; i += every) {
                compare(&run, &frozen[i], 1, nets[n].name);
                if (i > 0 && i + 1 < all.count) compare(&run, frozen, i + 1, nets[n].name);
                run.opts.by_replica = i % 2 == 0;
            }
        }
}

static void any_number_of_workers(void **state)
{
    (void)state;
    static const char *const some[] = {"conv2d_1.*", "conv2d_3.weight", "batch_norm_2.*",
                                       "dense_1.weight"};
    for (int n = 2; n < 4; n++)
        for (int e = 0; e < 4; e++) {
            lkt_run run = run_of(lkt_backends()[0]->name, nets[n].net, e % 2);
            uint64_t expected = 0;
            run.opts.freeze = some;
            run.opts.freeze_count = 4;
            run.opts.ema_decay = e > 1 ? 0.9 : 0;
            run.opts.clip_norm = e > 1 ? 0.5 : 0;
            for (int workers = 1; workers <= 5; workers += 2) {
                run.opts.workers = workers;
                const uint64_t hash = lkt_run_hash(&run, NULL);
                if (workers == 1) expected = hash;
                assert_true(hash == expected);
            }
        }
}

static bool is_frozen(const char *name)
{
    return fnmatch("conv2d_[12].*", name, 0) == 0 || strcmp(name, "dense_1.weight") == 0;
}

/* Neither optimizer state nor averages of what is frozen; its value is the first one, to the bit. */
static void check_state(lks_model *model, void *user)
{
    (void)user;
    int frozen = 0, kept = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        const char *name = info.name;
        if (info.kind == LKS_PARAMETER) frozen += is_frozen(name);
        if (info.kind != LKS_OPTIMIZER && info.kind != LKS_AVERAGE) continue;
        kept++;
        name += info.kind == LKS_AVERAGE ? strlen("ema.") : strlen("optimizer.exp_avg.");
        if (strncmp(info.name, "optimizer.exp_avg_sq.", 21) == 0) name += 3;
        if (is_frozen(name)) fail_msg("there is a %s", info.name);
    }
    assert_int_equal(frozen, 5);
    assert_int_equal(kept, 3 * 3); /* dense_1.bias, dense_2.* */
    const lks_model_info info = lks_model_get_info(model);
    assert_int_equal(info.frozen, 3 * 9 * 8 + 8 + 8 * 9 * 16 + 16 + 16 * 4 * 3 * 19);
    assert_int_equal(info.parameters - info.frozen, 19 + 19 * 5 + 5);
}

static void nothing_is_kept_for_them(void **state)
{
    (void)state;
    static const char *const some[] = {"conv2d_[12].*", "dense_1.weight"};
    lkt_run run = run_of(lkt_backends()[0]->name, lkt_net_conv, 1);
    run.opts.freeze = some;
    run.opts.freeze_count = 2;
    run.opts.ema_decay = 0.9;
    run.compiled = check_state;
    (void)lkt_run_hash(&run, NULL);
}

/* Calls of a pass in the stage that has a layer. */
static int64_t calls_of(const lks_model *model, const char *layer, const char *pass)
{
    int64_t calls = 0;
    for (int r = 0; r < lks_profile_total(model).rows; r++) {
        const lks_profile_row row = lks_profile_get(model, r);
        const lks_tensor *x;
        if (row.stage < 0 || strcmp(row.pass, pass) != 0) continue;
        for (int i = 0; (x = lks_model_stage_layer(model, row.stage, i)) != NULL; i++)
            if (strcmp(lks_tensor_name(x), layer) == 0) calls += row.calls;
    }
    return calls;
}

/* Backward stops at the lowest that learns; gradients by rows are formed of what learns alone. */
static void nothing_is_computed_for_them(void **state)
{
    (void)state;
    static const char *const some[] = {"conv2d_1.*", "dense_1.*"};
    lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[0]->name});
    lks_model_opts opts = {.loss = lkt_net_conv(m.graph),
                           .global_batch = 16,
                           .workers = 1,
                           .freeze = some,
                           .freeze_count = 2};
    lkt_images images = lkt_images_make(16);
    lks_metrics metrics = {0};
    lkt_compile(&m, &opts);
    LKT_OK(lks_profile_start(m.model));
    LKT_OK(lks_model_step(m.model, &(lks_batch){.count = 16, .x = images.x, .y = images.y}, 0.1,
                          &metrics));
    assert_true(calls_of(m.model, "conv2d_1", "forward") > 0);
    assert_int_equal(calls_of(m.model, "conv2d_1", "backward"), 0);
    assert_int_equal(calls_of(m.model, "conv2d_1", "update"), 0);
    assert_true(calls_of(m.model, "conv2d_2", "backward") > 0);
    assert_true(calls_of(m.model, "dense_1", "backward") > 0); /* for conv2d_2's */
    assert_int_equal(calls_of(m.model, "dense_1", "rows"), 0);
    assert_int_equal(calls_of(m.model, "dense_1", "update"), 0);
    assert_true(calls_of(m.model, "dense_2", "rows") > 0);
    lkt_images_free(&images);
    lkt_end(&m);
}

static void expect_refusal(const char *const *freeze, int count, const char *sentence)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[0]->name});
    const lks_model_opts opts = {
        .loss = lkt_net_conv(m.graph), .global_batch = 16, .freeze = freeze, .freeze_count = count};
    LKT_FAILS(LKS_E_INVALID, sentence, lks_model_compile(&m.model, m.graph, &opts));
    lkt_end(&m);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    expect_refusal((const char *const[]){"dense_1.*", "fc*"}, 2,
                   "freeze 'fc*' matches no parameter; there are 8, from 'conv2d_1.weight' to "
                   "'dense_2.bias'");
    expect_refusal((const char *const[]){"*"}, 1, "freeze leaves no parameter to train");
    expect_refusal((const char *const[]){"dense_1.*", ""}, 2,
                   "pattern 2 of freeze is empty, expected one such as 'conv1.*'");
    expect_refusal(NULL, 2, "freeze_count is 2, but there are no patterns");
    expect_refusal(NULL, -1, "freeze_count is -1, but it counts patterns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_ones_stay_and_others_learn),
        cmocka_unit_test(any_number_of_workers),
        cmocka_unit_test(nothing_is_kept_for_them),
        cmocka_unit_test(nothing_is_computed_for_them),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
