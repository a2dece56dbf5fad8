/*
 * The command line: words, divided by newlines. What is typed must be what cli_command() prints, to
 * a shell. Options that set keys are applied to a small configuration.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fuzz/fuzz.h"

enum { MOST_WORDS = 60 };

static int split(char *text, char **words)
{
    int count = 1;
    words[0] = (char *)(uintptr_t) "lockstep";
    for (char *at = text; at != NULL && count < MOST_WORDS;) {
        words[count++] = at;
        at = strchr(at, '\n');
        if (at != NULL) *at++ = '\0';
    }
    words[count] = NULL;
    return count;
}

/* The next word of a line as a shell reads it, into `word`; NULL at the end. */
static const char *shell_word(const char *at, char *word)
{
    bool quoted = false;
    while (*at == ' ') at++;
    if (*at == '\0') return NULL;
    for (; *at != '\0' && (quoted || *at != ' '); at++) {
        if (*at == '\'')
            quoted = !quoted;
        else if (*at == '\\' && !quoted)
            *word++ = *++at;
        else
            *word++ = *at;
    }
    *word = '\0';
    return at;
}

static void check_command(const cli_args *cli, size_t bytes)
{
    cli_pool pool = {0};
    const char *at = cli_command(cli, &pool, "--resume");
    char *word = pool_alloc(&pool, bytes + 100);
    bool there = false;
    for (int i = 0; i < cli->argc; i++) {
        at = shell_word(at, word);
        FUZZ_CHECK(at != NULL && strcmp(word, cli->argv[i]) == 0);
        there |= strcmp(word, "--resume") == 0;
    }
    FUZZ_CHECK((shell_word(at, word) == NULL) == there);
    pool_clear(&pool);
}

static void configure(const cli_args *cli)
{
    static const char small[] = "data: {name: digits}\nmodel: {name: mlp}\n";
    lks_recipe *config;
    const lks_status status = cli_configure(&config, cli, fuzz_file(0, small, sizeof small - 1));
    FUZZ_CHECK((status == LKS_OK) == (config != NULL));
    if (status != LKS_OK) fuzz_check_failure(status);
    lks_recipe_close(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static FILE *nowhere;
    char *words[MOST_WORDS + 1];
    cli_pool pool = {0};
    cli_args cli;
    if (nowhere == NULL) nowhere = fopen("/dev/null", "w");
    FUZZ_CHECK(nowhere != NULL);
    char *text = pool_copy(&pool, (const char *)data, bytes);
    const int count = split(text, words);
    const lks_status status = cli_parse(&cli, &pool, count, words);
    if (status != LKS_OK) {
        fuzz_check_failure(status);
    } else if (cli.local[LOCAL_HELP] != NULL || cli.verb == NULL) {
        cli_help(&cli, nowhere);
    } else {
        check_command(&cli, bytes);
        if (cli.settings > 0) configure(&cli);
    }
    pool_clear(&pool);
    return 0;
}
