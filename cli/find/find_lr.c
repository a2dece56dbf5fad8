/*
 * lockstep find lr: a sweep of the learning rate, after Smith (2017, "Cyclical Learning Rates for Training
 * Neural Networks"): training from the first step on, with rates that grow by the same factor from step to
 * step, until the loss has grown far above its least.
 */
#include <math.h>
#include <string.h>

#include "cli/find/find.h"
#include "cli/out/output.h"
#include "cli/out/plot.h"
#include "cli/out/text.h"
#include "cli/process.h"

enum { USUAL_STEPS = 200, LEAST_STEPS = 20, MOST_STEPS = 100000, CURVES = 2 };
static const double USUAL_FROM = 1e-6, USUAL_TO = 10;
/* The sweep ends where the loss, as a running mean over some steps, has grown by this factor. */
static const double DIVERGED = 4, RUNNING = 0.8;
/* Steps in the deviation of the Gaussian that smooths, as a share of the sweep; at least 3. */
static const double SMOOTH = 1.0 / 40, DRAW_SECONDS = 0.1;
/* What the loss falls by at least, in deviations of a step's loss from the smoothed one: means over the ten and
 * more steps of the beginning and the least differ by a half of one now and then. */
static const double FALLS = 1.5;

typedef struct sweep {
    lks_recipe *recipe;
    lks_recipe_parts parts;
    lks_loader *loader;
    double from, to;
    int64_t steps, done;
    double *rate, *loss; /* [done] */
    double *smooth;      /* [done]: the loss, smoothed, */
    double *slope;       /* and its slope, a step */
    int64_t least, best; /* where it is least, and where it falls fastest */
    bool falls;          /* there is such a place */
    plot_curve curve[CURVES];
    plot_panel panel;
} sweep;

static double rate_at(const sweep *s, int64_t step)
{
    return s->from * pow(s->to / s->from, (double)step / (double)(s->steps - 1));
}

/* *ended: the loss is no number any more. */
static lks_status sweep_step(sweep *s, bool *ended)
{
    lks_batch batch;
    lks_metrics metrics = {0};
    lks_model *model = s->parts.model;
    const lks_model_info info = lks_model_get_info(model);
    lks_status status = lks_loader_share(s->loader, info.shares, info.first_share, info.last_share);
    if (status == LKS_OK) status = lks_loader_next(s->loader, &batch);
    if (status != LKS_OK) return lks_model_fail(model, status);
    const double rate = rate_at(s, s->done);
    status = lks_model_step(model, &batch, rate, &metrics);
    *ended = status == LKS_E_NUMERIC || metrics.not_finite > 0;
    if (*ended) return LKS_OK;
    if (status != LKS_OK) return status;
    s->rate[s->done] = rate;
    s->loss[s->done++] = lks_metrics_loss(&metrics);
    return LKS_OK;
}

static void draw_progress(const sweep *s)
{
    char rate[TEXT_NUMBER_SIZE], loss[TEXT_NUMBER_SIZE];
    snprintf(rate, sizeof rate, "rate %.2g", s->rate[s->done - 1]);
    snprintf(loss, sizeof loss, "loss %.4f", s->loss[s->done - 1]);
    say_bar("find lr", (double)s->done / (double)s->steps, (const char *const[]){rate, loss}, 2);
}

static lks_status sweep_run(sweep *s, cli_pool *pool)
{
    const size_t bytes = (size_t)s->steps * sizeof(double);
    double mean = 0, least = INFINITY, drawn = process_clock();
    bool ended = false;
    s->rate = pool_alloc(pool, bytes);
    s->loss = pool_alloc(pool, bytes);
    while (s->done < s->steps && !ended) {
        const lks_status status = sweep_step(s, &ended);
        if (status != LKS_OK) return status;
        if (s->done == 0) break;
        const double loss = s->loss[s->done - 1];
        mean = s->done == 1 ? loss : RUNNING * mean + (1 - RUNNING) * loss;
        least = fmin(least, mean);
        ended = ended || mean > DIVERGED * least;
        if (process_clock() - drawn < DRAW_SECONDS) continue;
        drawn = process_clock();
        draw_progress(s);
    }
    say_status(NULL);
    if (s->done >= LEAST_STEPS) return LKS_OK;
    return lks_fail(
        LKS_E_NUMERIC,
        "the loss has grown beyond use after %lld step%s, at a rate of %.3g; begin with "
        "a smaller one: --from %.0e",
        (long long)s->done, TEXT_S(s->done), rate_at(s, s->done), s->from / 1000);
}

/* What the losses begin with. */
static double sweep_begin(const sweep *s)
{
    double sum = 0;
    for (int64_t i = 0; i < LEAST_STEPS / 2; i++) sum += s->loss[i];
    return sum / (LEAST_STEPS / 2);
}

/* The Gaussian's deviation, in steps. */
static double smooth_width(const sweep *s)
{
    return fmax(3, SMOOTH * (double)s->steps);
}

/* A line through the losses around each step, by least squares with the weights of a Gaussian: its height there,
 * and its slope. Unlike a running mean it does not lag behind the rate. Losses that have grown count as twice what
 * they began with, so that the last ones do not bend what is before them. */
static void sweep_smooth(sweep *s, cli_pool *pool)
{
    const double width = smooth_width(s);
    const int64_t reach = (int64_t)(4 * width);
    const double most = 2 * sweep_begin(s);
    const size_t bytes = (size_t)s->done * sizeof(double);
    s->smooth = pool_alloc(pool, bytes);
    s->slope = pool_alloc(pool, bytes);
    for (int64_t i = 0; i < s->done; i++) {
        double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
        for (int64_t j = i - reach < 0 ? 0 : i - reach; j < s->done && j <= i + reach; j++) {
            const double x = (double)(j - i), weight = exp(-x * x / (2 * width * width));
            const double y = fmin(s->loss[j], most);
            w += weight;
            wx += weight * x;
            wxx += weight * x * x;
            wy += weight * y;
            wxy += weight * x * y;
        }
        s->slope[i] = (w * wxy - wx * wy) / (w * wxx - wx * wx);
        s->smooth[i] = (wy - s->slope[i] * wx) / w;
    }
}

/* How far losses are from the smoothed curve, up to its least. */
static double sweep_noise(const sweep *s)
{
    double sum = 0;
    for (int64_t i = 0; i <= s->least; i++)
        sum += (s->loss[i] - s->smooth[i]) * (s->loss[i] - s->smooth[i]);
    return sqrt(sum / (double)(s->least + 1));
}

/* Where the loss falls fastest on its way to its least. */
static void sweep_choose(sweep *s)
{
    for (int64_t i = 0; i < s->done; i++)
        if (s->smooth[i] < s->smooth[s->least]) s->least = i;
    for (int64_t i = 0; i <= s->least; i++)
        if (s->slope[i] < s->slope[s->best]) s->best = i;
    const double fall = sweep_begin(s) - s->smooth[s->least];
    s->falls = fall > FALLS * sweep_noise(s) && s->slope[s->best] < 0;
}

/* Of losses that have grown no more is drawn than that they have. */
static bool sweep_fit(sweep *s, cli_pool *pool)
{
    const int points = (int)s->done;
    double *drawn = pool_alloc(pool, (size_t)s->done * sizeof *drawn);
    for (int i = 0; i < points; i++) drawn[i] = fmin(s->loss[i], 2 * sweep_begin(s));
    s->curve[0] = (plot_curve){"smoothed", 0, points, s->rate, s->smooth};
    s->curve[1] = (plot_curve){"loss", 1, points, s->rate, drawn};
    s->panel = (plot_panel){.title = "loss over the learning rate",
                            .x_name = "rate",
                            .x_log = true,
                            .may_log = true,
                            .curves = CURVES,
                            .curve = s->curve};
    return plot_fit(&s->panel);
}

static void print_csv(FILE *out, const void *user)
{
    const sweep *s = user;
    fputs("rate,loss,smoothed\n", out);
    for (int64_t i = 0; i < s->done; i++) {
        char rate[TEXT_NUMBER_SIZE], loss[TEXT_NUMBER_SIZE], smooth[TEXT_NUMBER_SIZE];
        fprintf(out, "%s,%s,%s\n", lks_text_number(rate, s->rate[i]),
                lks_text_number(loss, s->loss[i]), lks_text_number(smooth, s->smooth[i]));
    }
}

static void sweep_print_svg(FILE *out, const void *user)
{
    const sweep *s = user;
    plot_print_svg(out, &(plot_figure){.panels = 1,
                                       .panel = &s->panel,
                                       .names = CURVES,
                                       .name = (const char *const[]){"smoothed", "loss"},
                                       .whole = true});
}

static json_t *numbers_json(const double *values, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, text_json_real(values[i]));
    return list;
}

static void say_json(const sweep *s)
{
    json_t *json = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "event", "find_lr", "rate",
                             numbers_json(s->rate, s->done), "loss", numbers_json(s->loss, s->done),
                             "smoothed", numbers_json(s->smooth, s->done), "suggestion",
                             s->falls ? text_json_real(s->rate[s->best]) : json_null(), "least",
                             text_json_real(s->rate[s->least]));
    text_say_json(json, 0);
    json_decref(json);
}

/* Rates that are smoothed together are not told from each other: half a decade of them is much. */
static void say_coarse(const sweep *s)
{
    static const double MUCH = 0.5;
    const double decades = log10(s->to / s->from), width = smooth_width(s),
                 together = width * decades / (double)(s->steps - 1);
    if (!s->falls || together <= MUCH) return;
    say_error(
        "%lld steps are few for rates from %.3g to %.3g: losses are smoothed over a factor of "
        "%.0f, and the suggestion may be wrong by as much; give --steps %.0f or more",
        (long long)s->steps, s->from, s->to, pow(10, together), 1 + ceil(width * decades / MUCH));
}

static void say_text(const sweep *s, const char *path)
{
    const plot_terminal terminal = plot_here(true);
    say("%s: %s, batch %lld, rates from %.3g to %.3g in %lld steps\n", path,
        lks_recipe_text(s->recipe, "optimizer.name"),
        (long long)lks_recipe_int(s->recipe, "train.batch_size"), s->from, s->to,
        (long long)s->steps);
    plot_print_text(stdout, &s->panel, &terminal);
    say("a: smoothed, b: the loss of each step\n");
    if (s->done < s->steps)
        say("It ended behind %lld steps, at a rate of %.3g, where the loss had grown.",
            (long long)s->done, s->rate[s->done - 1]);
    if (!s->falls) {
        say("The loss falls nowhere: try other rates (--from, --to) or more steps (--steps).");
        return;
    }
    say("The loss is least, %.4g, at a rate of %.3g, and falls fastest at", s->smooth[s->least],
        s->rate[s->least]);
    say("suggestion  optimizer.lr %.2g", s->rate[s->best]);
}

static lks_status sweep_say(sweep *s, const cli_args *cli)
{
    const char *csv = cli->local[LOCAL_CSV], *svg = cli->local[LOCAL_SVG];
    if (!sweep_fit(s, cli->pool))
        return lks_fail(LKS_E_NUMERIC, "every loss is too large to be drawn");
    lks_status status = csv != NULL ? text_write_file(csv, print_csv, s) : LKS_OK;
    if (status == LKS_OK && svg != NULL) status = text_write_file(svg, sweep_print_svg, s);
    if (status != LKS_OK) return status;
    if (strcmp(lks_recipe_text(s->recipe, "log.format"), "json") == 0)
        say_json(s);
    else
        say_text(s, cli->operand[0]);
    say_coarse(s);
    return LKS_OK;
}

static lks_status read_options(sweep *s, const cli_args *cli)
{
    const char *csv = cli->local[LOCAL_CSV], *svg = cli->local[LOCAL_SVG];
    lks_status status = find_number(&s->from, cli, LOCAL_FROM, "--from", USUAL_FROM);
    if (status == LKS_OK) status = find_number(&s->to, cli, LOCAL_TO, "--to", USUAL_TO);
    if (status == LKS_OK && !(s->from < s->to))
        status = lks_fail(LKS_E_INVALID, "--from is %g and --to %g, expected a rate that grows",
                          s->from, s->to);
    s->steps = lks_recipe_given(s->recipe, "train.steps") ? lks_recipe_int(s->recipe, "train.steps")
                                                          : USUAL_STEPS;
    if (status == LKS_OK && (s->steps < LEAST_STEPS || s->steps > MOST_STEPS))
        status = lks_recipe_fail(s->recipe, "train.steps",
                                 "is %lld, expected from %d to %d steps of a sweep",
                                 (long long)s->steps, LEAST_STEPS, MOST_STEPS);
    if (status != LKS_OK || lks_comm_rank(lks_recipe_get_parts(s->recipe).comm) > 0) return status;
    status = output_differ(csv, svg);
    if (status == LKS_OK) status = output_place(cli, s->recipe, "--csv", csv, false);
    if (status == LKS_OK) status = output_place(cli, s->recipe, "--svg", svg, false);
    return status;
}

static lks_status find_lr_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    sweep s = {.recipe = recipe, .parts = lks_recipe_get_parts(recipe)};
    lks_comm *comm = s.parts.comm;
    lks_status status = lks_comm_agree(comm, read_options(&s, cli));
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = lks_recipe_init_weights(recipe);
    s.parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK)
        status = lks_comm_agree(comm, lks_recipe_loader(&s.loader, recipe, s.parts.train, true));
    if (status == LKS_OK) status = sweep_run(&s, cli->pool);
    if (status == LKS_OK) {
        sweep_smooth(&s, cli->pool);
        sweep_choose(&s);
        status = lks_comm_agree(comm, lks_comm_rank(comm) == 0 ? sweep_say(&s, cli) : LKS_OK);
    }
    lks_loader_destroy(s.loader);
    return status;
}

lks_status find_lr(const cli_args *cli, int *code)
{
    return cli_with_ranks(cli, code, find_lr_run);
}
