/* Completion for zsh: verbs, options with what they do, keys behind --set, words and files. */
#include "cli/args/manual.h"

#include <string.h>

/* Text inside '...' and, in a specification of _arguments, inside [...] or before a colon. */
static void print_quoted(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *c) != NULL)
            fprintf(out, "\\%c", *c);
        else
            fputc(*c, out);
    }
}

static void print_action(FILE *out, manual_kind kind, const char *words)
{
    switch (kind) {
    case MANUAL_FILE:
        fputs("_files", out);
        break;
    case MANUAL_FOLDER:
        fputs("_files -/", out);
        break;
    case MANUAL_WORDS:
        fprintf(out, "(%s)", words);
        break;
    case MANUAL_SETTING:
        fputs("_lockstep_setting", out);
        break;
    case MANUAL_OTHER:
        break;
    }
}

static void manual_zsh_print_options(FILE *out, int bit)
{
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *option = &cli_options[i];
        char text[CLI_TEXT_SIZE];
        if ((option->verbs & bit) == 0) continue;
        cli_option_text(text, sizeof text, option);
        fprintf(out, "        '%s--%s%s[", cli_is_repeated(option->local) ? "*" : "", option->name,
                option->argument != NULL ? "=" : "");
        print_quoted(out, text);
        fputc(']', out);
        if (option->argument != NULL) {
            const char *words;
            fprintf(out, ":%s:", option->argument);
            const manual_kind kind = manual_argument(option, &words);
            print_action(out, kind, words);
        }
        fputs("' \\\n", out);
    }
}

static void manual_zsh_print_verb(FILE *out, int verb)
{
    const bool yaml = strcmp(cli_verbs[verb].operands, "CONFIG") == 0;
    fprintf(out, "    %s)\n        _arguments \\\n", cli_verbs[verb].name);
    manual_zsh_print_options(out, 1 << verb);
    fprintf(out, "        '*:%s:_files%s'\n        ;;\n", cli_verbs[verb].operands,
            yaml ? " -g \"*.(yaml|yml)(-.)\"" : "");
}

/* KEY=VALUE behind --set. */
static void print_setting(FILE *out)
{
    fputs("_lockstep_setting()\n{\n    local -a keys=(\n", out);
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        char help[LKI_KEY_HELP_SIZE];
        fprintf(out, "        '%s:", lki_key_rows[key].spec.name);
        print_quoted(out, lki_key_help((lki_key)key, help));
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if ! compset -P '*='; then\n"
          "        _describe -t keys key keys -S '='\n"
          "        return\n"
          "    fi\n"
          "    case ${IPREFIX##*--set=} in\n",
          out);
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const char *words;
        const manual_kind kind = manual_value(&lki_key_rows[key], &words);
        if (kind == MANUAL_OTHER) continue;
        fprintf(out, "    %s=) ", lki_key_rows[key].spec.name);
        fprintf(out, kind == MANUAL_WORDS ? "compadd -- %s ;;\n" : "_files ;;\n%.0s", words);
    }
    fputs("    esac\n}\n\n", out);
}

void manual_print_zsh(FILE *out)
{
    fputs("#compdef lockstep\n"
          "# Completion of zsh for lockstep, made from its tables: lockstep --help-as zsh\n\n",
          out);
    print_setting(out);
    fputs("_lockstep_verbs()\n{\n    local -a verbs=(\n", out);
    for (int i = 0; i < cli_verb_count; i++) {
        fprintf(out, "        '%s:", cli_verbs[i].name);
        print_quoted(out, cli_verbs[i].summary);
        fputs("'\n", out);
    }
    fputs("        'help:the options of a verb'\n    )\n    _describe -t verbs verb verbs\n}\n\n"
          "_lockstep()\n{\n"
          "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
          "        _lockstep_verbs\n"
          "        return\n"
          "    fi\n"
          "    local verb=$words[2]\n"
          "    [[ $verb != -* ]] && { shift words; (( CURRENT-- )); }\n"
          "    case $verb in\n",
          out);
    for (int verb = 0; verb < cli_verb_count; verb++) manual_zsh_print_verb(out, verb);
    fputs("    help) _lockstep_verbs ;;\n"
          "    *)\n        _arguments \\\n",
          out);
    manual_zsh_print_options(out, VERB_NONE);
    fputs("        '1:verb:_lockstep_verbs'\n        ;;\n    esac\n}\n\n_lockstep \"$@\"\n", out);
}
