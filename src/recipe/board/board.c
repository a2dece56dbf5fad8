#include "recipe/board/board.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/file.h"
#include "recipe/board/events.h"
#include "recipe/board/images.h"
#include "recipe/run/record.h"

/* Names of curves. */
typedef enum lki_curve {
    STEP_LOSS,
    STEP_ACCURACY,
    STEP_TOP5,
    STEP_RATE,
    STEP_SPEED,
    STEP_NORM,
    TRAIN_LOSS,
    TRAIN_ACCURACY,
    TRAIN_TOP5,
    VALID_LOSS,
    VALID_ACCURACY,
    VALID_TOP5,
    TEST_LOSS,
    TEST_ACCURACY,
    TEST_TOP5,
    EPOCH_RATE,
    EPOCH_SPEED,
    EPOCH,
    STEP_PERPLEXITY,
    TRAIN_PERPLEXITY,
    VALID_PERPLEXITY,
    TEST_PERPLEXITY,
    STEP_TOKENS,
    EPOCH_TOKENS,
    CURVES
} lki_curve;

typedef struct names {
    const char *key;
    bool over_steps; /* curves of epochs, too */
    const char *curve[CURVES];
} names;

/* As NERSC's SC20 tutorial has them, and as PyTorch Lightning names what is logged by step and epoch. */
static const names all_names[] = {{"epochs",
                                   false,
                                   {"loss/step",
                                    "acc1/step",
                                    "acc5/step",
                                    "learning_rate/step",
                                    "samples_per_second/step",
                                    "gradient_norm/step",
                                    "loss/train",
                                    "acc1/train",
                                    "acc5/train",
                                    "loss/valid",
                                    "acc1/valid",
                                    "acc5/valid",
                                    "loss/test",
                                    "acc1/test",
                                    "acc5/test",
                                    "learning_rate",
                                    "samples_per_second",
                                    NULL,
                                    "perplexity/step",
                                    "perplexity/train",
                                    "perplexity/valid",
                                    "perplexity/test",
                                    "tokens_per_second/step",
                                    "tokens_per_second"}},
                                  {"lightning",
                                   true,
                                   {"train_loss_step",
                                    "train_acc_step",
                                    "train_acc5_step",
                                    "lr",
                                    "samples_per_second_step",
                                    "grad_norm",
                                    "train_loss_epoch",
                                    "train_acc_epoch",
                                    "train_acc5_epoch",
                                    "val_loss",
                                    "val_acc",
                                    "val_acc5",
                                    "test_loss",
                                    "test_acc",
                                    "test_acc5",
                                    NULL,
                                    "samples_per_second_epoch",
                                    "epoch",
                                    "train_perplexity_step",
                                    "train_perplexity_epoch",
                                    "val_perplexity",
                                    "test_perplexity",
                                    "tokens_per_second_step",
                                    "tokens_per_second_epoch"}}};

struct lki_board {
    const char *folder;
    const names *names;
    lki_events *events; /* NULL: not yet */
    bool rests;         /* until the epoch ends: the disk may be full */
    double since;       /* when the last event was */
    int64_t samples;    /* since then; -1: it is not known when they began */
    int64_t tokens;     /* likewise */
    lks_loader *loader; /* of batches whose gradients are shown */
    lks_loader *images; /* of samples that are shown */
};

/* The folder, or NULL. */
static lks_status board_folder(const char **out, lks_recipe *recipe)
{
    const lki_config *config = recipe->config;
    const char *text = lki_config_text(config, LKI_KEY_LOG_TENSORBOARD);
    const char *run = lki_config_text(config, LKI_KEY_CHECKPOINT_PATH);
    bool asked = true;
    if (lki_config_bool(config, LKI_KEY_TRAIN_DRY_RUN)) text = NULL;
    *out = text;
    if (text == NULL || !lki_text_is_bool(text, &asked)) return LKS_OK;
    *out = NULL;
    if (!asked) return LKS_OK;
    if (run == NULL)
        return lki_config_fail(config, LKI_KEY_LOG_TENSORBOARD,
                               "is true, which is a folder beside the checkpoints, but "
                               "checkpoint.path is not set; set that too, or give a folder");
    *out = lki_heap_format(&recipe->config->heap, "%s/tensorboard", run);
    return LKS_OK;
}

lks_status lki_board_check(lks_recipe *recipe)
{
    const char *folder;
    LKI_TRY(board_folder(&folder, recipe));
    return folder != NULL && lki_recipe_leads(recipe) ? lki_folder_make(folder) : LKS_OK;
}

lks_status lki_board_begin(lks_recipe *recipe)
{
    const lki_config *config = recipe->config;
    const char *folder;
    LKI_TRY(board_folder(&folder, recipe));
    if (folder == NULL) return LKS_OK;
    lki_board *board = recipe->board = calloc(1, sizeof *board);
    if (board == NULL) return LKI_FAIL(LKS_E_NOMEM, "no memory for what TensorBoard shows");
    board->folder = folder;
    board->samples = -1;
    board->names = all_names;
    while (strcmp(board->names->key, lki_config_text(config, LKI_KEY_LOG_CURVES)) != 0)
        board->names++;
    if (lki_config_has(config, LKI_KEY_LOG_HISTOGRAMS))
        LKI_TRY(lki_session_loader(&board->loader, &recipe->session, recipe->session.train,
                                   LKI_FOR_TRAINING));
    return lki_images_open(&board->images, recipe);
}

/* What could not be written is said once, and tried again behind the epoch. */
static void note(lks_recipe *recipe, lks_status status)
{
    if (status == LKS_OK) return;
    recipe->board->rests = true;
    lki_recipe_say(recipe, LKS_LOG_WARN,
                   "TensorBoard's events: %s; they are tried again behind the epoch",
                   lks_last_error()->message);
}

void lki_board_resume(lks_recipe *recipe, int64_t step)
{
    if (recipe->board != NULL && lki_recipe_leads(recipe))
        note(recipe, lki_events_cut(recipe->board->folder, step));
}

/* ---------------------------------------------------------------- what the run is */

static void add_hparam(lki_events *events, const lki_config *config, lki_key key)
{
    const lki_key_row *row = &lki_key_rows[key];
    const lki_setting *value = &config->value[key];
    lki_emit emit = {.yaml = true};
    lks_status status = LKS_OK;
    char *text;
    switch (row->spec.type) {
    case LKI_TYPE_INT:
        lki_events_hparam_number(events, row->spec.name, (double)value->i[0]);
        return;
    case LKI_TYPE_FLOAT:
        lki_events_hparam_number(events, row->spec.name, value->f);
        return;
    case LKI_TYPE_BOOL:
        lki_events_hparam_bool(events, row->spec.name, value->b);
        return;
    case LKI_TYPE_TREE:
    case LKI_TYPE_MAP:
        return; /* of many lines */
    default:
        lki_emit_setting(&emit, value, row->spec.type);
        text = lki_emit_take(&emit, "a value", &status);
        if (text != NULL) lki_events_hparam_text(events, row->spec.name, text);
        free(text);
    }
}

/* What a person has set of what makes the run. */
static bool is_hparam(const lki_config *config, lki_key key)
{
    char section[32];
    (void)lki_key_section(key, section);
    return config->value[key].set && config->source[key] != LKI_FROM_DEFAULT &&
           lki_key_rows[key].change != LKI_CHANGE_FREE && strcmp(section, "log") != 0 &&
           strcmp(section, "checkpoint") != 0;
}

static lks_status add_hparams(lks_recipe *recipe, lki_events *events)
{
    const lki_config *config = recipe->config;
    const char *const *curve = recipe->board->names->curve;
    const char *shown[4];
    int count = 0;
    const bool has[] = {recipe->session.valid != NULL, recipe->session.test != NULL};
    for (int i = 0; i < 2; i++) {
        if (!has[i]) continue;
        shown[count++] = curve[i == 0 ? VALID_LOSS : TEST_LOSS];
        if (recipe->session.info.classes > 0)
            shown[count++] = curve[i == 0 ? VALID_ACCURACY : TEST_ACCURACY];
    }
    LKI_TRY(lki_events_experiment(events, shown, count));
    lki_events_hparams_begin(events, recipe->board->folder);
    for (int key = 0; key < LKI_KEY_COUNT; key++)
        if (is_hparam(config, (lki_key)key)) add_hparam(events, config, (lki_key)key);
    return lki_events_hparams_end(events);
}

static lks_status add_configuration(const lks_recipe *recipe, lki_events *events)
{
    static const char begin[] = "```yaml\n", end[] = "```\n";
    lki_emit emit = {.yaml = true};
    lks_status status = LKS_OK;
    lki_emit_raw(&emit, begin, sizeof begin - 1);
    lki_config_emit_yaml(&emit, recipe->config);
    lki_emit_raw(&emit, end, sizeof end - 1);
    char *text = lki_emit_take(&emit, "the configuration as text", &status);
    LKI_TRY(status);
    lki_events_begin(events, 0);
    lki_events_text(events, "configuration", text);
    free(text);
    return lki_events_end(events);
}

static lks_status board_open(lks_recipe *recipe, int64_t step)
{
    lki_board *board = recipe->board;
    if (board->events != NULL) return LKS_OK;
    LKI_TRY(lki_events_open(&board->events, board->folder, step));
    LKI_TRY(add_configuration(recipe, board->events));
    return add_hparams(recipe, board->events);
}

/* ---------------------------------------------------------------- curves */

static void add_curve(const lki_board *board, lki_curve curve, double value)
{
    const char *tag = board->names->curve[curve];
    if (tag != NULL) lki_events_scalar(board->events, tag, value);
}

static bool has_tokens(const lks_recipe *recipe)
{
    const lks_dataset_info *info = &recipe->session.info;
    return info->classes > 0 && info->target_shape.ndim > 0;
}

/* Of loss and accuracies, which stand behind it in the table. */
static void add_metrics(const lks_recipe *recipe, lki_curve loss, lki_curve perplexity,
                        const lks_metrics *metrics)
{
    const int64_t classes = recipe->session.info.classes;
    const double counted = (double)metrics->counted;
    if (metrics->counted == 0) return;
    add_curve(recipe->board, loss, lks_metrics_loss(metrics));
    if (has_tokens(recipe)) add_curve(recipe->board, perplexity, lks_metrics_perplexity(metrics));
    if (classes > 0) add_curve(recipe->board, loss + 1, (double)metrics->correct / counted);
    if (classes > LKI_TOP) add_curve(recipe->board, loss + 2, (double)metrics->top5 / counted);
}

static lks_status write_step(lks_recipe *recipe, const lks_step_event *event)
{
    lki_board *board = recipe->board;
    const double now = lki_seconds();
    LKI_TRY(board_open(recipe, event->step - 1));
    lki_events_begin(board->events, event->step);
    add_metrics(recipe, STEP_LOSS, STEP_PERPLEXITY, event->metrics);
    add_curve(board, STEP_RATE, event->learning_rate);
    if (board->samples > 0 && now > board->since)
        add_curve(board, STEP_SPEED, (double)board->samples / (now - board->since));
    if (has_tokens(recipe) && board->samples > 0 && now > board->since)
        add_curve(board, STEP_TOKENS, (double)board->tokens / (now - board->since));
    if (!isnan(event->info.gradient_norm)) add_curve(board, STEP_NORM, event->info.gradient_norm);
    return lki_events_end(board->events);
}

void lki_board_step(lks_recipe *recipe, const lks_step_event *event)
{
    lki_board *board = recipe->board;
    if (board == NULL || !lki_recipe_leads(recipe)) return;
    const bool known = board->samples >= 0;
    if (known) board->samples += event->metrics->samples;
    board->tokens += event->metrics->counted;
    /* The last of an epoch has one in any case: what is later than a step is then found by steps. */
    const bool due = event->step % lki_config_int(recipe->config, LKI_KEY_LOG_INTERVAL) == 0 ||
                     event->batch + 1 == event->batches;
    if (due && !board->rests) note(recipe, write_step(recipe, event));
    if (known && !due) return;
    board->samples = board->tokens = 0;
    board->since = lki_seconds();
}

static lks_status write_epoch(lks_recipe *recipe, const lks_epoch *epoch, int64_t at)
{
    lki_board *board = recipe->board;
    LKI_TRY(board_open(recipe, recipe->run.progress.step));
    lki_events_begin(board->events, at);
    add_metrics(recipe, TRAIN_LOSS, TRAIN_PERPLEXITY, &epoch->train);
    add_metrics(recipe, VALID_LOSS, VALID_PERPLEXITY, &epoch->valid);
    add_metrics(recipe, TEST_LOSS, TEST_PERPLEXITY, &epoch->test);
    add_curve(board, EPOCH_RATE, epoch->learning_rate);
    if (epoch->seconds > 0)
        add_curve(board, EPOCH_SPEED, (double)epoch->train.samples / epoch->seconds);
    if (has_tokens(recipe) && epoch->seconds > 0)
        add_curve(board, EPOCH_TOKENS, (double)epoch->train.counted / epoch->seconds);
    add_curve(board, EPOCH, (double)epoch->epoch);
    return lki_events_end(board->events);
}

/* ---------------------------------------------------------------- histograms */

/* Of the batch that comes next, with the parameters as they are. */
static lks_status form_gradient(lks_recipe *recipe)
{
    lks_model *model = recipe->session.model;
    const lks_model_info info = lks_model_get_info(model);
    lks_loader *loader = recipe->board->loader;
    lks_metrics metrics;
    lks_batch batch;
    lks_status status = info.cuts > 0 ? lks_loader_share(loader, info.shares, info.first_share,
                                                         info.last_share)
                                      : LKS_OK;
    if (status == LKS_OK) status = lks_loader_seek(loader, recipe->run.progress.step);
    if (status == LKS_OK) status = lks_loader_next(loader, &batch);
    LKI_TRY(lki_recipe_agree(recipe, status));
    return lks_model_gradient(model, &batch, &metrics);
}

/* Of all entries of a kind, which every process reads, as some are spread over them. */
static lks_status write_histograms(lks_recipe *recipe, lks_state_kind kind, const char *group,
                                   int64_t at)
{
    lki_board *board = recipe->board;
    lks_model *model = recipe->session.model;
    const bool writes = lki_recipe_leads(recipe) && !board->rests && board->events != NULL;
    lks_status status = LKS_OK;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != kind || info.dtype != LKS_F32) continue;
        const char *name = info.name;
        static const char of_gradients[] = "gradient.";
        if (strncmp(name, of_gradients, sizeof of_gradients - 1) == 0)
            name += sizeof of_gradients - 1;
        float *value = malloc(info.bytes);
        if (value == NULL) status = LKI_FAIL(LKS_E_NOMEM, "no memory for a histogram of %s", name);
        status = lki_recipe_agree(recipe, status);
        if (status == LKS_OK) status = lks_model_state_read(model, i, value, info.bytes);
        if (status == LKS_OK && writes && !board->rests) {
            char tag[300];
            snprintf(tag, sizeof tag, "%s/%.250s", group, name);
            lki_events_begin(board->events, at);
            lki_events_histogram(board->events, tag, value, (int64_t)(info.bytes / sizeof(float)));
            note(recipe, lki_events_end(board->events));
        }
        free(value);
        LKI_TRY(status);
    }
    return LKS_OK;
}

static lks_status show_histograms(lks_recipe *recipe, int64_t at)
{
    LKI_TRY(write_histograms(recipe, LKS_PARAMETER, "parameters", at));
    /* Processes that step alone have no gradient of a whole batch. */
    if (lks_model_get_info(recipe->session.model).average_every > 0) return LKS_OK;
    const lks_status status = form_gradient(recipe);
    if (status == LKS_E_NUMERIC) {
        lki_recipe_say(recipe, LKS_LOG_WARN, "no histograms of gradients: %s",
                       lks_last_error()->message);
        return LKS_OK;
    }
    LKI_TRY(status);
    return write_histograms(recipe, LKS_GRADIENT, "gradients", at);
}

static lks_status write_images(lks_recipe *recipe, int64_t epoch, int64_t at)
{
    const lki_board *board = recipe->board;
    if (board->images == NULL || board->events == NULL) return LKS_OK;
    lki_events_begin(board->events, at);
    LKI_TRY(lki_images_add(board->events, recipe, board->images, epoch));
    return lki_events_end(board->events);
}

lks_status lki_board_epoch(lks_recipe *recipe, const lks_epoch *epoch)
{
    lki_board *board = recipe->board;
    lks_status status = LKS_OK;
    if (board == NULL) return LKS_OK;
    const int64_t at = board->names->over_steps ? recipe->run.progress.step : epoch->epoch;
    board->rests = false;
    if (lki_recipe_leads(recipe)) note(recipe, write_epoch(recipe, epoch, at));
    if (lki_recipe_leads(recipe) && !board->rests)
        note(recipe, write_images(recipe, epoch->epoch, at));
    if (board->loader != NULL &&
        epoch->epoch % lki_config_int(recipe->config, LKI_KEY_LOG_HISTOGRAMS) == 0)
        status = show_histograms(recipe, at);
    board->samples = board->tokens = 0;
    board->since = lki_seconds();
    return status;
}

void lki_board_end(lks_recipe *recipe, lks_status status)
{
    lki_board *board = recipe->board;
    if (board == NULL) return;
    const lks_error error = *lks_last_error();
    if (board->events != NULL && status != LKS_E_STOPPED)
        note(recipe, lki_events_finish(board->events, status == LKS_OK));
    if (status != LKS_OK) lki_error_restore(&error);
    lki_events_close(board->events);
    lks_loader_destroy(board->images);
    lks_loader_destroy(board->loader);
    free(board);
    recipe->board = NULL;
}
