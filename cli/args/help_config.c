/* The table of keys. */
#include "cli/args/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

void config_keys_print(FILE *out)
{
    enum { COLUMN = 6 };
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const lki_key_row *row = &lki_key_rows[key];
        char section[32], expected[160], head[256], names[LKI_KEY_NAMES_SIZE];
        char help[LKI_KEY_HELP_SIZE];
        if (lki_key_section(key, section)) fprintf(out, "%s%s:\n", key > 0 ? "\n" : "", section);
        lki_spec_describe(&row->spec, expected, sizeof expected);
        fprintf(out, "  ");
        const int used = fprintf(out, "%-30s ", row->spec.name);
        snprintf(head, sizeof head, "%s; default %s", expected,
                 row->fallback != NULL ? row->fallback : "null");
        text_print_wrapped(out, head, 2 + used, 2 + used, HELP_WIDTH);
        if (*row->help != '\0') {
            fprintf(out, "%*s", COLUMN, "");
            text_print_wrapped(out, lki_key_help((lki_key)key, help), COLUMN, COLUMN, HELP_WIDTH);
        }
        if (lki_key_only((lki_key)key, names)) {
            char only[LKI_KEY_NAMES_SIZE + 16];
            snprintf(only, sizeof only, "(only for: %s)", names);
            fprintf(out, "%*s", COLUMN, "");
            text_print_wrapped(out, only, COLUMN, COLUMN, HELP_WIDTH);
        }
    }
}
