/* The configuration as JSON and as YAML. */
#include <string.h>

#include "recipe/config.h"

void lki_config_emit(lki_emit *e, const lki_config *config)
{
    lki_emit_open(e, '{', false);
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        char section[32];
        if (lki_key_section(key, section)) {
            if (key > 0) lki_emit_close(e, '}');
            lki_emit_key(e, section);
            lki_emit_open(e, '{', false);
        }
        if (lki_config_hides(config, key)) continue;
        lki_emit_key(e, lki_key_own_name(key));
        lki_emit_setting(e, &config->value[key], lki_key_rows[key].spec.type);
    }
    lki_emit_close(e, '}');
    lki_emit_close(e, '}');
}

/* A key of a map, and the items of its list, on lines of their own. */
static void emit_block(lki_emit *e, const lki_yaml_entry *entry)
{
    lki_emit_raw(e, "\n    ", 5);
    lki_emit_tree(e, entry->key);
    lki_emit_raw(e, ":", 1);
    if (entry->value->kind != LKI_YAML_LIST || entry->value->count == 0) {
        lki_emit_raw(e, " ", 1);
        lki_emit_tree(e, entry->value);
        return;
    }
    for (const lki_yaml_entry *i = entry->value->first; i != NULL; i = i->next) {
        lki_emit_raw(e, "\n      - ", 9);
        lki_emit_tree(e, i->value);
    }
}

void lki_config_emit_yaml(lki_emit *e, const lki_config *config)
{
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        char section[32];
        const lki_setting *value = &config->value[key];
        const lki_type type = lki_key_rows[key].spec.type;
        if (lki_key_section(key, section)) {
            lki_emit_raw(e, section, strlen(section));
            lki_emit_raw(e, ":\n", 2);
        }
        const char *name = lki_key_own_name(key);
        if (lki_config_hides(config, key)) continue;
        lki_emit_raw(e, "  ", 2);
        lki_emit_raw(e, name, strlen(name));
        lki_emit_raw(e, ":", 1);
        if (value->set && type == LKI_TYPE_TREE && value->tree->kind == LKI_YAML_LIST) {
            for (const lki_yaml_entry *i = value->tree->first; i != NULL; i = i->next) {
                lki_emit_raw(e, "\n    - ", 7);
                lki_emit_tree(e, i->value);
            }
        } else if (value->set && type == LKI_TYPE_MAP) {
            for (const lki_yaml_entry *i = value->tree->first; i != NULL; i = i->next)
                emit_block(e, i);
        } else {
            lki_emit_raw(e, " ", 1);
            lki_emit_setting(e, value, type);
        }
        lki_emit_raw(e, "\n", 1);
    }
}
