/* lockstep sweep: all points of a grid, each as train would have it; going on behind a stop, refusals, failures. */
#include "cli/program.h"

#include <signal.h>
#include <time.h>

static char hash[32], other[32];

static void hash_of(char out[32], const char *record)
{
    json_t *json = read_json_file(record);
    snprintf(out, 32, "%s", json_string_value(json_object_get(json, "hash")));
    assert_true(json_is_true(json_object_get(json, "finished")));
    json_decref(json);
}

static void every_point_is_trained_as_train_does(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("sweep c.yaml --grid optimizer.lr=0.1,0.01 --grid model.hidden='[8],[16,8]' --epochs 1 "
        "--out s "
        "--svg s.svg --html s.html");
    expect_ok();
    expect_out("4 trainings in s, ");
    expect_out("lr=0.1,hidden=8: finished, ");
    /* The report follows the grid, whatever ended first. */
    const char *before = strstr(last.out, "\n  run");
    static const char *const rows[] = {"a lr=0.1,hidden=8 ", "b lr=0.1,hidden=16,8 ",
                                       "c lr=0.01,hidden=8 ", "d lr=0.01,hidden=16,8 "};
    for (int i = 0; i < 4; i++) {
        assert_non_null(before);
        before = strstr(before, rows[i]);
    }
    assert_non_null(before);
    expect_out("\nBest: lr=0.1,hidden=");
    expect_out("(best test accuracy, %: ");
    assert_true(there("s.svg") && there("s.html") && there("s/lr=0.1,hidden=8/log.txt"));
    hash_of(other, "s/lr=0.01,hidden=16,8/run.json");
    run("train c.yaml --epochs 1 --lr 0.01 --set model.hidden='[16,8]'");
    expect_ok();
    last_hash(hash);
    assert_string_equal(hash, other);
    /* Nothing is left to do. */
    run("sweep c.yaml --grid optimizer.lr=0.1,0.01 --grid model.hidden='[8],[16,8]' --epochs 1 "
        "--out s");
    expect(0, "4 of 4 trainings in s have finished already");
    assert_null(strstr(last.out, ": finished"));
    expect_out("\nBest: lr=0.1,hidden=");
    /* A value more is one training more. */
    run("sweep c.yaml --grid optimizer.lr=0.1,0.01,0.2 --grid model.hidden='[8]' --epochs 1 --out "
        "s");
    expect(0, "2 of 3 trainings in s have finished already");
    expect_out("1 training in s, 1 at once\nlr=0.2,hidden=8: finished");
    json_t *json = read_json_file("s/lr=0.2,hidden=8/run.json"); /* which has all cores */
    assert_int_equal(json_number_of(json, "workers"), lks_cores() < 4 ? lks_cores() : 4);
    json_decref(json);
    /* Another configuration is none of it. */
    run("sweep c.yaml --grid optimizer.lr=0.1,0.01 --grid model.hidden='[8]' --epochs 2 --out s");
    expect(5, "s/lr=0.1,hidden=8 has a run with another configuration: train.epochs was 1, is 2");
}

/* Values that give one name, cores that are shared, and a file of several configurations. */
static void runs_have_names_and_cores_of_their_own(void **state)
{
    (void)state;
    char text[100];
    write_text("c.yaml",
               "x-net: &net {name: mlp}\n"
               "x-train: &train {batch_size: 64, replicas: 64}\n"
               "configs:\n"
               "  one: {data: {name: digits, samples: 500}, model: *net, train: *train}\n"
               "  two: {data: {name: digits, samples: 320}, model: *net, train: *train}\n");
    run("sweep c.yaml --config two --grid model.hidden='[8],[ 8]' --out s");
    expect_ok();
    expect_out("hidden=8: finished");
    expect_out("hidden=8,2: finished");
    json_t *json = read_json_file("s/hidden=8,2/run.json");
    const double samples = json_number_of(json_array_get(json_object_get(json, "epochs"), 0),
                                          "train_samples");
    assert_int_equal(samples, 320);
    const int cores = lks_cores(), jobs = cores > 1 ? 2 : 1;
    assert_int_equal(json_number_of(json, "workers"), cores / jobs > 64 ? 64 : cores / jobs);
    json_decref(json);
    snprintf(text, sizeof text, "2 trainings in s, %d at once\n", jobs);
    expect_out(text);
}

static void validation_judges_before_the_test(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("sweep c.yaml --grid optimizer.lr=1e-5,0.1 --epochs 1 --set validation.samples=100");
    expect_ok();
    expect_out("\nBest: lr=0.1 (best accuracy on held back samples, %: ");
    /* Numbers have no accuracy. */
    char csv[2048] = "a,y\n";
    for (int i = 0; i < 100; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d\n", i % 10, i % 10 + 1);
    write_text("t.csv", csv);
    write_text("t.yaml", "data: {table: t.csv, test_fraction: 0.2}\nmodel: {name: "
                         "mlp}\nvalidation: {fraction: 0.2}\n"
                         "loss: {name: huber}\n");
    run("sweep t.yaml --grid optimizer.lr=1e-5,0.1 --epochs 1 --out numbers");
    expect_ok();
    expect_out(" (loss on held back samples: ");
    assert_null(strstr(last.out, "accuracy"));
    assert_null(strstr(last.out, "top 5"));
    assert_true(there("c-sweep/lr=0.1/run.json"));
    /* Of a text the likeliest token alone says little: with the larger rate more are guessed, and it is much less sure. */
    char text[3000] = "";
    for (int i = 0; i < 150; i++) sprintf(text + strlen(text), "%s", i % 5 > 2 ? "ab" : "aac");
    write_text("x.txt", text);
    write_text("x.yaml", "data: {text: x.txt, context: 8, cache: none}\nmodel: {layers: "
                         "[{embedding: 3}]}\noptimizer: {name: sgd}\n");
    run("sweep x.yaml --grid optimizer.lr=0.01,1000 --epochs 2 --set validation.fraction=0.2 "
        "--out texts");
    expect_ok();
    expect_out("\nBest: lr=0.01 (perplexity of held back samples: ");
    run("report texts/lr=0.01 texts/lr=1000");
    expect_ok();
    expect_out("\na lr=0.01 ");
    run("sweep c.yaml --grid train.hash_every=100,50 --epochs 1 --out same"); /* nobody is better */
    expect_ok();
    expect_out("\nBest: hash_every=100 (");
}

static void a_stopped_sweep_goes_on(void **state)
{
    (void)state;
    char line[200];
    write_text("c.yaml", tiny);
    snprintf(line, sizeof line, "sweep c.yaml --grid train.seed=1,2 --epochs 60 --jobs 1 --out s");
    const int code = shell("{ '%s' %s >out.txt 2>err.txt & child=$!; "
                           "while ! [ -s s/seed=1/run.json ]; do sleep 0.05; done; "
                           "kill -TERM $child; wait $child; }",
                           program(), line);
    assert_int_equal(code, 128 + SIGTERM);
    read_text(last.err, "err.txt");
    last.code = code;
    expect(code, "stopped, 0 of 2 trainings have finished; to continue: ");
    assert_false(there("s/seed=2"));
    json_t *json = read_json_file("s/seed=1/run.json");
    assert_false(json_is_true(json_object_get(json, "finished")));
    assert_true(json_number_of(json, "steps") > 0);
    json_decref(json);
    /* The same command takes the run up where it was, and does the other. */
    run("%s", line);
    expect_ok();
    expect_out("2 trainings in s, 1 at once\nseed=1: finished, ");
    read_text(last.err, "s/seed=1/log.txt");
    assert_non_null(strstr(last.err, "lockstep: continuing from step "));
    hash_of(other, "s/seed=1/run.json");
    run("train c.yaml --seed 1 --epochs 60");
    last_hash(hash);
    assert_string_equal(hash, other);
}

static void runs_that_fail_or_diverge_leave_the_others(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --epochs 1 --set model.hidden='[8]' --out s/lr=0.2");
    expect_ok();
    run("sweep c.yaml --grid optimizer.lr=1e30,0.2,0.1 --epochs 1 --jobs 1 --out s");
    expect(5, "1 of 3 trainings failed (s/lr=0.2/log.txt has what the first said)");
    expect_out("\nlr=1e30: diverged, ");
    expect_out("\nlr=0.2: failed: the checkpoint of step 10 in s/lr=0.2 is of another run: "
               "model.hidden was ");
    expect_out("\nlr=0.1: finished, ");
    expect_out("\nBest: lr=0.1 (");
    hash_of(hash, "s/lr=0.1/run.json");
    assert_int_equal(shell("rm -r s/lr=0.2"), 0);
    run("sweep c.yaml --grid optimizer.lr=0.2,0.1 --epochs 1 --jobs 1 --out s");
    expect(0, "1 of 2 trainings in s have finished already");
}

static void mistakes_are_said_before_anything_runs(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    static const struct {
        const char *words, *sentence;
    } cases[] = {
        {"", "there is no grid; give one, such as --grid optimizer.lr=0.1,0.01"},
        {"--grid optimizer.lr", "--grid is 'optimizer.lr', expected KEY=VALUE,VALUE"},
        {"--grid =1", "--grid is '=1', expected KEY=VALUE,VALUE"},
        {"--grid optimizer.lr=", "--grid is 'optimizer.lr=', expected KEY=VALUE,VALUE"},
        {"--grid optimizer.lr=1,,2", "has an empty value; drop a comma"},
        {"--grid optimizer.lr=1,2,", "has an empty value; drop a comma"},
        {"--grid optimizer.lr=1,2,1", "has the value 1 twice"},
        {"--grid optimizer.lr=1 --grid optimizer.lr=2", "--grid has optimizer.lr twice"},
        {"--grid checkpoint.path=a,b", "--grid has checkpoint.path, which the sweep sets"},
        {"--grid log.record=a,b", "--grid has log.record, which the sweep sets"},
        {"--grid optimizer.rate=1,2", "optimizer.rate"},
        {"--grid train.seed='\"1,2\",3'", "train.seed is the text \"1,2\""},
        {"--grid optimizer.lr=0.1,fast", "optimizer.lr is 'fast'"},
        {"--grid train.seed=1,2 --jobs 0", "--jobs is '0', expected a number from 1 to 1024"},
        {"--grid train.seed=1,2 --jobs 1.5", "--jobs is '1.5', expected a number from 1 to 1024"},
        {"--grid train.seed=1,2,3,4,5,6,7,8 --grid model.dropout=0,.1,.2,.3,.4,.5,.6",
         "the grid has 56 trainings or more, expected at most 50"},
        {"--grid train.seed=1,2,3,4,5,6,7,8,9,10 --grid optimizer.lr=.1,.2,.3,.4,fast", /* 50 */
         "optimizer.lr is 'fast'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run("sweep c.yaml --out s %s", cases[i].words);
        expect(2, cases[i].sentence);
        assert_false(there("s"));
    }
}

/* A log that takes nothing: the sentence of the training is lost, but not that it failed, nor why. */
static void a_log_that_is_full_is_told(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    write_text("c.yaml", tiny);
    assert_int_equal(shell("mkdir -p s/lr=0.2 && ln -s /dev/full s/lr=0.2/log.txt"), 0);
    run("sweep c.yaml --grid optimizer.lr=0.1,0.2 --out s");
    expect(3, "1 of 2 trainings failed; the same command tries them again\n");
    expect_out("\nlr=0.2: failed: s/lr=0.2/log.txt cannot be written: No space left on device\n");
    expect_out("\nlr=0.1: finished");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_point_is_trained_as_train_does),
        TEST(runs_have_names_and_cores_of_their_own),
        TEST(validation_judges_before_the_test),
        TEST(a_stopped_sweep_goes_on),
        TEST(runs_that_fail_or_diverge_leave_the_others),
        TEST(mistakes_are_said_before_anything_runs),
        TEST(a_log_that_is_full_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
