#include "support/ranks/carried.h"

#include <pthread.h>

#include "base/check.h"
#include "numeric/hash.h"

typedef struct window {
    float x[CARRIED_COLUMNS][CARRIED_POSITIONS][CARRIED_WIDTH];
    int32_t y[CARRIED_COLUMNS][CARRIED_POSITIONS];
} window;

lks_status lkt_carried_build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.seed = 3}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_graph *g = m->graph;
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(CARRIED_POSITIONS, CARRIED_WIDTH)});
    x = lks_lstm(g, x,
                 &(lks_recurrent_opts){
                     .name = "r", .hidden = 7, .layers = 2, .dropout = .25f, .carry_state = true});
    x = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 6, .carry_state = true});
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 5, .carry_state = true});
    x = lks_dense(g, x, &(lks_dense_opts){.units = CARRIED_CLASSES});
    lks_tensor *y = lks_target(
        g, &(lks_target_opts){.classes = CARRIED_CLASSES, .shape = LKS_SHAPE(CARRIED_POSITIONS)});
    m->loss = lks_cross_entropy(g, x, y, NULL);
    LKI_TRY(lks_graph_status(g));
    if (opts.global_batch == 0) opts.global_batch = CARRIED_COLUMNS;
    if (opts.replicas == 0) opts.replicas = 5;
    opts.optim = lks_sgd(0.5);
    return lkt_small_compile(m, comm, opts);
}

static window windows[CARRIED_WINDOWS];

static void fill_windows(void)
{
    lkt_random random = {.state = 17};
    for (int i = 0; i < CARRIED_WINDOWS; i++)
        for (int c = 0; c < CARRIED_COLUMNS; c++)
            for (int t = 0; t < CARRIED_POSITIONS; t++) {
                for (int k = 0; k < CARRIED_WIDTH; k++)
                    windows[i].x[c][t][k] = (float)lkt_random_real(&random, -2, 2);
                windows[i].y[c][t] = (int32_t)lkt_random_below(&random, CARRIED_CLASSES);
            }
}

lks_batch lkt_carried_batch(int step)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* ranks may be threads */
    pthread_once(&once, fill_windows);
    const window *now = &windows[step % CARRIED_WINDOWS];
    return (lks_batch){.x = now->x,
                       .y = now->y,
                       .count = CARRIED_COLUMNS,
                       .continues = step % CARRIED_WINDOWS > 0};
}

lks_status lkt_carried_train(lkt_small *m, int first, int last, lks_metrics *sum)
{
    for (int i = first; i < last; i++) {
        const lks_batch batch = lkt_carried_batch(i);
        lks_metrics metrics;
        LKI_TRY(lks_model_step(m->model, &batch, .3, &metrics));
        if (sum != NULL) lks_metrics_add(sum, &metrics);
    }
    return LKS_OK;
}

lks_status lkt_carried_evaluate(lkt_small *m, lks_metrics *sum)
{
    for (int i = 0; i < CARRIED_WINDOWS; i++) {
        const lks_batch batch = lkt_carried_batch(i);
        LKI_TRY(lks_model_evaluate(m->model, &batch, sum));
    }
    return LKS_OK;
}

lks_status lkt_carried_hash(lkt_small *m, uint64_t *out)
{
    float values[CARRIED_COLUMNS * 14];
    *out = 0;
    for (int i = 0; i < lks_model_state_count(m->model); i++) {
        const lks_state_info info = lks_model_state_info(m->model, i);
        if (info.kind != LKS_CARRIED) continue;
        if (info.bytes > sizeof values) return LKS_E_BUG;
        LKI_TRY(lks_model_state_read(m->model, i, values, info.bytes));
        *out = lki_hash_link(*out, i, lki_hash(values, info.bytes));
    }
    return LKS_OK;
}

lkt_carried_outcome lkt_carried_look(lkt_small *m, const lks_metrics *trained)
{
    lkt_carried_outcome o = {.trained = *trained};
    LKT_OK(lks_model_hash(m->model, &o.hash));
    LKT_OK(lkt_carried_hash(m, &o.carried));
    LKT_OK(lkt_carried_evaluate(m, &o.evaluated));
    return o;
}

lkt_carried_outcome lkt_carried_alone(lks_model_opts opts)
{
    lkt_small m = {.model = NULL};
    lks_metrics sum = {0};
    LKT_OK(lkt_carried_build(&m, NULL, opts));
    LKT_OK(lkt_carried_train(&m, 0, CARRIED_END, &sum));
    const lkt_carried_outcome o = lkt_carried_look(&m, &sum);
    lkt_small_end(&m);
    return o;
}

void lkt_carried_same(const lkt_carried_outcome *a, const lkt_carried_outcome *b)
{
    assert_true(a->hash == b->hash);
    assert_true(a->carried == b->carried);
    assert_memory_equal(&a->trained, &b->trained, sizeof a->trained);
    assert_memory_equal(&a->evaluated, &b->evaluated, sizeof a->evaluated);
}
