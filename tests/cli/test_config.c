/* Configurations: YAML, keys, values, layers; what is printed is what is read. */
#include "cli/layers.h"

static void expect_line(const char *yaml, const char *line)
{
    write_text("c.yaml", yaml);
    run("train c.yaml --print-config");
    if (last.code != 0) fail_msg("%s: %s", yaml, last.err);
    if (strstr(last.out, line) == NULL) fail_msg("%s\nhas no \"%s\" in\n%s", yaml, line, last.out);
}

#define NET "model: {name: mlp}\n"

static void values_are_read(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {NET "optimizer: {lr: 2.E-4}", "  lr: 0.0002\n"},
        {NET "optimizer: {lr: .5}", "  lr: 0.5\n"},
        {NET "optimizer: {lr: 1e-3}", "  lr: 0.001\n"},
        {NET "optimizer: {lr: !!float \"0.25\"}", "  lr: 0.25\n"},
        {NET "optimizer: {lr: +3}", "  lr: 3.0\n"},
        {NET "optimizer: {name: sgd, nesterov: True, momentum: 0.9}", "  nesterov: true\n"},
        {NET "data: {shuffle: False}", "  shuffle: false\n"},
        {NET "data: {shuffle: no}", "  shuffle: false\n"},
        {NET "data: {path: None}", "  path: null\n"},
        {NET "data: {path: ~}", "  path: null\n"},
        {NET "data: {path: \"None\"}", "  path: \"None\"\n"},
        {NET "data: {path: 'a b: c'}", "  path: \"a b: c\"\n"},
        {NET "data: {path: 2024}", "  path: \"2024\"\n"},
        {NET "data: {mean: [0.1, 0.2, 3]}", "  mean: [0.1, 0.2, 3.0]\n"},
        {NET "data: {mean: 0.5}", "  mean: [0.5]\n"},
        {NET "data:\n  mean: &m 0.5\n  std: *m\n", "  std: [0.5]\n"},
        {NET "train.epochs: 7", "  epochs: 7\n"},
        {NET "train:\n", "  epochs: 1\n"},
        {"model: {name: mlp, hidden: 32}", "  hidden: [32]\n"},
        /* Absent and 0 are different things. */
        {NET "optimizer: {name: adam}", "  lr: 0.001\n"},
        {NET "optimizer: {name: adadelta}", "  lr: 1.0\n"},
        {NET "optimizer: {name: adadelta, lr: 0}", "  lr: 0.0\n"},
        {NET "optimizer: {name: adadelta}", "  eps: 1.0e-06\n"},
        {NET "optimizer: {name: adam}", "  eps: 1.0e-08\n"},
        {NET "optimizer: {lr: 0.12345678901234568}", "  lr: 0.12345678901234568\n"},
        {NET "train: {steps: 30}", "  epochs: null\n  steps: 30\n"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) expect_line(pairs[i][0], pairs[i][1]);
}

static void null_is_the_default(void **state)
{
    (void)state;
    static char plain[OUTPUT_SIZE];
    write_text("c.yaml", "model: {name: mlp}\n");
    run("train c.yaml --print-config");
    expect_ok();
    strcpy(plain, last.out);
    write_text("c.yaml", "data: {name: ~, shuffle: null}\nmodel: {name: mlp, hidden: }\n"
                         "train: {batch_size: , replicas: None}\noptimizer: {name: }\n"
                         "schedule: {name: null}\ncheckpoint: {keep: ~}\n");
    run("train c.yaml --print-config");
    expect_ok();
    assert_string_equal(last.out, plain);
}

static void anchors_and_merges(void **state)
{
    (void)state;
    static const char base[] = "x-fast: &fast {epochs: 3, batch_size: 16, seed: 5}\n"
                               "x-big: &big {epochs: 9, replicas: 16}\n" NET;
    static const char *const pairs[][2] = {
        {"train: *fast\n", "  epochs: 3\n"},
        {"train:\n  <<: *fast\n  epochs: 4\n", "  epochs: 4\n"},
        {"train:\n  epochs: 4\n  <<: *fast\n", "  epochs: 4\n"}, /* its own keys win */
        {"train: {<<: *fast}\n", "  batch_size: 16\n"},
        {"train:\n  <<: [*fast, *big]\n", "  epochs: 3\n"}, /* the earlier merge wins */
        {"train:\n  <<: [*fast, *big]\n", "  replicas: 16\n"},
        {"train:\n  <<: [*big, *fast]\n", "  epochs: 9\n"},
    };
    char yaml[1024];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        snprintf(yaml, sizeof yaml, "%s%s", base, pairs[i][0]);
        expect_line(yaml, pairs[i][1]);
    }
}

static void flags_are_keys(void **state)
{
    (void)state;
    write_text("c.yaml", "model: {name: mnist_cnn}\ntrain: {epochs: 9}\n"
                         "optimizer: {name: adadelta, rho: 0.8, lr: 1.0}\n"
                         "schedule: {name: step, gamma: 0.7}\n");
    run("train c.yaml --print-config --batch-size 3 --test-batch-size 4 --epochs 5 --lr 0.5 "
        "--gamma 0.25 --log-interval 6 --save-model --seed 7 --dry-run --workers 2 --replicas 11 "
        "--data d --out o --resume --init i --record r --quiet --log-format json --device ref");
    expect_ok();
    static const char *const lines[] = {
        "  batch_size: 3\n", "  test_batch_size: 4\n", "  epochs: 5\n",    "  lr: 0.5\n",
        "  gamma: 0.25\n",   "  interval: 6\n",        "  save: true\n",   "  seed: 7\n",
        "  dry_run: true\n", "  workers: 2\n",         "  replicas: 11\n", "  path: d\n",
        "  path: o\n",       "  resume: true\n",       "  init: i\n",      "  record: r\n",
        "  quiet: true\n",   "  format: json\n",       "  device: ref\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) expect_out(lines[i]);
    /* --steps replaces the file's epochs; a new optimizer drops what only the old one knew. */
    run("train c.yaml --print-config --steps 40 --set optimizer.name=adam");
    expect_ok();
    expect_out("  epochs: null\n  steps: 40\n");
    expect_out("  betas: [0.9, 0.999]\n");
    assert_null(strstr(last.out, "rho"));
    run("train c.yaml --print-config --set 'model.layers=[flatten, dense: 10]' "
        "--set model.name=mine");
    expect_ok();
    expect_out("    - flatten\n    - {dense: 10}\n");
    write_text("d.yaml", "model: {name: mlp}\ntrain: {steps: 9}\n");
    run("train d.yaml --print-config --epochs 2");
    expect_ok();
    expect_out("  epochs: 2\n  steps: null\n");
    run("train c.yaml --print-config --set train.epochs=null");
    expect_ok();
    expect_out("  epochs: 1\n");
}

static void what_is_printed_is_what_is_read(void **state)
{
    (void)state;
    static const char *const configs[] = {"mnist", "digits", "fashion", "mlp"};
    static char printed[OUTPUT_SIZE];
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char name[64];
        snprintf(name, sizeof name, "configs/%s.yaml", configs[i]);
        run("train '%s' --print-config", source(name));
        expect_ok();
        memcpy(printed, last.out, sizeof printed);
        write_text("printed.yaml", printed);
        run("train printed.yaml --print-config");
        expect_ok();
        assert_string_equal(last.out, printed);
    }
    /* And it is the same run. */
    char a[32], b[32];
    write_text("c.yaml", tiny);
    run("train c.yaml --lr 0.05 --set 'model.layers=[flatten, dense: {units: 12, name: a}, relu, "
        "dropout: 0.2, dense: 10]' --set model.name=own --print-config");
    expect_ok();
    write_text("printed.yaml", last.out);
    run("train c.yaml --lr 0.05 --set 'model.layers=[flatten, dense: {units: 12, name: a}, relu, "
        "dropout: 0.2, dense: 10]' --set model.name=own");
    expect_ok();
    last_hash(a);
    run("train printed.yaml");
    expect_ok();
    last_hash(b);
    assert_string_equal(a, b);
}

static void keys_and_values_that_are_wrong(void **state)
{
    (void)state;
    static const mistake mistakes[] = {
        {"optimizer:\n  lrr: 1\n", "c.yaml:2: unknown key 'optimizer.lrr'; the nearest is "
                                   "'optimizer.lr'"},
        {"train:\n  epochs: 2\nlearning_rate: 1\n", "c.yaml:3: unknown key 'learning_rate'; the "
                                                    "nearest is 'optimizer.lr'"},
        {"data: {std: 1e-45}\n", "c.yaml:1: data.std is 1e-45, which 32-bit floats cannot hold; "
                                 "expected 0, or a size from 1.2e-38 to 3.4e38"},
        {"data: {std: [1, 1e39]}\n", "data.std is 1e39, which 32-bit floats cannot hold"},
        {"data: {mean: -1e300}\n", "data.mean is -1e300, which 32-bit floats cannot hold"},
        {"optimizer: {lr: 1e300}\n", "optimizer.lr is 1e300, which 32-bit floats cannot hold"},
        {"optimizer: {clip_norm: 1e-38}\n", "optimizer.clip_norm is 1e-38, which 32-bit floats"},
        {"train: {ema: 1e-45}\n", "train.ema is 1e-45, which 32-bit floats cannot hold"},
        {"model: {layers: [leaky_relu: {slope: 1e-300}]}\n",
         "slope is 1e-300, which 32-bit floats"},
        {"validation: {patience: 4294967297}\n", "expected an integer from 1 to 1000000"},
        {"checkpoint: {path: x, resume: \"true\"}\n",
         "checkpoint.resume is the text \"true\", expected true or false"},
        {"{loss: {name: mse}, model: {name: mlp}}\n",
         "c.yaml:1: loss.name is mse, but the data set 'digits' has classes; "
         "expected cross_entropy or nll"},
        {"model: {name: x, layers: [relu]}\n",
         "c.yaml:1: the last of model.layers: cross_entropy 'cross_entropy_1': input has 3 "
         "dimensions, expected 1; put a flatten before it"},
        {"rl: 1\n", "unknown key 'rl'; the nearest is 'optimizer.lr'"}, /* exchanged letters */
        {"model: {layers: [conv2d: {filters: 2, kernel: 3}, dense: 4]}\n",
         "input has 3 dimensions, expected 1, or 2 (positions, channels); put a flatten before it"},
        {"trian: {epochs: 1}\n", "c.yaml:1: unknown key 'trian'; the nearest is 'train'"},
        {"qqqqqqqqqqqqqqqqqq: 1\n", "unknown key 'qqqqqqqqqqqqqqqqqq'; lockstep --help-config "
                                    "lists the keys"},
        {"batch_size: 3\n", "unknown key 'batch_size'; the nearest is 'train.batch_size'"},
        {"train:\n  batch_size: big\n", "c.yaml:2: train.batch_size is 'big', expected an integer "
                                        "from 1 to 16777216"},
        {"train:\n  batch_size: \"64\"\n", "train.batch_size is the text \"64\", expected an int"},
        {"train: {batch_size: 2.5}\n", "train.batch_size is '2.5', expected an integer"},
        {"train: {batch_size: 0}\n", "train.batch_size is '0', expected an integer from 1"},
        {"train: {batch_size: [1]}\n", "train.batch_size is a list, expected an integer"},
        {"train: {seed: -1}\n", "train.seed is '-1', expected an integer of at least 0"},
        {"train: {seed: 99999999999999999999}\n", "train.seed is '99999999999999999999', expected"},
        {"optimizer: {lr: nan}\n", "optimizer.lr is 'nan', expected a number of at least 0"},
        {"optimizer: {lr: .inf}\n", "optimizer.lr is '.inf', expected a number"},
        {"optimizer: {lr: 0x10}\n", "optimizer.lr is '0x10', expected a number"},
        {"optimizer: {lr: -1}\n", "optimizer.lr is '-1', expected a number of at least 0"},
        {"optimizer: {momentum: 1}\n", "optimizer.momentum is '1', expected a number of at least 0 "
                                       "and below 1"},
        {"optimizer: {name: adm}\n", "optimizer.name is 'adm', expected sgd, adam"},
        {"optimizer: {nesterov: 1}\n", "optimizer.nesterov is '1', expected true or false"},
        {"train: {lr: 0.1}\n", "unknown key 'train.lr'; the nearest is 'optimizer.lr'"},
        {"train: {x-more: 0.1}\n", "unknown key 'train.x-more'"}, /* templates stand outside */
        {"optimizer: adam\n", "c.yaml:1: optimizer is a section, expected keys in it"},
        {"optimizer: {name: adam, rho: 0.9}\n", "optimizer.rho is not known to adam; it is for "
                                                "optimizer.name 'adadelta'"},
        {"optimizer: {name: adam, betas: [0.9]}\n", "optimizer.betas has 1 number, expected 2"},
        {"data: {mean: [a]}\n", "data.mean is 'a', expected a number, or a list of numbers"},
        {"data: {std: 0}\n", "data.std is '0', expected a number, or a list of numbers, above 0"},
        {"train: {workers: 9}\n" NET, "c.yaml:1: train.workers is 9, expected at most 8: each "
                                      "worker needs a replica; replicas: 9 would use all (other "
                                      "bits)"},
        {"train: {replicas: 4000, accumulate: 3}\n", "expected at most 4096"},
        {"train: {replicas: 1024, accumulate: 4}\nmodel: {name: x}\n", "model.name is 'x'"},
        {"log: {format: text json}\n", "log.format is 'text json', expected text, "},
        {"validation: {samples: 3, fraction: 0.1}\n", "say the same thing; drop one"},
        {"train: {epochs: 2}\n", "model.name is missing: expected mnist_cnn, mlp, lenet5"},
        {"model: {name: resnet}\n", "model.name is 'resnet', expected mnist_cnn, mlp, lenet5"},
        {"model: {name: mlp, layers: [relu]}\n", "model.name is 'mlp', but there are model.layers"},
        {"model: {name: a/b, layers: [relu]}\n", "expected a name without '/'"},
        {"model: {name: mnist_cnn, dropout: 0.3}\n", "but mnist_cnn has dropout 0.25 and 0.5"},
        {"model: {name: mnist_cnn, hidden: [3]}\n", "model.hidden is not known to mnist_cnn"},
        {"loss: {label_smoothing: 0.1}\n", "loss.label_smoothing is only for loss.name "
                                           "'cross_entropy'; set that too"},
    };
    check_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void yaml_that_is_wrong(void **state)
{
    (void)state;
    static const mistake mistakes[] = {
        {"train: {epochs: 1\n", "c.yaml:2: not valid YAML: did not find expected ',' or '}' while "
                                "parsing a flow mapping"},
        {"train:\n\tepochs: 1\n", "c.yaml:2: not valid YAML: found character that cannot start"},
        {"train: \"a\n", "not valid YAML"},
        {"train: \"\\x00\"\n", "c.yaml:1: a text has a zero byte in it"},
        {"\xff\xfe\xff", "c.yaml: not valid YAML: byte"},
        {"train: \xc3\x28\n", "c.yaml: not valid YAML: byte"},
        {"[1, 2]\n", "c.yaml:1: a configuration is a map of sections"},
        {"just text\n", "c.yaml:1: a configuration is a map of sections"},
        {"a: *b\n", "c.yaml:1: alias *b stands for nothing; expected an anchor &b that ends"},
        {"x-a: &a [*a]\n", "alias *a stands for nothing"},
        {"train:\n  epochs: 1\n  epochs: 2\n", "c.yaml:3: key 'epochs' occurs twice"},
        {"train: {<<: 3}\n", "<< takes a map, an alias of one, or a list of them"},
        {"train: {<<: [3]}\n", "<< takes a map, an alias of one, or a list of them"},
        {"train: {[1]: 2}\n", "c.yaml:1: a key is a list or a map, expected a name"},
        {"? "
         "\"012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
         "7"
         "8901234567890123456789012345678901234567890\"\n: 3\n",
         "c.yaml:1: key '0123456789012345678901234567890123456789...' has 131 bytes, expected at "
         "most"},
        {"a: !python/object 3\n", "tag !python/object is not known"},
        {"---\nmodel: {name: mlp}\n---\nb: 1\n", "c.yaml:3: a second document begins here"},
    };
    check_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

static void repeat(FILE *file, const char *text, int count)
{
    for (int i = 0; i < count; i++) fputs(text, file);
}

static void hostile_files_end_in_a_sentence(void **state)
{
    (void)state;
    FILE *file = fopen(in_folder("c.yaml"), "w");
    repeat(file, "[", 10000);
    repeat(file, "]", 10000);
    fclose(file);
    run("train c.yaml");
    expect(2, "c.yaml:1: lists and maps are nested more than 32 deep (aliases counted as what they "
              "stand for); a configuration needs at most 6");

    file = fopen(in_folder("c.yaml"), "w");
    fputs("model: ", file);
    repeat(file, "{a: ", 10000);
    fclose(file);
    run("train c.yaml");
    expect(2, "nested more than 32 deep");

    file = fopen(in_folder("c.yaml"), "w"); /* each line is shallow */
    fputs("x-0: &a0 [1]\n", file);
    for (int i = 1; i <= 40; i++) fprintf(file, "x-%d: &a%d [*a%d]\n", i, i, i - 1);
    fclose(file);
    run("train c.yaml");
    expect(2, "c.yaml:32: lists and maps are nested more than 32 deep (aliases counted");

    file = fopen(in_folder("c.yaml"), "w"); /* one long text, many times */
    fputs("x-0: &a ", file);
    repeat(file, "a", 1000);
    fputs("\nx-1: [", file);
    repeat(file, "*a, ", 2000);
    fputs("]\n", file);
    fclose(file);
    run("train c.yaml");
    expect(2,
           "c.yaml:1: its texts have more than 1048576 bytes (aliases counted as what they stand "
           "for); a configuration has a few thousand");

    file = fopen(in_folder("c.yaml"), "w"); /* as deep as can be read, but not once it is printed */
    fputs("model.layers: ", file);
    repeat(file, "[", 31);
    repeat(file, "]", 31);
    fclose(file);
    run("train c.yaml --print-config");
    expect(2,
           "c.yaml:1: model.layers makes the configuration too large to be written and read again; "
           "it may have 10000 values, nested 32 deep, of 1048576 bytes");

    /* Ten lists of ten aliases each stand for ten thousand million values. */
    file = fopen(in_folder("c.yaml"), "w");
    fputs("x-0: &a0 1\n", file);
    for (int i = 1; i <= 10; i++) {
        fprintf(file, "x-%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++) fprintf(file, "*a%d, ", i - 1);
        fputs("]\n", file);
    }
    fclose(file);
    run("train c.yaml");
    expect(2, "more than 10000 values (aliases counted as what they stand for)");

    file = fopen(in_folder("c.yaml"), "w");
    repeat(file, "# a comment of some length\n", 100000);
    fclose(file);
    run("train c.yaml");
    expect(2, "larger than 1048576 bytes, so it is no configuration");

    /* No command for the terminal, and no line of its own. */
    write_text("c.yaml", "model: {name: \"a\\e[31mb\\nlockstep: all is well\"}\n");
    run("train c.yaml");
    expect(2, "c.yaml:1: model.name is 'a?[31mb?lockstep: all is well', expected");

    run("train /dev/zero");
    expect(2, "larger than 1048576 bytes");
    run("train /dev/null");
    expect(2, "model.name is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_are_read),
        TEST(null_is_the_default),
        TEST(anchors_and_merges),
        TEST(flags_are_keys),
        TEST(what_is_printed_is_what_is_read),
        TEST(keys_and_values_that_are_wrong),
        TEST(yaml_that_is_wrong),
        TEST(hostile_files_end_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
