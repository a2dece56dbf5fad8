/* train --num-processes, --gpus, --num-nodes and --strategy: one command that starts all ranks of a training. */
#include "cli/program.h"

/* Open MPI, and the module for it, which the build makes where that is installed. */
static bool has_mpi(void)
{
    char path[4096];
    const char *build = getenv("LKT_BUILD");
    snprintf(path, sizeof path, "%s/modules/liblockstep-openmpi.so",
             build != NULL ? build : "build/release");
    if (access(path, R_OK) == 0 && shell("command -v mpiexec.openmpi >/dev/null") == 0) return true;
    print_message("Open MPI is not here: its cases are left out\n");
    return false;
}

static void they_train_one_model(void **state)
{
    (void)state;
    static const char *const ways[] = {"--num-processes 1", "--num-processes 2",
                                       "--gpus 2 --num-nodes 2 --workers 1",
                                       "--num_processes=2 --strategy ddp",
                                       "--gpus 2 --strategy horovod --set train.average_every=2"};
    char one[32], other[32];
    write_text("c.yaml", tiny);
    if (!has_mpi()) return;
    run("train c.yaml --workers 1");
    expect_ok();
    last_hash(one);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run("train c.yaml %s", ways[i]);
        expect_ok();
        assert_int_equal(last_hash(other), 20);
        assert_string_equal(one, other);
        if (i == 2) expect_out("Using 4 workers in 4 processes");
        if (i == 3) expect_out("Using 2 workers in 2 processes");
    }
    run("train c.yaml --num-processes 2 --strategy average");
    expect_ok();
    expect_out("which average their models every 1 step;");
    last_hash(other);
    assert_string_not_equal(one, other);
    run("train c.yaml --num-processes 2 --strategy average --set train.average_every=4");
    expect_ok();
    expect_out("which average their models every 4 steps;");
    run("train c.yaml --num-processes 2 --format lightning");
    expect_ok();
    expect_out("initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n-----");
    expect_out("\ndistributed_backend=Open MPI ");
    expect_out("\nAll distributed processes registered. Starting with 2 processes\n-----");
    run("launch -n 2 train c.yaml --num-processes 2");
    expect_ok();
    last_hash(other);
    assert_string_equal(one, other);
    run("launch -n 2 train c.yaml --num-processes 3");
    expect(2, "the options say 3 processes, but mpirun (Open MPI) started 2; say it in one place");
}

static void they_may_stop_together_and_go_on(void **state)
{
    (void)state;
    char whole[32], parts[32];
    write_text("c.yaml", tiny);
    if (!has_mpi()) return;
    run("train c.yaml --num-processes 2");
    last_hash(whole);
    run("train c.yaml --num-processes 2 --out run --steps 7");
    expect_ok();
    run("train c.yaml --num-processes 2 --out run --resume");
    expect(0, "continuing from step 7 in run");
    last_hash(parts);
    assert_string_equal(whole, parts);
}

/* MPI would wait for it for ever. */
static void who_does_not_join_is_named(void **state)
{
    (void)state;
    static const char *const starters[] = {"openmpi", "mpich"};
    char script[8192];
    write_text("c.yaml", tiny);
    if (!has_mpi()) return;
    snprintf(script, sizeof script,
             "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && exec sleep 60\n"
             "exec '%s' train c.yaml --comm-timeout 1.5\n",
             program());
    write_text("rank.sh", script);
    for (int i = 0; i < 2; i++) {
        if (i == 1 && shell("command -v mpiexec.hydra >/dev/null") != 0) continue;
        run("launch -n 3 --by %s --workers 1 --program bash -- rank.sh", starters[i]);
        expect(13, "lockstep: not all of the 3 processes that mpi");
        assert_non_null(strstr(last.err, " was to start have joined within 1.5 s; on this host "
                                         "there is no rank 1; see what became of them there"));
    }
}

/* Nothing is started where nothing is trained, nor where there is nothing to start with. */
static void what_cannot_be(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --num-processes 2 --print-config --strategy average");
    expect(0, "");
    expect_out("average_every: 1\n");
    run("train c.yaml --print-config --set train.average_every=8 --strategy average");
    expect_out("average_every: 8\n");
    run("train c.yaml --print-config --set train.average_every=8 --strategy ddp");
    expect_out("average_every: null\n");
    run("train c.yaml --strategy fsdp");
    expect(2, "--strategy is 'fsdp', expected ddp, horovod or average");
    run("train c.yaml --num-processes 0");
    expect(2, "--num-processes is '0', expected a number from 1 to 1048576");
    run("train c.yaml --gpus two");
    expect(2, "--gpus is 'two', expected a number from 1 to 1048576");
    run("train c.yaml --num-nodes -1");
    expect(2, "--num-nodes is '-1', expected a number from 1 to 1048576");
    run("train c.yaml --num-processes 2 --num-nodes 2");
    expect(2, "--num-processes says how many processes there are; drop --gpus and --num-nodes");
    run("train c.yaml --gpus 2000 --num-nodes 2000");
    expect(2, "--gpus times --num-nodes is 4000000, expected at most 1048576");
    shell("mkdir nothing");
    setenv("LKS_MODULES", in_folder("nothing"), 1);
    run("train c.yaml --num-processes 2");
    unsetenv("LKS_MODULES");
    expect(2, "LKS_MODULES");
}

/* That of one that dies is shards/ranks. */
static void they_make_shards_together(void **state)
{
    (void)state;
    run("data pack . --num-processes 2");
    expect(2, "data pack is done by one process; --num-processes is for shard, columns and stats");
    if (!has_mpi()) return;
    run("data columns --rows 96 --out one");
    expect_ok();
    write_text("c.yaml", "data: {shards: one, test_fraction: 0.5}\nmodel: {name: mlp}\n");
    run("data stats c.yaml");
    expect_ok();
    assert_int_equal(shell("cp one/stats*.npy kept.npy"), 0);
    run("data stats c.yaml --num-processes 3");
    expect_ok();
    assert_int_equal(shell("cmp one/stats*.npy kept.npy && rm one/stats*.npy"), 0);
    run("data columns --rows 96 --out two --num-processes 2");
    expect_ok();
    expect_out("two: 96 rows of 4,128 inputs and 552 targets in 1 shards");
    assert_int_equal(shell("diff -r one two"), 0);
}

int main(void)
{
    allow_leaks();
    const struct CMUnitTest tests[] = {
        TEST(they_train_one_model), TEST(they_may_stop_together_and_go_on),
        TEST(they_make_shards_together), TEST(who_does_not_join_is_named), TEST(what_cannot_be)};
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
