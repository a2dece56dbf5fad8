/* lockstep ps and stop: what is said of trainings that run, and that none is ended but the one that is meant. */
#include "running/notes.h"

#include <sys/stat.h>

#include "cli/process.h"

static void expect_none(void)
{
    run("ps");
    expect_ok();
    assert_string_equal(last.out, "No training of yours runs on this host.\n");
}

static void expect_text(const json_t *rank, const char *key, const char *text)
{
    assert_string_equal(json_string_value(json_object_get(rank, key)), text);
}

static void a_run_is_seen_and_stopped(void **state)
{
    (void)state;
    char whole[4096], number[32];
    begin();
    expect_none();
    const pid_t child = start("train c.yaml --out run");
    json_t *all = wait_for_ranks(1), *rank = json_array_get(all, 0);
    assert_non_null(realpath(in_folder("run"), whole));
    assert_true(json_number_of(rank, "pid") == child && json_number_of(rank, "run") == child);
    assert_true(json_number_of(rank, "rank") == 0 && json_number_of(rank, "size") == 1);
    assert_true(json_number_of(rank, "steps") == 10000000);
    assert_true(json_number_of(rank, "rss_bytes") > 1e6);
    assert_true(json_number_of(rank, "rss_bytes") < 1e9);
    expect_text(rank, "folder", whole);
    expect_text(rank, "config", "c.yaml");
    expect_text(rank, "device", "cpu");
    expect_text(rank, "other_hosts", "");
    json_decref(all);
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* two windows of its speed */
    all = wait_for_ranks(1);
    assert_true(json_number_of(json_array_get(all, 0), "samples_per_second") > 0);
    assert_true(json_is_null(json_object_get(json_array_get(all, 0), "waited")));
    json_decref(all);
    run("ps");
    expect_out("samples/s");
    expect_out(whole);
    expect_out("  0/1  ");
    expect_out("  waiting  ");
    assert_null(strchr(last.out, '%'));
    snprintf(number, sizeof number, "%d", (int)child);
    run("stop %s </dev/null", number);
    expect(2, "standard input is no terminal; give --yes");
    run("stop 1 --yes");
    expect(2, "no run '1' of yours is on this host; lockstep ps shows those that are");
    run("stop . --yes");
    expect(2, "no run '.' of yours is on this host");
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    shell(": >err.txt; '%s' stop run --yes >stopped.txt 2>&1 &", program());
    finish(child); /* a zombie has ended, too */
    assert_int_equal(last.code, 143);
    expect(143, "stopped after step ");
    wait_for("stopped.txt", " has ended\n");
    assert_int_equal(shell("ls run/step-*.safetensors >list.txt"), 0);
    expect_none();
    assert_int_equal(shell("rmdir runs"), 0); /* nothing is left in it */
}

/* Each is passed over, and its process goes on. */
static void expect_untouched(pid_t process, const char *run_name)
{
    expect_none();
    run("stop %s --yes", run_name);
    expect(2, " of yours is on this host");
    assert_int_equal(waitpid(process, NULL, WNOHANG), 0);
}

/* Notes whose process is another program, another process of that number, or none; and such as nobody has written. */
static void no_other_process_is_ended(void **state)
{
    (void)state;
    char name[32], path[4096];
    begin();
    const pid_t child = start("train c.yaml");
    json_decref(wait_for_ranks(1));
    running_note own, note;
    read_note_of(&own, child);
    assert_string_equal(own.magic, RUNNING_MAGIC);
    assert_true(own.process == child && own.start == process_stat(child, PROCESS_START) &&
                own.rank == 0);
    snprintf(name, sizeof name, "%d", (int)child);
    snprintf(path, sizeof path, "%s/%s", in_folder("runs"), name);

    note = own; /* another process had this number when it was written */
    note.start--;
    write_note(&note, name, sizeof note);
    expect_untouched(child, name);
    assert_int_equal(access(path, F_OK), -1); /* it is removed */

    const int64_t wrong[][3] = {{0, 0, 1}, {child + 1, 0, 1}, {child, -1, 1}, {child, 1, 1}};
    for (int i = 0; i < 4; i++) {
        note = own;
        note.process = wrong[i][0];
        note.rank = wrong[i][1];
        note.size = wrong[i][2];
        write_note(&note, name, sizeof note);
        expect_untouched(child, name);
    }
    note = own;
    note.magic[6]++;
    write_note(&note, name, sizeof note);
    expect_untouched(child, name);
    write_note(&own, name, sizeof own - 1);
    expect_untouched(child, name);
    write_note(&own, "elsewhere", sizeof own);
    unlink(path);
    assert_int_equal(symlink("elsewhere", path), 0);
    expect_untouched(child, name);
    write_note(&own, name, sizeof own);
    for (mode_t writes = S_IWOTH; writes <= S_IWGRP; writes *= 8) { /* others may write there */
        assert_int_equal(chmod(in_folder("runs"), S_IRWXU | writes), 0);
        expect_untouched(child, name);
    }
    assert_int_equal(chmod(in_folder("runs"), S_IRWXU), 0);
    const pid_t sleeper = fork();
    if (sleeper == 0) {
        execlp("sleep", "sleep", "600", (char *)NULL);
        _exit(127);
    }
    unlink(path);
    note = own;
    note.process = note.run = sleeper;
    while (process_stat(sleeper, PROCESS_START) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    note.start = process_stat(sleeper, PROCESS_START);
    snprintf(name, sizeof name, "%d", (int)sleeper);
    write_note(&note, name, sizeof note);
    expect_untouched(sleeper, name);
    kill(sleeper, SIGKILL);
    waitpid(sleeper, NULL, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static int64_t loaded(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* Speed and waiting are those of the steps since they were noted last; one process waits for nobody. */
static void a_window_of_steps_is_noted(void **state)
{
    (void)state;
    running_note note = {.size = 2, .waited = -1};
    running r = {.note = &note, .clock = process_clock()};
    const lks_metrics metrics = {.samples = 1000};
    lks_step_event event = {.step = 1, .metrics = &metrics, .seconds = 1, .waited = 0.5};
    running_step(&r, &event); /* the window is open */
    assert_true(loaded(&note.step) == 1 && loaded(&note.rate) == 0 && loaded(&note.waited) == -1);
    event.step = 2;
    event.seconds = 3;
    r.clock -= 100;
    running_step(&r, &event);
    assert_true(loaded(&note.step) == 2);
    assert_in_range(loaded(&note.rate), 15, 20); /* 2000 samples in 100 s, and what the test took */
    assert_int_equal(loaded(&note.waited), 250);
    event.waited = 2.997;
    r.clock -= 100;
    running_step(&r, &event); /* nothing of before is in it */
    assert_in_range(loaded(&note.rate), 8, 10);
    assert_in_range(loaded(&note.waited), 998, 999); /* rounded down */
    note.size = 1;
    note.waited = -1;
    r.clock -= 100;
    running_step(&r, &event);
    assert_int_equal(loaded(&note.waited), -1);
}

/* What a note says of waiting, as text and JSON; null and nothing where that is no share. */
static void waiting_is_shown(void **state)
{
    (void)state;
    static const struct {
        int64_t waited;
        const char *text, *json;
    } cases[] = {{375, "  38%  ", "0.375,"}, {0, "  0%  ", "0.0,"},
                 {1000, "  100%  ", "1.0,"}, {-1, "  -  ", "null,"},
                 {1001, "  -  ", "null,"},   {INT64_MAX, "  -  ", "null,"}};
    char name[32], json[64];
    begin();
    const pid_t child = start("train c.yaml");
    json_decref(wait_for_ranks(1));
    running_note note;
    read_note_of(&note, child);
    note.size = 2;
    snprintf(name, sizeof name, "%d", (int)child);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        atomic_store(&note.waited, cases[i].waited);
        atomic_store(&note.rate, 7); /* or there may be another "-" */
        write_note(&note, name, sizeof note);
        run("ps");
        expect_ok();
        expect_out(cases[i].text);
        run("ps --format json");
        snprintf(json, sizeof json, "\"waited\": %s", cases[i].json);
        expect_out(json);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Bytes that are no text are shown as such, and those of a killed process go. */
static void notes_are_read_with_care(void **state)
{
    (void)state;
    char name[32];
    begin();
    const pid_t child = start("train c.yaml");
    json_decref(wait_for_ranks(1));
    running_note note;
    read_note_of(&note, child);
    memset(note.host, 0xff, sizeof note.host);
    memset(note.config, '\033', sizeof note.config);
    memset(note.others, 'o', sizeof note.others);
    strcpy(note.folder, "zz"); /* behind the others */
    snprintf(name, sizeof name, "%d", (int)child);
    write_note(&note, name, sizeof note);
    run("ps");
    expect(0, "has ranks on ooooo");
    expect(0, "too, where nobody has looked; look there by: lockstep ps --hosts");
    assert_true(strstr(last.err, "oz") == NULL && strchr(last.out, '\033') == NULL);
    run("ps --format json");
    expect_ok();
    expect_out("\"config\": \"????????");
    json_decref(read_json_text(last.out));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    expect_none();
    assert_int_equal(shell("rmdir runs"), 0);
    run("ps --format csv");
    expect(2, "--format is 'csv', expected text or json");
}

/* A training goes on where it can keep no note. */
static void no_note_is_no_failure(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    write_text("file", "");
    setenv("LKS_RUNS", in_folder("file"), 1);
    run("train c.yaml");
    expect(0, "");
    expect_none();
    setenv("LKS_RUNS", "/proc/nowhere", 1);
    run("train c.yaml");
    expect(0, "");
    expect_none();
}

/* The first rank's step behind a second in which the other one stood still is waiting, nearly all of it: of its
 * window, which is half a second and that step, at least 1/2. The next window may come before that one is read. */
static void one_waits_for_the_other(pid_t second)
{
    double waited = 0;
    for (int i = 0; i < 200 && !(waited > 0.5); i++) {
        if (i % 20 == 0) {
            assert_int_equal(kill(second, SIGSTOP), 0);
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
            assert_int_equal(kill(second, SIGCONT), 0);
        }
        json_t *all = wait_for_ranks(2);
        waited = json_number_value(json_object_get(json_array_get(all, 0), "waited"));
        json_decref(all);
    }
    assert_true(waited > 0.5 && waited <= 1);
}

/* By the launcher, which starts nobody again. */
static void all_ranks_of_a_run_are_stopped(void **state)
{
    (void)state;
    const char *build = getenv("LKT_BUILD");
    char path[4096];
    snprintf(path, sizeof path, "%s/modules/liblockstep-openmpi.so",
             build != NULL ? build : "build/release");
    if (access(path, R_OK) != 0 || shell("command -v mpiexec.openmpi >/dev/null") != 0) {
        print_message("Open MPI is not here: left out\n");
        return;
    }
    begin();
    setenv("LKS_WATCH", "60", 1); /* who is frozen for a second is not lost */
    const pid_t child = start("launch -n 2 --by openmpi --max-restarts 2 train c.yaml --out run");
    json_t *all = wait_for_ranks(2), *first = json_array_get(all, 0),
           *second = json_array_get(all, 1);
    assert_true(json_number_of(first, "rank") == 0 && json_number_of(second, "rank") == 1);
    assert_true(json_number_of(first, "size") == 2);
    assert_true(json_number_of(first, "run") == json_number_of(first, "pid"));
    assert_true(json_number_of(second, "run") == json_number_of(first, "pid"));
    assert_true(json_number_of(second, "pid") != json_number_of(first, "pid"));
    assert_true(json_number_of(second, "pid") != child);
    unsetenv("LKS_WATCH");
    one_waits_for_the_other((pid_t)json_number_of(second, "pid"));
    json_decref(all);
    shell("'%s' stop run --yes >stopped.txt 2>&1 &", program());
    finish(child);
    assert_int_equal(last.code, 143);
    wait_for("stopped.txt", " has ended\n");
    expect_none();
    assert_int_equal(shell("ls run/step-*.safetensors >list.txt"), 0);

    const pid_t ranks = fork(); /* without a launcher of ours */
    if (ranks == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        char command[8192];
        snprintf(
            command, sizeof command,
            "cd '%s' && exec mpiexec.openmpi --allow-run-as-root --oversubscribe -n 2 '%s' train "
            "c.yaml --out other >out.txt 2>err.txt",
            folder, program());
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    json_decref(wait_for_ranks(2));
    run("stop other --yes");
    expect_ok();
    expect_out(" has ended\n");
    waitpid(ranks, NULL, 0);
    expect_none();
    assert_int_equal(shell("ls other/step-*.safetensors >list.txt"), 0);
}

int main(void)
{
    allow_leaks();
    const struct CMUnitTest tests[] = {
        TEST(a_run_is_seen_and_stopped),
        TEST(no_other_process_is_ended),
        TEST(notes_are_read_with_care),
        TEST(a_window_of_steps_is_noted),
        TEST(waiting_is_shown),
        TEST(no_note_is_no_failure),
        TEST(all_ranks_of_a_run_are_stopped),
    };
    return cmocka_run_group_tests_name("notes", tests, NULL, NULL);
}
