/* The program on a text: perplexity and tokens a second wherever a training tells of itself, and what is by sample alone. */
#include "cli/program.h"

#include <math.h>

static const char keys[] = "data: {text: text.txt, level: byte, context: 10, cache: none}\n"
                           "model: {name: tiny, layers: [{embedding: {units: 8}}, {dense: 256}]}\n"
                           "train: {batch_size: 8, replicas: 2, epochs: 2}\n"
                           "validation: {fraction: 0.2}\n"
                           "log: {interval: 4}\n";

/* 1,070 bytes: 856 to train with, in 86 windows, and 214, in 22. */
static void write_data(void)
{
    char text[3000] = "";
    for (int i = 0; i < 60; i++) sprintf(text + strlen(text), "line %d of a text\n", i);
    write_text("text.txt", text);
    write_text("text.yaml", keys);
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

/* The last digits are ours, not libm's. */
static void is_exp(double perplexity, double loss)
{
    assert_true(fabs(perplexity / exp(loss) - 1) < 1e-14);
}

static void lines_have_perplexity_and_tokens(void **state)
{
    (void)state;
    write_data();
    run("train text.yaml --set data.valid_text=text.txt");
    expect(2, "and data.valid_text both say what to validate with; drop one");
    run("train text.yaml --out run");
    expect_ok();
    expect_out("[0/86 (0%)]\tLoss: ");
    expect_out("\tPerplexity: ");
    expect_out(" tokens/s\n");
    expect_out("\nValidation set: Average loss: ");
    expect_out(", Perplexity: ");
    expect_out("/213 (");
    expect_out(" ppl ");
    assert_null(strstr(last.out, "samples/s"));
    assert_true(there("run/vocabulary.txt"));
    run("eval text.yaml --out run --split validation");
    expect_ok();
    expect_out(", Perplexity: ");
    expect_out("/213 (");
    run("eval text.yaml --out run --split validation --format json");
    expect_ok();
    json_t *json = json_loads(last.out, 0, NULL);
    assert_non_null(json);
    assert_true(number_of(json, "valid_counted") == 213);
    assert_true(number_of(json, "valid_samples") == 22);
    is_exp(number_of(json, "valid_perplexity"), number_of(json, "valid_loss"));
    json_decref(json);
}

static void records_and_tables_have_them_too(void **state)
{
    (void)state;
    write_data();
    run("train text.yaml --record run.json --set log.csv=log.csv --set log.tensorboard=board");
    expect_ok();
    json_t *record = read_json_file("run.json");
    const json_t *epoch = json_array_get(json_object_get(record, "epochs"), 1);
    assert_true(number_of(epoch, "train_counted") == 855);
    assert_true(number_of(epoch, "train_samples") == 86);
    assert_true(number_of(epoch, "valid_counted") == 213);
    is_exp(number_of(epoch, "train_perplexity"), number_of(epoch, "train_loss"));
    is_exp(number_of(epoch, "valid_perplexity"), number_of(epoch, "valid_loss"));
    const double ratio = number_of(epoch, "tokens_per_second") /
                         number_of(epoch, "samples_per_second");
    assert_true(fabs(ratio - 855.0 / 86) < 1e-6);
    char table[OUTPUT_SIZE], expected[200];
    read_text(table, "log.csv");
    assert_ptr_equal(strstr(table, "epoch,step,train_loss,train_perplexity,train_accuracy,"
                                   "train_top5_accuracy,valid_loss,valid_perplexity,"),
                     table);
    assert_non_null(strstr(table, ",lr,seconds,samples_per_second,tokens_per_second\n1,11,"));
    snprintf(expected, sizeof expected, "\n2,22,%.9g,%.9g,", number_of(epoch, "train_loss"),
             number_of(epoch, "train_perplexity"));
    assert_non_null(strstr(table, expected));
    const char *row = strstr(table, "\n2,22,") + 1;
    int commas[2] = {0, 0};
    for (const char *at = table; *at != '\n'; at++) commas[0] += *at == ',';
    for (const char *at = row; *at != '\n'; at++) commas[1] += *at == ',';
    assert_int_equal(commas[0], commas[1]);
    assert_int_equal(shell("grep -aq perplexity/valid board/* && grep -aq tokens_per_second/step "
                           "board/*"),
                     0);
    const double rate = number_of(epoch, "tokens_per_second");
    snprintf(expected, sizeof expected, ",%.9g,%.9g\n", number_of(epoch, "samples_per_second"),
             rate);
    assert_non_null(strstr(row, expected));
    assert_int_equal(
        shell("tr -d , <out.txt | grep -q '^epoch 2/2 .*  %lld tokens/s$'", (long long)rate), 0);
    run("report run.json");
    expect_ok();
    expect_out("valid ppl");
    snprintf(expected, sizeof expected, "  %.2f  ", number_of(epoch, "valid_perplexity"));
    expect_out(expected);
    json_decref(record);
}

static void events_have_them_too(void **state)
{
    (void)state;
    write_data();
    run("train text.yaml --format json");
    expect_ok();
    const char *line = strstr(last.out, "{\"event\": \"step\"");
    assert_non_null(line);
    json_t *step = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    is_exp(number_of(step, "perplexity"), number_of(step, "loss"));
    const double ratio = number_of(step, "tokens_per_second") /
                         number_of(step, "samples_per_second");
    assert_true(ratio > 9 && ratio < 10 + 1e-6);
    json_decref(step);
    run("train text.yaml --format csv");
    expect_ok();
    expect_out(",test_micro_f1,perplexity,tokens_per_second,train_perplexity,valid_perplexity,");
    /* Of a class a sample there are none. */
    write_text("tiny.yaml", tiny);
    run("train tiny.yaml --format json");
    expect_ok();
    assert_null(strstr(last.out, "perplexity"));
    assert_null(strstr(last.out, "tokens"));
    run("train tiny.yaml --set log.csv=log.csv");
    expect_ok();
    expect_out(" samples/s");
    char table[OUTPUT_SIZE];
    read_text(table, "log.csv");
    assert_null(strstr(table, "perplexity"));
    assert_null(strstr(table, "tokens"));
}

static void what_is_by_sample_is_refused(void **state)
{
    (void)state;
    write_data();
    run("train text.yaml --out run --quiet");
    expect_ok();
    run("eval text.yaml --out run --split validation --metrics");
    expect(2, "--metrics wants samples that have one class, but these have one for each of 10 "
              "positions; without it there are loss, perplexity and accuracy");
    run("eval text.yaml --out run --split validation --worst 3 worst.png");
    expect(2, "--worst wants samples that have one class");
    run("predict text.yaml --out run --split validation");
    expect(2, "predictions are of samples that have one class, but these have one for each of 10 "
              "positions; 'lockstep sample' writes what comes behind a text, and 'lockstep eval' "
              "has loss, perplexity and accuracy");
    assert_string_equal(last.out, "");
}

static void samples_are_shown(void **state)
{
    (void)state;
    write_data();
    run("data show text.txt --count 2 --first 1");
    expect_ok();
    assert_string_equal(
        last.out,
        "text.txt: 2 of 9 training samples of 128 tokens, each with the last "
        "target behind it\n"
        "       1   a text\\nline 8 of a text\\nline 9 of a text\\nline 10 of a text\\nline 11 "
        "of a text\\nline 12 of a text\\nline 13 of a text\\nline 14 of a te\n"
        "       2  ext\\nline 15 of a text\\nline 16 of a text\\nline 17 of a text\\nline 18 of "
        "a text\\nline 19 of a text\\nline 20 of a text\\nline 21 of a text\n");
    run("data show text.txt --first 8 --level word");
    expect(2, "--first is '8', expected an integer from 0 to 2");
    run("data show text.txt --first 2 --level word");
    expect_ok();
    expect_out("\n       2   text\\n line 43 of a text\\n line 44");
    run("data show text.txt --augment");
    expect(2, "--augment is for images, but text.txt is a text; drop it");
    run("data show text.txt --class 1");
    expect(2, "--class is for images");
    run("data show text.yaml --count 1");
    expect_ok();
    expect_out("       0  line 0 of a\n");
    write_text("bad.txt", "a\x01z\\\t\xC3");
    run("data show bad.txt");
    expect(4, "bad.txt': byte 5, which is 0xc3, is no part of a character in UTF-8");
    write_text("bad.yaml", "data: {text: bad.txt, level: byte, context: 4}\nmodel: {name: mlp}\n");
    run("data show bad.yaml");
    expect_ok();
    expect_out("       0  a?z\\\\\\t\n");
}

static void statistics_are_counted(void **state)
{
    (void)state;
    write_text("text.yaml",
               "data: {text: ., level: word, context: 2, cache: none}\nmodel: {name: mlp}\n");
    write_text("a.train.txt", "b a b a a\n\nb c\n");
    write_text("a.valid.txt", "a d\n");
    write_text("a.test.txt", "d d d d");
    run("data stats text.yaml");
    expect_ok();
    expect_out("text.yaml: 10 training tokens, in 5 samples of 2\n"
               "vocabulary      5 (level word), of which 4 occur\nits hash        ");
    expect_out("\nunknown         0, 0.00% of the tokens\n"
               "lines           3, of 0 to 5 tokens, 2.3 on average\n");
    assert_int_equal(
        shell("'%s' data stats text.yaml | tr -s ' ' | grep -q '^b 0 3 30.00%%$'", program()), 0);
    assert_int_equal(
        shell("'%s' data stats text.yaml | tr -s ' ' | grep -q '^c 3 1 10.00%%$'", program()), 0);
    assert_int_equal(
        shell("'%s' data stats text.yaml | tr -s ' ' | grep -q '^<eos> 2 3 30.00%%$'", program()),
        0);
    run("data stats text.yaml --test");
    expect_ok();
    expect_out("5 test tokens, in 2 samples of 2\n");
    expect_out("unknown         4, 80.00% of the tokens\nlines           1, of 4 to 4 tokens");
    run("data check text.yaml");
    expect_ok();
    assert_string_equal(last.out, "training    10 tokens, in 5 samples of 2\n"
                                  "unknown         0, 0.00% of the tokens\n"
                                  "validation  3 tokens, in 1 samples of 2\n"
                                  "unknown         1, 33.33% of the tokens\n"
                                  "test        5 tokens, in 2 samples of 2\n"
                                  "unknown         4, 80.00% of the tokens\n"
                                  "text.yaml: nothing is wrong\n");
    write_text("line.txt", "ab\nabc");
    write_text("line.yaml",
               "data: {text: line.txt, context: 2, cache: none}\nmodel: {name: mlp}\n");
    run("data stats line.yaml");
    expect_ok();
    expect_out("\nlines           2, of 2 to 3 tokens, 2.5 on average\n");
    write_text("a.test.txt", "d d\xFF d");
    run("data check text.yaml");
    expect(4, "a.test.txt': byte 3, which is 0xff, is no part of a character in UTF-8");
    expect_out("validation  3 tokens");
}

/* Without a configuration, of which one could choose another context. */
static void a_short_text_has_statistics(void **state)
{
    (void)state;
    write_text("short.txt", "a b a\n");
    run("data stats short.txt --level word");
    expect_ok();
    expect_out("short.txt: 4 training tokens, in 3 samples of 1\n");
    expect_out("\na           0      2  50.00%\n");
    write_text("short.yaml", "data: {text: short.txt, level: word, cache: none}\nmodel: {name: "
                             "mlp}\n");
    run("data stats short.yaml");
    expect(2, "choose a context of at most 3");
}

static void vocabularies_are_written(void **state)
{
    (void)state;
    write_data();
    run("data vocabulary text.txt --level bpe --words 260 --out t.json");
    expect_ok();
    assert_ptr_equal(strstr(last.out, "t.json: 260 tokens (level bpe), hash "), last.out);
    char hash[20];
    assert_int_equal(sscanf(strstr(last.out, "hash ") + 5, "%16s", hash), 1);
    run("data stats text.txt --tokenizer t.json");
    expect_ok();
    expect_out("\nvocabulary      260 (level bpe), of which ");
    expect_out(hash);
    expect_out("\nlines           60, of 12 to 13 tokens, ");
    /* A token may end several lines. */
    write_text("feeds.txt", "a\n\n\n\nb\na\n\n\n\nb\n");
    write_text("feeds.yaml", "data: {text: feeds.txt, level: bpe, words: 257, context: 2, cache: "
                             "none}\nmodel: {name: mlp}\n");
    run("data stats feeds.yaml");
    expect_ok();
    expect_out("\nlines           10, of 0 to 1 tokens, 0.4 on average\n");
    expect_out("\n'\\n\\n'");
    run("data vocabulary text.txt --out v.txt");
    expect_ok();
    expect_out("v.txt: 21 tokens (level char), hash ");
    assert_true(there("v.txt"));
    run("data vocabulary text.txt --level bpe --words 100 --out u.json");
    expect(2, "a vocabulary of byte pairs: 100 tokens, expected at least 256");
    assert_false(there("u.json"));
    run("data vocabulary feeds.yaml --out w.json"); /* of a configuration, which has been read */
    expect_ok();
    expect_out("w.json: 257 tokens (level bpe), hash ");
    run("data vocabulary text.txt");
    expect(2, "data vocabulary needs a file to write: give --out FILE");
    run("data vocabulary");
    expect(2, "data vocabulary needs to know of what");
    run("data vocabulary digits --out u.json");
    expect(2, "data vocabulary: digits is no text");
    run("data stats text.txt --level byte --words 300");
    expect(2, "data.words is for data.level: word or bpe; drop it");
}

/* A run keeps its tokenizer, which eval and a resumed run take, whatever the text would give. */
static void a_run_has_byte_pairs(void **state)
{
    (void)state;
    write_data();
    write_text("bpe.yaml",
               "data: {text: text.txt, level: bpe, words: 270, context: 10, cache: none}\n"
               "model: {name: tiny, layers: [{embedding: {units: 8}}, {dense: 270}]}\n"
               "train: {batch_size: 8, replicas: 2, epochs: 1}\nvalidation: {fraction: 0.2}\n");
    run("train bpe.yaml --out run --quiet");
    expect_ok();
    assert_true(there("run/tokenizer.json"));
    assert_false(there("run/vocabulary.txt"));
    run("eval bpe.yaml --out run --split validation");
    expect_ok();
    expect_out(", Perplexity: ");
    write_text("other.txt", "quite other words, and no digits at all\n");
    run("eval bpe.yaml --out run --set data.test_text=other.txt");
    expect_ok();
    expect_out(", Perplexity: ");
    run("train bpe.yaml --out run --resume --epochs 2 --quiet");
    expect_ok();
    write_text("run/tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}");
    run("eval bpe.yaml --out run --split validation");
    expect(4, "run/tokenizer.json' is no tokenizer that is known here: model.type is Unigram");
}

/* Means over times ahead are the loss, which is of standardised numbers. */
static void series_have_errors_by_time(void **state)
{
    (void)state;
    char text[4000] = "day,a,b\n";
    for (int i = 0; i < 120; i++)
        sprintf(text + strlen(text), "d%d,%d,%d\n", i, 100 * (i % 7), (i * i) % 5);
    write_text("s.csv", text);
    write_text("s.yaml", "data: {series: s.csv, context: 8, horizon: 3, test_fraction: 0.2}\n"
                         "model: {layers: [flatten, {dense: 6}]}\n"
                         "train: {batch_size: 8, replicas: 2}\n");
    run("train s.yaml --out run --quiet");
    expect_ok();
    run("eval s.yaml --out run");
    expect_ok();
    expect_out("\ntime ahead ");
    expect_out("\nall ");
    run("eval s.yaml --out run --format json");
    expect_ok();
    json_t *json = json_loads(last.out, 0, NULL);
    const json_t *ahead = json_object_get(json, "test_horizons");
    assert_int_equal(json_array_size(ahead), 3);
    double sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const json_t *one = json_array_get(ahead, i);
        assert_true(number_of(one, "ahead") == (double)i + 1);
        assert_true(number_of(one, "mae") * number_of(one, "mae") <= number_of(one, "mse"));
        sum += number_of(one, "mse");
    }
    assert_true(fabs(sum / 3 / number_of(json, "test_loss") - 1) < 1e-5);
    json_decref(json);
}

/* Squares that no exact sum has are no other number. */
static void errors_too_large_are_no_numbers(void **state)
{
    (void)state;
    char text[1000] = "a\n";
    for (int i = 0; i < 60; i++)
        sprintf(text + strlen(text), "%s\n", i == 55 ? "3e9" : i % 2 > 0 ? "1" : "-1");
    write_text("s.csv", text);
    write_text("s.yaml", "data: {series: s.csv, context: 2, horizon: 1, test_fraction: 0.2}\n"
                         "model: {layers: [flatten, {dense: 1}]}\n");
    run("train s.yaml --out run --quiet");
    expect_ok();
    run("eval s.yaml --out run");
    expect_ok();
    expect_out("\n1           nan  nan\n");
    shell("sed -i s/3e9/1e9/ s.csv");
    run("eval s.yaml --out run");
    expect_ok();
    assert_null(strstr(last.out, "nan"));
}

/* A text to test with is not what a network learns, where there is no other. */
static void a_folder_has_a_text_for_training(void **state)
{
    (void)state;
    write_text("x.yaml", "data: {text: x, context: 2, cache: none}\nmodel: {layers: [{embedding: "
                         "3}]}\n");
    shell("mkdir x && printf abcabc >x/some.txt");
    run("train x.yaml --quiet");
    expect_ok();
    shell("mv x/some.txt x/some.test.txt");
    run("train x.yaml --quiet");
    expect(2, "data.text is a folder with 1 text file (.txt), none of them called train; give one");
}

/* As those of a table, and no mean that a configuration would take. */
static void columns_of_series_are_listed(void **state)
{
    (void)state;
    write_text("s.csv", "day,a,b\nd1,1,7\nd2,2,7\nd3,3,7\nd4,6,\n");
    write_text("s.yaml", "data: {series: s.csv, context: 2, horizon: 1, missing: mean, targets: "
                         "[a]}\n"
                         "model: {layers: [flatten, {dense: 1}]}\n");
    run("data stats s.yaml");
    expect_ok();
    expect_out("s.csv: 4 rows\ncolumn  mean      std  least  most  missing  texts\n"
               "day        -        -      -     -        0      4\n"
               "a          3  1.87083      1     6        0      -\n"
               "b          7        0      7     7        1      -\n"
               "\ns.yaml: 2 training samples of 2x2\n");
    assert_null(strstr(last.out, "for a configuration"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_have_perplexity_and_tokens),
        TEST(records_and_tables_have_them_too),
        TEST(events_have_them_too),
        TEST(what_is_by_sample_is_refused),
        TEST(samples_are_shown),
        TEST(statistics_are_counted),
        TEST(a_short_text_has_statistics),
        TEST(vocabularies_are_written),
        TEST(a_run_has_byte_pairs),
        TEST(series_have_errors_by_time),
        TEST(errors_too_large_are_no_numbers),
        TEST(a_folder_has_a_text_for_training),
        TEST(columns_of_series_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
