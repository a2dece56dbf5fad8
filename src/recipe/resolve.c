/* What concerns several keys of the configuration. */
#include "recipe/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "core/range.h"
#include "optim/optimizer.h"
#include "optim/schedule/schedule.h"
#include "recipe/data/augment.h"
#include "recipe/data/series.h"
#include "recipe/data/shards.h"
#include "recipe/data/table.h"
#include "recipe/data/text.h"

enum { SPELLED = 2 * LKI_KEY_NAMES_SIZE }; /* a name has 2 letters or more, and gets 4 */

static void unset(lki_config *config, lki_key key)
{
    config->value[key].set = false;
    config->source[key] = LKI_FROM_DEFAULT;
}

/* Names between spaces as "'one', 'two' or 'three'". */
static void spell(char out[SPELLED], const char *names)
{
    size_t used = 0;
    out[0] = '\0';
    while (*names != '\0' && used < SPELLED) {
        const int bytes = (int)strcspn(names, " ");
        const char *next = names + bytes + (names[bytes] == ' ');
        const bool last = *next == '\0', second = !last && strchr(next, ' ') == NULL;
        used += (size_t)snprintf(out + used, SPELLED - used, "'%.*s'%s", bytes, names,
                                 last     ? ""
                                 : second ? " or "
                                          : ", ");
        names = next;
    }
}

static lks_status settle_names(lki_config *config)
{
    for (int i = 0; i < LKI_KEY_COUNT; i++) {
        const lki_key key = (lki_key)i, name = lki_key_name(key);
        char names[LKI_KEY_NAMES_SIZE], only[SPELLED];
        if (!lki_key_only(key, names)) continue;
        spell(only, names);
        const char *chosen = lki_config_text(config, name);
        if (name == LKI_KEY_MODEL_NAME && lki_config_has(config, LKI_KEY_MODEL_LAYERS))
            chosen = NULL;
        if (lki_key_is_of(key, chosen)) continue;
        if (config->source[key] == LKI_FROM_DEFAULT || config->source[name] > config->source[key] ||
            !config->value[key].set) { /* null, which says nothing */
            unset(config, key);
            continue;
        }
        if (name == LKI_KEY_MODEL_NAME && lki_config_has(config, LKI_KEY_MODEL_LAYERS))
            return lki_config_fail(config, key,
                                   "is for model.name %s, not for model.layers; "
                                   "drop it",
                                   only);
        if (chosen == NULL)
            return lki_config_fail(config, key, "is only for %s %s; set that too",
                                   lki_key_rows[name].spec.name, only);
        return lki_config_fail(config, key, "is not known to %s; it is for %s %s", chosen,
                               lki_key_rows[name].spec.name, only);
    }
    return LKS_OK;
}

/* Two keys that say the same thing: the later source wins. */
static void settle_pair(lki_config *config, lki_key a, lki_key b)
{
    if (!lki_config_has(config, a) || !lki_config_has(config, b)) return;
    if (config->source[a] > config->source[b]) unset(config, b);
    if (config->source[b] > config->source[a]) unset(config, a);
}

/* Warm-up is said in steps or in epochs: the later source wins. */
static lks_status settle_warmup(lki_config *config)
{
    const lki_key steps = LKI_KEY_SCHEDULE_WARMUP_STEPS, epochs = LKI_KEY_SCHEDULE_WARMUP_EPOCHS;
    if (lki_config_int(config, steps) == 0 || lki_config_int(config, epochs) == 0) return LKS_OK;
    if (config->source[steps] == config->source[epochs])
        return lki_config_fail(config, epochs,
                               "and schedule.warmup_steps say the same thing; drop one");
    return lki_config_settle(config,
                             config->source[steps] < config->source[epochs] ? steps : epochs, "0");
}

/* The rule for the rate and the batch that it begins from belong together. */
static lks_status check_scaling(const lki_config *config)
{
    const lki_key rule = LKI_KEY_OPTIMIZER_LR_SCALING, batch = LKI_KEY_OPTIMIZER_LR_BATCH;
    const bool scales = strcmp(lki_config_text(config, rule), "none") != 0;
    if (scales && !lki_config_has(config, batch))
        return lki_config_fail(config, rule,
                               "is %s, which needs optimizer.lr_batch, the batch size that "
                               "optimizer.lr is for",
                               lki_config_text(config, rule));
    if (lki_config_has(config, batch) && config->source[rule] == LKI_FROM_DEFAULT)
        return lki_config_fail(config, batch,
                               "needs optimizer.lr_scaling, sqrt or linear (or none, to leave "
                               "the rate as it is)");
    return LKS_OK;
}

/* Before the keys that only the network of that name has are looked at. */
static lks_status check_layers(const lki_config *config)
{
    const char *name = lki_config_text(config, LKI_KEY_MODEL_NAME);
    if (lki_config_has(config, LKI_KEY_MODEL_BLOCKS) &&
        !lki_config_has(config, LKI_KEY_MODEL_LAYERS))
        return lki_config_fail(config, LKI_KEY_MODEL_BLOCKS,
                               "is for model.layers, and there are none; drop it");
    if (!lki_config_has(config, LKI_KEY_MODEL_LAYERS) || lki_zoo_find(name) == NULL) return LKS_OK;
    return lki_config_fail(
        config, LKI_KEY_MODEL_NAME,
        "is '%s', but there are model.layers too; drop one, or choose another name", name);
}

/* What only a network knows of its keys. */
static lks_status check_options(const lki_config *config, const lki_zoo_network *network)
{
    for (int i = 0; i < network->attributes.count; i++) {
        const lki_attribute *a = &network->attributes.list[i];
        const lki_key key = lki_key_beside(LKI_KEY_MODEL_NAME, lki_attribute_key(a));
        const lki_setting *setting = &config->value[key];
        const int room = (int)(a->size / sizeof(int64_t));
        if (!setting->set) continue;
        if (a->type == LKI_INTS && setting->count > room)
            return lki_config_fail(config, key, "has %d numbers, expected at most %d",
                                   setting->count, room);
        if (a->type == LKI_WORD && lki_word_find(a->range, setting->s) < 0) {
            char words[80];
            lki_words_describe(a->range, words, sizeof words);
            return lki_config_fail(config, key, "is %s, expected %s of %s", setting->s, words,
                                   network->name);
        }
        if (a->type == LKI_NOT && setting->f > 0)
            return lki_config_fail(config, key,
                                   "is %g, but %s has %s %s; expected 0 (none) or null", setting->f,
                                   network->name, a->name, a->help);
    }
    return LKS_OK;
}

static lks_status check_model(const lki_config *config)
{
    const char *name = lki_config_text(config, LKI_KEY_MODEL_NAME);
    const bool layers = lki_config_has(config, LKI_KEY_MODEL_LAYERS);
    const lki_zoo_network *network = lki_zoo_find(name);
    const bool known = network != NULL;
    char names[LKI_ZOO_NAMES_SIZE];
    if (!layers && name == NULL)
        return LKI_FAIL(LKS_E_INVALID, "model.name is missing: expected %s, or a list model.layers",
                        lki_zoo_names(names, sizeof names));
    if (!layers && !known)
        return lki_config_fail(config, LKI_KEY_MODEL_NAME,
                               "is '%.100s', expected %s, or a list model.layers", name,
                               lki_zoo_names(names, sizeof names));
    if (name != NULL && strpbrk(name, "/") != NULL)
        return lki_config_fail(config, LKI_KEY_MODEL_NAME,
                               "is '%.100s', expected a name without '/': it becomes a file name",
                               name);
    return layers ? LKS_OK : check_options(config, network);
}

static lks_status check_workers(const lki_config *config)
{
    const int64_t replicas = lki_config_int(config, LKI_KEY_TRAIN_REPLICAS) *
                             lki_config_int(config, LKI_KEY_TRAIN_ACCUMULATE);
    if (replicas > 4096)
        return lki_config_fail(config, LKI_KEY_TRAIN_ACCUMULATE,
                               "times train.replicas is %lld, expected at most 4096",
                               (long long)replicas);
    if (!lki_config_has(config, LKI_KEY_TRAIN_WORKERS)) return LKS_OK;
    const int64_t workers = lki_config_int(config, LKI_KEY_TRAIN_WORKERS);
    if (workers <= replicas) return LKS_OK;
    return lki_config_fail(config, LKI_KEY_TRAIN_WORKERS,
                           "is %lld, expected at most %lld: each worker needs a replica; replicas: "
                           "%lld would use all (other bits)",
                           (long long)workers, (long long)replicas, (long long)workers);
}

static lks_status settle(lki_config *config, lki_key key, const char *text)
{
    return lki_config_has(config, key) ? LKS_OK : lki_config_settle(config, key, text);
}

/* The defaults that the chosen name has, of keys that have none of their own. */
static lks_status settle_table(lki_config *config, lki_key name, const lki_attributes *table)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        const lki_key key = lki_key_beside(name, lki_attribute_key(a));
        if (key != LKI_KEY_NONE && a->fallback != NULL) LKI_TRY(settle(config, key, a->fallback));
    }
    return LKS_OK;
}

/* Defaults that depend on other keys. */
static lks_status settle_defaults(lki_config *config)
{
    const lki_optimizer *optimizer = lki_optimizer_find(
        lki_config_text(config, LKI_KEY_OPTIMIZER_NAME));
    const lki_schedule_rule *schedule = lki_schedule_find(
        lki_config_text(config, LKI_KEY_SCHEDULE_NAME));
    const bool has_end = lki_config_has(config, LKI_KEY_TRAIN_EPOCHS) ||
                         lki_config_has(config, LKI_KEY_TRAIN_STEPS);
    LKI_TRY(settle(config, LKI_KEY_OPTIMIZER_LR, optimizer->lr));
    LKI_TRY(settle_table(config, LKI_KEY_OPTIMIZER_NAME, &optimizer->attributes));
    LKI_TRY(settle(config, LKI_KEY_SCHEDULE_PER_STEP, schedule->per_step ? "true" : "false"));
    LKI_TRY(settle_table(config, LKI_KEY_SCHEDULE_NAME, &schedule->attributes));
    if (!has_end) LKI_TRY(settle(config, LKI_KEY_TRAIN_EPOCHS, "1"));
    return settle(config, LKI_KEY_MODEL_NAME, "model");
}

/* What the name of a file that is a table ends in; and of NumPy's arrays, which may be one, or pictures. */
static const char *const csv_ends[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz", NULL};
static const char *const array_ends[] = {".npy", ".npz", NULL};

static bool ends_in(const char *const *ends, const char *path)
{
    for (; *ends != NULL; ends++)
        if (lki_text_ends(path, *ends)) return true;
    return false;
}

/* Whether a path is a folder of shards, by what is in it. */
static bool is_shards(lki_config *config, const char *path)
{
    const char *metadata = lki_heap_format(&config->heap, "%s/metadata.json", path);
    return metadata[0] != '\0' && access(metadata, F_OK) == 0;
}

/* Moves data.path to a key of its own, unless that is set by a later source; of the two the later one counts. */
static void move_path(lki_config *config, lki_key to, bool fits)
{
    const lki_key path = LKI_KEY_DATA_PATH;
    if (fits && (!config->value[to].set || config->source[path] > config->source[to])) {
        config->value[to] = config->value[path];
        config->source[to] = config->source[path];
        unset(config, path);
    }
    settle_pair(config, path, to);
}

/* A path that is a CSV file's is that of a table, one of a folder with metadata.json that of shards, one of a text file that of
 * a text; and such data is called so. */
static lks_status name_rows(lki_config *config)
{
    static const struct {
        lki_key key;
        const char *name, *example;
    } kinds[] = {{LKI_KEY_DATA_TABLE, LKI_TABLE_NAME, "data.table: FILE"},
                 {LKI_KEY_DATA_SHARDS, LKI_SHARDS_NAME, "data.shards: DIR"},
                 {LKI_KEY_DATA_TEXT, LKI_TEXT_NAME, "data.text: FILE"},
                 {LKI_KEY_DATA_SERIES, LKI_SERIES_NAME, "data.series: FILE"}};
    const lki_setting *path = &config->value[LKI_KEY_DATA_PATH];
    const char *name = lki_config_text(config, LKI_KEY_DATA_NAME);
    /* What replaces a series, or a table, is one, too. */
    const bool series = lki_config_has(config, LKI_KEY_DATA_SERIES);
    const bool table = !series && lki_config_has(config, LKI_KEY_DATA_TABLE);
    move_path(config, series ? LKI_KEY_DATA_SERIES : LKI_KEY_DATA_TABLE,
              path->set && (ends_in(csv_ends, path->s) || (table && ends_in(array_ends, path->s))));
    move_path(config, LKI_KEY_DATA_SHARDS, path->set && is_shards(config, path->s));
    move_path(config, LKI_KEY_DATA_TEXT, path->set && lki_text_source_is(config, path->s));
    settle_pair(config, LKI_KEY_DATA_PATH, LKI_KEY_DATA_SERIES);
    settle_pair(config, LKI_KEY_DATA_TABLE, LKI_KEY_DATA_SHARDS);
    settle_pair(config, LKI_KEY_DATA_TABLE, LKI_KEY_DATA_TEXT);
    settle_pair(config, LKI_KEY_DATA_SHARDS, LKI_KEY_DATA_TEXT);
    lki_key found = LKI_KEY_NONE;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const lki_key key = kinds[i].key, other = found != LKI_KEY_NONE ? found : LKI_KEY_DATA_PATH;
        if (!config->value[key].set && !path->set && strcmp(name, kinds[i].name) == 0)
            return lki_config_fail(config, LKI_KEY_DATA_NAME, "is %s, which needs %s", name,
                                   kinds[i].example);
        if (!config->value[key].set) continue;
        if (config->value[other].set)
            return lki_config_fail(config, other, "and %s name two data sets; drop one",
                                   lki_key_rows[key].spec.name);
        found = key;
        if (config->source[LKI_KEY_DATA_NAME] < config->source[key])
            LKI_TRY(lki_config_settle(config, LKI_KEY_DATA_NAME, kinds[i].name));
    }
    const bool open = config->source[LKI_KEY_VALIDATION_SHUFFLE] == LKI_FROM_DEFAULT;
    const bool rows = found == LKI_KEY_DATA_TABLE ||
                      found == LKI_KEY_DATA_SHARDS; /* in any order */
    return rows && open ? lki_config_settle(config, LKI_KEY_VALIDATION_SHUFFLE, "true") : LKS_OK;
}

lks_status lki_config_name_data(lki_config *config)
{
    LKI_TRY(name_rows(config));
    const char *path = lki_config_text(config, LKI_KEY_DATA_PATH);
    if (path == NULL || config->source[LKI_KEY_DATA_NAME] != LKI_FROM_DEFAULT) return LKS_OK;
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    const char *name = lki_heap_copy(&config->heap, path + begin, end - begin);
    const bool says_nothing = name[strspn(name, ".")] == '\0';
    const lki_yaml *node = lki_yaml_scalar(&config->heap, says_nothing ? "data" : name, false);
    const lki_spec *spec = &lki_key_rows[LKI_KEY_DATA_NAME].spec;
    return lki_heap_status(&config->heap,
                           lki_setting_parse(&config->value[LKI_KEY_DATA_NAME], &config->heap, spec,
                                             node, "the default"));
}

/* Of a table keys of texts are for data.text_column alone. */
static lks_status settle_sentences(lki_config *config)
{
    static const lki_key keys[] = LKI_TABLE_TEXT_KEYS;
    const lki_key table = LKI_KEY_DATA_TABLE, context = LKI_KEY_DATA_CONTEXT;
    if (!lki_config_has(config, table)) return LKS_OK;
    if (lki_config_has(config, LKI_KEY_DATA_TEXT_COLUMN)) {
        if (lki_config_int(config, context) >= 2) return LKS_OK;
        return lki_config_fail(config, context,
                               "is %lld, expected at least 2: the token of the class, and one of "
                               "the text",
                               (long long)lki_config_int(config, context));
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const lki_setter from = config->source[keys[i]];
        if (from != LKI_FROM_DEFAULT && from >= config->source[table])
            return lki_config_fail(config, keys[i],
                                   "is for a table with a text; give data.text_column, the column "
                                   "that has it, or drop this");
        unset(config, keys[i]);
    }
    return LKS_OK;
}

/* A batch is the same window of every column, in order. */
static lks_status settle_columns(lki_config *config)
{
    const lki_key size = LKI_KEY_TRAIN_BATCH_SIZE, shuffle = LKI_KEY_DATA_SHUFFLE;
    char columns[24];
    if (!lki_config_has(config, LKI_KEY_DATA_COLUMNS)) return LKS_OK;
    snprintf(columns, sizeof columns, "%lld",
             (long long)lki_config_int(config, LKI_KEY_DATA_COLUMNS));
    if (config->source[size] == LKI_FROM_DEFAULT)
        LKI_TRY(lki_config_settle(config, size,
                                  lki_heap_copy(&config->heap, columns, strlen(columns))));
    if (config->source[shuffle] == LKI_FROM_DEFAULT)
        LKI_TRY(lki_config_settle(config, shuffle, "false"));
    if (lki_config_int(config, size) != lki_config_int(config, LKI_KEY_DATA_COLUMNS))
        return lki_config_fail(config, size,
                               "is %lld, but a batch has a window of each of data.columns: %s",
                               (long long)lki_config_int(config, size), columns);
    if (lki_config_bool(config, shuffle))
        return lki_config_fail(config, shuffle,
                               "is true, but windows of data.columns come in order; drop it");
    return LKS_OK;
}

/* What a schedule cannot do without. */
static lks_status check_schedule(const lki_config *config)
{
    const lki_schedule_rule *rule = lki_schedule_find(
        lki_config_text(config, LKI_KEY_SCHEDULE_NAME));
    if (rule->needs == NULL) return LKS_OK;
    const lki_key key = lki_key_beside(LKI_KEY_SCHEDULE_NAME, rule->needs);
    if (!lki_config_has(config, key))
        return lki_config_fail(config, LKI_KEY_SCHEDULE_NAME, "is %s, which needs %s, such as %s",
                               rule->name, lki_key_rows[key].spec.name, rule->example);
    return LKS_OK;
}

/* What --print-config prints, and what a checkpoint keeps, has every key in its section: it must be
 * within the limits of what is read. */
static lks_status check_size(const lki_config *config)
{
    enum { AROUND = 2, KEY_BYTES = 100 };
    size_t bytes = 0;
    int nodes = 0, height = 0;
    lki_key largest = LKI_KEY_MODEL_NAME; /* which has been settled */
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const lki_setting *value = &config->value[key];
        const lki_yaml *tree = value->set ? value->tree : NULL;
        nodes += AROUND + (tree != NULL ? tree->weight : 1);
        bytes += KEY_BYTES + (tree != NULL ? tree->bytes : 0);
        if (tree == NULL) continue;
        if (tree->height > height) height = tree->height;
        if (tree->bytes > config->value[largest].tree->bytes) largest = (lki_key)key;
    }
    if (nodes <= LKI_YAML_MAX_NODES && bytes <= LKI_YAML_MAX_BYTES &&
        height <= LKI_YAML_MAX_DEPTH - AROUND)
        return LKS_OK;
    return lki_config_fail(
        config, largest,
        "makes the configuration too large to be written and read again; it may have "
        "%d values, nested %d deep, of %d bytes",
        LKI_YAML_MAX_NODES, LKI_YAML_MAX_DEPTH, LKI_YAML_MAX_BYTES);
}

lks_status lki_config_resolve(lki_config *config)
{
    settle_pair(config, LKI_KEY_TRAIN_EPOCHS, LKI_KEY_TRAIN_STEPS);
    settle_pair(config, LKI_KEY_VALIDATION_SAMPLES, LKI_KEY_VALIDATION_FRACTION);
    lks_status status = lki_config_name_data(config);
    if (status == LKS_OK) status = settle_columns(config);
    if (status == LKS_OK) status = check_layers(config);
    if (status == LKS_OK) status = settle_names(config);
    if (status == LKS_OK) status = settle_sentences(config);
    if (status == LKS_OK) status = settle_warmup(config);
    if (status == LKS_OK) status = check_scaling(config);
    if (status == LKS_OK) status = check_workers(config);
    if (status != LKS_OK) return status;
    if (lki_config_has(config, LKI_KEY_VALIDATION_SAMPLES) &&
        lki_config_has(config, LKI_KEY_VALIDATION_FRACTION))
        return lki_config_fail(config, LKI_KEY_VALIDATION_FRACTION,
                               "and validation.samples say the same thing; drop one");
    if (lki_config_has(config, LKI_KEY_OPTIMIZER_BETAS) &&
        config->value[LKI_KEY_OPTIMIZER_BETAS].count != 2)
        return lki_config_fail(config, LKI_KEY_OPTIMIZER_BETAS, "has %d number%s, expected 2",
                               config->value[LKI_KEY_OPTIMIZER_BETAS].count,
                               LKI_S(config->value[LKI_KEY_OPTIMIZER_BETAS].count));
    if (lki_config_bool(config, LKI_KEY_CHECKPOINT_RESUME) &&
        !lki_config_has(config, LKI_KEY_CHECKPOINT_PATH))
        return lki_config_fail(config, LKI_KEY_CHECKPOINT_RESUME,
                               "needs the folder of checkpoints: give --out DIR");
    status = lki_augment_read(config, NULL, NULL);
    if (status == LKS_OK) status = check_schedule(config);
    if (status == LKS_OK) status = check_model(config);
    if (status == LKS_OK) status = settle_defaults(config);
    return status == LKS_OK ? check_size(config) : status;
}
