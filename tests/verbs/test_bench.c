/* lockstep bench and lockstep op. */
#include "cli/program.h"

#include <math.h>

#include <jansson.h>

#include <lockstep/context.h>

#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "support/ops.h"

static const char *text(const json_t *json, const char *key)
{
    const char *value = json_string_value(json_object_get(json, key));
    if (value == NULL) fail_msg("no text %s", key);
    return value != NULL ? value : "";
}

static void steps_are_timed(void **state)
{
    (void)state;
    hurry();
    write_text("c.yaml", tiny);
    run("bench c.yaml --steps 12");
    expect_ok();
    expect_out("c.yaml\nnetwork  12,730 parameters, batch 50, 4 replicas on ");
    expect_out("steps    12 after 10 to warm up, ");
    expect_out("\nstep     ");
    expect_out(" samples/s\npeak     ");
    assert_null(strstr(last.out, "loader wait"));
    run("bench c.yaml --steps 12 --format json --record b.json");
    expect_ok();
    json_t *json = read_json_text(last.out);
    assert_int_equal(json_number_of(json, "steps"), 12);
    assert_true(json_number_of(json, "least") <= json_number_of(json, "quartile1"));
    assert_true(json_number_of(json, "quartile1") <= json_number_of(json, "median"));
    assert_true(json_number_of(json, "median") <= json_number_of(json, "quartile3"));
    assert_true(json_number_of(json, "quartile3") <= json_number_of(json, "most"));
    assert_true(json_number_of(json, "seconds") >= 12 * json_number_of(json, "least"));
    const double samples = json_number_of(json, "samples_per_second") *
                           json_number_of(json, "seconds");
    assert_true(samples > 12 * 50 - 1e-6 && samples < 12 * 50 + 1e-6); /* none of the warm-up's */
    assert_true(json_number_of(json, "peak_flops_before") > 0 &&
                json_number_of(json, "peak_flops_after") > 0);
    assert_null(json_object_get(json, "profile"));
    const int workers = (int)json_number_of(json, "workers"),
              at_once = (int)json_number_of(json, "peak_workers");
    assert_int_equal(at_once, workers < lks_cores() ? workers : lks_cores());
    static char record[OUTPUT_SIZE];
    read_text(record, "b.json");
    json_t *kept = read_json_text(record);
    assert_true(json_equal(kept, json));
    json_decref(kept);
    json_decref(json);
    run("bench c.yaml --steps 0");
    expect(2, "--steps: train.steps is '0', expected an integer of at least 1");
    run("bench c.yaml --seconds none");
    expect(2, "--seconds is 'none', expected a number above 0");
    run("bench c.yaml --set data.drop_last=true --batch-size 1000");
    expect(2, "drop_last leaves no batch");
    run("bench none.yaml");
    expect(3, "none.yaml");
}

/* The share of the steps that no row explains. Rows are times inside of the steps, so only the
 * rounding of doubles (2^-52 of each of fewer than 200) can make it negative. */
static double rest_of_a_profile(int workers)
{
    run("bench c.yaml --steps 30 --profile --format json --workers %d", workers);
    expect_ok();
    json_t *json = read_json_text(last.out), *row;
    const double seconds = json_number_of(json, "seconds");
    double sum = 0, rest = -1;
    unsigned found = 0;
    size_t i;
    json_array_foreach(json_object_get(json, "profile"), i, row)
    {
        static const char *const passes[] = {"forward", "backward", "tree", "loader wait", "rest"};
        const char *pass = text(row, "pass");
        sum += json_number_of(row, "seconds");
        if (strcmp(pass, "rest") == 0) rest = json_number_of(row, "seconds");
        for (unsigned k = 0; k < 5; k++) found |= (strcmp(pass, passes[k]) == 0 ? 1u : 0u) << k;
    }
    json_decref(json);
    assert_int_equal(found, 31);
    assert_true(fabs(sum - seconds) <= 200 * 0x1p-52 * seconds);
    assert_true(rest >= -200 * 0x1p-52 * seconds);
    return rest / seconds;
}

/* At least 95% are explained. Nothing but a few instructions is left out, so only a program that is
 * stopped just there has more left; it is not stopped there again and again. */
static void rows_explain_the_steps(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    for (int workers = 1; workers <= 3; workers++) {
        int tries = 0;
        while (rest_of_a_profile(workers) > 0.05) assert_true(++tries < 10);
    }
}

static void profiles_are_printed(void **state)
{
    (void)state;
    char hash[2][32];
    hurry();
    write_text("c.yaml", tiny);
    run("bench c.yaml --steps 8 --profile");
    expect_ok();
    expect_out("\nflatten in=13x28x28x1\n  forward ");
    expect_out("\ndense units=16 in=13x784\n  forward ");
    expect_out("\neverything else\n  start ");
    expect_out("\n  loader wait ");
    expect_out("\n  rest ");
    expect_out("its share of the peak can exceed 100%.\n");
    int width = 0, widest = 0;
    for (const char *c = last.out; *c != '\0'; c++) {
        width = *c == '\n' ? 0 : width + 1;
        widest = width > widest ? width : widest;
    }
    assert_in_range(widest, 60, 80);
    for (int k = 0; k < 2; k++) {
        run("bench c.yaml --steps 8 --format json%s", k == 0 ? "" : " --profile");
        json_t *json = read_json_text(last.out);
        snprintf(hash[k], sizeof hash[k], "%s", text(json, "hash"));
        json_decref(json);
    }
    assert_string_equal(hash[0], hash[1]);
}

/* The layers that a profile names are lines that op takes, and prints again. */
static void the_lines_of_a_profile_can_be_pasted(void **state)
{
    (void)state;
    hurry();
    write_text("c.yaml", "data: {name: digits, samples: 64, test_samples: 8}\n"
                         "train: {batch_size: 8, replicas: 4}\n"
                         "model:\n  layers:\n"
                         "    - conv2d: {filters: 4, kernel: 5, stride: 3, bias: false, name: a}\n"
                         "    - batch_norm\n    - relu\n"
                         "    - conv2d: {filters: 4, kernel: [3, 1], padding: [1, 0],\n"
                         "               weight_init: uniform, weight_scale: 0.1}\n"
                         "    - add: {with: a}\n    - max_pool: 2\n    - flatten\n"
                         "    - dense: {units: 10, bias_init: zeros}\n");
    run("bench c.yaml --steps 2 --profile --format json");
    expect_ok();
    json_t *json = read_json_text(last.out), *row, *layer;
    size_t i, k;
    int lines = 0;
    json_array_foreach(json_object_get(json, "profile"), i, row)
    {
        json_array_foreach(json_object_get(row, "layers"), k, layer)
        {
            const char *line = json_string_value(layer);
            if (strcmp(text(row, "pass"), "forward") != 0) continue;
            run("op '%s' --seconds 0.0001", line);
            expect_ok();
            if (strncmp(last.out, line, strlen(line)) != 0)
                fail_msg("%s became\n%s", line, last.out);
            lines++;
        }
    }
    assert_int_equal(lines, 10); /* normalize, eight layers, the loss */
    json_decref(json);
}

static void print_random_line(lki_op_id op, lkt_random *random, char line[LKS_LINE_SIZE])
{
    lks_context *context;
    lks_graph *graph;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lkt_random_input(graph, op, random);
    lks_tensor *y = lkt_random_op(graph, op, x, false, random);
    LKT_OK(lks_graph_status(graph));
    lks_tensor_line(y, 3, line, LKS_LINE_SIZE);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

/* Every operation of the list, with random attributes, as a line. */
static void every_operation_is_a_line(void **state)
{
    lkt_random random = lkt_random_make("every_operation_is_a_line", 41);
    (void)state;
    for (lki_op_id op = 0; op < LKI_OP_COUNT; op++) {
        char line[LKS_LINE_SIZE], expected[LKS_LINE_SIZE + 10];
        if (op == LKI_OP_INPUT || op == LKI_OP_TARGET) continue;
        print_random_line(op, &random, line);
        run("op '%s' --seconds 0.0001", line);
        expect_ok();
        snprintf(expected, sizeof expected, "%s\ndevice ", line);
        if (strncmp(last.out, expected, strlen(expected)) != 0)
            fail_msg("%s became\n%s", line, last.out);
        expect_out("\noutput ");
        expect_out("\nforward ");
        expect_out("\ngood: every element is within its bound\n");
    }
}

static void an_operation_is_checked(void **state)
{
    (void)state;
    run("op conv2d filters=4 kernel=3 in=2x9x9x3 --seconds 0.001"); /* without quotes */
    expect_ok();
    expect_out("conv2d filters=4 kernel=3x3 in=2x9x9x3\n");
    expect_out("\ngradient of weight ");
    run("op 'dense\n   units=3\n  in=2x5' --device ref --seconds 0.001"); /* wrapped */
    expect_ok();
    expect_out("dense units=3 in=2x5\ndevice ref, ");
    run("op 'attention heads=2 causal masked in=3x5x24 with=5:7' --seconds 0.001");
    expect_ok();
    expect_out("attention heads=2 causal masked in=3x5x24 with=5:7\n");
    expect_out("\ngood: every element is within its bound\n");
    run("op 'lstm hidden=4 masked in=3x5x4 with=5:3' --seconds 0.001");
    expect_ok();
    expect_out("lstm hidden=4 masked in=3x5x4 with=5:3\n");
    run("op 'batch_norm in=6x3' --format json --seconds 0.001 --seed 5");
    expect_ok();
    json_t *json = read_json_text(last.out);
    assert_true(json_is_true(json_object_get(json, "good")));
    assert_int_equal(json_array_size(json_object_get(json, "errors")), 5);
    assert_int_equal(json_array_size(json_object_get(json, "passes")), 2);
    json_decref(json);
}

static void mistakes_are_explained(void **state)
{
    static const char *const mistakes[][2] = {
        {"op", "op takes LINE, found 0 operands"},
        {"op ''", "an operand of op is empty, expected LINE"},
        {"op relu", "op: relu has no in; give the number of samples and the shape of one"},
        {"op rleu in=3x3", "op: unknown layer 'rleu'; the nearest is 'relu'"},
        {"op relu in=3", "op: in is '3', expected the number of samples and the shape of one"},
        {"op relu in=3x0", "op: in is '3x0', expected"},
        {"op relu in=-3x2", "op: in is '-3x2', expected"},
        {"op relu in=3x2x", "op: in is '3x2x', expected"},
        {"op relu in=1x1x1x1x1x1x1", "op: in is '1x1x1x1x1x1x1', expected"},
        {"op relu in=9999999999x2", "op: in is '9999999999x2', expected"},
        {"op relu in=3x2:u8", "input 'input_1' is U8, expected F32"},
        {"op relu in=2147483647x2147483647", "2147483647 samples were asked for"},
        {"op dense units=3 units=4 in=2x5", "op: units is given twice"},
        {"op dense in=2x5", "op: dense needs units"},
        {"op dense units=x in=2x5", "op: dense units is"},
        {"op dense units=3 knob=1 in=2x5", "op: dense has no option 'knob'"},
        {"op dense units=3 in=2x5x5x1", "input has 3 dimensions, expected 1"},
        {"op conv2d filters=3 kernel=9 in=2x5x5x1", "the kernel covers a height of 9"},
        {"op conv2d filters=3 kernel=3x3x3 in=2x5x5x1", "kernel is a list of 3"},
        {"op conv2d filters=3 kernel= in=2x5x5x1", "op: conv2d needs kernel"},
        {"op relu with=3 in=2x3", "op: relu has one input, but with gives a second"},
        {"op relu with=3:5 in=2x3", "op: relu has one input, but with gives a second"},
        {"op add with=3:5 in=2x3", "op: add takes numbers, but with gives tokens"},
        {"op attention heads=1 with=3 in=2x3x3", "op: attention has one input, but with gives"},
        {"op attention heads=1 masked with=4:5 in=2x3x3", "tokens of with have to be one for each"},
        {"op attention heads=1 with=3:5 in=2x3x3", "tokens are given, but masked is false"},
        {"op gru hidden=2 layers=2 masked with=3:5 in=2x3x3", "a node is one of them"},
        {"op attention heads=1 masked in=2x3x3", "there are no tokens to find the padding in"},
        {"op add with=3: in=2x3", "op: with is '3:', expected the shape"},
        {"op add with=x in=2x3", "op: with is 'x', expected the shape"},
        {"op concat with=3x3 in=2x3", "the second input may be a vector"},
        {"op relu in=2x3 --device abacus", "device 'abacus' is not in this build"},
        {"op relu in=2x3 --seconds 0", "--seconds is '0', expected a number above 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        run("%s", mistakes[i][0]);
        expect(2, mistakes[i][1]);
    }
}

/* Workers that share a core do not have it each: what one core can do bounds what is reported. */
static void the_peak_is_that_of_the_cores(void **state)
{
    (void)state;
    const int cores = lks_cores(), many = 8 * cores;
    char line[100];
    hurry();
    write_text("c.yaml", tiny);
    run("bench c.yaml --steps 10 --replicas %d --workers %d", many, many);
    expect_ok();
    snprintf(line, sizeof line, "GFLOP/s of %d worker%s, one for each core, before, ", cores,
             cores == 1 ? "" : "s");
    expect_out(line);
    run("bench c.yaml --steps 10 --workers 1");
    expect_out("GFLOP/s of all workers before, ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_are_timed),           TEST(rows_explain_the_steps),
        TEST(profiles_are_printed),      TEST(the_lines_of_a_profile_can_be_pasted),
        TEST(every_operation_is_a_line), TEST(an_operation_is_checked),
        TEST(mistakes_are_explained),    TEST(the_peak_is_that_of_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
