/* lockstep train */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/out/output.h"
#include "cli/out/text.h"
#include "cli/report/report.h"
#include "cli/report/sc20.h"
#include "cli/report/summary.h"
#include "cli/running/running.h"
#include "cli/stop.h"
#include "cli/arch/arch.h"
#include "cli/verbs/processes.h"
#include "cli/verbs/record.h"

typedef struct training {
    const cli_args *cli;
    lks_recipe *recipe;
    lks_comm *comm; /* NULL: this process is alone */
    lks_recipe_parts parts;
    cli_report report;
    running running;
    const lks_run *run;
    bool dry_run;
} training;

/* The process that talks, and writes files. */
static bool leads(const training *t)
{
    return lks_comm_rank(t->comm) == 0;
}

static lks_status stop_or_go(void)
{
    return stop_asked() != 0 ? lks_fail(LKS_E_STOPPED, "stopped by a signal") : LKS_OK;
}

static lks_status on_step(void *user, const lks_step_event *event)
{
    training *t = user;
    report_step(&t->report, event);
    running_step(&t->running, event);
    return stop_or_go();
}

static lks_status on_epoch(void *user, const lks_epoch *epoch)
{
    training *t = user;
    report_epoch(&t->report, epoch);
    fflush(stdout); /* the record, which is written now, may be that file */
    return stop_or_go();
}

static void on_resume(void *user, const lks_run *run)
{
    training *t = user;
    const char *folder = lks_recipe_text(t->recipe, "checkpoint.path");
    if (run == NULL) {
        say_error("no checkpoint in %s yet: starting afresh", folder);
        return;
    }
    if (run->progress.step >= t->parts.steps)
        say_error("nothing is left to train: %s is at step %" PRId64
                  ", and the run ends with step %" PRId64
                  "; more --epochs or --steps go on from there",
                  folder, run->progress.step, t->parts.steps);
    else
        say_error("continuing from step %" PRId64 " in %s", run->progress.step, folder);
    if (run->numerics != lks_numerics())
        say_error("it has bits of version %d of the numerics, and goes on with those of version %d",
                  run->numerics, lks_numerics());
}

/* What a folder already has by the name of its record, and is none, is not lost. */
static lks_status check_record(const training *t, const char *path)
{
    json_t *record;
    if (path == NULL || lks_recipe_has(t->recipe, "log.record") || access(path, F_OK) != 0)
        return LKS_OK;
    const lks_status status = record_read(&record, path);
    json_decref(record);
    if (status != LKS_E_FORMAT) return status;
    return lks_fail(
        LKS_E_INVALID,
        "'%.300s' is no record of a training, and would be replaced by one; move it, or "
        "name the record with --record FILE",
        path);
}

/* What is written at the end of a long training has a place, which is better known now. */
static lks_status check_places(const training *t)
{
    const char *record = lks_recipe_record_file(t->recipe);
    const char *weights = lks_recipe_weights(t->recipe);
    const char *table = lks_recipe_text(t->recipe, "log.csv");
    lks_status status = check_record(t, record);
    if (status == LKS_OK) status = output_differ(record, weights);
    if (status == LKS_OK) status = output_differ(record, table);
    if (status == LKS_OK) status = output_differ(weights, table);
    if (status == LKS_OK)
        status = output_place(t->cli, t->recipe, "log.record", record, t->dry_run);
    if (status == LKS_OK)
        status = output_place(t->cli, t->recipe, "model.save", weights, t->dry_run);
    if (status == LKS_OK) status = output_place(t->cli, t->recipe, "log.csv", table, t->dry_run);
    return status;
}

/* "Using 4 workers in 2 processes (Open MPI 4.1.4)." */
static void say_workers(const training *t, const lks_model_info *info)
{
    const int workers = info->all_workers, processes = lks_comm_size(t->comm);
    if (info->average_every > 0)
        say("Using %d workers in %d processes (%s), which average their models every %d step%s; "
            "the "
            "bits depend on them.",
            workers, processes, lks_comm_library(t->comm), info->average_every,
            TEXT_S(info->average_every));
    else if (processes > 1)
        say("Using %d workers in %d processes (%s)%s.", workers, processes,
            lks_comm_library(t->comm),
            info->own_bits ? "; the bits may depend on how many there are" : "");
    else
        say("Using %d worker%s.", workers, TEXT_S(workers));
}

/* The switches that are not as usual: "Kernels with winograd: off, fuse: false, which may round otherwise." */
static void say_kernels(const training *t)
{
    const char *winograd = lks_recipe_text(t->recipe, "kernels.winograd");
    const bool usual = strcmp(winograd, "auto") == 0;
    const bool skips = lks_recipe_bool(t->recipe, "kernels.skip_zeros");
    const bool fuses = lks_recipe_bool(t->recipe, "kernels.fuse");
    if (usual && skips && fuses) return;
    say("Kernels with%s%s%s%s%s%s, which may round otherwise than the usual ones.",
        usual ? "" : " winograd: ", usual ? "" : winograd, usual || skips ? "" : ",",
        skips ? "" : " skip_zeros: false", (usual && skips) || fuses ? "" : ",",
        fuses ? "" : " fuse: false");
}

/* Where the batch has changed it: "Learning rate 0.4: 0.1 for a batch of 128, times the root of 2048 / 128." */
static void say_rate(const training *t)
{
    const char *rule = lks_recipe_text(t->recipe, "optimizer.lr_scaling");
    const long long base = lks_recipe_int(t->recipe, "optimizer.lr_batch");
    if (strcmp(rule, "none") == 0) return;
    say("Learning rate %g: %g for a batch of %lld, times %s%lld / %lld.",
        lks_recipe_schedule(t->recipe, 1, 0, 1).lr, lks_recipe_float(t->recipe, "optimizer.lr"),
        base, strcmp(rule, "sqrt") == 0 ? "the root of " : "",
        (long long)lks_recipe_int(t->recipe, "train.batch_size"), base);
}

static void train_print_head(const training *t, int cores)
{
    const lks_recipe_parts *s = &t->parts;
    const lks_model_info info = lks_model_get_info(s->model);
    if (lks_recipe_bool(t->recipe, "log.quiet")) return;
    const bool plain = t->report.format !=
                       REPORT_ITERATIONS; /* that is not about tests and cores */
    if (plain && s->test == NULL && s->valid == NULL)
        say_error("%s has no test split, so nothing is tested; validation.fraction: 0.1 with "
                  "validation.shuffle: true would hold samples back",
                  lks_recipe_text(t->recipe, "data.name"));
    const bool limited = cores > info.replicas && info.all_workers == info.replicas;
    if (plain && limited && !lks_recipe_has(t->recipe, "train.workers"))
        say_error("using %d of %d cores; replicas: %d would allow all (other bits)",
                  info.all_workers, cores, cores);
    const long long samples = (long long)lks_dataset_get_info(s->train).samples;
    const long long tests = s->test != NULL ? (long long)lks_dataset_get_info(s->test).samples : 0;
    if (!report_is_text(t->report.format) && t->report.format != REPORT_ITERATIONS) {
        if (t->report.format != REPORT_JSON) return; /* the other has no line for it */
        json_t *start = json_pack("{s:s, s:I, s:I, s:i, s:i, s:I, s:I, s:I, s:I}", "event", "start",
                                  "train_samples", samples, "test_samples", tests, "workers",
                                  info.workers, "replicas", info.replicas, "parameters",
                                  (json_int_t)info.parameters, "global_batch",
                                  (json_int_t)info.global_batch, "epochs", (json_int_t)s->epochs,
                                  "steps", (json_int_t)s->steps);
        if (info.own_bits) json_object_set_new(start, "bits_depend_on_processes", json_true());
        report_event(&t->report, start);
        return;
    }
    if (t->report.format == REPORT_LIGHTNING) summary_print(t->cli->pool, t->recipe, s);
    say("Train set size: %lld", samples);
    if (s->valid != NULL)
        say("Validation set size: %lld", (long long)lks_dataset_get_info(s->valid).samples);
    if (s->test != NULL) say("Test set size: %lld", tests);
    say_workers(t, &info);
    say_kernels(t);
    say_rate(t);
    if (t->report.format == REPORT_SC20) sc20_begin();
}

static void say_stopped(const training *t, int64_t step)
{
    const char *folder = t->dry_run ? NULL : lks_recipe_text(t->recipe, "checkpoint.path");
    if (folder == NULL) {
        say_error("stopped after step %" PRId64 "; nothing is saved without --out DIR", step);
    } else {
        say_command(cli_command(t->cli, t->cli->pool, "--resume"),
                    "stopped after step %" PRId64 " and saved in %s; to continue", step, folder);
    }
}

/* Why it stopped early, and which weights the model has, where they are not those of the last step. */
static void say_end(const training *t)
{
    const lks_run *run = t->run;
    const int64_t step = lks_model_progress(t->parts.model).step;
    const int64_t patience = lks_recipe_int(t->recipe, "validation.patience");
    const bool restores = lks_recipe_bool(t->recipe, "validation.restore_best");
    if (patience == 0 || t->report.quiet) return;
    if (run->bad_epochs >= patience)
        say_error("stopped early: no better loss in %d evaluation%s", run->bad_epochs,
                  TEXT_S(run->bad_epochs));
    if (step != run->progress.step)
        say_error("the model is that of step %" PRId64 ", whose loss was the best; the hash is of "
                  "step %" PRId64 ", the last",
                  step, run->progress.step);
    else if (run->finished && restores && run->best_step >= 0 && run->best_step != step)
        say_error("step %" PRId64 ", whose loss was the best, has no checkpoint: the model is that "
                  "of step %" PRId64 ", the last",
                  run->best_step, step);
}

/* The first failure is the one that the program ends with; others are said at once. */
static void note_failure(lks_error *first, lks_status status)
{
    if (status == LKS_OK) return;
    if (first->status == LKS_OK)
        *first = *lks_last_error();
    else
        say_error("%s", lks_last_error()->message);
}

/* With all processes: each gives what it has, and the first writes. */
static lks_status save_weights(const training *t)
{
    const char *file = lks_recipe_weights(t->recipe);
    const lks_status status = lks_weights_save(t->parts.model, file);
    if (status == LKS_OK && !t->report.quiet) say_error("the weights are in %s", file);
    return status;
}

static lks_status train_save_record(const training *t)
{
    if (!leads(t)) return LKS_OK;
    fflush(stdout); /* which may be that file */
    /* A pipe whose reader is gone is a failure to report. */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    const lks_status status = lks_recipe_save_record(t->recipe);
    if (before != SIG_ERR) signal(SIGPIPE, before);
    return status;
}

/* Into a pipe, when it has a reader. */
static lks_status write_at_end(const training *t, const char *path,
                               lks_status (*write_it)(const training *t))
{
    int pipe = -1;
    const lks_status awaited = leads(t) ? output_await(&pipe, path) : LKS_OK;
    lks_status status = lks_comm_agree(t->comm, awaited);
    if (status == LKS_OK) status = write_it(t);
    if (pipe >= 0) close(pipe);
    return status;
}

/* After the last step, by its end or by a signal. Whatever fails now, the hash is said. */
static lks_status train_finish(training *t, lks_status trained)
{
    const char *weights = lks_recipe_weights(t->recipe);
    const char *record = lks_recipe_record_file(t->recipe);
    lks_error first = {.status = LKS_OK};
    note_failure(&first, trained);
    say_end(t);
    if (!t->dry_run && weights != NULL)
        note_failure(&first, write_at_end(t, weights, save_weights));
    if (!t->dry_run && record != NULL)
        note_failure(&first, write_at_end(t, record, train_save_record));
    if (leads(t) && !t->report.quiet && t->report.costs.count > 0) {
        cost_plot(&t->report.costs);
        note_failure(&first, cost_save(&t->report.costs));
    }
    report_end(&t->report, t->run);
    const lks_status status = first.status == LKS_OK ? LKS_OK
                                                     : lks_fail(first.status, "%s", first.message);
    return lks_comm_agree(t->comm, status);
}

/* The signal that any of the processes was asked to stop by; 0: none. */
static int signal_of_any(const training *t)
{
    enum { MOST = 1 << 12 };
    int own = stop_asked(), all[MOST], found = 0;
    const int size = lks_comm_size(t->comm);
    if (size == 1 || size > MOST) return own;
    if (lks_comm_all_gather(t->comm, &own, sizeof own, all) != LKS_OK) return own;
    for (int i = size; i > 0; i--)
        if (all[i - 1] != 0) found = all[i - 1];
    return found;
}

/* The others have a file each for what they have to say. */
static void say_apart(const training *t)
{
    const char *folder = t->dry_run ? NULL : lks_recipe_text(t->recipe, "checkpoint.path");
    if (folder != NULL && !leads(t)) say_into(folder, lks_comm_rank(t->comm));
}

static lks_status train(const cli_args *cli, lks_recipe *recipe, int *code)
{
    training t = {.cli = cli,
                  .recipe = recipe,
                  .comm = lks_recipe_get_parts(recipe).comm,
                  .dry_run = lks_recipe_bool(recipe, "train.dry_run")};
    const lks_train_events events = {
        .on_step = on_step, .on_epoch = on_epoch, .on_resume = on_resume, .user = &t};
    int cores = 0;
    bool complete, tests;
    lks_status status = arch_evaluates(&tests, cli);
    if (status == LKS_OK && tests) return arch_evaluate(cli, recipe, code);
    if (status == LKS_OK) status = lks_recipe_lock(recipe);
    if (status == LKS_OK) status = lks_comm_agree(t.comm, leads(&t) ? check_places(&t) : LKS_OK);
    if (status == LKS_OK) say_apart(&t);
    if (status == LKS_OK) status = lks_recipe_start(recipe);
    if (status == LKS_OK) status = arch_check_resume(cli, recipe);
    if (status == LKS_OK) status = arch_print_head(cli, recipe);
    if (status != LKS_OK) return status;
    t.parts = lks_recipe_get_parts(recipe);
    report_begin(&t.report, recipe, &t.parts);
    stop_watch();
    status = cli_say_crowd(cli, t.comm, lks_model_get_info(t.parts.model).workers, t.report.quiet,
                           &cores);
    if (status == LKS_OK) status = running_begin(&t.running, cli, recipe);
    if (status != LKS_OK) return status;
    train_print_head(&t, cores);
    status = lks_recipe_run(recipe, &events, &t.run, &complete);
    running_end(&t.running);
    const int stopped = status == LKS_E_STOPPED ? signal_of_any(&t) : 0;
    if (stopped != 0) {
        *code = 128 + stopped;
        say_stopped(&t, t.run->progress.step);
        status = LKS_OK;
    }
    return complete ? train_finish(&t, status) : status;
}

lks_status verb_train(const cli_args *cli, int *code)
{
    const lks_status status = processes_start(cli);
    return status == LKS_OK ? cli_with_ranks(cli, code, train) : cli_refuse(status);
}
