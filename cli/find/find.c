/* lockstep find */
#include "cli/find/find.h"

#include <string.h>

lks_status verb_find(const cli_args *cli, int *code)
{
    const char *what = cli->operand[0];
    cli_args of = *cli; /* the operands of what is looked for */
    of.operand++;
    of.operands--;
    if (strcmp(what, "lr") == 0) return find_lr(&of, code);
    if (strcmp(what, "batch") == 0) return find_batch(&of, code);
    return cli_refuse(
        lks_fail(LKS_E_INVALID, "find '%.60s': it finds lr or batch, of a configuration", what));
}
