/* Help, printed from the tables. */
#include "cli/cli.h"

#include <string.h>

#include "cli/args/manual.h"
#include "cli/out/text.h"

enum { COLUMN = 28 };

/* Text from COLUMN on; the cursor is at `used`. */
static void print_wrapped(FILE *out, int used, const char *text)
{
    if (used >= COLUMN) {
        fputc('\n', out);
        used = 0;
    }
    fprintf(out, "%*s", COLUMN - used, "");
    text_print_wrapped(out, text, COLUMN, COLUMN, HELP_WIDTH);
}

void cli_option_text(char *text, size_t size, const cli_option *option)
{
    if (option->key == LKI_KEY_NONE) {
        snprintf(text, size, "%s", option->help);
        return;
    }
    const lki_key_row *row = &lki_key_rows[option->key];
    char whole[LKI_KEY_HELP_SIZE];
    const char *help = option->help != NULL ? option->help : lki_key_help(option->key, whole);
    const char *null = strstr(help, "null: "); /* as the file has it; a flag is just not given */
    if (null == NULL) null = help + strlen(help);
    const char *rest = *null != '\0' ? null + strlen("null: ") : null;
    snprintf(text, size, "%.*s%s%s%s(%s%s%s)", (int)(null - help), help,
             *null != '\0' ? "default: " : "", rest, *help != '\0' ? " " : "", row->spec.name,
             row->fallback != NULL && option->argument != NULL ? "; default " : "",
             row->fallback != NULL && option->argument != NULL ? row->fallback : "");
}

static void help_print_option(FILE *out, const cli_option *option)
{
    char text[CLI_TEXT_SIZE];
    int used = option->letter != 0 ? fprintf(out, "  -%c, --%s", option->letter, option->name)
                                   : fprintf(out, "      --%s", option->name);
    if (option->argument != NULL) used += fprintf(out, " %s", option->argument);
    cli_option_text(text, sizeof text, option);
    print_wrapped(out, used, text);
}

static void help_print_examples(FILE *out)
{
    fputs("\nExamples, with a configuration from share/doc/lockstep/configs:\n", out);
    for (const manual_row *row = manual_examples; row->term != NULL; row++) {
        fprintf(out, "  %s\n      ", row->term);
        text_print_wrapped(out, row->text, 6, 6, HELP_WIDTH);
    }
}

void cli_help(const cli_args *cli, FILE *out)
{
    if (cli->verb != NULL) {
        const int used = fprintf(out, "Usage: lockstep %s ", cli->verb->name);
        text_print_wrapped(out,
                           pool_format(cli->pool, "%s%s[OPTIONS]", cli->verb->operands,
                                       *cli->verb->operands != '\0' ? " " : ""),
                           used, used, HELP_WIDTH);
        fputs("\n  ", out);
        text_print_wrapped(out, cli->verb->summary, 2, 2, HELP_WIDTH);
        fputc('\n', out);
    } else {
        fputs("Usage: lockstep VERB ... [OPTIONS]\n\n"
              "Synchronous data-parallel training: the same bits on any number of workers.\n\n"
              "Verbs (lockstep VERB --help has the options of each):\n",
              out);
        for (int i = 0; i < cli_verb_count; i++) {
            const int used = fprintf(out, "  %s %s", cli_verbs[i].name, cli_verbs[i].operands);
            print_wrapped(out, used, cli_verbs[i].summary);
        }
        fputc('\n', out);
    }
    bool has_key = false;
    for (int i = 0; i < cli_option_count; i++)
        has_key |= (cli_options[i].verbs & cli->verb_bit) != 0 &&
                   cli_options[i].key != LKI_KEY_NONE;
    fprintf(out, "Options%s:\n",
            has_key ? " (a name in brackets is the key of the configuration that it sets)" : "");
    for (int i = 0; i < cli_option_count; i++)
        if ((cli_options[i].verbs & cli->verb_bit) != 0) help_print_option(out, &cli_options[i]);
    if (cli->verb == NULL) help_print_examples(out);
    fputs("\nExit codes:\n", out);
    exit_codes_print(out);
}
