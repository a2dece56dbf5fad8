/* The configuration as YAML, and the table of its keys. */
#include "cli/args/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

void config_print(const lki_config *config, FILE *out)
{
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        char section[32];
        if (lki_key_section(key, section)) fprintf(out, "%s:\n", section);
        if (lki_config_hides(config, key)) continue;
        json_t *value = lki_setting_json(&config->value[key], lki_key_rows[key].spec.type);
        fprintf(out, "  %s:", lki_key_own_name(key));
        if (lki_key_rows[key].spec.type == LKI_TYPE_TREE && json_is_array(value)) {
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
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const lki_key_row *row = &lki_key_rows[key];
        char section[32], expected[160], head[256];
        if (lki_key_section(key, section)) fprintf(out, "%s%s:\n", key > 0 ? "\n" : "", section);
        lki_spec_describe(&row->spec, expected, sizeof expected);
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
