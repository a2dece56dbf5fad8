/* lockstep find */
#include "cli/find/find.h"

#include <string.h>

/* Options that one of them has, so that nobody waits for what the other leaves out. */
static const struct own {
    const char *name;
    cli_local local; /* LOCAL_NONE: it sets a key */
    bool of_lr;      /* else of batch */
} own[] = {{"steps", LOCAL_NONE, true},    {"from", LOCAL_FROM, true},
           {"to", LOCAL_TO, true},         {"csv", LOCAL_CSV, true},
           {"svg", LOCAL_SVG, true},       {"seconds", LOCAL_SECONDS, false},
           {"memory", LOCAL_MEMORY, false}};

static bool is_given(const cli_args *cli, const struct own *option)
{
    for (int i = 0; i < cli->settings; i++)
        if (strcmp(cli->setting[i].option->name, option->name) == 0) return true;
    return option->local != LOCAL_NONE && cli->local[option->local] != NULL;
}

static lks_status check_options(const cli_args *cli, bool for_lr)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].of_lr != for_lr && is_given(cli, &own[i]))
            return lks_fail(LKS_E_INVALID,
                            "--%s is of 'find %s', which 'find %s' has no use for; drop it",
                            own[i].name, for_lr ? "batch" : "lr", for_lr ? "lr" : "batch");
    return LKS_OK;
}

lks_status verb_find(const cli_args *cli, int *code)
{
    const char *what = cli->operand[0];
    cli_args of = *cli; /* the operands of what is looked for */
    of.operand++;
    of.operands--;
    const bool for_lr = strcmp(what, "lr") == 0;
    if (!for_lr && strcmp(what, "batch") != 0)
        return cli_refuse(lks_fail(LKS_E_INVALID,
                                   "find '%.60s': it finds lr or batch, of a configuration", what));
    const lks_status status = check_options(cli, for_lr);
    if (status != LKS_OK) return cli_refuse(status);
    return for_lr ? find_lr(&of, code) : find_batch(&of, code);
}
