/* What is printed at its edges: characters, columns, axes, names; and the command to go on with. */
#include "verbs/background.h"
#include "cli/terminal.h"

/* Texts that would be something else without quotes, or end them. */
static void texts_are_read_back(void **state)
{
    (void)state;
    static const char *const names[] = {"yes", "a\\\\b", "12", "off", "null", "a b", "1e3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[300], line[64];
        snprintf(text, sizeof text,
                 "data: {samples: 20, test_samples: 10}\n"
                 "model: {name: \"%s\", layers: [flatten, dense: 10]}\n"
                 "train: {steps: 1, batch_size: 20, replicas: 2}\n",
                 names[i]);
        write_text("c.yaml", text);
        run("train c.yaml --print-config");
        expect_ok();
        snprintf(line, sizeof line, "  name: \"%s\"\n", names[i]);
        expect_out(line);
        run("train c.yaml --record r.json");
        expect_ok();
        assert_int_equal(
            shell("python3 -c \"import json, re; t = open('c.yaml').read(); "
                  "n = json.loads(re.search('name: (.*), layers', t).group(1)); "
                  "assert json.load(open('r.json'))['config']['model']['name'] == n\""),
            0);
    }
}

/* Not within one, and where something is left out it says so. */
static void long_values_are_cut_between_characters(void **state)
{
    (void)state;
    char name[2][2 * 70 + 1], cut[400];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 70; i++) memcpy(name[k] + 2 * i, k == 0 ? "é" : "ü", 3);
    for (int k = 0; k < 2; k++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "data: {samples: 20, test_samples: 10}\n"
                 "model: {name: %s, layers: [flatten, dense: 10]}\n"
                 "train: {steps: 1, batch_size: 20, replicas: 2}\n",
                 name[k]);
        write_text("c.yaml", text);
        run("train c.yaml --out o --steps %d%s", 1 + k, k == 0 ? "" : " --resume");
    }
    /* a quote, and as many of them as 60 bytes hold */
    snprintf(cut, sizeof cut, "model.name was \"%.*s..., is \"%.*s...\n", 2 * 29, name[0], 2 * 29,
             name[1]);
    if (strstr(last.err, cut) == NULL) fail_msg("no \"%s\" in:\n%s", cut, last.err);
}

/* Files may come from anywhere: nothing in them is a command for the terminal. */
static void what_files_say_is_no_command(void **state)
{
    (void)state;
    assert_int_equal(
        shell("python3 -c \""
              "import json, struct\n"
              "e = '\\x1b[2J'\n"
              "run = {'hash': 'a' + e, 'steps': 1, 'epochs': [], 'version': 'v' + e,\n"
              "       'config': {'s' + e: {'k' + e: 'x' + e}}}\n"
              "for i in range(2):\n"
              "    json.dump({**run, 'hash': e * i, 'version': e * i, 'config': {e: {e: e * i}}},\n"
              "              open(f'{i}.json', 'w'))\n"
              "    t = json.dumps({f'one{e}': {'dtype': 'U8', 'shape': [1], 'data_offsets': [0, "
              "1]},\n"
              "                    f'other{i}{e}': {'dtype': 'U8', 'shape': [1], 'data_offsets': "
              "[1, 2]}})\n"
              "    open(f'{i}.safetensors', 'wb').write(struct.pack('<Q', len(t)) + t.encode() + "
              "bytes([i, 0]))\n"
              "\""),
        0);
    static const char *const verbs[] = {"compare 0.json 1.json", "compare 1.json 0.json",
                                        "compare 0.safetensors 1.safetensors", "info 0.safetensors",
                                        "report 0.json 1.json"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        run("%s", verbs[i]);
        assert_int_equal(last.code, i < 3);
        if (strchr(last.out, '\x1b') != NULL) fail_msg("%s prints:\n%s", verbs[i], last.out);
    }
    run("compare 0.safetensors 1.safetensors");
    expect_out("tensor one?[2J, element ");
    expect_out("in one?[2J\n");
    expect_out("tensor other0?[2J is only in 0.safetensors\n");
}

/* A probability that is no number is "nan", whatever sign the processor gives it. */
static void what_is_no_number_has_no_sign(void **state)
{
    (void)state;
    write_text("c.yaml", "data: {samples: 20, test_samples: 2}\n"
                         "model: {name: net, layers: [flatten, dense: {units: 10, name: d}]}\n");
    assert_int_equal(
        shell("python3 -c \""
              "import json, struct\n"
              "n = 7840\n"
              "t = json.dumps({'d.weight': {'dtype': 'F32', 'shape': [10, 784], 'data_offsets': "
              "[0, 4 * n]},\n"
              "                'd.bias': {'dtype': 'F32', 'shape': [10], 'data_offsets': [4 * n, 4 "
              "* n + 40]}})\n"
              "w = struct.pack('<7850f', *[3e38] * 7850)\n"
              "open('w.safetensors', 'wb').write(struct.pack('<Q', len(t)) + t.encode() + w)\n"
              "\""),
        0);
    run("predict c.yaml --init w.safetensors --format csv --probabilities --outputs");
    expect_ok();
    expect_out("\n0,0,nan,");
    expect_out("nan,inf,");
    if (strstr(last.out, "-nan") != NULL) fail_msg("%s", last.out);
}

/* A table that has the width of the terminal stands in one piece. */
static void tables_fill_the_terminal(void **state)
{
    (void)state;
    char head[200];
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --record one.json");
    run("report one.json");
    expect_ok();
    const int title = (int)strcspn(last.out, "\n");
    const int columns = (int)strcspn(last.out + title + 1, "\n"); /* the hash is the longest */
    assert_true(columns > title && title > 80 && title < (int)sizeof head - 2);
    snprintf(head, sizeof head, "%.*s\r\n", title, last.out);
    assert_non_null(strstr(on_terminal(columns, true, "report one.json"), head));
    assert_null(strstr(on_terminal(columns - 1, true, "report one.json"), head));
}

static void write_record(const char *name, double last_loss, int correct)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "{\"hash\": \"0123456789abcdef\", \"steps\": 3, \"config\": {},\n"
        " \"epochs\": [{\"epoch\": 1, \"train_loss\": 1, \"test_correct\": %d, "
        "\"test_samples\": 100},\n"
        "  {\"epoch\": 2, \"train_loss\": %g, \"test_correct\": %d, \"test_samples\": 100}]}\n",
        correct, last_loss, correct);
    write_text(name, text);
}

/* A loss that falls to a 30th has a logarithmic axis; a percentage is not below 0 or above 100. */
static void axes_suit_what_they_show(void **state)
{
    (void)state;
    write_record("a.json", 0.034, 0);
    run("report a.json");
    expect_ok();
    assert_null(strstr(last.out, " 0.05 "));
    assert_null(strstr(last.out, " -"));
    write_record("a.json", 0.032, 100);
    run("report a.json");
    expect_out(" 0.05 ");
    assert_null(strstr(last.out, "105"));
    assert_null(strstr(last.out, "110"));
}

static void write_layers(const char *layers)
{
    char text[600];
    snprintf(text, sizeof text, "data: {samples: 20, test_samples: 10}\nmodel:\n  layers: [%s]\n",
             layers);
    write_text("c.yaml", text);
}

/* Running statistics are part of what is to be kept. */
static void sizes_count_statistics(void **state)
{
    (void)state;
    write_layers(
        "max_pool: 28, conv2d: {filters: 4000, kernel: 1}, batch_norm, flatten, dense: 10");
    run("info c.yaml --batch-size 4 --replicas 2");
    expect_ok();
    /* 4 bytes each: 8,000 of conv2d, 8,000 of batch norm and 8,000 statistics, 40,010 of dense */
    expect_out("0.26 MB parameters, ");
}

/* A layer's line of 80 columns is not broken, one of 81 is. */
static void lines_of_layers_fill_80_columns(void **state)
{
    (void)state;
    char name[80] = "dense_layer_0001", layers[200];
    for (int turn = 0; turn < 3; turn++) {
        snprintf(layers, sizeof layers, "flatten, dense: {name: %s, units: 10}", name);
        write_layers(layers);
        run("info c.yaml");
        expect_ok();
        const char *line = strstr(last.out, name);
        assert_non_null(line);
        const int length = (int)strcspn(line, "\n");
        if (turn == 0) { /* now so long that the line has 80 */
            assert_true(length < 80 && strstr(line, "  dense units=") < line + length);
            const size_t used = strlen(name);
            memset(name + used, 'r', (size_t)(80 - length));
            name[used + (size_t)(80 - length)] = '\0';
            continue;
        }
        assert_int_equal(strstr(line, "  dense units=") < line + length, turn == 1);
        if (turn == 1) assert_int_equal(length, 80);
        strcat(name, "r");
    }
}

/* Curves have letters: those behind z are capitals. */
static void many_runs_have_letters(void **state)
{
    (void)state;
    char command[600] = "report";
    for (int i = 1; i <= 28; i++) {
        char name[32];
        snprintf(name, sizeof name, "run-%d.json", i);
        write_record(name, 0.5, 50);
        snprintf(command + strlen(command), sizeof command - strlen(command), " %s", name);
    }
    run("%s", command);
    expect_ok();
    expect_out("\na run-1 ");
    expect_out("\nz run-26 ");
    expect_out("\nA run-27 ");
    expect_out("\nB run-28 ");
}

/* A long name is cut in a picture, and not within a character. */
static void pictures_cut_names(void **state)
{
    (void)state;
    char name[200] = "";
    for (int i = 0; i < 60; i++) strcat(name, i % 2 == 0 ? "é" : "x");
    write_record("a.json", 0.5, 50);
    assert_int_equal(shell("mv a.json '%s.json'", name), 0);
    run("report '%s.json' --svg r.svg", name);
    expect_ok();
    assert_int_equal(shell("python3 -c \"import xml.etree.ElementTree as xml; "
                           "t = [e.text for e in xml.parse('r.svg').getroot().iter() if e.text]; "
                           "assert any(x.startswith('éxéx') for x in t), t\""),
                     0);
}

/* As the C library reads them, an empty variable is none. */
static void empty_variables_are_none(void **state)
{
    (void)state;
    write_record("a.json", 0.5, 50);
    setenv("LC_ALL", "", 1);
    setenv("LC_CTYPE", "", 1);
    setenv("LANG", "C.UTF-8", 1);
    run("report a.json");
    expect_ok();
    expect_out("\u2524");
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
    unsetenv("LANG");
}

/* It can be pasted as it is, and has --resume once. */
static void the_command_to_go_on_with(void **state)
{
    (void)state;
    write_text("it's.yaml", tiny);
    static const char *const more[] = {"", " --resume"};
    for (int k = 0; k < 2; k++) {
        char arguments[200];
        shell("rm -f out.txt err.txt");
        snprintf(arguments, sizeof arguments,
                 "train \"it's.yaml\" --epochs 100000 --out 'a b' --set log.interval=1%s", more[k]);
        const pid_t child = start(arguments);
        wait_for("out.txt", "Train Epoch: ");
        kill(child, SIGTERM);
        finish(child);
        expect(143, " train 'it'\\''s.yaml' --epochs 100000 --out 'a b' --set log.interval=1 "
                    "--resume\n");
    }
}

/* Nobody reads on: the run is saved, and goes on as if nothing had happened. */
static void a_broken_pipe_saves(void **state)
{
    (void)state;
    static const char *const formats[] = {"text", "json", "csv"};
    char parts[32], whole[32];
    signal(SIGPIPE, SIG_DFL);
    write_text("c.yaml", tiny);
    run("train c.yaml --steps 200");
    expect(0, "");
    last_hash(whole);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        shell("rm -rf run");
        shell(
            "{ '%s' train c.yaml --steps 200 --out run --format %s --set log.interval=1 2>err.txt; "
            "echo $? >code.txt; } | head -1 >out.txt",
            program(), formats[i]);
        read_text(last.out, "code.txt");
        read_text(last.err, "err.txt");
        last.code = atoi(last.out);
        expect(3, "lockstep: standard output could not be written: Broken pipe\n");
        expect(3, " and saved in run; to continue: ");
        run("train c.yaml --steps 200 --out run --resume");
        expect(0, "");
        last_hash(parts);
        assert_string_equal(parts, whole);
    }
}

/* Its number is free, and the next file that is opened must not get it. */
static void closed_streams_are_no_files(void **state)
{
    (void)state;
    char parts[32], whole[32];
    write_text("c.yaml", tiny);
    run("train c.yaml --steps 30");
    last_hash(whole);
    static const struct row {
        const char *closed;
        int code;
    } rows[] = {{">&- 2>err.txt", 3}, {">&- 2>&- <&-", 3}, {">out.txt 2>&- <&-", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shell("rm -rf run; : >err.txt");
        last.code = shell("'%s' train c.yaml --steps 20 --out run --record r.json %s", program(),
                          rows[i].closed);
        read_text(last.err, "err.txt");
        expect(rows[i].code,
               i == 0 ? "lockstep: standard output could not be written: Bad file descriptor\n"
                      : "");
        run("train c.yaml --steps 30 --out run --resume");
        expect(0, "");
        last_hash(parts);
        assert_string_equal(parts, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(texts_are_read_back),
        TEST(long_values_are_cut_between_characters),
        TEST(what_files_say_is_no_command),
        TEST(what_is_no_number_has_no_sign),
        TEST(tables_fill_the_terminal),
        TEST(axes_suit_what_they_show),
        TEST(many_runs_have_letters),
        TEST(empty_variables_are_none),
        TEST(pictures_cut_names),
        TEST(sizes_count_statistics),
        TEST(lines_of_layers_fill_80_columns),
        TEST(the_command_to_go_on_with),
        TEST(a_broken_pipe_saves),
        TEST(closed_streams_are_no_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
