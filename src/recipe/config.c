#include "recipe/config.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "recipe/text/configs.h"
#include "recipe/text/network_file.h"

const lki_key_row lki_key_rows[LKI_KEY_COUNT] = {
#define X(id, name, type, range, fallback, change, help)                                           \
    [LKI_KEY_##id] = {{name, LKI_TYPE_##type, range}, fallback, LKI_CHANGE_##change, help},
    LKI_KEY_LIST(X)
#undef X
};

/* Names that other programs have for the last part of a key. */
static const struct synonym {
    const char *other, *ours;
} synonyms[] = {
    {"learning_rate", "optimizer.lr"},
    {"batch", "train.batch_size"},
    {"bs", "train.batch_size"},
    {"valid_batch_size", "train.test_batch_size"},
    {"max_epochs", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"max_steps", "train.steps"},
    {"num_iters", "train.steps"},
    {"num_workers", "train.workers"},
    {"num_data_workers", "data.threads"},
    {"threads", "data.threads"},
    {"root", "data.path"},
    {"data_path", "data.path"},
    {"dir", "data.path"},
    {"wd", "optimizer.weight_decay"},
    {"epsilon", "optimizer.eps"},
    {"param_groups", "optimizer.groups"},
    {"grad_clip", "optimizer.clip_norm"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"gradient_clip_val", "optimizer.clip_norm"},
    {"ema_decay", "train.ema"},
    {"div_factor", "schedule.start_div"},
    {"final_div_factor", "schedule.final_div"},
    {"pct_start", "schedule.rise"},
    {"gradient_accumulation_steps", "train.accumulate"},
    {"warmup", "schedule.warmup_steps"},
    {"save_every", "checkpoint.every_steps"},
    {"type", "model.name"},
    {"arch", "model.name"},
    {"num_classes", "data.classes"},
    {"log_interval", "log.interval"},
    {"log_freq", "log.interval"},
    {"scheduler", "schedule.name"},
    {"lr_schedule", "schedule.name"},
    {"out", "checkpoint.path"},
    {"validation", "validation.fraction"},
    {"validation_split", "validation.fraction"},
    {"validation_fraction", "validation.fraction"},
    {"val_split", "validation.fraction"},
    {"patience", "validation.patience"},
    {"early_stopping", "validation.patience"},
};

lki_key lki_key_find(const char *name)
{
    for (int key = 0; key < LKI_KEY_COUNT; key++)
        if (strcmp(lki_key_rows[key].spec.name, name) == 0) return (lki_key)key;
    return LKI_KEY_NONE;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* The first key of a section, or NONE where that is no section's name. */
static lki_key first_of(const char *name)
{
    const size_t length = strlen(name);
    for (int key = 0; key < LKI_KEY_COUNT; key++)
        if (strncmp(lki_key_rows[key].spec.name, name, length) == 0 &&
            lki_key_rows[key].spec.name[length] == '.')
            return (lki_key)key;
    return LKI_KEY_NONE;
}

static bool is_section(const char *name)
{
    return first_of(name) != LKI_KEY_NONE;
}

/* The key or section that was meant: near by its whole name, or by its last part. */
static const char *guess(lki_config *config, const char *name)
{
    lki_nearest whole = {.word = name}, part = {.word = last_part(name)};
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const char *candidate = lki_key_rows[key].spec.name;
        lki_nearest_offer(&whole, candidate);
        lki_nearest_offer(&whole, lki_heap_copy(&config->heap, candidate, strcspn(candidate, ".")));
        const char *before = part.best;
        lki_nearest_offer(&part, last_part(candidate));
        if (part.best != before) part.best = candidate;
    }
    if (part.best != NULL && part.distance == 0) return part.best;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (strcmp(part.word, synonyms[i].other) == 0) return synonyms[i].ours;
    const bool by_whole = whole.best != NULL && (strchr(name, '.') != NULL || part.best == NULL ||
                                                 whole.distance <= part.distance);
    return by_whole ? whole.best : part.best;
}

/* A section where a key is expected: its keys, as many as a sentence bears. */
static lks_status not_a_key(const char *where, const char *name)
{
    char keys[160] = "";
    size_t used = 0;
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const char *own = lki_key_rows[key].spec.name;
        const size_t length = strlen(name);
        if (strncmp(own, name, length) != 0 || own[length] != '.') continue;
        if (used + strlen(own) + 8 > sizeof keys) {
            snprintf(keys + used, sizeof keys - used, ", ...");
            break;
        }
        used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%s", used > 0 ? ", " : "",
                                 own);
    }
    return LKI_FAIL(LKS_E_INVALID, "%s: '%.100s' is a section, expected one of its keys: %s", where,
                    name, keys);
}

static lks_status unknown_key(lki_config *config, const char *where, const char *name)
{
    if (is_section(name)) return not_a_key(where, name);
    const char *near = guess(config, name);
    if (near == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: unknown key '%.100s'; lockstep --help-config lists the keys", where,
                        name);
    return LKI_FAIL(LKS_E_INVALID, "%s: unknown key '%.100s'; the nearest is '%s'", where, name,
                    near);
}

static lks_status set_node(lki_config *config, lki_key key, const lki_yaml *node, const char *where,
                           lki_setter source)
{
    lki_setting value;
    const lki_key_row *row = &lki_key_rows[key];
    lks_status status = lki_setting_parse(&value, &config->heap, &row->spec, node, where);
    if (status == LKS_OK && !value.set &&
        row->fallback != NULL) { /* null is the default, as if nobody spoke */
        source = LKI_FROM_DEFAULT;
        status = lki_yaml_read_text(&node, &config->heap, where, row->fallback);
        if (status == LKS_OK)
            status = lki_setting_parse(&value, &config->heap, &row->spec, node, where);
    }
    if (status != LKS_OK) return status;
    config->value[key] = value;
    config->source[key] = source;
    return LKS_OK;
}

lks_status lki_config_create(lki_config **out)
{
    lki_config *config = calloc(1, sizeof *config);
    *out = NULL;
    if (config == NULL) return LKI_FAIL(LKS_E_NOMEM, "no memory for the configuration");
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const char *text = lki_key_rows[key].fallback;
        config->value[key].where = "the default";
        if (text == NULL) continue;
        const lki_yaml *node;
        lks_status status = lki_yaml_read_text(&node, &config->heap, "the default", text);
        if (status == LKS_OK)
            status = set_node(config, (lki_key)key, node, "the default", LKI_FROM_DEFAULT);
        if (status != LKS_OK) {
            lki_config_destroy(config);
            return status;
        }
    }
    *out = config;
    return LKS_OK;
}

void lki_config_destroy(lki_config *config)
{
    if (config == NULL) return;
    lki_heap_clear(&config->heap);
    free(config);
}

static lks_status read_entries(lki_config *config, const char *path, const char *prefix,
                               const lki_yaml *section, int level);

/* Whether it is no section but a place for anchors, or the configurations by name. */
static bool is_apart(const char *name)
{
    return strncmp(name, "x-", 2) == 0 || strcmp(name, LKI_CONFIGS) == 0;
}

/* Walks sections; `prefix` is "" or "optimizer.". Names may be nested or dotted. What was merged from farther
 * comes first, so that what is nearer wins in either form. */
static lks_status read_section(lki_config *config, const char *path, const char *prefix,
                               const lki_yaml *section)
{
    for (int above = INT_MAX, level; above > 0; above = level) {
        level = 0; /* the next below */
        for (const lki_yaml_entry *e = section->first; e != NULL; e = e->next)
            if (e->merged < above && e->merged > level) level = e->merged;
        LKI_TRY(read_entries(config, path, prefix, section, level));
    }
    return LKS_OK;
}

static lks_status read_entries(lki_config *config, const char *path, const char *prefix,
                               const lki_yaml *section, int level)
{
    for (const lki_yaml_entry *e = section->first; e != NULL; e = e->next) {
        if (e->merged != level || (*prefix == '\0' && is_apart(e->key->text))) continue;
        const char *name = lki_heap_format(&config->heap, "%s%s", prefix, e->key->text);
        const char *where = lki_heap_format(&config->heap, "%s:%d", path, e->value->line);
        const lki_key key = lki_key_find(name);
        lks_status status;
        if (key != LKI_KEY_NONE)
            status = set_node(config, key, e->value, where, LKI_FROM_FILE);
        else if (!is_section(name))
            status = unknown_key(config,
                                 lki_heap_format(&config->heap, "%s:%d", path, e->key->line), name);
        else if (e->value->kind == LKI_YAML_MAP)
            status = read_section(config, path, lki_heap_format(&config->heap, "%s.", name),
                                  e->value);
        else if (lki_yaml_is_null(e->value))
            continue;
        else
            status = LKI_FAIL(LKS_E_INVALID,
                              "%s: %.100s is a section, expected keys in it, such as '%.100s: "
                              "{%s: ...}'",
                              where, name, name, last_part(lki_key_rows[first_of(name)].spec.name));
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

/* `name`: of the configuration in it; NULL: the usual one. */
static lks_status read_root(lki_config *config, const char *path, const char *name,
                            const lki_yaml *root)
{
    const lki_yaml *named;
    if (root->kind != LKI_YAML_MAP && !lki_yaml_is_null(root))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s:%d: a configuration is a map of sections, such as 'train: {epochs: 3}'",
                        path, root->line);
    LKI_TRY(lki_configs_find(&named, path, name, root));
    LKI_TRY(read_section(config, path, "", root));
    return named != NULL ? read_section(config, path, "", named) : LKS_OK;
}

lks_status lki_config_read(lki_config *config, const char *path)
{
    const lki_yaml *root;
    const char *name;
    path = lki_configs_split(&name, &config->heap, path);
    lks_status status = lki_network_file_has_lines(path)
                            ? lki_network_file_read(&root, &config->heap, path, name)
                            : lki_yaml_read_file(&root, &config->heap, path);
    bool network = lki_network_file_has_lines(path);
    if (status == LKS_OK && lki_network_file_is(root)) {
        network = true;
        status = lki_network_file_tree(&root, &config->heap, path, name, root);
    }
    if (network) name = NULL; /* it has said which variant, not which of several */
    return status == LKS_OK ? lki_heap_status(&config->heap, read_root(config, path, name, root))
                            : status;
}

lks_status lki_config_read_text(lki_config *config, const char *name, const char *text)
{
    const lki_yaml *root;
    const lks_status status = lki_yaml_read_lines(&root, &config->heap, name, text);
    return status == LKS_OK ? lki_heap_status(&config->heap, read_root(config, name, NULL, root))
                            : status;
}

lks_status lki_config_set(lki_config *config, lki_key key, const char *text, const char *where)
{
    const bool plain = lki_key_rows[key].spec.type != LKI_TYPE_STRING; /* --data null is a folder */
    const lki_yaml *node = lki_yaml_scalar(&config->heap, text, plain);
    return lki_heap_status(&config->heap, set_node(config, key, node, where, LKI_FROM_COMMAND));
}

lks_status lki_config_settle(lki_config *config, lki_key key, const char *text)
{
    const lki_yaml *node = lki_yaml_scalar(&config->heap, text, true);
    return lki_heap_status(&config->heap,
                           set_node(config, key, node, "the default", LKI_FROM_DEFAULT));
}

static lks_status config_assign(lki_config *config, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment)
        return LKI_FAIL(LKS_E_INVALID, "--set %.100s: expected key=value, such as optimizer.lr=0.1",
                        assignment);
    const char *name = lki_heap_copy(&config->heap, assignment, (size_t)(equals - assignment));
    const char *where = lki_heap_format(&config->heap, "--set %s", name);
    const lki_key key = lki_key_find(name);
    if (key == LKI_KEY_NONE) return unknown_key(config, "--set", name);
    if (equals[1 + strspn(equals + 1, " \t\r\n")] == '\0')
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s has an empty value; is a variable of the shell not set? null stands for "
            "the default",
            where);
    const lki_yaml *node;
    const lks_status status = lki_yaml_read_text(&node, &config->heap, where, equals + 1);
    if (status != LKS_OK) return status;
    return set_node(config, key, node, where, LKI_FROM_COMMAND);
}

lks_status lki_config_assign(lki_config *config, const char *assignment)
{
    return lki_heap_status(&config->heap, config_assign(config, assignment));
}

bool lki_config_has(const lki_config *config, lki_key key)
{
    return config->value[key].set;
}

int64_t lki_config_int(const lki_config *config, lki_key key)
{
    return config->value[key].i[0];
}

double lki_config_float(const lki_config *config, lki_key key)
{
    return config->value[key].f;
}

bool lki_config_bool(const lki_config *config, lki_key key)
{
    return config->value[key].b;
}

const char *lki_config_text(const lki_config *config, lki_key key)
{
    return config->value[key].set ? config->value[key].s : NULL;
}

const char *lki_config_where(lki_config *config, lki_key key, const lki_yaml *node)
{
    const char *list = config->value[key].where;
    const char *colon = strrchr(list, ':');
    if (colon == NULL) return list;
    return lki_heap_format(&config->heap, "%.*s:%d", (int)(colon - list), list, node->line);
}

lks_status lki_config_fail(const lki_config *config, lki_key key, const char *format, ...)
{
    char sentence[400];
    va_list args;
    va_start(args, format);
    lki_text_list(sentence, sizeof sentence, format, args);
    va_end(args);
    return LKI_FAIL(LKS_E_INVALID, "%s: %s %s", config->value[key].where,
                    lki_key_rows[key].spec.name, sentence);
}

bool lki_key_section(int key, char section[32])
{
    const char *name = lki_key_rows[key].spec.name;
    const size_t length = strcspn(name, ".");
    memcpy(section, name, length);
    section[length] = '\0';
    const char *before = key > 0 ? lki_key_rows[key - 1].spec.name : "";
    return strcspn(before, ".") != length || strncmp(before, name, length) != 0;
}

const char *lki_key_own_name(int key)
{
    return strchr(lki_key_rows[key].spec.name, '.') + 1;
}
