/* What a test found, as one text that is compared with a file of golden/ at its end. */
#ifndef LKT_CLI_GOLDEN_H
#define LKT_CLI_GOLDEN_H

#include <fcntl.h>

#include "cli/program.h"

static FILE *text;         /* tmpfile() */
static const char *golden; /* the name of the file; LKT_TRANSCRIPTS=write makes it anew */

static inline void head(const char *title)
{
    fprintf(text, "\n# %s\n", title);
}

/* What `print` writes to this stream, each line behind '|', with control characters to be seen. */
static inline void write_stream(int stream, void (*print)(const void *user), const void *user)
{
    static char seen[OUTPUT_SIZE];
    const char *name = stream == STDOUT_FILENO ? "out.txt" : "err.txt"; /* one within the other */
    fflush(stdout);
    fflush(stderr);
    const int kept = dup(stream), file = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(kept >= 0 && file >= 0 && dup2(file, stream) >= 0);
    print(user);
    fflush(stdout);
    fflush(stderr);
    dup2(kept, stream);
    close(kept);
    close(file);
    read_text(seen, name);
    fputc('|', text);
    for (const char *c = seen; *c != '\0'; c++) {
        if (*c == '\033')
            fputs("<esc>", text);
        else if (*c == '\r')
            fputs("<cr>", text);
        else
            fputc(*c, text);
        if (*c == '\n') fputc('|', text);
    }
    fputc('\n', text);
}

static inline void all_is_as_it_was(void **state)
{
    static char found[OUTPUT_SIZE], expected[OUTPUT_SIZE];
    (void)state;
    char path[8192];
    const char *write = getenv("LKT_TRANSCRIPTS");
    snprintf(path, sizeof path, "%s/%s", source("tests/cli/golden"), golden);
    rewind(text);
    found[fread(found, 1, sizeof found - 1, text)] = '\0';
    assert_true(feof(text));
    FILE *file = fopen(path, write != NULL ? "w+" : "r");
    assert_non_null(file);
    if (write != NULL) fputs(found, file);
    rewind(file);
    expected[fread(expected, 1, sizeof expected - 1, file)] = '\0';
    fclose(file);
    size_t at = 0;
    int line = 1;
    while (found[at] != '\0' && found[at] == expected[at]) line += found[at++] == '\n';
    if (found[at] == expected[at]) return;
    while (at > 0 && found[at - 1] != '\n') at--;
    fail_msg("golden/%s, line %d, expected\n%.*s\nfound\n%.*s", golden, line,
             (int)strcspn(expected + at, "\n"), expected + at, (int)strcspn(found + at, "\n"),
             found + at);
}

static inline bool golden_open(const char *name)
{
    golden = name;
    text = tmpfile();
    return text != NULL;
}

static inline int golden_close(int failed)
{
    fclose(text);
    return failed;
}

/* What main() returns: runs tests, of which all_is_as_it_was is the last. */
#define GOLDEN_RUN(name, tests)                                                                    \
    (golden_open(name) ? golden_close(cmocka_run_group_tests(tests, NULL, NULL)) : 1)

#endif
