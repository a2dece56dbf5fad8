/* The configuration as JSON and as YAML, and the table of its keys. */
#include "cli/recipe/config.h"

#include <stdio.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

/* "optimizer.lr" -> "optimizer"; true when it is another one than the key's before. */
static bool section_of(int key, char section[32])
{
    const char *name = config_rows[key].spec.name;
    const size_t length = strcspn(name, ".");
    memcpy(section, name, length);
    section[length] = '\0';
    const char *before = key > 0 ? config_rows[key - 1].spec.name : "";
    return strcspn(before, ".") != length || strncmp(before, name, length) != 0;
}

static const char *own_name(int key)
{
    return strchr(config_rows[key].spec.name, '.') + 1;
}

/* Keys that the chosen name of the section does not have are left out. */
static bool is_hidden(const cli_config *config, int key)
{
    return !config->value[key].set && config_rows[key].only != NULL;
}

json_t *config_json(const cli_config *config)
{
    json_t *root = json_object();
    for (int key = 0; key < KEY_COUNT; key++) {
        char section[32];
        if (section_of(key, section)) json_object_set_new(root, section, json_object());
        if (is_hidden(config, key)) continue;
        json_object_set_new(json_object_get(root, section), own_name(key),
                            value_json(&config->value[key], config_rows[key].spec.type));
    }
    return root;
}

void config_print(const cli_config *config, FILE *out)
{
    for (int key = 0; key < KEY_COUNT; key++) {
        char section[32];
        if (section_of(key, section)) fprintf(out, "%s:\n", section);
        if (is_hidden(config, key)) continue;
        json_t *value = value_json(&config->value[key], config_rows[key].spec.type);
        fprintf(out, "  %s:", own_name(key));
        if (config_rows[key].spec.type == VALUE_TREE && json_is_array(value)) {
            size_t i;
            json_t *item;
            json_array_foreach(value, i, item)
            {
                fputs("\n    - ", out);
                text_print_yaml(out, item);
            }
        } else {
            fputc(' ', out);
            text_print_yaml(out, value);
        }
        fputc('\n', out);
        json_decref(value);
    }
}

void config_keys_print(FILE *out)
{
    enum { COLUMN = 6 };
    for (int key = 0; key < KEY_COUNT; key++) {
        const config_row *row = &config_rows[key];
        char section[32], expected[160], head[256];
        if (section_of(key, section)) fprintf(out, "%s%s:\n", key > 0 ? "\n" : "", section);
        spec_describe(&row->spec, expected, sizeof expected);
        fprintf(out, "  ");
        const int used = fprintf(out, "%-30s ", row->spec.name);
        snprintf(head, sizeof head, "%s; default %s", expected,
                 row->fallback != NULL ? row->fallback : "null");
        text_print_wrapped(out, head, 2 + used, 2 + used, HELP_WIDTH);
        if (*row->help != '\0') {
            fprintf(out, "%*s", COLUMN, "");
            text_print_wrapped(out, row->help, COLUMN, COLUMN, HELP_WIDTH);
        }
        if (row->only != NULL) fprintf(out, "%*s(only for: %s)\n", COLUMN, "", row->only);
    }
}
