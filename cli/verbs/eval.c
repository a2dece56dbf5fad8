/* lockstep eval */
#include <string.h>

#include "cli/cli.h"
#include "cli/out/output.h"
#include "cli/out/sheet.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/report/fits.h"
#include "cli/report/horizons.h"
#include "cli/report/report.h"
#include "cli/report/scores.h"

enum { MOST_WORST = 10000 };

/* --worst and the picture's file, which come together; 0: not asked for. */
static lks_status read_worst(int *out, const cli_args *cli, lks_recipe *recipe)
{
    const char *text = cli->local[LOCAL_WORST];
    int64_t most = 0;
    *out = 0;
    if (text == NULL && cli->operands == 1) return LKS_OK;
    if (text == NULL)
        return lks_fail(LKS_E_INVALID,
                        "a second operand is a PNG file for --worst N, which is not given");
    if (!lki_text_is_int(text, &most) || most < 1 || most > MOST_WORST)
        return lks_fail(LKS_E_INVALID, "--worst is '%.60s', expected an integer from 1 to %d", text,
                        MOST_WORST);
    if (cli->operands == 1)
        return lks_fail(LKS_E_INVALID, "--worst %lld needs a PNG file behind the configuration",
                        (long long)most);
    *out = (int)most;
    const lks_status named = sheet_check_name("--worst", cli->operand[1]);
    if (named != LKS_OK) return named;
    cli_args reads = *cli; /* what is written is no operand that is read */
    reads.operands = 1;
    const bool leads = lks_comm_rank(lks_recipe_get_parts(recipe).comm) == 0;
    return leads ? output_place(&reads, recipe, "--worst", cli->operand[1], false) : LKS_OK;
}

static lks_status draw_worst(const cli_args *cli, const cli_split *split, lks_dataset *data,
                             const scores *found)
{
    const int64_t wrong = found->samples - found->correct;
    const char *title = pool_format(cli->pool, "%s: the %d most confident of %lld mistakes in %lld",
                                    split->title, found->count, (long long)wrong,
                                    (long long)found->samples);
    const lks_status status = scores_draw(found, cli->pool, data, title, cli->operand[1]);
    if (status == LKS_OK)
        say_error("%s: %d sample%s", cli->operand[1], found->count, TEXT_S(found->count));
    return status;
}

static lks_status count_fits(fits *out, cli_pool *pool, lks_recipe *recipe, lks_dataset *data,
                             lks_metrics *sum)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    out->count = lks_shape_elements(&info.target_shape);
    out->fit = pool_alloc(pool, (size_t)out->count * sizeof *out->fit);
    if (out->fit == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for scores of targets");
    return lks_recipe_fits(recipe, data, sum, out->fit);
}

static void fits_json(json_t *json, cli_pool *pool, const fits *f, const char *key)
{
    json_t *all = json_object();
    for (int64_t i = 0; i < f->count; i++)
        json_object_set_new(all, fits_name(f, pool, i),
                            json_pack("{s:o, s:o, s:o}", "r2", text_json_real(f->fit[i].r2), "mae",
                                      text_json_real(f->fit[i].mae), "rmse",
                                      text_json_real(f->fit[i].rmse)));
    json_object_set_new(json, pool_format(pool, "%s_targets", key), all);
}

static void say_json(const cli_args *cli, const cli_split *split, const lks_metrics *sum,
                     int64_t step, const scores *found, const fits *numbers, const horizons *ahead)
{
    json_t *json = json_pack("{s:s, s+:o, s+:I, s+:I}", "event", "eval", split->key, "_loss",
                             text_json_real(lks_metrics_loss(sum)), split->key, "_correct",
                             (json_int_t)sum->correct, split->key, "_samples",
                             (json_int_t)sum->samples);
    if (sum->counted != sum->samples) {
        json_object_set_new(json, pool_format(cli->pool, "%s_counted", split->key),
                            json_integer((json_int_t)sum->counted));
        json_object_set_new(json, pool_format(cli->pool, "%s_perplexity", split->key),
                            text_json_real(lks_metrics_perplexity(sum)));
    }
    if (step >= 0) json_object_set_new(json, "step", json_integer(step));
    if (ahead->times > 0)
        json_object_set_new(json, pool_format(cli->pool, "%s_horizons", split->key),
                            horizons_json(ahead));
    if (numbers->fit != NULL)
        fits_json(json, cli->pool, numbers, split->key);
    else if (cli->local[LOCAL_METRICS] != NULL)
        scores_json(found, json, cli->pool, split->key);
    text_say_json(json, 0);
    json_decref(json);
}

static lks_status eval_say(const cli_args *cli, lks_recipe *recipe, const cli_split *split,
                           lks_dataset *data, int64_t step, int worst)
{
    lks_metrics sum;
    scores found = {0};
    fits numbers = {0};
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const bool counts = cli->local[LOCAL_METRICS] != NULL;
    lks_status status;
    if (parts.data.classes == 0 && worst == 0)
        status = count_fits(&numbers, cli->pool, recipe, data, &sum);
    else
        status = counts || worst > 0 ? scores_count(&found, &sum, recipe, data, worst)
                                     : lks_recipe_evaluate(recipe, data, &sum);
    const horizons ahead = horizons_of(recipe, data, &numbers, cli->pool);
    if (status == LKS_OK && strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0) {
        say_json(cli, split, &sum, step, &found, &numbers, &ahead);
    } else if (status == LKS_OK) {
        if (step >= 0) say("Checkpoint of step %lld", (long long)step);
        report_test(split->title, &sum, report_targets_of(&parts.data), true);
        if (ahead.times > 0)
            horizons_print(&ahead, cli->pool, NULL);
        else if (numbers.fit != NULL)
            fits_print(&numbers, cli->pool, NULL, cli->local[LOCAL_TARGETS] != NULL);
        else if (counts)
            scores_print(&found, cli->pool);
    }
    if (status == LKS_OK && worst > 0 && lks_comm_rank(parts.comm) == 0)
        status = draw_worst(cli, split, data, &found);
    scores_free(&found);
    return worst > 0 ? lks_comm_agree(parts.comm, status) : status;
}

/* What scores are made of is counted by sample. */
static lks_status check_scores(const cli_args *cli, lks_recipe *recipe, int worst)
{
    const lks_dataset_info info = lks_recipe_get_parts(recipe).data;
    const bool asked = worst > 0 || cli->local[LOCAL_METRICS] != NULL;
    if (!asked || report_targets_of(&info) != REPORT_TOKENS) return LKS_OK;
    return lks_fail(LKS_E_UNSUPPORTED,
                    "%s wants samples that have one class, but these have one for each of %lld "
                    "positions; without it there are loss, perplexity and accuracy",
                    worst > 0 ? "--worst" : "--metrics",
                    (long long)lks_shape_elements(&info.target_shape));
}

static lks_status eval_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    int worst;
    const cli_split *split;
    lks_dataset *data = NULL;
    int64_t step;
    lks_status status = lks_comm_agree(lks_recipe_get_parts(recipe).comm,
                                       read_worst(&worst, cli, recipe));
    if (status == LKS_OK) status = cli_split_open(&split, cli, recipe);
    if (status == LKS_OK) status = check_scores(cli, recipe, worst);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = cli_load(cli, recipe, &step);
    if (status == LKS_OK) status = cli_split_data(&data, split, recipe, step);
    return status == LKS_OK ? eval_say(cli, recipe, split, data, step, worst) : status;
}

lks_status verb_eval(const cli_args *cli, int *code)
{
    return cli_with_ranks(cli, code, eval_run);
}
