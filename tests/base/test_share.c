/* How processes of one host divide its CPUs. */
#include "support/test.h"

#include <sched.h>

#include "machine/machine.h"

/* `count` CPUs of which `count` / 2 and the CPU before are threads of one core: 0 and 4, 1 and 5, ... */
static void make_cpus(lki_cpu *cpus, int count, bool pairs)
{
    for (int i = 0; i < count; i++)
        cpus[i] = (lki_cpu){.number = i, .core = pairs ? i % (count / 2) : i};
    lki_sort_cpus(cpus, count);
}

static void every_part_is_disjoint_and_all_is_used(void **state)
{
    (void)state;
    enum { MOST = 24 };
    for (int count = 1; count <= MOST; count++)
        for (int parts = 1; parts <= count; parts++) {
            int used[MOST] = {0}, least = MOST, largest = 0;
            for (int part = 0; part < parts; part++) {
                lki_cpu cpus[MOST];
                make_cpus(cpus, count, false);
                const int mine = lki_share_cpus(cpus, count, part, parts);
                for (int i = 0; i < mine; i++) used[cpus[i].number]++;
                if (mine < least) least = mine;
                if (mine > largest) largest = mine;
            }
            for (int i = 0; i < count; i++) assert_int_equal(used[i], 1);
            assert_true(least >= 1 && largest - least <= 1);
        }
}

static void parts_are_whole_cores_first_threads_first(void **state)
{
    (void)state;
    lki_cpu cpus[8];
    make_cpus(cpus, 8, true);
    assert_int_equal(lki_share_cpus(cpus, 8, 1, 2), 4);
    const int expected[] = {2, 3, 6, 7}; /* cores 2 and 3, one thread of each before the second */
    for (int i = 0; i < 4; i++) assert_int_equal(cpus[i].number, expected[i]);
}

static void more_processes_than_cpus_share_them(void **state)
{
    (void)state;
    int users[2] = {0};
    for (int part = 0; part < 5; part++) {
        lki_cpu cpus[2];
        make_cpus(cpus, 2, false);
        assert_int_equal(lki_share_cpus(cpus, 2, part, 5), 1);
        users[cpus[0].number]++;
    }
    assert_true(users[0] >= 2 && users[1] >= 2);
    lki_cpu none[1];
    assert_int_equal(lki_share_cpus(none, 0, 0, 1), 0);
    make_cpus(none, 1, false);
    assert_int_equal(lki_share_cpus(none, 1, 2, 2), 0);
}

static void marks_tell_sets_apart(void **state)
{
    (void)state;
    lki_cpu a[4], b[4];
    make_cpus(a, 4, false);
    make_cpus(b, 4, false);
    assert_true(lki_cpus_mark(a, 4) == lki_cpus_mark(b, 4));
    assert_true(lki_cpus_mark(a, 4) != lki_cpus_mark(b, 3));
    b[3].number = 4;
    assert_true(lki_cpus_mark(a, 4) != lki_cpus_mark(b, 4));
}

static void a_process_keeps_to_its_cpus(void **state)
{
    (void)state;
    lki_cpu cpus[4096], now[1];
    const int count = lki_allowed_cpus(cpus, 4096);
    assert_true(count >= 1 && count <= 4096);
    assert_true(lki_keep_to_cpus(&cpus[count - 1], 1));
    assert_int_equal(lki_allowed_cpus(now, 1), 1);
    assert_int_equal(now[0].number, cpus[count - 1].number);
    assert_true(lki_keep_to_cpus(cpus, count));
    assert_int_equal(lki_allowed_cpus(NULL, 0), count);
    cpus[0].number = 1 << 18; /* a CPU that no machine has */
    assert_false(lki_keep_to_cpus(cpus, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_disjoint_and_all_is_used),
        cmocka_unit_test(parts_are_whole_cores_first_threads_first),
        cmocka_unit_test(more_processes_than_cpus_share_them),
        cmocka_unit_test(marks_tell_sets_apart),
        cmocka_unit_test(a_process_keeps_to_its_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
