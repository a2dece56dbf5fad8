/*
 * What the program says, word for word: each file of tests/cli/transcripts is a session in an empty
 * folder, with commands and all that they print. Lines of a file:
 *
 *     # a remark
 *     $ a command for bash; `lockstep` is the program
 *     > its next line
 *     |what came on standard output
 *     !what came on standard error
 *     [2] the exit code, where it is not 0
 *
 * What differs from one machine or run to the next is masked here (masks, below) or in the command.
 * After a change that is meant, the files are written anew, and the difference is read:
 *
 *     LKT_SOURCE=$PWD LKT_TRANSCRIPTS=write build/release/tests/test_cli_transcripts
 */
#include "cli/program.h"

#include <dirent.h>
#include <regex.h>

enum { MOST = 64, TEXT_SIZE = 1 << 20 };

/* Extended regular expressions, in this order, and what stands in their place. */
static const struct mask {
    const char *found, *instead;
} masks[] = {
    {"(^|[^.0-9a-f])[0-9a-f]{16}\\b", "\\1<hash>"},
    {"\"(seconds|seconds_to_first_step|samples_per_second)\": [0-9.e+-]+", "\"\\1\": <n>"},
    {"\"peak_rss_bytes\": [0-9]+", "\"peak_rss_bytes\": <n>"},
    {"\"(fingerprint|build)\": \"[^\"]*\"", "\"\\1\": <text>"},
    {" in [0-9]+\\.[0-9]{3} s", " in <n> s"},
    {"[0-9]+\\.[0-9] s  [0-9,]+ samples/s", "<n> s  <n> samples/s"},
    {"\t[0-9,]+ samples/s", "\t<n> samples/s"},
    {"[0-9]+\\.[0-9]{2} MB", "<n> MB"},
    {"device ref; .*", "device ref; <fingerprint>"},
    {"Lockstep [0-9.]+, device cpu; .*", "Lockstep <version>, device cpu; <fingerprint>"},
    {"Lockstep [0-9.]+, device", "Lockstep <version>, device"},
    {"json': [0-9]+ bytes", "json': <n> bytes"},
    {"^(device +).*plain loops", "\\1<fingerprint>"},
};
enum { MASKS = sizeof masks / sizeof *masks };
static regex_t compiled[MASKS]; /* which takes longer than looking for them */

typedef struct text {
    char *bytes;
    size_t used;
} text;

static void put(text *out, const char *bytes, size_t count)
{
    assert_true(out->used + count < TEXT_SIZE);
    memcpy(out->bytes + out->used, bytes, count);
    out->used += count;
    out->bytes[out->used] = '\0';
}

static text read_whole(const char *path)
{
    text whole = {malloc(TEXT_SIZE), 0};
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be read", path);
    assert_non_null(whole.bytes);
    whole.used = fread(whole.bytes, 1, TEXT_SIZE - 1, file);
    assert_true(feof(file));
    fclose(file);
    whole.bytes[whole.used] = '\0';
    return whole;
}

/* The line with every place that a mask finds replaced, in place: it has `size` bytes. */
static void mask_line(char *line, size_t size, const char *where)
{
    static char other[1 << 16];
    size_t length = strlen(where);
    for (char *at = line; (at = strstr(at, where)) != NULL;) {
        memmove(at + 8, at + length, strlen(at + length) + 1);
        memcpy(at, "<folder>", 8);
    }
    for (int m = 0; m < MASKS; m++) {
        regmatch_t found[2];
        const char *rest = line;
        size_t used = 0;
        while (*rest != '\0' && regexec(&compiled[m], rest, 2, found, 0) == 0 &&
               found[0].rm_eo > 0) {
            used += (size_t)snprintf(other + used, sizeof other - used, "%.*s", (int)found[0].rm_so,
                                     rest);
            for (const char *c = masks[m].instead; *c != '\0'; c++) {
                if (c[0] != '\\') {
                    used += (size_t)snprintf(other + used, sizeof other - used, "%c", *c);
                    continue;
                }
                c++;
                used += (size_t)snprintf(other + used, sizeof other - used, "%.*s",
                                         (int)(found[1].rm_eo - found[1].rm_so),
                                         rest + found[1].rm_so);
            }
            rest += found[0].rm_eo;
            assert_true(used < sizeof other);
        }
        snprintf(other + used, sizeof other - used, "%s", rest);
        snprintf(line, size, "%s", other);
    }
}

/* Each line of a file behind `sign`, masked; "\\" at the end where its last line does not end. */
static void put_lines(text *out, char sign, const char *name, const char *where)
{
    static char line[1 << 16];
    FILE *file = fopen(in_folder(name), "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const size_t length = strcspn(line, "\n");
        const bool ends = line[length] == '\n';
        line[length] = '\0';
        mask_line(line, sizeof line, where);
        put(out, &sign, 1);
        put(out, line, strlen(line));
        put(out, ends ? "\n" : "\\\n", ends ? 1 : 2);
    }
    fclose(file);
}

/* Runs `command`, and writes what came of it. */
static void perform(text *out, const char *command)
{
    char where[4096], line[64];
    snprintf(where, sizeof where, "%s/here", folder);
    write_text("command.sh", command);
    const int code = shell(
        "cd here && timeout 60 bash -o pipefail ../command.sh >../out.txt 2>../err.txt");
    put_lines(out, '|', "out.txt", where);
    put_lines(out, '!', "err.txt", where);
    snprintf(line, sizeof line, "[%d]\n", code);
    if (code != 0) put(out, line, strlen(line));
}

/* The file with its commands, and what they print now. */
static text session(const char *file)
{
    text now = {malloc(TEXT_SIZE), 0}, command = {malloc(TEXT_SIZE), 0};
    assert_true(now.bytes != NULL && command.bytes != NULL);
    for (const char *line = file, *next; *line != '\0'; line = next) {
        const size_t length = strcspn(line, "\n") + 1;
        next = line + length;
        if (strchr("#\n", *line) != NULL) put(&now, line, length);
        if (*line != '$' && *line != '>') continue;
        put(&now, line, length);
        put(&command, line + 2, length - 2);
        if (*next == '>') continue;
        perform(&now, command.bytes);
        command.used = 0;
    }
    free(command.bytes);
    return now;
}

static void the_session_is_as_it_was(void **state)
{
    char path[8192], search[16384];
    const char *name = *state, *write = getenv("LKT_TRANSCRIPTS"), *paths = getenv("PATH");
    snprintf(path, sizeof path, "%s/%s", source("tests/cli/transcripts"), name);
#ifndef LKT_HAVE_MD
    if (strcmp(name, "data.txt") == 0) skip(); /* compares SHA-256 */
#endif
    text before = read_whole(path);
    folder = lkt_make_folder();
    assert_int_equal(shell("mkdir here"), 0);
    char *whole = realpath(program(), NULL); /* the sessions are elsewhere */
    assert_non_null(whole);
    *strrchr(whole, '/') = '\0';
    snprintf(search, sizeof search, "%s:%s", whole, paths);
    free(whole);
    setenv("PATH", search, 1);
    setenv("HOME", in_folder("here"), 1);
    setenv("TERM", "dumb", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("XDG_DATA_HOME");
    text now = session(before.bytes);
    lkt_remove_folder();
    if (write != NULL && strcmp(write, "write") == 0) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(now.bytes, file);
        assert_int_equal(fclose(file), 0);
    } else if (strcmp(before.bytes, now.bytes) != 0) {
        size_t at = 0;
        int line = 1;
        while (before.bytes[at] == now.bytes[at]) line += before.bytes[at++] == '\n';
        while (at > 0 && before.bytes[at - 1] != '\n') at--;
        fail_msg("%s, line %d, expected\n%.*s\nfound\n%.*s", name, line,
                 (int)strcspn(before.bytes + at, "\n"), before.bytes + at,
                 (int)strcspn(now.bytes + at, "\n"), now.bytes + at);
    }
    free(before.bytes);
    free(now.bytes);
}

static int is_transcript(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".txt") == 0;
}

/* With a pattern such as 'data*': those files alone. */
int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    struct dirent **found;
    struct CMUnitTest tests[MOST] = {{0}};
    const int count = scandir(source("tests/cli/transcripts"), &found, is_transcript, alphasort);
    assert_true(count > 0 && count < MOST);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){found[i]->d_name, the_session_is_as_it_was, NULL, NULL,
                                       found[i]->d_name};
    for (int m = 0; m < MASKS; m++)
        assert_true(regcomp(&compiled[m], masks[m].found, REG_EXTENDED) == 0);
    const int failed = _cmocka_run_group_tests("transcripts", tests, (size_t)count, NULL, NULL);
    for (int m = 0; m < MASKS; m++) regfree(&compiled[m]);
    for (int i = 0; i < count; i++) free(found[i]);
    free(found);
    return failed;
}
