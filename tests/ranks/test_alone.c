/* average_every: what is averaged, and what goes wrong where ranks step alone. */
#include <math.h>

#include "support/ranks/small.h"
#include "support/runs.h"

enum { FC1 = SMALL_WIDTH * 8 };

/* What ranks have written alone, and a rate of 0: the mean by samples of all steps since, exact. */
static int weighs_samples(lkt_small *m, int rank, void *user)
{
    static const int64_t counts[] = {24, 5, 1,
                                     13}; /* in the third, all but the last rank are idle */
    static const int64_t border[] = {0, 1, 4, 6};
    const int at = lks_model_state_find(m->model, "fc1.weight");
    lks_batch unequal = *lkt_small_batch();
    float values[FC1];
    double sum[FC1] = {0}, all = 0;
    unequal.count = 7;
    (void)user;
    for (int r = 0; r < SMALL_RANKS; r++) {
        double weight = 0;
        for (int s = 0; s < 4; s++)
            weight += (double)(border[r + 1] * counts[s] / 6 - border[r] * counts[s] / 6);
        for (int i = 0; i < FC1; i++) sum[i] += weight * (double)(i * 37 % 101 + r * 1000);
        all += weight;
    }
    for (int i = 0; i < FC1; i++) values[i] = (float)(i * 37 % 101 + rank * 1000);
    LKT_CHECK(lks_model_step(m->model, &unequal, 0, NULL) == LKS_OK);
    lks_model_set_progress(m->model,
                           lks_model_progress(m->model)); /* what was before counts no more */
    for (int s = 0; s < 4; s++) {
        lks_batch batch = *lkt_small_batch();
        batch.count = counts[s];
        LKT_CHECK(lks_model_alone(m->model) == s);
        LKT_CHECK(lks_model_step(m->model, &batch, 0, NULL) == LKS_OK);
        if (s > 0) continue; /* before it all ranks have what the first link is of */
        LKT_CHECK(lks_model_state_write(m->model, at, values, sizeof values) == LKS_OK);
    }
    LKT_CHECK(lks_model_alone(m->model) == 4);
    LKT_CHECK(lks_model_average(m->model) == LKS_OK);
    LKT_CHECK(lks_model_alone(m->model) == 0);
    LKT_CHECK(lks_model_state_read(m->model, at, values, sizeof values) == LKS_OK);
    for (int i = 0; i < FC1; i++) LKT_CHECK(values[i] == (float)(sum[i] / all));
    LKT_CHECK(lks_model_average(m->model) == LKS_OK); /* there is nothing to do */
    return 0;
}

static int weighs(lks_comm *comm, int rank, void *user)
{
    static const double weight[] = {1, 3, 2};
    lkt_small m = {.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm,
                              (lks_model_opts){.average_every = 10,
                                               .hash_every = 100,
                                               .weight = weight[rank]}) == LKS_OK);
    LKT_CHECK(strcmp(lks_model_get_info(m.model).law, "average_every 10, replicas 1 + 3 + 2") == 0);
    LKT_CHECK(lks_model_get_info(m.model).own_bits);
    const int result = weighs_samples(&m, rank, user);
    lkt_small_end(&m);
    return result;
}

static void models_are_weighted_by_samples(void **state)
{
    (void)state;
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .delay = 2}, NULL, weighs, NULL);
}

/* What is too small to be stored is so behind an average, too. */
static int flushes(lkt_small *m, int rank, void *user)
{
    const int value = lks_model_state_find(m->model, "fc1.weight");
    const int mean = lks_model_state_find(m->model, "optimizer.exp_avg.fc1.weight");
    const int square = lks_model_state_find(m->model, "optimizer.exp_avg_sq.fc1.weight");
    float values[FC1] = {0};
    const size_t bytes = sizeof values;
    (void)user;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), 0, NULL) == LKS_OK);
    values[0] = rank == 0 ? 0x1p-63f : 0; /* a third of it */
    values[1] = rank == 0 ? 0x1p-60f : 0;
    values[2] = rank == 0 ? 0x1p-80f : 0; /* of squares alone it is not too small */
    LKT_CHECK(lks_model_state_write(m->model, value, values, bytes) == LKS_OK);
    LKT_CHECK(lks_model_state_write(m->model, mean, values, bytes) == LKS_OK);
    values[0] = rank == 0 ? 0x1p-110f : 0;
    LKT_CHECK(lks_model_state_write(m->model, square, values, bytes) == LKS_OK);
    LKT_CHECK(lks_model_average(m->model) == LKS_OK);
    for (int i = 0; i < 3; i++) {
        const int entry = i == 0 ? value : i == 1 ? mean : square;
        LKT_CHECK(lks_model_state_read(m->model, entry, values, bytes) == LKS_OK);
        LKT_CHECK(values[0] == 0);
        LKT_CHECK(values[1] == (float)(0x1p-60 / 3));
        LKT_CHECK(values[2] == (entry == square ? (float)(0x1p-80 / 3) : 0));
    }
    return 0;
}

static void small_values_are_none(void **state)
{
    (void)state;
    lkt_small_tell(
        SMALL_RANKS,
        &(lkt_story){.opts = {.average_every = 10, .hash_every = 100, .optim = lks_adam()},
                     .body = flushes});
}

/* ---- every step, by plain SGD: the step of all, up to rounding */

typedef struct nearness {
    int64_t samples;
    float expected[FC1];
    double bound[FC1];
} nearness;

/*
 * With p = 1: sum_k m_k (w - lr g_k) / n = w - lr sum_k m_k g_k / n, which is the synchronous step. Roundings, in
 * units of u = 2^-24 and to first order: the sums of a rank and of all over V replicas, (V - 1) sum|s_v|
 * each; the mean's factor, its product and the rate's, 3 each; and the new parameter of each, |w'| where
 * |w'| <= |w| + lr sum|s_v| / n or, of a rank, + lr |g_k|; at last the mean, |w'|. With S = sum|s_v| / n and
 * m_k |g_k| / n <= S that is at most u ((2 (V - 1) + 6) lr S + 3 |w| + 3 lr S).
 */
static void find_step(nearness *q)
{
    enum { V = 6 };
    const double u = 0x1p-24, lr = .5;
    lkt_small m = {.model = NULL}, one = {.model = NULL};
    lks_batch batch = *lkt_small_batch();
    float own[FC1];
    double sum[FC1] = {0};
    batch.count = q->samples;
    LKT_OK(lkt_small_build(&m, NULL, (lks_model_opts){0}));
    LKT_OK(lkt_small_build(&one, NULL, (lks_model_opts){.replicas = 1}));
    const int w = lks_model_state_find(m.model, "fc1.weight");
    const int g = lks_model_state_find(one.model, "gradient.fc1.weight");
    for (int64_t v = 0; v < V; v++) {
        const int64_t first = v * q->samples / V;
        lks_batch share = {.count = (v + 1) * q->samples / V - first,
                           .x = (const float *)batch.x + first * SMALL_WIDTH,
                           .y = (const int32_t *)batch.y + first};
        if (share.count == 0) continue;
        LKT_OK(lks_model_gradient(one.model, &share, NULL));
        LKT_OK(lks_model_state_read(one.model, g, own, sizeof own));
        for (int i = 0; i < FC1; i++)
            sum[i] += fabs((double)own[i]) * (double)share.count / (double)q->samples;
    }
    LKT_OK(lks_model_state_read(m.model, w, own, sizeof own));
    for (int i = 0; i < FC1; i++)
        q->bound[i] = 1.01 * u * ((2 * (V - 1) + 6 + 3) * lr * sum[i] + 3 * fabs((double)own[i]));
    LKT_OK(lks_model_step(m.model, &batch, lr, NULL));
    LKT_OK(lks_model_state_read(m.model, w, q->expected, sizeof q->expected));
    lkt_small_end(&one);
    lkt_small_end(&m);
}

static int steps_nearly(lkt_small *m, int rank, void *user)
{
    const nearness *q = user;
    lks_batch batch = *lkt_small_batch();
    float found[FC1];
    (void)rank;
    batch.count = q->samples;
    LKT_CHECK(lks_model_step(m->model, &batch, .5, NULL) == LKS_OK);
    LKT_CHECK(lks_model_alone(m->model) == 0);
    LKT_CHECK(lks_model_state_read(m->model, lks_model_state_find(m->model, "fc1.weight"), found,
                                   sizeof found) == LKS_OK);
    for (int i = 0; i < FC1; i++)
        LKT_CHECK(fabs((double)found[i] - (double)q->expected[i]) <= q->bound[i]);
    return 0;
}

static void every_step_is_the_step_of_all_up_to_rounding(void **state)
{
    static const int64_t counts[] = {24, 23, 7, 2};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int ranks = 2; ranks <= 4; ranks++) {
            nearness q = {.samples = counts[i]};
            find_step(&q);
            lkt_small_tell(ranks,
                           &(lkt_story){.opts = {.average_every = 1, .by_replica = i % 2 == 1},
                                        .body = steps_nearly,
                                        .user = &q});
        }
}

/* ---- what goes wrong, and what is refused */

/* A sample that is not finite is on one rank; a gradient whose squares are not, too. */
typedef struct wrong {
    bool skips, of_gradient;
} wrong;

/* The first input reaches no output, however large it is, but its gradient is a hundred times that. */
static int steepen(lkt_small *m)
{
    const int in = lks_model_state_find(m->model, "fc1.weight");
    const int out = lks_model_state_find(m->model, "fc2.weight");
    float first[FC1], second[8 * SMALL_CLASSES];
    LKT_CHECK(lks_model_state_read(m->model, in, first, sizeof first) == LKS_OK);
    for (int i = 0; i < FC1; i += SMALL_WIDTH) first[i] = 0;
    for (int i = 0; i < 8 * SMALL_CLASSES; i++) second[i] = (float)((i * 5 % 7 - 3) * 100);
    LKT_CHECK(lks_model_state_write(m->model, in, first, sizeof first) == LKS_OK);
    LKT_CHECK(lks_model_state_write(m->model, out, second, sizeof second) == LKS_OK);
    return 0;
}

static int goes_wrong(lkt_small *m, int rank, void *user)
{
    const wrong *w = user;
    float wild[SMALL_SAMPLES * SMALL_WIDTH];
    lks_batch batch = *lkt_small_batch();
    memcpy(wild, batch.x, sizeof wild);
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_OK);
    if (w->of_gradient) LKT_CHECK(steepen(m) == 0);
    const uint64_t before = lkt_state_hash(m->model);
    for (int i = 16; i < SMALL_SAMPLES && w->of_gradient; i++) wild[i * SMALL_WIDTH] = 1e37f;
    if (!w->of_gradient) wild[20 * SMALL_WIDTH] = NAN;
    batch.x = wild;
    const lks_status status = lks_model_step(m->model, &batch, .1, NULL);
    LKT_CHECK(status == (w->skips ? LKS_OK : LKS_E_NUMERIC));
    LKT_CHECK(lkt_state_hash(m->model) == before);
    LKT_CHECK(lks_model_alone(m->model) == 1);
    if (w->skips) {
        LKT_CHECK(lks_model_last_step(m->model).skipped);
        LKT_CHECK(lks_model_progress(m->model).skipped == 1);
    } else {
        LKT_SAYS(w->of_gradient ? "step 2: the norm of the gradient is " : "sample 1020");
    }
    if (rank == 1)
        LKT_CHECK(lks_model_fail(m->model, LKS_E_IO) == LKS_E_IO);
    else
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_E_IO);
    batch = *lkt_small_batch();
    batch.count = 1; /* two ranks are idle */
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_average(m->model) == LKS_OK);
    uint64_t hash, all[SMALL_RANKS];
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK);
    LKT_CHECK(lks_comm_all_gather(lks_model_comm(m->model), &hash, sizeof hash, all) == LKS_OK);
    for (int r = 0; r < SMALL_RANKS; r++) LKT_CHECK(all[r] == hash);
    return 0;
}

static void what_is_not_finite_on_one_rank_is_so_on_all(void **state)
{
    static const wrong list[] = {{true, false}, {false, false}, {true, true}, {false, true}};
    (void)state;
    for (int i = 0; i < 4; i++)
        lkt_small_tell(SMALL_RANKS, &(lkt_story){.opts = {.average_every = 100,
                                                          .hash_every = 100,
                                                          .workers = 1 + i % 2,
                                                          .optim = lks_adam(),
                                                          .ema_decay = .5,
                                                          .clip_norm = list[i].of_gradient ? 1 : 0,
                                                          .skip_not_finite = list[i].skips},
                                                 .body = goes_wrong,
                                                 .user = (void *)(uintptr_t)&list[i]});
}

/* The average of a rank that was idle in the first update begins there, too. */
static int begins_idle(lkt_small *m, int rank, void *user)
{
    const int average = lks_model_state_find(m->model, "ema.fc1.weight");
    const int value = lks_model_state_find(m->model, "fc1.weight");
    float first[FC1], values[FC1], found[FC1];
    lks_batch batch = *lkt_small_batch();
    (void)user;
    LKT_CHECK(lks_model_state_read(m->model, value, first, sizeof first) == LKS_OK);
    batch.count = 1;
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, average, found, sizeof found) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, value, values, sizeof values) == LKS_OK);
    LKT_CHECK(memcmp(found, values, sizeof found) == 0);
    LKT_CHECK((memcmp(first, values, sizeof first) == 0) == (rank < 2));
    return 0;
}

static void an_idle_rank_begins_its_averages(void **state)
{
    (void)state;
    lkt_small_tell(SMALL_RANKS,
                   &(lkt_story){.opts = {.average_every = 3, .hash_every = 3, .ema_decay = .5},
                                .body = begins_idle});
}

/* One of several models is not what was trained; and who goes on from a saved one has taken no step alone. */
static int saves(lkt_small *m, int rank, void *user)
{
    lks_run run = {.best_step = -1};
    (void)rank, (void)user;
    for (int i = 0; i < 2; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_weights_save(m->model, "/nowhere/w.safetensors") == LKS_E_STATE);
    LKT_SAYS("2 steps ago the processes had one model, and each has its own now (average_every); ");
    LKT_CHECK(lks_checkpoint_save(m->model, &run, "/nowhere", 1) == LKS_E_STATE);
    LKT_SAYS("call lks_model_average() before saving");
    lks_model_set_progress(m->model, lks_model_progress(m->model));
    LKT_CHECK(lks_model_alone(m->model) == 0);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_alone(m->model) == 1);
    LKT_CHECK(lks_model_average(m->model) == LKS_OK);
    LKT_CHECK(lks_weights_save(m->model, "/nowhere/w.safetensors") == LKS_E_IO);
    return 0;
}

static void saves_are_of_one_model(void **state)
{
    (void)state;
    lkt_small_tell(2, &(lkt_story){.opts = {.average_every = 5, .hash_every = 100}, .body = saves});
}

static int refuses(lks_comm *comm, int rank, void *user)
{
    static const struct {
        lks_model_opts opts;
        const char *said;
        lks_status status;
    } list[] = {
        {{.average_every = -1}, "average_every is -1, expected 1 or more", LKS_E_INVALID},
        {{.average_every = 2, .balance = LKS_BALANCE_AUTO},
         "balance: auto would change bits with average_every",
         LKS_E_INVALID},
        {{.average_every = 2, .exchange = LKS_EXCHANGE_NONE}, "exchange nothing", LKS_E_INVALID},
        {{.average_every = 2, .reduction = LKS_REDUCTION_LIBRARY},
         "no sums for reduction: library",
         LKS_E_INVALID},
    };
    lkt_small m = {.model = NULL};
    (void)user;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        m = (lkt_small){.model = NULL};
        LKT_CHECK(lkt_small_build(&m, comm, list[i].opts) == list[i].status);
        LKT_SAYS(list[i].said);
        lkt_small_end(&m);
    }
    m = (lkt_small){.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.average_every = 2 + rank}) ==
              LKS_E_MISMATCH);
    LKT_SAYS("average_every 3, rank 0 with 2");
    lkt_small_end(&m);
    m = (lkt_small){.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.average_every = 2}) == LKS_OK);
    LKT_CHECK(lks_model_gradient(m.model, lkt_small_batch(), NULL) == LKS_E_UNSUPPORTED);
    LKT_SAYS("with average_every ranks form that of their own samples alone");
    lkt_small_end(&m);
    return 0;
}

static void refusals(void **state)
{
    (void)state;
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = 2}, NULL, refuses, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_weighted_by_samples),
        cmocka_unit_test(small_values_are_none),
        cmocka_unit_test(every_step_is_the_step_of_all_up_to_rounding),
        cmocka_unit_test(what_is_not_finite_on_one_rank_is_so_on_all),
        cmocka_unit_test(an_idle_rank_begins_its_averages),
        cmocka_unit_test(saves_are_of_one_model),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
