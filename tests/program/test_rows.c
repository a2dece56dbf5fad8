/* Gradients by rows in one process: a worker that is done early takes parts before the others are done, and none is
 * taken in a step that fails. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { BATCH = 12, WIDTH = 6, UNITS = 40, OUT = 2, WAIT_S = 20 };

typedef struct net {
    lkt_model m;
    float x[BATCH * WIDTH * WIDTH], y[BATCH * OUT];
} net;

/* Dense layers, of several parts, behind a convolution: the backward pass ends with that. */
static void open_net(net *n, const lks_model_opts *opts)
{
    lks_model_opts own = *opts;
    n->m = lkt_begin(&(lks_context_opts){.device = lkt_device(NULL)});
    lks_graph *g = n->m.graph;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH, WIDTH, 1)});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(OUT)});
    x = lks_scale(g, x, &(lks_scale_opts){.factor = .5f});
    x = lks_conv2d(g, x, &(lks_conv2d_opts){.name = "conv", .filters = 3, .kernel = {3, 3}});
    x = lks_relu(g, lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = UNITS}));
    own.loss = lks_mse(g, lks_dense(g, x, &(lks_dense_opts){.units = OUT}), y);
    own.global_batch = BATCH;
    lkt_compile(&n->m, &own);
    for (int i = 0; i < BATCH * WIDTH * WIDTH; i++) n->x[i] = (float)(i * 37 % 19) / 19.0f;
    for (int i = 0; i < BATCH * OUT; i++) n->y[i] = (float)(i % 5) / 5.0f;
}

static lks_status step(net *n)
{
    return lks_model_step(n->m.model, &(lks_batch){.x = n->x, .y = n->y, .count = BATCH}, 0.1,
                          NULL);
}

/* ---------------------------------------------------------------- whose parts */

static atomic_llong given; /* elements whose sums there are */
static int64_t all;        /* that gradients by rows have */
static atomic_bool late;   /* they did not come before the slow worker was done */

static void count_sums(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                       const float *sums)
{
    const lki_rows *rows = user;
    rows->sum(rows->user, node, slot, first, count, sums);
    atomic_fetch_add(&given, count);
}

static void count_rows(const lki_plan *plan, const lki_rows *rows)
{
    lki_rows own = *rows;
    own.sum = count_sums;
    own.user = (void *)(uintptr_t)rows;
    plan->kernel->rows(plan, &own);
}

/* The replica that begins with sample 4, the second worker's, ends when all rows have been formed. */
static lks_status wait_for_rows(const lki_plan *plan, const lki_args *args)
{
    const time_t begin = time(NULL);
    while (args->position >= 4 && atomic_load(&given) < all)
        if (time(NULL) > begin + WAIT_S) {
            atomic_store(&late, true);
            break;
        }
    return plan->kernel->backward(plan, args);
}

static void who_is_done_takes_the_parts_of_others(void **state)
{
    net n;
    (void)state;
    open_net(&n, &(lks_model_opts){.replicas = 3, .workers = 2, .optim = lks_adam()});
    lki_program *program = &n.m.model->program;
    lki_kernel kernels[16];
    const lki_kernel *before[16];
    int by_rows = 0;
    assert_true(program->stages <= 16);
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        before[s] = stage->kernel;
        kernels[s] = *stage->kernel;
        if (stage->plan->by_rows) kernels[s].rows = count_rows;
        by_rows += stage->plan->by_rows;
        for (int p = 0; p < stage->cluster->param_count && stage->plan->by_rows; p++)
            all += n.m.model->weight[stage->weight[p]].count;
        if (strcmp(lki_cluster_head(stage->cluster)->name, "conv") == 0)
            kernels[s].backward = wait_for_rows;
        stage->kernel = &kernels[s];
    }
    assert_int_equal(by_rows, 2);
    if (!program->backend->memory->host) atomic_store(&given, all); /* there nothing is early */
    const int64_t before_it = atomic_load(&given);
    LKT_OK(step(&n));
    assert_int_equal(atomic_load(&given), before_it + all);
    assert_false(atomic_load(&late));
    for (int s = 0; s < program->stages; s++) program->stage[s].kernel = before[s];
    lkt_end(&n.m);
}

/* ---------------------------------------------------------------- steps that fail */

static void a_loss_that_is_not_finite_updates_nothing(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 4; workers++)
        for (int bad = 0; bad < BATCH; bad += 2) {
            net n;
            open_net(&n, &(lks_model_opts){.replicas = 4, .workers = workers, .optim = lks_adam()});
            LKT_OK(step(&n));
            const uint64_t before = lkt_state_hash(n.m.model);
            n.y[bad * OUT] = NAN;
            assert_int_equal(step(&n), LKS_E_NUMERIC);
            assert_int_equal(lkt_state_hash(n.m.model), before);
            n.y[bad * OUT] = 0;
            LKT_OK(step(&n));
            assert_int_not_equal(lkt_state_hash(n.m.model), before);
            lkt_end(&n.m);
        }
}

/* In every step the parts are shared out otherwise, by chance. */
static void bits_are_those_of_one_worker(void **state)
{
    static const int replicas[] = {2, 3, 5, 12};
    (void)state;
    for (size_t v = 0; v < sizeof replicas / sizeof *replicas; v++) {
        uint64_t expected = 0;
        for (int workers = 1; workers <= 4 && workers <= replicas[v]; workers++) {
            net n;
            open_net(&n, &(lks_model_opts){.replicas = replicas[v],
                                           .workers = workers,
                                           .ema_decay = .9,
                                           .optim = lks_adam()});
            for (int i = 0; i < 12; i++) LKT_OK(step(&n));
            if (workers == 1) expected = lkt_state_hash(n.m.model);
            assert_int_equal(lkt_state_hash(n.m.model), expected);
            lkt_end(&n.m);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_done_takes_the_parts_of_others),
        cmocka_unit_test(a_loss_that_is_not_finite_updates_nothing),
        cmocka_unit_test(bits_are_those_of_one_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
