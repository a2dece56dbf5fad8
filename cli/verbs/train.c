/* lockstep train */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args/changes.h"
#include "cli/args/help.h"
#include "cli/cli.h"
#include "cli/out/output.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/session.h"
#include "cli/report/report.h"
#include "cli/stop.h"

typedef struct training {
    const cli_args *cli;
    lki_config *config;
    lki_session session;
    cli_report report;
    lks_folder_lock *lock;
    lks_loader *train, *valid, *test;
    lks_train_opts opts;
    lks_run run;
    json_t *links;          /* of the hash chain, for the record */
    double first_step;      /* seconds until it was finished; 0: there was none */
    const char *first_from; /* counted from here */
    bool keep_record;       /* it is kept up to date, for whoever finds the run killed */
} training;

static json_t *record_json(const training *t)
{
    const lks_model_info info = lks_model_get_info(t->session.model);
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, t->run.hash);
    json_t *epochs = json_array(), *record = json_object();
    for (int64_t i = 0; i < t->run.epochs; i++)
        json_array_append_new(epochs, report_epoch_json(NULL, &t->run.history[i]));
    json_object_set_new(record, "numerics", json_integer(lks_numerics()));
    json_object_set_new(record, "version", json_string(lks_version()));
    json_object_set_new(record, "build", json_string(lks_build_info()));
    json_object_set_new(record, "fingerprint",
                        json_string(lks_context_fingerprint(t->session.context)));
    json_object_set_new(record, "device", json_string(lks_context_device(t->session.context)));
    json_object_set_new(record, "config", lki_config_json(t->config));
    json_object_set_new(record, "workers", json_integer(info.workers));
    json_object_set_new(record, "replicas", json_integer(info.replicas));
    json_object_set_new(record, "global_batch", json_integer(info.global_batch));
    json_object_set_new(record, "parameters", json_integer(info.parameters));
    json_object_set_new(record, "steps", json_integer(t->run.progress.step));
    json_object_set_new(record, "skipped_steps", json_integer(t->run.progress.skipped));
    json_object_set_new(record, "epochs", epochs);
    json_object_set_new(record, "finished", json_boolean(t->run.finished));
    json_object_set_new(record, "best_loss", text_json_real(t->run.best_loss));
    json_object_set_new(record, "best_step",
                        t->run.best_step >= 0 ? json_integer(t->run.best_step) : json_null());
    json_object_set_new(record, "weights_step",
                        json_integer(lks_model_progress(t->session.model).step));
    json_object_set_new(record, "seconds_to_first_step",
                        t->first_step > 0 ? json_real(t->first_step) : json_null());
    json_object_set_new(record, "seconds_counted_from",
                        json_string(t->first_from != NULL ? t->first_from : "process start"));
    const char *from;
    json_object_set_new(record, "seconds", json_real(process_seconds(&from)));
    json_object_set_new(record, "peak_rss_bytes", json_integer(process_peak_bytes()));
    json_object_set(record, "links", t->links);
    json_object_set_new(record, "hash", json_string(text));
    return record;
}

static lks_status write_record(const training *t, bool at_end)
{
    const char *path = lki_config_text(t->config, LKI_KEY_LOG_RECORD);
    json_t *record = record_json(t);
    const lks_status status = at_end ? text_write_json(path, record)
                                     : text_update_json(path, record);
    json_decref(record);
    return status;
}

static lks_status on_step(void *user, const lks_step_event *event)
{
    training *t = user;
    if (t->first_step <= 0) t->first_step = process_seconds(&t->first_from);
    if (event->step % lki_config_int(t->config, LKI_KEY_TRAIN_HASH_EVERY) == 0) {
        char link[20];
        snprintf(link, sizeof link, "%016" PRIx64, lks_model_progress(t->session.model).link);
        json_array_append_new(
            t->links, json_pack("{s:I, s:s}", "step", (json_int_t)event->step, "link", link));
    }
    report_step(&t->report, event);
    return stop_asked() != 0 ? lks_fail(LKS_E_STOPPED, "stopped by a signal") : LKS_OK;
}

static lks_status on_epoch(void *user, const lks_epoch *epoch)
{
    training *t = user;
    report_epoch(&t->report, epoch);
    if (t->keep_record) {
        lks_status status = lks_model_hash(t->session.model, &t->run.hash);
        if (status == LKS_OK) status = write_record(t, false);
        if (status != LKS_OK)
            say_error("the record: %s; it is tried again after the next epoch",
                      lks_last_error()->message);
    }
    return stop_asked() != 0 ? lks_fail(LKS_E_STOPPED, "stopped by a signal") : LKS_OK;
}

static void on_resume(void *user, const lks_run *run)
{
    training *t = user;
    const char *folder = lki_config_text(t->config, LKI_KEY_CHECKPOINT_PATH);
    if (run == NULL) {
        say_error("no checkpoint in %s yet: starting afresh", folder);
        return;
    }
    say_error("continuing from step %" PRId64 " in %s", run->progress.step, folder);
    if (run->numerics != lks_numerics())
        say_error("it has bits of version %d of the numerics, and goes on with those of version %d",
                  run->numerics, lks_numerics());
}

/* The folder is this run's from here on; a dry run, which saves nothing, only looks at it. Without
 * --resume one with checkpoints of an earlier run is left alone, and with it the run stays the same. */
static lks_status take_folder(training *t)
{
    const lki_config *config = t->config;
    const char *folder = lki_config_text(config, LKI_KEY_CHECKPOINT_PATH);
    int64_t newest = -1;
    lks_status status = LKS_OK;
    if (folder == NULL) return LKS_OK;
    if (!lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN))
        status = lks_checkpoint_lock(&t->lock, t->session.context, folder);
    if (status != LKS_OK) return status;
    if (lki_config_bool(config, LKI_KEY_CHECKPOINT_RESUME)) return changes_check(config, folder);
    status = lks_checkpoint_find(folder, &newest);
    if (status != LKS_OK || newest < 0) return status;
    return lki_config_fail(config, LKI_KEY_CHECKPOINT_PATH,
                           "is %.200s, which has checkpoints up to step %" PRId64
                           "; give --resume to continue, or another folder",
                           folder, newest);
}

/* The file for the weights; NULL: they are not saved. */
static const char *weights_file(const training *t)
{
    if (!lki_config_bool(t->config, LKI_KEY_MODEL_SAVE)) return NULL;
    return pool_format(&t->config->heap, "%.200s.safetensors",
                       lki_config_text(t->config, LKI_KEY_MODEL_NAME));
}

/* What is written at the end of a long training has a place, which is better known now. */
static lks_status check_places(training *t)
{
    const char *record = lki_config_text(t->config, LKI_KEY_LOG_RECORD), *weights = weights_file(t);
    const bool look_only = lki_config_bool(t->config, LKI_KEY_TRAIN_DRY_RUN);
    lks_status status = output_differ(record, weights);
    if (status == LKS_OK) status = output_check(t->cli, t->config, "log.record", record, look_only);
    if (status == LKS_OK)
        status = output_check(t->cli, t->config, "model.save", weights, look_only);
    t->keep_record = record != NULL && !look_only && output_is_file(record);
    return status;
}

static void train_print_head(const training *t)
{
    const lki_session *s = &t->session;
    const lks_model_info info = lks_model_get_info(s->model);
    if (lki_config_bool(t->config, LKI_KEY_LOG_QUIET)) return;
    if (s->test == NULL && s->valid == NULL)
        say_error("%s has no test split, so nothing is tested; validation.fraction: 0.1 with "
                  "validation.shuffle: true would hold samples back",
                  lki_config_text(t->config, LKI_KEY_DATA_NAME));
    const int cores = lks_cores();
    if (cores > info.replicas && !lki_config_has(t->config, LKI_KEY_TRAIN_WORKERS))
        say_error("using %d of %d cores; replicas: %d would use all (other bits)", info.workers,
                  cores, cores);
    const long long samples = (long long)lks_dataset_get_info(s->train).samples;
    const long long tests = s->test != NULL ? (long long)lks_dataset_get_info(s->test).samples : 0;
    if (t->report.format != REPORT_TEXT) {
        if (t->report.format == REPORT_JSON) /* the other has no line for it */
            report_event(&t->report, json_pack("{s:s, s:I, s:I, s:i, s:i, s:I}", "event", "start",
                                               "train_samples", samples, "test_samples", tests,
                                               "workers", info.workers, "replicas", info.replicas,
                                               "parameters", (json_int_t)info.parameters));
        return;
    }
    say("Train set size: %lld", samples);
    if (s->valid != NULL)
        say("Validation set size: %lld", (long long)lks_dataset_get_info(s->valid).samples);
    if (s->test != NULL) say("Test set size: %lld", tests);
    say("Using %d worker%s.", info.workers, TEXT_S(info.workers));
}

static lks_status open_loaders(training *t)
{
    lks_status status = lki_session_loader(&t->train, &t->session, t->session.train, true);
    if (status == LKS_OK && t->session.valid != NULL)
        status = lki_session_loader(&t->valid, &t->session, t->session.valid, false);
    if (status == LKS_OK && t->session.test != NULL)
        status = lki_session_loader(&t->test, &t->session, t->session.test, false);
    return status;
}

/* The length of the run, and what lks_train() should do. */
static lks_status train_fill_opts(training *t, char **config_text_out)
{
    const lki_config *config = t->config;
    const bool dry_run = lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN);
    const int64_t batches = lks_loader_batches(t->train);
    const int64_t every = lki_config_int(config, LKI_KEY_CHECKPOINT_EVERY_EPOCHS);
    int64_t epochs = lki_config_has(config, LKI_KEY_TRAIN_EPOCHS)
                         ? lki_config_int(config, LKI_KEY_TRAIN_EPOCHS)
                         : 0;
    int64_t steps = lki_config_has(config, LKI_KEY_TRAIN_STEPS)
                        ? lki_config_int(config, LKI_KEY_TRAIN_STEPS)
                        : 0;
    if (batches < 1)
        return lks_fail(LKS_E_INVALID,
                        "the training data has no whole batch of %" PRId64
                        "; choose a smaller train.batch_size, or data.drop_last: false",
                        lki_config_int(config, LKI_KEY_TRAIN_BATCH_SIZE));
    if (epochs > INT64_MAX / batches)
        return lki_config_fail(config, LKI_KEY_TRAIN_EPOCHS,
                               "is too large for %" PRId64 " batch%s in an epoch", batches,
                               batches == 1 ? "" : "es");
    const lks_schedule schedule = lki_session_schedule(config, epochs, steps, batches);
    if (dry_run) steps = 1;
    json_t *json = lki_config_json(config);
    *config_text_out = text_json(json);
    json_decref(json);
    if (*config_text_out == NULL)
        return lks_fail(LKS_E_NOMEM, "no memory for the configuration in checkpoints");
    t->opts = (lks_train_opts){
        .model = t->session.model,
        .train = t->train,
        .valid = t->valid,
        .test = t->test,
        .schedule = schedule,
        .epochs = epochs,
        .steps = steps,
        .eval_epochs = lki_config_int(config, LKI_KEY_VALIDATION_EVERY_EPOCHS),
        .patience = lki_config_has(config, LKI_KEY_VALIDATION_PATIENCE)
                        ? (int)lki_config_int(config, LKI_KEY_VALIDATION_PATIENCE)
                        : 0,
        .keep_last = !lki_config_bool(config, LKI_KEY_VALIDATION_RESTORE_BEST),
        .folder = dry_run ? NULL : lki_config_text(config, LKI_KEY_CHECKPOINT_PATH),
        .lock = t->lock,
        .save_steps = lki_config_has(config, LKI_KEY_CHECKPOINT_EVERY_STEPS)
                          ? lki_config_int(config, LKI_KEY_CHECKPOINT_EVERY_STEPS)
                          : 0,
        .save_epochs = every > 0 ? every : -1,
        .keep = (int)lki_config_int(config, LKI_KEY_CHECKPOINT_KEEP),
        .resume = !dry_run && lki_config_bool(config, LKI_KEY_CHECKPOINT_RESUME),
        .accept_changes = lki_config_bool(config, LKI_KEY_CHECKPOINT_ACCEPT_CHANGES),
        .config = *config_text_out,
        .events = {on_step, on_epoch, on_resume, NULL, t},
    };
    const bool by_epochs = epochs > 0 && (steps == 0 || epochs * batches < steps);
    const int64_t last = by_epochs ? epochs * batches : steps;
    report_begin(&t->report, config, lks_dataset_get_info(t->session.train).samples,
                 last / batches + (last % batches != 0), last, t->session.info.classes > 0);
    if (t->opts.folder == NULL) return LKS_OK;
    const lks_status status = lks_dataset_hash(t->session.train, &t->opts.data_hash);
    if (status != LKS_OK || t->session.test == NULL) return status;
    return lks_dataset_hash(t->session.test, &t->opts.test_hash);
}

/* A single batch was trained: see that testing works too. */
static lks_status dry_test(training *t)
{
    lks_metrics sum = {0};
    lks_batch batch;
    if (t->test == NULL) return LKS_OK;
    for (int64_t i = lks_loader_batches(t->test); i > 0; i--) {
        lks_status status = lks_loader_next(t->test, &batch);
        if (status == LKS_OK) status = lks_model_evaluate(t->session.model, &batch, &sum);
        if (status != LKS_OK) return status;
    }
    if (!t->report.quiet && t->report.format == REPORT_TEXT)
        report_test("Test", &sum, t->session.info.classes > 0, true);
    return LKS_OK;
}

static void say_stopped(const training *t, int64_t step)
{
    cli_pool pool = {0};
    if (t->opts.folder == NULL) {
        say_error("stopped after step %" PRId64 "; nothing is saved without --out DIR", step);
    } else {
        say_command(cli_command(t->cli, &pool, "--resume"),
                    "stopped after step %" PRId64 " and saved in %s; to continue", step,
                    t->opts.folder);
    }
    pool_clear(&pool);
}

/* Why it stopped early, and which weights the model has, where they are not those of the last step. */
static void say_end(const training *t)
{
    const lks_run *run = &t->run;
    const int64_t step = lks_model_progress(t->session.model).step;
    if (t->opts.patience == 0 || t->report.quiet) return;
    if (run->bad_epochs >= t->opts.patience)
        say_error("stopped early: no better loss in %d evaluation%s", run->bad_epochs,
                  TEXT_S(run->bad_epochs));
    if (step != run->progress.step)
        say_error("the model is that of step %" PRId64 ", whose loss was the best; the hash is of "
                  "step %" PRId64 ", the last",
                  step, run->progress.step);
    else if (run->finished && !t->opts.keep_last && run->best_step >= 0 && run->best_step != step)
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

static lks_status save_weights(const training *t)
{
    const char *file = weights_file(t);
    const lks_status status = lks_weights_save(t->session.model, file);
    if (status == LKS_OK && !t->report.quiet) say_error("the weights are in %s", file);
    return status;
}

static lks_status train_save_record(const training *t)
{
    return write_record(t, true);
}

/* Into a pipe, when it has a reader. */
static lks_status write_at_end(const training *t, const char *path,
                               lks_status (*write_it)(const training *t))
{
    int pipe;
    lks_status status = output_await(&pipe, path);
    if (status == LKS_OK) status = write_it(t);
    if (pipe >= 0) close(pipe);
    return status;
}

/* After the last step, by its end or by a signal. Whatever fails now, the hash is said. */
static lks_status train_finish(training *t, lks_status trained)
{
    const bool dry_run = lki_config_bool(t->config, LKI_KEY_TRAIN_DRY_RUN);
    lks_error first = {.status = LKS_OK};
    note_failure(&first, trained);
    say_end(t);
    if (!dry_run && lki_config_bool(t->config, LKI_KEY_MODEL_SAVE))
        note_failure(&first, write_at_end(t, weights_file(t), save_weights));
    if (!dry_run && lki_config_has(t->config, LKI_KEY_LOG_RECORD))
        note_failure(&first, write_at_end(t, lki_config_text(t->config, LKI_KEY_LOG_RECORD),
                                          train_save_record));
    report_end(&t->report, &t->run);
    return first.status == LKS_OK ? LKS_OK : lks_fail(first.status, "%s", first.message);
}

/* All steps are done, but the checkpoint of the last could not be saved: the run has its hash. */
static bool is_complete(training *t, lks_status status)
{
    const bool of_files = status == LKS_E_IO || status == LKS_E_NOMEM;
    if (!of_files || !(t->run.finished || stop_asked() != 0)) return false;
    const lks_error first = *lks_last_error();
    const bool complete = lks_model_hash(t->session.model, &t->run.hash) == LKS_OK;
    (void)!lks_fail(first.status, "%s", first.message);
    return complete;
}

static lks_status run_training(training *t, int *code)
{
    char *config = NULL;
    lks_status status = output_alone();
    if (status == LKS_OK) status = lki_session_begin(&t->session, t->config);
    if (status == LKS_OK) status = take_folder(t);
    if (status == LKS_OK) status = check_places(t);
    if (status == LKS_OK)
        status = lki_session_open(&t->session, t->config, LKI_SESSION_TRAIN | LKI_SESSION_TEST);
    if (status == LKS_OK) status = lki_session_compile(&t->session, 0);
    if (status == LKS_OK && lki_config_has(t->config, LKI_KEY_MODEL_INIT))
        status = lks_weights_load(t->session.model, lki_config_text(t->config, LKI_KEY_MODEL_INIT));
    if (status == LKS_OK) status = open_loaders(t);
    if (status == LKS_OK) status = train_fill_opts(t, &config);
    if (status == LKS_OK) {
        stop_watch();
        train_print_head(t);
        status = lks_train(t->session.context, &t->opts, &t->run);
        if (status == LKS_OK && lki_config_bool(t->config, LKI_KEY_TRAIN_DRY_RUN))
            status = dry_test(t);
        if (status == LKS_E_STOPPED && stop_asked() != 0) {
            *code = 128 + stop_asked();
            say_stopped(t, t->run.progress.step);
            status = LKS_OK;
        }
        if (status == LKS_OK || is_complete(t, status)) status = train_finish(t, status);
    }
    free(config);
    return status;
}

lks_status verb_train(const cli_args *cli, int *code)
{
    training t = {.cli = cli, .session = session_new(), .links = json_array()};
    lks_status status = cli_configure(&t.config, cli, cli->operand[0]);
    if (status == LKS_OK && cli->local[LOCAL_PRINT_CONFIG] != NULL)
        config_print(t.config, stdout);
    else if (status == LKS_OK)
        status = run_training(&t, code);
    lks_run_clear(&t.run);
    lks_loader_destroy(t.train);
    lks_loader_destroy(t.valid);
    lks_loader_destroy(t.test);
    lks_checkpoint_unlock(t.lock);
    lki_session_close(&t.session);
    lki_config_destroy(t.config);
    json_decref(t.links);
    return status;
}
