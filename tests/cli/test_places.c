/* Where the program writes: folders that are in use, links, devices, what must not be replaced. */
#include "cli/background.h"

#include <signal.h>

/* The folder of a run that goes on belongs to it; the next start ends at once and says whose it is. */
static void a_folder_has_one_training(void **state)
{
    (void)state;
    char hash[32], process[64];
    write_text("c.yaml", tiny);
    const pid_t child = start("train c.yaml --epochs 100000 --out run --set log.interval=1");
    wait_for("out.txt", "Train Epoch: 3 ");
    assert_int_equal(shell("'%s' train c.yaml --out run/ --resume >out2 2>err2", program()), 3);
    read_text(last.err, "err2");
    snprintf(process, sizeof process, "training (process %d on ", (int)child);
    if (strstr(last.err, process) == NULL) fail_msg("no \"%s\" in:\n%s", process, last.err);
    read_text(last.out, "out2");
    assert_string_equal(last.out, "");
    assert_int_equal(shell("'%s' eval c.yaml --out run >out2 2>err2", program()), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(there("run/.lockstep.lock"));
    run("train c.yaml --out run --resume --steps 50"); /* what was killed holds nothing */
    expect_ok();
    last_hash(hash);
    assert_false(there("run/.lockstep.lock"));
}

/* Of some that start together one trains; no other exits with a fault of Lockstep. */
static void one_of_many_starts_wins(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    write_text("race.sh", "for i in 1 2 3 4; do\n"
                          "  (\"$1\" train c.yaml --out run >out.$i 2>err.$i; echo $? >code.$i) &\n"
                          "done\nwait\n");
    for (int round = 0; round < 5; round++) {
        int won = 0;
        shell("rm -rf run && sh race.sh '%s'", program());
        for (int i = 1; i <= 4; i++) {
            char name[16];
            snprintf(name, sizeof name, "code.%d", i);
            read_text(last.out, name);
            const int code = atoi(last.out);
            snprintf(name, sizeof name, "err.%d", i);
            read_text(last.err, name);
            won += code == 0;
            const char *why = code == 3 ? "in use by another training" : "has checkpoints up to";
            if (code != 0 && ((code != 3 && code != 2) || strstr(last.err, why) == NULL))
                fail_msg("exit code %d: %s", code, last.err);
        }
        assert_int_equal(won, 1);
    }
}

static void a_dry_run_leaves_nothing(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --dry-run --out run --save-model --record run.json");
    expect(0, "");
    assert_false(there("run") || there("run.json") || there("mlp.safetensors"));
    run("train c.yaml --out run --steps 3");
    expect(0, "");
    run("train c.yaml --out run --dry-run"); /* it says what the training would */
    expect(2, "which has checkpoints up to step 3; give --resume");
    run("train c.yaml --out run --dry-run --resume");
    expect(0, "");
    assert_int_equal(shell("test \"$(ls -A run)\" = \"$(printf '%%s\\n' step-00000003.json "
                           "step-00000003.safetensors)\""),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_folder_has_one_training),
        TEST(one_of_many_starts_wins),
        TEST(a_dry_run_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
