/* The command that was typed, as a line to copy. */
#include "cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/process.h"

static bool needs_quotes(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./=,:+@%";
    return *word == '\0' || word[strspn(word, plain)] != '\0';
}

/* `line` with a word behind it. */
static char *add_word(cli_pool *pool, char *line, const char *word)
{
    line = pool_format(pool, "%s%s", line, *line != '\0' ? " " : "");
    if (!needs_quotes(word)) return pool_format(pool, "%s%s", line, word);
    line = pool_format(pool, "%s'", line);
    for (const char *c = word; *c != '\0'; c++)
        line = pool_format(pool, *c == '\'' ? "%s'\\%c'" : "%s%c", line, *c);
    return pool_format(pool, "%s'", line);
}

char *cli_words(cli_pool *pool, char *const *words)
{
    char *line = pool_format(pool, "%s", "");
    for (; *words != NULL; words++) line = add_word(pool, line, *words);
    return line;
}

char *cli_program(const cli_args *cli)
{
    char *self = pool_alloc(cli->pool, PATH_MAX);
    return readlink("/proc/self/exe", self, PATH_MAX - 1) > 0 ? self : cli->argv[0];
}

/* The words of a process's command, NULL behind them; NULL: it cannot be read. */
static char **words_of(cli_pool *pool, int64_t process, int *count)
{
    enum { SIZE = 1 << 16 };
    char *text = pool_alloc(pool, SIZE);
    const size_t used = process_read(text, SIZE, process, "cmdline");
    int most = 1;
    for (size_t i = 0; i < used; i++) most += text[i] == '\0';
    char **words = pool_alloc(pool, (size_t)most * sizeof *words);
    *count = 0;
    for (size_t at = 0; at < used; at += strlen(text + at) + 1) words[(*count)++] = text + at;
    words[*count] = NULL;
    return *count > 0 && used < SIZE - 1 ? words : NULL;
}

static bool is_starter(const char *program)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun"};
    const char *slash = strrchr(program, '/'), *name = slash != NULL ? slash + 1 : program;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* Whether words first .. last - 1 end with the command of this process. */
static bool ends_with(char *const *words, int first, int last, const cli_args *cli)
{
    if (last - first < cli->argc) return false;
    for (int i = 0; i < cli->argc; i++)
        if (strcmp(words[last - cli->argc + i], cli->argv[i]) != 0) return false;
    return true;
}

/* `extra` goes into each part of "mpirun -n 1 a : -n 1 b", as all are one training. NULL: this process is in
 * none of them. */
static char *with_extra(cli_pool *pool, char *const *words, int count, const cli_args *cli,
                        const char *extra)
{
    char *line = pool_format(pool, "%s", "");
    bool there = false, found = false;
    for (int i = 0, first = 1; i <= count; i++) {
        const bool ends = i == count || strcmp(words[i], ":") == 0;
        if (ends) found |= ends_with(words, first, i, cli);
        if (ends && !there) line = add_word(pool, line, extra);
        if (i < count) line = add_word(pool, line, words[i]);
        there = !ends && (there || strcmp(words[i], extra) == 0);
        if (ends) first = i + 1;
    }
    return found ? line : NULL;
}

/* By the mpirun or mpiexec on this host that has started this process, itself or by its daemon. */
static char *by_starter(const cli_args *cli, cli_pool *pool, const char *extra)
{
    int64_t process = getppid();
    for (int generation = 0; generation < 2 && process > 1; generation++) {
        int count = 0;
        char **words = words_of(pool, process, &count);
        if (words == NULL) return NULL;
        if (is_starter(words[0])) return with_extra(pool, words, count, cli, extra);
        process = process_stat(process, PROCESS_PARENT);
    }
    return NULL;
}

/* "mpirun -n 4 ", "srun --mpi=pmix -N 2 -n 4 --cpus-per-task=8 ". */
static char *starter_words(cli_pool *pool, const lks_launch *launch)
{
    char *line = pool_format(pool, "%.*s", (int)strcspn(launch->launcher, "("), launch->launcher);
    const bool slurm = strncmp(line, "srun", 4) == 0;
    const char *nodes = slurm ? getenv("SLURM_STEP_NUM_NODES") : NULL;
    const char *cpus = slurm ? getenv("SLURM_CPUS_PER_TASK") : NULL;
    if (line[strlen(line) - 1] == ' ') line[strlen(line) - 1] = '\0';
    if (nodes != NULL && strcmp(nodes, "1") != 0) line = pool_format(pool, "%s -N %s", line, nodes);
    line = pool_format(pool, "%s -n %lld", line, (long long)launch->size);
    return cpus != NULL ? pool_format(pool, "%s --cpus-per-task=%s", line, cpus) : line;
}

static bool has_word(const char *line, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)) != NULL; at += length)
        if (at > line && at[-1] == ' ' && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

static char *own_words(const cli_args *cli, cli_pool *pool, const char *extra)
{
    char *line = pool_format(pool, "%s", "");
    bool there = false;
    for (int i = 0; i < cli->argc; i++) {
        there |= strcmp(cli->argv[i], extra) == 0;
        line = add_word(pool, line, cli->argv[i]);
    }
    return there ? line : add_word(pool, line, extra);
}

char *cli_command(const cli_args *cli, cli_pool *pool, const char *extra)
{
    const lks_launch launch = lks_launch_get();
    const char *launched = getenv(CLI_LAUNCHED);
    if (launch.size <= 1) return own_words(cli, pool, extra);
    if (launched != NULL && *launched != '\0') {
        char *line = pool_format(pool, "%s", launched);
        return has_word(line, extra) ? line : add_word(pool, line, extra);
    }
    char *line = by_starter(cli, pool, extra);
    if (line != NULL) return line;
    return pool_format(pool, "%s %s", starter_words(pool, &launch), own_words(cli, pool, extra));
}
