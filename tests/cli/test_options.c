/* The command line: help, version, and every way to get it wrong. */
#include "cli/program.h"

#include "cli/verbs/list.h"

#define NAME(ID, id, ...) #id,
static const char *const verbs[] = {CLI_VERB_LIST(NAME)};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void help_names_verbs_and_exit_codes(void **state)
{
    (void)state;
    run("--help");
    expect(0, "");
    for (int i = 0; i < VERBS; i++) {
        char line[32];
        snprintf(line, sizeof line, "\n  %s ", verbs[i]);
        expect_out(line);
    }
    static const char *const codes[] = {"    0  success\n", "    2  the command line",
                                        "    3  a file could not", "  130  stopped by SIGINT",
                                        "  143  stopped by SIGTERM"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) expect_out(codes[i]);
    expect_out("\nExamples, with a configuration from ");
    run("-h");
    expect_ok();
    run("help");
    expect_ok();
    run("help verify");
    expect_ok();
    expect_out("Usage: lockstep verify CONFIG");
}

/* What help offers the parser takes, with and without a value as help says. */
static void parser_and_help_agree(void **state)
{
    (void)state;
    static char help[OUTPUT_SIZE];
    int options = 0;
    for (int i = 0; i < VERBS; i++) {
        run("%s --help", verbs[i]);
        expect_ok();
        memcpy(help, last.out, sizeof help);
        for (const char *at = help; (at = strstr(at, "--")) != NULL; at += 2) {
            char name[32], argument[32];
            if (at[-1] != ' ' || at[2] == ' ') continue;
            const char *line = at;
            while (line > help && line[-1] != '\n') line--;
            if (at - line != 6) continue; /* in a sentence */
            const int words = sscanf(at + 2, "%31[a-z-] %31[A-Z=]", name, argument);
            run("%s --%s%s --help", verbs[i], name, words == 2 ? " 1" : "");
            if (last.code != 0)
                fail_msg("%s --%s is in the help, but: %s", verbs[i], name, last.err);
            options++;
            if (words != 2) continue;
            /* An empty value is no value, and not the default. */
            char sentence[120];
            snprintf(sentence, sizeof sentence, "option --%s has an empty value, expected ", name);
            run("%s --%s ''", verbs[i], name);
            expect(2, sentence);
        }
    }
    assert_true(options > 80);
}

/* What an option that takes a value is where it is not given; of these, nothing. */
static void every_option_has_its_default(void **state)
{
    (void)state;
    static const char *const none[] = {"set", "mirror", "svg", "html"};
    int options = 0;
    for (int i = 0; i < VERBS; i++) {
        run("%s --help", verbs[i]);
        expect_ok();
        for (char *at = last.out, *next; (at = strstr(at, "\n      --")) != NULL; at = next) {
            char name[32], argument[32];
            at += 9;
            next = at;
            while (*next != '\0' && (next[0] != '\n' || next[7] != '-') &&
                   strncmp(next, "\n\n", 2) != 0 && strncmp(next, "\n  -", 4) != 0)
                next++;
            if (sscanf(at, "%31[a-z-] %31[A-Z=]", name, argument) != 2) continue;
            bool is_none = false;
            for (size_t k = 0; k < sizeof none / sizeof *none; k++)
                is_none |= strcmp(name, none[k]) == 0;
            const char end = *next;
            *next = '\0';
            if (!is_none && strstr(at, "default") == NULL)
                fail_msg("%s --%s has no default in its help", verbs[i], at);
            *next = end;
            options++;
        }
        /* Keys are spoken of where there are some. */
        const bool has_keys = strstr(last.out, "(train.") != NULL ||
                              strstr(last.out, "(log.") != NULL ||
                              strstr(last.out, "(data.") != NULL;
        assert_int_equal(has_keys, strstr(last.out, "(a name in brackets is the key") != NULL);
    }
    assert_true(options > 60);
}

/* Where a key's default is null, its help says what then happens; and each says what it is. */
static void every_key_says_what_null_is(void **state)
{
    (void)state;
    int keys = 0, nulls = 0;
    run("--help-config");
    for (char *at = last.out, *next; at != NULL && *at != '\0'; at = next) {
        next = strstr(at + 1, "\n  ");
        while (next != NULL && next[3] == ' ') next = strstr(next + 1, "\n  ");
        if (next != NULL) *next++ = '\0';
        char name[64];
        if (sscanf(at, "  %63[a-z_.] ", name) != 1 || strchr(name, '.') == NULL) continue;
        keys++;
        const char *help = strstr(at, "\n      ");
        if (help == NULL || help[7] == '(') fail_msg("%s does not say what it is", name);
        if (strstr(at, "null\n") == NULL) continue;
        nulls++;
        if (strstr(help, "null: ") == NULL && strstr(help, "null:\n") == NULL)
            fail_msg("%s does not say what null is", name);
    }
    assert_true(keys > 60 && nulls > 20);
}

static void version_says_what_it_is(void **state)
{
    (void)state;
    run("--version");
    expect_ok();
    expect_out("lockstep 0.");
    run("-V");
    expect_ok();
}

static void keys_and_layers_have_help(void **state)
{
    (void)state;
    run("--help-config");
    expect_ok();
    expect_out("optimizer.lr ");
    expect_out("a number of at least 0 and below 1");
    run("train --help-layers");
    expect_ok();
    expect_out("\nconv2d: convolution of an image; pixels outside are zero\n  filters!");
}

typedef struct mistake {
    const char *arguments;
    int code;
    const char *sentence;
} mistake;

static void mistakes_have_a_sentence(void **state)
{
    (void)state;
    static const mistake mistakes[] = {
        {"", 2, "lockstep: no verb; expected train, eval, predict, "},
        {"trian x.yaml", 2, "unknown verb 'trian'; did you mean 'train'?"},
        {"configs/mnist.yaml", 2, "unknown verb 'configs/mnist.yaml'; expected train"},
        {"train", 2, "train takes CONFIG, found 0 operands"},
        {"train a.yaml b.yaml", 2, "train takes CONFIG, found 2 operands"},
        {"compare a", 2, "compare takes A B, found 1 operand "},
        {"train x.yaml --bacth-size 3", 2,
         "unknown option --bacth-size; did you mean --batch-size?"},
        {"train x.yaml --zzzzzzzzzzz", 2,
         "unknown option --zzzzzzzzzzz; see lockstep train --help"},
        {"train x.yaml --bacth-size=3", 2,
         "unknown option --bacth-size; did you mean --batch-size?"},
        {"train x.yaml -lr 3", 2, "unknown option -lr; did you mean --lr?"},
        {"train -lr 3 x.yaml", 2, "unknown option -lr; did you mean --lr?"},
        {"train x.yaml --momentum 0.9", 2,
         "unknown option --momentum; a key of the configuration is set by --set "
         "optimizer.momentum=VALUE\n"},
        {"train x.yaml --optimizer=adam", 2,
         "unknown option --optimizer; a key of the "
         "configuration is set by --set optimizer.name=VALUE\n"},
        {"train x.yaml --weight-decay 1", 2, "is set by --set optimizer.weight_decay=VALUE\n"},
        {"train x.yaml --shuffle", 2,
         "is set by --set data.shuffle=VALUE or validation.shuffle=VALUE\n"},
        {"compare a b --momentum 1", 2, "unknown option --momentum; see lockstep compare --help"},
        {"train x.yaml lr=3", 2, "found 2 operands; a key is set by --set lr=3 (lockstep train"},
        {"train x.yaml -q", 2, "unknown option -q; see lockstep train --help"},
        {"eval x.yaml --epochs 3", 2, "eval has no option --epochs; see lockstep eval --help"},
        {"--epochs 3", 2, "lockstep without a verb has no option --epochs"},
        {"train x.yaml --lo 3", 2, "option --lo could be several; write it in full"},
        {"train x.yaml --epochs", 2, "option --epochs needs a value"},
        {"train x.yaml --quiet=yes", 2, "option --quiet takes no value"},
        {"help trian", 2, "did you mean 'train'?"},
        {"train missing.yaml", 3, "configuration missing.yaml cannot be opened: No such file"},
        {"train .", 3,
         "configuration . cannot be read: Is a directory; expected a YAML file, which says"},
        {"train tiny.yaml --lr fast", 2, "--lr: optimizer.lr is 'fast', expected a number of at"},
        {"train tiny.yaml --epochs 0", 2, "--epochs: train.epochs is '0', expected an integer of"},
        {"train tiny.yaml --epochs 1e3", 2, "train.epochs is '1e3', expected an integer"},
        {"train tiny.yaml --data ''", 2, "option --data has an empty value, expected DIR"},
        {"train tiny.yaml --set lr", 2, "--set lr: expected key=value"},
        {"train tiny.yaml --set optimizer.lrr=1", 2,
         "--set: unknown key 'optimizer.lrr'; the nearest is 'optimizer.lr'"},
        {"train tiny.yaml --set optimizer.lr=[1", 2, "--set optimizer.lr: not valid YAML"},
        {"train tiny.yaml --resume", 2, "checkpoint.resume needs the folder of checkpoints: give"},
        {"verify tiny.yaml --workers 1,x", 2, "--workers is '1,x', expected numbers of workers"},
        {"verify tiny.yaml --workers 3", 2, "expected at least two numbers to compare"},
        {"verify tiny.yaml --workers 1,5", 2, "--workers has 5, expected at most 4: each worker"},
        {"predict tiny.yaml --count none", 2, "--count is 'none', expected an integer of at least"},
        {"eval tiny.yaml", 2, "no weights; give --init FILE"},
        {"train tiny.yaml --set model.layers=[flatten]", 2,
         "model.name is 'mlp', but there are model.layers too; drop one, or choose another name\n"},
        {"train tiny.yaml --set model.name=own --set model.layers=[flatten] --set model.hidden=3",
         2, "model.hidden is for model.name 'mlp', not for model.layers; drop it\n"},
        {"train tiny.yaml --set data.name=fashion", 3, "; data.name calls it fashion_mnist\n"},
        {"op nope", 2, "op: unknown layer 'nope'; lockstep --help-layers lists them\n"},
        {"report .", 3, "expected a record, as train --out or --record writes it\n"},
        {"info .", 3, "there is no checkpoint in .; expected a folder that train --out wrote\n"},
    };
    write_text("tiny.yaml", tiny);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        run("%s", mistakes[i].arguments);
        expect(mistakes[i].code, mistakes[i].sentence);
        assert_string_equal(last.out, "");
    }
}

/* What a file sets for one network or kind of data can be taken back where another is chosen. */
static void null_says_nothing(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --steps 1 --quiet --set model.name=own --set 'model.layers=[flatten, dense: "
        "10]' "
        "--set model.hidden=null");
    expect_ok();
    run("train c.yaml --steps 1 --quiet --set data.test_fraction=0.5");
    expect(2, "data.test_fraction is not known to digits");
    run("train c.yaml --steps 1 --quiet --set data.test_fraction=null");
    expect_ok();
}

/* A section where a key is expected; nothing where a value is; nothing where an operand is. */
static void what_is_empty_or_a_section_is_said(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --set \"train={epochs: 3}\"");
    expect(2, "--set: 'train' is a section, expected one of its keys: train.epochs, train.steps, ");
    expect(2, ", ...\n");
    run("train c.yaml --set loss=mse");
    expect(2,
           "is a section, expected one of its keys: loss.name, loss.label_smoothing, loss.delta\n");
    run("train c.yaml --set optimizer.lr=");
    expect(2, "--set optimizer.lr has an empty value; is a variable of the shell not set? null ");
    run("train c.yaml --set 'optimizer.lr= '");
    expect(2, "--set optimizer.lr has an empty value");
    run("train c.yaml --set optimizer.lr=null --steps 1");
    expect_ok();
    run("train ''");
    expect(2, "an operand of train is empty, expected CONFIG");
    run("compare c.yaml ''");
    expect(2, "an operand of compare is empty, expected A B");
}

static void a_full_disk_is_noticed(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    assert_int_equal(shell("'%s' --help >/dev/full 2>err.txt", program()), 3);
    read_text(last.err, "err.txt");
    assert_non_null(strstr(last.err, "standard output could not be written: No space left"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(help_names_verbs_and_exit_codes),
        TEST(parser_and_help_agree),
        TEST(null_says_nothing),
        TEST(every_option_has_its_default),
        TEST(every_key_says_what_null_is),
        TEST(version_says_what_it_is),
        TEST(keys_and_layers_have_help),
        TEST(mistakes_have_a_sentence),
        TEST(what_is_empty_or_a_section_is_said),
        TEST(a_full_disk_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
