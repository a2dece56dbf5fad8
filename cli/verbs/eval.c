/* lockstep eval */
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/report/report.h"

static lks_status eval_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    lks_metrics sum = {0};
    int64_t step;
    lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_TEST);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = cli_load(cli, recipe, &step);
    if (status == LKS_OK) status = lks_recipe_evaluate(recipe, &sum);
    if (status != LKS_OK) return status;
    if (strcmp(lks_recipe_text(recipe, "log.format"), "json") != 0) {
        if (step >= 0) say("Checkpoint of step %lld", (long long)step);
        report_test("Test", &sum, lks_recipe_get_parts(recipe).data.classes > 0, true);
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
    return cli_with_recipe(cli, code, eval_run);
}
