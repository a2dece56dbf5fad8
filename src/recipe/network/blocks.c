#include "recipe/network/blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const lki_yaml *entry_of(const lki_yaml *map, const char *key)
{
    for (const lki_yaml_entry *e = map != NULL ? map->first : NULL; e != NULL; e = e->next)
        if (strcmp(e->key->text, key) == 0) return e->value;
    return NULL;
}

static const lki_yaml *blocks_of(const lki_config *config)
{
    return lki_config_has(config, LKI_KEY_MODEL_BLOCKS) ? config->value[LKI_KEY_MODEL_BLOCKS].tree
                                                        : NULL;
}

bool lki_is_block(const lki_yaml *entry)
{
    return entry->kind == LKI_YAML_MAP && entry_of(entry, "block") != NULL;
}

/* "$channels": its name; else NULL. */
static const char *parameter(const lki_yaml *node)
{
    const bool is = node->kind == LKI_YAML_SCALAR && node->text[0] == '$';
    return is && node->text[1] != '\0' ? node->text + 1 : NULL;
}

/* The first parameter in a tree that `with` does not have; NULL: there is none. */
static const lki_yaml *missing_from(const lki_yaml *node, const lki_yaml *with)
{
    const char *name = parameter(node);
    if (name != NULL) return entry_of(with, name) == NULL ? node : NULL;
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next) {
        const lki_yaml *found = missing_from(e->value, with);
        if (found != NULL) return found;
    }
    return NULL;
}

static bool has_parameter(const lki_yaml *node, const char *name)
{
    const char *own = parameter(node);
    if (own != NULL) return strcmp(own, name) == 0;
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next)
        if (has_parameter(e->value, name)) return true;
    return false;
}

static void offer_parameters(lki_nearest *near, const lki_yaml *node)
{
    if (parameter(node) != NULL) lki_nearest_offer(near, parameter(node));
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next)
        offer_parameters(near, e->value);
}

static lks_status check_parameters(const lki_block_use *use, const char *where)
{
    const lki_yaml *missing = missing_from(use->body, use->with);
    if (missing != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: block '%.60s' has a parameter %.60s, which has no value; expected "
                        "with: {%.60s: ...}",
                        where, use->block, missing->text, missing->text + 1);
    for (const lki_yaml_entry *e = use->with != NULL ? use->with->first : NULL; e != NULL;
         e = e->next) {
        lki_nearest near = {.word = e->key->text};
        if (has_parameter(use->body, e->key->text)) continue;
        offer_parameters(&near, use->body);
        if (near.best != NULL)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s: block '%.60s' has no parameter '%.60s'; the nearest is '%.60s'",
                            where, use->block, e->key->text, near.best);
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: block '%.60s' has no parameter '%.60s'; drop it, or write $%.60s in "
                        "the block",
                        where, use->block, e->key->text, e->key->text);
    }
    return LKS_OK;
}

static lks_status find_block(lki_block_use *use, const lki_config *config, const char *where)
{
    const lki_yaml *blocks = blocks_of(config);
    lki_nearest near = {.word = use->block};
    use->body = entry_of(blocks, use->block);
    if (use->body != NULL && use->body->kind == LKI_YAML_LIST && use->body->count > 0)
        return LKS_OK;
    if (use->body != NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: block '%.60s' is no list of layers", where, use->block);
    for (const lki_yaml_entry *e = blocks != NULL ? blocks->first : NULL; e != NULL; e = e->next)
        lki_nearest_offer(&near, e->key->text);
    if (near.best != NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s: there is no block '%.60s'; the nearest is '%.60s'",
                        where, use->block, near.best);
    return LKI_FAIL(LKS_E_INVALID, "%s: there is no block '%.60s'; model.blocks defines them",
                    where, use->block);
}

/* Where the number at the end of a name begins; NULL: it ends in none that can be counted on. */
static const char *number_of(const char *name)
{
    const char *at = name + strlen(name);
    while (at > name && at[-1] >= '0' && at[-1] <= '9') at--;
    return *at != '\0' && strlen(at) <= 9 ? at : NULL;
}

lks_status lki_block_check_name(const char *name, const char *where)
{
    if (number_of(name) != NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: the name '%.60s' of a block with repeat ends in no number to count "
                    "on; expected one like '%.60s.0'",
                    where, name, name);
}

const char *lki_block_name(lki_heap *heap, const char *name, int64_t number)
{
    const char *end = number_of(name);
    if (number == 0 || end == NULL) return name;
    return lki_heap_format(heap, "%.*s%lld", (int)(end - name), name,
                           strtoll(end, NULL, 10) + (long long)number);
}

lks_status lki_block_read(lki_block_use *out, lki_config *config, const lki_yaml *entry,
                          const char *where)
{
    static const lki_spec specs[] = {{"block", LKI_TYPE_STRING, NULL},
                                     {"name", LKI_TYPE_STRING, NULL},
                                     {"repeat", LKI_TYPE_INT, "[1,1000]"},
                                     {"with", LKI_TYPE_MAP, NULL}};
    enum { SPECS = sizeof specs / sizeof specs[0] };
    lki_setting value[SPECS] = {0};
    for (const lki_yaml_entry *e = entry->first; e != NULL; e = e->next) {
        lki_nearest near = {.word = e->key->text};
        int i = 0;
        while (i < SPECS && strcmp(specs[i].name, e->key->text) != 0)
            lki_nearest_offer(&near, specs[i++].name);
        if (i == SPECS)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s: '%.60s' beside block, expected name, repeat or with%s%s%s", where,
                            e->key->text, near.best != NULL ? "; the nearest is '" : "",
                            near.best != NULL ? near.best : "", near.best != NULL ? "'" : "");
        LKI_TRY(lki_setting_parse(&value[i], &config->heap, &specs[i], e->value, where));
    }
    if (!value[0].set) return LKI_FAIL(LKS_E_INVALID, "%s: block has no name", where);
    *out = (lki_block_use){.block = value[0].s,
                           .name = value[1].set ? value[1].s : NULL,
                           .repeat = value[2].set ? value[2].i[0] : 1,
                           .with = value[3].set ? value[3].tree : NULL};
    LKI_TRY(find_block(out, config, where));
    if (value[2].set && out->name != NULL) LKI_TRY(lki_block_check_name(out->name, where));
    return check_parameters(out, where);
}

/* A copy; nodes without a parameter are the block's own. */
static const lki_yaml *fill(lki_heap *heap, const lki_yaml *node, const lki_yaml *with,
                            int64_t *room)
{
    const char *name = parameter(node);
    if (name != NULL) node = entry_of(with, name);
    *room -= node->weight;
    if (name != NULL || node->kind == LKI_YAML_SCALAR || *room < 0) return node;
    lki_yaml *copy = lki_heap_alloc(heap, sizeof *copy);
    if (copy == NULL) return node;
    *copy = *node;
    lki_yaml_entry **end = &copy->first;
    int weight = 1;
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next, end = &(*end)->next) {
        *end = lki_heap_alloc(heap, sizeof **end);
        if (*end == NULL) return node;
        **end = (lki_yaml_entry){.key = e->key, .value = fill(heap, e->value, with, room)};
        weight += (*end)->value->weight + (e->key != NULL);
    }
    copy->weight = weight;
    return copy;
}

lks_status lki_block_fill(const lki_yaml **out, lki_config *config, const lki_block_use *use,
                          const char *where, int64_t *room)
{
    *out = fill(&config->heap, use->body, use->with, room);
    LKI_TRY(lki_heap_status(&config->heap, LKS_OK));
    if (*room >= 0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: block '%.60s': the blocks of this network come to too many values; a "
                    "network has a few thousand",
                    where, use->block);
}

const lki_yaml *lki_block_first(const lki_config *config, const lki_yaml *list)
{
    const lki_yaml *blocks = blocks_of(config);
    for (int i = 0; blocks != NULL && i < blocks->count && lki_is_block(list->first->value); i++) {
        const lki_yaml *name = entry_of(list->first->value, "block");
        const lki_yaml *body = name->kind == LKI_YAML_SCALAR ? entry_of(blocks, name->text) : NULL;
        if (body == NULL || body->kind != LKI_YAML_LIST || body->count == 0) return list;
        list = body;
    }
    return list;
}

static bool names_block(const lki_yaml *list, const char *name)
{
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next) {
        if (!lki_is_block(e->value)) continue;
        const lki_yaml *block = entry_of(e->value, "block");
        if (block->kind == LKI_YAML_SCALAR && strcmp(block->text, name) == 0) return true;
        if (parameter(block) != NULL) return true; /* which one is seen where it is used */
    }
    return false;
}

lks_status lki_blocks_used(lki_config *config)
{
    const lki_yaml *blocks = blocks_of(config);
    for (const lki_yaml_entry *e = blocks != NULL ? blocks->first : NULL; e != NULL; e = e->next) {
        bool used = names_block(config->value[LKI_KEY_MODEL_LAYERS].tree, e->key->text);
        for (const lki_yaml_entry *b = blocks->first; b != NULL && !used; b = b->next)
            used = b != e && names_block(b->value, e->key->text);
        if (!used)
            return LKI_FAIL(LKS_E_INVALID, "%s: block '%.60s' is used by no layer; drop it",
                            lki_config_where(config, LKI_KEY_MODEL_BLOCKS, e->key), e->key->text);
    }
    return LKS_OK;
}
