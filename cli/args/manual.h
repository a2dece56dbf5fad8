/*
 * All of the help in other forms, from the tables of verbs, options, keys and exit codes: what is
 * installed as man page and completions, and docs/cli.md and docs/ops.md.
 */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/cli.h"

/* "man", "bash", "zsh", "cli.md" or "ops.md"; LKS_E_INVALID for another format. */
LKS_MUSTUSE lks_status manual_print(FILE *out, const char *format);

/* What no table of the program has: term and text; the last has a NULL term. */
typedef struct manual_row {
    const char *term, *text;
} manual_row;
extern const manual_row manual_environment[], manual_files[], manual_examples[];

/* "train, eval": the verbs that take an option; "" where all do. */
void manual_verbs(char *text, size_t size, const cli_option *option);

/* What the argument of an option, or the value of a key, is: how a shell completes it. */
typedef enum manual_kind {
    MANUAL_OTHER,
    MANUAL_FILE,
    MANUAL_FOLDER,
    MANUAL_WORDS,   /* one of the words in *words */
    MANUAL_SETTING, /* KEY=VALUE */
} manual_kind;
manual_kind manual_argument(const cli_option *option, const char **words);
manual_kind manual_value(const lki_key_row *row, const char **words);

/* Whether an option with the same name stands before this one in the table. */
bool manual_is_repeated(int option);

/* One file each. */
void manual_print_man(FILE *out);
void manual_print_bash(FILE *out);
void manual_print_zsh(FILE *out);
void manual_print_markdown(FILE *out);

#endif
