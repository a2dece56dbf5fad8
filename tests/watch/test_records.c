/* watch: what it says of records and of runs that go on. */
#include "watch/watched.h"

static void a_finished_run_is_shown(void **state)
{
    (void)state;
    records("now");
    run("watch whole.json");
    expect_ok();
    assert_string_equal(last.err, "");
    assert_null(strchr(last.out, '\033'));
    assert_memory_equal(last.out, "whole: finished, epoch 2 of 2, step ", 36);
    assert_null(strstr(last.out, "ETA"));
    expect_out("\nmlp, digits (400), workers 2, batch 50, sgd, momentum 0.9, lr 0.1\n");
    expect_out(" samples/s, ");
    expect_out(" MB of memory, best validation ");
    expect_out("%, best test ");
    expect_out("\nLoss");
    expect_out("\na: training, b: validation, c: test\n\nAccuracy, %\n");
    expect_out("\na: validation, b: test\n");
}

/* Two of ten epochs took 80 seconds: 320 are left, less the age of the record. One from the future has none. */
static void what_is_left_follows_from_what_was(void **state)
{
    (void)state;
    records("1 hour");
    run("watch half.json");
    expect_ok();
    assert_memory_equal(last.out, "half: epoch 2 of 10, step ", 26);
    expect_out("\n[########................................]  20%  ETA 5 min 20 s\nmlp, digits ");
    assert_null(strstr(last.out, "nothing new"));
    records("170 seconds ago"); /* three epochs and a minute are 180 */
    run("watch half.json");
    expect_out("]  20%  ETA 2 min ");
    assert_null(strstr(last.out, "nothing new"));
    records("190 seconds ago");
    run("watch half.json");
    expect_out("]  20%\nnothing new for 3 min 1");
    records("2 hours ago");
    run("watch half.json");
    expect_out("]  20%\nnothing new for 2 h 00 min: has it ended?\n");
    /* Steps that end before the epochs do are the end. */
    shell("sed -i 's/\"steps\": null/\"steps\": 20/' half.json && touch -d '1 hour' half.json");
    run("watch half.json");
    expect_out(" of 20\n[");
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    text_locale();
    write_text("bare.json", "{\"hash\": \"\", \"epochs\": [], \"config\": {}}\n");
    run("watch bare.json");
    expect_ok();
    assert_memory_equal(last.out, "bare: epoch 0\n", 14);
    assert_null(strstr(last.out, "ETA"));
    assert_null(strstr(last.out, "best"));
    assert_null(strstr(last.out, "Loss"));
    write_text("odd.json",
               "{\"hash\": \"\", \"epochs\": [{\"epoch\": 1, \"seconds\": 1e308, "
               "\"train_loss\": null}, {}], \"steps\": -1, \"seconds\": \"x\", "
               "\"peak_rss_bytes\": 1e300, \"config\": {\"train\": {\"epochs\": 1e300}, "
               "\"model\": {\"name\": \"a\\u001b[2Jb\"}}}\n");
    run("watch odd.json");
    expect_ok();
    assert_memory_equal(last.out, "odd: epoch 2\n", 13);
    expect_out("\na?[2Jb\n- samples/s\n");
    run("watch missing.json");
    expect(3, "missing.json cannot be opened: No such file");
    write_text("c.yaml", tiny);
    run("watch c.yaml");
    expect(4, "expected a record, as train --out or --record writes it");
    run("watch");
    expect(2, "watch takes RUN|DIR, found 0 operands");
}

/* The lines of steps: in the first epoch, in the second with a line that is being written, at the end, and of a
 * run that went on from the end of the first epoch. Five steps of fifteen in 30 seconds leave 60, or 48. */
static void lines_of_steps_are_as_good(void **state)
{
    (void)state;
    text_locale();
    write_text("c.yaml", tiny);
    run("train c.yaml --format json --epochs 3 --set data.samples=250");
    expect_ok();
    shell("sed 's/\"seconds\": [^,]*,/\"seconds\": 30.0,/; s/\"samples_per_second\": [^,}]*/"
          "\"samples_per_second\": 10.0/' out.txt >all.log");
    shell(
        "head -n 4 all.log >one.log; head -n 9 all.log >two.log; (cat two.log; printf "
        "'{\"event\": \"st') >part.log; (head -n 14 all.log; sed -n '1p;8,$p' all.log) >twice.log; "
        "touch -d '1 hour' *.log");
    run("watch one.log"); /* 12 steps of 50 samples, 10 a second */
    expect_ok();
    assert_memory_equal(last.out, "one.log: epoch 0 of 3, step 3 of 15\n", 36);
    expect_out("\n[########................................]  20%  ETA 1 min 00 s\nworkers ");
    expect_out(", batch 50\n10 samples/s, loss ");
    static const char *const names[] = {"two", "part"};
    for (int i = 0; i < 2; i++) {
        run("watch %s.log", names[i]);
        expect_ok();
        expect_out(
            ".log: epoch 1 of 3, step 7 of 15\n[##################......................]  47%  "
            "ETA 48.0 s\n");
        expect_out(" samples/s, loss ");
        expect_out("%\n\nLoss\n");
        expect_out("\na: training, b: test\n");
    }
    run("watch all.log");
    expect_ok();
    expect_out("all.log: finished, epoch 3 of 3, step 15 of 15\nworkers ");
    run("watch twice.log");
    expect_ok();
    expect_out("twice.log: finished, epoch 3 of 3, step 15 of 15\nworkers ");
    shell("(head -n 3 all.log; echo '[1]') >bad.log; (head -n 3 all.log; echo '{') >worse.log");
    run("watch bad.log");
    expect(4, "begins no line of train --format json: no object");
    run("watch worse.log");
    expect(4, "begins no line of train --format json: ");
}

/* A line for each record in the folder and those below it; what is no record is none. */
static void a_folder_is_a_table(void **state)
{
    (void)state;
    records("1 hour");
    shell("rm -rf d && mkdir -p d/sub/deep && cp whole.json d/b.json && cp whole.json "
          "d/sub/deep/no.json && "
          "cp -p half.json d/sub/a.json && echo '{}' >d/x.json && cp whole.json d/step-1.json");
    run("watch d/");
    expect_ok();
    assert_memory_equal(last.out, "run ", 4);
    expect_out("\nb ");
    expect_out(" finished\nsub/a ");
    expect_out(" 2 of 10 ");
    expect_out(" 5 min 20 s left\n");
    assert_null(strstr(last.out, "deep"));
    assert_null(strstr(last.out, "x "));
    assert_null(strstr(last.out, "step-1"));
    shell("touch -d '2 hours ago' d/sub/a.json");
    run("watch d");
    expect_out(" silent 2 h 00 min\n");
    shell("mkdir -p none");
    run("watch none");
    expect(0, "");
    expect_out("no record in none yet");
}

/* A record of so many ranks, of which rank r waits r percent of the time; `more` stands in each. */
/* A run with a folder has its record there, which is found by the folder's name, and is nobody else's. */
static void the_folder_of_a_run_is_a_run(void **state)
{
    (void)state;
    shell("rm -rf runs");
    write_text("c.yaml", tiny);
    run("train c.yaml --out runs/one --epochs 2");
    expect_ok();
    run("train c.yaml --out runs/two --epochs 1");
    run("watch runs/one");
    expect_ok();
    assert_memory_equal(last.out, "one: finished, epoch 2 of 2, step ", 34);
    run("watch runs");
    expect_out("\none  2 of 2 ");
    expect_out("\ntwo  1 of 1 ");
    run("report runs/one runs/two");
    expect_ok();
    expect_out("\na one ");
    expect_out("\nb two ");
    run("train c.yaml --out runs/one --epochs 3 --resume");
    run("watch runs/one");
    assert_memory_equal(last.out, "one: finished, epoch 3 of 3, step ", 34);
    run("train c.yaml --out runs/named --record runs/name.json");
    assert_true(there("runs/name.json") && !there("runs/named/record.json"));
    shell(
        "mkdir runs/own; echo '{\"mine\": 1}' >runs/own/record.json; cp runs/own/record.json mine");
    run("train c.yaml --out runs/own");
    expect(2,
           "'runs/own/record.json' is no record of a training, and would be replaced by one; move");
    assert_int_equal(shell("cmp runs/own/record.json mine"), 0);
}

static void ranks_record(int ranks, const char *more)
{
    char text[8192] = "{\"hash\": \"\", \"epochs\": [], \"config\": {}, \"ranks\": [";
    for (int r = 0; r < ranks; r++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "%s{\"host\": \"h%d\", \"samples_per_second\": %d.4, %s\"waited\": %.2f, "
                 "\"peak_rss_bytes\": 12000000}",
                 r > 0 ? ", " : "", r % 2, 1200 + r, more, (50 - r) / 100.0);
    strcat(text, "]}\n");
    write_text("ranks.json", text);
}

/* Of each run the mean of its ranks, where it has some. */
static void a_folder_has_shares(void **state)
{
    (void)state;
    text_locale();
    shell("rm -rf d && mkdir d");
    write_text("d/alone.json", "{\"hash\": \"\", \"epochs\": [], \"config\": {}}\n");
    ranks_record(19, "");
    shell("mv ranks.json d/many.json");
    run("watch d");
    expect_ok();
    assert_string_equal(
        last.out,
        "run    epoch  step  loss  best test %  processes  samples/s  communication  state\n"
        "alone      0     -     -            -          -          -              -  runs\n"
        "many       0     -     -            -          -          -            41%  runs\n");
}

/* Of each rank what the record has; of many those that all others wait for. */
static void ranks_have_rows(void **state)
{
    (void)state;
    text_locale();
    ranks_record(2, "");
    run("watch ranks.json");
    expect_ok();
    expect_out("\n- samples/s, communication 50%, 24 MB of memory\n"
               " rank       samples/s  waiting     memory  host\n"
               "    0           1,200      50%      12 MB  h0\n"
               "    1           1,201      49%      12 MB  h1\n");
    ranks_record(2, "\"tokens_per_second\": 77000, ");
    run("watch ranks.json");
    expect_out(" rank        tokens/s  waiting     memory  host\n"
               "    0          77,000      50%      12 MB  h0\n");
    ranks_record(20, "");
    run("watch ranks.json");
    expect_out("  host\n   19           1,219      31%      12 MB  h1\n   18 ");
    expect_out("\n   12           1,212      38%      12 MB  h0\n"
               "of 20 ranks, those that wait the least for others\n");
    ranks_record(8, ""); /* all that there are rows for */
    run("watch ranks.json");
    expect_out("\n    7           1,207      43%      12 MB  h1\n");
    assert_null(strstr(last.out, "ranks, those"));
    write_text("ranks.json", "{\"hash\": \"\", \"epochs\": [], \"config\": {}, \"ranks\": ["
                             "{\"waited\": 0.2}, {\"waited\": 0.2}, {\"waited\": 0.2}, "
                             "{\"waited\": 0.2}, {\"waited\": 0.2}, {\"waited\": 0.2}, "
                             "{\"waited\": 0.2}, {\"waited\": 0.2}, {\"waited\": 0.2}]}\n");
    run("watch ranks.json"); /* those that wait as long come in their order */
    expect_out("  host\n    0 ");
    expect_out("\n    7 ");
    write_text("odd.json",
               "{\"hash\": \"\", \"epochs\": [], \"config\": {}, \"ranks\": [7, {\"host\": "
               "\"a\\u001b[2J\", \"waited\": 1e300, \"peak_rss_bytes\": -1}]}\n");
    run("watch odd.json");
    expect_ok();
    expect_out("    0               -        -          -  -\n"
               "    1               -        -          -  a?[2J\n");
    assert_null(strstr(last.out, "communication"));
    /* Of lines those that came last, with a step or with an epoch. */
    static const char line[] =
        "{\"event\": \"%s\", \"step\": 3, \"epoch\": 1, \"samples_per_second\": 9.0, "
        "\"loss\": 1.0, \"ranks\": [{\"waited\": 0.%d}, {\"waited\": 0.%d}]}\n";
    char text[1024];
    snprintf(text, sizeof text, line, "step", 25, 75);
    write_text("lines.log", text);
    run("watch lines.log");
    expect_ok();
    expect_out(", communication 50%\n rank ");
    snprintf(text + strlen(text), sizeof text - strlen(text), line, "epoch", 10, 20);
    write_text("lines.log", text);
    run("watch lines.log");
    expect_out(", communication 15%\n rank ");
}

/* Two epochs of 40 seconds, and half of a third in 25: what is left goes by those that have ended. */
static void an_epoch_that_goes_on_tells_no_time(void **state)
{
    (void)state;
    text_locale();
    write_text(
        "now.json",
        "{\"hash\": \"\", \"epochs\": [{\"seconds\": 40}, {\"seconds\": 40}], "
        "\"steps\": 250, \"seconds\": 105, \"epoch_step\": 200, \"last_step\": {\"step\": 250, "
        "\"batches\": 100, \"seconds\": 25, \"samples_per_second\": 9, \"loss\": 1}, "
        "\"config\": {\"train\": {\"epochs\": 10}}}\n");
    shell("touch -d '1 hour' now.json");
    run("watch now.json");
    expect_ok();
    expect_out("now: epoch 2 of 10, step 250 of 1000\n");
    expect_out(" 25%  ETA 5 min 00 s\n");
    expect_out("\n9 samples/s, loss 1.0000");
}

/* The record of an epoch that goes on, behind ten seconds of a clock that passes ten times as fast: its hash is that of its
 * steps. */
static void a_long_epoch_is_followed(void **state)
{
    (void)state;
    char expected[128];
    text_locale();
    write_text("c.yaml", "data: {name: digits, test_samples: 10}\n"
                         "model: {name: mnist_cnn}\n"
                         "train: {epochs: 2, batch_size: 64, replicas: 2, workers: 1}\n");
    hurry();
    shell("{ '%s' train c.yaml --quiet --record r.json & pid=$!; for i in $(seq 600); do "
          "cp r.json now.json 2>err.txt && break; sleep 0.1; done; kill $pid; wait $pid; }",
          program());
    take_time();
    json_t *json = read_json_file("r.json");
    assert_null(json_object_get(json, "last_step")); /* it has been told to stop */
    json_decref(json);
    json = read_json_file("now.json");
    const json_t *step = json_object_get(json, "last_step");
    const int steps = (int)json_number_of(json, "steps");
    assert_true(steps > 0 && steps < 938);
    assert_int_equal(json_number_of(step, "step"), steps);
    assert_int_equal(json_number_of(step, "epoch"), 1);
    assert_int_equal(json_number_of(json, "epoch_step"), 0);
    assert_int_equal(json_array_size(json_object_get(json, "epochs")), 0);
    run("watch now.json");
    expect_ok();
    snprintf(expected, sizeof expected, "now: epoch 0 of 2, step %d of 1876\n[", steps);
    assert_memory_equal(last.out, expected, strlen(expected));
    expect_out("%  ETA ");
    expect_out(" samples/s, loss ");
    run("train c.yaml --quiet --steps %d", steps);
    snprintf(expected, sizeof expected, "hash %s step %d\n",
             json_string_value(json_object_get(json, "hash")), steps);
    assert_string_equal(last.out, expected);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_finished_run_is_shown),       TEST(what_is_left_follows_from_what_was),
        TEST(what_is_not_known_is_left_out), TEST(lines_of_steps_are_as_good),
        TEST(a_folder_is_a_table),           TEST(the_folder_of_a_run_is_a_run),
        TEST(a_folder_has_shares),           TEST(ranks_have_rows),
        TEST(a_long_epoch_is_followed),      TEST(an_epoch_that_goes_on_tells_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
