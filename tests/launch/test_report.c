/* The lines between watchers and launcher, lists of hosts, and what starters tell a rank. */
#include "support/test.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "cli/launch/launch.h"
#include "cli/launch/report.h"

static char others[1 << 16];
static size_t used;
static launch_report reports[16];
static int count;

static void on_other(void *user, const char *bytes, size_t size)
{
    (void)user;
    assert_true(used + size < sizeof others);
    memcpy(others + used, bytes, size);
    used += size;
    others[used] = '\0';
}

static void on_report(void *user, const launch_report *report)
{
    (void)user;
    assert_true(count < 16);
    reports[count++] = *report;
}

static void what_is_printed_is_read(void **state)
{
    (void)state;
    char line[REPORT_LINE];
    launch_report text = {.rank = 3, .process = 77, .host = "node-1", .text = " a | line "};
    launch_report end = {.rank = 0, .process = 1, .news = LAUNCH_ENDS, .code = -139, .stop = 15},
                  found;
    size_t length = launch_report_print(line, "0123456789abcdef", &text);
    assert_int_equal(length, strlen(line));
    assert_int_equal(line[length - 1], '\n');
    line[length - 1] = '\0';
    assert_true(launch_report_read(&found, "0123456789abcdef", line));
    assert_int_equal(found.rank, 3);
    assert_int_equal(found.process, 77);
    assert_string_equal(found.host, "node-1");
    assert_string_equal(found.text, " a | line ");
    assert_false(launch_report_read(&found, "0123456789abcdee", line));
    length = launch_report_print(line, "0123456789abcdef", &end);
    line[length - 1] = '\0';
    assert_true(launch_report_read(&found, "0123456789abcdef", line));
    assert_true(found.news == LAUNCH_ENDS && found.code == -139 && found.stop == 15);
    assert_string_equal(found.host, "?"); /* a host without a name */
    line[length - 1] = 'x';
    assert_false(launch_report_read(&found, "0123456789abcdef", line));
    static const launch_news news[] = {LAUNCH_SAYS, LAUNCH_BEGINS, LAUNCH_MISSES};
    for (size_t i = 0; i < sizeof news / sizeof *news; i++) {
        text.news = news[i];
        text.other = 12;
        length = launch_report_print(line, "0123456789abcdef", &text);
        line[length - 1] = '\0';
        assert_true(launch_report_read(&found, "0123456789abcdef", line));
        assert_int_equal(found.news, news[i]);
        assert_string_equal(found.text, news[i] == LAUNCH_BEGINS ? "" : " a | line ");
        assert_int_equal(found.other, news[i] == LAUNCH_MISSES ? 12 : 0);
    }
    assert_false(launch_report_read(&found, "0123456789abcdef", "\036 0123456789abcdef 3 a 7 ! x"));
    memset(text.text, 'x', sizeof text.text - 1);
    memset(text.host, 'h', sizeof text.host - 1);
    text.rank = INT32_MAX;
    text.process = LONG_MAX;
    text.other = INT32_MAX;
    assert_true(launch_report_print(line, "0123456789abcdef", &text) < REPORT_LINE);
}

/* The same whatever the pieces are in which it arrives. */
static void lines_are_as_long_as_reports(void **state)
{
    (void)state;
    char line[REPORT_LINE];
    launch_sorter sorter = {.token = "00000000000000aa", .report = on_report, .other = on_other};
    for (size_t length = REPORT_LINE - 2; length <= REPORT_LINE; length++) {
        memset(line, 'y', sizeof line);
        line[0] = '\036';
        used = 0;
        launch_sort(&sorter, line, length);
        assert_int_equal(sorter.used, length < REPORT_LINE ? length : 0);
        launch_sort(&sorter, "\n", 1);
        assert_int_equal(sorter.used, 0);
        assert_int_equal(strlen(others), length + 1);
    }
}

static void reports_are_found_among_other_output(void **state)
{
    (void)state;
    char stream[4096] = "Epoch 1", line[REPORT_LINE];
    launch_report report = {.rank = 1, .process = 9, .host = "b", .text = "no file"};
    launch_report_print(line, "00000000000000aa", &report);
    strcat(stream, line);
    strcat(stream, " and more\n\036 not a report\n\036\n");
    report.news = LAUNCH_ENDS;
    report.code = 3;
    launch_report_print(line, "00000000000000bb", &report); /* of another launch */
    strcat(stream, line);
    launch_report_print(line, "00000000000000aa", &report);
    strcat(stream, line);
    const size_t before = strlen(stream);
    stream[before] = '\036';
    memset(stream + before + 1, 'y', 2000); /* longer than any report */
    strcat(stream, "\nend \036 cut");
    char expected[4096];
    snprintf(expected, sizeof expected,
             "Epoch 1 and more\n\036 not a report\n\036\n\036 00000000000000bb 1 b 9 end 3 0\n%s",
             stream + before);
    for (size_t piece = 1; piece < 3000; piece = piece < 50 ? piece + 1 : piece * 2) {
        launch_sorter sorter = {
            .token = "00000000000000aa", .report = on_report, .other = on_other};
        used = 0;
        count = 0;
        for (size_t at = 0; at < strlen(stream); at += piece) {
            const size_t left = strlen(stream) - at;
            launch_sort(&sorter, stream + at, left < piece ? left : piece);
        }
        launch_sort_end(&sorter);
        assert_string_equal(others, expected);
        assert_int_equal(count, 2);
        assert_string_equal(reports[0].text, "no file");
        assert_true(reports[1].news == LAUNCH_ENDS && reports[1].code == 3);
    }
}

static void the_last_lines_are_kept(void **state)
{
    (void)state;
    static launch_tail tail;
    char line[64];
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof line, "bar\rline %d%s\n\n", i, i % 2 == 0 ? "" : "\r"); /* as ssh's */
        launch_tail_add(&tail, line, strlen(line));
    }
    launch_tail_add(&tail, "open", 4);
    assert_int_equal(tail.count, TAIL_LINES);
    assert_string_equal(launch_tail_line(&tail, 0), "line 61");
    assert_string_equal(launch_tail_line(&tail, TAIL_LINES - 2), "line 99");
    assert_string_equal(launch_tail_line(&tail, TAIL_LINES - 1), "open");
    for (int i = 0; i < 1000; i++) launch_tail_add(&tail, "0123456789", 10);
    assert_int_equal(strlen(launch_tail_line(&tail, TAIL_LINES - 1)), REPORT_TEXT_MOST - 1);
}

static void lists_of_hosts(void **state)
{
    (void)state;
    cli_pool pool = {0};
    launch_host *host;
    int hosts, ranks;
    assert_int_equal(launch_hosts(&host, &hosts, &ranks, &pool, "a:2,b.c-d,e_1:30"), LKS_OK);
    assert_int_equal(hosts, 3);
    assert_int_equal(ranks, 33);
    assert_string_equal(host[1].name, "b.c-d");
    assert_int_equal(host[1].slots, 1);
    static const char *const bad[] = {"",      ",",    "a,",      "a:",       "a:0",
                                      "a:-1",  "a:x",  "a,a",     "a;b:1",    "-oX",
                                      "a b:1", "a::1", "a:1:2,b", "a:9999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(launch_hosts(&host, &hosts, &ranks, &pool, bad[i]), LKS_E_INVALID);
        assert_non_null(strstr(lks_last_error()->message, "--hosts"));
    }
    pool_clear(&pool);
}

static void a_rank_knows_its_place(void **state)
{
    (void)state;
    static const char *const all[] = {"OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "MPI_LOCALRANKID",
                                      "MPI_LOCALNRANKS",
                                      "SLURM_PROCID",
                                      "SLURM_STEP_NUM_TASKS",
                                      "SLURM_LOCALID",
                                      "SLURM_NODEID",
                                      "SLURM_STEP_TASKS_PER_NODE"};
    static const struct row {
        const char *set; /* names by number, with values */
        int rank, ranks, local_rank, local_ranks;
    } rows[] = {
        {"0=3 1=4 2=1 3=2", 3, 4, 1, 2},
        {"4=0 5=2 6=0 7=2", 0, 2, 0, 2},
        {"8=5 9=7 10=1 11=2 12=2(x3),1", 5, 7, 1, 2},
        {"8=6 9=7 10=0 11=3 12=2(x3),1", 6, 7, 0, 1},
        {"4=5 5=7 8=5 9=7 10=1 11=2 12=2(x3),1", 5, 7, 1, 2}, /* srun --mpi=pmi2 */
        {"8=0 9=2", 0, 2, 0, 1},
        {"8=0 9=2 10=1 11=0 12=2(x", 0, 2, 0, 1},
        {"8=0", -1, 0, 0, 0}, /* the script of a batch job */
        {"", -1, 0, 0, 0},
        {"0=2 1=2", -1, 0, 0, 0},
        {"0=x 1=2", -1, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        launch_place place;
        char text[256], *rest = text;
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) unsetenv(all[j]);
        snprintf(text, sizeof text, "%s", rows[i].set);
        for (char *word; (word = strsep(&rest, " ")) != NULL && *word != '\0';)
            setenv(all[atoi(word)], strchr(word, '=') + 1, 1);
        assert_int_equal(launch_get_place(&place), rows[i].rank >= 0);
        if (rows[i].rank < 0) continue;
        assert_int_equal(place.rank, rows[i].rank);
        assert_int_equal(place.ranks, rows[i].ranks);
        assert_int_equal(place.local_rank, rows[i].local_rank);
        assert_int_equal(place.local_ranks, rows[i].local_ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_is_read),
        cmocka_unit_test(lines_are_as_long_as_reports),
        cmocka_unit_test(reports_are_found_among_other_output),
        cmocka_unit_test(the_last_lines_are_kept),
        cmocka_unit_test(lists_of_hosts),
        cmocka_unit_test(a_rank_knows_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
