/* Links and clocks between ranks: every pair is measured once, whatever their number; a clock that is wrong is
 * found, and by how much. */
#include <math.h>
#include <time.h>

#include <lockstep/tools.h>

#include "support/ranks/fake.h"
#include "support/test.h"

static _Thread_local double wrong; /* the clock of this rank */

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    const int result = __real_clock_gettime(clock, out);
    if (clock == CLOCK_REALTIME) out->tv_sec += (time_t)wrong;
    return result;
}

enum { MOST = 9 };

static int every_pair(lks_comm *comm, int rank, void *user)
{
    lks_link links[MOST];
    int count = 0, partners[MOST] = {0}, size = lks_comm_size(comm);
    const bool shares = user != NULL;
    LKT_CHECK(lks_comm_measure(comm, links, MOST, &count) == LKS_OK);
    LKT_CHECK(count == size - 1);
    for (int i = 0; i < count; i++) {
        LKT_CHECK(links[i].rank >= 0 && links[i].rank < size && links[i].rank != rank);
        LKT_CHECK(partners[links[i].rank]++ == 0);
        LKT_CHECK(links[i].latency > 0 && links[i].latency < 1);
        LKT_CHECK(links[i].bandwidth > 0 && isfinite(links[i].bandwidth));
        LKT_CHECK(links[i].common == shares);
    }
    return 0;
}

static void every_pair_is_measured(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size += lkt_in_part() && size > 1 ? 3 : 1)
        lkt_ranks(&(lkt_hub_opts){.size = size}, NULL, every_pair, NULL);
    lkt_ranks(&(lkt_hub_opts){.size = 3, .share = true}, NULL, every_pair, &wrong);
    lkt_ranks(&(lkt_hub_opts){.size = 4, .seed = 3, .delay = 4}, &(lks_comm_opts){.verify = true},
              every_pair, NULL);
}

/* Of many a few: the same on both sides. */
static int a_few(lks_comm *comm, int rank, void *user)
{
    enum { SIZE = 7, FEW = 3 };
    lks_link links[FEW];
    int count = 0, mine[SIZE] = {0}, all[SIZE][SIZE];
    (void)user;
    LKT_CHECK(lks_comm_measure(comm, links, FEW, &count) == LKS_OK);
    LKT_CHECK(count >= FEW - 1 && count <= FEW); /* in one round of an odd number one has nobody */
    for (int i = 0; i < count; i++) mine[links[i].rank] = 1;
    LKT_CHECK(lks_comm_all_gather(comm, mine, sizeof mine, all) == LKS_OK);
    for (int r = 0; r < SIZE; r++) LKT_CHECK(all[rank][r] == all[r][rank]);
    return 0;
}

static void of_many_a_few(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 7}, NULL, a_few, NULL);
}

static int clocks(lks_comm *comm, int rank, void *user)
{
    static const double seconds[] = {0, 100, -3, 0, 4000};
    double ahead, error;
    (void)user;
    wrong = seconds[rank];
    LKT_CHECK(lks_comm_clock(comm, &ahead, &error) == LKS_OK);
    LKT_CHECK(error >= 0 && error < 1 && (rank > 0) == (error > 0));
    LKT_CHECK(fabs(ahead - wrong) <= error + 1e-6);
    wrong = 0;
    return 0;
}

static void a_wrong_clock_is_found(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 5}, NULL, clocks, NULL);
    lkt_ranks(&(lkt_hub_opts){.size = 2, .seed = 9, .delay = 6}, NULL, clocks, NULL);
}

/* What fails on one ends on all. */
static int one_fails(lks_comm *comm, int rank, void *user)
{
    lks_link links[3];
    int count;
    double ahead, error;
    (void)rank, (void)user;
    if (comm == NULL) return 0; /* where they join */
    const lks_status status = lks_comm_measure(comm, links, 3, &count);
    LKT_CHECK(status == LKS_E_COMM || lks_comm_clock(comm, &ahead, &error) == LKS_E_COMM);
    return 0;
}

static void one_that_fails_ends_all(void **state)
{
    (void)state;
    for (int at = 1; at < 170; at += lkt_in_part() ? 28 : 7)
        lkt_ranks(&(lkt_hub_opts){.size = 3, .fail_rank = 1, .fail_at = at}, NULL, one_fails, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_measured),
        cmocka_unit_test(of_many_a_few),
        cmocka_unit_test(a_wrong_clock_is_found),
        cmocka_unit_test(one_that_fails_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
