/* The windows in which the speed of workers is measured: how long they are, and what is left out of them. What
 * follows from what they say is in ranks/balance. */
#include <math.h>

#include "support/ranks/small.h"

/* The clock itself: one worker that does more is measured as slower. */
static void a_window_takes_its_time(void **state)
{
    lkt_small m = {.model = NULL};
    const lks_model_opts opts = {.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 3};
    (void)state;
    LKT_OK(lkt_small_build(&m, NULL, opts));
    lki_balance *balance = m.model->balance;
    assert_true(balance->least == 1.0 / 3);
    balance->least = 1e9;
    for (int i = 0; i < 5; i++) LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    assert_false(balance->before); /* a link was at 3, but so many seconds had not gone by */
    int64_t steps = 0;
    for (int p = 0; p < LKI_BALANCE_PARTS; p++) {
        steps += balance->steps[p];
        assert_true((balance->steps[p] > 0) == (balance->stepped[p] > 0));
        for (int w = 0; w < 2; w++)
            assert_true(balance->spent[w * LKI_BALANCE_PARTS + p] <= balance->stepped[p]);
    }
    assert_int_equal(steps, 4); /* all but the first */
    balance->least = 0;
    LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    assert_true(balance->before);
    for (int w = 0; w < 2; w++) {
        assert_true(balance->cost[2 + w] > 1e-8);
        assert_true(balance->cost[2 + w] * 3 <
                    balance->rest[1] + 3 * fmax(balance->cost[2], balance->cost[3]) + 1e-9);
    }
    assert_int_equal(balance->steps[0], 0); /* a new window */
    lkt_small_end(&m);
}

/* Links may be far apart. */
static void the_first_windows_end_soon(void **state)
{
    static const int64_t ends[] = {8, 16, 32, 40, 64};
    lkt_small m = {.model = NULL};
    const lks_model_opts opts = {.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 40};
    (void)state;
    LKT_OK(lkt_small_build(&m, NULL, opts));
    lki_balance *balance = m.model->balance;
    balance->least = 0;
    for (int64_t i = 1, at = 0; i <= 64; i++) {
        balance->before = false;
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
        assert_int_equal(balance->before, i == ends[at]);
        at += balance->before;
    }
    lkt_small_end(&m);
}

/* What a window says of two workers, and how many of the six replicas the first then has. */
typedef struct words {
    double cost[2];
    int64_t first;
} words;

static void say(void *user, int64_t step, double *cost, double *rest)
{
    const words *said = user;
    (void)step;
    memcpy(cost, said->cost, sizeof said->cost);
    *rest = 0;
}

/* Half of what a window takes is not enough; so much is. */
static void pass_window(lkt_small *m, double expected)
{
    lki_balance *balance = m->model->balance;
    const bool before = balance->before;
    const int64_t cuts = balance->cuts;
    balance->seconds = expected / 2;
    LKT_OK(lks_model_step(m->model, lkt_small_batch(), .1, NULL));
    assert_true(balance->before == before && balance->cuts == cuts);
    balance->seconds = expected;
    LKT_OK(lks_model_step(m->model, lkt_small_batch(), .1, NULL));
    assert_true(balance->before != before || balance->cuts != cuts);
}

/* Noise, which now says one thing and now the other, is believed less and less often. */
static void behind_a_change_windows_are_twice_as_long(void **state)
{
    static const words one[] = {{{1, 3}, 5}, {{3, 1}, 1}};
    static const double expected[] = {1.0 / 3,  2.0 / 3,  4.0 / 3,   8.0 / 3, 16.0 / 3,
                                      32.0 / 3, 64.0 / 3, 128.0 / 3, 60,      60};
    lkt_small m = {.model = NULL};
    const lks_model_opts opts = {.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 1};
    (void)state;
    LKT_OK(lkt_small_build(&m, NULL, opts));
    m.model->balance->pretend = say;
    for (int i = 0; i < (int)(sizeof expected / sizeof *expected); i++) {
        m.model->balance->pretend_user = (void *)&one[i % 2];
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL)); /* a window begins behind */
        pass_window(&m, expected[i]);
        pass_window(&m, expected[i]);
        assert_int_equal(m.model->balance->cuts, i + 1);
        assert_int_equal(lks_model_border(m.model, 1), one[i % 2].first);
    }
    lkt_small_end(&m);
}

/* What something else disturbed once does not count; what is there again and again does. */
static void a_window_is_robust(void **state)
{
    lkt_small m = {.model = NULL};
    const lks_model_opts opts = {.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 24};
    (void)state;
    LKT_OK(lkt_small_build(&m, NULL, opts));
    lki_balance *balance = m.model->balance;
    balance->least = 0;
    for (int i = 0; i < 23; i++) {
        static const int64_t dealt[LKI_BALANCE_PARTS] = {0, 1, 1, 1, 1, 0, 0, 0};
        if (i == 7) balance->least = 1e9; /* else a window would end there, and at 16 */
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
        if (i == 4) assert_memory_equal(balance->steps, dealt, sizeof dealt);
    }
    balance->least = 0;
    for (int p = 0; p < LKI_BALANCE_PARTS; p++) {
        const int64_t steps = p == 0 ? 1 : p == 7 ? 100 : 2;
        balance->steps[p] = p == 7 ? steps - 1 : steps; /* one comes yet, however long it takes */
        balance->spent[p] = steps * 3000000;
        balance->spent[LKI_BALANCE_PARTS + p] = steps * (p % 2 == 0 ? 6000000 : 12000000);
        balance->stepped[p] = steps * 20000000;
    }
    balance->spent[3] += 1000000000; /* a second, once */
    LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    assert_true(fabs(balance->cost[2] - .001) < 1e-4);
    assert_true(fabs(balance->cost[3] - .004) < 5e-4);
    assert_true(balance->rest[1] > .006 && balance->rest[1] < .0095);
    lkt_small_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_takes_its_time),
        cmocka_unit_test(behind_a_change_windows_are_twice_as_long),
        cmocka_unit_test(a_window_is_robust),
        cmocka_unit_test(the_first_windows_end_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
