/* Ranks that share cores of a host: which sentence is said of which layout. */
#include "support/test.h"

#include <string.h>

#include "cli/crowd.h"

typedef struct layout {
    const char *what; /* "host:CPUs:workers[:quota] ..." */
    const char *says[3];
    int cores;
} layout;

enum { ONLINE = 8, MOST = 16 };

static int read_layout(crowd_rank ranks[MOST], const char *what)
{
    int count = 0, at = 0;
    char host[8], cpus[32];
    for (int workers, quota;
         sscanf(what, " %7[^:]:%31[^:]:%d:%d%n", host, cpus, &workers, &quota, &at) == 4;
         what += at) {
        crowd_rank *rank = &ranks[count++];
        *rank = (crowd_rank){.workers = workers, .online = ONLINE, .quota = quota};
        strcpy(rank->host, host);
        for (const char *c = cpus; *c != '\0'; c++) rank->cpus[0] |= UINT64_C(1) << (*c - '0');
    }
    assert_int_equal(*what, '\0');
    return count;
}

static const layout layouts[] = {
    {"a:01:2:0 a:23:2:0 b:01:2:0", {NULL}, 6},
    {"a:0123:2:0 a:0123:2:0", {NULL}, 4},
    {"a:0123:3:0 a:0123:2:0",
     {"cores: ranks 0 and 1 of host a share CPUs 0-3, where their 5 workers wait for each "
      "other; "
      "give fewer ranks or workers, or more of its CPUs"},
     4},
    {"b:0:1:0 a:0:1:0 a:0:1:0 a:1:1:0",
     {"cores: ranks 1 to 3 of host a share CPUs 0-1, where their 3 workers wait for each "
      "other; "
      "give fewer ranks or workers, or more of its CPUs"},
     3},
    {"a:0:1:0 b:0:1:0 a:0:1:0 a:12:1:0",
     {"binding: ranks 0 and 2 of host a share CPU 0, where their 2 workers wait for each "
      "other; "
      "give each rank cores of its own: --map-by slot:PE=1 --bind-to core (Open MPI), -bind-to "
      "core:1 (MPICH), --cpus-per-task=1 --cpu-bind=cores (srun)"},
     4},
    {"a:01:3:0 a:2345:1:0",
     {"binding: rank 0 of host a has CPUs 0-1 for 3 workers, which wait for each other; give "
      "each rank cores of its own: --map-by slot:PE=3 --bind-to core (Open MPI), -bind-to "
      "core:3 (MPICH), --cpus-per-task=3 --cpu-bind=cores (srun)"},
     6},
    {"a:012:1:0 a:234:1:0 a:46:1:0",
     {"binding: ranks 0 to 2 of host a have some of the CPUs 0-4,6 in common, and others not, "
      "so "
      "that workers of several may be bound to one; give each rank cores of its own, or all "
      "the "
      "same"},
     6},
    {"a:01234567:9:0",
     {"cores: rank 0 of host a has CPUs 0-7 for 9 workers, which wait for each other; give "
      "fewer "
      "ranks or workers"},
     8},
    {"a:01:2:3 a:23:2:3 b:01:2:0",
     {"CPU quota: ranks 0 and 1 of host a have 4 workers, but a CPU quota of 3 cores, so that "
      "they are stopped for a part of every period; give fewer ranks or workers, or ask for "
      "more "
      "cores"},
     5},
    {"a:01:1:1 a:23:1:0 b:0:1:0 b:0:1:0",
     {"CPU quota: ranks 0 and 1 of host a have 2 workers, but a CPU quota of 1 core, so that "
      "they are stopped for a part of every period; give fewer ranks or workers, or ask for "
      "more "
      "cores",
      "cores: ranks 2 and 3 of host b share CPU 0, where their 2 workers wait for each other; "
      "give fewer ranks or workers, or more of its CPUs"},
     2},
    {"a:01:1:2 a:01:1:2", {NULL}, 2},
    {"a:01:2:4 a:23:2:3 a:45:2:5",
     {"CPU quota: ranks 0 to 2 of host a have 6 workers, but a CPU quota of 3 cores, so that "
      "they are stopped for a part of every period; give fewer ranks or workers, or ask for "
      "more cores"},
     4},
    {"a:01:1:9", {NULL}, 2},
    {"a:01:3:2",
     {"cores: rank 0 of host a has CPUs 0-1 for 3 workers, which wait for each other; give "
      "fewer ranks or workers, or more of its CPUs"},
     2},
    {"a:01:1:0 a:23:1:0 a:12:1:0",
     {"binding: ranks 0 to 2 of host a have some of the CPUs 0-3 in common, and others not, so "
      "that workers of several may be bound to one; give each rank cores of its own, or all "
      "the same"},
     4},
    {"a:01:1:2 a:23:1:2", {NULL}, 2},
};

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        cli_pool pool = {0};
        crowd_rank ranks[MOST];
        crowd_finding found[MOST];
        const layout *l = &layouts[i];
        const int count = read_layout(ranks, l->what);
        const int findings = crowd_look(found, MOST, &pool, ranks, count);
        for (int k = 0; k < findings; k++)
            assert_string_equal(
                pool_format(&pool, "%s: %s; %s", found[k].name, found[k].found, found[k].advice),
                k < 3 && l->says[k] != NULL ? l->says[k] : "nothing");
        assert_true(findings == 3 || l->says[findings] == NULL);
        assert_int_equal(crowd_cores(ranks, count), l->cores);
        if (findings > 1) assert_int_equal(crowd_look(found, 1, &pool, ranks, count), findings);
        pool_clear(&pool);
    }
}

static void ranks_have_names(void **state)
{
    (void)state;
    cli_pool pool = {0};
    static const struct {
        const char *chosen, *text;
    } rows[] = {{"0100", "rank 1"},
                {"1010", "ranks 0 and 2"},
                {"0110", "ranks 1 and 2"},
                {"01111110", "ranks 1 to 6"},
                {"101010", "ranks 0, 2 and 4"},
                {"10101010101", "ranks 0, 2, 4, 6 and 2 more"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool chosen[16];
        const int count = (int)strlen(rows[i].chosen);
        for (int r = 0; r < count; r++) chosen[r] = rows[i].chosen[r] == '1';
        assert_string_equal(crowd_ranks(&pool, chosen, count), rows[i].text);
    }
    pool_clear(&pool);
}

static void this_process_tells_of_itself(void **state)
{
    (void)state;
    crowd_rank rank;
    crowd_read(&rank, 3);
    assert_int_equal(rank.workers, 3);
    assert_true(crowd_count(rank.cpus) >= 1 && crowd_count(rank.cpus) <= rank.online);
    assert_true(*rank.host != '\0' && strlen(rank.boot) >= 36);
    assert_true(crowd_same_machine(&rank, &rank));
    crowd_rank other = rank;
    other.boot[0] = 'x';
    assert_false(crowd_same_machine(&rank, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(ranks_have_names),
        cmocka_unit_test(this_process_tells_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
