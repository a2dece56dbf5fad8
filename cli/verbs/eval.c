/* lockstep eval */
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/report/report.h"

static lks_status eval_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    lks_metrics sum = {0};
    const cli_split *split;
    lks_dataset *data = NULL;
    int64_t step;
    lks_status status = cli_split_open(&split, cli, recipe);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = cli_load(cli, recipe, &step);
    if (status == LKS_OK) status = cli_split_data(&data, split, recipe, step);
    if (status == LKS_OK) status = lks_recipe_evaluate(recipe, data, &sum);
    if (status != LKS_OK) return status;
    if (strcmp(lks_recipe_text(recipe, "log.format"), "json") != 0) {
        if (step >= 0) say("Checkpoint of step %lld", (long long)step);
        report_test(split->title, &sum, lks_recipe_get_parts(recipe).data.classes > 0, true);
        return LKS_OK;
    }
    json_t *json = json_pack("{s:s, s+:o, s+:I, s+:I}", "event", "eval", split->key, "_loss",
                             text_json_real(lks_metrics_loss(&sum)), split->key, "_correct",
                             (json_int_t)sum.correct, split->key, "_samples",
                             (json_int_t)sum.samples);
    if (step >= 0) json_object_set_new(json, "step", json_integer(step));
    text_print_json(stdout, json, 0);
    putchar('\n');
    json_decref(json);
    return LKS_OK;
}

lks_status verb_eval(const cli_args *cli, int *code)
{
    return cli_with_ranks(cli, code, eval_run);
}
