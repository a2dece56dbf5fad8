/* lockstep sample: the same text from the same checkpoint, whatever computes it, and what it refuses. */
#include "cli/terminal.h"

static const char keys[] = "data: {text: text.txt, level: LEVEL, context: 8, cache: none}\n"
                           "model: {name: tiny, layers: [{embedding: {units: 8}}, {lstm: {hidden: "
                           "12}}, {dense: OUTPUTS}]}\n"
                           "train: {batch_size: 8, replicas: 2, steps: 30}\n"
                           "checkpoint: {every_steps: 10, keep: 9}\n"
                           "optimizer: {name: adam, lr: 0.02}\n";

/* Trains on a text into the folder `run`. */
static void train(const char *level, const char *outputs)
{
    char text[3000] = "", yaml[1000] = "";
    for (int i = 0; i < 60; i++) sprintf(text + strlen(text), "line %d of a text\n", i);
    write_text("text.txt", text);
    for (const char *at = keys; *at != '\0';) {
        const bool is_level = strncmp(at, "LEVEL", 5) == 0, is_out = strncmp(at, "OUTPUTS", 7) == 0;
        if (is_level || is_out)
            strcat(yaml, is_level ? level : outputs);
        else
            strncat(yaml, at, 1);
        at += is_level ? 5 : is_out ? 7 : 1;
    }
    write_text("text.yaml", yaml);
    run("train text.yaml --out run --quiet");
    expect_ok();
}

static void a_text_depends_on_nothing_but_what_is_asked_for(void **state)
{
    (void)state;
    char first[OUTPUT_SIZE];
    train("char", "21");
    shell("rm text.txt text.yaml"); /* the run has all that is needed */
    run("sample run --prompt 'line 1' --tokens 60 --temperature 0.8 --top-k 9 --top-p 0.9 --seed "
        "7");
    expect_ok();
    strcpy(first, last.out);
    assert_ptr_equal(strstr(first, "line 1"), first);
    assert_int_equal(strlen(first), 6 + 60 + 1);
    static const char *const others[] = {"--workers 1", "--workers 2"};
    for (int i = 0; i < 2; i++) {
        run("sample run --prompt 'line 1' --tokens 60 --temperature 0.8 --top-k 9 --top-p 0.9 "
            "--seed 7 %s",
            others[i]);
        expect_ok();
        assert_string_equal(last.out, first);
    }
    run("sample run/step-00000030.json --prompt 'line 1' --tokens 60 --temperature 0.8 --top-k 9 "
        "--top-p 0.9 --seed 7");
    expect_ok();
    assert_string_equal(last.out, first);
    static const char *const changes[] = {
        "run --temperature 0.8 --top-k 9 --top-p 0.9 --seed 8",
        "run --temperature 1.5 --top-k 9 --top-p 0.9 --seed 7",
        "run --temperature 0.8 --top-k 2 --top-p 0.9 --seed 7",
        "run --temperature 0.8 --top-k 9 --top-p 0.2 --seed 7",
        "run/step-00000010.safetensors --temperature 0.8 --top-k 9 --top-p 0.9 --seed 7"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        run("sample %s --prompt 'line 1' --tokens 60", changes[i]);
        expect_ok();
        if (strcmp(last.out, first) == 0) fail_msg("%s changes nothing", changes[i]);
    }
    run("sample run --prompt l --tokens 0");
    expect_ok();
    assert_string_equal(last.out, "l\n");
    run("sample run --tokens 5 --temperature 0");
    expect_ok();
    assert_int_equal(last.out[0], '\n'); /* the usual prompt */
    strcpy(first, last.out);
    run("sample run --tokens 5 --top-k 1 --seed 9");
    assert_string_equal(last.out, first);
}

/* "text" up to the first place of `end` behind the prompt, where it is cut off. */
static void cut(char *text, const char *prompt, const char *end)
{
    char *at = strstr(text + strlen(prompt), end);
    assert_non_null(at);
    strcpy(at, "\n");
}

static void a_text_ends_where_it_is_to(void **state)
{
    (void)state;
    char whole[OUTPUT_SIZE], end[6 + 1], expected[OUTPUT_SIZE];
    static const char arguments[] = "sample run --prompt line --tokens 60 --seed 3";
    static const char *const levels[][2] = {{"char", "21"}, {"word", "66"}};
    for (int i = 0; i < 2; i++) {
        train(levels[i][0], levels[i][1]);
        run(arguments);
        expect_ok();
        strcpy(whole, last.out);
        snprintf(end, sizeof end, "%.6s", whole + 30); /* of words within one, and over a border */
        strcpy(expected, whole);
        cut(expected, "line", end);
        run("%s --stop 'no such text' --stop '%s'", arguments, end);
        expect_ok();
        assert_string_equal(last.out, expected);
        run("%s --stop 'no such text'", arguments);
        expect_ok();
        assert_string_equal(last.out, whole);
        shell("rm -r run");
    }
    run("sample run --stop ''");
    expect(2, "option --stop has an empty value, expected TEXT");
}

static void each_prompt_has_a_text(void **state)
{
    (void)state;
    char first[OUTPUT_SIZE], both[2 * OUTPUT_SIZE];
    train("char", "21");
    write_text("prompts.txt", "line\nline\n\n");
    run("sample run --prompt line --tokens 40");
    expect_ok();
    strcpy(first, last.out);
    run("sample run --prompts prompts.txt --tokens 40");
    expect_ok();
    snprintf(both, sizeof both, "%s---\n", first);
    assert_ptr_equal(strstr(last.out, both), last.out);
    const char *second = last.out + strlen(both);
    assert_ptr_equal(strstr(second, "line"), second);
    assert_int_equal(strlen(second), strlen(first));
    assert_true(strcmp(second, first) != 0); /* with draws of its own */
    strcpy(both, last.out);
    run("sample run --prompts - --tokens 40 <prompts.txt");
    expect_ok();
    assert_string_equal(last.out, both);
    write_text("prompts.txt", "\n");
    run("sample run --prompts prompts.txt");
    expect(4, "--prompts: 'prompts.txt' has no prompt; expected one in each line");
    run("sample run --prompts nowhere.txt");
    expect(3, "--prompts: 'nowhere.txt' cannot be opened: No such file");
    run("sample run --prompts prompts.txt --prompt a");
    expect(2, "--prompt and --prompts both say how texts begin; drop one");
}

/* The texts of the lines before it are there, and which line it is is said. */
static void prompts_that_cannot_be_fed_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *prompts; /* of printf(1) */
        int code;
        const char *expected, *out;
    } cases[] = {
        {"line\\nli\\377ne\\n", 4,
         "the prompt in line 2 cannot be fed: the text: byte 2, which is 0xff, is no part of a "
         "character",
         "line\n"},
        {"line\\nlin\\303\\251\\n", 4,
         "the prompt in line 2 cannot be fed: the text: the character U+00E9 at byte 3 is not in",
         "line\n"},
        {"line\\nli\\0ne\\n", 4, "the prompt in line 2 has a zero byte", "line\n"},
        {"", 4, "--prompts: 'prompts.txt' has no prompt; expected one in each line", ""},
        {"\\n\\n", 4, "--prompts: 'prompts.txt' has no prompt; expected one in each line", ""},
        {"line\\nof", 0, "", "line\n---\nof\n"},
        {"\\357\\273\\277line\\r\\nof\\r\\n\\r\\n", 0, "", "line\n---\nof\n"},
        {"line\\n\\nline\\n", 4, "--prompts: line 2 of 'prompts.txt' is empty", "line\n"},
    };
    train("char", "21");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(shell("printf '%s' >prompts.txt", cases[i].prompts), 0);
        run("sample run --tokens 0 --prompts prompts.txt");
        expect(cases[i].code, cases[i].expected);
        assert_string_equal(last.out, cases[i].out);
    }
    run("sample run --prompts .");
    expect(3, "--prompts: '.' cannot be read: Is a directory");
    shell("rm -r run");
    train("word", "66");
    write_text("prompts.txt", "line 1\nline nobody knows\n");
    run("sample run --tokens 0 --prompts prompts.txt");
    expect(0, "2 of the 3 tokens of the prompt in line 2 are not in the vocabulary");
}

static void processes_and_workers_change_nothing(void **state)
{
    (void)state;
    char first[OUTPUT_SIZE];
    static const char arguments[] = "sample run --prompt line --tokens 50 --seed 3";
    train("char", "21");
    run("%s", arguments);
    expect_ok();
    strcpy(first, last.out);
    last.code = shell(
        "taskset -c $(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//') '%s' %s --workers 2 "
        ">out.txt 2>err.txt",
        program(), arguments);
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
    expect_ok();
    assert_string_equal(last.out, first);
    for (int rank = 0; rank < 2; rank++) {
        last.code = shell("env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=%d '%s' %s >out.txt 2>err.txt",
                          rank, program(), arguments);
        read_text(last.out, "out.txt");
        read_text(last.err, "err.txt");
        expect(0, rank == 0 ? "sample is done by one process, so of the 2 that srun started" : "");
        assert_string_equal(last.out, rank == 0 ? first : "");
    }
}

static void levels_have_prompts_of_their_own(void **state)
{
    (void)state;
    train("char", "21");
    run("sample run --prompt 'lin\xC3\xA9'");
    expect(4, "the prompt cannot be fed: the text: the character U+00E9 at byte 3 is not in the "
              "vocabulary");
    assert_string_equal(last.out, "");
    shell("rm -r run");
    train("word", "66");
    run("sample run --prompt 'line nobody of' --tokens 3 --seed 2");
    expect_ok();
    expect(0, "1 of the 3 tokens of the prompt is not in the vocabulary: the network is given");
    assert_ptr_equal(strstr(last.out, "line nobody of"), last.out);
    run("sample run --prompt ' \t '");
    expect(2, "lockstep: the prompt has no token; give at least a word\n");
    assert_string_equal(last.out, "");
    shell("rm -r run");
    train("byte", "256");
    run("sample run --prompt '\xFF' --tokens 3");
    expect_ok();
    assert_int_equal((uint8_t)last.out[0], 0xFF);
    shell("rm -r run");
    train("bpe, words: 270", "270");
    run("sample run --prompt 'line' --tokens 20 --temperature 0");
    expect_ok();
    expect_out("line");
}

static void a_vocabulary_without_a_line_feed_needs_a_prompt(void **state)
{
    (void)state;
    write_text("line.txt", "acgtacgtaacgtgcatgcaacgt");
    write_text("line.yaml", "data: {text: line.txt, context: 3, cache: none}\nmodel: {layers: "
                            "[{embedding: 4}]}\ntrain: {steps: 1}\n");
    run("train line.yaml --out run --quiet");
    expect_ok();
    run("sample run");
    expect(4, "lockstep: a text begins with a line feed where no prompt is given, and the "
              "vocabulary has none; give --prompt TEXT\n");
    assert_string_equal(last.out, "");
    run("sample run --prompt acg --tokens 5");
    expect_ok();
}

/* With patience that whose loss was the best, as eval takes it. */
static void a_run_that_ends_with_its_best_gives_that(void **state)
{
    (void)state;
    char newest[OUTPUT_SIZE], best[OUTPUT_SIZE];
    train("char", "21");
    run("train text.yaml --out kept --quiet --steps 24 --lr 30 --set data.context=4 "
        "--set validation.fraction=0.5 --set validation.patience=50");
    expect_ok();
    run("eval text.yaml --out kept --split validation --set data.context=4 "
        "--set validation.fraction=0.5 --set validation.patience=50");
    expect_ok();
    int step;
    assert_int_equal(sscanf(last.out, "Checkpoint of step %d", &step), 1);
    assert_true(step < 24);
    run("sample kept/step-%08d.json --tokens 50", step);
    expect_ok();
    strcpy(best, last.out);
    run("sample kept --tokens 50");
    expect_ok();
    assert_string_equal(last.out, best);
    run("sample kept --tokens 50 --last");
    expect_ok();
    strcpy(newest, last.out);
    assert_string_not_equal(newest, best);
    run("sample kept/step-00000024.json --tokens 50");
    assert_string_equal(last.out, newest);
    shell("rm kept/step-%08d.*", step);
    run("sample kept --tokens 50"); /* not asked for */
    expect_ok();
    assert_string_equal(last.out, newest);
    run("sample kept --tokens 50 --best");
    expect(3, "");
}

/* What a network says, or a prompt, does nothing to a terminal; a file gets it as it is. */
static void terminals_get_no_control_characters(void **state)
{
    (void)state;
    static const char arguments[] = "sample run --tokens 0 --prompt \"$(printf "
                                    "'a\\033[2J\\177\\302\\233z\\302\\251\\302q\\303\\251\\tb')\"";
    train("byte", "256");
    assert_string_equal(on_terminal(80, true, arguments), "a?[2J??z\xC2\xA9\xC2q\xC3\xA9\tb\r\n");
    run("%s", arguments);
    expect_ok();
    assert_string_equal(last.out, "a\033[2J\177\xC2\x9Bz\xC2\xA9\xC2q\xC3\xA9\tb\n");
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int code;
        const char *expected;
    } cases[] = {
        {"run --tokens -1", 2, "--tokens is '-1', expected an integer from 0 to 1000000000"},
        {"run --temperature -1", 2, "--temperature is '-1', expected a number from 0"},
        {"run --temperature nan", 2, "--temperature is 'nan', expected a number from 0"},
        {"run --temperature warm", 2, "--temperature is 'warm'"},
        {"run --top-k 0", 2, "--top-k is '0', expected an integer from 1"},
        {"run --top-p 0", 2, "--top-p is '0', expected a number above 0 and up to 1"},
        {"run --top-p 1.1", 2, "--top-p is '1.1'"},
        {"run --seed -3", 2, "--seed is '-3'"},
        {"run --workers 0", 2, "--workers is '0'"},
        {"run --workers 3", 2, "3 workers cannot share 2 replicas"},
        {"run --best", 2, "the run in run has no best loss: no whole epoch of it was validated"},
        {"run/step-00000010.json --best", 2, "--best is about a folder of checkpoints; drop it"},
        {"run/step-00000010.json --last", 2, "--last is about a folder of checkpoints; drop it"},
        {"run --best --last", 2, "--best and --last name two checkpoints; drop one"},
        {"text.yaml", 2, "text.yaml is no checkpoint; expected a folder that train --out wrote"},
        {"nowhere", 2, "nowhere is no checkpoint"},
        {".", 3, "there is no checkpoint in ."},
        {"", 2, "sample takes CHECKPOINT"},
    };
    train("char", "21");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run("sample %s", cases[i].arguments);
        expect(cases[i].code, cases[i].expected);
        assert_string_equal(last.out, "");
    }
    shell("sed s/x/y/ run/vocabulary.txt >other.txt && cp other.txt run/vocabulary.txt");
    run("sample run");
    expect(5,
           "run/vocabulary.txt is not the vocabulary that the run was trained with: its hash is");
    shell("rm run/vocabulary.txt");
    run("sample run");
    expect(3, "run has neither tokenizer.json nor vocabulary.txt");
    write_text("tiny.yaml", tiny);
    run("train tiny.yaml --out images --quiet");
    expect_ok();
    run("sample images");
    expect(2, "the run in images was trained on no text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_text_depends_on_nothing_but_what_is_asked_for),
        TEST(a_text_ends_where_it_is_to),
        TEST(each_prompt_has_a_text),
        TEST(prompts_that_cannot_be_fed_are_named),
        TEST(processes_and_workers_change_nothing),
        TEST(levels_have_prompts_of_their_own),
        TEST(a_vocabulary_without_a_line_feed_needs_a_prompt),
        TEST(a_run_that_ends_with_its_best_gives_that),
        TEST(terminals_get_no_control_characters),
        TEST(what_is_wrong_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
