/* What concerns several keys of the configuration. */
#include "cli/out/text.h"
#include "cli/recipe/config.h"

#include <stdio.h>
#include <string.h>

static bool same_section(config_key a, config_key b)
{
    const char *x = config_rows[a].spec.name, *y = config_rows[b].spec.name;
    const size_t length = strcspn(x, ".");
    return strcspn(y, ".") == length && strncmp(x, y, length) == 0;
}

static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at++)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static config_key name_key(config_key key)
{
    static const config_key names[] = {KEY_DATA_NAME, KEY_MODEL_NAME, KEY_LOSS_NAME,
                                       KEY_OPTIMIZER_NAME, KEY_SCHEDULE_NAME};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same_section(names[i], key)) return names[i];
    return KEY_NONE;
}

static void unset(cli_config *config, config_key key)
{
    config->value[key].set = false;
    config->source[key] = FROM_DEFAULT;
}

static lks_status settle_names(cli_config *config)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const config_key key = (config_key)i, name = name_key(key);
        const char *only = config_rows[i].only;
        if (only == NULL) continue;
        const char *chosen = config_text(config, name);
        if (name == KEY_MODEL_NAME && config_has(config, KEY_MODEL_LAYERS)) chosen = NULL;
        if (chosen != NULL && has_word(only, chosen)) continue;
        if (config->source[key] == FROM_DEFAULT || config->source[name] > config->source[key]) {
            unset(config, key);
            continue;
        }
        if (chosen == NULL)
            return config_fail(config, key, "is only for %s '%s'; set that too",
                               config_rows[name].spec.name, only);
        return config_fail(config, key, "is not known to %s; it is for %s '%s'", chosen,
                           config_rows[name].spec.name, only);
    }
    return LKS_OK;
}

/* Two keys that say the same thing: the later source wins. */
static void settle_pair(cli_config *config, config_key a, config_key b)
{
    if (!config_has(config, a) || !config_has(config, b)) return;
    if (config->source[a] > config->source[b]) unset(config, b);
    if (config->source[b] > config->source[a]) unset(config, a);
}

static lks_status check_model(const cli_config *config)
{
    const char *name = config_text(config, KEY_MODEL_NAME);
    const bool layers = config_has(config, KEY_MODEL_LAYERS);
    const bool known = name != NULL && (!strcmp(name, "mnist_cnn") || !strcmp(name, "mlp"));
    if (layers && known)
        return config_fail(config, KEY_MODEL_NAME,
                           "is '%s', but there are model.layers too; drop one, or choose another "
                           "name",
                           name);
    if (!layers && name == NULL)
        return lks_fail(LKS_E_INVALID, "model.name is missing: expected mnist_cnn or mlp, or a "
                                       "list model.layers");
    if (!layers && !known)
        return config_fail(config, KEY_MODEL_NAME,
                           "is '%.100s', expected mnist_cnn or mlp, or a list model.layers", name);
    if (name != NULL && strpbrk(name, "/") != NULL)
        return config_fail(config, KEY_MODEL_NAME,
                           "is '%.100s', expected a name without '/': it becomes a file name",
                           name);
    if (config_has(config, KEY_MODEL_DROPOUT) && !strcmp(name, "mnist_cnn") &&
        config_float(config, KEY_MODEL_DROPOUT) > 0)
        return config_fail(config, KEY_MODEL_DROPOUT,
                           "is %g, but mnist_cnn has dropout 0.25 and 0.5; expected 0 (none) or "
                           "null",
                           config_float(config, KEY_MODEL_DROPOUT));
    return LKS_OK;
}

static lks_status check_workers(const cli_config *config)
{
    const int64_t replicas = config_int(config, KEY_TRAIN_REPLICAS) *
                             config_int(config, KEY_TRAIN_ACCUMULATE);
    if (replicas > 4096)
        return config_fail(config, KEY_TRAIN_ACCUMULATE,
                           "times train.replicas is %lld, expected at most 4096",
                           (long long)replicas);
    if (!config_has(config, KEY_TRAIN_WORKERS)) return LKS_OK;
    const int64_t workers = config_int(config, KEY_TRAIN_WORKERS);
    if (workers <= replicas) return LKS_OK;
    return config_fail(config, KEY_TRAIN_WORKERS,
                       "is %lld, expected at most %lld: each worker needs a replica; replicas: "
                       "%lld would use all (other bits)",
                       (long long)workers, (long long)replicas, (long long)workers);
}

/* Sets a default where the key is not set, but the chosen name has it. */
static lks_status settle(cli_config *config, config_key key, const char *text)
{
    const char *only = config_rows[key].only;
    if (config_has(config, key)) return LKS_OK;
    if (only != NULL && !has_word(only, config_text(config, name_key(key)))) return LKS_OK;
    return config_settle(config, key, text);
}

/* Defaults that depend on other keys. */
static lks_status settle_defaults(cli_config *config)
{
    const char *optimizer = config_text(config, KEY_OPTIMIZER_NAME);
    const char *schedule = config_text(config, KEY_SCHEDULE_NAME);
    const bool is_adadelta = strcmp(optimizer, "adadelta") == 0;
    const bool is_rmsprop = strcmp(optimizer, "rmsprop") == 0;
    const bool is_adamw = strcmp(optimizer, "adamw") == 0;
    const bool is_one_cycle = strcmp(schedule, "one_cycle") == 0;
    const bool has_end = config_has(config, KEY_TRAIN_EPOCHS) ||
                         config_has(config, KEY_TRAIN_STEPS);
    const char *lr = is_adadelta ? "1.0" : is_rmsprop ? "0.01" : "0.001";
    lks_status status = settle(config, KEY_OPTIMIZER_LR, lr);
    if (status == LKS_OK)
        status = settle(config, KEY_OPTIMIZER_WEIGHT_DECAY, is_adamw ? "0.01" : "0");
    if (status == LKS_OK) status = settle(config, KEY_OPTIMIZER_EPS, is_adadelta ? "1e-6" : "1e-8");
    if (status == LKS_OK)
        status = settle(config, KEY_SCHEDULE_PER_STEP, is_one_cycle ? "true" : "false");
    if (status == LKS_OK) status = settle(config, KEY_SCHEDULE_GAMMA, "0.1");
    if (status == LKS_OK && !has_end) status = settle(config, KEY_TRAIN_EPOCHS, "1");
    if (status == LKS_OK) status = settle(config, KEY_MODEL_NAME, "model");
    return status;
}

lks_status config_name_data(cli_config *config)
{
    const char *path = config_text(config, KEY_DATA_PATH);
    if (path == NULL || config->source[KEY_DATA_NAME] != FROM_DEFAULT) return LKS_OK;
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    const char *name = pool_copy(&config->pool, path + begin, end - begin);
    const bool says_nothing = name[strspn(name, ".")] == '\0';
    const cli_node *node = node_from_text(&config->pool, says_nothing ? "data" : name, false);
    const cli_spec *spec = &config_rows[KEY_DATA_NAME].spec;
    return value_parse(&config->value[KEY_DATA_NAME], spec, node, "the default");
}

/* What a schedule cannot do without. */
static lks_status check_schedule(const cli_config *config)
{
    const char *name = config_text(config, KEY_SCHEDULE_NAME);
    if (strcmp(name, "multi_step") == 0 && !config_has(config, KEY_SCHEDULE_MILESTONES))
        return config_fail(config, KEY_SCHEDULE_NAME,
                           "is multi_step, which needs schedule.milestones, such as [30, 60]");
    if (strcmp(name, "exponential") == 0 && !config_has(config, KEY_SCHEDULE_GAMMA))
        return config_fail(config, KEY_SCHEDULE_NAME,
                           "is exponential, which needs schedule.gamma, such as 0.95");
    return LKS_OK;
}

/* What --print-config prints, and what a checkpoint keeps, has every key in its section: it must be
 * within the limits of what is read. */
static lks_status check_size(const cli_config *config)
{
    enum { AROUND = 2, KEY_BYTES = 100 };
    size_t bytes = 0;
    int nodes = 0, height = 0;
    config_key largest = KEY_MODEL_NAME; /* which has been settled */
    for (int key = 0; key < KEY_COUNT; key++) {
        const cli_value *value = &config->value[key];
        const cli_node *tree = value->set ? value->tree : NULL;
        nodes += AROUND + (tree != NULL ? tree->weight : 1);
        bytes += KEY_BYTES + (tree != NULL ? tree->bytes : 0);
        if (tree == NULL) continue;
        if (tree->height > height) height = tree->height;
        if (tree->bytes > config->value[largest].tree->bytes) largest = (config_key)key;
    }
    if (nodes <= TREE_MAX_NODES && bytes <= TREE_MAX_BYTES && height <= TREE_MAX_DEPTH - AROUND)
        return LKS_OK;
    return config_fail(
        config, largest,
        "makes the configuration too large to be written and read again; it may have "
        "%d values, nested %d deep, of %d bytes",
        TREE_MAX_NODES, TREE_MAX_DEPTH, TREE_MAX_BYTES);
}

lks_status config_resolve(cli_config *config)
{
    settle_pair(config, KEY_TRAIN_EPOCHS, KEY_TRAIN_STEPS);
    settle_pair(config, KEY_VALIDATION_SAMPLES, KEY_VALIDATION_FRACTION);
    lks_status status = config_name_data(config);
    if (status == LKS_OK) status = settle_names(config);
    if (status == LKS_OK) status = check_workers(config);
    if (status != LKS_OK) return status;
    if (config_has(config, KEY_VALIDATION_SAMPLES) && config_has(config, KEY_VALIDATION_FRACTION))
        return config_fail(config, KEY_VALIDATION_FRACTION,
                           "and validation.samples say the same thing; drop one");
    if (config_has(config, KEY_OPTIMIZER_BETAS) && config->value[KEY_OPTIMIZER_BETAS].count != 2)
        return config_fail(config, KEY_OPTIMIZER_BETAS, "has %d number%s, expected 2",
                           config->value[KEY_OPTIMIZER_BETAS].count,
                           TEXT_S(config->value[KEY_OPTIMIZER_BETAS].count));
    if (config_bool(config, KEY_CHECKPOINT_RESUME) && !config_has(config, KEY_CHECKPOINT_PATH))
        return config_fail(config, KEY_CHECKPOINT_RESUME,
                           "needs the folder of checkpoints: give --out DIR");
    status = check_schedule(config);
    if (status == LKS_OK) status = check_model(config);
    if (status == LKS_OK) status = settle_defaults(config);
    return status == LKS_OK ? check_size(config) : status;
}
