/* How the run in a checkpoint is another one than the recipe's, which goes on from it or uses its weights. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "recipe/recipe.h"

#include "base/check.h"
#include "recipe/data/table.h"
#include "optim/optimizer.h"
#include "optim/schedule/schedule.h"

/* A value as YAML, to be freed; NULL: no memory. */
static char *value_of(const lki_config *config, lki_key key)
{
    lki_emit emit = {.yaml = true};
    lks_status status = LKS_OK;
    lki_emit_setting(&emit, &config->value[key], lki_key_rows[key].spec.type);
    return lki_emit_take(&emit, "a value", &status);
}

static bool same_value(const lki_config *a, const lki_config *b, lki_key key)
{
    return lki_setting_same(&a->value[key], &b->value[key], lki_key_rows[key].spec.type);
}

enum { SHOWN = 60 };

/* Bytes of a text that are shown: no part of a character. */
static int shown_bytes(const char *text)
{
    int bytes = (int)strlen(text);
    if (bytes <= SHOWN) return bytes;
    for (bytes = SHOWN; ((unsigned char)text[bytes] & 0xc0) == 0x80; bytes--) {
    }
    return bytes;
}

/* A value as people write it. */
static void changes_print_setting(char text[SHOWN + 4], const lki_config *config, lki_key key)
{
    char *yaml = lki_config_has(config, key) ? value_of(config, key) : NULL;
    if (yaml == NULL) {
        snprintf(text, SHOWN + 4, "not set");
        return;
    }
    const int bytes = shown_bytes(yaml);
    snprintf(text, SHOWN + 4, "%.*s%s", bytes, yaml, yaml[bytes] != '\0' ? "..." : "");
    free(yaml);
}

/* "optimizer.lr was 1, is 0.5" */
static void print_change(char *line, size_t size, const lki_config *was, const lki_config *is,
                         lki_key key)
{
    char old[SHOWN + 4], new[SHOWN + 4];
    changes_print_setting(old, was, key);
    changes_print_setting(new, is, key);
    snprintf(line, size, "%s was %s, is %s", lki_key_rows[key].spec.name, old, new);
}

lki_key lki_changes_first(const lki_config *a, const lki_config *b)
{
    for (int key = 0; key < LKI_KEY_COUNT; key++)
        if (lki_key_rows[key].change == LKI_CHANGE_FIXED && !same_value(a, b, (lki_key)key))
            return (lki_key)key;
    return LKI_KEY_NONE;
}

/* What a change of these keys brings about, where it is not what one may think. */
static void say_consequences(const lks_recipe *recipe, const lki_config *was, const lki_config *is)
{
    const char *schedule = lki_config_text(is, LKI_KEY_SCHEDULE_NAME);
    const bool same_schedule = same_value(was, is, LKI_KEY_SCHEDULE_NAME);
    const bool ends = lki_key_is_of(LKI_KEY_SCHEDULE_LENGTH, schedule);
    const bool same_end = same_value(was, is, LKI_KEY_TRAIN_EPOCHS) &&
                          same_value(was, is, LKI_KEY_TRAIN_STEPS);
    if (ends && same_schedule && !same_end && !lki_config_has(was, LKI_KEY_SCHEDULE_LENGTH) &&
        !lki_config_has(is, LKI_KEY_SCHEDULE_LENGTH))
        lki_recipe_say(
            recipe, LKS_LOG_WARN,
            "schedule.length is not set, so %s ends with the run: from here on the rates are "
            "those of the new length",
            schedule);
    if (lki_schedule_find(schedule)->from_losses && same_schedule &&
        !same_value(was, is, LKI_KEY_OPTIMIZER_LR))
        lki_recipe_say(recipe, LKS_LOG_WARN,
                       "%s goes on from the rate that the run has come to; the new optimizer.lr "
                       "changes nothing",
                       schedule);
}

/* Whether both optimizers keep the same arrays for each parameter. */
static bool same_arrays(const lki_config *a, const lki_config *b)
{
    const lks_optim first = lki_session_optim(a), second = lki_session_optim(b);
    const lki_optimizer *of = lki_optimizer_of(first.kind), *other = lki_optimizer_of(second.kind);
    for (int i = 0; i < LKI_MAX_STATES; i++) {
        const bool keeps = lki_optimizer_keeps(&first, i);
        if (keeps != lki_optimizer_keeps(&second, i)) return false;
        if (keeps && strcmp(of->states[i], other->states[i]) != 0) return false;
    }
    return true;
}

static const char never[] = "";
static const char same_network[] = "where the parameters have the same names and shapes";
static const char same_batches[] = "where an epoch has as many batches as before";

/*
 * What the state in a checkpoint asks for when a key has another value: NULL where it fits, "" where it
 * never does, else the condition, which the configurations alone do not tell. The library looks at the
 * state itself, with --accept-changes too; here the first refusal advises nothing that the second one
 * would take back.
 */
static const char *change_condition(const lki_config *was, const lki_config *is, lki_key key)
{
    const bool layers = lki_config_has(is, LKI_KEY_MODEL_LAYERS);
    switch ((int)key) {
    case LKI_KEY_TRAIN_SEED:
    case LKI_KEY_TRAIN_BATCH_SIZE:
    case LKI_KEY_TRAIN_HASH_EVERY:
    case LKI_KEY_MODEL_FREEZE: /* there is nothing of the optimizer's for what was frozen */
        return never;
    case LKI_KEY_TRAIN_REPLICAS:
    case LKI_KEY_TRAIN_ACCUMULATE:
        return lki_config_int(was, LKI_KEY_TRAIN_REPLICAS) *
                           lki_config_int(was, LKI_KEY_TRAIN_ACCUMULATE) ==
                       lki_config_int(is, LKI_KEY_TRAIN_REPLICAS) *
                           lki_config_int(is, LKI_KEY_TRAIN_ACCUMULATE)
                   ? NULL
                   : never;
    case LKI_KEY_TRAIN_EMA:
        return lki_config_has(was, key) && lki_config_has(is, key) ? NULL : never;
    case LKI_KEY_OPTIMIZER_NAME:
    case LKI_KEY_OPTIMIZER_MOMENTUM:
    case LKI_KEY_OPTIMIZER_CENTERED:
        return same_arrays(was, is) ? NULL : never;
    case LKI_KEY_MODEL_HIDDEN:
    case LKI_KEY_DATA_CLASSES:
        return lki_config_has(was, key) && lki_config_has(is, key) ? never : same_network;
    case LKI_KEY_MODEL_NAME: /* beside layers it is but a word */
        if (layers != lki_config_has(was, LKI_KEY_MODEL_LAYERS)) return same_network;
        return layers ? NULL : never;
    case LKI_KEY_MODEL_LAYERS:
    case LKI_KEY_MODEL_BLOCKS:
        return same_network;
    case LKI_KEY_DATA_SAMPLES:
    case LKI_KEY_DATA_DROP_LAST:
    case LKI_KEY_VALIDATION_SAMPLES:
    case LKI_KEY_VALIDATION_FRACTION:
        return same_batches;
    default:
        return NULL;
    }
}

/* The change that leaves the least to do, of those that make it another run. */
static lks_status refuse(const lki_config *was, const lki_config *is, const char *folder,
                         int64_t step)
{
    lki_key worst = lki_changes_first(was, is);
    const char *asked = change_condition(was, is, worst);
    for (int i = (int)worst + 1; i < LKI_KEY_COUNT; i++) {
        const lki_key key = (lki_key)i;
        if (lki_key_rows[i].change != LKI_CHANGE_FIXED || same_value(was, is, key)) continue;
        const char *also = change_condition(was, is, key);
        if (also == NULL || (asked != NULL && (*asked == '\0' || *also != '\0'))) continue;
        worst = key;
        asked = also;
    }
    char line[300], advice[120] = ", or start a new run in another folder";
    print_change(line, sizeof line, was, is, worst);
    if (asked == NULL || *asked != '\0')
        snprintf(advice, sizeof advice, ", start in another folder, or%s%s%s give --accept-changes",
                 asked != NULL ? ", " : "", asked != NULL ? asked : "", asked != NULL ? "," : "");
    return LKI_FAIL(LKS_E_MISMATCH,
                    "the checkpoint of step %" PRId64 " in %.200s is of another run: %s; use the "
                    "same%s",
                    step, folder, line, advice);
}

static lks_status check_change(const lks_recipe *recipe, const lki_config *was, const char *folder,
                               int64_t step)
{
    char line[300];
    const lki_config *is = recipe->config;
    for (int i = 0; i < LKI_KEY_COUNT; i++) {
        const lki_key key = (lki_key)i;
        if (lki_key_rows[i].change == LKI_CHANGE_FREE || same_value(was, is, key)) continue;
        print_change(line, sizeof line, was, is, key);
        lki_recipe_say(recipe, LKS_LOG_WARN, "%s", line);
    }
    if (lki_changes_first(was, is) != LKI_KEY_NONE &&
        !lki_config_bool(is, LKI_KEY_CHECKPOINT_ACCEPT_CHANGES))
        return refuse(was, is, folder, step);
    say_consequences(recipe, was, is);
    return LKS_OK;
}

/* The configuration in a checkpoint. */
static lks_status read_config(lki_config **out, const char *name, const char *text)
{
    lks_status status = lki_config_create(out);
    if (status == LKS_OK) status = lki_config_read_text(*out, name, text);
    if (status == LKS_OK) status = lki_config_resolve(*out);
    if (status == LKS_OK) return LKS_OK;
    lki_config_destroy(*out);
    *out = NULL;
    return status;
}

/* The configuration in a checkpoint; NULL: it has none that this version reads, which is said. */
static lks_status config_of(lki_config **out, const lks_recipe *recipe, const lks_run *run,
                            const char *folder)
{
    *out = NULL;
    if (run->config == NULL) return LKS_OK;
    const lks_status status = read_config(out, folder, run->config);
    if (status != LKS_E_INVALID) return status;
    lki_recipe_say(recipe, LKS_LOG_WARN, /* of a newer version, or of another program */
                   "the configuration in the checkpoint is not compared: %s",
                   lks_last_error()->message);
    return LKS_OK;
}

/* The run in a checkpoint and its configuration; both are the caller's, also after a failure. */
static lks_status read_run(lks_run *run, lki_config **was, const lks_recipe *recipe,
                           const char *folder, int64_t step)
{
    *was = NULL;
    LKI_TRY(lks_checkpoint_load(NULL, NULL, run, folder, step));
    return config_of(was, recipe, run, folder);
}

lks_status lki_changes_check(const lks_recipe *recipe, const char *folder)
{
    int64_t step;
    lks_run run = {0};
    lki_config *was;
    LKI_TRY(lks_checkpoint_find(folder, &step));
    if (step < 0) return LKS_OK;
    lks_status status = read_run(&run, &was, recipe, folder, step);
    if (was != NULL) status = check_change(recipe, was, folder, step);
    lki_config_destroy(was);
    lks_run_clear(&run);
    return status;
}

/* ---- weights of a run that are used, not trained further */

/* Why the model cannot have them: the first change that the checkpoint's state forbids. */
static lks_status refuse_weights(const lki_config *was, const lki_config *is, const char *folder,
                                 int64_t step)
{
    for (int i = 0; i < LKI_KEY_COUNT; i++) {
        char line[300];
        const lki_key key = (lki_key)i;
        if (lki_key_rows[i].change != LKI_CHANGE_FIXED || same_value(was, is, key)) continue;
        const char *condition = change_condition(was, is, key);
        if (condition == NULL || condition == same_batches) continue;
        const bool of_network = condition == same_network || key == LKI_KEY_MODEL_NAME ||
                                key == LKI_KEY_MODEL_HIDDEN || key == LKI_KEY_DATA_CLASSES;
        /* With averages the weights alone are not what the run evaluates. */
        const bool alone = !of_network && key != LKI_KEY_TRAIN_EMA &&
                           !lki_config_has(was, LKI_KEY_TRAIN_EMA);
        print_change(line, sizeof line, was, is, key);
        return LKI_FAIL(
            LKS_E_MISMATCH,
            "the checkpoint of step %" PRId64 " in %.200s is of another run: %s; use the same%s",
            step, folder, line,
            alone ? ", or give its .safetensors file to --init for the weights alone" : "");
    }
    return LKS_E_MISMATCH; /* in the words of what refused them */
}

/* Weights of tokens mean nothing with those of another vocabulary. */
static lks_status check_vocabulary(const lks_recipe *recipe, const lks_run *run, const char *folder,
                                   int64_t step)
{
    const uint64_t theirs = run->vocabulary_hash, ours = recipe->session.vocabulary_hash;
    if (ours == 0 || theirs == 0 || theirs == ours) return LKS_OK;
    return LKI_FAIL(
        LKS_E_MISMATCH,
        "the checkpoint of step %" PRId64
        " in %.200s has learned the tokens of another vocabulary: its hash is %016" PRIx64
        ", this one's is %016" PRIx64
        "; put that run's own beside its checkpoints, or into data.tokenizer",
        step, folder, theirs, ours);
}

lks_status lki_changes_load(const lks_recipe *recipe, const char *folder, int64_t step)
{
    /* What makes other numbers of the same weights. */
    static const lki_key shown[] = {LKI_KEY_DATA_MEAN, LKI_KEY_DATA_STD,
                                    LKI_KEY_TRAIN_EMA_EVALUATE};
    lks_run run = {0}, loaded = {0};
    lki_config *was = NULL;
    lks_status status = LKS_OK;
    if (lki_recipe_leads(recipe)) status = read_run(&run, &was, recipe, folder, step);
    if (status == LKS_OK) status = check_vocabulary(recipe, &run, folder, step);
    if (status == LKS_OK && lki_recipe_leads(recipe))
        status = lki_table_source_check(recipe->session.whole[recipe->session.whole[0] == NULL],
                                        recipe->config, folder);
    status = lki_recipe_agree(recipe, status);
    if (status == LKS_OK)
        status = lks_checkpoint_load(recipe->session.context, recipe->session.model, &loaded,
                                     folder, step);
    if (status == LKS_E_MISMATCH && was != NULL)
        status = refuse_weights(was, recipe->config, folder, step);
    for (size_t i = 0; i < sizeof shown / sizeof *shown && status == LKS_OK && was != NULL; i++) {
        char line[300];
        if (same_value(was, recipe->config, shown[i])) continue;
        print_change(line, sizeof line, was, recipe->config, shown[i]);
        lki_recipe_say(recipe, LKS_LOG_WARN, "%s", line);
    }
    lki_config_destroy(was);
    lks_run_clear(&loaded);
    lks_run_clear(&run);
    return status;
}

/* Which key says that other samples are trained on; where none does, the data is another. */
static lks_status refuse_samples(const lki_config *was, const lki_config *is, const char *folder)
{
    static const lki_key keys[] = {LKI_KEY_VALIDATION_SAMPLES, LKI_KEY_VALIDATION_FRACTION,
                                   LKI_KEY_VALIDATION_SHUFFLE, LKI_KEY_DATA_SAMPLES,
                                   LKI_KEY_DATA_NAME,          LKI_KEY_DATA_PATH,
                                   LKI_KEY_DATA_SEED,          LKI_KEY_DATA_CLASSES};
    char line[300] = "the data is another";
    for (size_t i = 0; i < sizeof keys / sizeof *keys && was != NULL; i++) {
        if (same_value(was, is, keys[i])) continue;
        print_change(line, sizeof line, was, is, keys[i]);
        break;
    }
    return LKI_FAIL(
        LKS_E_MISMATCH,
        "the run in %.200s trained on other samples than the configuration has: %s; use "
        "the same",
        folder, line);
}

lks_status lks_recipe_check_samples(lks_recipe *recipe, int64_t step)
{
    lks_run run = {0};
    lki_config *was = NULL;
    uint64_t hash;
    if (recipe == NULL) return LKI_FAIL_NULL(recipe);
    const char *folder = lki_config_text(recipe->config, LKI_KEY_CHECKPOINT_PATH);
    lks_dataset *train = recipe->session.train;
    if (train == NULL || folder == NULL || step < 0) return LKS_OK;
    if (!lki_recipe_leads(recipe)) return lki_recipe_agree(recipe, LKS_OK);
    lks_status status = read_run(&run, &was, recipe, folder, step);
    if (status == LKS_OK) status = lks_dataset_hash(train, &hash);
    if (status == LKS_OK && run.data_hash != 0 && run.data_hash != hash)
        status = refuse_samples(was, recipe->config, folder);
    lki_config_destroy(was);
    lks_run_clear(&run);
    return lki_recipe_agree(recipe, status);
}
