/* doctor --launch: what it says is `lockstep launch ... -- doctor ...`. */
#include <string.h>

#include "cli/doctor/doctor_across.h"

/* The row of the option that sets `local` of launch, as doctor takes it too. */
static bool is_launch(const cli_option *option)
{
    return (option->verbs & VERB_LAUNCH) != 0 && (option->verbs & VERB_DOCTOR) != 0 &&
           option->local != LOCAL_HELP && option->local != LOCAL_HELP_CONFIG &&
           option->local != LOCAL_HELP_LAYERS && option->local != LOCAL_VERSION;
}

static int add_option(char **words, int count, cli_pool *pool, const cli_option *option,
                      const char *text)
{
    words[count++] = pool_format(pool, "--%s", option->name);
    if (option->argument != NULL) words[count++] = pool_format(pool, "%s", text);
    return count;
}

lks_status doctor_launch(const cli_args *cli, int *code)
{
    const size_t most = 2 * ((size_t)cli_option_count + (size_t)cli->settings) + 5;
    char **words = pool_alloc(cli->pool, most * sizeof *words);
    int count = 0;
    words[count++] = cli->argv[0];
    words[count++] = pool_format(cli->pool, "launch");
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (is_launch(option) && cli->local[option->local] != NULL)
            count = add_option(words, count, cli->pool, option, cli->local[option->local]);
    }
    words[count++] = pool_format(cli->pool, "--");
    words[count++] = pool_format(cli->pool, "doctor");
    for (int i = 0; i < cli->settings; i++)
        count = add_option(words, count, cli->pool, cli->setting[i].option, cli->setting[i].text);
    if (cli->local[LOCAL_ROOT] != NULL) {
        words[count++] = pool_format(cli->pool, "--root");
        words[count++] = pool_format(cli->pool, "%s", cli->local[LOCAL_ROOT]);
    }
    cli_args launch;
    const lks_status status = cli_parse(&launch, cli->pool, count, words);
    return status == LKS_OK ? verb_launch(&launch, code) : status;
}

lks_status doctor_no_launch(const cli_args *cli)
{
    const bool started = lks_launch_get().size > 1;
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        if (!is_launch(option) || cli->local[option->local] == NULL) continue;
        if (started && option->local == LOCAL_WORKERS) continue;
        return option->letter != 0
                   ? lks_fail(LKS_E_INVALID, "-%c is about several processes: give --launch too",
                              option->letter)
                   : lks_fail(LKS_E_INVALID, "--%s is about several processes: give --launch too",
                              option->name);
    }
    return LKS_OK;
}
