/* lockstep bench: how fast a configuration trains, and where a step goes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

#include "cli/cli.h"
#include "cli/out/output.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/sort.h"
#include "cli/report/passes.h"
#include "cli/verbs/rates.h"

enum { WARM_UP = 10, LEAST_STEPS = 10, MOST_STEPS = 1000000 };
static const double SECONDS = 3, PEAK_SECONDS = 0.25;

typedef struct bench {
    lks_recipe *recipe;
    lks_recipe_parts parts;
    lks_comm *comm; /* NULL: this process is alone */
    lks_loader *loader;
    lks_schedule schedule;
    int64_t steps, samples;
    double *step;       /* seconds of each */
    double loader_wait; /* seconds in all */
    double total;       /* seconds of all steps */
    double peak[2];     /* before and after, operations a second of `peak_workers` at once */
    int peak_workers;   /* as many as there are, but no more than cores */
    double least, median, most, low, high; /* of the steps; low and high: quartiles */
} bench;

/* The model may have given this rank other replicas (--balance auto). */
static lks_status follow_shares(const bench *b)
{
    const lks_model_info info = lks_model_get_info(b->parts.model);
    return lks_loader_share(b->loader, info.shares, info.first_share, info.last_share);
}

static lks_status one_step(bench *b, double *seconds, double *waited)
{
    lks_batch batch;
    const lks_progress progress = lks_model_progress(b->parts.model);
    const int64_t epoch = progress.step / lks_loader_batches(b->loader);
    const double rate = lks_schedule_at(&b->schedule, progress.step, epoch);
    const double begin = process_clock();
    lks_status status = follow_shares(b);
    if (status == LKS_OK) status = lks_loader_next(b->loader, &batch);
    *waited = process_clock() - begin;
    if (status == LKS_OK)
        status = lks_model_step(b->parts.model, &batch, rate, NULL);
    else
        status = lks_model_fail(b->parts.model, status);
    *seconds = process_clock() - begin;
    b->samples += batch.whole > 0 ? batch.whole : batch.count;
    return status;
}

static lks_status bench_measure_peak(bench *b, int which)
{
    /* Of workers that take turns on a core each would count the time that the others have. */
    const int workers = lks_model_get_info(b->parts.model).workers, cores = lks_cores();
    b->peak_workers = workers < cores ? workers : cores;
    return lks_peak(&b->peak[which], b->parts.context, b->peak_workers, PEAK_SECONDS);
}

static void sort_times(bench *b)
{
    sort_ascending(b->step, (size_t)b->steps);
    b->least = b->step[0];
    b->low = b->step[b->steps / 4];
    b->median = b->step[b->steps / 2];
    b->high = b->step[b->steps * 3 / 4];
    b->most = b->step[b->steps - 1];
}

/* Of rank 0: as each has its own clock. */
static lks_status share_steps(const bench *b, int64_t *steps)
{
    void *array = steps;
    const size_t bytes = sizeof *steps;
    return lks_comm_broadcast(b->comm, 0, &array, &bytes, 1);
}

/* Warm-up, then `steps` steps; 0: as many as `seconds` hold. */
static lks_status bench_measure(bench *b, cli_pool *pool, int64_t steps, double seconds,
                                bool profile)
{
    double time = 0, waited;
    lks_status status = LKS_OK;
    for (int i = 0; i < WARM_UP && status == LKS_OK; i++) status = one_step(b, &time, &waited);
    if (status == LKS_OK) status = bench_measure_peak(b, 0);
    if (status != LKS_OK) return status;
    if (steps == 0) {
        const double fit = seconds / time;
        steps = fit < LEAST_STEPS ? LEAST_STEPS : fit > MOST_STEPS ? MOST_STEPS : (int64_t)fit;
    }
    status = share_steps(b, &steps);
    if (status != LKS_OK) return status;
    b->step = pool_alloc(pool, (size_t)steps * sizeof *b->step);
    b->samples = 0;
    if (profile) status = lks_profile_start(b->parts.model);
    for (; b->steps < steps && status == LKS_OK; b->steps++) {
        status = one_step(b, &time, &waited);
        b->step[b->steps] = time;
        b->total += time;
        b->loader_wait += waited;
    }
    if (status == LKS_OK) status = bench_measure_peak(b, 1);
    if (status == LKS_OK) sort_times(b);
    return status;
}

static double peak_of(const bench *b)
{
    return (b->peak[0] + b->peak[1]) / 2;
}

static void bench_print_head(const bench *b, const char *path)
{
    const lks_recipe_parts *s = &b->parts;
    const lks_model_info info = lks_model_get_info(s->model);
    const int processes = lks_comm_size(b->comm);
    char text[TEXT_NUMBER_SIZE], apart[64] = "";
    say("%s", path);
    if (processes > 1) snprintf(apart, sizeof apart, " in %d processes", processes);
    say("network  %s parameters, batch %lld, %d replica%s on %d worker%s%s, device %s",
        lks_text_count(text, info.parameters), (long long)info.global_batch, info.replicas,
        TEXT_S(info.replicas), info.all_workers, TEXT_S(info.all_workers), apart,
        lks_context_device(s->context));
    say("steps    %lld after %d to warm up, %.2f s", (long long)b->steps, WARM_UP, b->total);
    say("step     %.3f ms (median)", 1e3 * b->median);
    say("spread   quartiles %.3f and %.3f, least %.3f, most %.3f", 1e3 * b->low, 1e3 * b->high,
        1e3 * b->least, 1e3 * b->most);
    say("speed    %s samples/s", lks_text_count(text, llround((double)b->samples / b->total)));
    char of[64];
    snprintf(of, sizeof of, "all workers%s", processes > 1 ? " of this process" : "");
    if (b->peak_workers < info.workers)
        snprintf(of, sizeof of, "%d worker%s, one for each core,", b->peak_workers,
                 TEXT_S(b->peak_workers));
    say("peak     %.1f GFLOP/s of %s before, %.1f after", 1e-9 * b->peak[0], of, 1e-9 * b->peak[1]);
}

/* The layers of a stage, as lines that `lockstep op` takes. */
static void print_stage(const lks_model *model, int stage)
{
    const lks_model_info info = lks_model_get_info(model);
    const int64_t share = (info.global_batch + info.replicas - 1) / info.replicas;
    const lks_tensor *layer;
    char line[LKS_LINE_SIZE];
    for (int i = 0; (layer = lks_model_stage_layer(model, stage, i)) != NULL; i++)
        say("%s", lks_tensor_line(layer, share, line, sizeof line));
}

static void bench_print_row(const bench *b, const char *name, double seconds, double calls,
                            double flops, double bytes)
{
    const double steps = (double)b->steps;
    char cell[4][24], count[24] = "";
    if (calls > 0) snprintf(count, sizeof count, "%.4g", calls / steps);
    say("  %-20s %10.4f %7s %9s %9s %7s %8s", name, 1e3 * seconds / steps,
        share_text(cell[0], seconds / b->total), count,
        rate_text(cell[1], seconds > 0 ? flops / seconds : 0),
        share_text(cell[2], seconds > 0 ? flops / seconds / peak_of(b) : 0),
        rate_text(cell[3], seconds > 0 ? bytes / seconds : 0));
}

static void print_profile(const bench *b)
{
    const lks_model *model = b->parts.model;
    const int rows = lks_profile_total(model).rows;
    double sum = b->loader_wait;
    int stage = -1;
    say("\n  %-20s %10s %7s %9s %9s %7s %8s", "pass", "ms a step", "share", "calls", "GFLOP/s",
        "peak", "GB/s");
    for (int r = 0; r < rows; r++) {
        const lks_profile_row row = lks_profile_get(model, r);
        if (row.calls == 0 || row.stage < 0) continue;
        if (row.stage != stage) print_stage(model, row.stage);
        stage = row.stage;
        sum += row.seconds;
        bench_print_row(b, row.pass, row.seconds, (double)row.calls, row.flops, row.bytes);
    }
    say("everything else");
    for (int r = 0; r < rows; r++) {
        const lks_profile_row row = lks_profile_get(model, r);
        if (row.calls == 0 || row.stage >= 0) continue;
        sum += row.seconds;
        bench_print_row(b, row.pass, row.seconds, (double)row.calls, row.flops, row.bytes);
    }
    bench_print_row(b, "loader wait", b->loader_wait, (double)b->steps, 0, 0);
    bench_print_row(b, "rest", b->total - sum, 0, 0, 0);
    bench_print_row(b, "step (mean)", b->total, (double)b->steps, 0, 0);
    say("%s", "");
    text_print_wrapped(stdout, "Times are means over workers, calls those of all. " RATES_PEAK_NOTE,
                       0, 0, HELP_WIDTH);
}

static json_t *row_json(const bench *b, const lks_profile_row *row)
{
    const lks_model *model = b->parts.model;
    const lks_model_info info = lks_model_get_info(model);
    const int64_t share = (info.global_batch + info.replicas - 1) / info.replicas;
    const lks_tensor *layer;
    json_t *layers = json_array(), *names = json_array();
    char line[LKS_LINE_SIZE];
    for (int i = 0; (layer = lks_model_stage_layer(model, row->stage, i)) != NULL; i++) {
        json_array_append_new(layers,
                              json_string(lks_tensor_line(layer, share, line, sizeof line)));
        json_array_append_new(names, json_string(lks_tensor_name(layer)));
    }
    return json_pack("{s:o, s:o, s:s, s:I, s:f, s:f, s:f}", "layers", layers, "names", names,
                     "pass", row->pass, "calls", (json_int_t)row->calls, "seconds", row->seconds,
                     "flops", row->flops, "bytes", row->bytes);
}

static json_t *profile_json(const bench *b)
{
    json_t *list = json_array();
    double sum = b->loader_wait;
    for (int r = 0; r < lks_profile_total(b->parts.model).rows; r++) {
        const lks_profile_row row = lks_profile_get(b->parts.model, r);
        if (row.calls == 0) continue;
        sum += row.seconds;
        json_array_append_new(list, row_json(b, &row));
    }
    const lks_profile_row wait = {
        .stage = -1, .pass = "loader wait", .calls = b->steps, .seconds = b->loader_wait};
    const lks_profile_row rest = {.stage = -1, .pass = "rest", .seconds = b->total - sum};
    json_array_append_new(list, row_json(b, &wait));
    json_array_append_new(list, row_json(b, &rest));
    return list;
}

static json_t *bench_json(const bench *b, bool profile)
{
    const lks_recipe_parts *s = &b->parts;
    const lks_model_info info = lks_model_get_info(s->model);
    uint64_t hash = 0;
    char text[20];
    const bool known = lks_model_alone(s->model) == 0 && lks_model_hash(s->model, &hash) == LKS_OK;
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:i, s:i, s:i, s:i, s:I, s:I}", "version", lks_version(),
        "build", lks_build_info(), "fingerprint", lks_context_fingerprint(s->context), "device",
        lks_context_device(s->context), "config", cli_recipe_json(b->recipe), "workers",
        info.all_workers, "processes", lks_comm_size(b->comm), "peak_workers", b->peak_workers,
        "replicas", info.replicas, "global_batch", (json_int_t)info.global_batch, "parameters",
        (json_int_t)info.parameters);
    json_t *times = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "steps",
                              (json_int_t)b->steps, "seconds", b->total, "samples_per_second",
                              (double)b->samples / b->total, "median", b->median, "least", b->least,
                              "most", b->most, "quartile1", b->low, "quartile3", b->high,
                              "peak_flops_before", b->peak[0], "peak_flops_after", b->peak[1]);
    json_object_update(json, times);
    json_decref(times);
    if (profile) json_object_set_new(json, "profile", profile_json(b));
    json_object_set_new(json, "hash", known ? json_string(text) : json_null());
    return json;
}

static lks_status bench_print(const bench *b, const cli_args *cli, bool profile)
{
    lks_status status = LKS_OK;
    json_t *json = bench_json(b, profile);
    if (lks_recipe_has(b->recipe, "log.record"))
        status = text_write_json(lks_recipe_text(b->recipe, "log.record"), json);
    if (strcmp(lks_recipe_text(b->recipe, "log.format"), "json") == 0) {
        text_say_json(json, 0);
    } else {
        bench_print_head(b, cli->operand[0]);
        if (profile) print_profile(b);
    }
    json_decref(json);
    return status;
}

/* Of the toy network's files they are what is asked for. */
static bool measures_passes(const cli_args *cli, const lks_recipe *recipe)
{
    return cli->local[LOCAL_PASSES] != NULL ||
           strcmp(lks_recipe_text(recipe, "data.name"), "checkerboard") == 0;
}

static lks_status bench_run(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    const bool profile = cli->local[LOCAL_PROFILE] != NULL;
    const bool counted = lks_recipe_given(recipe, "train.steps");
    bench b = {.recipe = recipe, .comm = lks_recipe_get_parts(recipe).comm};
    const bool leads = lks_comm_rank(b.comm) == 0; /* it talks, and writes the file */
    double seconds = SECONDS;
    lks_status status = cli_seconds(&seconds, cli);
    const passes_extent extent = {.warmup = lks_recipe_int(recipe, "bench.warmup"),
                                  .calls = cli->local[LOCAL_SECONDS] == NULL &&
                                                   lks_recipe_has(recipe, "bench.calls")
                                               ? lks_recipe_int(recipe, "bench.calls")
                                               : 0,
                                  .seconds = seconds,
                                  .by_layer = profile};
    if (status == LKS_OK && measures_passes(cli, recipe))
        return passes_measure(recipe, &extent,
                              strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0);
    if (status == LKS_OK && leads)
        status = output_place(cli, recipe, "log.record", lks_recipe_text(recipe, "log.record"),
                              false);
    status = lks_comm_agree(b.comm, status);
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    b.parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK)
        status = cli_say_crowd(cli, b.comm, lks_model_get_info(b.parts.model).workers, false,
                               &(int){0});
    if (status == LKS_OK) status = lks_recipe_init_weights(recipe);
    if (status == LKS_OK)
        status = lks_comm_agree(b.comm, lks_recipe_loader(&b.loader, recipe, b.parts.train, true));
    if (status == LKS_OK) {
        const int64_t batches = lks_loader_batches(b.loader);
        const int64_t epochs = lks_recipe_has(recipe, "train.epochs")
                                   ? lks_recipe_int(recipe, "train.epochs")
                                   : 1;
        b.schedule = lks_recipe_schedule(recipe, epochs, 0, batches);
        status = bench_measure(&b, cli->pool, counted ? lks_recipe_int(recipe, "train.steps") : 0,
                               seconds, profile);
    }
    if (status == LKS_OK)
        status = lks_comm_agree(b.comm, leads ? bench_print(&b, cli, profile) : LKS_OK);
    lks_loader_destroy(b.loader);
    return status;
}

lks_status verb_bench(const cli_args *cli, int *code)
{
    return cli_with_ranks(cli, code, bench_run);
}
