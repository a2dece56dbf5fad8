/* Networks of the zoo that are transformers, written as lists of layers: the hash has the names, shapes and values of all tensors. */
#include "cli/layers.h"

static void train_both(const char *data, const char *zoo, const char *list, const char *options)
{
    static char text[8192];
    const char *const models[] = {zoo, list};
    char hash[2][32];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%smodel:\n%s", data, models[i]);
        write_text("c.yaml", text);
        run("train c.yaml %s", i == 0 ? "" : options);
        expect_ok();
        last_hash(hash[i]);
    }
    assert_string_equal(hash[0], hash[1]);
}

static const char digits[] = "data: {name: digits}\noptimizer: {name: adamw}\n"
                             "train: {batch_size: 16, replicas: 3, steps: 3, seed: 4}\n";

/* 16 patches of 7x7, of blocks that are repeated in one entry. */
static void vit_of_blocks_is_the_zoos(void **state)
{
    (void)state;
    static const char zoo[] =
        "  {name: vit, patch: 7, depth: 2, heads: 4, width: 32, dropout: 0.1}\n";
    static const char list[] =
        "  layers:\n"
        "    - conv2d: {name: patch_embed.proj, filters: 32, kernel: 7, stride: 7,\n"
        "               weight_init: normal, weight_scale: 0.02, bias_init: zeros}\n"
        "    - sequence\n"
        "    - position: {name: pos_embed, weight_init: normal, weight_scale: 0.02}\n"
        "    - dropout: 0.1\n"
        "    - transformer: {name: blocks.0, repeat: 2, heads: 4, dropout: 0.1}\n"
        "    - layer_norm: {name: norm}\n"
        "    - global_avg_pool\n"
        "    - dense: {name: head, units: 10, weight_init: normal, weight_scale: 0.02, bias_init: "
        "zeros}\n";
    train_both(digits, zoo, list, "");
    train_both(digits, zoo, list, "--workers 2");
}

/* Sentences, behind a token of their class each, with padding; blocks are parts of one with parameters. */
static void encoder_of_blocks_is_the_zoos(void **state)
{
    (void)state;
    static const char data[] =
        "data: {table: r.csv, text_column: review, targets: [label], level: word, context: 6}\n"
        "train: {batch_size: 4, replicas: 2, steps: 4, seed: 2}\noptimizer: {name: adam}\n";
    static const char zoo[] =
        "  {name: encoder, depth: 2, heads: 2, width: 16, inner: 24, norm: rms_norm,\n"
        "   activation: swiglu, bias: false, post_norm: true, class_token: true, masked: true}\n";
    static const char list[] =
        "  blocks:\n"
        "    layer:\n"
        "      - transformer: {name: $name, heads: $heads, inner: 24, norm: rms_norm,\n"
        "                      activation: swiglu, bias: false, post_norm: true, masked: true}\n"
        "  layers:\n"
        "    - embedding: {name: embed, units: 16, weight_init: normal, weight_scale: 0.02}\n"
        "    - position: {name: pos_embed, weight_init: normal, weight_scale: 0.02}\n"
        "    - {block: layer, name: blocks, with: {name: '0', heads: 2}}\n"
        "    - {block: layer, name: blocks, with: {name: '1', heads: 2}}\n"
        "    - select: 0\n"
        "    - dense: {name: head, units: 2, weight_init: normal, weight_scale: 0.02, bias_init: "
        "zeros}\n";
    write_text("r.csv", "review,label\na b,good\nb c a d e f g,bad\nc,good\nd a a b,bad\ne,good\n"
                        "f f,bad\na c b,good\nb b b b b b b b,bad\nc a,good\n");
    train_both(data, zoo, list, "");
    train_both(data, zoo, list, "--workers 2");
}

/* As its configuration was before it had a name. */
static void needles_transformer_is_this_list(void **state)
{
    (void)state;
    static const char data[] =
        "data: {text: words.txt, level: char, context: 20, cache: none}\n"
        "train: {batch_size: 4, replicas: 2, steps: 3, seed: 1}\noptimizer: {name: adam}\n";
    static const char list[] = "  layers:\n"
                               "    - embedding: {name: embedding, units: 20}\n"
                               "    - position: {name: position}\n"
                               "    - dropout: {name: input_, probability: 0.1}\n"
                               "    - layer_norm: {name: norm_q}\n"
                               "    - dense: {name: q, units: 256, bias: false}\n"
                               "    - layer_norm: {name: norm_k, from: input_}\n"
                               "    - dense: {name: k, units: 256, bias: false}\n"
                               "    - concat: {name: qk, with: k, from: q}\n"
                               "    - layer_norm: {name: norm_v, from: input_}\n"
                               "    - dense: {name: v, units: 256, bias: false}\n"
                               "    - concat: {with: v, from: qk}\n"
                               "    - attention: {heads: 8, causal: true, dropout: 0.1}\n"
                               "    - dense: {name: out, units: 20, bias: false}\n"
                               "    - dropout: 0.1\n"
                               "    - add: {name: attended, with: input_}\n"
                               "    - layer_norm: {name: norm}\n"
                               "    - dense: {name: linear1, units: 32}\n"
                               "    - relu\n"
                               "    - dropout: 0.1\n"
                               "    - dense: {name: linear2, units: 20}\n"
                               "    - dropout: 0.1\n"
                               "    - add: {with: attended}\n"
                               "    - dense: {name: linear, units: 27}\n";
    char text[2000] = "";
    for (int i = 0; i < 20; i++)
        strcat(text, &"the quick brown fox jumps over the lazy dog and then it sleeps\n"[i % 7]);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n' && c[1] != '\0') *c = ' '; /* 26 letters, space, and one line's end */
    text[strlen(text) - 1] = '\0';
    write_text("words.txt", text);
    train_both(data, "  {name: needle_transformer}\n", list, "");
    run("info --models");
    expect_ok();
    expect_out("needle_transformer");
    write_text("c.yaml", "model: {name: needle_transformer}\n");
    run("train c.yaml --steps 1");
    expect(2, "needle_transformer: its input is no text, expected tokens; give data.text, or take "
              "a network for images");
}

/* What is printed is the same configuration; other options are another run. */
static void a_block_is_kept_as_it_is_written(void **state)
{
    (void)state;
    static char printed[OUTPUT_SIZE];
    char hash[2][32];
    write_text(
        "c.yaml",
        "data: {name: digits}\ntrain: {batch_size: 16, replicas: 2}\n"
        "model:\n  layers:\n    - conv2d: {filters: 12, kernel: 7, stride: 7}\n"
        "    - sequence\n    - transformer: {heads: 3, activation: relu, name: a.0, repeat: 2}\n"
        "    - transformer: 2\n    - add: {with: a.0}\n    - add: {with: a.1}\n"
        "    - global_avg_pool\n    - dense: 10\n");
    run("train c.yaml --print-config");
    expect_ok();
    snprintf(printed, sizeof printed, "%s", last.out);
    write_text("printed.yaml", printed);
    run("train c.yaml --steps 4");
    expect_ok();
    last_hash(hash[0]);
    run("train printed.yaml --steps 2 --out run");
    expect_ok();
    run("train printed.yaml --steps 4 --out run --resume");
    expect_ok();
    last_hash(hash[1]);
    assert_string_equal(hash[0], hash[1]);
    run("info c.yaml");
    expect_ok();
    expect_out("a.1.attn.qkv ");
    expect_out("transformer_1.mlp.fc1 ");
    run("data check c.yaml");
    expect_ok();
    run("train --out run --resume --steps 6 --set 'model.layers=[{conv2d: {filters: 12, kernel: 7, "
        "stride: 7}}, sequence, {transformer: 3}, global_avg_pool, {dense: 10}]' printed.yaml");
    expect(5, "is of another run: model.layers was");
}

static void blocks_that_are_wrong(void **state)
{
    (void)state;
#define LIST                                                                                       \
    "model:\n  layers:\n    - conv2d: {filters: 12, kernel: 7, stride: 7}\n    - sequence\n    - "
    static const mistake mistakes[] = {
        {LIST "transformer\n", "c.yaml:5: transformer needs heads"},
        {LIST "transfomer: 3\n",
         "c.yaml:5: unknown layer 'transfomer'; the nearest is 'transformer'"},
        {LIST "transformer: {head: 3}\n",
         "c.yaml:5: transformer has no option 'head'; the nearest is 'heads'"},
        {LIST "transformer: {heads: 3, depth: 3}\n", "c.yaml:5: transformer has no option 'depth'"},
        {LIST "transformer: 5\n", "c.yaml:5: transformer 'transformer_1': heads is 5 and width 12, "
                                  "but the input has 12 channels"},
        {LIST "transformer: {heads: 3, norm: batch_norm}\n",
         "c.yaml:5: transformer norm is 'batch_norm', expected layer_norm or rms_norm"},
        {LIST "transformer: {heads: 3, repeat: 0}\n",
         "c.yaml:5: transformer repeat is '0', expected an integer"},
        {LIST "transformer: {heads: 3, repeat: 2, name: a}\n",
         "c.yaml:5: the name 'a' of a block with repeat ends in no number to count on; expected "
         "one like 'a.0'"},
        {LIST "transformer: {heads: 3, name: a.0}\n    - transformer: {heads: 3, name: a.0}\n",
         "c.yaml:6: the name 'a.0' is taken already"},
        {LIST "transformer: {heads: 3, masked: true}\n",
         "c.yaml:5: attention 'attention_1': masked is true, but there are no tokens"},
        {LIST "transformer: {heads: 3, from: b}\n",
         "c.yaml:5: transformer: no layer before it has the name 'b'"},
        {"model:\n  layers:\n    - transformer: 1\n",
         "c.yaml:3: transformer 'transformer_1': input 'normalize' has 3 dimensions of F32"},
    };
    check_mistakes(mistakes, sizeof mistakes / sizeof *mistakes);
    run("op 'transformer heads=3 in=2x4x12'");
    expect(2, "op: transformer is several operations; try them one by one, or the whole network "
              "(lockstep bench)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(vit_of_blocks_is_the_zoos),
        TEST(encoder_of_blocks_is_the_zoos),
        TEST(needles_transformer_is_this_list),
        TEST(a_block_is_kept_as_it_is_written),
        TEST(blocks_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
