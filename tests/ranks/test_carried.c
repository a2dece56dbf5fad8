/*
 * Recurrent layers over ranks, with a state that each rank has of its own samples: bits, losses, digits of an evaluation and
 * what is carried are those of one process, also where ranges change in the middle of an epoch, and where a run goes on with
 * other ranks than it was begun with.
 */
#include <math.h>

#include "base/check.h"
#include "support/ranks/carried.h"
#include "support/ranks/cuts.h"

enum { RANKS = 3 };

typedef struct layout {
    int ranks;
    bool apart; /* without memory in common */
    bool cuts;
    lks_model_opts opts;
} layout;

static const layout LAYOUTS[] = {
    {2, true, false, {.workers = 1}},
    {2, false, false, {.workers = 2}},
    {3, true, false, {.workers = 1, .bucket_bytes = 64}},
    {3, false, false, {.workers = 1}},
    {3, true, false, {.workers = 1, .shard = LKS_SHARD_ON}},
    {5, true, false, {.workers = 1, .recompute = true}},
    {2, true, true, {.workers = 2, .balance = LKS_BALANCE_AUTO}},
    {3, false, true, {.workers = 1, .balance = LKS_BALANCE_AUTO}},
    {3, true, true, {.workers = 1, .balance = LKS_BALANCE_AUTO, .shard = LKS_SHARD_ON}},
};

static lks_status look(lkt_small *m, lkt_carried_outcome *o)
{
    LKI_TRY(lks_model_hash(m->model, &o->hash));
    return lkt_carried_hash(m, &o->carried);
}

/* The part of a window that this rank's replicas have. */
static lks_batch own_batch(const lkt_small *m, int step)
{
    const lks_model_info info = lks_model_get_info(m->model);
    lks_batch batch = lkt_carried_batch(step);
    const int64_t begin = info.first_share * CARRIED_COLUMNS / info.shares;
    const int64_t end = info.last_share * CARRIED_COLUMNS / info.shares;
    batch.x = (const float *)batch.x + begin * CARRIED_POSITIONS * CARRIED_WIDTH;
    batch.y = (const int32_t *)batch.y + begin * CARRIED_POSITIONS;
    batch.first = begin;
    batch.count = end - begin;
    batch.whole = CARRIED_COLUMNS;
    batch.counted = CARRIED_COLUMNS * CARRIED_POSITIONS;
    return batch;
}

typedef struct expectation {
    const layout *layout;
    lkt_carried_outcome at_end;
} expectation;

static int runs(lkt_small *m, int rank, void *user)
{
    const expectation *e = user;
    lkt_carried_outcome o = {0};
    (void)rank;
    if (e->layout->cuts) lkt_cut_often(m->model);
    for (int i = 0; i < CARRIED_END; i++) {
        const lks_batch batch = own_batch(m, i);
        lks_metrics metrics;
        LKT_CHECK(lks_model_step(m->model, &batch, .3, &metrics) == LKS_OK);
        lks_metrics_add(&o.trained, &metrics);
    }
    LKT_CHECK((lks_model_get_info(m->model).cuts > 2) == e->layout->cuts);
    LKT_CHECK(look(m, &o) == LKS_OK);
    LKT_CHECK(o.hash == e->at_end.hash);
    LKT_CHECK(o.carried == e->at_end.carried);
    for (int i = 0; i < CARRIED_WINDOWS; i++) {
        const lks_batch batch = own_batch(m, i);
        LKT_CHECK(lks_model_evaluate(m->model, &batch, &o.evaluated) == LKS_OK);
    }
    LKT_CHECK(lks_comm_metrics(lks_model_comm(m->model), &o.evaluated) == LKS_OK);
    LKT_CHECK(memcmp(&o.trained, &e->at_end.trained, sizeof o.trained) == 0);
    LKT_CHECK(memcmp(&o.evaluated, &e->at_end.evaluated, sizeof o.evaluated) == 0);
    LKT_CHECK(lks_model_check_ranks(m->model) == LKS_OK);
    return 0;
}

static void any_ranks_have_the_same_bits(void **state)
{
    const lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 1});
    (void)state;
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof LAYOUTS[0]; i++) {
        const layout *how = &LAYOUTS[i];
        expectation e = {.layout = how, .at_end = expected};
        lkt_small_tell(how->ranks, &(lkt_story){.build = lkt_carried_build,
                                                .opts = how->opts,
                                                .body = runs,
                                                .user = &e,
                                                .apart = how->apart});
    }
}

/* ---------------------------------------------------------------- a run that goes on */

enum { ENTRIES = 80, BYTES = 4096, STOP = 9 };

typedef struct saved {
    lks_progress progress;
    size_t bytes[ENTRIES];
    char values[ENTRIES][BYTES];
    lkt_carried_outcome at_end;
    int from, to;
} saved;

static lks_status put(lkt_small *m, saved *s)
{
    for (int i = 0; i < lks_model_state_count(m->model); i++)
        if (s->bytes[i] > 0) LKI_TRY(lks_model_state_write(m->model, i, s->values[i], s->bytes[i]));
    lks_model_set_progress(m->model, s->progress);
    return LKS_OK;
}

/* The first rank's thread keeps what it has read; all have read the same. */
static lks_status take(lkt_small *m, int rank, saved *s)
{
    static char rest[RANKS][BYTES];
    for (int i = 0; i < lks_model_state_count(m->model); i++) {
        const lks_state_info info = lks_model_state_info(m->model, i);
        if (info.kind == LKS_GRADIENT) continue;
        if (i >= ENTRIES || info.bytes > BYTES) return LKS_E_BUG;
        LKI_TRY(
            lks_model_state_read(m->model, i, rank == 0 ? s->values[i] : rest[rank], info.bytes));
        if (rank == 0) s->bytes[i] = info.bytes;
    }
    if (rank == 0) s->progress = lks_model_progress(m->model);
    return LKS_OK;
}

static int begins(lkt_small *m, int rank, void *user)
{
    LKT_CHECK(lkt_carried_train(m, 0, STOP, NULL) == LKS_OK);
    LKT_CHECK(take(m, rank, user) == LKS_OK);
    return 0;
}

static int goes_on(lkt_small *m, int rank, void *user)
{
    saved *s = user;
    lkt_carried_outcome o = {0};
    (void)rank;
    LKT_CHECK(put(m, s) == LKS_OK);
    LKT_CHECK(lkt_carried_train(m, STOP, CARRIED_END, NULL) == LKS_OK);
    LKT_CHECK(look(m, &o) == LKS_OK);
    LKT_CHECK(o.hash == s->at_end.hash && o.carried == s->at_end.carried);
    return 0;
}

static void other_ranks_go_on_in_the_middle_of_an_epoch(void **state)
{
    static saved s;
    (void)state;
    s.at_end = lkt_carried_alone((lks_model_opts){.workers = 1});
    for (int apart = 0; apart < 2; apart++) {
        lkt_story story = {.build = lkt_carried_build,
                           .opts = {.workers = 1},
                           .body = begins,
                           .user = &s,
                           .apart = apart == 1};
        lkt_small_tell(RANKS, &story);
        story.body = goes_on;
        lkt_small_tell(2, &story);
        story.apart = !story.apart;
        lkt_small_tell(RANKS, &story);
        lkt_small m = {.model = NULL};
        LKT_OK(lkt_carried_build(&m, NULL, story.opts));
        assert_int_equal(goes_on(&m, 0, &s), 0);
        lkt_small_end(&m);
    }
}

/* ---------------------------------------------------------------- steps that are not taken */

static int survives(lkt_small *m, int rank, void *user)
{
    static float bad[CARRIED_COLUMNS * CARRIED_POSITIONS * CARRIED_WIDTH];
    const lkt_carried_outcome *expected = user;
    lkt_carried_outcome o = {0};
    for (int i = 0; i < CARRIED_END; i++) {
        lks_batch batch = lkt_carried_batch(i);
        const void *good = batch.x;
        if (rank == 0) memcpy(bad, good, sizeof bad);
        LKT_CHECK(lks_comm_barrier(lks_model_comm(m->model)) == LKS_OK);
        if (rank == 0) bad[CARRIED_POSITIONS * CARRIED_WIDTH * 7 + 4] = (float)NAN;
        LKT_CHECK(lks_comm_barrier(lks_model_comm(m->model)) == LKS_OK);
        batch.x = bad;
        LKT_CHECK(lks_model_step(m->model, &batch, .3, NULL) == LKS_E_NUMERIC);
        LKT_SAYS("element 4 of sample 7");
        batch.x = good;
        LKT_CHECK(lks_model_step(m->model, &batch, .3, NULL) == LKS_OK);
    }
    LKT_CHECK(look(m, &o) == LKS_OK);
    LKT_CHECK(o.hash == expected->hash && o.carried == expected->carried);
    return 0;
}

static void a_failed_step_can_be_repeated(void **state)
{
    lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 1});
    (void)state;
    for (int apart = 0; apart < 2; apart++)
        lkt_small_tell(RANKS, &(lkt_story){.build = lkt_carried_build,
                                           .opts = {.workers = 1},
                                           .body = survives,
                                           .user = &expected,
                                           .apart = apart == 1});
}

/* ---------------------------------------------------------------- ranks that step alone */

enum {
    AVERAGED_RANKS = 2,
    OWN = CARRIED_COLUMNS / AVERAGED_RANKS,
    EVERY = 3,
    ASKED = 9,
    HIDDEN = 4
};

/* Without dropout, whose bits follow from a sample's place in the batch of all ranks. */
static lks_status build_lstm(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.seed = 3}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_graph *g = m->graph;
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(CARRIED_POSITIONS, CARRIED_WIDTH)});
    x = lks_lstm(g, x, &(lks_recurrent_opts){.hidden = HIDDEN, .carry_state = true});
    x = lks_dense(g, x, &(lks_dense_opts){.units = CARRIED_CLASSES});
    lks_tensor *y = lks_target(
        g, &(lks_target_opts){.classes = CARRIED_CLASSES, .shape = LKS_SHAPE(CARRIED_POSITIONS)});
    m->loss = lks_cross_entropy(g, x, y, NULL);
    LKI_TRY(lks_graph_status(g));
    opts.optim = lks_sgd(0.5);
    return lkt_small_compile(m, comm, opts);
}

/* After these steps; behind one of them because somebody asks for it. */
static bool is_averaged(int step)
{
    return (step + 1) % EVERY == 0 || step == ASKED;
}

/* Of models that are trained apart and averaged by hand, behind each step. */
typedef struct apart {
    float carried[CARRIED_END][CARRIED_COLUMNS][2 * HIDDEN];
    int entries;
    size_t bytes[ENTRIES]; /* of parameters and momenta; else 0 */
    char values[CARRIED_END][AVERAGED_RANKS][ENTRIES][BYTES];
} apart;

static void average_by_hand(apart *a, lkt_small models[AVERAGED_RANKS], int step)
{
    for (int i = 0; i < a->entries; i++) {
        float *first = (float *)(void *)a->values[step][0][i];
        float *second = (float *)(void *)a->values[step][1][i];
        for (size_t k = 0; k < a->bytes[i] / sizeof(float); k++) {
            const float mean = (float)(((double)first[k] + (double)second[k]) / 2);
            first[k] = second[k] = fabsf(mean) < 0x1p-63f ? 0 : mean;
        }
        for (int r = 0; r < AVERAGED_RANKS && a->bytes[i] > 0; r++)
            LKT_OK(lks_model_state_write(models[r].model, i, first, a->bytes[i]));
    }
}

static void train_apart(apart *a)
{
    lkt_small models[AVERAGED_RANKS] = {{.model = NULL}};
    for (int r = 0; r < AVERAGED_RANKS; r++)
        LKT_OK(build_lstm(
            &models[r], NULL,
            (lks_model_opts){.global_batch = OWN, .replicas = 2, .workers = 1, .hash_every = 100}));
    a->entries = lks_model_state_count(models[0].model);
    assert_true(a->entries <= ENTRIES);
    for (int s = 0; s < CARRIED_END; s++) {
        for (int r = 0; r < AVERAGED_RANKS; r++) {
            lks_batch batch = lkt_carried_batch(s);
            batch.x = (const float *)batch.x + r * OWN * CARRIED_POSITIONS * CARRIED_WIDTH;
            batch.y = (const int32_t *)batch.y + r * OWN * CARRIED_POSITIONS;
            batch.count = OWN;
            LKT_OK(lks_model_step(models[r].model, &batch, .3, NULL));
            for (int i = 0; i < a->entries; i++) {
                const lks_state_info info = lks_model_state_info(models[r].model, i);
                if (info.kind == LKS_GRADIENT || info.dtype != LKS_F32) continue;
                const bool carried = info.kind == LKS_CARRIED;
                void *out = carried ? (void *)a->carried[s][r * OWN] : a->values[s][r][i];
                if (!carried) a->bytes[i] = info.bytes;
                assert_true(info.bytes <=
                            (carried ? sizeof a->carried[s] / AVERAGED_RANKS : BYTES));
                LKT_OK(lks_model_state_read(models[r].model, i, out, info.bytes));
            }
        }
        if (is_averaged(s)) average_by_hand(a, models, s);
    }
    for (int r = 0; r < AVERAGED_RANKS; r++) lkt_small_end(&models[r]);
}

static int steps_alone(lkt_small *m, int rank, void *user)
{
    const apart *a = user;
    LKT_CHECK(lks_model_state_count(m->model) == a->entries);
    for (int s = 0; s < CARRIED_END; s++) {
        char values[BYTES];
        LKT_CHECK(lkt_carried_train(m, s, s + 1, NULL) == LKS_OK);
        if (s == ASKED) LKT_CHECK(lks_model_average(m->model) == LKS_OK);
        LKT_CHECK((lks_model_alone(m->model) == 0) == is_averaged(s));
        for (int i = 0; i < a->entries; i++) {
            const lks_state_info info = lks_model_state_info(m->model, i);
            const bool carried = info.kind == LKS_CARRIED;
            if (!carried && a->bytes[i] == 0) continue;
            LKT_CHECK(info.bytes == (carried ? sizeof a->carried[s] : a->bytes[i]));
            LKT_CHECK(lks_model_state_read(m->model, i, values, info.bytes) == LKS_OK);
            LKT_CHECK(memcmp(values, carried ? (const void *)a->carried[s] : a->values[s][rank][i],
                             info.bytes) == 0);
        }
    }
    return 0;
}

/* What is averaged are parameters and momenta, not what is carried, which is of each rank's own samples. */
static void averages_leave_what_is_carried(void **state)
{
    static apart a;
    (void)state;
    train_apart(&a);
    for (int together = 0; together < 2; together++)
        lkt_small_tell(AVERAGED_RANKS, &(lkt_story){.build = build_lstm,
                                                    .opts = {.global_batch = CARRIED_COLUMNS,
                                                             .replicas = 4,
                                                             .workers = 1,
                                                             .average_every = EVERY,
                                                             .hash_every = 100},
                                                    .body = steps_alone,
                                                    .user = &a,
                                                    .apart = together == 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(other_ranks_go_on_in_the_middle_of_an_epoch),
        cmocka_unit_test(a_failed_step_can_be_repeated),
        cmocka_unit_test(averages_leave_what_is_carried),
    };

    (void)lkt_carried_batch(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
