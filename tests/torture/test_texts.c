/*
 * `lockstep sample` in the middle of its texts: calls of the system and allocations fail, one in each run, threads cannot be
 * started, signals come, and nobody reads what it writes or there is no room for it. It ends with a sentence and an exit
 * code, and what it has written by then is the beginning of what it writes when it is left alone.
 */
#include "torture/scene.h"

static const char *const training[] = {"lockstep", "train", "../text.yaml", "--out", "../texts",
                                       "--quiet",  NULL};
static const char *const sampling[] = {
    "lockstep", "sample", "../texts",  "--prompts", "../prompts.txt", "--tokens", "6",
    "--seed",   "5",      "--workers", "2",         "--temperature",  "0.9",      NULL};
static char text[sizeof last.out], alone[TEXT_SIZE]; /* of a run that is left alone: texts, calls */
static int allocations, threads;                     /* of it */

static bool is_beginning(void)
{
    size_t bytes = strlen(last.out);
    if (bytes > 0 && last.out[bytes - 1] == '\n' && text[bytes - 1] != '\n') bytes--;
    return strncmp(last.out, text, bytes) == 0;
}

/* Returns whether it ended as if nothing were. */
static bool suffer(const char *shim, const char *fault)
{
    launch(shim, fault, "");
    if (!says_sentences()) BROKEN(fault, "the program says something strange");
    if (last.code < 0 || last.code > 9) BROKEN(fault, "the program does not fail well");
    if (last.code > 0 && last.err[0] == '\0') BROKEN(fault, "the program does not say why");
    if (!is_beginning()) BROKEN(fault, "this is another text");
    if (last.code == 0 && strcmp(last.out, text) != 0) BROKEN(fault, "nobody says what is missing");
    return last.code == 0;
}

static bool is_write(int n)
{
    return strcmp(call_of(alone, n).kind, "flush") == 0;
}

static void calls_fail(void **state)
{
    (void)state;
    int failed = 0, cut = 0;
    for (int n = 1; n <= count_calls(alone); n += stride(1)) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d fail", n);
        failed += !suffer("lkt_shim_files", fault);
        cut += last.code > 0 && last.out[0] != '\0';
        if (!is_write(n)) continue;
        if (last.code != 3) BROKEN(fault, "nobody notices that a text is not written");
        snprintf(fault, sizeof fault, "%d full", n);
        if (suffer("lkt_shim_files", fault)) BROKEN(fault, "nobody says that the disk is full");
    }
    print_message("%d calls, %d failures said, %d in a text\n", count_calls(alone), failed, cut);
    assert_true(failed > 20 / stride(1) && cut > 10 / stride(1));
}

/* The text ends with its line, and its exit code is that of the signal. */
static void signals_end_a_text(void **state)
{
    (void)state;
    int tried = 0, writes = 0;
    for (int n = 1; n <= count_calls(alone); n++) {
        const int number = n % 2 == 0 ? SIGINT : SIGTERM;
        char asked[32];
        if (!is_write(n)) continue;
        const size_t before = (size_t)writes++;
        if (before % (size_t)stride(1) != 0) continue;
        snprintf(asked, sizeof asked, "%d %d", n, number);
        signal_asked = asked;
        launch("lkt_shim_files", NULL, "");
        signal_asked = NULL;
        if (last.code != 128 + number) BROKEN(asked, "the program does not end by the signal");
        if (last.err[0] != '\0' || !is_beginning() || last.out[strlen(last.out) - 1] != '\n')
            BROKEN(asked, "it does not end its text");
        if (before < 6 && strlen(last.out) > strlen("line") + before + 1)
            BROKEN(asked, "it goes on");
        tried++;
    }
    assert_true(tried >= 10 / stride(1));
}

static void allocations_fail(void **state)
{
    (void)state;
    int good = 0, tried = 0;
    if (lkt_sanitized()) skip(); /* it has an allocator of its own */
    /* The last ones are those of the texts. */
    for (int n = 1; n <= allocations; n += n > allocations - 20 ? 1 : 1 + allocations / 40) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d %s", n, n % 4 == 0 ? "exhausted" : "memory");
        good += suffer("lkt_shim_memory", fault);
        tried++;
    }
    print_message("%d of %d allocations, %d of them harmless\n", tried, allocations, good);
    for (int n = 1; n <= threads; n++) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d thread", n);
        suffer("lkt_shim_memory", fault);
    }
}

/* Ends what would go on for a day. */
static void nobody_reads(void **state)
{
    (void)state;
    static const char *const ends[] = {"Broken pipe", "No space left on device"};
    const char *build = getenv("LKT_BUILD");
    for (int i = 0; i < 2; i++) {
        char line[2 * PATH_SIZE + 400], path[PATH_SIZE], code[16];
        if (i == 1 && access("/dev/full", W_OK) != 0) continue;
        snprintf(line, sizeof line,
                 "cd '%s' && { '%s/cli/lockstep' sample texts --tokens 1000000000 2>err.txt; echo "
                 "$? >code.txt; } %s",
                 folder, build != NULL ? build : "build/release",
                 i == 0 ? "| head -n 2 >out.txt" : ">/dev/full");
        assert_int_equal(system(line), 0);
        snprintf(path, sizeof path, "%s/err.txt", folder);
        read_text(path, last.err, sizeof last.err);
        snprintf(path, sizeof path, "%s/code.txt", folder);
        read_text(path, code, sizeof code);
        snprintf(line, sizeof line, "lockstep: standard output could not be written: %s\n",
                 ends[i]);
        assert_string_equal(last.err, line);
        assert_string_equal(code, "3\n");
    }
}

static void write_file(const char *name, const char *content)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    char words[2000] = "";
    folder = lkt_make_folder();
    snprintf(attempt, sizeof attempt, "%s/attempt", folder);
    for (int i = 0; i < 60; i++) sprintf(words + strlen(words), "line %d of a text\n", i);
    write_file("text.txt", words);
    write_file("prompts.txt", "line\nof a text\n");
    write_file("text.yaml",
               "data: {text: ../text.txt, level: char, context: 8, cache: none}\n"
               "model: {name: tiny, layers: [{embedding: {units: 8}}, {gru: {hidden: 12}}, "
               "{dense: 21}]}\n"
               "train: {batch_size: 8, replicas: 2, steps: 3}\n");
    clear_attempt();
    command = training;
    launch("lkt_shim_files", NULL, "");
    command = sampling;
    if (last.code != 0) fail_msg("the training ends with %d:\n%s", last.code, last.err);
    launch("lkt_shim_memory", NULL, "");
    if (!lkt_sanitized() &&
        sscanf(last.calls, "%d allocations, %d threads", &allocations, &threads) != 2)
        return 1;
    launch("lkt_shim_files", NULL, "");
    if (last.code != 0 || last.err[0] != '\0') fail_msg("alone: %d\n%s", last.code, last.err);
    memcpy(text, last.out, sizeof text);
    memcpy(alone, last.calls, sizeof alone);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_fail),
        cmocka_unit_test(signals_end_a_text),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(nobody_reads),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
