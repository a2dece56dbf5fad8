/* Running the program from a test: in the test's folder, with its output kept. */
#ifndef LKT_CLI_PROGRAM_H
#define LKT_CLI_PROGRAM_H

#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

enum { OUTPUT_SIZE = 1 << 18 };

typedef struct result {
    int code; /* exit code; 128 + n when a signal ended it */
    char out[OUTPUT_SIZE], err[OUTPUT_SIZE];
} result;

static const char *folder;
static result last; /* of run() */

static inline const char *program(void)
{
    static char path[4096];
    const char *build = getenv("LKT_BUILD");
    snprintf(path, sizeof path, "%s/cli/lockstep", build != NULL ? build : "build/release");
    return path;
}

static inline const char *source(const char *name)
{
    static char path[4096];
    const char *root = getenv("LKT_SOURCE");
    snprintf(path, sizeof path, "%s/%s", root != NULL ? root : ".", name);
    return path;
}

static inline int set_up(void **state)
{
    (void)state;
    folder = lkt_make_folder();
    /* The home is empty, and the terminal plain. */
    setenv("HOME", folder, 1);
    unsetenv("XDG_DATA_HOME");
    setenv("TERM", "dumb", 1);
    return 0;
}

/* From here on run() has a clock that passes ten times as fast (torture/shim_clock.c), so that verbs
 * measure for a tenth of the time: for tests that are not about what was measured. */
static inline void hurry(void)
{
    const char *build = getenv("LKT_BUILD"), *sanitizer = getenv("ASAN_OPTIONS");
    char text[4096];
    snprintf(text, sizeof text, "%s/tests/liblkt_shim_clock.so",
             build != NULL ? build : "build/release");
    setenv("LD_PRELOAD", text, 1);
    if (sanitizer != NULL && strstr(sanitizer, "verify_asan_link_order") != NULL) return;
    /* The sanitizer wants to be the first library; it works behind ours too. */
    snprintf(text, sizeof text, "%s%sverify_asan_link_order=0", sanitizer ? sanitizer : "",
             sanitizer ? ":" : "");
    setenv("ASAN_OPTIONS", text, 1);
}

/* What an MPI never frees lies in libraries that are gone when leaks are looked for, and cannot be told from others'. */
static inline void allow_leaks(void)
{
    const char *sanitizer = getenv("ASAN_OPTIONS");
    char text[4096];
    snprintf(text, sizeof text, "%s%sdetect_leaks=0", sanitizer ? sanitizer : "",
             sanitizer ? ":" : "");
    setenv("ASAN_OPTIONS", text, 1);
}

static inline void take_time(void)
{
    unsetenv("LD_PRELOAD");
}

static inline int tear_down(void **state)
{
    (void)state;
    take_time();
    lkt_remove_folder();
    return 0;
}

static inline const char *in_folder(const char *name)
{
    static char path[2][4096];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static inline void read_text(char out[OUTPUT_SIZE], const char *name)
{
    FILE *file = fopen(in_folder(name), "r");
    if (file == NULL) fail_msg("%s is missing", name);
    out[fread(out, 1, OUTPUT_SIZE - 1, file)] = '\0';
    fclose(file);
}

static inline bool there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

/* Runs a shell command in the folder. */
static inline int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int shell(const char *format, ...)
{
    char command[16384];
    int used = snprintf(command, sizeof command, "cd '%s' && ", folder);
    va_list args;
    va_start(args, format);
    vsnprintf(command + used, sizeof command - (size_t)used, format, args);
    va_end(args);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs `lockstep ARGUMENTS` (a shell's words) into `last`. */
static inline void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void run(const char *format, ...)
{
    char arguments[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(arguments, sizeof arguments, format, args);
    va_end(args);
    last.code = shell("'%s' %s >out.txt 2>err.txt", program(), arguments);
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
}

/* What was run ended with this code, and said this on standard error. */
static inline void expect(int code, const char *part)
{
    if (last.code != code)
        fail_msg("exit code %d, expected %d\n%s%s", last.code, code, last.out, last.err);
    if (strstr(last.err, part) == NULL) fail_msg("no \"%s\" in:\n%s", part, last.err);
    /* Every sentence is "lockstep: ..." on a line of its own, and failures go to stderr alone. */
    for (const char *line = last.err; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, "lockstep: ", 10) != 0) fail_msg("not a sentence: %s", line);
}

static inline void expect_ok(void)
{
    if (last.code != 0) fail_msg("exit code %d\n%s%s", last.code, last.out, last.err);
}

static inline void expect_out(const char *part)
{
    if (strstr(last.out, part) == NULL) fail_msg("no \"%s\" in:\n%s", part, last.out);
}

/* The last line of standard output, "hash <16 digits> step <n>", into `hash`. */
static inline long long last_hash(char hash[32])
{
    size_t length = strlen(last.out);
    assert_true(length > 0 && last.out[length - 1] == '\n');
    last.out[length - 1] = '\0';
    const char *line = strrchr(last.out, '\n');
    line = line != NULL ? line + 1 : last.out;
    long long step = -1;
    int end = 0;
    if (sscanf(line, "hash %16[0-9a-f] step %lld%n", hash, &step, &end) != 2 || line[end] != '\0' ||
        strlen(hash) != 16)
        fail_msg("the last line is \"%s\", expected a hash", line);
    last.out[length - 1] = '\n';
    return step;
}

/* A training that takes a fraction of a second: 500 samples, 10 steps an epoch. */
static const char tiny[] = "data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}\n"
                           "model: {name: mlp, hidden: [16], dropout: 0.1}\n"
                           "train: {epochs: 2, batch_size: 50, replicas: 4, seed: 3,\n"
                           "        hash_every: 4}\n"
                           "optimizer: {name: sgd, lr: 0.1, momentum: 0.9}\n"
                           "log: {interval: 5}\n";

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A JSON file in the folder. */
static inline json_t *read_json_file(const char *name)
{
    json_t *json = json_load_file(in_folder(name), 0, NULL);
    if (json == NULL) fail_msg("%s is not JSON", name);
    return json;
}

static inline json_t *read_json_text(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (json == NULL) fail_msg("no JSON: %s in %s", error.text, text);
    return json;
}

static inline double json_number_of(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

#endif
