#include "recipe/data/augment.h"

#include "augment/augment.h"
#include "base/check.h"
#include "recipe/options.h"

static lks_status unknown(const char *where, const char *name)
{
    lki_nearest near = {.word = name};
    const lki_augmentation_rule *rule;
    for (int i = 0; (rule = lki_augmentation_at(i)) != NULL; i++)
        lki_nearest_offer(&near, rule->name);
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: unknown augmentation '%.60s'%s%s; lockstep --help-layers lists them",
                    where, name, near.best != NULL ? "; the nearest is " : "",
                    near.best != NULL ? near.best : "");
}

static lks_status unknown_option(const lki_augmentation_rule *rule, const char *where,
                                 const char *name)
{
    lki_nearest near = {.word = name};
    for (int i = 0; i < rule->attributes.count; i++)
        lki_nearest_offer(&near, rule->attributes.list[i].name);
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: %s has no option '%.60s'%s%s; lockstep --help-layers lists them", where,
                    rule->name, name, near.best != NULL ? "; the nearest is " : "",
                    near.best != NULL ? near.best : "");
}

/* What stands behind its name: options, or the first alone. */
static lks_status read_options(lki_options *options, const lki_augmentation_rule *rule,
                               const lki_yaml *body, const char *where)
{
    if (body == NULL || lki_yaml_is_null(body)) return LKS_OK;
    if (body->kind != LKI_YAML_MAP)
        return lki_options_read(options, &rule->attributes.list[0], rule->name, body, where);
    for (const lki_yaml_entry *e = body->first; e != NULL; e = e->next) {
        const lki_attribute *a = lki_attribute_find(&rule->attributes, e->key->text);
        if (a == NULL) return unknown_option(rule, where, e->key->text);
        LKI_TRY(lki_options_read(options, a, rule->name, e->value, where));
    }
    return LKS_OK;
}

static lks_status read_one(lks_augmentation *out, lki_config *config, const lki_yaml *node,
                           const lks_dataset_info *info)
{
    const char *where = lki_config_where(config, LKI_KEY_DATA_AUGMENT, node);
    const lki_yaml *body;
    const char *name = lki_options_name(node, &body);
    lki_options options;
    if (name == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: an augmentation is written '- flip' or '- crop: {padding: 4}', with "
                        "one name for each '-'",
                        where);
    const lki_augmentation_rule *rule = lki_augmentation_find(name);
    if (rule == NULL) return unknown(where, name);
    LKI_TRY(lki_options_begin(&options, &config->heap, &rule->attributes, sizeof *out));
    LKI_TRY(read_options(&options, rule, body, where));
    *out = *(const lks_augmentation *)options.values;
    out->kind = rule->kind;
    if (info == NULL) return LKS_OK;
    const char *prefix = lki_heap_format(&config->heap, "%s: ", where);
    return lki_augmentation_check(out, info, prefix != NULL ? prefix : "");
}

static lks_status read_list(lki_config *config, const lks_dataset_info *info,
                            lks_augmentation *list)
{
    const lki_yaml *tree = config->value[LKI_KEY_DATA_AUGMENT].tree;
    for (const lki_yaml_entry *e = tree->first; e != NULL; e = e->next)
        LKI_TRY(read_one(list++, config, e->value, info));
    return LKS_OK;
}

static lks_status check_mixup(const lki_config *config, const lks_dataset_info *info)
{
    const double mixup = lki_config_float(config, LKI_KEY_DATA_MIXUP);
    if (mixup > 0 && mixup < 0.001)
        return lki_config_fail(config, LKI_KEY_DATA_MIXUP, "is %g, expected 0, or 0.001 to 1000",
                               mixup);
    if (mixup == 0 || info == NULL || info->classes > 0) return LKS_OK;
    return lki_config_fail(config, LKI_KEY_DATA_MIXUP,
                           "is set, but the targets of the data are floats, not classes; leave it "
                           "out");
}

lks_status lki_augment_read(lki_config *config, const lks_dataset_info *info, lks_loader_opts *out)
{
    const lki_yaml *tree = config->value[LKI_KEY_DATA_AUGMENT].tree;
    const size_t entries = lki_config_has(config, LKI_KEY_DATA_AUGMENT) ? (size_t)tree->count : 0;
    lks_augmentation *list = NULL;
    if (entries > 0) list = lki_heap_alloc(&config->heap, entries * sizeof *list);
    if (list != NULL) LKI_TRY(read_list(config, info, list));
    LKI_TRY(lki_heap_status(&config->heap, check_mixup(config, info)));
    if (out == NULL) return LKS_OK;
    out->augment = list;
    out->augmentations = (int)entries;
    out->mixup = lki_config_float(config, LKI_KEY_DATA_MIXUP);
    return LKS_OK;
}
