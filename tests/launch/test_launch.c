/* lockstep launch, with each MPI that is installed: ranks are a script that says who it is. */
#include "launch/script.h"

static void rank_0_talks_and_all_have_logs(void **state)
{
    (void)state;
    static char text[OUTPUT_SIZE];
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --log-dir logs/deep --program bash -- rank.sh hello", mpi->name);
        expect_ok();
        expect_out("out 0\n");
        assert_null(strstr(last.out, "out 1"));
        assert_string_equal(last.err, "err 0\n");
        read_text(text, "logs/deep/rank-0.log");
        assert_non_null(strstr(text, "out 0\n"));
        read_text(text, "logs/deep/rank-1.log");
        assert_non_null(strstr(text, "out 1\n"));
        assert_non_null(strstr(text, "err 1\n"));
    }
}

/* Each rank has its part of the cores, so that workers take all of its own by default. */
static void ranks_divide_the_cores(void **state)
{
    (void)state;
    static char text[OUTPUT_SIZE];
    if (shell("exit $(nproc)") < 2) skip();
    EACH_MPI(mpi)
    {
        char list[2][64];
        run("launch -n 2 --by %s --log-dir logs --program bash -- rank.sh hello", mpi->name);
        for (int rank = 0; rank < 2; rank++) {
            read_text(text, rank == 0 ? "logs/rank-0.log" : "logs/rank-1.log");
            assert_int_equal(
                sscanf(strstr(text, "Cpus_allowed_list:"), "Cpus_allowed_list: %63s", list[rank]),
                1);
        }
        assert_string_not_equal(list[0], list[1]);
        run("launch -n 2 --by %s --bind none --program bash -- rank.sh hello", mpi->name);
        expect_ok();
        char whole[64];
        assert_int_equal(
            sscanf(strstr(last.out, "Cpus_allowed_list:"), "Cpus_allowed_list: %63s", whole), 1);
        assert_string_not_equal(list[0], whole);
    }
}

/* An MPI may lie in a folder of any name: its own is all that tells which one a plain mpiexec is of. */
static void a_folder_may_have_a_quote(void **state)
{
    (void)state;
    char before[4096], path[4300];
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    EACH_MPI(mpi)
    {
        shell("mkdir -p \"o'b\"; p=$(command -v %s); printf '#!/bin/sh\\nexec %%s \"$@\"\\n' $p "
              ">\"o'b/mpiexec\"; ln -sf /bin/true \"o'b/ssh\"; chmod +x \"o'b/mpiexec\"",
              mpi->program);
        snprintf(path, sizeof path, "%s", in_folder("o'b"));
        setenv("PATH", path, 1);
        run("launch -n 2 --by %s --program /bin/pwd", mpi->name);
        setenv("PATH", before, 1);
        expect_ok();
        expect_out(folder);
    }
}

/* The null device is their standard input, and nothing else of the launcher's is theirs. */
static void ranks_get_no_files_of_the_launcher(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        if (strcmp(mpi->name, "openmpi") != 0) continue; /* Hydra hands on what it has itself */
        run("launch -n 2 --by %s --log-dir logs --program ls -- -l /proc/self/fd", mpi->name);
        expect_ok();
        assert_int_equal(shell("exit $(grep -c '/dev/null' logs/rank-1.log)"), 1);
    }
}

static void a_program_needs_no_words(void **state)
{
    (void)state;
    run("launch -n 1 --program pwd");
    expect_ok();
    expect_out(folder);
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --program pwd", mpi->name);
        expect_ok();
        expect_out(folder);
        /* What each rank would refuse is refused once, before they are started. */
        write_text("c.yaml", tiny);
        run("launch -n 3 --by %s --workers 2 --log-dir logs train c.yaml", mpi->name);
        expect(2, "lockstep: 6 workers of 3 ranks cannot share 4 replicas: a worker runs whole ");
        assert_null(strstr(last.err, "ranks ended"));
        assert_false(there("logs"));
        run("launch -n 3 --by %s --workers 2 train c.yaml --set train.accumulate=2", mpi->name);
        assert_null(strstr(last.err, "cannot share")); /* the module is none */
    }
}

static void the_first_that_fails_is_named(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        run("launch -n 2 --by %s --log-dir logs --program bash -- rank.sh fail", mpi->name);
        expect(7, "lockstep: rank 1 (host ");
        expect(7, ") ended with exit code 7; its last lines follow; all of it is in "
                  "logs/rank-1.log there\n");
        expect(7, "lockstep: rank 1: line 11\n");
        expect(7, "lockstep: rank 1: line 50\n");
        assert_null(strstr(last.err, "line 10\n"));
        assert_string_equal(last.out, "begin 0\n"); /* no banner of the MPI's */
        expect_nobody(2);
        /* What it has written into its log itself is read too, and what an earlier run has not. */
        shell("echo earlier >logs/rank-1.log");
        run("launch -n 2 --by %s --log-dir logs --program bash -- rank.sh own", mpi->name);
        expect(3, "lockstep: rank 1: of its own\n");
        assert_null(strstr(last.err, "earlier"));
        run("launch -n 2 --by %s --program bash -- rank.sh segv", mpi->name);
        expect(139, ") was ended by SIGSEGV (Segmentation fault)\n");
        run("launch -n 2 --by %s --program bash -- rank.sh same", mpi->name);
        assert_int_equal(last.code, 5);
        assert_string_equal(last.err, "the same\nlockstep: all 2 ranks ended with exit code 5\n");
        run("launch -n 2 --by %s --program bash -- rank.sh same 143", mpi->name); /* not ours */
        assert_non_null(strstr(last.err, "\nlockstep: all 2 ranks ended with exit code 143\n"));
        run("launch -n 3 --by %s --program bash -- rank.sh most", mpi->name);
        expect(5, ") ended with exit code 5\n");
    }
}

static void one_signal_lets_all_ranks_save(void **state)
{
    (void)state;
    static char text[OUTPUT_SIZE];
    static const struct row {
        int number, code;
    } rows[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}, {SIGUSR1, 138}};
    EACH_MPI(mpi)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shell("rm -rf logs ready.*");
        const pid_t child = start_ranks(mpi, "save");
        kill(child, rows[i].number);
        finish(child);
        expect(rows[i].code, "");
        expect_out("saved 0\n");
        read_text(text, "logs/rank-1.log");
        assert_string_equal(text, "saved 1\n");
    }
}

/* Where nobody reads what ranks say they end, and save, as one process does; where a disk is full they go on. */
static void standard_output_that_is_lost_is_said(void **state)
{
    (void)state;
    static char text[OUTPUT_SIZE];
    signal(SIGPIPE, SIG_DFL);
    EACH_MPI(mpi)
    {
        shell("{ '%s' launch -n 2 --by %s --program bash -- rank.sh talk 2>err.txt; echo $? "
              ">code.txt; } | head -1 >out.txt",
              program(), mpi->name);
        read_text(text, "code.txt");
        read_text(last.err, "err.txt");
        assert_string_equal(last.err,
                            "lockstep: standard output could not be written: Broken pipe\n");
        assert_string_equal(text, "3\n");
        assert_true(there("saved.0") && there("saved.1"));
        if (access("/dev/full", W_OK) != 0) continue;
        assert_int_equal(
            shell("'%s' launch -n 2 --by %s --log-dir logs --program bash -- rank.sh hello "
                  ">/dev/full 2>err.txt",
                  program(), mpi->name),
            3);
        read_text(last.err, "err.txt");
        assert_non_null(strstr(
            last.err, "lockstep: standard output could not be written: No space left on device\n"));
        read_text(text, "logs/rank-0.log");
        assert_non_null(strstr(text, "Cpus_allowed_list")); /* behind what was lost */
    }
}

static void the_second_ends_them_at_once(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        const pid_t child = start_ranks(mpi, "stay");
        kill(child, SIGINT);
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        kill(child, SIGINT);
        finish(child);
        expect(130, "");
        expect_nobody(2);
    }
}

/* Ranks of a host that does not answer never begin: whoever asks to stop is not kept waiting for them. */
static void one_signal_ends_a_start_that_hangs(void **state)
{
    (void)state;
    write_text("hangs", "#!/bin/sh\n: >called\nexec sleep 300\n");
    shell("chmod +x hangs");
    EACH_MPI(mpi)
    {
        char command[200];
        shell("rm -f called");
        snprintf(command, sizeof command,
                 "launch --by %s --hosts far.invalid:2 --agent ./hangs --program true -- x",
                 mpi->name);
        const pid_t child = start(command);
        for (int turn = 0; turn < 3000 && !there("called"); turn++)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        kill(child, SIGTERM);
        finish(child);
        assert_int_equal(last.code, 143);
    }
}

/* Of two orders the last one counts when it is to end at once. */
static void a_watcher_tells_what_ended_its_rank(void **state)
{
    (void)state;
    write_text("rank.sh", script);
    shell("rm -f ready.*");
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    const pid_t child = start("launch --watch 0123456789abcdef --by mpich -- bash rank.sh stay");
    wait_for("ready.0", "ready");
    kill(child, SIGTERM);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    kill(child, SIGQUIT);
    finish(child);
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.err, " end -137 9\n"));
    /* A rank of ours may have been asked by others: then it has not failed, and the starter is to end nobody. */
    long rank;
    write_text("c.yaml", tiny);
    const pid_t watcher = start("launch --watch 0123456789abcdef --by openmpi -- \"$(realpath "
                                "$LKT_BUILD)/cli/lockstep\" train c.yaml --epochs 1000000");
    wait_for("out.txt", "loss");
    read_text(last.err, "err.txt");
    assert_int_equal(sscanf(strchr(last.err, '\036'), "\036 %*s 0 %*s %ld begin", &rank), 1);
    kill((pid_t)rank, SIGTERM);
    finish(watcher);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.err, " end 143 0\n"));
}

/* Where Slurm has given each task its CPUs they are its own; where it has not, they are shared out. */
static void what_slurm_has_shared_is_not_shared_again(void **state)
{
    (void)state;
    static const char command[] =
        "exec >out.txt 2>&1; all=$(grep Cpus_allowed_list /proc/self/status)\n"
        "own=$(OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "
        "OMPI_COMM_WORLD_LOCAL_SIZE=2 SLURM_CPUS_PER_TASK=%s '%s' launch --watch 0123456789abcdef "
        "--by mpich -- grep Cpus_allowed_list /proc/self/status)\n"
        "echo \"$all, $own\"; [ -n \"$own\" ] && [ \"$all\" %s \"$own\" ]";
    if (shell("exit $(nproc)") < 2) skip();
    assert_int_equal(shell(command, "$(nproc)", program(), "="), 0);
    assert_int_equal(shell(command, "1", program(), "!="), 0);
}

/* Training jobs that outlive their launcher hold the cores until somebody notices. */
static void nobody_outlives_the_launcher(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        const pid_t child = start_ranks(mpi, "stay");
        assert_true(processes() >= 5);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        expect_nobody(2);
    }
}

static void what_is_wrong_with_the_command_is_said_once(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        run("launch -n 3 --by %s -- train c.yaml --lr x", mpi->name);
        expect(2, "lockstep: ");
        assert_int_equal(strlen(last.err), strcspn(last.err, "\n") + 1);
        run("launch -n 3 --by %s -- train missing.yaml", mpi->name);
        expect(3, "missing.yaml");
        assert_int_equal(strlen(last.err), strcspn(last.err, "\n") + 1);
    }
    write_text("c.yaml", tiny);
    run("launch train c.yaml");
    expect(2, "launch needs the number of ranks: -n N, or --hosts a:2,b:2");
    run("launch -n 0 train c.yaml");
    expect(2, "-n is '0', expected a number from 1");
    run("launch -n 3 --hosts a:1,b:1 train c.yaml");
    expect(2, "-n is 3, but --hosts has room for 2");
    run("launch -n 2 --by pvm train c.yaml");
    expect(2, "--by is 'pvm', expected openmpi, mpich or srun");
    run("launch --nnodes 3:2 train c.yaml");
    expect(2,
           "--nnodes is '3:2', expected a number from 1 to 1024, or two, the least and the most");
    run("launch --elastic -n 2 train c.yaml");
    expect(2, "--elastic is for hosts that meet; give --nnodes and --rdzv-endpoint too");
    run("launch -n 2 --bind socket train c.yaml");
    expect(2, "--bind is 'socket', expected cores or none");
    setenv("SLURM_NTASKS", "2x", 1);
    run("launch train c.yaml");
    expect(2, "lockstep: SLURM_NTASKS is '2x', expected the number of ranks, from 1 to ");
    unsetenv("SLURM_NTASKS");
    run("launch --watch x --by mpich train c.yaml");
    expect(2, "--watch is what lockstep launch starts");
    setenv("LKS_MODULES", folder, 1);
    run("launch -n 2 --by openmpi train c.yaml");
    if (strstr(last.err, "PATH") == NULL && last.code != 0) expect(2, "liblockstep-openmpi.so");
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    run("launch -n 2 train c.yaml");
    expect(2, "launch itself was started 4 times");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

static void one_rank_is_the_program_itself(void **state)
{
    (void)state;
    static char alone[OUTPUT_SIZE];
    write_text("c.yaml", tiny);
    run("train c.yaml --workers 1");
    expect_ok();
    snprintf(alone, sizeof alone, "%s", last.out);
    run("launch -n 1 --workers 1 train c.yaml");
    expect_ok();
    assert_string_equal(strstr(last.out, "hash "), strstr(alone, "hash "));
    run("launch -n 1 --dry-run -- train c.yaml --lr '0 1'");
    expect(2, "optimizer.lr");
    run("launch -n 4 -- train --help");
    expect_ok();
    expect_out("lockstep train CONFIG");
}

/* Too many workers for the cores; the command lines of each starter. */
static void a_dry_run_prints_the_command(void **state)
{
    (void)state;
    EACH_MPI(mpi)
    {
        run("launch -n 999 --workers 4 --by %s --dry-run -- train c.yaml --out 'a run'", mpi->name);
        assert_int_equal(last.code, 0);
        expect(0, "lockstep: 999 ranks with 4 workers each share ");
        expect_out("mpiexec.");
        expect_out(" -n 999 ");
        expect_out("lockstep train --workers 4 c.yaml --out 'a run'\n");
        expect_out("--log-dir 'a run/ranks' -- ");
        assert_true((strstr(last.out, "--allow-run-as-root") != NULL) ==
                    (geteuid() == 0 && strcmp(mpi->name, "openmpi") == 0));
        run("launch --hosts a:2,b:3 --agent reach --by %s --dry-run -- train c.yaml", mpi->name);
        expect_out(" a:2,b:3 ");
        expect_out(" -n 5 ");
        expect_out(strcmp(mpi->name, "openmpi") == 0 ? "plm_rsh_agent reach"
                                                     : "-launcher-exec reach");
    }
}

/* A Slurm allocation, which is a program in PATH and variables. */
static void inside_slurm_it_is_srun(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    shell("mkdir -p bin modules; printf '#!/bin/sh\\nexit 1\\n' >bin/srun; chmod +x bin/srun; "
          "touch modules/liblockstep-mpich.so");
    setenv("LKS_MODULES", in_folder("modules"), 1);
    static char path[8192];
    snprintf(path, sizeof path, "%s:%s", in_folder("bin"), getenv("PATH"));
    const char *before = getenv("PATH");
    setenv("PATH", path, 1);
    setenv("SLURM_JOB_ID", "7", 1);
    setenv("SLURM_NTASKS", "4", 1);
    setenv("SLURM_CPUS_PER_TASK", "3", 1);
    run("launch --dry-run -- train c.yaml");
    expect_ok();
    expect_out("/bin/srun --ntasks=4 --cpus-per-task=3 --mpi=pmi2 "
               "--kill-on-bad-exit=1 ");
    run("launch --hosts a:2,b:1 --dry-run -- train c.yaml");
    expect_out("--ntasks=3 ");
    expect_out("--nodelist=a,a,b --distribution=arbitrary ");
    run("launch -- train c.yaml");
    expect(3, "srun ended with code 1 before any rank could say why");
    setenv("PATH", before, 1);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_NTASKS");
    unsetenv("SLURM_CPUS_PER_TASK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rank_0_talks_and_all_have_logs),
        TEST(ranks_divide_the_cores),
        TEST(a_folder_may_have_a_quote),
        TEST(ranks_get_no_files_of_the_launcher),
        TEST(a_program_needs_no_words),
        TEST(the_first_that_fails_is_named),
        TEST(one_signal_lets_all_ranks_save),
        TEST(standard_output_that_is_lost_is_said),
        TEST(one_signal_ends_a_start_that_hangs),
        TEST(the_second_ends_them_at_once),
        TEST(nobody_outlives_the_launcher),
        TEST(a_watcher_tells_what_ended_its_rank),
        TEST(what_slurm_has_shared_is_not_shared_again),
        TEST(what_is_wrong_with_the_command_is_said_once),
        TEST(one_rank_is_the_program_itself),
        TEST(a_dry_run_prints_the_command),
        TEST(inside_slurm_it_is_srun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
