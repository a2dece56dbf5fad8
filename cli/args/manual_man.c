/* The man page: lockstep(1), in the macros of man(7). */
#include "cli/args/manual.h"

#include <ctype.h>
#include <string.h>

enum { WIDTH = 76, WORD = 200 };

/* A word with what roff would read otherwise written as roff wants it. In a word that begins with a
 * dash every dash is meant literally. */
static int escape(char out[WORD], const char *word, int length)
{
    static const char special[] = "\\~^`'";
    static const char *const written[] = {"\\e", "\\(ti", "\\(ha", "\\(ga", "\\(aq"};
    int used = 0;
    if (word[0] == '.') used = snprintf(out, WORD, "\\&");
    for (int i = 0; i < length && used < WORD - 8; i++) {
        const char *at = strchr(special, word[i]);
        if (at != NULL)
            used += snprintf(out + used, WORD - (size_t)used, "%s", written[at - special]);
        else if (word[i] == '-' && word[0] == '-')
            used += snprintf(out + used, WORD - (size_t)used, "\\-");
        else
            out[used++] = word[i];
    }
    out[used] = '\0';
    return used;
}

/* Text in lines of at most WIDTH; `prefix` is a macro for one line (then it is not broken). */
static void manual_man_print_text(FILE *out, const char *prefix, const char *text)
{
    int column = fprintf(out, "%s", prefix);
    bool first = true;
    while (*text != '\0') {
        char word[WORD];
        const int length = (int)strcspn(text, " ");
        const int used = escape(word, text, length);
        const bool breaks = !first && *prefix == '\0' && column + 1 + used > WIDTH;
        column = breaks ? 0 : column;
        column += fprintf(out, "%s%s", first ? "" : breaks ? "\n" : " ", word);
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* .B or .BI with an argument behind the name in italics. */
static void print_term(FILE *out, const cli_option *option)
{
    char name[WORD], typed[WORD];
    snprintf(typed, sizeof typed, "--%s", option->name);
    escape(name, typed, (int)strlen(typed));
    fputs(".TP\n", out);
    if (option->letter != 0)
        fprintf(out, ".BR \\-%c \", \" %s\n", option->letter, name);
    else if (option->argument != NULL)
        fprintf(out, ".BI \"%s \" %s\n", name, option->argument);
    else
        fprintf(out, ".B %s\n", name);
}

static void manual_man_print_rows(FILE *out, const char *section, const manual_row *row)
{
    fprintf(out, ".SH %s\n", section);
    for (; row->term != NULL; row++) {
        fputs(".TP\n", out);
        manual_man_print_text(out, ".B ", row->term);
        manual_man_print_text(out, "", row->text);
    }
}

static void manual_man_print_verbs(FILE *out)
{
    fputs(".SH SYNOPSIS\n", out);
    for (int i = 0; i < cli_verb_count; i++)
        fprintf(out, ".B lockstep %s\n.I %s\n.RI [ OPTIONS ]\n%s", cli_verbs[i].name,
                cli_verbs[i].operands, i + 1 < cli_verb_count ? ".br\n" : "");
    fputs(".SH DESCRIPTION\n", out);
    manual_man_print_text(
        out, "",
        "Trains neural networks with synchronous data parallelism: the same bits on any "
        "number of workers.");
    manual_man_print_text(
        out, "",
        "A network, its data and how it is trained are written in a YAML file, the "
        "configuration, or on the command line.");
    fputs(".PP\nThe verbs:\n", out);
    for (int i = 0; i < cli_verb_count; i++) {
        fprintf(out, ".TP\n.BI \"%s \" \"%s\"\n", cli_verbs[i].name, cli_verbs[i].operands);
        manual_man_print_text(out, "", cli_verbs[i].summary);
    }
}

static void manual_man_print_options(FILE *out)
{
    fputs(".SH OPTIONS\n", out);
    manual_man_print_text(
        out, "",
        "Behind each stand the verbs that take it, where not all do, and the key of the "
        "configuration that it sets.");
    for (int i = 0; i < cli_option_count; i++) {
        char text[CLI_TEXT_SIZE], verbs[CLI_TEXT_SIZE], line[2 * CLI_TEXT_SIZE + 8];
        print_term(out, &cli_options[i]);
        cli_option_text(text, sizeof text, &cli_options[i]);
        manual_verbs(verbs, sizeof verbs, &cli_options[i]);
        snprintf(line, sizeof line, "%s%s%s%s", text, *verbs != '\0' ? " [" : "", verbs,
                 *verbs != '\0' ? "]" : "");
        manual_man_print_text(out, "", line);
    }
}

static void manual_man_print_keys(FILE *out)
{
    fputs(".SH CONFIGURATION\n", out);
    manual_man_print_text(
        out, "",
        "A YAML file with a map for each section, as in \"optimizer: {name: sgd, lr: 0.1}\". "
        "Any key can be set by --set KEY=VALUE. lockstep --help-layers lists what "
        "model.layers may have.");
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const lki_key_row *row = &lki_key_rows[key];
        char expected[160], names[LKI_KEY_NAMES_SIZE], line[CLI_TEXT_SIZE + sizeof names];
        char help[LKI_KEY_HELP_SIZE];
        const bool only = lki_key_only((lki_key)key, names);
        lki_spec_describe(&row->spec, expected, sizeof expected);
        fprintf(out, ".TP\n.B %s\n", row->spec.name);
        snprintf(line, sizeof line, "%s; default %s%s%s%s", expected,
                 row->fallback != NULL ? row->fallback : "null", only ? " (only for: " : "",
                 only ? names : "", only ? ")" : "");
        manual_man_print_text(out, "", line);
        if (*row->help == '\0') continue;
        fputs(".br\n", out);
        manual_man_print_text(out, "", lki_key_help((lki_key)key, help));
    }
}

void manual_print_man(FILE *out)
{
    fprintf(out,
            ".\\\" Made from the tables of the program: lockstep --help-as man\n"
            ".TH LOCKSTEP 1 %s \"Lockstep %s\" \"User Commands\"\n",
            LKS_DATE, lks_version());
    fputs(".SH NAME\nlockstep \\- train neural networks, the same bits on any number of workers\n",
          out);
    manual_man_print_verbs(out);
    manual_man_print_options(out);
    manual_man_print_keys(out);
    fputs(".SH EXIT STATUS\n", out);
    int code;
    const char *text;
    for (int i = 0; exit_code_row(i, &code, &text); i++) {
        fprintf(out, ".TP\n.B %d\n", code);
        manual_man_print_text(out, "", text);
    }
    manual_man_print_rows(out, "ENVIRONMENT", manual_environment);
    manual_man_print_rows(out, "FILES", manual_files);
    manual_man_print_rows(out, "EXAMPLES", manual_examples);
}
