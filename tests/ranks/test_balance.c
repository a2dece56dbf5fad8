/* Ranges of replicas that follow the speed of workers: who should have what, when that changes, and what
 * happens where it cannot. That no bit changes is in ranks/theorem. */
#include <math.h>
#include <stdio.h>

#include "numeric/median.h"
#include "support/ranks/small.h"

/* ---------------------------------------------------------------- who should have what */

enum { MOST_WORKERS = 4 };

/* The shortest step of all ways to share, by trying them. */
static double shortest(const double *cost, int workers, int64_t replicas)
{
    double best = INFINITY;
    if (workers == 1) return (double)replicas * cost[0];
    for (int64_t own = 1; own <= replicas - workers + 1; own++)
        best = fmin(best,
                    fmax((double)own * cost[0], shortest(cost + 1, workers - 1, replicas - own)));
    return best;
}

static void no_way_to_share_is_better(void **state)
{
    lkt_random random = lkt_random_make("no_way_to_share_is_better", 71);
    (void)state;
    for (int i = 0; i < 400; i++) {
        const int workers = (int)lkt_random_from(&random, 1, MOST_WORKERS);
        const int64_t replicas = workers + lkt_random_from(&random, 0, 9);
        double cost[MOST_WORKERS];
        int64_t count[MOST_WORKERS], sum = 0;
        for (int w = 0; w < workers; w++)
            cost[w] = i % 3 == 0 ? pow(10, lkt_random_real(&random, -6, 2))
                                 : (double)lkt_random_from(&random, 1, 4);
        lki_balance_share(count, cost, workers, replicas);
        for (int w = 0; w < workers; w++) {
            assert_true(count[w] >= 1);
            sum += count[w];
        }
        assert_int_equal(sum, replicas);
        assert_true(lki_balance_predict(count, cost, workers, 3) ==
                    3 + shortest(cost, workers, replicas));
    }
}

static void medians(void **state)
{
    double one[] = {3}, two[] = {4, 1}, odd[] = {9, 1, 5}, even[] = {9, 1, 5, 2};
    (void)state;
    assert_true(lki_median(one, 1) == 3);
    assert_true(lki_median(two, 2) == 2.5);
    assert_true(lki_median(odd, 3) == 5);
    assert_true(lki_median(even, 4) == 3.5);
    double eight[] = {8, 3, 5, 1, 7, 2, 6, 4};
    assert_true(lki_upper_quartile(one, 1) == 3);
    assert_true(lki_upper_quartile(two, 2) == 4);
    assert_true(lki_upper_quartile(odd, 3) == 7);
    assert_true(lki_upper_quartile(eight, 8) == 6.5);
}

/* ---------------------------------------------------------------- when it changes */

/* What a window says of two workers, and how the six replicas are shared behind it. */
typedef struct window {
    double cost[2], rest;
    int64_t first;
} window;

typedef struct script {
    const window *window;
    int windows;
    char said[300];
    int lines;
} script;

static void follow_script(void *user, int64_t step, double *cost, double *rest)
{
    const script *s = user;
    memcpy(cost, s->window[step - 1].cost, sizeof s->window->cost);
    *rest = s->window[step - 1].rest;
}

static void hear(void *user, lks_log_level level, const char *line)
{
    script *s = user;
    if (strncmp(line, "balance:", 8) != 0) return;
    assert_true(level == LKS_LOG_INFO);
    snprintf(s->said, sizeof s->said, "%s", line);
    s->lines++;
}

static void run_script(script *s)
{
    lkt_small m = {.model = NULL};
    int64_t cuts = 0, before = 3;
    LKT_OK(lkt_small_begin(
        &m, &(lks_context_opts){.seed = 3, .log = hear, .log_user = s, .log_level = LKS_LOG_INFO}));
    LKT_OK(lkt_small_compile(
        &m, NULL, (lks_model_opts){.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 1}));
    m.model->balance->least = 0;
    m.model->balance->pretend = follow_script;
    m.model->balance->pretend_user = s;
    assert_int_equal(lks_model_border(m.model, 1), 3);
    for (int i = 0; i < s->windows; i++) {
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
        cuts += before != s->window[i].first;
        before = s->window[i].first;
        if (lks_model_border(m.model, 1) != before)
            fail_msg("behind step %d worker 0 has %lld replicas, expected %lld", i + 1,
                     (long long)lks_model_border(m.model, 1), (long long)before);
        assert_int_equal(lks_model_get_info(m.model).cuts, cuts);
    }
    assert_int_equal(lks_model_border(m.model, 0), 0);
    assert_int_equal(lks_model_border(m.model, 2), 6);
    assert_int_equal(lks_model_border(m.model, 3), 0);
    assert_int_equal(lks_model_border(m.model, -1), 0);
    assert_int_equal(s->lines, cuts);
    lkt_small_end(&m);
}

#define SCRIPT(name, ...)                                                                          \
    static const window name##_windows[] = {__VA_ARGS__};                                          \
    script name = {.window = name##_windows,                                                       \
                   .windows = (int)(sizeof name##_windows / sizeof(window))}

/* Two windows must say so, and again two behind each change. */
static void two_windows_must_agree(void **state)
{
    (void)state;
    SCRIPT(once, {{1, 3}, 0, 3}, {{1, 1}, 0, 3}, {{1, 3}, 0, 3}, {{1, 1}, 0, 3});
    SCRIPT(twice, {{1, 3}, 0, 3}, {{1, 3}, 0, 5}, {{3, 1}, 0, 5}, {{3, 1}, 0, 1}, {{1, 1}, 0, 1},
           {{1, 1}, 0, 3});
    SCRIPT(anew, {{1, 2}, 0, 3}, {{1, 9}, 0, 5}, {{1, 2}, 0, 5}, {{1, 2}, 0, 4});
    SCRIPT(opposite, {{1, 3}, 0, 3}, {{3, 1}, 0, 3}, {{1, 3}, 0, 3}, {{3, 1}, 0, 3});
    run_script(&once);
    run_script(&twice);
    run_script(&anew);
    run_script(&opposite);
    assert_string_equal(twice.said,
                        "balance: after step 6 the workers take 3 + 3 replicas, not 1 + 5: a step "
                        "should be 40% shorter");
}

/* As under a quota: the second worker is slow with three replicas and fast with one. */
static void slow_with_many(void *user, int64_t step, double *cost, double *rest)
{
    (void)step;
    cost[0] = 1;
    cost[1] = lks_model_border(user, 1) > 3 ? 1 : 4;
    *rest = 0;
}

static void what_was_worse_is_tried_seldom(void **state)
{
    lkt_small m = {.model = NULL};
    int even = 0, changes = 0;
    (void)state;
    LKT_OK(lkt_small_build(
        &m, NULL, (lks_model_opts){.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 1}));
    m.model->balance->pretend = slow_with_many;
    m.model->balance->pretend_user = m.model;
    for (int64_t i = 0, before = 3; i < 100; i++) {
        m.model->balance->seconds = m.model->balance->least; /* each step is a window */
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
        const int64_t now = lks_model_border(m.model, 1);
        even += now <= 3;
        changes += now != before;
        before = now;
    }
    assert_in_range(even, 8, 16); /* two windows of each twenty, and steps that are not measured */
    assert_in_range(changes, 7, 9);
    lkt_small_end(&m);
}

/* From 3 * 1.45 to 4 * 1 is less than a tenth; from 3 * 1.5 it is more, but not where all else takes long. */
static void it_must_be_worth_it(void **state)
{
    (void)state;
    SCRIPT(little, {{1, 1.45}, 0, 3}, {{1, 1.45}, 0, 3}, {{1, 1.45}, 0, 3});
    SCRIPT(enough, {{1, 1.5}, 0, 3}, {{1, 1.5}, 0, 4});
    SCRIPT(beside, {{1, 1.5}, 2, 3}, {{1, 1.5}, 2, 3}, {{1, 1.5}, .4, 3}, {{1, 1.5}, .4, 4});
    run_script(&little);
    run_script(&enough);
    run_script(&beside);
}

/* Nobody measures where there is nothing to choose, or nobody asked. */
static void without_a_choice(void **state)
{
    lkt_small m = {.model = NULL};
    (void)state;
    LKT_OK(lkt_small_build(&m, NULL, (lks_model_opts){.workers = 2}));
    assert_null(m.model->balance);
    lks_model_destroy(m.model);
    for (int workers = 1; workers <= 6; workers += 5) {
        LKT_OK(lkt_small_compile(
            &m, NULL, (lks_model_opts){.workers = workers, .balance = LKS_BALANCE_AUTO}));
        assert_null(m.model->balance);
        assert_int_equal(lks_model_border(m.model, workers), 6);
        if (workers == 1) lks_model_destroy(m.model);
    }
    assert_int_equal(lks_model_border(NULL, 0), 0);
    lkt_small_end(&m);
}

/* ---------------------------------------------------------------- where it cannot */

static void slow_first(void *user, int64_t step, double *cost, double *rest)
{
    lki_balance *balance = user;
    (void)step;
    for (int w = 0; w < balance->workers; w++) cost[w] = w == 0 ? 9 : 1;
    *rest = 0;
    balance->before = true;
    balance->rest[1] = 0;
    memcpy(cost + balance->workers, cost, (size_t)balance->workers * sizeof *cost);
}

static void pretend_slow_first(lks_model *model)
{
    model->balance->least = 0;
    model->balance->pretend = slow_first;
    model->balance->pretend_user = model->balance;
}

typedef struct shortage {
    int workers, rank, allocation; /* that fails, from 1; behind the last one the cut succeeds */
    uint64_t expected;
    bool cut; /* it did */
    int warned;
} shortage;

typedef struct listener {
    int warned, said;
} listener;

static void count_lines(void *user, lks_log_level level, const char *line)
{
    listener *l = user;
    l->warned += level == LKS_LOG_WARN && strstr(line, "balance: the workers keep") != NULL &&
                 strstr(line, "memory") != NULL;
    l->said += level == LKS_LOG_INFO && strstr(line, "balance: after step 2") != NULL;
}

/* No memory in the middle of a cut, on one rank: all go on as they were, and say so. */
static int runs_short(lks_comm *comm, int rank, void *user)
{
    shortage *s = user;
    lkt_heap heap = {.fail_at = 0};
    listener heard = {0};
    const lks_context_opts how = {.seed = 3,
                                  .allocator = lkt_heap_allocator(&heap),
                                  .log = count_lines,
                                  .log_user = &heard,
                                  .log_level = LKS_LOG_INFO};
    lkt_small m = {.model = NULL};
    uint64_t hash;
    LKT_CHECK(comm != NULL && lkt_small_begin(&m, &how) == LKS_OK);
    LKT_CHECK(lkt_small_compile(
                  &m, comm, (lks_model_opts){.workers = s->workers, .balance = LKS_BALANCE_AUTO}) ==
              LKS_OK);
    pretend_slow_first(m.model);
    LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_OK);
    if (rank == s->rank) heap.fail_at = heap.allocations + s->allocation;
    LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_OK);
    const bool cut = lks_model_get_info(m.model).cuts > 0;
    LKT_CHECK(cut == (heap.fail_at == 0 ? cut : heap.allocations < heap.fail_at));
    heap.fail_at = 0;
    LKT_CHECK(heard.warned == !cut && heard.said == cut);
    for (int i = 0; i < 3; i++)
        LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_hash(m.model, &hash) == LKS_OK);
    LKT_CHECK(hash == s->expected);
    LKT_CHECK((lks_model_get_info(m.model).cuts > 0) == cut); /* nor at the next link */
    if (rank == s->rank) s->cut = cut;
    lkt_small_end(&m);
    LKT_CHECK(heap.live == 0 && heap.errors == 0);
    return 0;
}

static void no_memory_for_a_cut(void **state)
{
    lkt_small m = {.model = NULL};
    shortage s = {.rank = 0};
    (void)state;
    (void)lkt_small_batch();
    LKT_OK(lkt_small_build(&m, NULL, (lks_model_opts){.workers = 1}));
    for (int i = 0; i < 5; i++) LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    LKT_OK(lks_model_hash(m.model, &s.expected));
    lkt_small_end(&m);
    for (int ranks = 1; ranks <= SMALL_RANKS; ranks += 2)
        for (int share = 0; share < 2; share++) {
            s.workers = ranks == 1 ? 3 : 1;
            s.rank = ranks / 2;
            s.cut = false;
            for (s.allocation = 1; !s.cut; s.allocation++)
                lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 5, .share = share == 1}, NULL,
                          runs_short, &s);
            assert_true(s.allocation > 3); /* some failed before */
        }
}

static int are_refused(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    lks_model_opts opts = {.balance = rank == 2 ? LKS_BALANCE_AUTO : LKS_BALANCE_EVEN};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, opts) == LKS_E_MISMATCH);
    LKT_SAYS("rank 2 (host ");
    LKT_SAYS("compiles a model with balance 1, rank 0 with 0; all ranks must");
    lkt_small_end(&m);
    m = (lkt_small){.model = NULL};
    opts = (lks_model_opts){.balance = LKS_BALANCE_AUTO, .reduction = LKS_REDUCTION_LIBRARY};
    LKT_CHECK(lkt_small_build(&m, comm, opts) == LKS_E_INVALID);
    LKT_SAYS("balance: auto would change bits with reduction: library");
    lkt_small_end(&m);
    m = (lkt_small){.model = NULL};
    opts = (lks_model_opts){.balance = LKS_BALANCE_AUTO, .average_every = 2};
    LKT_CHECK(lkt_small_build(&m, comm, opts) == LKS_E_INVALID);
    LKT_SAYS("balance: auto would change bits with average_every");
    lkt_small_end(&m);
    return 0;
}

static void what_does_not_go_with_it(void **state)
{
    (void)state;
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .seed = 5}, NULL, are_refused, NULL);
}

/* ---------------------------------------------------------------- what stands beside it */

/* A batch's part that follows from the old ranges is refused on all ranks; a predictor that was made for
 * smaller passes predicts, and a profile goes on. */
static int others_follow(lkt_small *m, int rank, void *user)
{
    lks_predictor *predictor;
    float own[SMALL_SAMPLES][SMALL_CLASSES], all[SMALL_SAMPLES][SMALL_CLASSES];
    const float *x = lkt_small_batch()->x;
    (void)user;
    pretend_slow_first(m->model);
    LKT_CHECK(lks_predictor_create(&predictor, m->model) == LKS_OK);
    const lks_model_info before = lks_model_get_info(m->model);
    for (int i = 0; i < 2; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    const lks_model_info info = lks_model_get_info(m->model);
    static const int64_t border[SMALL_RANKS + 1] = {0, 1, 4, 6};
    LKT_CHECK(info.cuts == 1 && info.shares == 6);
    LKT_CHECK(info.first_share == border[rank] || info.first_share == border[rank] - (rank == 2));
    LKT_CHECK(lks_model_border(m->model, rank) == info.first_share);
    LKT_CHECK(lks_model_border(m->model, rank + 1) == info.last_share);
    LKT_CHECK((info.memory_bytes != before.memory_bytes) || rank > 0);
    LKT_CHECK(lks_model_predict(m->model, x, SMALL_SAMPLES, all[0]) == LKS_OK);
    LKT_CHECK(lks_predictor_predict(predictor, x, SMALL_SAMPLES, own[0]) == LKS_OK);
    LKT_CHECK(memcmp(all, own, sizeof all) == 0);
    lks_predictor_destroy(predictor);
    lks_batch part = *lkt_small_batch(); /* of the ranges that were */
    part.whole = part.count;
    part.first = before.first_share * part.count / 6;
    part.count = part.count / SMALL_RANKS;
    LKT_CHECK(lks_model_step(m->model, &part, .1, NULL) == LKS_E_INVALID);
    LKT_SAYS("give its loader the shares of lks_model_get_info()");
    return 0;
}

static void what_stands_beside_it(void **state)
{
    (void)state;
    lkt_small_tell(SMALL_RANKS,
                   &(lkt_story){.opts = {.balance = LKS_BALANCE_AUTO}, .body = others_follow});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_way_to_share_is_better),
        cmocka_unit_test(medians),
        cmocka_unit_test(two_windows_must_agree),
        cmocka_unit_test(it_must_be_worth_it),
        cmocka_unit_test(what_was_worse_is_tried_seldom),

        cmocka_unit_test(without_a_choice),
        cmocka_unit_test(no_memory_for_a_cut),
        cmocka_unit_test(what_does_not_go_with_it),
        cmocka_unit_test(what_stands_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
