#include "recipe/options.h"

#include <string.h>

#include "base/check.h"
#include "core/range.h"

lki_type lki_option_type(const lki_attribute *attribute)
{
    switch (attribute->type) {
    case LKI_INT:
    case LKI_SHORT:
        return LKI_TYPE_INT;
    case LKI_FLOAT:
    case LKI_DOUBLE:
        return LKI_TYPE_FLOAT;
    case LKI_BOOL:
    case LKI_NOT:
        return LKI_TYPE_BOOL;
    case LKI_PAIR:
        return LKI_TYPE_PAIR;
    case LKI_WORD:
    case LKI_INIT:
        return LKI_TYPE_CHOICE;
    case LKI_FLOATS:
        return LKI_TYPE_FLOATS;
    case LKI_INTS:
        return LKI_TYPE_INTS;
    case LKI_TEXT:
    case LKI_SHAPE:
    case LKI_DTYPE:
        break;
    }
    return LKI_TYPE_STRING;
}

lks_status lki_options_begin(lki_options *out, lki_heap *heap, const lki_attributes *table,
                             size_t bytes)
{
    *out = (lki_options){.heap = heap, .table = table};
    out->values = lki_heap_alloc(heap, bytes + 1);
    out->setting = lki_heap_alloc(heap, ((size_t)table->count + 1) * sizeof *out->setting);
    return lki_heap_status(heap, LKS_OK);
}

const char *lki_options_name(const lki_yaml *node, const lki_yaml **body)
{
    *body = NULL;
    if (node->kind == LKI_YAML_SCALAR) return node->text;
    if (node->kind != LKI_YAML_MAP || node->count != 1) return NULL;
    *body = node->first->value;
    return node->first->key->text;
}

/* As many as there is room for, with the count that there was: whoever checks it says what is too many. */
static void store_integers(const lki_attribute *a, void *values, const lki_setting *setting)
{
    const size_t room = a->size / sizeof(int64_t), count = (size_t)setting->count;
    memcpy((char *)values + a->offset, setting->ints,
           (count < room ? count : room) * sizeof(int64_t));
    memcpy((char *)values + a->count, &setting->count, sizeof setting->count);
}

void lki_option_store(const lki_attribute *a, void *values, const lki_setting *setting)
{
    void *to = (char *)values + a->offset;
    switch (a->type) {
    case LKI_INT:
        *(int64_t *)to = setting->i[0];
        return;
    case LKI_SHORT:
        *(int *)to = (int)setting->i[0];
        return;
    case LKI_FLOAT:
        *(float *)to = (float)setting->f;
        return;
    case LKI_DOUBLE:
        *(double *)to = setting->f;
        return;
    case LKI_BOOL:
        *(bool *)to = setting->b;
        return;
    case LKI_NOT:
        *(bool *)to = !setting->b;
        return;
    case LKI_PAIR:
        memcpy(to, setting->i, sizeof setting->i);
        return;
    case LKI_WORD:
    case LKI_INIT: {
        const int word = lki_word_find(a->range, setting->s);
        memcpy(to, &word, sizeof word); /* the first member of an init */
        return;
    }
    case LKI_TEXT:
        *(const char **)to = setting->s;
        return;
    case LKI_INTS:
        store_integers(a, values, setting);
        return;
    case LKI_FLOATS: /* when all of them are known */
    case LKI_SHAPE:  /* in no configuration */
    case LKI_DTYPE:
        return;
    }
}

void lki_options_store(const lki_attributes *table, void *values, const lki_config *config,
                       lki_key name)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        const lki_key key = lki_key_beside(name, lki_attribute_key(a));
        if (key == LKI_KEY_NONE || !lki_config_has(config, key)) continue;
        const lki_setting *setting = &config->value[key];
        const lki_type type = lki_key_rows[key].spec.type;
        char *to = (char *)values + a->offset;
        if (type == LKI_TYPE_FLOATS) /* one of a list */
            *(double *)(void *)to = setting->floats[a->place];
        else if (type == LKI_TYPE_FLOAT && a->type == LKI_NOT)
            *(bool *)(void *)to = true;
        else
            lki_option_store(a, values, setting);
    }
}

void lki_options_take(lki_options *options, const lki_attribute *attribute,
                      const lki_setting *setting)
{
    if (!setting->set) return;
    options->setting[attribute - options->table->list] = *setting;
    lki_option_store(attribute, options->values, setting);
}

lks_status lki_options_read(lki_options *options, const lki_attribute *attribute, const char *what,
                            const lki_yaml *node, const char *where)
{
    const lki_spec spec = {lki_heap_format(options->heap, "%s %s", what, attribute->name),
                           lki_option_type(attribute), attribute->range};
    lki_setting setting;
    LKI_TRY(lki_setting_parse(&setting, options->heap, &spec, node, where));
    lki_options_take(options, attribute, &setting);
    return LKS_OK;
}

static int count_of(const lki_setting *setting)
{
    return setting->set ? setting->count : 1;
}

/* As many numbers as the longest list that shares the count has. */
static lks_status count_lists(const lki_options *options, const lki_attribute *list,
                              const char *where, int *out)
{
    const lki_attributes *table = options->table;
    const int own = count_of(&options->setting[list - table->list]);
    *out = own;
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *other = &table->list[i];
        if (other->type != LKI_FLOATS || other->count != list->count) continue;
        const int count = count_of(&options->setting[i]);
        if (count != own && count != 1 && own != 1)
            return LKI_FAIL(LKS_E_INVALID, "%s%s%s has %d numbers and %s has %d; expected as many",
                            where, where[0] != '\0' ? ": " : "", list->name, own, other->name,
                            count);
        if (count > *out) *out = count;
    }
    return LKS_OK;
}

lks_status lki_options_end(lki_options *options, const char *where)
{
    for (int i = 0; i < options->table->count; i++) {
        const lki_attribute *a = &options->table->list[i];
        const lki_setting *setting = &options->setting[i];
        char *values = options->values;
        int count;
        if (a->type != LKI_FLOATS) continue;
        LKI_TRY(count_lists(options, a, where, &count));
        memcpy(values + a->count, &count, sizeof count);
        if (!setting->set) continue;
        float *list = lki_heap_alloc(options->heap, (size_t)count * sizeof *list);
        if (list == NULL) return lki_heap_status(options->heap, LKS_OK);
        for (int k = 0; k < count; k++)
            list[k] = (float)setting->floats[setting->count == 1 ? 0 : k];
        memcpy(values + a->offset, &list, sizeof list);
    }
    return LKS_OK;
}
