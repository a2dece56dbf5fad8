/* Which names of a section have a key, and with what defaults. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/op.h"
#include "models/zoo.h"
#include "optim/optimizer.h"
#include "optim/schedule/schedule.h"
#include "recipe/config.h"
#include "recipe/data/published.h"
#include "recipe/data/series.h"
#include "recipe/data/shards.h"
#include "recipe/data/table.h"
#include "recipe/data/text.h"

static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; at != NULL && (at = strstr(at, word)) != NULL; at++)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool has_attribute(const lki_attributes *table, const char *key)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(lki_attribute_key(&table->list[i]), key) == 0) return true;
    return false;
}

/* Of each section that has a name: the name of number `number`, from 0, and whether it has the key; NULL:
 * there are not so many. */

static const char *data_at(int number, const char *key, bool *has)
{
    static const char *const own[][2] = {{LKI_TABLE_NAME, LKI_TABLE_KEYS},
                                         {LKI_SHARDS_NAME, LKI_SHARDS_KEYS},
                                         {LKI_TEXT_NAME, LKI_TEXT_KEYS},
                                         {LKI_SERIES_NAME, LKI_SERIES_KEYS}};
    enum { OWN = sizeof own / sizeof *own };
    if (number >= lki_published_count + OWN) return NULL;
    if (number >= lki_published_count) {
        *has = has_word(own[number - lki_published_count][1], key);
        return own[number - lki_published_count][0];
    }
    *has = has_word(lki_published_table[number].keys, key);
    return lki_published_table[number].name;
}

static const char *network_at(int number, const char *key, bool *has)
{
    const lki_zoo_network *network = lki_zoo_at(number);
    *has = network != NULL && has_attribute(&network->attributes, key);
    return network != NULL ? network->name : NULL;
}

static const char *loss_at(int number, const char *key, bool *has)
{
    static const lki_op *const losses[] = {
#define X(ID, id) &lki_op_##id,
        LKI_LOSS_LIST(X)
#undef X
    };
    if (number >= (int)(sizeof losses / sizeof losses[0])) return NULL;
    *has = has_attribute(&losses[number]->attributes, key);
    return losses[number]->name;
}

static const char *optimizer_at(int number, const char *key, bool *has)
{
    const lki_optimizer *optimizer = lki_optimizer_at(number);
    *has = optimizer != NULL && has_attribute(&optimizer->attributes, key);
    return optimizer != NULL ? optimizer->name : NULL;
}

static const char *schedule_at(int number, const char *key, bool *has)
{
    const lki_schedule_rule *rule = lki_schedule_rule_at(number);
    *has = rule != NULL && has_attribute(&rule->attributes, key);
    return rule != NULL ? rule->name : NULL;
}

static const struct section {
    lki_key name;
    const char *(*at)(int number, const char *key, bool *has);
} sections[] = {
    {LKI_KEY_DATA_NAME, data_at},         {LKI_KEY_MODEL_NAME, network_at},
    {LKI_KEY_LOSS_NAME, loss_at},         {LKI_KEY_OPTIMIZER_NAME, optimizer_at},
    {LKI_KEY_SCHEDULE_NAME, schedule_at},
};

static bool same_section(lki_key a, lki_key b)
{
    const char *x = lki_key_rows[a].spec.name, *y = lki_key_rows[b].spec.name;
    const size_t length = strcspn(x, ".");
    return strcspn(y, ".") == length && strncmp(x, y, length) == 0;
}

static const struct section *section_of(lki_key key)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (same_section(sections[i].name, key)) return &sections[i];
    return NULL;
}

lki_key lki_key_name(lki_key key)
{
    const struct section *section = section_of(key);
    return section != NULL ? section->name : LKI_KEY_NONE;
}

lki_key lki_key_beside(lki_key key, const char *own)
{
    char section[32], name[96];
    lki_key_section(key, section);
    snprintf(name, sizeof name, "%s.%s", section, own);
    return lki_key_find(name);
}

/* A key that no name has is every name's, such as optimizer.lr; so is one that all have, where no other
 * names are than those of the table. */
bool lki_key_only(lki_key key, char names[LKI_KEY_NAMES_SIZE])
{
    const struct section *section = section_of(key);
    const char *name;
    bool has;
    size_t used = 0;
    int of = 0, all = 0;
    names[0] = '\0';
    for (; section != NULL && (name = section->at(all, lki_key_own_name(key), &has)) != NULL;
         all++) {
        if (!has || used >= LKI_KEY_NAMES_SIZE) continue;
        used += (size_t)snprintf(names + used, LKI_KEY_NAMES_SIZE - used, "%s%s",
                                 of++ > 0 ? " " : "", name);
    }
    const bool closed = section != NULL && lki_key_rows[section->name].spec.type == LKI_TYPE_CHOICE;
    return of > 0 && !(closed && of == all);
}

bool lki_key_is_of(lki_key key, const char *name)
{
    char names[LKI_KEY_NAMES_SIZE];
    return !lki_key_only(key, names) || (name != NULL && has_word(names, name));
}

/* NULL: it does not have the key. */
static const char *default_of(const lki_optimizer *optimizer, const char *key)
{
    if (strcmp(key, "lr") == 0) return optimizer->lr;
    for (int i = 0; i < optimizer->attributes.count; i++)
        if (strcmp(lki_attribute_key(&optimizer->attributes.list[i]), key) == 0)
            return optimizer->attributes.list[i].fallback;
    return NULL;
}

static int count_defaults(const char *key, const char *text)
{
    const lki_optimizer *optimizer;
    int count = 0;
    for (int i = 0; (optimizer = lki_optimizer_at(i)) != NULL; i++) {
        const char *own = default_of(optimizer, key);
        count += own != NULL && strcmp(own, text) == 0;
    }
    return count;
}

/* "0.001, for adadelta 1": what most have, and who has another. */
static void print_defaults(const char *key, char *out, size_t size)
{
    const lki_optimizer *optimizer;
    const char *usual = NULL, *own;
    for (int i = 0; (optimizer = lki_optimizer_at(i)) != NULL; i++) {
        own = default_of(optimizer, key);
        if (own != NULL && (usual == NULL || count_defaults(key, own) > count_defaults(key, usual)))
            usual = own;
    }
    if (usual == NULL) return;
    size_t used = (size_t)snprintf(out, size, "%s", usual);
    for (int i = 0; (optimizer = lki_optimizer_at(i)) != NULL && used < size; i++) {
        own = default_of(optimizer, key);
        if (own == NULL || strcmp(own, usual) == 0) continue;
        used += (size_t)snprintf(out + used, size - used, ", for %s %s", optimizer->name, own);
    }
}

const char *lki_key_help(lki_key key, char out[LKI_KEY_HELP_SIZE])
{
    const char *help = lki_key_rows[key].help;
    const size_t length = strlen(help);
    snprintf(out, LKI_KEY_HELP_SIZE, "%s", help);
    if (length < LKI_KEY_HELP_SIZE && lki_text_ends(help, "null: "))
        print_defaults(lki_key_own_name(key), out + length, LKI_KEY_HELP_SIZE - length);
    return out;
}

bool lki_config_hides(const lki_config *config, int key)
{
    char names[LKI_KEY_NAMES_SIZE];
    return !config->value[key].set && lki_key_only((lki_key)key, names);
}
