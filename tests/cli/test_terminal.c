/* The progress bar and sheets of samples, on a terminal of a known width. */
#include "cli/terminal.h"

/* Half a second or more, even on a fast machine: the bar is drawn every tenth. Sanitizers make it
 * slow enough in fewer steps. */
#if LKT_SANITIZER
#define STEPS "120"
#else
#define STEPS "600"
#endif
static const char longer[] = "data: {name: digits, samples: 2000, test_samples: 10}\n"
                             "model: {name: mlp, hidden: [512]}\n"
                             "train: {steps: " STEPS ", batch_size: 10, replicas: 2, workers: 1}\n";

/* Number of times the bar was drawn; fails when a line is wider than the terminal. */
static int drawings(const char *seen, int columns)
{
    int count = 0;
    for (const char *at = seen; (at = strstr(at, "\r\033[K")) != NULL;) {
        at += 4;
        const size_t width = strcspn(at, "\r\n");
        if (strncmp(at, "epoch ", 6) != 0) continue;
        if (width >= (size_t)columns) fail_msg("wider than %d: %.*s", columns, (int)width, at);
        count++;
    }
    return count;
}

static void the_bar_is_drawn_and_removed(void **state)
{
    (void)state;
    write_text("c.yaml", longer);
    const double began = (double)time(NULL);
    const char *seen = on_terminal(100, true, "train c.yaml");
    const double seconds = (double)time(NULL) - began + 1;
    const int count = drawings(seen, 100);
    if (count < 1) fail_msg("no bar in: %s", seen);
    assert_true(count <= 10 * seconds + 1);
    assert_non_null(strstr(seen, "] "));
    assert_non_null(strstr(seen, "  loss "));
    assert_non_null(strstr(seen, "  ETA "));
    assert_non_null(strstr(seen, " samples/s"));
    /* It takes the place of the lines, and none is left over at the end. */
    assert_null(strstr(seen, "Train Epoch"));
    const char *at = seen, *clear = seen;
    while ((at = strstr(at, "\r\033[K")) != NULL) clear = at += 4;
    assert_null(strstr(clear, " ["));
    assert_non_null(strstr(clear, "hash "));
}

static void it_fits_any_width(void **state)
{
    (void)state;
    static const int widths[] = {200, 60, 40, 24};
    write_text("c.yaml", longer);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        assert_true(drawings(on_terminal(widths[i], true, "train c.yaml"), widths[i]) > 0);
    assert_int_equal(drawings(on_terminal(10, true, "train c.yaml"), 10), 0);
}

static void lines_go_to_the_file_and_the_bar_to_the_terminal(void **state)
{
    (void)state;
    write_text("c.yaml", longer);
    assert_true(drawings(on_terminal(80, false, "train c.yaml"), 80) > 0);
    read_text(last.out, "out.txt");
    expect_out("Train Epoch: 1 [0/2000 (0%)]\tLoss: ");
    assert_null(strchr(last.out, '\033'));
    assert_null(strchr(last.out, '\r'));
    const char *seen = on_terminal(80, true, "train c.yaml --quiet");
    assert_null(strchr(seen, '\033'));
    assert_int_equal(strncmp(seen, "hash ", 5), 0);
    seen = on_terminal(80, true, "train c.yaml --log-interval 100"); /* asked for: both */
    assert_non_null(strstr(seen, "Train Epoch: 1 [1000/2000 (50%)]"));
    assert_true(drawings(seen, 80) > 0);
    seen = on_terminal(80, true, "train c.yaml --log-format json --steps 100");
    assert_null(strchr(seen, '\033'));
}

static const char small[] = "data: {name: digits, samples: 600, test_samples: 100}\n"
                            "model: {name: mlp, hidden: [16]}\n"
                            "train: {epochs: 3, batch_size: 10, replicas: 2}\n"
                            "optimizer: {name: adam}\n";

/* With the bar an epoch leaves one line, and nothing else. */
static void an_epoch_leaves_a_line(void **state)
{
    (void)state;
    write_text("c.yaml", small);
    for (int k = 0; k < 3; k++) {
        /* Six digits of a rate do not fit beside validation, and are written shorter. */
        const char *seen = on_terminal(k == 1 ? 78 : 80, true,
                                       k == 0   ? "train c.yaml"
                                       : k == 1 ? "train c.yaml --set validation.samples=100"
                                                : "train c.yaml --set validation.every_epochs=5");
        assert_null(strstr(seen, "\r\n\r\n")); /* no empty line */
        assert_null(strstr(seen, "Average loss"));
        for (int epoch = 1; epoch <= 3; epoch++) {
            char head[32];
            int found = 0;
            snprintf(head, sizeof head, "epoch %d/3  ", epoch);
            for (const char *at = seen; (at = strstr(at, head)) != NULL; at++) {
                double train, known, test, right, valid, valid_right, seconds;
                long long rate, thousands = -1;
                const char *form =
                    k == 0   ? "epoch %*d/3  train %lf %lf%%  test %lf %lf%%  %lf s  %lld,%lld"
                    : k == 1 ? "epoch %*d/3  loss %lf  valid %lf %lf%%  test %lf %lf%%  %lf"
                             : "epoch %*d/3  train %lf %lf%%  %lf s  %lld,%lld";
                int values = 0;
                if (k == 0)
                    values = sscanf(at, form, &train, &known, &test, &right, &seconds, &rate,
                                    &thousands) > 5;
                if (k == 1)
                    values = sscanf(at, form, &train, &valid, &valid_right, &test, &right,
                                    &seconds) == 6;
                if (k == 2)
                    values = sscanf(at, form, &train, &known, &seconds, &rate, &thousands) > 3;
                found += values;
                const size_t width = strcspn(at, "\r\n");
                if (width > 80) fail_msg("wider than 80: %.*s", (int)width, at);
                if (values && strncmp(at + width - 2, "/s", 2) != 0)
                    fail_msg("no rate: %.*s", (int)width, at);
            }
            /* the last epoch is evaluated whatever was said */
            if (found != 1 && !(k == 2 && epoch == 3))
                fail_msg("%d lines of epoch %d in: %s", found, epoch, seen);
        }
    }
}

/* A field that ends in the last column is there as a whole; in one column less it is not there. */
static void fields_are_whole(void **state)
{
    (void)state;
    write_text("c.yaml", small);
    const char *seen = on_terminal(69, true, "train c.yaml --epochs 1");
    const char *line = strstr(seen, "epoch 1/1  loss ");
    const char *end = line != NULL ? strchr(line, '%') : NULL;
    if (end == NULL) fail_msg("no line in: %s", seen);
    char field[64];
    const int columns = (int)(end - line) + 1;
    const char *test = strstr(line, "  test ");
    assert_true(test != NULL && test < end);
    snprintf(field, sizeof field, "%.*s", (int)(end - test) + 1, test);
    assert_non_null(strstr(on_terminal(columns, true, "train c.yaml --epochs 1"), field));
    assert_null(strstr(on_terminal(columns - 1, true, "train c.yaml --epochs 1"), "  test "));
}

/* No line on a terminal of 80 columns is wider than it, so nothing breaks within a word. */
static void check_width(const char *seen, const char *what)
{
    int width = 0, colour = 0;
    for (const char *at = seen; *at != '\0'; at++) {
        if (*at == '\033') colour = 1;
        if (!colour && *at != '\r' && *at != '\n' && (*at & 0xc0) != 0x80) width++;
        if (colour && (*at == 'm' || *at == 'K')) colour = 0;
        if (width > 80) fail_msg("%s: wider than 80 columns: %.90s", what, at - 80);
        if (*at == '\n' || *at == '\r') width = 0;
    }
}

static void what_people_read_fits_80_columns(void **state)
{
    (void)state;
    static const char *const verbs[] = {"",       "train", "eval",    "predict", "info",   "data",
                                        "verify", "bench", "compare", "report",  "doctor", "op"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        run("%s --help", verbs[i]);
        check_width(last.out, verbs[i]);
    }
    run("--help-config");
    check_width(last.out, "--help-config");
    run("--help-layers");
    check_width(last.out, "--help-layers");
    expect_out("  stride             an integer, or [height, width], of at least 1; default 1\n");
    expect_out("of at least 1; default\n                     kernel\n");
    expect_out("  epsilon            a number above 0; default 1e-5\n");
    write_text("c.yaml", small);
    char command[4096] = "report";
    for (int i = 0; i < 8; i++) { /* eight curves that end close together */
        run("train c.yaml --record run-%d.json --seed %d", i, i);
        snprintf(command + strlen(command), sizeof command - strlen(command), " run-%d.json", i);
    }
    static const char *const locales[] = {"C", "C.UTF-8"};
    for (int i = 0; i < 2; i++) {
        setenv("LC_ALL", locales[i], 1);
        check_width(on_terminal(80, true, command), "report");
        check_width(on_terminal(80, true, "report run-0.json"), "report of one");
    }
    const char *seen = on_terminal(80, true, "doctor");
    check_width(seen, "doctor");
    assert_non_null(strstr(seen, "\r\n                              ")); /* a line that goes on */
    unsetenv("LC_ALL");
}

/* The column behind the place where each word of a line ends; their number. */
static int word_ends(int ends[40], const char *line)
{
    int count = 0;
    for (int i = 0; line[i] != '\0' && line[i] != '\r'; i++) {
        const bool over = strchr(" \r", line[i + 1]) != NULL;
        if (line[i] != ' ' && over && count < 40) ends[count++] = i + 1;
    }
    return count;
}

/* Numbers stand below their titles, and what is too wide is broken between them, at the same place in
 * every line; a file has one tab. */
static void predictions_stand_in_columns(void **state)
{
    (void)state;
    write_text("c.yaml", small);
    run("train c.yaml --save-model");
    for (int wide = 0; wide < 2; wide++) {
        const int lines = wide ? 6 : 1; /* of the terminal for one of the table */
        const char *seen = on_terminal(
            80, true,
            wide ? "predict c.yaml --init mlp.safetensors --probabilities --outputs"
                 : "predict c.yaml --init mlp.safetensors");
        const char *at = seen;
        int title[10][40], count[10], found[40], number = 0;
        check_width(seen, "predict");
        for (; *at != '\0'; at = strchr(at, '\n') + 1, number++) {
            const int words = word_ends(found, at);
            if (number < lines) {
                memcpy(title[number], found, sizeof found);
                count[number] = words;
                continue;
            }
            assert_int_equal(words, count[number % lines]);
            assert_memory_equal(found, title[number % lines], (size_t)words * sizeof *found);
        }
        assert_int_equal(number % lines, 0);
        assert_true(number > 11 * lines); /* samples of two digits, too */
    }
    int code;
    const char *seen = on_terminal_until(0, &code, 80, true,
                                         "predict c.yaml --init mlp.safetensors --format npy");
    assert_int_equal(code, 2);
    assert_non_null(strstr(seen, "--format npy writes the bytes of an array, and standard"));
    run("predict c.yaml --init mlp.safetensors --count 1");
    expect_out("sample\tclass\tprobability\tlabel\n0\t");
}

/* The text with each run of white space as one space. */
static void flatten(char *out, const char *text)
{
    size_t used = 0;
    for (; *text != '\0'; text++) {
        const bool space = strchr(" \r\n", *text) != NULL;
        if (!space || (used > 0 && out[used - 1] != ' ')) out[used++] = space ? ' ' : *text;
    }
    out[used] = '\0';
}

/* Errors, and lines that are longer than a terminal is wide, are broken between words: the words are
 * those that a file gets. */
static void sentences_are_broken_between_words(void **state)
{
    (void)state;
    static char there_[OUTPUT_SIZE], here[OUTPUT_SIZE], both[2 * OUTPUT_SIZE];
    static const struct {
        const char *arguments;
        int code;
    } commands[] = {
        {"train nowhere.yaml --data /a/folder/that/is/not/there --lr 0.1", 3},
        {"train c.yaml --data /a/folder/that/is/not/there --epochs 3", 3},
        {"info long.yaml", 0},
        {"info long.yaml --plan", 0},
        {"train c.yaml --lr 'fast, but not too fast, so that what is learned stays learned'", 2},
#if defined(LKT_HAVE_MD) /* else it says so, between lines of the other stream */
        {"data check d", 4},
#endif
        {"compare one two", 1},
        {"op 'conv2d filters=4 kernel=3x3 padding=1 stride=2 dilation=2 "
         "weight_init=kaiming_uniform "
         "no_bias in=1x9x9x3' --device ref --seconds",
         2},
    };
    static const int widths[] = {80, 56};
    write_text("c.yaml", small);
    write_text("long.yaml",
               "data: {name: digits, samples: 60, test_samples: 10}\n"
               "model:\n  layers:\n    - conv2d: {filters: 16, kernel: [3, 3], padding: 1, stride: "
               "[2, 2], weight_init: kaiming_uniform}\n    - flatten\n    - dense: 10\n");
    run("data digits --out d --samples 20 --test-samples 10");
    shell("printf a >d/train-images-idx3-ubyte");
    run("train c.yaml --steps 1 --out one");
    run("train c.yaml --steps 1 --out two --seed 2");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        run("%s", commands[i].arguments);
        if (last.code != commands[i].code)
            fail_msg("%s: exit %d", commands[i].arguments, last.code);
        snprintf(both, sizeof both, "%s%s", last.out, last.err);
        flatten(there_, both);
        for (int k = 0; k < 2; k++) {
            int code;
            const char *seen = on_terminal_until(0, &code, widths[k], true, commands[i].arguments);
            assert_int_equal(code, commands[i].code);
            flatten(here, seen);
            assert_string_equal(here, there_);
            if (k == 0) check_width(seen, commands[i].arguments);
        }
    }
}

/* A command to go on with is whole on a line of its own, to be copied. */
static void commands_are_whole(void **state)
{
    (void)state;
    write_text("a-configuration-with-a-long-name.yaml", longer);
    int code;
    const char *seen = on_terminal_until(
        SIGTERM, &code, 60, true,
        "train a-configuration-with-a-long-name.yaml --set train.steps=1000000 --out run");
    assert_int_equal(code, 143);
    assert_non_null(strstr(seen, "continue:\r\n"));
    assert_non_null(strstr(seen, "lockstep train a-configuration-with-a-long-name.yaml --set "
                                 "train.steps=1000000 --out run --resume\r\n"));
}

/* Number of times `part` stands in the text. */
static int occurrences(const char *text, const char *part)
{
    int found = 0;
    for (; (text = strstr(text, part)) != NULL; text++) found++;
    return found;
}

static void samples_are_drawn(void **state)
{
    (void)state;
    setenv("LC_ALL", "C.UTF-8", 1);
    setenv("COLORTERM", "truecolor", 1);
    const char *seen = on_terminal(80, true, "data show digits --count 6");
    assert_non_null(strstr(seen, "digits: 6 of 60,000 training samples\r\n"));
    /* Five abreast need two pixels a column: 14x7 half blocks for each of the six. */
    assert_int_equal(occurrences(seen, "\342\226\200"), 6 * 14 * 7);
    assert_int_equal(occurrences(seen, "\033[38;2;"), 6 * 14 * 7);
    assert_int_equal(occurrences(seen, "\033[48;2;0;0;0m"), occurrences(seen, "\033[48;2;0;"));
    seen = on_terminal(80, true, "data show digits --count 1");
    assert_int_equal(occurrences(seen, "\342\226\200"), 28 * 14);
    /* White above black. */
    shell("mkdir d && printf '\\0\\0\\010\\03\\0\\0\\0\\01\\0\\0\\0\\02\\0\\0\\0\\01\\377\\0' "
          ">d/train-images-idx3-ubyte && printf '\\0\\0\\010\\01\\0\\0\\0\\01\\03' "
          ">d/train-labels-idx1-ubyte");
    seen = on_terminal(80, true, "data show d");
    assert_non_null(
        strstr(seen, "\033[38;2;255;255;255m\033[48;2;0;0;0m\342\226\200\033[0m\r\n3\r\n"));
    unsetenv("COLORTERM");
    seen = on_terminal(20, true, "data show digits --count 1");
    assert_int_equal(occurrences(seen, "\342\226\200"), 14 * 7);
    assert_int_equal(occurrences(seen, "\033[38;5;"), 14 * 7);
    assert_true(occurrences(seen, "\033[38;5;16m") > 0); /* black */
    assert_true(occurrences(seen, "\033[38;5;2") > 0);   /* and greys */
    assert_true(occurrences(seen, "\033[0m\r\n") == 7);  /* each line ends without colours */
    setenv("LC_ALL", "C", 1);
    seen = on_terminal(80, true, "data show digits --count 1");
    assert_null(strchr(seen, '\033'));
    assert_non_null(strchr(seen, '@'));
    setenv("LC_ALL", "C.UTF-8", 1);
    seen = on_terminal(80, true, "data stats digits --test");
    assert_non_null(strstr(seen, "\342\226\210\342\226\210"));
    unsetenv("LC_ALL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_bar_is_drawn_and_removed),
        TEST(it_fits_any_width),
        TEST(lines_go_to_the_file_and_the_bar_to_the_terminal),
        TEST(fields_are_whole),
        TEST(an_epoch_leaves_a_line),
        TEST(what_people_read_fits_80_columns),
        TEST(predictions_stand_in_columns),
        TEST(sentences_are_broken_between_words),
        TEST(commands_are_whole),
        TEST(samples_are_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
