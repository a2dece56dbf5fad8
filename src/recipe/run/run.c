/* The run of a recipe: its folder, start, training, and what is written at its end. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "recipe/board/board.h"
#include "recipe/data/table.h"
#include "recipe/data/text.h"
#include "recipe/run/record.h"

#include "base/check.h"
#include "base/file.h"
#include "core/graph.h"

/* The folder is this run's from here on; a dry run, which saves nothing, only looks at it. Without
 * checkpoint.resume one with checkpoints of an earlier run is left alone, and with it the run stays the
 * same. */
static lks_status take_folder(lks_recipe *recipe)
{
    int64_t newest = -1;
    const lki_config *config = recipe->config;
    const char *folder = lki_config_text(config, LKI_KEY_CHECKPOINT_PATH);
    if (folder == NULL) return LKS_OK;
    if (!lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN))
        LKI_TRY(lks_checkpoint_lock(&recipe->lock, recipe->session.context, folder));
    if (lki_config_bool(config, LKI_KEY_CHECKPOINT_RESUME))
        return lki_changes_check(recipe, folder);
    LKI_TRY(lks_checkpoint_find(folder, &newest));
    if (newest < 0) return LKS_OK;
    return lki_config_fail(config, LKI_KEY_CHECKPOINT_PATH,
                           "is %.200s, which has checkpoints up to step %" PRId64
                           "; give --resume to continue, or another folder",
                           folder, newest);
}

lks_status lks_recipe_lock(lks_recipe *recipe)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    lks_status status = lks_recipe_resolve(recipe);
    if (status == LKS_OK && recipe->looked) return LKS_OK;
    if (status == LKS_OK && recipe->session.context == NULL)
        status = lki_session_begin(&recipe->session, recipe->config);
    LKI_TRY(lki_recipe_agree(recipe, status));
    recipe->looked = true;
    return lki_recipe_agree(recipe, lki_recipe_leads(recipe) ? take_folder(recipe) : LKS_OK);
}

const char *lki_weights_file(lks_recipe *recipe)
{
    if (!lki_config_bool(recipe->config, LKI_KEY_MODEL_SAVE)) return NULL;
    return lki_heap_format(&recipe->config->heap, "%.200s.safetensors",
                           lki_config_text(recipe->config, LKI_KEY_MODEL_NAME));
}

static lks_status open_loaders(lks_recipe *recipe)
{
    lki_session *s = &recipe->session;
    LKI_TRY(lki_session_loader(&recipe->train, s, s->train, LKI_FOR_TRAINING));
    if (s->valid != NULL) LKI_TRY(lki_session_loader(&recipe->valid, s, s->valid, LKI_FOR_TESTING));
    return s->test != NULL ? lki_session_loader(&recipe->test, s, s->test, LKI_FOR_TESTING)
                           : LKS_OK;
}

/* 0 where the key is not set. */
static int64_t int_or_zero(const lki_config *config, lki_key key)
{
    return lki_config_has(config, key) ? lki_config_int(config, key) : 0;
}

static lks_status remember_link(lks_recipe *recipe, int64_t step)
{
    if (recipe->link_count == recipe->link_room) {
        const int64_t room = 2 * recipe->link_room + 64;
        lki_link *more = realloc(recipe->links, (size_t)room * sizeof *more);
        if (more == NULL)
            return LKI_FAIL(LKS_E_NOMEM, "no memory for the hash chain of the record");
        recipe->links = more;
        recipe->link_room = room;
    }
    recipe->links[recipe->link_count++] = (lki_link){
        step, lks_model_progress(recipe->session.model).link};
    return LKS_OK;
}

/* What an event answers; a stop is noted. */
static lks_status answered(lks_recipe *recipe, lks_status status)
{
    if (status == LKS_E_STOPPED) recipe->stopped = true;
    return status;
}

/* Where processes compare links anyway; those that step alone do not wait for each other in between. */
static bool paces_are_due(const lks_recipe *recipe, int64_t step)
{
    return step % lki_config_int(recipe->config, LKI_KEY_TRAIN_HASH_EVERY) == 0 &&
           lks_model_alone(recipe->session.model) == 0;
}

/* A hash of all parameters, and some kilobytes: the steps between are thousands of times as long. */
static lks_status write_record(lks_recipe *recipe, const lks_step_event *within)
{
    lks_status status = lks_model_hash(recipe->session.model, &recipe->run.hash);
    if (status == LKS_OK) status = lki_record_write(recipe, within, false);
    recipe->record_written = lki_recipe_seconds(recipe);
    return status;
}

/* Within a long epoch, too, a record tells how the run is doing. One that cannot be written is told of by the epoch. */
static void follow_record(lks_recipe *recipe, const lks_step_event *event)
{
    static const double SECONDS = 10;
    if (!recipe->keeps_record || lki_recipe_seconds(recipe) < recipe->record_written + SECONDS ||
        event->batch + 1 == event->batches || lks_model_alone(recipe->session.model) > 0)
        return;
    const lks_error before = *lks_last_error();
    if (write_record(recipe, event) != LKS_OK) lki_error_restore(&before);
}

static lks_status recipe_on_step(void *user, const lks_step_event *event)
{
    lks_recipe *recipe = user;
    if (recipe->first_step <= 0) recipe->first_step = lki_recipe_seconds(recipe);
    lki_paces_step(recipe, event);
    if (paces_are_due(recipe, event->step)) LKI_TRY(lki_paces_gather(recipe, event->step));
    if (event->step % lki_config_int(recipe->config, LKI_KEY_TRAIN_HASH_EVERY) == 0)
        LKI_TRY(remember_link(recipe, event->step));
    LKI_TRY(lki_cuts_follow(recipe, event->step));
    lki_board_step(recipe, event);
    follow_record(recipe, event);
    if (recipe->events.on_step == NULL) return LKS_OK;
    return answered(recipe, recipe->events.on_step(recipe->events.user, event));
}

/* What could not be kept is said. */
static void kept(const lks_recipe *recipe, const char *what, lks_status status)
{
    if (status != LKS_OK)
        lki_recipe_say(recipe, LKS_LOG_WARN, "%s: %s; it is tried again after the next epoch", what,
                       lks_last_error()->message);
}

static lks_status recipe_on_epoch(void *user, const lks_epoch *epoch)
{
    lks_recipe *recipe = user;
    lks_status status = LKS_OK;
    LKI_TRY(lki_paces_gather(recipe, recipe->run.progress.step));
    recipe->spent = (lki_spent){0};
    if (recipe->events.on_epoch != NULL)
        status = answered(recipe, recipe->events.on_epoch(recipe->events.user, epoch));
    const lks_error answer = *lks_last_error();
    const lks_status shown = lki_board_epoch(recipe, epoch);
    if (shown != LKS_OK) return shown;
    if (recipe->keeps_csv) kept(recipe, "the table of epochs", lki_csv_write(recipe));
    if (recipe->keeps_record) kept(recipe, "the record", write_record(recipe, NULL));
    if (status != LKS_OK) lki_error_restore(&answer);
    return status;
}

static void recipe_on_resume(void *user, const lks_run *run)
{
    lks_recipe *recipe = user;
    lki_board_resume(recipe, run != NULL ? run->progress.step : 0);
    if (recipe->events.on_resume != NULL) recipe->events.on_resume(recipe->events.user, run);
}

static void recipe_on_save(void *user, int64_t step)
{
    lks_recipe *recipe = user;
    if (recipe->events.on_save != NULL) recipe->events.on_save(recipe->events.user, step);
}

static lks_train_opts opts_of(lks_recipe *recipe, lks_schedule schedule)
{
    const lki_config *config = recipe->config;
    const bool dry_run = lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN);
    const int64_t every = lki_config_int(config, LKI_KEY_CHECKPOINT_EVERY_EPOCHS);
    return (lks_train_opts){
        .model = recipe->session.model,
        .train = recipe->train,
        .valid = recipe->valid,
        .test = recipe->test,
        .schedule = schedule,
        .epochs = int_or_zero(config, LKI_KEY_TRAIN_EPOCHS),
        .steps = dry_run ? 1 : int_or_zero(config, LKI_KEY_TRAIN_STEPS),
        .eval_epochs = lki_config_int(config, LKI_KEY_VALIDATION_EVERY_EPOCHS),
        .patience = (int)int_or_zero(config, LKI_KEY_VALIDATION_PATIENCE),
        .keep_last = !lki_config_bool(config, LKI_KEY_VALIDATION_RESTORE_BEST),
        .folder = dry_run ? NULL : lki_config_text(config, LKI_KEY_CHECKPOINT_PATH),
        .lock = recipe->lock,
        .save_steps = int_or_zero(config, LKI_KEY_CHECKPOINT_EVERY_STEPS),
        .save_epochs = every > 0 ? every : -1,
        .keep = (int)lki_config_int(config, LKI_KEY_CHECKPOINT_KEEP),
        .resume = !dry_run && lki_config_bool(config, LKI_KEY_CHECKPOINT_RESUME),
        .accept_changes = lki_config_bool(config, LKI_KEY_CHECKPOINT_ACCEPT_CHANGES),
        .config = recipe->json,
        .events = {.on_step = recipe_on_step,
                   .on_epoch = recipe_on_epoch,
                   .on_resume = recipe_on_resume,
                   .on_save = recipe_on_save,
                   .user = recipe},
    };
}

/* The length of the run, and what lks_train() should do. */
static lks_status fill_opts(lks_recipe *recipe)
{
    const lki_config *config = recipe->config;
    const int64_t batches = lks_loader_batches(recipe->train);
    const int64_t epochs = int_or_zero(config, LKI_KEY_TRAIN_EPOCHS);
    if (batches < 1)
        return LKI_FAIL(LKS_E_INVALID,
                        "the training data has no whole batch of %" PRId64
                        "; choose a smaller train.batch_size, or data.drop_last: false",
                        lki_config_int(config, LKI_KEY_TRAIN_BATCH_SIZE));
    if (epochs > INT64_MAX / batches)
        return lki_config_fail(config, LKI_KEY_TRAIN_EPOCHS,
                               "is too large for %" PRId64 " batch%s in an epoch", batches,
                               batches == 1 ? "" : "es");
    lki_emit emit = {0};
    lks_status status = LKS_OK;
    lki_config_emit(&emit, config);
    recipe->json = lki_emit_take(&emit, "the configuration in checkpoints", &status);
    LKI_TRY(status);
    lks_train_opts *opts = &recipe->opts;
    *opts = opts_of(recipe, lki_session_schedule(
                                config, epochs, int_or_zero(config, LKI_KEY_TRAIN_STEPS), batches));
    const bool by_epochs = epochs > 0 && (opts->steps == 0 || epochs * batches < opts->steps);
    recipe->steps = by_epochs ? epochs * batches : opts->steps;
    recipe->epochs = recipe->steps / batches + (recipe->steps % batches != 0);
    if (opts->folder == NULL || !lki_recipe_leads(recipe)) return LKS_OK;
    opts->vocabulary_hash = recipe->session.vocabulary_hash;
    LKI_TRY(lks_dataset_hash(recipe->session.train, &opts->data_hash));
    return recipe->session.test != NULL ? lks_dataset_hash(recipe->session.test, &opts->test_hash)
                                        : LKS_OK;
}

/* What a text's next token is learned from has to be in front of it. */
static void warn_of_ahead(const lks_recipe *recipe)
{
    const lki_node *ahead = lki_graph_looks_ahead(recipe->session.graph);
    if (ahead == NULL || !lki_config_has(recipe->config, LKI_KEY_DATA_TEXT) ||
        !lki_recipe_leads(recipe))
        return;
    lki_recipe_say(recipe, LKS_LOG_WARN,
                   "%s '%s' looks ahead, at the tokens that are to be predicted, so that no loss "
                   "or perplexity of this network means anything; attention has causal: true, and "
                   "recurrent layers are to go forward alone",
                   lki_op_get(ahead->op)->name, ahead->name);
}

static bool is_recurrent(const lki_node *node)
{
    return node->op == LKI_OP_RNN || node->op == LKI_OP_LSTM || node->op == LKI_OP_GRU;
}

/* Whether it is a recurrent layer that goes forward, and reads padding like words: tokens are its second input. */
static bool reads_padding_last(const lki_node *node)
{
    return is_recurrent(node) && node->in_count == 1 && !lki_op_get(node->op)->looks_ahead(node);
}

/* A text that ends early has padding behind it. */
static void warn_of_padding(const lks_recipe *recipe)
{
    if (!lki_config_has(recipe->config, LKI_KEY_DATA_TEXT_COLUMN) || !lki_recipe_leads(recipe))
        return;
    for (const lki_node *node = recipe->session.graph->first; node != NULL; node = node->next) {
        if (node->op != LKI_OP_SELECT) continue;
        const int64_t position = ((const lks_select_opts *)node->attr)->position;
        const lki_node *layer = node->in[0]->node, *back = NULL;
        if (layer->op == LKI_OP_CONCAT) { /* of both directions */
            back = layer->in[1]->node;
            layer = layer->in[0]->node;
        }
        if (position != -1 && position != node->in[0]->shape.dim[0] - 1) continue;
        if (back != NULL && is_recurrent(layer) && is_recurrent(back) && layer->in_count == 2)
            lki_recipe_say(
                recipe, LKS_LOG_WARN,
                "%s '%s' takes the last position of both directions of %s '%s', of which "
                "the one that goes backward has read no more there than the padding behind "
                "texts that end early; let the layer go forward alone, or take the mean of "
                "all positions (global_avg_pool)",
                lki_op_get(node->op)->name, node->name, lki_op_get(layer->op)->name, layer->name);
        if (!reads_padding_last(layer)) continue;
        lki_recipe_say(recipe, LKS_LOG_WARN,
                       "%s '%s' takes the last position of %s '%s', which has read the padding "
                       "behind texts that end early, and keeps little of them; with masked: true "
                       "its state stays as it is there",
                       lki_op_get(node->op)->name, node->name, lki_op_get(layer->op)->name,
                       layer->name);
    }
}

/* Data, model and its weights; processes that train together have the same. */
static lks_status open_all(lks_recipe *recipe)
{
    lki_session *session = &recipe->session;
    const int data = LKI_SESSION_TRAIN | LKI_SESSION_TEST;
    LKI_TRY(lki_recipe_agree(recipe, lki_session_open(session, recipe->config, data)));
    LKI_TRY(lki_ranks_compare_data(recipe));
    LKI_TRY(lki_session_compile(session, 0));
    warn_of_ahead(recipe);
    warn_of_padding(recipe);
    LKI_TRY(lks_recipe_init_weights(recipe));
    return lki_ranks_compare_model(recipe);
}

lks_status lks_recipe_start(lks_recipe *recipe)
{
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    LKI_TRY(lki_recipe_agree(recipe, lks_recipe_resolve(recipe)));
    if (recipe->started) return LKS_OK;
    lki_session_drop(&recipe->session); /* what was looked at before */
    const lki_config *config = recipe->config;
    LKI_TRY(lki_ranks_compare_config(recipe));
    LKI_TRY(lks_recipe_lock(recipe));
    LKI_TRY(open_all(recipe));
    lks_status status = open_loaders(recipe);
    if (status == LKS_OK) status = fill_opts(recipe);
    LKI_TRY(lki_recipe_agree(recipe, status));
    recipe->keeps_record = recipe->record != NULL &&
                           !lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN) &&
                           lki_recipe_leads(recipe) && lki_file_is_replaced(recipe->record);
    const char *csv = lki_config_text(config, LKI_KEY_LOG_CSV);
    recipe->keeps_csv = csv != NULL && !lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN) &&
                        lki_recipe_leads(recipe);
    if (recipe->keeps_csv && !lki_file_is_replaced(csv))
        status = lki_config_fail(config, LKI_KEY_LOG_CSV,
                                 "is %.200s, which cannot be replaced after every epoch; give the "
                                 "name of a file (--format csv writes lines to standard output)",
                                 csv);
    if (status == LKS_OK) status = lki_board_check(recipe);
    LKI_TRY(lki_recipe_agree(recipe, status));
    recipe->started = true;
    return LKS_OK;
}

/* All steps are done, but the checkpoint of the last could not be saved: the run has its hash. */
static bool is_complete(lks_recipe *recipe, lks_status status)
{
    const bool of_files = status == LKS_E_IO || status == LKS_E_NOMEM;
    if (!of_files || !(recipe->run.finished || recipe->stopped)) return false;
    const lks_error first = *lks_last_error();
    const bool complete = lks_model_hash(recipe->session.model, &recipe->run.hash) == LKS_OK;
    lki_error_restore(&first);
    return complete;
}

/* A run of tokens keeps what they stand for beside its checkpoints, from its beginning on; a run of a table what it made
 * of its columns. */
static lks_status keep_vocabulary(const lks_recipe *recipe)
{
    const char *folder = recipe->opts.folder;
    const bool some = lki_config_has(recipe->config, LKI_KEY_DATA_TEXT) ||
                      lki_config_has(recipe->config, LKI_KEY_DATA_TABLE) ||
                      lki_config_has(recipe->config, LKI_KEY_DATA_SERIES);
    int64_t newest;
    if (!some || folder == NULL || !lki_recipe_leads(recipe)) return LKS_OK;
    LKI_TRY(lks_checkpoint_find(folder, &newest));
    const lks_dataset *whole = recipe->session.whole[0];
    if (newest >= 0) return lki_table_source_check(whole, recipe->config, folder);
    LKI_TRY(lki_table_source_keep(whole, recipe->config, folder));
    return lki_vocabulary_keep(recipe->session.train, folder);
}

lks_status lks_recipe_run(lks_recipe *recipe, const lks_train_events *events, const lks_run **run,
                          bool *complete)
{
    bool done;
    if (complete == NULL) complete = &done;
    if (run != NULL) *run = NULL;
    *complete = false;
    LKI_TRY(lks_recipe_start(recipe));
    if (recipe->ran) return LKI_FAIL(LKS_E_STATE, "the recipe has run already; open it again");
    if (events != NULL) recipe->events = *events;
    if (run != NULL) *run = &recipe->run;
    recipe->ran = true;
    lks_status status = lki_paces_begin(recipe);
    if (status == LKS_OK) status = keep_vocabulary(recipe);
    status = lki_recipe_agree(recipe, status);
    if (status == LKS_OK) status = lki_recipe_agree(recipe, lki_board_begin(recipe));
    if (status == LKS_OK) lki_scores_begin(recipe);
    if (status == LKS_OK) status = lks_train(recipe->session.context, &recipe->opts, &recipe->run);
    lki_board_end(recipe, status);
    if (status == LKS_OK && lki_scores_take(recipe) != LKS_OK) /* the run is what it is */
        lki_recipe_say(recipe, LKS_LOG_WARN, "the record has no scores of the test: %s",
                       lks_last_error()->message);
    *complete = status == LKS_OK || status == LKS_E_STOPPED || is_complete(recipe, status);
    return status;
}

/* The first failure is the one that is returned; others are said at once. */
static void recipe_note(const lks_recipe *recipe, lks_error *first, lks_status status)
{
    if (status == LKS_OK) return;
    if (first->status == LKS_OK)
        *first = *lks_last_error();
    else
        lki_recipe_say(recipe, LKS_LOG_WARN, "%s", lks_last_error()->message);
}

lks_status lks_recipe_train(lks_recipe *recipe, const lks_train_events *events, const lks_run **run)
{
    lks_error first = {.status = LKS_OK};
    bool complete;
    const lks_status trained = lks_recipe_run(recipe, events, run, &complete);
    if (!complete) return trained;
    if (lki_config_bool(recipe->config, LKI_KEY_TRAIN_DRY_RUN)) return trained;
    recipe_note(recipe, &first, trained);
    const char *weights = lki_weights_file(recipe);
    if (weights != NULL)
        recipe_note(recipe, &first, lks_weights_save(recipe->session.model, weights));
    if (recipe->record != NULL && lki_recipe_leads(recipe))
        recipe_note(recipe, &first, lki_record_write(recipe, NULL, true));
    if (first.status != LKS_OK) lki_error_restore(&first);
    return lki_recipe_agree(recipe, first.status);
}
