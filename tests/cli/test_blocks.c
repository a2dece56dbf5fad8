/* Blocks of layers: resnet18 written with them, what they may contain, and those that are wrong. */
#include "cli/layers.h"

/* The example in configs/ is the zoo's network: the hash has the names, shapes and values of all tensors. */
static void resnet18_of_blocks_is_the_zoos(void **state)
{
    (void)state;
    static const char *const networks[] = {
        "--set model.name=resnet18 --set model.layers=null --set model.blocks=null", ""};
    char hash[2][32];
    for (int i = 0; i < 2; i++) {
        run("train '%s' --set data.name=dummy --set 'data.shape=[32, 32, 3]' --set data.classes=10 "
            "--set data.samples=8 --set data.test_samples=2 --set train.batch_size=4 "
            "--set train.test_batch_size=2 --set train.replicas=2 --epochs 1 %s",
            source("configs/resnet18_layers.yaml"), networks[i]);
        expect_ok();
        last_hash(hash[i]);
    }
    assert_string_equal(hash[0], hash[1]);
}

#define DATA                                                                                       \
    "data: {samples: 40, test_samples: 10}\ntrain: {batch_size: 20, replicas: 2, steps: 2}\n"

/* Blocks in blocks, lists and layers as parameters, names that are counted on, and the names that a layer sees. */
static const char nested[] = DATA
    "model:\n"
    "  blocks:\n"
    "    unit:\n"
    "      - conv2d: {name: conv, filters: $filters, kernel: [1, $width], padding: $padding}\n"
    "      - $activation\n"
    "    pair:\n"
    "      - {block: unit, name: a.9, repeat: 2, with: {filters: 4, width: 3, padding: [0, 1],\n"
    "                                                    activation: $activation}}\n"
    "      - add: {with: a.9.conv}\n"
    "      - mul: {with: $gate}\n"
    "      - add: {with: input}\n"
    "  layers:\n"
    "    - conv2d: {name: stem, filters: 4, kernel: 1}\n"
    "    - {block: pair, name: deep, with: {activation: {leaky_relu: 0.2}, gate: stem}}\n"
    "    - relu: {from: deep.a.10.conv}\n"
    "    - flatten\n"
    "    - dense: 10\n";

static void blocks_are_what_they_stand_for(void **state)
{
    (void)state;
    static const char flat[] = DATA
        "model:\n"
        "  layers:\n"
        "    - conv2d: {name: stem, filters: 4, kernel: 1}\n"
        "    - conv2d: {name: deep.a.9.conv, filters: 4, kernel: [1, 3], padding: [0, 1]}\n"
        "    - leaky_relu: 0.2\n"
        "    - conv2d: {name: deep.a.10.conv, filters: 4, kernel: [1, 3], padding: [0, 1]}\n"
        "    - leaky_relu: 0.2\n"
        "    - add: {with: deep.a.9.conv}\n"
        "    - mul: {with: stem}\n"
        "    - add: {with: stem}\n"
        "    - relu: {from: deep.a.10.conv}\n"
        "    - flatten\n"
        "    - dense: 10\n";
    char hash[3][32];
    const char *const texts[] = {nested, flat};
    for (int i = 0; i < 2; i++) {
        write_text("c.yaml", texts[i]);
        run("train c.yaml");
        expect_ok();
        last_hash(hash[i]);
    }
    assert_string_equal(hash[0], hash[1]);
    /* What is printed is the same configuration. */
    static char printed[OUTPUT_SIZE];
    write_text("c.yaml", nested);
    run("train c.yaml --print-config");
    expect_ok();
    expect_out("\n    unit:\n      - ");
    snprintf(printed, sizeof printed, "%s", last.out);
    write_text("printed.yaml", printed);
    run("train printed.yaml --print-config");
    expect_ok();
    assert_string_equal(last.out, printed);
    run("train printed.yaml");
    expect_ok();
    last_hash(hash[2]);
    assert_string_equal(hash[2], hash[0]);
}

/* A block is part of what a run is: another one is another network. */
static void a_resumed_run_has_the_same_blocks(void **state)
{
    (void)state;
    write_text("c.yaml", nested);
    run("train c.yaml --out blocks");
    expect_ok();
    run("train c.yaml --out blocks --resume --steps 4");
    expect_ok();
    run("train c.yaml --out blocks --resume --steps 6 --set 'model.blocks={unit: [relu], pair: "
        "[{block: unit}]}' --set 'model.layers=[block: pair, flatten, dense: 10]'");
    expect(5, "is of another run: model.layers was");
}

static void blocks_that_are_wrong(void **state)
{
    (void)state;
#define BLOCKS "model:\n  blocks:\n    b:\n      - conv2d: {name: c, filters: $n, kernel: 1}\n"
#define USED   BLOCKS "  layers:\n    - "
    static const mistake mistakes[] = {
        {USED "block: b\n", "c.yaml:6: block 'b' has a parameter $n, which has no value; expected "
                            "with: {n: ...}"},
        {USED "{block: b, with: {n: 1, nn: 2}}\n",
         "c.yaml:6: block 'b' has no parameter 'nn'; the nearest is 'n'"},
        {USED "{block: b, with: {n: 1, kernels: 2}}\n",
         "c.yaml:6: block 'b' has no parameter 'kernels'; drop it, or write $kernels"},
        {USED "{block: bb, with: {n: 1}}\n",
         "c.yaml:6: there is no block 'bb'; the nearest is 'b'"},
        {USED "{block: other, with: {n: 1}}\n",
         "c.yaml:6: there is no block 'other'; model.blocks defines them"},
        {USED "{block: b, wiht: {n: 1}}\n",
         "c.yaml:6: 'wiht' beside block, expected name, repeat or with; the nearest is 'with'"},
        {USED "{block: b, with: [1]}\n", "c.yaml:6: with is a list, expected a map"},
        {USED "{block: b, with: {n: 1}, repeat: 0}\n",
         "c.yaml:6: repeat is '0', expected an integer"},
        {USED "{block: b, with: {n: 1}, repeat: 2, name: a}\n",
         "c.yaml:6: the name 'a' of a block with repeat ends in no number to count on; expected "
         "one like 'a.0'"},
        {USED "{block: b, with: {n: 1}, repeat: 2}\n",
         "c.yaml:4 (block 'b'): the name 'c' is taken already"},
        {USED "{block: b, with: {n: many}, name: x.3}\n",
         "c.yaml:4 (block 'b' as x.3): conv2d filters is 'many', expected an integer"},
        {USED "{block: [b], with: {n: 1}}\n", "c.yaml:6: block is a list, expected a text"},
        {USED "relu\n", "c.yaml:3: block 'b' is used by no layer; drop it"},
        {"model: {blocks: {b: [relu: {name: input}]}, layers: [block: b]}\n",
         "c.yaml:1 (block 'b'): the name 'input' is taken already"},
        {"model: {blocks: {b: [{block: b}]}, layers: [block: b]}\n",
         "c.yaml:1 (block 'b'): block 'b' stands in itself"},
        {"model: {blocks: {a: [block: b], b: [relu, {block: a}]}, layers: [block: a]}\n",
         "c.yaml:1 (block 'b'): block 'a' stands in itself"},
        {"model: {blocks: {b: relu}, layers: [block: b]}\n",
         "c.yaml:1: block 'b' is no list of layers"},
        {"model: {blocks: [relu], layers: [relu]}\n", "model.blocks is a list, expected a map"},
        {"model: {name: mlp, blocks: {b: [relu]}}\n",
         "model.blocks is for model.layers, and there are none; drop it"},
        {"model: {blocks: {b: [relu: {name: one}, add: {with: onee}]}, layers: [{block: b, name: "
         "p}]}\n",
         "c.yaml:1 (block 'b' as p): add: no layer before it has the name 'onee'; the nearest is "
         "'one'"},
        {"model: {blocks: {a: [relu], b: [{block: a, repeat: 1000}], c: [{block: b, repeat: "
         "1000}]}, "
         "layers: [{block: c, repeat: 1000}]}\n",
         "the blocks of this network come to too many values"},
        {"data: {mean: 1}\nmodel: {blocks: {b: [normalize: {mean: 0, std: 1}]}, layers: [block: "
         "b]}\n",
         "data.mean is set, but model.layers begins with normalize"},
    };
    check_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resnet18_of_blocks_is_the_zoos),
        TEST(blocks_are_what_they_stand_for),
        TEST(a_resumed_run_has_the_same_blocks),
        TEST(blocks_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
