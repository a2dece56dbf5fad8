/* lockstep: the program. It sees the library's public headers only. */
#include "cli/cli.h"

#include <string.h>

#include <lockstep/lockstep.h>

#include "cli/args/manual.h"
#include "cli/out/text.h"
#include "cli/meet/meet.h"
#include "cli/process.h"
#include "cli/args/help.h"

static lks_status main_run(const cli_args *cli, int *code)
{
    if (cli_leaves(cli)) return LKS_OK;
    if (cli->local[LOCAL_HELP] != NULL) {
        cli_help(cli, stdout);
        return LKS_OK;
    }
    if (cli->local[LOCAL_HELP_CONFIG] != NULL) {
        config_keys_print(stdout);
        return LKS_OK;
    }
    if (cli->local[LOCAL_HELP_LAYERS] != NULL) {
        help_layers_print(stdout);
        return LKS_OK;
    }
    if (cli->local[LOCAL_HELP_AS] != NULL) return manual_print(stdout, cli->local[LOCAL_HELP_AS]);
    if (cli->local[LOCAL_VERSION] != NULL) {
        printf("lockstep %s\n%s\n", lks_version(), lks_build_info());
        return LKS_OK;
    }
    return cli->verb->run(cli, code);
}

int main(int argc, char **argv)
{
    process_begin();
    if (argc > 0 && reach_is_called(argv[0])) return reach_main(argc, argv);
    text_watch_memory();
    cli_pool pool = {0};
    cli_args cli;
    int code = 0;
    lks_status status = cli_parse(&cli, &pool, argc, argv);
    if (status != LKS_OK) status = cli_refuse(status);
    if (status == LKS_OK) status = main_run(&cli, &code);
    if (status == LKS_OK) status = text_memory();
    if (status == LKS_OK) status = say_flush();
    if (status != LKS_OK) {
        say_error("%s", lks_last_error()->message);
        code = exit_code_of(status);
    }
    pool_clear(&pool);
    return code;
}
