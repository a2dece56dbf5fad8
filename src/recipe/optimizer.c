/* Optimizer, groups of parameters and schedule of a configuration. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "optim/optimizer.h"
#include "optim/schedule/schedule.h"
#include "recipe/options.h"
#include "recipe/session.h"

/* 0 where the key is not set. */
static double or_zero(const lki_config *config, lki_key key)
{
    return lki_config_has(config, key) ? lki_config_float(config, key) : 0;
}

lks_optim lki_session_optim(const lki_config *config)
{
    const lki_optimizer *optimizer = lki_optimizer_find(
        lki_config_text(config, LKI_KEY_OPTIMIZER_NAME));
    lks_optim optim = lki_optimizer_make(optimizer);
    lki_options_store(&optimizer->attributes, &optim, config, LKI_KEY_OPTIMIZER_NAME);
    return optim;
}

static lks_status read_group(lks_group *out, lki_config *config, const lki_yaml *node)
{
    static const lki_spec specs[] = {{"match", LKI_TYPE_STRING, NULL},
                                     {"weight_decay", LKI_TYPE_FLOAT, "[0,)"},
                                     {"lr_factor", LKI_TYPE_FLOAT, "[0,)"}};
    enum { MATCH, WEIGHT_DECAY, LR_FACTOR, SPECS };
    const char *where = lki_config_where(config, LKI_KEY_OPTIMIZER_GROUPS, node);
    lki_setting value[SPECS] = {{0}};
    if (node->kind != LKI_YAML_MAP)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: a group is written '- {match: \"*.bias\", weight_decay: 0}'", where);
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next) {
        int i = 0;
        while (i < SPECS && strcmp(specs[i].name, e->key->text) != 0) i++;
        if (i == SPECS)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s: a group has no '%.60s', expected match, weight_decay or lr_factor",
                            where, e->key->text);
        const lks_status status = lki_setting_parse(&value[i], &config->heap, &specs[i], e->value,
                                                    where);
        if (status != LKS_OK) return status;
    }
    if (!value[MATCH].set)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: a group needs match, a pattern for names such as '*.bias'", where);
    *out = lks_group_of(value[MATCH].s);
    if (value[WEIGHT_DECAY].set) out->weight_decay = value[WEIGHT_DECAY].f;
    if (value[LR_FACTOR].set) out->lr_factor = value[LR_FACTOR].f;
    return LKS_OK;
}

static lks_status read_groups(lks_model_opts *opts, lki_config *config)
{
    if (!lki_config_has(config, LKI_KEY_OPTIMIZER_GROUPS)) return LKS_OK;
    const lki_yaml *list = config->value[LKI_KEY_OPTIMIZER_GROUPS].tree;
    lks_group *groups = lki_heap_alloc(&config->heap, ((size_t)list->count + 1) * sizeof *groups);
    if (groups == NULL) return lki_heap_status(&config->heap, LKS_OK);
    opts->groups = groups;
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next) {
        const lks_status status = read_group(&groups[opts->group_count++], config, e->value);
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

static lks_status read_freeze(lks_model_opts *opts, lki_config *config)
{
    if (!lki_config_has(config, LKI_KEY_MODEL_FREEZE)) return LKS_OK;
    const lki_yaml *list = config->value[LKI_KEY_MODEL_FREEZE].tree;
    const char **patterns = lki_heap_alloc(&config->heap,
                                           ((size_t)list->count + 1) * sizeof *patterns);
    if (patterns == NULL) return lki_heap_status(&config->heap, LKS_OK);
    opts->freeze = patterns;
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next) {
        if (e->value->kind != LKI_YAML_SCALAR || lki_yaml_is_null(e->value))
            return LKI_FAIL(LKS_E_INVALID,
                            "%s: model.freeze is a list of patterns for names of parameters, such "
                            "as 'conv1.*'",
                            lki_config_where(config, LKI_KEY_MODEL_FREEZE, e->value));
        patterns[opts->freeze_count++] = e->value->text;
    }
    return LKS_OK;
}

lks_status lki_session_update(lks_model_opts *opts, lki_config *config)
{
    const bool weights = strcmp(lki_config_text(config, LKI_KEY_OPTIMIZER_DECAY_OF), "weights") ==
                         0;
    opts->optim = lki_session_optim(config);
    opts->decay_of = weights ? LKS_DECAY_WEIGHTS : LKS_DECAY_ALL;
    opts->clip_value = or_zero(config, LKI_KEY_OPTIMIZER_CLIP_VALUE);
    opts->clip_norm = or_zero(config, LKI_KEY_OPTIMIZER_CLIP_NORM);
    opts->ema_decay = or_zero(config, LKI_KEY_TRAIN_EMA);
    opts->skip_not_finite = strcmp(lki_config_text(config, LKI_KEY_TRAIN_NOT_FINITE), "skip") == 0;
    opts->loss_scale = or_zero(config, LKI_KEY_TRAIN_LOSS_SCALE);
    if (lki_config_has(config, LKI_KEY_TRAIN_LOSS_SCALE_STEPS))
        opts->loss_scale_steps = (int)lki_config_int(config, LKI_KEY_TRAIN_LOSS_SCALE_STEPS);
    LKI_TRY(read_freeze(opts, config));
    return lki_heap_status(&config->heap, read_groups(opts, config));
}

/* optimizer.lr for the batch of the run. The root is correctly rounded everywhere. */
static double scaled_rate(const lki_config *config)
{
    const char *rule = lki_config_text(config, LKI_KEY_OPTIMIZER_LR_SCALING);
    const double rate = lki_config_float(config, LKI_KEY_OPTIMIZER_LR);
    if (strcmp(rule, "none") == 0) return rate;
    const double share = (double)lki_config_int(config, LKI_KEY_TRAIN_BATCH_SIZE) /
                         (double)lki_config_int(config, LKI_KEY_OPTIMIZER_LR_BATCH);
    return rate * (strcmp(rule, "sqrt") == 0 ? sqrt(share) : share);
}

/* schedule.warmup_steps, or as many as the epochs of warmup_epochs have. */
static int64_t warmup_steps(const lki_config *config, int64_t batches)
{
    const int64_t epochs = lki_config_int(config, LKI_KEY_SCHEDULE_WARMUP_EPOCHS);
    if (epochs == 0) return lki_config_int(config, LKI_KEY_SCHEDULE_WARMUP_STEPS);
    return epochs <= INT64_MAX / batches ? epochs * batches : INT64_MAX;
}

lks_schedule lki_session_schedule(const lki_config *config, int64_t epochs, int64_t steps,
                                  int64_t batches)
{
    const lki_schedule_rule *rule = lki_schedule_find(
        lki_config_text(config, LKI_KEY_SCHEDULE_NAME));
    lks_schedule schedule = {
        .kind = rule->kind,
        .lr = scaled_rate(config),
        .per_step = lki_config_bool(config, LKI_KEY_SCHEDULE_PER_STEP),
        .warmup_steps = warmup_steps(config, batches),
        .begin = lki_config_int(config, LKI_KEY_SCHEDULE_BEGIN),
    };
    if (epochs == 0) epochs = steps / batches + (steps % batches != 0);
    const int64_t all = epochs <= INT64_MAX / batches ? epochs * batches : INT64_MAX;
    if (steps == 0 || steps > all) steps = all;
    schedule.length = (schedule.per_step ? steps : epochs) - schedule.begin;
    if (schedule.length < 1) schedule.length = 1;
    lki_options_store(&rule->attributes, &schedule, config, LKI_KEY_SCHEDULE_NAME);
    if (rule->from_losses) { /* 0 is a number here, not the default */
        if (schedule.patience == 0) schedule.patience = -1;
        if (schedule.threshold <= 0) schedule.threshold = -1;
    }
    return schedule;
}
