/* lockstep op: one operation alone, checked against ref and timed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/verbs/rates.h"

static const double SECONDS = 0.2; /* each pass */

/* The words of the command line as one line, so that quotes are not needed. */
static const char *op_join(cli_pool *pool, const cli_args *cli)
{
    const char *line = cli->operand[0];
    for (int i = 1; i < cli->operands; i++)
        line = pool_format(pool, "%s %s", line, cli->operand[i]);
    return line;
}

static void op_print_text(const lks_op_report *r, const char *line, lks_context *context)
{
    char cell[4][24];
    say("%s", line);
    say("device %s%s%s, pieces of %lld sample%s, one thread", lks_context_device(context),
        r->algorithm[0] != '\0' ? ", " : "", r->algorithm, (long long)r->slice, TEXT_S(r->slice));
    say("\n%-36s %13s %13s %13s", "against ref", "largest error", "its bound", "share");
    for (int i = 0; i < r->error_count; i++) {
        const lks_op_error *e = &r->errors[i];
        if (e->error == 0 && e->bound == 0) { /* of no element there is a bound to tell */
            say("%-36s %13s %13s %13s", e->what, "0", "-", "-");
            continue;
        }
        say("%-36s %13.3g %13.3g %13s%s", e->what, e->error, e->bound,
            share_text(cell[0], e->share), e->share > 1 ? "  TOO LARGE" : "");
    }
    say("\n%-9s %10s %10s %10s %7s %9s %7s %8s", "pass", "median ms", "least", "most", "runs",
        "GFLOP/s", "peak", "GB/s");
    for (int i = 0; i < r->time_count; i++) {
        const lks_op_time *t = &r->times[i];
        say("%-9s %10.4f %10.4f %10.4f %7d %9s %7s %8s", t->pass, 1e3 * t->median, 1e3 * t->least,
            1e3 * t->most, t->runs, rate_text(cell[0], t->flops / t->median),
            share_text(cell[1], t->flops / t->median / r->peak),
            rate_text(cell[2], t->bytes / t->median));
    }
    say("\nFMA peak of the thread: %.1f GFLOP/s", 1e-9 * r->peak);
    text_print_wrapped(stdout, RATES_PEAK_NOTE, 0, 0, HELP_WIDTH);
    say("%s", r->good ? "good: every element is within its bound"
                      : "different: an error is above its bound");
}

static void op_print_json(const lks_op_report *r, const char *line, lks_context *context)
{
    json_t *errors = json_array(), *times = json_array();
    for (int i = 0; i < r->error_count; i++)
        json_array_append_new(errors, json_pack("{s:s, s:o, s:f, s:o}", "what", r->errors[i].what,
                                                "error", text_json_real(r->errors[i].error),
                                                "bound", r->errors[i].bound, "share",
                                                text_json_real(r->errors[i].share)));
    for (int i = 0; i < r->time_count; i++) {
        const lks_op_time *t = &r->times[i];
        json_array_append_new(times,
                              json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f}", "pass", t->pass,
                                        "runs", t->runs, "median", t->median, "least", t->least,
                                        "most", t->most, "flops", t->flops, "bytes", t->bytes));
    }
    json_t *json = json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:f}", "op", line, "device",
                             lks_context_device(context), "algorithm", r->algorithm, "good",
                             r->good, "errors", errors, "passes", times, "peak_flops", r->peak);
    text_say_json(json, 0);
    json_decref(json);
}

static lks_status op_run(const cli_args *cli, lks_recipe *recipe, lks_context *context,
                         lks_graph *graph, int *code)
{
    char line[LKS_LINE_SIZE];
    double seconds = SECONDS;
    int64_t samples;
    lks_tensor *tensor;
    lks_op_report report;
    lks_status status = cli_seconds(&seconds, cli);
    if (status == LKS_OK)
        status = lks_recipe_line(&tensor, &samples, recipe, graph, op_join(cli->pool, cli));
    if (status == LKS_OK) status = lks_op_check(&report, context, tensor, samples, seconds);
    if (status != LKS_OK) return status;
    lks_tensor_line(tensor, samples, line, sizeof line);
    if (strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0)
        op_print_json(&report, line, context);
    else
        op_print_text(&report, line, context);
    *code = report.good ? 0 : EXIT_DIFFERENT;
    return LKS_OK;
}

lks_status verb_op(const cli_args *cli, int *code)
{
    lks_recipe *recipe;
    lks_context *context = NULL;
    lks_graph *graph = NULL;
    lks_status status = cli_configure(&recipe, cli, NULL);
    if (status != LKS_OK) return status;
    const lks_context_opts opts = {.device = lks_recipe_text(recipe, "train.device"),
                                   .seed = (uint64_t)lks_recipe_int(recipe, "train.seed"),
                                   .log = say_log};
    status = lks_context_create(&context, &opts);
    if (status == LKS_OK) status = lks_graph_create(&graph, context);
    if (status == LKS_OK) status = op_run(cli, recipe, context, graph, code);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    lks_recipe_close(recipe);
    return status;
}
