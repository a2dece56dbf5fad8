/* Language models of the zoo on texts: what they carry, what is refused, the configurations of the Penn Treebank. */
#include "text/trainings.h"

static const char *language_model(const char *name, const char *more)
{
    snprintf(keys, sizeof keys,
             "data: {text: '%s', level: char, context: 12, columns: 16, cache: '%s/cache'}\n"
             "model: {name: %s, embedding_size: 6, hidden_size: 7, num_layers: 2, dropout: 0.1, "
             "carry_state: true}\n"
             "validation: {fraction: 0.2}\ntrain: {replicas: 3, epochs: 2, workers: 1}\n"
             "optimizer: {name: adam, lr: 0.01}\n%s",
             in("text.txt"), folder, name, more);
    return keys;
}

/* Their outputs are the vocabulary; what they carry goes on over workers and in the middle of an epoch. */
static void language_models_carry_their_state(void **state)
{
    (void)state;
    static const char *const names[] = {"lstm_lm", "gru_lm", "rnn_lm"};
    char more[4500];
    write_sentences("text.txt", 3, 1500);
    snprintf(more, sizeof more, "checkpoint: {path: '%s/run'}\n", folder);
    for (int i = 0; i < 3; i++) {
        char remove[4500];
        lks_epoch last, again;
        const uint64_t hash = train(language_model(names[i], ""), NULL, &last);
        assert_true(train(language_model(names[i], ""),
                          (const char *[]){"train.workers=3", "data.threads=2", NULL},
                          &again) == hash);
        assert_memory_equal(&last.valid, &again.valid, sizeof last.valid);
        assert_true(train(language_model(names[i], ""),
                          (const char *[]){"model.carry_state=false", NULL}, NULL) != hash);
        (void)train(language_model(names[i], more), (const char *[]){"train.steps=37", NULL}, NULL);
        assert_true(train(language_model(names[i], more),
                          (const char *[]){"checkpoint.resume=true", "train.workers=2", NULL},
                          &again) == hash);
        assert_memory_equal(&last.train, &again.train, sizeof last.train);
        assert_memory_equal(&last.valid, &again.valid, sizeof last.valid);
        snprintf(remove, sizeof remove, "rm -r '%s/run'", folder);
        assert_int_equal(system(remove), 0);
    }
}

static void what_cannot_be_carried_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *sets[3], *expected;
    } cases[] = {
        {{"data.columns=null", "data.shuffle=false"},
         "has 1 column whose windows go on, and a batch has 64 samples"},
        {{"data.stride=6"}, "has no columns whose windows go on"},
        {{"model.name=mlp", "model.embedding_size=8"}, "is not known to mlp"},
    };
    write_sentences("text.txt", 3, 1500);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lks_run *run;
        lks_recipe *recipe = open_recipe(language_model("lstm_lm", ""));
        for (int s = 0; s < 3 && cases[i].sets[s] != NULL; s++)
            LKT_OK(lks_recipe_set(recipe, cases[i].sets[s]));
        const lks_status status = lks_recipe_train(recipe, NULL, &run);
        if (status == LKS_OK || strstr(lks_last_error()->message, cases[i].expected) == NULL)
            fail_msg("%s: %s", cases[i].sets[0], lks_last_error()->message);
        lks_recipe_close(recipe);
    }
    snprintf(keys, sizeof keys, "data: {name: digits}\nmodel: {name: lstm_lm}\n");
    lks_recipe *recipe = open_recipe(keys);
    const lks_run *run;
    LKT_FAILS(LKS_E_INVALID, "lstm_lm: its input is no text", lks_recipe_train(recipe, NULL, &run));
    lks_recipe_close(recipe);
}

/* Those of the treebank, on other words: their networks, as many outputs as words, what they carry. */
static void configurations_of_the_treebank_train(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int64_t units, hidden, gates, carried, columns;
    } cases[] = {
        {"configs/ptb_rnn.yaml", 30, 10, 1, 20, 16},
        {"configs/ptb_lstm.yaml", 30, 10, 4, 40, 16},
        {"configs/ptb_zaremba_small.yaml", 200, 200, 4, 800, 20},
    };
    enum { WORDS = 10 }; /* <eos> and <unk> among them */
    write_sentences("ptb.train.txt", 3, 2000);
    write_sentences("ptb.valid.txt", 4, 1200);
    write_sentences("ptb.test.txt", 5, 1200);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t u = cases[i].units, h = cases[i].hidden, rows = cases[i].gates * h;
        char path[600];
        const lks_run *run;
        lks_recipe *recipe;
        snprintf(path, sizeof path, "%s/%s", getenv("LKT_SOURCE"), cases[i].file);
        LKT_OK(lks_recipe_open(&recipe, path));
        set(recipe, "data.text=%s", folder);
        LKT_OK(lks_recipe_set(recipe, "data.cache=none"));
        LKT_OK(lks_recipe_set(recipe, "train.epochs=1"));
        LKT_OK(lks_recipe_train(recipe, NULL, &run));
        const lks_model_info info = lks_model_get_info(lks_recipe_get_parts(recipe).model);
        const int64_t words = info.classes;
        assert_true(words == WORDS || words == WORDS - 1);
        assert_int_equal(info.parameters,
                         words * u + rows * (u + h + 2) + rows * (2 * h + 2) + words * (h + 1));
        assert_int_equal(info.carried, cases[i].carried);
        assert_int_equal(info.global_batch, cases[i].columns);
        assert_true(run->history[0].test.counted > 1000);
        lks_recipe_close(recipe);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(language_models_carry_their_state),
        TEST(what_cannot_be_carried_is_refused),
        TEST(configurations_of_the_treebank_train),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
