/* What stops lockstep train: losses that are not finite, signals, files. */
#include "verbs/background.h"

#include <signal.h>

#include <lockstep/context.h>

static void losses_that_are_not_finite_stop_it(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --lr 1e30");
    expect(6, "step");
}

static void signals_save_and_say_how_to_go_on(void **state)
{
    (void)state;
    static const struct row {
        int number, code;
    } rows[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}, {SIGUSR1, 138}};
    char whole[32], parts[32];
    write_text("c.yaml", tiny);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shell("rm -rf run out.txt");
        pid_t child = start("train c.yaml --epochs 100000 --out run --set log.interval=1");
        wait_for("out.txt", "Train Epoch: 3 ");
        kill(child, rows[i].number);
        finish(child);
        expect(rows[i].code, "lockstep: stopped after step ");
        const long long step = last_hash(parts);
        assert_true(step > 20);
        /* The command that it printed works, and ends as if nothing had happened. */
        char *command = strstr(last.err, "to continue: ");
        assert_non_null(command);
        command += strlen("to continue: ");
        command[strcspn(command, "\n")] = '\0';
        assert_non_null(strstr(command, " --resume"));
        assert_int_equal(shell("%s --steps %lld >out.txt 2>err.txt", command, step + 25), 0);
        read_text(last.out, "out.txt");
        assert_int_equal(last_hash(parts), step + 25);
        run("train c.yaml --steps %lld", step + 25);
        last_hash(whole);
        assert_string_equal(whole, parts);
    }
    /* One epoch of 60,000 steps, which is far from done. */
    shell("rm out.txt");
    pid_t child = start(
        "train c.yaml --epochs 1 --batch-size 1 --replicas 1 --set data.samples=60000 "
        "--set model.hidden=[1024] --record run.json");
    wait_for("out.txt", "Train Epoch: 1 ");
    kill(child, SIGINT);
    finish(child);
    expect(130, "nothing is saved without --out DIR");
    json_t *record = read_json_file("run.json");
    assert_true(json_is_false(json_object_get(record, "finished")));
    const long long steps = last_hash(parts);
    assert_true(steps >= 1 && steps < 60000);
    assert_int_equal(json_integer_value(json_object_get(record, "steps")), steps);
    json_decref(record);
}

/* A step of this takes many seconds by plain loops, and much longer under a sanitizer. */
static void a_second_signal_ends_it_at_once(void **state)
{
    (void)state;
    write_text("c.yaml", "data: {name: digits, samples: 4096, test_samples: 10}\n"
                         "model: {name: mnist_cnn}\n"
                         "train: {batch_size: 4096, device: ref, workers: 1}\n");
    pid_t child = start("train c.yaml");
    wait_for("out.txt", "Using 1 worker.");
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    /* Terminals and schedulers repeat theirs. */
    static const int numbers[] = {SIGUSR1, SIGHUP, SIGHUP, SIGUSR1, SIGINT};
    for (int i = 0; i < 5; i++) {
        kill(child, numbers[i]);
        nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    }
    /* The same order once more, as by a scheduler to the job and by a launcher to the process, is no
     * second one. */
    kill(child, SIGINT);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0); /* it finishes its step */
    kill(child, SIGINT);
    finish(child);
    assert_int_equal(last.code, 130);
    assert_null(strstr(last.out, "hash"));
}

/* As nohup and a shell's background jobs do it: what the parent ignores stays ignored. */
static void ignored_signals_stay_ignored(void **state)
{
    (void)state;
    char hash[32];
    write_text("c.yaml", tiny);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    pid_t child = start("train c.yaml --epochs 100000 --set log.interval=1");
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    wait_for("out.txt", "Train Epoch: 2 ");
    for (int i = 0; i < 2; i++) {
        kill(child, SIGHUP);
        kill(child, SIGINT);
        kill(child, SIGUSR1);
    }
    wait_for("out.txt", "Train Epoch: 50 ");
    kill(child, SIGTERM);
    finish(child);
    expect(143, "stopped after step");
    last_hash(hash);
}

/* ulimit -f: a sentence, and what was there before stays. */
static void a_limit_of_file_sizes_is_said(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    const int code = shell("(ulimit -f 40; exec '%s' train c.yaml --quiet --out run) >out.txt "
                           "2>err.txt",
                           program());
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
    last.code = code;
    expect(3, "the file would be larger than is allowed (see ulimit -f)");
    assert_int_equal(shell("test \"$(ls -A run)\" = record.json"), 0);
}

/* Data files are mapped: where one ends early, reading it is a fault of the memory. */
static void a_file_that_shrinks_is_said(void **state)
{
    (void)state;
    char whole[32], parts[32];
    shell("rm -rf d copy out.txt run");
    run("data digits --out d --samples 64 --test-samples 16");
    write_text("c.yaml", "data: {name: mnist, path: d}\n"
                         "model: {name: mlp, hidden: [8]}\n"
                         "train: {batch_size: 10, workers: 2}\n"
                         "checkpoint: {every_steps: 50, every_epochs: 0}\n");
    shell("cp -r d copy");
    pid_t child = start("train c.yaml --epochs 100000 --out run");
    wait_for("out.txt", "Train Epoch: 9 ");
    shell("truncate -s 20 d/train-images-idx3-ubyte");
    finish(child);
    expect(3, "lockstep: a file that is being read became shorter");
    shell("rm -r d && mv copy d");
    run("train c.yaml --steps 2000 --out run --resume");
    const long long step = last_hash(parts);
    run("train c.yaml --steps %lld", step);
    last_hash(whole);
    assert_string_equal(whole, parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(losses_that_are_not_finite_stop_it), TEST(signals_save_and_say_how_to_go_on),
        TEST(a_second_signal_ends_it_at_once),    TEST(ignored_signals_stay_ignored),
        TEST(a_limit_of_file_sizes_is_said),      TEST(a_file_that_shrinks_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
