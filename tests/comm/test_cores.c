/* Cores of a rank, where ranks of one host may run on the same CPUs or each on its own. */
#include <stdatomic.h>
#include <stdlib.h>

#include "support/ranks/fake.h"
#include "support/test.h"

#include "machine/machine.h"

/* In place of the machine's: who asks gets the sets in turn. */
int __wrap_lki_allowed_cpus(lki_cpu *cpus, int most);
int __wrap_lki_quota_cores(const char *self, const char *mount);

static struct {
    int first[2], count[2];
} sets;
static atomic_int asked;
static int quota;

int __wrap_lki_allowed_cpus(lki_cpu *cpus, int most)
{
    const int which = atomic_fetch_add(&asked, 1) % 2;
    for (int i = 0; i < sets.count[which] && i < most; i++)
        cpus[i] = (lki_cpu){.number = sets.first[which] + i};
    return sets.count[which];
}

int __wrap_lki_quota_cores(const char *self, const char *mount)
{
    (void)self, (void)mount;
    return quota;
}

static int count_cores(lks_comm *comm, int rank, void *user)
{
    (void)rank;
    atomic_fetch_add((atomic_int *)user, lki_comm_cores(comm));
    return 0;
}

/* Of all ranks together. */
static int cores_of(int ranks)
{
    atomic_int all = 0;
    asked = 0;
    lkt_ranks(&(lkt_hub_opts){.size = ranks}, NULL, count_cores, &all);
    return all;
}

static void who_shares_has_a_part(void **state)
{
    (void)state;
    if (lkt_ranks_are_processes()) skip();
    quota = 0;
    for (int same = 0; same < 2; same++) { /* bound by who started them, or not at all */
        sets.first[0] = 0;
        sets.first[1] = same ? 0 : 8;
        sets.count[0] = sets.count[1] = 8;
        assert_int_equal(cores_of(2), same ? 8 : 16);
        assert_int_equal(cores_of(4), same ? 8 : 16);
        assert_int_equal(cores_of(16), 16);
    }
    sets.count[1] = 2; /* unequal sets */
    assert_int_equal(cores_of(2), 8 + 2);
    assert_int_equal(cores_of(4), 8 + 2);
    assert_int_equal(cores_of(8), 8 + 4); /* each has at least one */
}

static void a_quota_is_of_all(void **state)
{
    (void)state;
    if (lkt_ranks_are_processes()) skip();
    sets.first[0] = 0;
    sets.first[1] = 8;
    sets.count[0] = sets.count[1] = 8;
    quota = 6;
    assert_int_equal(cores_of(2), 6);
    assert_int_equal(cores_of(4), 4);
    assert_int_equal(cores_of(8), 8);
}

static void what_srun_gives_is_the_most(void **state)
{
    (void)state;
    if (lkt_ranks_are_processes()) skip();
    sets.first[0] = sets.first[1] = 0;
    sets.count[0] = sets.count[1] = 8;
    quota = 0;
    setenv("SLURM_CPUS_PER_TASK", "3", 1); /* as of salloc's shell: of mpirun in it, too */
    assert_int_equal(cores_of(2), 8);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    setenv("SLURM_PROCID", "0", 1);
    assert_int_equal(cores_of(2), 6); /* each has the machine */
    assert_int_equal(cores_of(4), 8); /* more than it has */
    setenv("SLURM_CPUS_PER_TASK", "x", 1);
    assert_int_equal(cores_of(2), 8);
    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    assert_int_equal(cores_of(2), 8);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("SLURM_CPUS_PER_TASK");
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_PROCID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_shares_has_a_part),
        cmocka_unit_test(a_quota_is_of_all),
        cmocka_unit_test(what_srun_gives_is_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
