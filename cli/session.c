#include "cli/session.h"

#include <inttypes.h>

#include "cli/args/help.h"
#include "cli/out/say.h"

lki_session session_new(void)
{
    return (lki_session){.log = say_log};
}

/* Whether a run ends with its best weights, by the configuration in its record. */
static bool restores_best(const lks_run *run)
{
    json_t *config = run->config != NULL ? json_loads(run->config, 0, NULL) : NULL;
    const json_t *section = json_object_get(config, "validation");
    const bool restores = json_is_integer(json_object_get(section, "patience")) &&
                          json_is_true(json_object_get(section, "restore_best"));
    json_decref(config);
    return restores;
}

/* From the newest step of a folder to the one that is wanted. */
static lks_status choose_step(int64_t *step, lki_session *session, const cli_args *cli,
                              const char *folder)
{
    lks_run run, best;
    if (cli->local[LOCAL_LAST] != NULL) return LKS_OK;
    lks_status status = lks_checkpoint_load(session->context, NULL, &run, folder, *step);
    if (status != LKS_OK) return status;
    const bool asked = cli->local[LOCAL_BEST] != NULL, wanted = asked || restores_best(&run);
    const int64_t newest = *step, found = run.best_step;
    lks_run_clear(&run);
    if (wanted && found >= 0) {
        status = lks_checkpoint_load(session->context, NULL, &best, folder, found);
        lks_run_clear(&best);
        if (status != LKS_E_IO) *step = found;
        if (status == LKS_OK || !asked) return LKS_OK;
        return lks_fail(status,
                        "the best loss of the run in %.200s was after step %" PRId64
                        ", which has no checkpoint; --last takes the newest, of step %" PRId64,
                        folder, found, newest);
    }
    if (!asked || found >= 0) return LKS_OK;
    return lks_fail(LKS_E_IO,
                    "the run in %.200s has no best loss: nothing has been evaluated until step "
                    "%" PRId64 "; --last takes that step's checkpoint",
                    folder, newest);
}

lks_status session_load(lki_session *session, const cli_args *cli, int64_t *step)
{
    const char *file = lki_config_text(session->config, LKI_KEY_MODEL_INIT);
    const char *folder = lki_config_text(session->config, LKI_KEY_CHECKPOINT_PATH);
    const bool best = cli->local[LOCAL_BEST] != NULL, last = cli->local[LOCAL_LAST] != NULL;
    *step = -1;
    if (best && last)
        return lks_fail(LKS_E_INVALID, "--best and --last name two checkpoints; drop one");
    if ((best || last) && (file != NULL || folder == NULL))
        return lks_fail(LKS_E_INVALID, "--%s is about a folder of checkpoints: give --out DIR%s",
                        best ? "best" : "last", file != NULL ? ", and no --init" : "");
    if (file != NULL) return lks_weights_load(session->model, file);
    if (folder == NULL)
        return lks_fail(LKS_E_INVALID, "no weights; give --init FILE (a safetensors file), or "
                                       "--out DIR (a folder of checkpoints)");
    lks_status status = lks_checkpoint_find(folder, step);
    if (status == LKS_OK && *step < 0)
        return lks_fail(LKS_E_IO, "there is no checkpoint in %.300s; train with --out first",
                        folder);
    if (status == LKS_OK) status = choose_step(step, session, cli, folder);
    lks_run run = {0};
    if (status == LKS_OK)
        status = lks_checkpoint_load(session->context, session->model, &run, folder, *step);
    if (status == LKS_OK) lks_run_clear(&run);
    return status;
}

lks_status session_run(const cli_args *cli,
                       lks_status (*body)(const cli_args *cli, lki_config *config,
                                          lki_session *session))
{
    lki_config *config;
    lki_session session = session_new();
    lks_status status = cli_configure(&config, cli, cli->operand[0]);
    if (status == LKS_OK && cli->local[LOCAL_PRINT_CONFIG] != NULL)
        config_print(config, stdout);
    else if (status == LKS_OK)
        status = body(cli, config, &session);
    lki_session_close(&session);
    lki_config_destroy(config);
    return status;
}
