#include "cli/args/manual.h"

#include <string.h>

#include "cli/args/help.h"

static const struct format {
    const char *name;
    void (*print)(FILE *out);
} formats[] = {
    {"man", manual_print_man},         {"bash", manual_print_bash},      {"zsh", manual_print_zsh},
    {"cli.md", manual_print_markdown}, {"ops.md", help_layers_markdown},
};
enum { FORMATS = sizeof formats / sizeof *formats };
static const char format_words[] = "man bash zsh cli.md ops.md";

const manual_row manual_environment[] = {
    {"LKS_ISA",
     "instruction set of the cpu backend: portable, avx2, avx512 or neon; not set: the best "
     "that the processor has"},
    {"LKS_LOG",
     "debug: every command says what is opened, chosen, saved, and how long it takes, as --verbose "
     "does; warn and info: less. Programs that use the library hear of it too, in their log"},
    {"LKS_MODULES", "a folder with modules for MPI, or one module; not set: the folder lockstep/ "
                    "beside the library, and "
                    "that of a build"},
    {"LKS_RDZV_SECRET",
     "the secret of a rendezvous, 16 to 256 bytes; not set: --rdzv-secret, or the "
     "first host draws one"},
    {"LKS_RESTART", "set by launch for its processes: the number of the start, from 0"},
    {"LKS_RUNS", "the folder in which trainings say that they run, for ps and stop; not set: "
                 "/tmp/lockstep-<user's number>"},
    {"LKS_WATCH", "after how many seconds of silence a process of a training counts as lost; not "
                  "set: 2; 0: nobody "
                  "watches"},
    {"XDG_DATA_HOME",
     "where data sets are looked for, in lockstep/<name>; not set: ~/.local/share"},
    {"XDG_CACHE_HOME", "where tokens of texts are kept, in lockstep/; not set: ~/.cache"},
    {"NO_COLOR", "set: no colours"},
    {"TERM", "dumb: no progress bar"},
    {NULL, NULL},
};

const manual_row manual_files[] = {
    {"~/.local/share/lockstep/<name>", "files of the data set data.name, as published"},
    {"<prefix>/share/doc/lockstep/configs", "configurations to start from"},
    {"<prefix>/share/doc/lockstep/docs", "documents; program.md is the one about this program"},
    {NULL, NULL},
};

const manual_row manual_examples[] = {
    {"lockstep train digits.yaml --epochs 3 --out run",
     "Trains, and keeps checkpoints in the folder run."},
    {"lockstep train digits.yaml --epochs 3 --out run --resume --workers 2",
     "Goes on where the last checkpoint is, with any number of workers."},
    {"lockstep verify digits.yaml --workers 1,2,3 --steps 20",
     "Shows that the number of workers changes no bit."},
    {"lockstep train digits.yaml --set optimizer.name=adam --set optimizer.lr=0.001",
     "Sets keys of the configuration."},
    {NULL, NULL},
};

lks_status manual_print(FILE *out, const char *format)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, format) == 0) {
            formats[i].print(out);
            return LKS_OK;
        }
    return lks_fail(LKS_E_INVALID,
                    "--help-as is '%.60s', expected man, bash, zsh, cli.md or ops.md", format);
}

void manual_verbs(char *text, size_t size, const cli_option *option)
{
    int count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < cli_verb_count; i++) {
        if ((option->verbs >> i & 1) == 0) continue;
        const int length = snprintf(text + used, size - used, "%s%s", count++ > 0 ? ", " : "",
                                    cli_verbs[i].name);
        if (length < 0 || (size_t)length >= size - used) return;
        used += (size_t)length;
    }
    if (count == cli_verb_count) text[0] = '\0';
}

manual_kind manual_value(const lki_key_row *row, const char **words)
{
    *words = row->spec.range;
    if (row->spec.type == LKI_TYPE_CHOICE) return MANUAL_WORDS;
    *words = "true false";
    if (row->spec.type == LKI_TYPE_BOOL) return MANUAL_WORDS;
    *words = "";
    const char *name = strrchr(row->spec.name, '.') + 1;
    if (strcmp(name, "path") == 0) return MANUAL_FOLDER;
    return strcmp(name, "init") == 0 || strcmp(name, "record") == 0 ? MANUAL_FILE : MANUAL_OTHER;
}

manual_kind manual_argument(const cli_option *option, const char **words)
{
    *words = "";
    if (option->local == LOCAL_SET) return MANUAL_SETTING;
    if (strcmp(option->argument, "FILE") == 0) return MANUAL_FILE;
    if (strcmp(option->argument, "DIR") == 0) return MANUAL_FOLDER;
    *words = option->local == LOCAL_SPLIT ? cli_split_words : format_words;
    if (option->local == LOCAL_HELP_AS || option->local == LOCAL_SPLIT) return MANUAL_WORDS;
    if (option->key == LKI_KEY_NONE) return MANUAL_OTHER;
    return manual_value(&lki_key_rows[option->key], words) == MANUAL_WORDS ? MANUAL_WORDS
                                                                           : MANUAL_OTHER;
}

bool manual_is_repeated(int option)
{
    for (int i = 0; i < option; i++)
        if (strcmp(cli_options[i].name, cli_options[option].name) == 0) return true;
    return false;
}
