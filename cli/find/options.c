#include "cli/find/find.h"

lks_status find_number(double *out, const cli_args *cli, cli_local local, const char *name,
                       double usual)
{
    const char *text = cli->local[local];
    *out = usual;
    if (text == NULL || (lki_text_is_float(text, out) && *out > 0)) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "%s is '%.60s', expected a number above 0", name, text);
}
