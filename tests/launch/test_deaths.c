/* What lockstep launch makes of ranks that die: who is named, how soon, and starts again. */
#include "launch/script.h"

/* What a rank says of another that is gone is on screen at once, whichever rank it is; and the exit code by
 * which all of them end says nothing more. */
static void who_is_missed_is_said_once(void **state)
{
    (void)state;
    static char text[OUTPUT_SIZE];
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --log-dir logs --program bash -- rank.sh miss", mpi->name);
        assert_int_equal(last.code, 12);
        assert_string_equal(last.err, "lockstep: rank 0 (host a, pid 5): it froze\n");
        read_text(text, "logs/rank-1.log");
        assert_string_equal(text, "lockstep: rank 0 (host a, pid 5): it froze\n");
    }
}

/* Behind an order to end it is no news that others have ended. */
static void nobody_is_missed_who_was_to_end(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        const pid_t child = start_ranks(mpi, "asked");
        kill(child, SIGINT);
        finish(child);
        expect(130, "");
        assert_null(strstr(last.err, "it froze"));
    }
}

/* Whom others miss is to blame, whichever report is first. */
static void who_is_missed_is_to_blame(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --program bash -- rank.sh blame", mpi->name);
        expect(137, "lockstep: rank 1 (host a, pid 5): it froze\n");
        expect(137, ") was ended by SIGKILL (Killed)\n");
        assert_null(strstr(last.err, "SIGSEGV"));
    }
}

/* What takes long on a busy machine is tried again. */
#define ANY_OF_FIVE(good, command)                                                                 \
    for (int turn = 0;; turn++) {                                                                  \
        assert_true(turn < 5);                                                                     \
        command;                                                                                   \
        if (good) break;                                                                           \
    }

/* When a rank's end and who missed it have been reported nobody waits for more. */
static void what_is_known_is_not_waited_for(void **state)
{
    (void)state;
    static const char *const times[] = {"0.1 0", "0 0.1"}; /* of the end, of its being missed */
    EACH_MPI(mpi)
    for (int i = 0; i < 2; i++) {
        /* Where the machine is busy the second report comes too late: then it is not known, and waited for. */
        ANY_OF_FIVE(last.code == 137 && shell("[ -e late ]") != 0, {
            shell("rm -f late");
            run("launch -n 2 --by %s --program bash -- rank.sh late %s", mpi->name, times[i]);
        })
        expect(137, "lockstep: rank 1 (host a, pid 5): it froze\n");
    }
}

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* An mpiexec that does not end when it is asked to is killed soon enough for a restart within seconds. */
static void a_starter_that_stays_is_killed(void **state)
{
    (void)state;
    double seconds;
    const char *before = getenv("PATH");
    static char path[8192];
    shell("mkdir -p stays modules; touch modules/liblockstep-openmpi.so");
    write_text("rank.sh", script);
    write_text("stays/mpiexec.openmpi",
               "#!/bin/bash\ntrap '' TERM\nwhile [ $1 != none ]; do shift; done; shift\n"
               "export OMPI_COMM_WORLD_SIZE=2\n"
               "for r in 0 1; do OMPI_COMM_WORLD_RANK=$r \"$@\" & done; wait; sleep 60\n");
    shell("chmod +x stays/mpiexec.openmpi");
    snprintf(path, sizeof path, "%s:%s", in_folder("stays"), before);
    setenv("LKS_MODULES", in_folder("modules"), 1);
    setenv("PATH", path, 1);
    ANY_OF_FIVE(seconds < 1.9, {
        const double begin = now();
        run("launch -n 2 --by openmpi --program bash -- rank.sh segv");
        seconds = now() - begin;
        expect(139, ") was ended by SIGSEGV (Segmentation fault)\n");
    })
    setenv("PATH", before, 1);
}

static void restarts_are_counted(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --max_restarts 3 --program bash -- rank.sh again 2", mpi->name);
        expect_ok();
        assert_string_equal(last.out, "start 0\nstart 1\nstart 2\n");
        expect(0, "lockstep: restart 1 of 3 from the beginning, as nothing is saved\n");
        expect(0, "lockstep: restart 2 of 3 ");
        assert_null(strstr(last.err, "restart 3"));
        run("launch -n 2 --by %s --max-restarts=1 --program bash -- rank.sh again 9", mpi->name);
        expect(137, "lockstep: there was 1 restart, and no more: --max-restarts\n");
        assert_string_equal(last.out, "start 0\nstart 1\n");
        expect_nobody(2);
        run("launch -n 2 --by %s --max-restarts 5 --program bash -- rank.sh once", mpi->name);
        expect(0, "lockstep: restart 1 of 5 "); /* of another program any failure may be one */
        assert_null(strstr(last.err, "restart 2"));
        /* What is so would be so again. */
        run("train c.yaml --out run");
        expect_ok();
        run("launch -n 1 --by %s --max-restarts 5 train c.yaml --out run", mpi->name);
        expect(2, "give --resume to continue");
        assert_null(strstr(last.err, "restart "));
    }
    run("launch -n 2 --max-restarts -1 train c.yaml");
    expect(2, "--max-restarts is '-1', expected a number from 0");
}

static void launch_that_restarts(const struct mpi *mpi, pid_t *child, double seconds)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "launch -n 2 --by %s --max-restarts 1000 --program bash -- rank.sh again 9999",
             mpi->name);
    shell("rm -f up.* err.txt");
    *child = start(arguments);
    wait_for("err.txt", "restart 1 of 1000");
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL);
}

/* In the middle of an end, between two starts, in the middle of one. */
static void a_signal_ends_restarts(void **state)
{
    (void)state;
    pid_t child;
    EACH_MPI(mpi)
    for (int i = 0; i < 2; i++) {
        launch_that_restarts(mpi, &child, 0.25 * i);
        kill(child, i == 0 ? SIGTERM : SIGINT);
        finish(child);
        /* Or a rank had died just then, which nobody goes on from any more. */
        assert_true(last.code == (i == 0 ? 143 : 130) || last.code == 137);
        expect_nobody(2);
    }
}

static void nobody_outlives_a_launcher_that_restarts(void **state)
{
    (void)state;
    pid_t child;
    EACH_MPI(mpi)
    for (int i = 0; i < 2; i++) {
        launch_that_restarts(mpi, &child, 0.2 * i);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        expect_nobody(2);
    }
}

/* A process that has left its rank's group and session, and whose parents have ended. */
static void what_ranks_leave_behind_ends(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --program bash -- rank.sh leave", mpi->name);
        expect_ok();
        assert_true(there("ready.0") && there("ready.1"));
        assert_int_equal(processes(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_is_missed_is_said_once),     TEST(nobody_is_missed_who_was_to_end),
        TEST(who_is_missed_is_to_blame),      TEST(what_is_known_is_not_waited_for),
        TEST(a_starter_that_stays_is_killed), TEST(restarts_are_counted),
        TEST(a_signal_ends_restarts),         TEST(nobody_outlives_a_launcher_that_restarts),
        TEST(what_ranks_leave_behind_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
