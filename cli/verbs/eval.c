/* lockstep eval */
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/session.h"
#include "cli/report/report.h"

static lks_status eval_evaluate(const lki_session *session, lks_metrics *sum)
{
    lks_loader *loader;
    lks_status status = lki_session_loader(&loader, session, session->test, false);
    if (status != LKS_OK) return status;
    for (int64_t left = lks_loader_batches(loader); left > 0 && status == LKS_OK; left--) {
        lks_batch batch;
        status = lks_loader_next(loader, &batch);
        if (status == LKS_OK) status = lks_model_evaluate(session->model, &batch, sum);
    }
    lks_loader_destroy(loader);
    return status;
}

static lks_status eval_run(const cli_args *cli, lki_config *config, lki_session *session)
{
    lks_metrics sum = {0};
    int64_t step;
    lks_status status = lki_session_open(session, config, LKI_SESSION_TEST);
    if (status == LKS_OK) status = lki_session_compile(session, 0);
    if (status == LKS_OK) status = session_load(session, cli, &step);
    if (status == LKS_OK) status = eval_evaluate(session, &sum);
    if (status != LKS_OK) return status;
    if (strcmp(lki_config_text(config, LKI_KEY_LOG_FORMAT), "json") != 0) {
        if (step >= 0) say("Checkpoint of step %lld", (long long)step);
        report_test("Test", &sum, session->info.classes > 0, true);
        return LKS_OK;
    }
    json_t *json = json_pack("{s:s, s:o, s:I, s:I}", "event", "eval", "test_loss",
                             text_json_real(lks_metrics_loss(&sum)), "test_correct",
                             (json_int_t)sum.correct, "test_samples", (json_int_t)sum.samples);
    if (step >= 0) json_object_set_new(json, "step", json_integer(step));
    text_print_json(stdout, json, 0);
    putchar('\n');
    json_decref(json);
    return LKS_OK;
}

lks_status verb_eval(const cli_args *cli, int *code)
{
    (void)code;
    return session_run(cli, eval_run);
}
