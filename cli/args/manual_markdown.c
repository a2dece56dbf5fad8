/* docs/cli.md. */
#include "cli/args/manual.h"

#include <string.h>

/* Text in a cell of a table, or in a paragraph. */
static void manual_markdown_print_text(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr("|<*~", *c) != NULL) fputc('\\', out);
        fputc(*c, out);
    }
}

/* Code in a cell: only a bar has to be escaped. */
static void print_code(FILE *out, const char *text)
{
    fputc('`', out);
    for (const char *c = text; *c != '\0'; c++) fprintf(out, *c == '|' ? "\\%c" : "%c", *c);
    fputc('`', out);
}

static void manual_markdown_print_option(FILE *out, const cli_option *option)
{
    char text[CLI_TEXT_SIZE];
    fputs("| ", out);
    if (option->letter != 0) fprintf(out, "`-%c`, ", option->letter);
    fprintf(out, "`--%s%s%s` | ", option->name, option->argument != NULL ? " " : "",
            option->argument != NULL ? option->argument : "");
    cli_option_text(text, sizeof text, option);
    manual_markdown_print_text(out, text);
    fputs(" |\n", out);
}

/* Heading and options of a verb, or (verb == cli_verb_count) of the program without one. */
static void manual_markdown_print_verb(FILE *out, int verb)
{
    if (verb < cli_verb_count) {
        fprintf(out, "\n### lockstep %s %s\n\n", cli_verbs[verb].name, cli_verbs[verb].operands);
        manual_markdown_print_text(out, cli_verbs[verb].summary);
    } else {
        fputs("\n### lockstep\n\nwithout a verb", out);
    }
    fputs("\n\n| option | what it does |\n|---|---|\n", out);
    const int bit = verb < cli_verb_count ? 1 << verb : VERB_NONE;
    for (int i = 0; i < cli_option_count; i++)
        if ((cli_options[i].verbs & bit) != 0) manual_markdown_print_option(out, &cli_options[i]);
}

static void print_key(FILE *out, int key)
{
    const lki_key_row *row = &lki_key_rows[key];
    char expected[160], names[LKI_KEY_NAMES_SIZE], help[LKI_KEY_HELP_SIZE];
    const size_t section = strcspn(row->spec.name, ".");
    if (key == 0 || strncmp(lki_key_rows[key - 1].spec.name, row->spec.name, section + 1) != 0)
        fprintf(out, "\n### %.*s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                (int)section, row->spec.name);
    lki_spec_describe(&row->spec, expected, sizeof expected);
    fprintf(out, "| `%s` | ", row->spec.name);
    manual_markdown_print_text(out, expected);
    fputs(" | ", out);
    print_code(out, row->fallback != NULL ? row->fallback : "null");
    fputs(" | ", out);
    manual_markdown_print_text(out, lki_key_help((lki_key)key, help));
    if (lki_key_only((lki_key)key, names))
        fprintf(out, "%s(only for: %s)", *row->help != '\0' ? " " : "", names);
    fputs(" |\n", out);
}

static void manual_markdown_print_rows(FILE *out, const char *heading, const manual_row *row)
{
    fprintf(out, "\n## %s\n\n|   |   |\n|---|---|\n", heading);
    for (; row->term != NULL; row++) {
        fputs("| ", out);
        print_code(out, row->term);
        fputs(" | ", out);
        manual_markdown_print_text(out, row->text);
        fputs(" |\n", out);
    }
}

void manual_print_markdown(FILE *out)
{
    fputs("# Reference of the program\n\n"
          "Made from the tables of the program, by `tools/make_docs`; [program.md](program.md) is "
          "the "
          "text to\nread first.\n\n"
          "## Verbs and options\n\nA name in brackets is the key of the configuration that the "
          "option "
          "sets.\n",
          out);
    for (int verb = 0; verb <= cli_verb_count; verb++) manual_markdown_print_verb(out, verb);
    fputs("\n## Configuration\n", out);
    for (int key = 0; key < LKI_KEY_COUNT; key++) print_key(out, key);
    fputs("\n## Exit codes\n\n| code | meaning |\n|---|---|\n", out);
    int code;
    const char *text;
    for (int i = 0; exit_code_row(i, &code, &text); i++) fprintf(out, "| %d | %s |\n", code, text);
    manual_markdown_print_rows(out, "Environment", manual_environment);
    manual_markdown_print_rows(out, "Files", manual_files);
    manual_markdown_print_rows(out, "Examples", manual_examples);
}
