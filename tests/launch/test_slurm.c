/* lockstep slurm: the script, and what is refused. That Slurm takes it is slurm.sh's. */
#include "cli/program.h"

static void the_script_asks_for_what_was_asked(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("slurm c.yaml --nodes 2 --ntasks-per-node 2 --cpus-per-task 1 --time 0-4 --partition p-1 "
        "--account a.b -- --lr '0.25'");
    expect_ok();
    assert_string_equal(last.err, "");
    static const char *const lines[] = {
        "#!/bin/bash\n",
        "\n#SBATCH --job-name=c\n",
        "\n#SBATCH --nodes=2\n",
        "\n#SBATCH --ntasks-per-node=2\n",
        "\n#SBATCH --cpus-per-task=1\n",
        "\n#SBATCH --time=0-4\n",
        "\n#SBATCH --partition=p-1\n",
        "\n#SBATCH --account=a.b\n",
        "\n#SBATCH --signal=SIGUSR1@90\n",
        "\n#SBATCH --requeue\n",
        "\n#SBATCH --open-mode=append\n",
        "\n#SBATCH --output=c-%j.out\n",
        "lockstep launch --by srun -- train c.yaml --lr 0.25 --out c --resume\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) expect_out(lines[i]);
    assert_int_equal(strncmp(last.out, lines[0], strlen(lines[0])), 0);
    assert_int_equal(shell("bash -n out.txt"), 0);
    /* Its own folder, and what the training itself says. */
    run("slurm c.yaml -- --out 'my run' --resume");
    expect_out(" train c.yaml --out 'my run' --resume\n");
    expect_out("#SBATCH --time=60\n");
}

static void the_cores_are_the_workers(void **state)
{
    (void)state;
    write_text("my $c.yaml", tiny);
    run("slurm 'my $c.yaml' -- --workers 3");
    expect_out("#SBATCH --cpus-per-task=3\n");
    expect_out("#SBATCH --job-name=my__c\n");
    assert_int_equal(shell("bash -n out.txt"), 0);
    run("slurm 'my $c.yaml' --ntasks-per-node 2 --cpus-per-task 4");
    expect(0, "2 ranks with 4 cores each are more than the 4 replicas");
}

static void mistakes_are_said_before_the_job_waits(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    static const struct row {
        const char *arguments, *sentence;
    } rows[] = {
        {"c.yaml --nodes 3 --ntasks-per-node 2",
         "3 nodes with 2 tasks each are 6 ranks, but there are 4 replicas"},
        {"c.yaml --nodes 0", "--nodes is '0', expected a number from 1"},
        {"c.yaml --ntasks-per-node x", "--ntasks-per-node is 'x'"},
        {"c.yaml --time 1h", "--time is '1h', expected minutes"},
        {"c.yaml --time 1:2:3:4", "--time is '1:2:3:4'"},
        {"c.yaml --time 1:-2", "--time is '1:-2'"},
        {"c.yaml --time 1:", "--time is '1:'"},
        {"c.yaml --partition 'a b'", "--partition is 'a b'"},
        {"c.yaml -- --lr x", "optimizer.lr"},
        {"c.yaml -- --lr", "--lr needs a value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run("slurm %s", rows[i].arguments);
        expect(2, rows[i].sentence);
        assert_string_equal(last.out, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_script_asks_for_what_was_asked),
        TEST(the_cores_are_the_workers),
        TEST(mistakes_are_said_before_the_job_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
