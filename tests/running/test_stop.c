/* lockstep stop: that it asks, and that a run has ended where it says so. */
#include "running/notes.h"

#include "cli/process.h"
#include "cli/terminal.h"

/* Before a training begins, which nobody would end. */
static void needs_terminals(void)
{
    close(open_terminal());
}

/* The answer of someone at a terminal. */
static void answer(const char *run_number, const char *text)
{
    const int terminal = open_terminal();
    const int other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_int_equal(write(terminal, text, strlen(text)), (ssize_t)strlen(text));
    run("stop %s <'%s'", run_number, ptsname(terminal));
    close(other);
    close(terminal);
}

static void it_asks_first(void **state)
{
    (void)state;
    char number[32];
    needs_terminals();
    begin();
    const pid_t child = start("train c.yaml");
    json_decref(wait_for_ranks(1));
    snprintf(number, sizeof number, "%d", (int)child);
    static const char *const refusals[] = {"n\n", "\n", "yesterday\n", "\004"};
    for (int i = 0; i < 4; i++) {
        answer(number, refusals[i]);
        assert_int_equal(last.code, 1);
        assert_non_null(strstr(last.err, "Stop run "));
        assert_non_null(strstr(last.err, "(c.yaml, 1 rank here, step "));
        assert_non_null(strstr(last.err, "nothing was stopped"));
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    }
    answer(number, "Yes\n");
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.err, "it had no --out: nothing of it is saved"));
    expect_out(" has ended\n");
    finish(child);
    assert_int_equal(last.code, 143);
    static const char *const letters[] = {"y\n", "Y\n"};
    for (int i = 0; i < 2; i++) {
        const pid_t next = start("train c.yaml");
        json_decref(wait_for_ranks(1));
        snprintf(number, sizeof number, "%d", (int)next);
        answer(number, letters[i]);
        assert_int_equal(last.code, 0);
        finish(next);
        assert_int_equal(last.code, 143);
    }
}

static bool has_stopped(int64_t process)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'T';
}

static void hold(pid_t process)
{
    assert_int_equal(kill(process, SIGSTOP), 0);
    while (!has_stopped(process)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Begins to stop a run; what that says is in stopped.txt, and stop.txt is there when it has ended. */
static void begin_to_stop(pid_t run_number)
{
    shell("rm -f stop.txt; ('%s' stop %d --yes >stopped.txt 2>&1; echo $? >stop.txt) &", program(),
          (int)run_number);
}

/* A second is some looks at who goes on. */
static void expect_waiting(void)
{
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    assert_false(there("stop.txt"));
}

/* One that cannot hear is waited for. */
static void it_waits_for_the_end(void **state)
{
    (void)state;
    begin();
    const pid_t child = start("train c.yaml");
    json_decref(wait_for_ranks(1));
    hold(child);
    begin_to_stop(child);
    expect_waiting();
    assert_int_equal(kill(child, SIGCONT), 0);
    finish(child);
    assert_int_equal(last.code, 143);
    wait_for("stop.txt", "0\n");
    wait_for("stopped.txt", " has ended\n");
}

/* The first is told and ends; the second is of the same run, as its note says. */
static void it_waits_for_all_ranks(void **state)
{
    (void)state;
    char name[32], asked[64];
    needs_terminals();
    begin();
    const pid_t first = start("train c.yaml"), second = start("train c.yaml");
    json_decref(wait_for_ranks(2));
    running_note note, own;
    read_note_of(&own, first);
    read_note_of(&note, second);
    note.run = own.run;
    note.rank = 1;
    note.size = 2;
    snprintf(name, sizeof name, "%d", (int)second);
    write_note(&note, name, sizeof note);
    snprintf(name, sizeof name, "%d", (int)first);
    answer(name, "n\n");
    assert_int_equal(last.code, 1);
    assert_non_null(strstr(last.err, "(c.yaml, 2 ranks here, step "));
    snprintf(asked, sizeof asked, "Stop run %s (", name);
    assert_memory_equal(last.err, asked, strlen(asked));
    begin_to_stop(first);
    finish(first);
    assert_int_equal(last.code, 143);
    expect_waiting();
    assert_int_equal(waitpid(second, NULL, WNOHANG), 0);
    kill(second, SIGKILL);
    waitpid(second, NULL, 0);
    wait_for("stop.txt", "0\n");
    wait_for("stopped.txt", " has ended\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_asks_first),
        TEST(it_waits_for_the_end),
        TEST(it_waits_for_all_ranks),
    };
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
