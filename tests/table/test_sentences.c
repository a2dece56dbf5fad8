/* Texts of a table's column with a class each: their tokens, a training, and what is predicted with it. */
#include <string.h>

#include "recipe/recipes.h"

#include <lockstep/text.h>

#include "cli/terminal.h"
#include "table/reviews.h"

static const char config[] =
    "data: {table: r.csv, text_column: review, targets: [label], ignore: [id], level: word,\n"
    "  words: 5000, context: 16, test_fraction: 0.2}\n"
    "model: {name: encoder, depth: 1, heads: 2, width: 16, class_token: true, masked: true}\n"
    "train: {epochs: 8, batch_size: 32, replicas: 3}\n"
    "optimizer: {name: adam, lr: 0.003}\n";

/* A small table, and what a training with it says. */
static void refuses(const char *csv, const char *sets, int code, const char *sentence)
{
    write_text("x.csv", csv);
    write_text("c.yaml", config);
    run("train c.yaml --set data.table=x.csv --set data.test_fraction=null --steps 1 %s", sets);
    expect(code, sentence);
}

static lks_recipe *open_small(const char *csv, const char *keys, const char *more)
{
    static char text[2000];
    lks_recipe *recipe;
    write_text("s.csv", csv);
    snprintf(text, sizeof text,
             "data: {text_column: t, targets: [c], context: 5, %s}\nmodel: {name: encoder}\n%s",
             keys, more);
    LKT_OK(lks_recipe_open_text(&recipe, "small", text));
    set_path(recipe, "data.table", "s.csv");
    if (strstr(keys, "test_table") != NULL) set_path(recipe, "data.test_table", "t.csv");
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    return recipe;
}

static int64_t vocabulary_of(const char *csv, const char *keys, const char *more)
{
    lks_recipe *recipe = open_small(csv, keys, more);
    const int64_t size = lks_recipe_get_parts(recipe).data.vocabulary;
    lks_recipe_close(recipe);
    return size;
}

/* The tokens of a row, its class, and what it is called. */
static void has(const lks_recipe *recipe, int64_t index, const char *expected, const char *text)
{
    int32_t x[5], y;
    char found[100] = "";
    lks_dataset *data = lks_recipe_get_parts(recipe).train;
    LKT_OK(lks_dataset_read(data, index, x, &y));
    for (int i = 0; i < 5; i++) snprintf(found + strlen(found), 20, "%d ", x[i]);
    snprintf(found + strlen(found), 20, "-> %d", y);
    assert_string_equal(found, expected);
    assert_string_equal(lks_dataset_sample(data, index), text);
}

/* One of the class, those of the text from 1 on, cut at the end, and 0 behind it. */
static void a_text_becomes_tokens(void **state)
{
    (void)state;
    static const char csv[] = "c,t\nu,b a b b b b\nv,a\nv,\"b \"\"a\"\"\"\nu,\nv,1984\n";
    lks_recipe *recipe = open_small(csv, "level: word, missing: mean", "");
    const lks_dataset_info info = lks_recipe_get_parts(recipe).data;
    /* The most frequent first: b 6, <eos> 4, a 2, "a" and 1984 1, <unk>; behind them the class. */
    assert_int_equal(info.dtype, LKS_I32);
    assert_int_equal(info.vocabulary, 6 + 2);
    assert_int_equal(info.classes, 2);
    has(recipe, 0, "7 1 3 1 1 -> 0", "b a b b b b");
    has(recipe, 1, "7 3 0 0 0 -> 1", "a");
    has(recipe, 2, "7 1 4 0 0 -> 1", "b \"a\"");
    has(recipe, 3, "7 0 0 0 0 -> 0", "");
    has(recipe, 4, "7 5 0 0 0 -> 1", "1984"); /* looks like a number */
    lks_dataset *train = lks_recipe_get_parts(recipe).train;
    assert_int_equal(lks_tokenizer_size(lks_dataset_tokenizer(train)), 6);
    assert_int_equal(lks_dataset_tokens(train, 0, 0, NULL), 0); /* it is no text to sample from */
    lks_recipe_close(recipe);
    recipe = open_small(csv, "level: byte, missing: mean", "");
    assert_int_equal(lks_recipe_get_parts(recipe).data.vocabulary, 256 + 2);
    has(recipe, 2, "257 99 33 35 98 -> 1", "b \"a\"");
    lks_recipe_close(recipe);
}

/* Words and byte pairs are those of the training's rows, characters those of all, of a table to test with, too. */
static void a_vocabulary_is_of_its_rows(void **state)
{
    (void)state;
    static char csv[4096];
    static const char held[] = "validation: {fraction: 0.1}\n";
    snprintf(csv, sizeof csv, "c,t\n");
    for (int i = 0; i < 40; i++)
        snprintf(csv + strlen(csv), 40, "%c,%c%c\n", "uv"[i % 2], 'A' + i, 'A' + i);
    write_text("t.csv", "c,t\nu,z\n");
    assert_int_equal(vocabulary_of("c,t\nu,1984\nv,7\n", "level: word", ""), 2 + 2 + 2);
    assert_int_equal(vocabulary_of(csv, "level: word", ""), 40 + 2 + 2);
    assert_int_equal(vocabulary_of(csv, "level: word, test_fraction: 0.25", held), 27 + 2 + 2);
    assert_int_equal(vocabulary_of(csv, "level: word, words: 7", ""), 7 + 2);
    /* Each row's two letters are a pair of its own. */
    assert_int_equal(vocabulary_of(csv, "level: bpe", ""), 256 + 40 + 2);
    assert_int_equal(vocabulary_of(csv, "level: bpe, test_fraction: 0.25", held), 256 + 27 + 2);
    assert_int_equal(vocabulary_of(csv, "level: char, test_fraction: 0.25", held), 40 + 2);
    assert_int_equal(vocabulary_of(csv, "level: char, test_table: t.csv", ""), 40 + 1 + 2);
    assert_int_equal(vocabulary_of(csv, "level: word, test_table: t.csv", ""), 40 + 2 + 2);
}

/* ---------------------------------------------------------------- a training */

static void an_encoder_learns_which_words_tell(void **state)
{
    (void)state;
    char hash[32], found[32];
    write_reviews("r.csv", ROWS, "");
    write_text("c.yaml", config);
    run("train c.yaml --out o --workers 1");
    expect_ok();
    assert_int_equal(last_hash(hash), 80);
    const char *test = strstr(last.out, "epoch 8/8");
    assert_non_null(test);
    if (strstr(test, "test 0.0") == NULL || strstr(test, " 100.00%  0.") == NULL)
        fail_msg("the test is not learned: %s", test);
    assert_true(there("o/columns.txt") && there("o/vocabulary.txt"));
    for (int workers = 2; workers <= 3; workers++) {
        run("train c.yaml --workers %d", workers);
        expect_ok();
        assert_int_equal(last_hash(found), 80);
        assert_string_equal(found, hash);
    }
    run("train c.yaml --out p --epochs 3");
    expect_ok();
    run("train c.yaml --out p --resume --workers 2");
    expect_ok();
    assert_int_equal(last_hash(found), 80);
    assert_string_equal(found, hash);
    run("eval c.yaml --out o");
    expect(0, "");
    expect_out("Accuracy: 80/80 (100%)");
}

static void new_texts_are_predicted(void **state)
{
    (void)state;
    static char with[OUTPUT_SIZE];
    write_text("new.csv", "stars,review\n5,\"it was, \"\"in short\"\", great\"\n"
                          "6,\"some\nawful music\"\n");
    /* The training's table is not needed, and neither are columns that were left out, or the target. */
    assert_int_equal(shell("mv r.csv away.csv"), 0);
    run("predict c.yaml --out o --table new.csv --format csv");
    expect_ok();
    assert_string_equal(last.err,
                        ""); /* that texts are others than the training's goes without saying */
    expect_out(
        "sample,text,class,name,probability\n0,\"it was, \"\"in short\"\", great\",1,good,0.9");
    expect_out("\n1,\"some\nawful music\",0,bad,0.");
    run("predict c.yaml --out o --table new.csv --format json");
    expect_ok();
    expect_out("{\"sample\": 1, \"text\": \"some\\nawful music\", \"class\": 0, \"name\": \"bad\", "
               "\"probability\": 0.");
    assert_int_equal(shell("mv away.csv r.csv"), 0);
    run("predict c.yaml --out o --format csv"); /* as a split is predicted */
    expect_ok();
    memcpy(with, last.out, sizeof with);
    run("predict c.yaml --out o --table r.csv --format csv");
    expect_ok();
    int lines = 0;
    for (char *line = strtok(with, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
        char *end = strrchr(line, ',');
        assert_non_null(end);
        *end = '\0';
        if (strstr(last.out, line) == NULL) fail_msg("no line '%s'", line);
    }
    assert_int_equal(lines, 1 + ROWS / 5);
    run("sample o --prompt the");
    assert_int_not_equal(last.code, 0);
    expect(last.code, "the run in o has learned what texts are, not how they go on");
    const char *seen = on_terminal(60, true, "predict c.yaml --out o --count 40");
    assert_non_null(strstr(seen, "...      "));
    for (const char *at = seen; (at = strchr(at, '\n')) != NULL; at++)
        assert_true(strcspn(at + 1, "\r\n") <= 60);
}

/* The vocabulary that was learned is told from any other. */
static void another_vocabulary_is_refused(void **state)
{
    (void)state;
    static const char *const verbs[] = {"eval c.yaml --out o", "predict c.yaml --out o",
                                        "predict c.yaml --out o --table new.csv",
                                        "train c.yaml --out o --resume --epochs 9"};
    write_text("new.csv", "review\ngreat\n");
    assert_int_equal(shell("cp o/vocabulary.txt kept.txt && sed 's/^river$/rivers/' kept.txt > "
                           "other.txt && ! cmp -s kept.txt other.txt"),
                     0);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(shell("cp other.txt o/vocabulary.txt"), 0);
        run("%s", verbs[k]);
        expect(5, "has learned the tokens of another vocabulary: its hash is ");
        assert_int_equal(shell("cp kept.txt o/vocabulary.txt"), 0);
        run("%s --set data.words=null --set data.tokenizer=other.txt", verbs[k]);
        expect(5, "");
        assert_int_equal(shell("cp kept.txt o/vocabulary.txt && echo river >> o/vocabulary.txt"),
                         0);
        run("%s", verbs[k]);
        expect(4, "behind the last token that the first line counts");
        assert_int_equal(
            shell("rm o/vocabulary.txt && echo '{\"model\": {\"type\": \"BPE\", \"vocab\": "
                  "{\"a\": 0, \"b\": 0}, \"merges\": []}}' > o/tokenizer.json"),
            0);
        run("%s", verbs[k]); /* it says that two tokens have one number */
        expect(4, "tokenizer.json");
        assert_int_equal(shell("rm o/tokenizer.json && cp kept.txt o/vocabulary.txt"), 0);
    }
    assert_int_equal(shell("rm o/vocabulary.txt"), 0);
    run("%s", verbs[2]);
    expect(3, "has neither tokenizer.json nor vocabulary.txt, which the training wrote there");
    assert_int_equal(shell("cp kept.txt o/vocabulary.txt"), 0);
    run("%s --set data.text_column=null --set data.level=char --set data.words=null", verbs[0]);
    expect(2, "data.level is for a table with a text");
    write_text("d.yaml",
               "data: {table: r.csv, ignore: [id], targets: [label], test_fraction: 0.2}\n"
               "model: {name: mlp}\n");
    run("predict d.yaml --out o --table new.csv");
    expect(5, "columns.txt' is of a run with data.text_column, but the configuration has none");
}

/* ---------------------------------------------------------------- what is wrong */

static void bad_columns_are_named(void **state)
{
    (void)state;
    static const char csv[] = "id,review,label\n1,a b,good\n2,c,bad\n";
    refuses(csv, "--set data.text_column=rewiev", 2, "has no column 'rewiev', expected the name");
    refuses(csv, "--set data.text_column=label", 2,
            "'x.csv': column 'label' has the text, but is a target, too");
    refuses(csv, "--set data.ignore=[id,review]", 2,
            "column 'review' has the text, but is left out (data.ignore)");
    refuses(csv, "--set data.ignore=null", 2,
            "'x.csv' has 1 column beside the text 'review' and targets: id; a network of texts has "
            "no other inputs, so drop it (data.ignore: [...])");
    refuses("review,label,a,b\na b,good,1,z\nc,bad,2,z\n", "--set data.ignore=null", 2,
            "'x.csv' has 2 columns beside the text 'review' and targets: a, b; a network of");
    refuses(csv, "--set data.context=0", 2, "data.context is '0', expected an integer from 1");
    refuses(csv, "--set data.context=1", 2,
            "data.context is 1, expected at least 2: the token of the class, and one of the text");
    refuses(csv, "--set data.level=char", 2, "data.words is for data.level: word or bpe; drop it");
    refuses(csv, "--set data.tokenizer=v.txt", 2, "and data.tokenizer both say which words");
    static const char *const keys[] = {"level: word", "words: 10", "tokenizer: v.txt",
                                       "context: 9"};
    for (int k = 0; k < 4; k++) {
        static char text[300];
        snprintf(text, sizeof text, "data: {table: x.csv, ignore: [id], %s}\nmodel: {name: mlp}\n",
                 keys[k]);
        write_text("p.yaml", text);
        run("train p.yaml --steps 1");
        expect(2, "is for a table with a text; give data.text_column, the column that has it, or "
                  "drop this");
    }
    write_text("p.yaml", "data: {table: x.csv, ignore: [id]}\nmodel: {name: mlp}\n");
    run("train p.yaml --print-config");
    expect_ok();
    assert_null(strstr(last.out, "context:"));
    run("train p.yaml --steps 1");
    expect_ok();
}

static void bad_rows_are_named(void **state)
{
    (void)state;
    static const char missing[] = "id,review,label\n1,a b,good\n2,NA,bad\n3,c,bad\n";
    static const char bytes[] = "id,review,label\n1,\"a\nb\",good\n2,\"c \"\"\xff\"\"\",bad\n";
    refuses(missing, "", 4,
            "x.csv, line 3: column 'review' has no value, expected a text in every row; "
            "data.missing: mean takes it as one without words");
    refuses(missing, "--set data.missing=mean", 0, "");
    refuses(bytes, "", 4,
            "'x.csv, line 4': byte 3, which is 0xff, is no part of a character in UTF-8");
    refuses(bytes, "--set data.level=char --set data.words=null", 4, "'x.csv, line 4': byte 3, ");
    refuses(bytes, "--set data.level=byte --set data.words=null", 0, "");
    refuses(bytes, "--set data.level=bpe --set data.words=null", 0, "");
    refuses("id,review,label\n1,NA,good\n2,,bad\n", "--set data.missing=mean", 2,
            "a vocabulary of words: the text is empty");
    /* A character that another vocabulary has not, and what a table to test with has wrong. */
    write_text("v.txt", "lockstep vocabulary 1 char 2\na\nb\n");
    refuses("id,review,label\n1,ab,good\n2,abc,bad\n",
            "--set data.level=char --set data.words=null --set data.tokenizer=v.txt", 4,
            "'x.csv, line 3': the character U+0063 at byte 2 is not in the vocabulary");
    write_text("y.csv", bytes);
    refuses("id,review,label\n1,ab,good\n2,abc,bad\n",
            "--set data.level=char --set data.words=null --set data.test_table=y.csv", 4,
            "'y.csv, line 4': byte 3, which is 0xff,");
    write_text("f.json", "{}");
    refuses(missing, "--set data.words=null --set data.tokenizer=f.json", 4, "f.json");
    write_text("m.yaml", "data: {name: digits}\nmodel: {name: encoder, masked: true, depth: 1, "
                         "heads: 2, width: 8}\n");
    run("train m.yaml --steps 1");
    expect(2, "masked is true, but samples are neither tokens nor frames");
}

/* ---------------------------------------------------------------- looking at it */

static void data_is_read_as_words(void **state)
{
    (void)state;
    write_reviews("r.csv", ROWS,
                  "400,,good\n401,the the the the the the the the the the the the the "
                  "the the the the,bad\n");
    write_text("c.yaml", config);
    run("data show c.yaml --count 2");
    expect(4, "r.csv, line 402: column 'review' has no value");
    write_text("w.yaml",
               "data: {table: r.csv, text_column: review, targets: [label], ignore: [id], "
               "level: word, words: 12, context: 16, missing: mean}\n"
               "model: {name: encoder}\n");
    run("data show w.yaml --first 399");
    expect_ok();
    expect_out("w.yaml: of 402 training rows of 16 tokens, each with its row, its class and");
    expect_out(
        "\n     400  good  \n     401  bad   the the the the the the the the the the the the the "
        "the the ...\n");
    run("data show w.yaml --class 1 --count 1");
    expect_ok();
    assert_null(strstr(last.out, "  bad "));
    run("data stats w.yaml");
    expect_ok();
    expect_out("\nvocabulary      12 (level word), of which 11 occur\n");
    expect_out("\nunknown         ");
    expect_out("\ntexts           of 0 to 17 tokens, ");
    expect_out("\ncut             1, which have more than 15 tokens (data.context, less one)\n");
    expect_out("\nwithout tokens  1\n");
    expect_out("\n1 good ");
    run("data check w.yaml");
    expect_ok();
    expect_out("402 rows of 16 tokens, and one of 2 classes\n");
    expect_out("w.yaml: nothing is wrong\n");
    run("data check c.yaml");
    expect(4, "r.csv, line 402: column 'review' has no value");
    run("data vocabulary w.yaml --out w.txt");
    expect_ok();
    expect_out("12 tokens (level word), hash ");
    run("data show w.yaml --out x.png");
    expect(2, "--out is for images, but w.yaml is a text; drop it");
    write_text("b.yaml", "data: {table: r.csv, context: 9}\nmodel: {name: mlp}\n");
    run("data check b.yaml");
    expect(2, "data.context is for a table with a text");
}

/* Targets may be numbers. */
static void numbers_are_learned_from_texts(void **state)
{
    (void)state;
    static char csv[8192] = "t,y\n";
    for (int i = 0; i < 60; i++)
        snprintf(csv + strlen(csv), 60, "%s music,%d\n", i % 2 ? "great" : "awful", i % 2 ? 9 : 3);
    write_text("n.csv", csv);
    write_text("n.yaml",
               "data: {table: n.csv, text_column: t, level: word, context: 4}\n"
               "model: {name: encoder, depth: 1, heads: 2, width: 8, masked: true}\n"
               "train: {epochs: 30, batch_size: 10}\noptimizer: {name: adam, lr: 0.01}\n");
    run("train n.yaml --out n");
    expect_ok();
    write_text("new.csv", "t\ngreat\n");
    run("predict n.yaml --out n --table new.csv --format json");
    expect_ok();
    expect_out("{\"sample\": 0, \"text\": \"great\", \"predicted\": {\"y\": ");
    run("data show n.yaml --count 1");
    expect_ok();
    expect_out("\n       0  3  awful music\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_becomes_tokens),
        cmocka_unit_test(a_vocabulary_is_of_its_rows),
        cmocka_unit_test(an_encoder_learns_which_words_tell),
        cmocka_unit_test(new_texts_are_predicted),
        cmocka_unit_test(another_vocabulary_is_refused),
        cmocka_unit_test(bad_columns_are_named),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(data_is_read_as_words),
        cmocka_unit_test(numbers_are_learned_from_texts),
    };
    return cmocka_run_group_tests_name("sentences", tests, set_up, tear_down);
}
