/* Trainings on text by a recipe: the same bits for any workers and when resumed, splits, and whose vocabulary it is. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/trainings.h"

static const char *recipe_text(const char *data, const char *model, const char *more)
{
    snprintf(keys, sizeof keys,
             "data: {context: 12, cache: '%s/cache', %s}\n"
             "model: {layers: [%s]}\n"
             "train: {batch_size: 16, replicas: 3, epochs: 2, workers: 1}\n"
             "optimizer: {name: adam, lr: 0.01}\n%s",
             folder, data, model, more);
    return keys;
}

static const char *own_layers = "{embedding: {units: 8}}, {dense: 16}, relu, {dense: 13}";

static const char *usual(const char *more)
{
    static char data[9000];
    snprintf(data, sizeof data, "text: '%s', level: char", in("text.txt"));
    return recipe_text(data, own_layers, more);
}

/* Of version 4 of the numerics: a change of bits, or of what a text is as data, is seen here. */
static const uint64_t run_hash = UINT64_C(0xac36975fcb38bc47),
                      data_hash = UINT64_C(0xeb1a01e5953c8d98);

static void workers_and_resumption_change_no_bit(void **state)
{
    (void)state;
    lks_epoch last;
    write_sentences("text.txt", 3, 1500);
    const uint64_t hash = train(usual("validation: {fraction: 0.1}\n"), NULL, &last);
    if (getenv("LKT_SEED") == NULL) {
        uint64_t identity;
        lks_recipe *recipe = open_recipe(usual("validation: {fraction: 0.1}\n"));
        LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
        LKT_OK(lks_dataset_hash(lks_recipe_get_parts(recipe).train, &identity));
        lks_recipe_close(recipe);
        if (hash != run_hash || identity != data_hash)
            fail_msg("the run is %016" PRIx64 ", its data %016" PRIx64, hash, identity);
    }
    assert_true(last.valid.counted > 500);
    assert_true(last.valid.counted != last.valid.samples * 12); /* the last window is not full */
    assert_true(lks_metrics_loss(&last.valid) < lks_metrics_loss(&last.train) + 1);
    for (int workers = 2; workers <= 3; workers++) {
        char set_workers[40];
        snprintf(set_workers, sizeof set_workers, "train.workers=%d", workers);
        const char *const sets[] = {set_workers, "data.threads=2", NULL};
        assert_true(train(usual("validation: {fraction: 0.1}\n"), sets, NULL) == hash);
    }
    char more[4500];
    snprintf(more, sizeof more, "validation: {fraction: 0.1}\ncheckpoint: {path: '%s/run'}\n",
             folder);
    const char *const first[] = {"train.epochs=1", NULL};
    const char *const rest[] = {"checkpoint.resume=true", "train.workers=2", NULL};
    assert_true(train(usual(more), first, NULL) != hash);
    assert_true(train(usual(more), rest, NULL) == hash);
    assert_int_equal(access(in("run/vocabulary.txt"), R_OK), 0);
}

/* The same for windows that begin anywhere; those that nothing is learned from are the ones one behind the other. */
static void windows_anywhere_train(void **state)
{
    (void)state;
    static char text[9000];
    char more[4500], data[4500];
    lks_epoch consecutive, last;
    write_sentences("text.txt", 3, 1500);
    const uint64_t other = train(usual("validation: {fraction: 0.1}\n"), NULL, &consecutive);
    snprintf(data, sizeof data, "text: '%s', level: char, windows: anywhere", in("text.txt"));
    snprintf(text, sizeof text, "%s",
             recipe_text(data, own_layers, "validation: {fraction: 0.1}\n"));
    const uint64_t hash = train(text, NULL, &last);
    assert_true(hash != other);
    assert_int_equal(last.train.samples, consecutive.train.samples);
    assert_int_equal(last.train.counted, last.train.samples * 12);
    assert_int_equal(last.valid.counted, consecutive.valid.counted);
    const char *const workers[] = {"train.workers=3", "data.threads=2", NULL};
    assert_true(train(text, workers, NULL) == hash);
    snprintf(more, sizeof more, "validation: {fraction: 0.1}\ncheckpoint: {path: '%s/run'}\n",
             folder);
    snprintf(text, sizeof text, "%s", recipe_text(data, own_layers, more));
    assert_true(train(text, (const char *[]){"train.steps=37", NULL}, NULL) != hash);
    const char *const rest[] = {"checkpoint.resume=true", "train.workers=2", NULL};
    assert_true(train(text, rest, NULL) == hash);
    assert_true(train(text, (const char *[]){"train.seed=2", "checkpoint.path=null", NULL}, NULL) !=
                hash);
    lks_recipe *recipe = open_recipe(text);
    LKT_OK(lks_recipe_set(recipe, "data.columns=16"));
    LKT_FAILS(LKS_E_INVALID, "data.windows is anywhere, but those of data.columns go on",
              lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    lks_recipe_close(recipe);
}

/* The last layer has the weight of the first. */
static void tied_weights_are_resumed(void **state)
{
    (void)state;
    static const char layers[] = "{embedding: {name: e, units: 8}}, tanh, {dense: {units: 13, "
                                 "bias: false, weight_of: e}}";
    char data[4500], more[4500], text[9000];
    write_sentences("text.txt", 3, 1500);
    snprintf(data, sizeof data, "text: '%s', level: char", in("text.txt"));
    snprintf(text, sizeof text, "%s", recipe_text(data, layers, ""));
    const uint64_t hash = train(text, NULL, NULL);
    assert_true(train(text, (const char *const[]){"train.workers=3", NULL}, NULL) == hash);
    snprintf(more, sizeof more, "checkpoint: {path: '%s/tied'}\n", folder);
    snprintf(text, sizeof text, "%s", recipe_text(data, layers, more));
    assert_true(train(text, (const char *const[]){"train.epochs=1", NULL}, NULL) != hash);
    assert_true(train(text,
                      (const char *const[]){"checkpoint.resume=true", "train.workers=2", NULL},
                      NULL) == hash);
}

static void a_run_keeps_its_vocabulary(void **state)
{
    (void)state;
    char more[4500];
    int64_t step;
    write_sentences("text.txt", 3, 1500);
    snprintf(more, sizeof more, "checkpoint: {path: '%s/run'}\n", folder);
    train(usual(more), (const char *const[]){"train.epochs=1", NULL}, NULL);
    /* A test text with other words has the tokens of the run. */
    write_text("other.txt", "a mat on the mat", 16);
    lks_recipe *recipe = open_recipe(usual(more));
    set(recipe, "data.test_text=%s", in("other.txt"));
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    assert_int_equal(parts.data.vocabulary, 13);
    LKT_OK(lks_recipe_compile(recipe, 1));
    LKT_OK(lks_recipe_load(recipe, LKS_WHICH_LAST, &step));
    lks_metrics metrics;
    LKT_OK(lks_recipe_evaluate(recipe, NULL, &metrics));
    assert_int_equal(metrics.counted, 15);
    lks_recipe_close(recipe);
    write_text("new.txt", "a mat on the zoo", 16);
    recipe = open_recipe(usual(more));
    set(recipe, "data.test_text=%s", in("new.txt"));
    LKT_FAILS(LKS_E_FORMAT, "the character U+007A at byte 13 is not in the vocabulary",
              lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
    lks_recipe_close(recipe);
    /* As many tokens with other meanings are refused, to test and to go on. */
    const char *other =
        "lockstep vocabulary 1 char 13\n\\s\n\\n\na\nc\nd\ne\nh\nm\nn\no\ns\nt\n\xC3\xA9\n";
    write_text("other.vocabulary", other, strlen(other));
    recipe = open_recipe(usual(more));
    set(recipe, "data.test_text=%s", in("other.txt"));
    set(recipe, "data.tokenizer=%s", in("other.vocabulary"));
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
    LKT_OK(lks_recipe_compile(recipe, 1));
    LKT_FAILS(LKS_E_MISMATCH, "has learned the tokens of another vocabulary",
              lks_recipe_load(recipe, LKS_WHICH_LAST, &step));
    lks_recipe_close(recipe);
    recipe = open_recipe(usual(more));
    LKT_OK(lks_recipe_set(recipe, "checkpoint.resume=true"));
    set(recipe, "data.tokenizer=%s", in("other.vocabulary"));
    LKT_FAILS(LKS_E_MISMATCH, "has learned the tokens of another vocabulary",
              lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
}

static void a_changed_text_is_other_data(void **state)
{
    (void)state;
    char more[4500];
    write_sentences("text.txt", 3, 1500);
    snprintf(more, sizeof more, "checkpoint: {path: '%s/run'}\n", folder);
    train(usual(more), (const char *const[]){"train.epochs=1", NULL}, NULL);
    write_sentences("text.txt", 4, 1500);
    lks_recipe *recipe = open_recipe(usual(more));
    LKT_OK(lks_recipe_set(recipe, "checkpoint.resume=true"));
    LKT_FAILS(LKS_E_MISMATCH, "was made with other data", lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
}

static lks_recipe_parts open_data(lks_recipe *recipe)
{
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    return lks_recipe_get_parts(recipe);
}

static int64_t samples(lks_dataset *data)
{
    return lks_dataset_get_info(data).samples;
}

static void folders_have_splits(void **state)
{
    (void)state;
    char data[4500], shared[4300], words[100];
    write_text("a.train.txt", "b a b a c\nb\n", 12);
    write_text("a.valid.txt", "a d\n", 4);
    write_text("a.test.txt", "d a e", 5);
    snprintf(shared, sizeof shared, "%s", folder);
    snprintf(data, sizeof data, "path: '%s', level: word, context: 2", shared);
    lks_recipe *recipe;
    snprintf(keys, sizeof keys, "data: {cache: none, %s}\nmodel: {name: mlp}\n", data);
    recipe = open_recipe(keys);
    lks_recipe_parts parts = open_data(recipe);
    assert_string_equal(lks_recipe_value(recipe, "data.name"), "text");
    /* b 3, <eos> 2, a 2, c; <unk> */
    assert_int_equal(parts.data.vocabulary, 5);
    assert_int_equal(samples(parts.train), 4);
    assert_int_equal(samples(parts.valid), 1);
    assert_int_equal(samples(parts.test), 2);
    int32_t x[2], y[2];
    LKT_OK(lks_dataset_read(parts.valid, 0, x, y));
    snprintf(words, sizeof words, "%d %d %d %d", x[0], x[1], y[0], y[1]);
    assert_string_equal(words, "1 4 4 2"); /* a <unk> <eos> */
    lks_recipe_close(recipe);
    /* Needle's order: training, then test. */
    recipe = open_recipe(keys);
    LKT_OK(lks_recipe_set(recipe, "data.dictionary=appearance"));
    parts = open_data(recipe);
    assert_int_equal(parts.data.vocabulary, 7); /* b a c <eos> d e <unk> */
    LKT_OK(lks_dataset_read(parts.test, 0, x, y));
    snprintf(words, sizeof words, "%d %d %d %d", x[0], x[1], y[0], y[1]);
    assert_string_equal(words, "4 1 1 5");
    lks_recipe_close(recipe);
    recipe = open_recipe(keys);
    LKT_OK(lks_recipe_set(recipe, "data.words=3"));
    parts = open_data(recipe);
    assert_int_equal(parts.data.vocabulary, 3);
    lks_recipe_close(recipe);
    /* A fraction of the training in the place of the folder's validation. */
    recipe = open_recipe(keys);
    LKT_OK(lks_recipe_set(recipe, "validation.fraction=0.5"));
    parts = open_data(recipe);
    assert_int_equal(samples(parts.train), 2); /* 8 tokens: 4 and 4 */
    assert_int_equal(samples(parts.valid), 2);
    lks_recipe_close(recipe);
    write_text("b.train.txt", "x", 1);
    recipe = open_recipe(keys);
    LKT_OK(lks_recipe_set(recipe, "data.path=null"));
    set(recipe, "data.text=%s", shared);
    LKT_FAILS(LKS_E_INVALID, "give the file itself",
              lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    lks_recipe_close(recipe);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    struct {
        const char *set, *expected;
    } cases[] = {
        {"data.words=5", "data.words is for data.level: word"},
        {"data.columns=7", "but a batch has a window of each of data.columns: 7"},
        {"validation.samples=5", "of a text give validation.fraction"},
        {"data.table=a.csv", "data.cache is not known to table; it is for data.name 'text'"},
        {"data.shards=a",
         "data.level is not known to shards; it is for data.name 'table' or 'text'"},
        {"data.context=100000", "but a window of context 100000"},
        {"validation.fraction=0.999", "but a window of context 12"},
        {"validation.fraction=0.0001", "but a window of context 12"},
        {"data.targets=[a]",
         "data.targets is not known to text; it is for data.name 'table' or 'series'"},
        {"data.valid_text=/nowhere.txt", "/nowhere.txt"},
        {"data.tokenizer=/nowhere.txt", "/nowhere.txt"},
        {"data.text=/nowhere.txt", "/nowhere.txt"},
        {NULL, "words.vocabulary is a vocabulary of data.level: word; drop data.level"},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    write_sentences("text.txt", 3, 1500);
    char words[4200];
    static const char vocabulary[] = "lockstep vocabulary 1 word 3\n<unk>\n<eos>\na\n";
    write_text("words.vocabulary", vocabulary, strlen(vocabulary));
    snprintf(words, sizeof words, "data.tokenizer=%s", in("words.vocabulary"));
    cases[CASES - 1].set = words;
    for (size_t i = 0; i < CASES; i++) {
        lks_recipe *recipe = open_recipe(usual(""));
        LKT_OK(lks_recipe_set(recipe, cases[i].set));
        if (i == CASES - 1) LKT_OK(lks_recipe_set(recipe, "data.level=byte"));
        const lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
        if (status == LKS_OK) fail_msg("%s was taken", cases[i].set);
        if (strstr(lks_last_error()->message, cases[i].expected) == NULL)
            fail_msg("%s: %s", cases[i].set, lks_last_error()->message);
        lks_recipe_close(recipe);
    }
    /* The default level, which stands in every configuration that is printed, says nothing of a file. */
    lks_recipe *recipe = open_recipe(usual(""));
    LKT_OK(lks_recipe_set(recipe, words));
    assert_int_equal(open_data(recipe).data.vocabulary, 3);
    lks_recipe_close(recipe);
}

/* A batch is a window of each column, in order, unless something else is asked for. */
static void columns_settle_batches(void **state)
{
    (void)state;
    static const char layers[] = "model: {layers: [{embedding: {units: 4}}, {dense: 11}]}\n";
    char data[9000];
    lks_batch batch;
    lks_loader *loader;
    write_sentences("text.txt", 3, 1500);
    snprintf(data, sizeof data,
             "data: {text: '%s', level: char, context: 5, columns: 7, cache: none}\n%s",
             in("text.txt"), layers);
    lks_recipe *recipe = open_recipe(data);
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    lks_dataset *set = lks_recipe_get_parts(recipe).train;
    const int64_t tokens = lks_dataset_tokens(set, 0, 0, NULL), length = tokens / 7;
    int32_t expected[5];
    assert_true(tokens > 200);
    LKT_OK(lks_recipe_loader(&loader, recipe, set, LKS_RECIPE_TRAIN));
    for (int t = 0; t < 3; t++) {
        LKT_OK(lks_loader_next(loader, &batch));
        assert_int_equal(batch.count, 7);
        for (int64_t c = 0; c < 7; c++) {
            lks_dataset_tokens(set, c * length + t * 5, 5, expected);
            assert_memory_equal((const int32_t *)batch.x + c * 5, expected, sizeof expected);
        }
    }
    lks_loader_destroy(loader);
    lks_recipe_close(recipe);
    recipe = open_recipe(data);
    LKT_OK(lks_recipe_set(recipe, "data.shuffle=true"));
    LKT_FAILS(LKS_E_INVALID, "but windows of data.columns come in order",
              lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    lks_recipe_close(recipe);
}

/* Stacks are made of a line of a list, and freeze by PyTorch's names; any workers have the same bits. */
static void recurrent_layers_train(void **state)
{
    (void)state;
    static const char layers[] =
        "{embedding: {units: 8}}, {lstm: {name: r, hidden: 9, layers: 2, dropout: 0.25}}, "
        "{gru: {hidden: 5, bidirectional: true}}, "
        "{rnn: {hidden: 6, nonlinearity: relu, reverse: true}}, {dense: 13}";
    char data[9000];
    lks_epoch last;
    write_sentences("text.txt", 3, 1500);
    snprintf(data, sizeof data, "text: '%s', level: char, columns: 16", in("text.txt"));
    const char *text = recipe_text(data, layers, "");
    const uint64_t hash = train(text, NULL, &last);
    assert_true(train(text, (const char *[]){"train.workers=3", NULL}, NULL) == hash);
    assert_true(train(text, (const char *[]){"model.freeze=[r.weight_hh_l1]", NULL}, NULL) != hash);
}

static char warned[500];

static void keep_warning(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (level == LKS_LOG_WARN) snprintf(warned, sizeof warned, "%s", line);
}

/* Its losses are those of a network that sees the answer. */
static void a_network_that_looks_ahead_is_reported(void **state)
{
    static const char *const layers[][2] = {
        {"{lstm: 6}, {attention: {heads: 1, causal: true}}", NULL},
        {"{lstm: {hidden: 5, bidirectional: true}}", "lstm 'lstm_1.l0_reverse' looks ahead, at"},
        {"{gru: {hidden: 5, reverse: true}}", "gru 'gru_1' looks ahead, at the tokens that"},
        {"{dense: 6}, {attention: {heads: 2, name: a}}", "attention 'a' looks ahead, at the"},
        {"{layer_norm: {dims: 2}}", "layer_norm 'layer_norm_1' looks ahead, at the tokens"},
    };
    (void)state;
    write_sentences("text.txt", 3, 200);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char list[300], data[4500];
        snprintf(list, sizeof list, "{embedding: {units: 6}}, %s, {dense: 13}", layers[i][0]);
        snprintf(data, sizeof data, "text: '%s', level: char", in("text.txt"));
        lks_recipe *recipe = open_recipe(recipe_text(data, list, ""));
        warned[0] = '\0';
        lks_recipe_log(recipe, keep_warning, NULL);
        LKT_OK(lks_recipe_start(recipe));
        if (layers[i][1] == NULL)
            assert_string_equal(warned, "");
        else
            assert_non_null(strstr(warned, layers[i][1]));
        lks_recipe_close(recipe);
    }
}

/* As nanoGPT's prepare.py parts them: 1,003,854 characters and 111,540. */
static void shakespeare_is_parted_as_nanogpt_does(void **state)
{
    (void)state;
    char path[4300];
    const char *shared = lkt_data_folder();
    if (shared == NULL) skip();
    snprintf(path, sizeof path, "%s/tinyshakespeare/input.txt", shared);
    if (access(path, R_OK) != 0) skip();
    snprintf(keys, sizeof keys,
             "data: {text: '%s', context: 64, cache: none}\nmodel: {name: mlp}\n"
             "validation: {fraction: 0.1}\n",
             path);
    lks_recipe *recipe = open_recipe(keys);
    const lks_recipe_parts parts = open_data(recipe);
    assert_int_equal(parts.data.vocabulary, 65);
    assert_int_equal(lks_dataset_tokens(parts.train, 0, 0, NULL), 1003854);
    assert_int_equal(lks_dataset_tokens(parts.valid, 0, 0, NULL), 111540);
    lks_recipe_close(recipe);
}

static void the_treebank_has_its_tokens(void **state)
{
    (void)state;
    char path[4300];
    const char *shared = lkt_data_folder();
    if (shared == NULL) skip();
    snprintf(path, sizeof path, "%s/ptb", shared);
    if (access(path, R_OK) != 0) skip();
    snprintf(
        keys, sizeof keys,
        "data: {text: '%s', level: word, context: 35, cache: '%s/cache'}\nmodel: {name: mlp}\n",
        path, folder);
    for (int again = 0; again < 2; again++) {
        lks_recipe *recipe = open_recipe(keys);
        const lks_recipe_parts parts = open_data(recipe);
        assert_int_equal(parts.data.vocabulary, 10000);
        assert_int_equal(samples(parts.train), (929589 - 1 + 34) / 35);
        assert_int_equal(samples(parts.valid), (73760 - 1 + 34) / 35);
        assert_int_equal(samples(parts.test), (82430 - 1 + 34) / 35);
        lks_recipe_close(recipe);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(workers_and_resumption_change_no_bit),
        TEST(windows_anywhere_train),
        TEST(tied_weights_are_resumed),
        TEST(a_run_keeps_its_vocabulary),
        TEST(a_changed_text_is_other_data),
        TEST(folders_have_splits),
        TEST(columns_settle_batches),
        TEST(recurrent_layers_train),
        TEST(what_does_not_go_together_is_refused),
        TEST(a_network_that_looks_ahead_is_reported),
        TEST(the_treebank_has_its_tokens),
        TEST(shakespeare_is_parted_as_nanogpt_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
