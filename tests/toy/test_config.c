/* Files of the toy network (network_config.txt, network_config.json): what they mean, what is refused, and the run. */
#include "cli/program.h"

#include <time.h>

static const char seed[] = "# the toy network\n"
                           "NUM_ITERATIONS=40\n"
                           "WARMUP_ITERATIONS=4000\n"
                           "BATCH_SIZE=1\r\n"
                           "NUM_CLASSES=3 # and one-hot targets\n"
                           "IN_CHANNELS = 1\n"
                           "INPUT_HEIGHT=3\n"
                           "INPUT_WIDTH=3\n"
                           "\n"
                           "CONV=16,3,1,1\n"
                           "CONV=32,3,1,1\n"
                           "CONV=64,3,1,1\n"
                           "FC=512\n"
                           "FC=128\n"
                           "FC=-1";

static const char twin[] =
    "{\"benchmark\": {\"num_iterations\": 40, \"warmup_iterations\": 4000},\n"
    " \"network\": {\"batch_size\": 1, \"num_classes\": 3, \"in_channels\": 1,\n"
    "  \"input_height\": 3, \"input_width\": 3},\n"
    " \"conv_layers\": [\n"
    "  {\"out_channels\": 16, \"kernel_size\": 3, \"stride\": 1, \"padding\": 1},\n"
    "  {\"out_channels\": 32, \"kernel_size\": 3, \"stride\": 1, \"padding\": 1},\n"
    "  {\"out_channels\": 64, \"kernel_size\": 3, \"padding\": 1}],\n"
    " \"fc_layers\": [{\"out_features\": 512}, {\"out_features\": 128}, {\"out_features\": 3}]}\n";

static void both_files_are_the_seeds_network(void **state)
{
    char hash[2][32];
    (void)state;
    write_text("network_config.txt", seed);
    write_text("network_config.json", twin);
    for (int i = 0; i < 2; i++) {
        const char *file = i == 0 ? "network_config.txt" : "network_config.json";
        run("info %s", file);
        expect_ok();
        assert_non_null(strstr(last.out, "384,016 parameters to train"));
        run("train %s", file);
        expect_ok();
        last_hash(hash[i]);
        assert_non_null(strstr(last.out, "Iteration 0, Loss: "));
        assert_non_null(strstr(last.out, "Iteration 30, Loss: 0.0"));
    }
    assert_string_equal(hash[0], hash[1]);
}

/* Of the original's figures: with biases 384,771. */
/* Its samples are images whose targets are numbers, more than fit where a class would. */
static void its_samples_can_be_seen(void **state)
{
    (void)state;
    write_text("network_config.txt", seed);
    run("data show network_config.txt --count 2");
    expect_ok();
    expect_out("network_config.txt: 2 of 40 training samples\n");
    run("data show network_config.txt --out seen.png");
    expect_ok();
    run("data stats network_config.txt");
    expect_ok();
    expect_out("floats from 0 to 1");
    run("data show network_config.txt --class 0");
    expect(2, "--class: targets of network_config.txt are numbers, no classes; drop it");
}

static void the_other_variant(void **state)
{
    char text[2048];
    (void)state;
    snprintf(text, sizeof text, "%s\nBIAS=1\nFC_RELU=1\n", seed);
    write_text("n.txt", text);
    run("info n.txt");
    expect_ok();
    assert_non_null(strstr(last.out, "384,771 parameters to train"));
    assert_non_null(strstr(last.out, "relu_5"));
    assert_null(strstr(last.out, "relu_6")); /* none behind the last */
    snprintf(text, sizeof text, "%s", twin);
    char *at = strstr(text, "\"in_channels\"");
    memmove(at + 30, at, strlen(at) + 1);
    memcpy(at, "\"bias\": true, \"fc_relu\": true,", 30);
    write_text("n.json", text);
    run("info n.json");
    expect_ok();
    assert_non_null(strstr(last.out, "384,771 parameters to train"));
}

/* The same by options, for both kinds of file, whatever they say; and what has no such variant says so. */
static void options_have_the_other_variant(void **state)
{
    static const char *const files[] = {"n.txt", "n.json"};
    (void)state;
    write_text("n.txt", seed);
    write_text("n.json", twin);
    for (int i = 0; i < 2; i++) {
        run("info %s --bias", files[i]);
        expect_ok();
        assert_non_null(strstr(last.out, "384,771 parameters to train"));
        assert_null(strstr(last.out, "relu_5"));
        run("info %s --fc-relu", files[i]);
        expect_ok();
        assert_non_null(strstr(last.out, "384,016 parameters to train"));
        assert_non_null(strstr(last.out, "relu_5"));
        assert_null(strstr(last.out, "relu_6"));
        run("info '%s#bias,fc_relu'", files[i]);
        expect_ok();
        assert_non_null(strstr(last.out, "384,771 parameters to train"));
        assert_non_null(strstr(last.out, "relu_5"));
        run("info %s --bias --fc-relu", files[i]);
        expect_ok();
        assert_non_null(strstr(last.out, "384,771 parameters to train"));
        run("info %s --config bia", files[i]);
        assert_int_equal(last.code, 2);
        assert_non_null(strstr(last.err, "has no variant 'bia', expected bias or fc_relu"));
    }
    run("train n.txt --bias --steps 2 --print-config");
    expect_ok();
    assert_null(strstr(last.out, "bias: false"));
    write_text("digits.yaml", "data: {samples: 64}\nmodel: {name: mlp}\n");
    run("bench digits.yaml --bias");
    assert_int_equal(last.code, 2);
    assert_non_null(strstr(last.err, "bias"));
}

static void the_plot_and_its_file(void **state)
{
    static char text[OUTPUT_SIZE];
    double first = 0, least = 0;
    int number = 0;
    (void)state;
    write_text("network_config.txt", seed);
    run("train network_config.txt");
    expect_ok();
    const char *plot = strstr(last.out, "\nCost Function Over Epochs\n");
    assert_non_null(plot);
    assert_int_equal(sscanf(plot, "\nCost Function Over Epochs\n%lf \u2510\n", &first), 1);
    const char *end = strstr(plot, "\u2534\u2500");
    assert_non_null(end);
    assert_int_equal(sscanf(end - 9, "%lf", &least), 1);
    assert_true(first > least);
    assert_non_null(strstr(end, "\u2500 4 epochs\n"));
    assert_non_null(strstr(end, "0           1           2           3           4"));
    int rows = 0;
    for (const char *line = plot + 27; line < end; line = strchr(line, '\n') + 1)
        rows += strncmp(line, "         |", 10) == 0 || strncmp(line, "         -", 10) == 0;
    assert_int_equal(rows, 20);
    assert_non_null(strstr(plot, "Cost history saved to 'cost_history.csv'\n"));
    read_text(text, "cost_history.csv");
    assert_int_equal(sscanf(text, "epoch,cost\n%d,%lf\n1,", &number, &least), 2);
    assert_int_equal(number, 0);
    assert_true(least > first - 1e-4 && least < first + 1e-4);
}

/* Lines and the object with equal names; of other configurations where it is asked for. */
static void passes_are_timed(void **state)
{
    double ms[4];
    (void)state;
    write_text("network_config.txt", seed);
    run("bench network_config.txt --seconds 0.05");
    expect_ok();
    assert_int_equal(sscanf(last.out,
                            "Average forward pass time: %lf ms\n"
                            "Average backward input pass time: %lf ms\n"
                            "Average backward params pass time: %lf ms\n"
                            "Total time: %lf ms\n",
                            &ms[0], &ms[1], &ms[2], &ms[3]),
                     4);
    for (int i = 0; i < 3; i++) assert_true(ms[i] > 0);
    assert_true(ms[0] + ms[1] + ms[2] < ms[3] + 1e-5 && ms[0] + ms[1] + ms[2] > ms[3] - 1e-5);
    run("bench network_config.txt --seconds 0.05 --format json");
    expect_ok();
    json_t *json = json_loads(last.out, 0, NULL);
    assert_non_null(json);
    static const char *const keys[] = {"forward_ms", "backward_input_ms", "backward_params_ms",
                                       "total_ms"};
    for (int i = 0; i < 4; i++) ms[i] = json_real_value(json_object_get(json, keys[i]));
    assert_true(ms[0] > 0 && ms[1] > 0 && ms[2] > 0 && ms[3] >= ms[0] + ms[1] + ms[2] - 1e-9);
    json_decref(json);
    write_text("digits.yaml", "data: {samples: 64}\nmodel: {name: mlp}\ntrain: {batch_size: 32}\n");
    run("bench digits.yaml --passes --seconds 0.05");
    expect_ok();
    assert_non_null(strstr(last.out, "Average backward params pass time: "));
    run("bench digits.yaml --passes --profile --seconds 0.05");
    expect_ok();
    assert_non_null(strstr(last.out, "\nlayer, ms  "));
    assert_non_null(strstr(last.out, "\ncross_entropy_1  "));
}

/* Each layer's part: what it has of a pass takes time, and what it has not, none. */
static void passes_have_layers(void **state)
{
    static const char *const keys[] = {"forward_ms", "backward_input_ms", "backward_params_ms"};
    (void)state;
    write_text("network_config.txt", seed);
    run("bench network_config.txt --profile --seconds 0.2 --format json");
    expect_ok();
    json_t *json = json_loads(last.out, 0, NULL), *layer;
    size_t i;
    double sum = 0;
    assert_true(json_array_size(json_object_get(json, "layers")) > 3);
    json_array_foreach(json_object_get(json, "layers"), i, layer)
    {
        const char *name = json_string_value(json_object_get(layer, "layer"));
        double ms[3];
        for (int k = 0; k < 3; k++) sum += ms[k] = json_real_value(json_object_get(layer, keys[k]));
        assert_true(ms[0] > 0);
        assert_true((ms[2] > 0) == (strncmp(name, "conv", 4) == 0 || strncmp(name, "fc", 2) == 0));
        assert_true((ms[1] > 0) == (i > 0 && strncmp(name, "mse", 3) != 0));
    }
    /* Of what is measured twice: others may use the machine in the one and not in the other. */
    const double total = json_real_value(json_object_get(json, "total_ms"));
    if (!(sum > total / 10 && sum < total * 10)) fail_msg("%g of %g ms", sum, total);
    json_decref(json);
}

static json_int_t count_of(const char *options, const char *key)
{
    run("bench network_config.txt --format json %s", options);
    expect_ok();
    json_t *json = json_loads(last.out, 0, NULL);
    assert_non_null(json);
    assert_true(json_real_value(json_object_get(json, "total_ms")) > 0);
    const json_int_t count = json_integer_value(json_object_get(json, key));
    json_decref(json);
    return count;
}

/* As often as the file says, unless it is said how long, or how often. */
static void passes_have_the_files_counts(void **state)
{
    (void)state;
    write_text("network_config.txt", "NUM_ITERATIONS=7\nWARMUP_ITERATIONS=3\nFC=-1\n");
    assert_int_equal(count_of("", "calls"), 7);
    assert_int_equal(count_of("", "warmup"), 3);
    assert_int_equal(count_of("--set bench.calls=9", "calls"), 9);
    assert_int_equal(count_of("--set bench.warmup=0", "warmup"), 0);
    assert_true(count_of("--seconds 0.05", "calls") > 9);
    write_text("network_config.txt", "FC=-1\n");
    assert_int_equal(count_of("", "calls"), 1000);
    assert_int_equal(count_of("", "warmup"), 100);
}

/* No pass takes longer than all of the run; and the gradients of weights, of many samples, are as many products as forward
 * has, so that they are not a hundredth of it. */
static void passes_are_what_they_say(void **state)
{
    struct timespec begin, end;
    (void)state;
    write_text("n.txt", "NUM_ITERATIONS=20\nWARMUP_ITERATIONS=1\nBATCH_SIZE=256\nINPUT_HEIGHT=16\n"
                        "INPUT_WIDTH=16\nFC=256\nFC=256\nFC=-1\n");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run("bench n.txt --format json");
    clock_gettime(CLOCK_MONOTONIC, &end);
    expect_ok();
    const double seconds = (double)(end.tv_sec - begin.tv_sec) +
                           1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    json_t *json = json_loads(last.out, 0, NULL);
    assert_non_null(json);
    const double forward = json_real_value(json_object_get(json, "forward_ms"));
    assert_true(json_real_value(json_object_get(json, "backward_params_ms")) > forward / 100);
    assert_true(json_real_value(json_object_get(json, "total_ms")) * 20 / 1000 <= seconds);
    json_decref(json);
}

static void refuses(const char *name, const char *text, const char *sentence)
{
    write_text(name, text);
    run("info %s", name);
    assert_int_equal(last.code, 2);
    if (strstr(last.err, sentence) == NULL) fail_msg("expected '%s' in '%s'", sentence, last.err);
}

/* What each number of a file means, in the configuration that it becomes. */
static void every_number_has_its_place(void **state)
{
    static const char *const has[] = {
        "shape: [8, 6, 2]", "samples: 20", "classes: 5",  "batch_size: 4", "lr: 0.001",
        "kernel: 3",        "stride: 2",   "padding: 1",  "filters: 7",    "kaiming_normal",
        "name: mse",        "units: 11",   "calls: 5",    "warmup: 9",     "name: sgd",
        "shuffle: false",   "padding: 0",  "replicas: 1",
    };
    (void)state;
    write_text("n.txt", "NUM_ITERATIONS=5\nWARMUP_ITERATIONS=9\nBATCH_SIZE=4\nNUM_CLASSES=5\n"
                        "IN_CHANNELS=2\nINPUT_HEIGHT=8\nINPUT_WIDTH=6\nCONV=7,3,2,1\n"
                        "CONV=9,1,1,0\nFC=11\nFC=-1\n");
    run("train n.txt --print-config");
    expect_ok();
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        if (strstr(last.out, has[i]) == NULL) fail_msg("no '%s' in %s", has[i], last.out);
    run("train n.txt --set log.interval=1");
    expect_ok();
    assert_non_null(strstr(last.out, "Iteration 4, Loss: "));
    assert_null(strstr(last.out, "Iteration 5, Loss: "));
}

/* As many layers as there may be, as large a file; one more is refused. */
static void the_most_of_a_file(void **state)
{
    static char text[70000];
    (void)state;
    for (int layers = 64; layers <= 65; layers++) {
        text[0] = '\0';
        for (int i = 1; i < layers; i++) strcat(text, "FC=3\n");
        write_text("n.txt", strcat(text, "FC=-1\n"));
        run("info n.txt");
        assert_int_equal(last.code, layers == 64 ? 0 : 2);
    }
    assert_non_null(strstr(last.err, "n.txt:65: more than 64 FC layers"));
    for (int bytes = 65536; bytes <= 65537; bytes++) {
        memset(text, '#', (size_t)bytes);
        memcpy(text, "FC=-1\n", 6);
        text[bytes] = '\0';
        write_text("n.txt", text);
        run("info n.txt");
        assert_int_equal(last.code, bytes == 65536 ? 0 : 2);
    }
    assert_non_null(strstr(last.err, "n.txt: larger than 65536 bytes"));
}

static void mistakes_have_file_line_and_key(void **state)
{
    (void)state;
    refuses("n.txt", "FC=-1\nBATCH_SIZE=x\n",
            "n.txt:2: BATCH_SIZE is 'x', expected an integer from 1");
    refuses("n.txt", "FC=-1\nBATCH_SIZ=1\n",
            "n.txt:2: unknown key 'BATCH_SIZ'; the nearest is BATCH_SIZE");
    refuses("n.txt", "FC=-1\nBATCH_SIZE\n", "n.txt:2: 'BATCH_SIZE' has no =");
    refuses("n.txt", "\nCONV=16,3,1\nFC=-1\n", "n.txt:2: CONV has fewer numbers, expected four");
    refuses("n.txt", "\nCONV=16,3,1,1,1\nFC=-1\n", "n.txt:2: CONV has more numbers");
    refuses("n.txt", "\nCONV=16,0,1,1\nFC=-1\n", "n.txt:2: CONV's kernel_size is '0'");
    refuses("n.txt", "FC=0\n", "n.txt:1: FC is '0'");
    refuses("n.txt", "CONV=16,3,1,1\n", "there is no FC layer");
    refuses("n.txt", "FC=9\nFC=7\n", "n.txt:2: the last FC has 7 outputs, expected 3");
    refuses("n.txt", "BATCH_SIZE=1\nBATCH_SIZE=2\nFC=-1\n",
            "n.txt:2: BATCH_SIZE stands here again, it is in line 1");
    refuses("n.txt", "FC=-1\n\n\nCONV=16,9,1,1\n", "n.txt:4");
    refuses("n.json", "{\"network\": {\"classes\": 3},\n \"fc_layers\": []}",
            "n.json:1: unknown key 'classes'");
    refuses("n.json", "{\"network\": {\"num_classes\": 1.5}}", "n.json:1: num_classes is '1.5'");
    refuses("n.json", "{\"network\": {},\n \"conv_layers\": [{\"out_channels\": 3}]}",
            "n.json:2: a layer of conv_layers needs");
    refuses("n.json",
            "{\"network\": {},\n \"conv_layers\": [{\"out_channels\": 3, \"kernel_size\": 0}]}",
            "n.json:2: kernel_size is '0', expected an integer from 1");
    refuses("n.json",
            "{\"network\": {}, \"conv_layers\": [{\"out_channels\": 3, \"kernel_size\": \"abc\"}]}",
            "n.json:1: kernel_size is '\"abc\"', expected an integer from 1");
    refuses("n.json", "{\"network\": {\"num_classes\": \"3\"}}",
            "n.json:1: num_classes is '\"3\"', expected");
    refuses("n.json", "{\"network\": {\"num_classes\": [3]}}",
            "n.json:1: num_classes is '[...]', expected");
    refuses("n.json", "{\"network\": {\"num_classes\": {}}}",
            "n.json:1: num_classes is '{...}', expected");
    refuses("n.json", "{\"network\": {},\n \"fc_layers\": 3}", "n.json:2: fc_layers is not [...]");
    refuses("n.json", "{\"network\": {},\n \"layers\": 3}", "n.json:2: unknown key 'layers'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_files_are_the_seeds_network),
        cmocka_unit_test(its_samples_can_be_seen),
        cmocka_unit_test(the_other_variant),
        cmocka_unit_test(options_have_the_other_variant),
        cmocka_unit_test(the_plot_and_its_file),
        cmocka_unit_test(passes_are_timed),
        cmocka_unit_test(passes_have_layers),
        cmocka_unit_test(passes_have_the_files_counts),
        cmocka_unit_test(passes_are_what_they_say),
        cmocka_unit_test(every_number_has_its_place),
        cmocka_unit_test(the_most_of_a_file),
        cmocka_unit_test(mistakes_have_file_line_and_key),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
