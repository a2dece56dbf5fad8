#include "cli/recipe/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const config_row config_rows[KEY_COUNT] = {
#define X(id, name, type, range, fallback, only, change, help)                                     \
    [KEY_##id] = {{name, VALUE_##type, range}, fallback, only, CHANGE_##change, help},
    CONFIG_KEY_LIST(X)
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

static config_key find_key(const char *name)
{
    for (int key = 0; key < KEY_COUNT; key++)
        if (strcmp(config_rows[key].spec.name, name) == 0) return (config_key)key;
    return KEY_NONE;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* The first key of a section, or NONE where that is no section's name. */
static config_key first_of(const char *name)
{
    const size_t length = strlen(name);
    for (int key = 0; key < KEY_COUNT; key++)
        if (strncmp(config_rows[key].spec.name, name, length) == 0 &&
            config_rows[key].spec.name[length] == '.')
            return (config_key)key;
    return KEY_NONE;
}

static bool is_section(const char *name)
{
    return first_of(name) != KEY_NONE;
}

/* The key or section that was meant: near by its whole name, or by its last part. */
static const char *guess(cli_config *config, const char *name)
{
    cli_nearest whole = {.word = name}, part = {.word = last_part(name)};
    for (int key = 0; key < KEY_COUNT; key++) {
        const char *candidate = config_rows[key].spec.name;
        nearest_offer(&whole, candidate);
        nearest_offer(&whole, pool_copy(&config->pool, candidate, strcspn(candidate, ".")));
        const char *before = part.best;
        nearest_offer(&part, last_part(candidate));
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
    for (int key = 0; key < KEY_COUNT; key++) {
        const char *own = config_rows[key].spec.name;
        const size_t length = strlen(name);
        if (strncmp(own, name, length) != 0 || own[length] != '.') continue;
        if (used + strlen(own) + 8 > sizeof keys) {
            snprintf(keys + used, sizeof keys - used, ", ...");
            break;
        }
        used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%s", used > 0 ? ", " : "",
                                 own);
    }
    return lks_fail(LKS_E_INVALID, "%s: '%.100s' is a section, expected one of its keys: %s", where,
                    name, keys);
}

static lks_status unknown_key(cli_config *config, const char *where, const char *name)
{
    if (is_section(name)) return not_a_key(where, name);
    const char *near = guess(config, name);
    if (near == NULL)
        return lks_fail(LKS_E_INVALID,
                        "%s: unknown key '%.100s'; lockstep --help-config lists the keys", where,
                        name);
    return lks_fail(LKS_E_INVALID, "%s: unknown key '%.100s'; the nearest is '%s'", where, name,
                    near);
}

static lks_status set_node(cli_config *config, config_key key, const cli_node *node,
                           const char *where, config_source source)
{
    cli_value value;
    const config_row *row = &config_rows[key];
    lks_status status = value_parse(&value, &row->spec, node, where);
    if (status == LKS_OK && !value.set && row->fallback != NULL) { /* null is the default */
        status = tree_read_text(&node, &config->pool, where, row->fallback);
        if (status == LKS_OK) status = value_parse(&value, &row->spec, node, where);
    }
    if (status != LKS_OK) return status;
    config->value[key] = value;
    config->source[key] = source;
    return LKS_OK;
}

lks_status config_create(cli_config **out)
{
    cli_config *config = calloc(1, sizeof *config);
    *out = NULL;
    if (config == NULL) return lks_fail(LKS_E_NOMEM, "no memory for the configuration");
    for (int key = 0; key < KEY_COUNT; key++) {
        const char *text = config_rows[key].fallback;
        config->value[key].where = "the default";
        if (text == NULL) continue;
        const cli_node *node;
        lks_status status = tree_read_text(&node, &config->pool, "the default", text);
        if (status == LKS_OK)
            status = set_node(config, (config_key)key, node, "the default", FROM_DEFAULT);
        if (status != LKS_OK) {
            config_destroy(config);
            return status;
        }
    }
    *out = config;
    return LKS_OK;
}

void config_destroy(cli_config *config)
{
    if (config == NULL) return;
    pool_clear(&config->pool);
    free(config);
}

/* Walks sections; `prefix` is "" or "optimizer.". Names may be nested or dotted. */
static lks_status read_section(cli_config *config, const char *path, const char *prefix,
                               const cli_node *section)
{
    for (const cli_entry *e = section->first; e != NULL; e = e->next) {
        const bool is_template = *prefix == '\0' && strncmp(e->key->text, "x-", 2) == 0;
        if (is_template) continue; /* a place for anchors */
        const char *name = pool_format(&config->pool, "%s%s", prefix, e->key->text);
        const char *where = pool_format(&config->pool, "%s:%d", path, e->value->line);
        const config_key key = find_key(name);
        lks_status status;
        if (key != KEY_NONE)
            status = set_node(config, key, e->value, where, FROM_FILE);
        else if (!is_section(name))
            status = unknown_key(config, pool_format(&config->pool, "%s:%d", path, e->key->line),
                                 name);
        else if (e->value->kind == NODE_MAP)
            status = read_section(config, path, pool_format(&config->pool, "%s.", name), e->value);
        else if (node_is_null(e->value))
            continue;
        else
            status = lks_fail(LKS_E_INVALID,
                              "%s: %.100s is a section, expected keys in it, such as '%.100s: "
                              "{%s: ...}'",
                              where, name, name, last_part(config_rows[first_of(name)].spec.name));
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

static lks_status read_root(cli_config *config, const char *path, const cli_node *root)
{
    if (node_is_null(root)) return LKS_OK;
    if (root->kind != NODE_MAP)
        return lks_fail(LKS_E_INVALID,
                        "%s:%d: a configuration is a map of sections, such as 'train: {epochs: 3}'",
                        path, root->line);
    return read_section(config, path, "", root);
}

lks_status config_read(cli_config *config, const char *path)
{
    const cli_node *root;
    const lks_status status = tree_read_file(&root, &config->pool, path);
    return status == LKS_OK ? read_root(config, path, root) : status;
}

lks_status config_read_text(cli_config *config, const char *name, const char *text)
{
    const cli_node *root;
    const lks_status status = tree_read_text(&root, &config->pool, name, text);
    return status == LKS_OK ? read_root(config, name, root) : status;
}

lks_status config_set(cli_config *config, config_key key, const char *text, const char *where)
{
    const bool plain = config_rows[key].spec.type != VALUE_STRING; /* --data null is a folder */
    const cli_node *node = node_from_text(&config->pool, text, plain);
    return set_node(config, key, node, where, FROM_COMMAND);
}

lks_status config_settle(cli_config *config, config_key key, const char *text)
{
    const cli_node *node = node_from_text(&config->pool, text, true);
    return set_node(config, key, node, "the default", FROM_DEFAULT);
}

lks_status config_assign(cli_config *config, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment)
        return lks_fail(LKS_E_INVALID, "--set %.100s: expected key=value, such as optimizer.lr=0.1",
                        assignment);
    const char *name = pool_copy(&config->pool, assignment, (size_t)(equals - assignment));
    const char *where = pool_format(&config->pool, "--set %s", name);
    const config_key key = find_key(name);
    if (key == KEY_NONE) return unknown_key(config, "--set", name);
    if (equals[1 + strspn(equals + 1, " \t\r\n")] == '\0')
        return lks_fail(
            LKS_E_INVALID,
            "%s has an empty value; is a variable of the shell not set? null stands for "
            "the default",
            where);
    const cli_node *node;
    const lks_status status = tree_read_text(&node, &config->pool, where, equals + 1);
    if (status != LKS_OK) return status;
    return set_node(config, key, node, where, FROM_COMMAND);
}

bool config_has(const cli_config *config, config_key key)
{
    return config->value[key].set;
}

int64_t config_int(const cli_config *config, config_key key)
{
    return config->value[key].i[0];
}

double config_float(const cli_config *config, config_key key)
{
    return config->value[key].f[0];
}

bool config_bool(const cli_config *config, config_key key)
{
    return config->value[key].b;
}

const char *config_text(const cli_config *config, config_key key)
{
    return config->value[key].set ? config->value[key].s : NULL;
}

const char *config_where(cli_config *config, config_key key, const cli_node *node)
{
    const char *list = config->value[key].where;
    const char *colon = strrchr(list, ':');
    if (colon == NULL) return list;
    return pool_format(&config->pool, "%.*s:%d", (int)(colon - list), list, node->line);
}

lks_status config_fail(const cli_config *config, config_key key, const char *format, ...)
{
    char sentence[400];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return lks_fail(LKS_E_INVALID, "%s: %s %s", config->value[key].where,
                    config_rows[key].spec.name, sentence);
}
