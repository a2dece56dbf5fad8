/* Networks in a configuration: layers that are wrong, every layer, options, places in messages. */
#include "cli/layers.h"

static void layers_that_are_wrong(void **state)
{
    (void)state;
#define LIST "model:\n  layers:\n"
    static const mistake mistakes[] = {
        {LIST "  - flaten\n", "c.yaml:3: unknown layer 'flaten'; the nearest is 'flatten'"},
        {LIST "  - flatten\n  - dense: {unit: 3}\n",
         "c.yaml:4: dense has no option 'unit'; the nearest is 'units'"},
        {LIST "  - conv2d: {kernel: 3}\n", "c.yaml:3: conv2d needs filters"},
        {LIST "  - conv2d: {filters: 3, kernel: [1, 2, 3]}\n", "conv2d kernel is a list of 3"},
        {LIST "  - conv2d: {filters: 3, kernel: [3]}\n",
         "conv2d kernel is a list of 1, expected one of 2"},
        {LIST "  - conv2d: {filters: 0, kernel: 3}\n",
         "conv2d filters is '0', expected an integer"},
        {LIST "  - dense: {units: 3}\n", "c.yaml:3: dense 'dense_1': input has 3 dimensions"},
        {LIST "  - dropout: 1.5\n",
         "dropout probability is '1.5', expected a number of at least 0"},
        {LIST "  - relu: {name: a}\n  - add: {with: b}\n", "c.yaml:4: add: no layer before it has "
                                                           "the name 'b'"},
        {LIST "  - relu: {name: left}\n  - relu\n  - add: {with: leftt}\n",
         "c.yaml:5: add: no layer before it has the name 'leftt'; the nearest is 'left'"},
        {LIST "  - relu: {from: b}\n", "c.yaml:3: relu: no layer before it has the name 'b'"},
        {LIST "  - relu: {name: a, from: a}\n", "relu: no layer before it has the name 'a'"},
        {LIST "  - relu: {name: a}\n  - relu: {name: a}\n",
         "c.yaml:4: the name 'a' is taken already; names are unique"},
        {LIST "  - flatten: {name: left}\n  - dense: {units: 3, weight_of: lef}\n",
         "c.yaml:4: dense: no layer before it has the name 'lef'; the nearest is 'left'"},
        {LIST "  - flatten\n  - dense: {name: a, units: 3}\n  - dense: {units: 3, weight_of: a}\n",
         "dense 'dense_1': weight_of is 'a', expected an embedding of this graph in front of its"},
        {LIST "  - relu: {weight_of: a}\n", "relu has no option 'weight_of'"},
        {LIST "  - relu: {name: input}\n", "the name 'input' is taken already"},
        {LIST "  - max_pool: 2\n  - add: {with: input}\n", "c.yaml:4: add 'add_1': 'max_pool_1'"},
        {LIST "  - max_pool: 2\n  - concat: {with: input}\n",
         "c.yaml:4: concat 'concat_1': 'max_pool_1'"},
        {LIST "  - layer_norm: 4\n", "dims is 4, expected 1 to 3"},
        {LIST "  - max_pool: {kernel: 2, exclude_padding: true}\n", "max_pool has no option"},
        {LIST "  - conv2d: {filters: 3, kernel: 1, bias_init: identity}\n",
         "conv2d bias_init is 'identity', expected default, zeros, ones"},
        {LIST "  - gelu: {form: fast}\n", "gelu form is 'fast', expected erf or tanh"},
        {LIST "  - scale\n", "c.yaml:3: scale needs factor"},
        {LIST "  - scale: 0\n", "factor is 0, expected a finite number but 0"},
        {LIST "  - leaky_relu: -1\n", "leaky_relu slope is '-1', expected a number above 0"},
        {LIST "  - [relu]\n", "a layer is written '- relu' or '- dense: {units: 10}'"},
        {LIST "  - relu:\n    dense: 3\n", "a layer is written"},
        {"model: {layers: []}\n", "model.layers is empty"},
        {"model: {layers: relu}\n", "model.layers is 'relu', expected a list"},
        {"data: {mean: 1}\n" LIST "  - normalize: {mean: 0, std: 1}\n",
         "data.mean is set, but model.layers begins with normalize"},
        {LIST "  - flatten\n  - dense: {units: 3, weight_init: xavier}\n",
         "dense weight_init is 'xavier', expected default, zeros, ones"},
        {LIST "  - flatten\n  - dense: 3\n", "classes"}, /* the loss wants ten */
    };
    check_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

/* Every layer in one network, trained for two steps. */
static void every_layer_is_built(void **state)
{
    (void)state;
    write_text("c.yaml",
               "data: {samples: 40, test_samples: 10}\n"
               "train: {batch_size: 20, replicas: 2}\n" LIST
               "  - normalize: {mean: 0.1, std: [0.3]}\n"
               "  - conv2d: {name: stem, filters: 4, kernel: [3, 5], stride: 2, padding: [1, 2],\n"
               "             bias: false, weight_init: kaiming_normal, weight_fan_out: true}\n"
               "  - batch_norm: {name: bn, momentum: 0.2, epsilon: 0.001}\n"
               "  - relu: {name: trunk}\n"
               "  - conv2d: {filters: 4, kernel: 3, padding: 1, dilation: 1, groups: 2,\n"
               "             weight_init: uniform, weight_scale: 0.1, bias_init: zeros}\n"
               "  - add: {with: trunk}\n"
               "  - gelu: {name: branch}\n"
               "  - global_avg_pool\n"
               "  - dense: {name: squeeze, units: 2}\n"
               "  - leaky_relu: 0.2\n"
               "  - dense: {name: excite, units: 4}\n"
               "  - sigmoid\n"
               "  - mul: {with: branch}\n"
               "  - scale: -0.5\n"
               "  - silu: {name: gated}\n"
               "  - gelu: {form: tanh, from: branch}\n"
               "  - tanh\n"
               "  - mul: {with: gated}\n"
               "  - softplus\n"
               "  - max_pool: 2\n"
               "  - avg_pool: {kernel: 3, stride: 1, padding: 1}\n"
               "  - dropout: 0.1\n"
               "  - conv2d: {filters: 10, kernel: 1}\n"
               "  - global_avg_pool\n"
               "  - dense: {units: 10, bias_init: normal, bias_scale: 0.01}\n"
               "  - log_softmax\n");
    run("train c.yaml --steps 2");
    expect_ok();
    run("info c.yaml");
    expect_ok();
    expect_out("batch_norm");
    expect_out("slope=0.2");
    expect_out("factor=-0.5");
    expect_out("form=tanh");
    expect_out("nll"); /* the loss that follows log_softmax */
    assert_null(strstr(last.out, "cross_entropy"));
    write_text("c.yaml", "data: {samples: 40, test_samples: 10}\n" LIST "  - flatten\n"
                         "  - dense: 10\nloss: {name: cross_entropy, label_smoothing: 0.1}\n");
    run("train c.yaml --steps 1");
    expect_ok();
    run("info c.yaml");
    expect_out("cross_entropy");
}

/* Layers of sequences, trained for two steps on a text; padding names the tokens. */
static void every_layer_of_a_sequence_is_built(void **state)
{
    (void)state;
    static const char *const printed[] = {
        "attention heads=4 kv_heads=2 causal dropout=0.1 rotary=100",
        "attention heads=1 causal masked",
        "layer_norm no_bias",
        "rms_norm epsilon=0.001",
        "position form=sinusoidal",
        "rnn nonlinearity=relu hidden=6",
        "lstm hidden=5 carry_state in=",
        "gru hidden=4 reverse masked padding=2",
    };
    write_text("words.txt", "the quick brown fox jumps over the lazy dog and rests\n"
                            "then the dog runs and the fox sleeps under a brown tree\n");
    write_text("c.yaml",
               "data: {text: words.txt, level: char, context: 8, columns: 4, cache: none}\n"
               "train: {replicas: 2}\n" LIST
               "  - embedding: {name: words, units: 16, weight_init: normal, weight_scale: 0.1}\n"
               "  - position: {form: sinusoidal}\n"
               "  - position: {weight_init: normal, weight_scale: 0.02}\n"
               "  - layer_norm: {bias: false}\n"
               "  - dense: {units: 32}\n"
               "  - attention: {heads: 4, kv_heads: 2, causal: true, dropout: 0.1, rotary: 100}\n"
               "  - rms_norm: {epsilon: 0.001}\n"
               "  - rnn: {hidden: 6, nonlinearity: relu}\n"
               "  - lstm: {hidden: 5, carry_state: true}\n"
               "  - gru: {hidden: 4, reverse: true, masked: true, padding: 2}\n"
               "  - dense: {units: 48, name: qkv}\n"
               "  - attention: {heads: 1, causal: true, masked: true}\n"
               "  - dense: {units: 28, bias: false, weight_of: words}\n");
    run("info c.yaml");
    expect_ok();
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) expect_out(printed[i]);
    run("train c.yaml --steps 2");
    expect_ok();
    /* An image's pixels are positions. */
    write_text("c.yaml", "data: {samples: 40, test_samples: 10}\n"
                         "train: {batch_size: 20, replicas: 2}\n" LIST
                         "  - conv2d: {filters: 12, kernel: 7, stride: 7}\n"
                         "  - sequence\n"
                         "  - attention: {heads: 2}\n"
                         "  - global_avg_pool\n"
                         "  - dense: 10\n");
    run("train c.yaml --steps 2");
    expect_ok();
}

/* Options of layers reach the network: info prints each as the library has it. */
static void layers_take_their_options(void **state)
{
    (void)state;
    static const char *const printed[] = {
        "dims=3 epsilon=0.01 no_affine",
        "kernel=3x3 stride=1 padding=1 exclude_padding",
        "filters=4 kernel=3x3 padding=1 weight_init=identity bias_init=constant:0.5",
        "weight_init=kaiming_uniform:0.01:fan_out",
        "weight_init=xavier_uniform:1.4",
        "weight_init=constant:-0.25",
        "weight_init=xavier_normal bias_init=kaiming_uniform",
    };
    write_text(
        "c.yaml",
        "data: {samples: 40, test_samples: 10}\n"
        "train: {batch_size: 20, replicas: 2}\n" LIST
        "  - conv2d: {name: stem, filters: 4, kernel: 5, stride: 2,\n"
        "             weight_init: kaiming_uniform, weight_slope: 0.01, weight_fan_out: true}\n"
        "  - layer_norm: {dims: 3, epsilon: 0.01, affine: false}\n"
        "  - conv2d: {filters: 4, kernel: 3, padding: 1, weight_init: identity,\n"
        "             bias_init: constant, bias_value: 0.5}\n"
        "  - avg_pool: {kernel: 3, stride: 1, padding: 1, exclude_padding: true}\n"
        "  - concat: {with: stem}\n"
        "  - layer_norm\n"
        "  - flatten\n"
        "  - dense: {units: 12, weight_init: xavier_uniform, weight_gain: 1.4}\n"
        "  - dense: {units: 11, weight_init: constant, weight_value: -0.25}\n"
        "  - dense: {units: 10, weight_init: xavier_normal, bias_init: kaiming_uniform}\n");
    run("info c.yaml");
    expect_ok();
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) expect_out(printed[i]);
    run("train c.yaml --steps 2");
    expect_ok();
}

/* Two branches from one layer: both dense layers read the 784 pixels, whatever stands between. */
static void layers_begin_where_they_say(void **state)
{
    (void)state;
    write_text("c.yaml",
               "data: {samples: 40, test_samples: 10}\n"
               "train: {batch_size: 20, replicas: 2}\n" LIST "  - flatten: {name: pixels}\n"
               "  - dense: {name: a, units: 30}\n"
               "  - relu\n"
               "  - dense: {name: b, units: 20}\n"
               "  - dense: {name: c, units: 20, from: pixels}\n"
               "  - add: {with: b}\n"
               "  - dense: {name: d, units: 10}\n"
               "  - flatten: {name: again, from: input}\n"
               "  - dense: {name: e, units: 10}\n"
               "  - add: {with: d}\n");
    run("train c.yaml --steps 2");
    expect_ok();
    run("info c.yaml");
    expect_ok();
    expect_out("15,700"); /* c's parameters */
    expect_out("7,850");  /* e's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_that_are_wrong),
        TEST(every_layer_is_built),
        TEST(every_layer_of_a_sequence_is_built),
        TEST(layers_take_their_options),
        TEST(layers_begin_where_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
