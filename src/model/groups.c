/* Groups of parameters: which weight decay and learning rate each has. */
#include <fnmatch.h>
#include <math.h>

#include "base/check.h"
#include "model/model.h"

/* "group 'x'", "freeze 'x'": no parameter is called so. */
static lks_status matches_nothing(const lks_model *model, const char *what, const char *pattern)
{
    return LKI_FAIL(LKS_E_INVALID,
                    "%s '%.80s' matches no parameter; there are %d, from '%.60s' to '%.60s' "
                    "(lockstep info CHECKPOINT lists them)",
                    what, pattern, model->weights, model->weights > 0 ? model->weight[0].name : "",
                    model->weights > 0 ? model->weight[model->weights - 1].name : "");
}

static bool matches(const lks_model *model, const char *pattern)
{
    for (int w = 0; w < model->weights; w++)
        if (fnmatch(pattern, model->weight[w].name, 0) == 0) return true;
    return false;
}

static lks_status check_group(const lks_model *model, const lks_group *group, int number)
{
    if (group->match == NULL || group->match[0] == '\0')
        return LKI_FAIL(LKS_E_INVALID,
                        "group %d of parameters has no pattern, expected one such as '*.bias'",
                        number);
    if (!isnan(group->weight_decay) && !(group->weight_decay >= 0 && isfinite(group->weight_decay)))
        return LKI_FAIL(LKS_E_INVALID, "group '%.80s': weight_decay is %g, expected 0 or more",
                        group->match, group->weight_decay);
    if (!isnan(group->lr_factor) && !(group->lr_factor >= 0 && isfinite(group->lr_factor)))
        return LKI_FAIL(LKS_E_INVALID, "group '%.80s': lr_factor is %g, expected 0 or more",
                        group->match, group->lr_factor);
    return matches(model, group->match) ? LKS_OK : matches_nothing(model, "group", group->match);
}

int64_t lki_frozen(const lks_model *model)
{
    int64_t count = 0;
    for (int w = 0; w < model->weights; w++)
        if (model->weight[w].frozen) count += model->weight[w].count;
    return count;
}

lks_status lki_freeze_check(lks_model *model)
{
    const lks_model_opts *opts = &model->opts;
    for (int i = 0; i < opts->freeze_count; i++)
        if (!matches(model, opts->freeze[i]))
            return matches_nothing(model, "freeze", opts->freeze[i]);
    model->opts.freeze = model->program.freeze = NULL; /* the caller's, and not needed any more */
    model->program.freeze_count = 0;
    return LKS_OK;
}

static bool is_weight(const lks_model *model, const lki_weight *weight)
{
    const lki_cluster *cluster = model->program.stage[weight->stage].cluster;
    const lki_node *owner = lki_weight_owner(model, weight);
    return owner->param[cluster->param[weight->slot].index].is_weight;
}

/* The rule with these two numbers, a new one where there is none. */
static lki_rule *rule_of(lks_model *model, double weight_decay, double lr_factor)
{
    for (int r = 0; r < model->rules; r++)
        if (model->rule[r].update.optim.weight_decay == weight_decay &&
            model->rule[r].lr_factor == lr_factor)
            return &model->rule[r];
    lki_rule *rule = &model->rule[model->rules++];
    *rule = (lki_rule){.update = {.optim = model->opts.optim}, .lr_factor = lr_factor};
    rule->update.optim.weight_decay = weight_decay;
    return rule;
}

lks_status lki_groups_apply(lks_model *model)
{
    const lks_model_opts *opts = &model->opts;
    void *memory;
    if (opts->group_count < 0 || (opts->group_count > 0 && opts->groups == NULL))
        return LKI_FAIL(LKS_E_INVALID, "there %s %d group%s of parameters%s",
                        opts->group_count == 1 ? "is" : "are", opts->group_count,
                        LKI_S(opts->group_count),
                        opts->group_count < 0 ? ", expected 0 or more" : ", but no groups");
    for (int g = 0; g < opts->group_count; g++)
        LKI_TRY(check_group(model, &opts->groups[g], g + 1));
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, ((size_t)model->weights + 1) * sizeof(lki_rule),
                            "rules of updates"));
    model->rule = memory;
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        const bool decays = opts->decay_of == LKS_DECAY_ALL || is_weight(model, weight);
        double weight_decay = decays ? opts->optim.weight_decay : 0, lr_factor = 1;
        for (int g = 0; g < opts->group_count; g++) {
            const lks_group *group = &opts->groups[g];
            if (fnmatch(group->match, weight->name, 0) != 0) continue;
            if (!isnan(group->weight_decay)) weight_decay = group->weight_decay;
            if (!isnan(group->lr_factor)) lr_factor = group->lr_factor;
        }
        weight->rule = rule_of(model, weight_decay, lr_factor);
    }
    model->opts.groups = NULL; /* the caller's, and not needed any more */
    return LKS_OK;
}
