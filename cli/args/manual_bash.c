/* Completion for bash: verbs, options, keys behind --set, words and files as their values. */
#include "cli/args/manual.h"

#include <string.h>

/* "--data --epochs": the options of a verb, or of the program without one. */
static void manual_bash_print_options(FILE *out, int bit)
{
    int count = 0;
    for (int i = 0; i < cli_option_count; i++)
        if ((cli_options[i].verbs & bit) != 0)
            fprintf(out, "%s--%s", count++ > 0 ? " " : "", cli_options[i].name);
}

static void print_kind(FILE *out, const char *name, manual_kind kind, const char *words)
{
    static const char *const kinds[] = {
        [MANUAL_OTHER] = "none",   [MANUAL_FILE] = "files",  [MANUAL_FOLDER] = "folders",
        [MANUAL_SETTING] = "keys", [MANUAL_WORDS] = "words",
    };
    fprintf(out, "        %s) kind=%s", name, kinds[kind]);
    if (kind == MANUAL_WORDS) fprintf(out, " words='%s'", words);
    fputs(" ;;\n", out);
}

/* The function that says what the value of an option or key is. */
static void print_values(FILE *out)
{
    const char *words;
    fputs("# What the value of an option or key is, into kind and words; false where it has none.\n"
          "_lockstep_value()\n{\n    case $1 in\n",
          out);
    for (int i = 0; i < cli_option_count; i++) {
        char name[64];
        if (cli_options[i].argument == NULL || manual_is_repeated(i)) continue;
        snprintf(name, sizeof name, "--%s", cli_options[i].name);
        const manual_kind kind = manual_argument(&cli_options[i], &words);
        print_kind(out, name, kind, words);
    }
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const manual_kind kind = manual_value(&lki_key_rows[key], &words);
        print_kind(out, lki_key_rows[key].spec.name, kind, words);
    }
    fputs("        *) return 1 ;;\n    esac\n}\n\n", out);
}

static void manual_bash_print_verbs(FILE *out)
{
    fputs("# The options of a verb, into words, and what its operands are, into kind.\n"
          "_lockstep_verb()\n{\n    case $1 in\n",
          out);
    for (int i = 0; i < cli_verb_count; i++) {
        const bool yaml = strcmp(cli_verbs[i].operands, "CONFIG") == 0;
        fprintf(out, "        %s) kind=%s words='", cli_verbs[i].name, yaml ? "yaml" : "files");
        manual_bash_print_options(out, 1 << i);
        fputs("' ;;\n", out);
    }
    fputs("        *) kind=none words='", out);
    manual_bash_print_options(out, VERB_NONE);
    for (int i = 0; i < cli_verb_count; i++) fprintf(out, " %s", cli_verbs[i].name);
    fputs(" help' ;;\n    esac\n}\n\n", out);
}

static void manual_bash_print_keys(FILE *out)
{
    fputs("_lockstep_keys='", out);
    for (int key = 0; key < LKI_KEY_COUNT; key++)
        fprintf(out, "%s%s", key > 0 ? " " : "", lki_key_rows[key].spec.name);
    fputs("'\n\n", out);
}

/* A value may stand behind "=", which bash makes a word of its own, and readline completes what is
 * behind it; the text of the whole word stays where "=" breaks no words. */
static const char body[] =
    "_lockstep()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} name='' before=''\n"
    "    local verb='' kind='' words='' word\n"
    "    COMPREPLY=()\n"
    "    [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} != -* ]] && verb=${COMP_WORDS[1]}\n"
    "    if [[ $cur == = ]]; then\n"
    "        name=$prev cur=''\n"
    "    elif [[ $prev == = && $COMP_CWORD -gt 2 ]]; then\n"
    "        name=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    elif [[ $cur == *=* ]]; then\n"
    "        name=${cur%%=*} before=${cur%%=*}= cur=${cur#*=}\n"
    "    elif [[ $prev == --* ]]; then\n"
    "        name=$prev\n"
    "    fi\n"
    "    if ! _lockstep_value \"$name\"; then\n"
    "        _lockstep_verb \"$verb\"\n"
    "        [[ $cur == -* || $kind == none ]] && kind=words\n"
    "    fi\n"
    "    case $kind in\n"
    "        words) COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$cur\")) ;;\n"
    "        keys)\n"
    "            COMPREPLY=($(compgen -P \"$before\" -S = -W \"$_lockstep_keys\" -- \"$cur\"))\n"
    "            compopt -o nospace 2>/dev/null\n"
    "            ;;\n"
    "        files | folders | yaml)\n"
    "            while IFS= read -r word; do\n"
    "                if [[ -d $word || $kind == files || $word == *.yaml || $word == *.yml ]]; "
    "then\n"
    "                    COMPREPLY+=(\"$before$word\")\n"
    "                fi\n"
    "            done < <(if [[ $kind == folders ]]; then compgen -d -- \"$cur\"\n"
    "                     else compgen -f -- \"$cur\"; fi)\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _lockstep lockstep\n";

void manual_print_bash(FILE *out)
{
    fputs("# Completion of bash for lockstep, made from its tables: lockstep --help-as bash\n\n",
          out);
    manual_bash_print_keys(out);
    print_values(out);
    manual_bash_print_verbs(out);
    fputs(body, out);
}
