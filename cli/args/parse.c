/* The command line, by the tables in options.c. */
#include "cli/cli.h"
#include "cli/out/text.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROW = 256 }; /* getopt's value of a row: its number and this */
enum { NAMES_SIZE = 200 };

static const cli_option *option_of(int value, int verb_bit)
{
    if (value >= FIRST_ROW) return &cli_options[value - FIRST_ROW];
    for (int i = 0; i < cli_option_count; i++)
        if (cli_options[i].letter == value && (cli_options[i].verbs & verb_bit) != 0)
            return &cli_options[i];
    return NULL;
}

static const char *verb_hint(const cli_args *cli)
{
    return cli->verb != NULL ? cli->verb->name : "";
}

/* "--set optimizer.momentum=VALUE" for "momentum": the keys that end so, or the name of a section. */
static const char *keys_like(const cli_args *cli, const char *word)
{
    const char *line = NULL, *gap = "--set ";
    char *end = pool_format(cli->pool, ".%s", word);
    for (char *c = end; *c != '\0'; c++)
        if (*c == '-') *c = '_';
    const char *section = pool_format(cli->pool, "%s.name", end + 1);
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        const char *name = lki_key_rows[key].spec.name;
        if (strcmp(strchr(name, '.'), end) != 0 && strcmp(name, section) != 0) continue;
        line = pool_format(cli->pool, "%s%s%s=VALUE", line != NULL ? line : "", gap, name);
        gap = " or ";
    }
    return line;
}

/* "?" from getopt: unknown, ambiguous, or a value for an option that takes none. */
static lks_status bad_option(const cli_args *cli, int opt, const char *typed)
{
    const char *gap = cli->verb != NULL ? " " : "";
    if (opt >= FIRST_ROW)
        return lks_fail(LKS_E_INVALID, "option --%s takes no value",
                        cli_options[opt - FIRST_ROW].name);
    char word[64] = "";
    const int dashes = strncmp(typed, "--", 2) == 0 ? 2 : 1, length = (int)strcspn(typed, "=");
    if (dashes == 2 || length > 2) /* -lr for --lr, too */
        snprintf(word, sizeof word, "%.*s", length - dashes, typed + dashes);
    lki_nearest near = {.word = word};
    int begun = 0;
    bool elsewhere = false, takes_keys = false;
    for (int i = 0; i < cli_option_count && *word != '\0'; i++) {
        elsewhere |= strcmp(cli_options[i].name, word) == 0;
        if ((cli_options[i].verbs & cli->verb_bit) == 0) continue;
        takes_keys |= cli_options[i].local == LOCAL_SET;
        lki_nearest_offer(&near, cli_options[i].name);
        begun += strncmp(cli_options[i].name, word, strlen(word)) == 0;
    }
    if (begun > 1 && dashes == 2)
        return lks_fail(LKS_E_INVALID,
                        "option --%s could be several; write it in full (lockstep%s%s --help)",
                        word, gap, verb_hint(cli));
    if (elsewhere && dashes == 2)
        return lks_fail(LKS_E_INVALID, "%s%s has no option --%s; see lockstep%s%s --help",
                        cli->verb != NULL ? "" : "lockstep without a verb", verb_hint(cli), word,
                        gap, verb_hint(cli));
    const char *keys = takes_keys ? keys_like(cli, word) : NULL;
    if (keys != NULL && (near.best == NULL || near.distance > 0))
        return lks_fail(LKS_E_INVALID,
                        "unknown option %.*s; a key of the configuration is set by %s", length,
                        typed, keys);
    if (near.best != NULL)
        return lks_fail(LKS_E_INVALID, "unknown option %.*s; did you mean --%s?", length, typed,
                        near.best);
    return lks_fail(LKS_E_INVALID, "unknown option %.100s; see lockstep%s%s --help", typed, gap,
                    verb_hint(cli));
}

bool cli_is_repeated(cli_local local)
{
    return local == LOCAL_SET || local == LOCAL_MIRROR || local == LOCAL_GRID ||
           local == LOCAL_STOP;
}

static lks_status take_option(cli_args *cli, const cli_option *option, const char *argument)
{
    const char *text = argument != NULL ? argument : "true";
    const cli_local local = option->local;
    if (*text == '\0') /* never the default: whoever wrote the option meant something */
        return lks_fail(LKS_E_INVALID,
                        "option --%s has an empty value, expected %s; is a variable of the shell "
                        "not set?",
                        option->name, option->argument);
    if (local != LOCAL_NONE && !cli_is_repeated(local)) {
        cli->local[local] = text;
        for (int i = 0; i < cli_option_count && local == LOCAL_RESUME_FROM; i++)
            if (strcmp(cli_options[i].name, "resume") == 0)
                cli->setting[cli->settings++] = (cli_setting){&cli_options[i], "true"};
        return LKS_OK;
    }
    cli->setting[cli->settings++] = (cli_setting){option, text};
    return LKS_OK;
}

/* "train, eval or compare": every verb. */
static const char *verb_names(char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < cli_verb_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0                    ? ""
                                 : i == cli_verb_count - 1 ? " or "
                                                           : ", ",
                                 cli_verbs[i].name);
    return out;
}

static lks_status find_verb(cli_args *cli, const char *word)
{
    lki_nearest near = {.word = word};
    for (int i = 0; i < cli_verb_count; i++) {
        lki_nearest_offer(&near, cli_verbs[i].name);
        if (strcmp(cli_verbs[i].name, word) != 0) continue;
        cli->verb = &cli_verbs[i];
        cli->verb_bit = 1 << i;
        return LKS_OK;
    }
    if (near.best != NULL)
        return lks_fail(LKS_E_INVALID, "unknown verb '%.60s'; did you mean '%s'?", word, near.best);
    char names[NAMES_SIZE];
    return lks_fail(LKS_E_INVALID,
                    "unknown verb '%.60s'; expected %s (lockstep train CONFIG, for example)", word,
                    verb_names(names, sizeof names));
}

static lks_status parse_read_options(cli_args *cli, cli_pool *pool, int argc, char **argv)
{
    /* One row for each option and an empty one behind them. */
    struct option *longs = pool_alloc(pool, ((size_t)cli_option_count + 1) * sizeof *longs);
    const size_t room = 2 * (size_t)cli_option_count + 3;
    char *shorts = pool_alloc(pool, room);
    size_t used = 0;
    int count = 0;
    /* What follows the verb that is launched is not launch's. */
    if (cli->verb_bit == VERB_LAUNCH) shorts[used++] = '+';
    shorts[used++] = ':';
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *row = &cli_options[i];
        if ((row->verbs & cli->verb_bit) == 0) continue;
        longs[count++] = (struct option){row->name,
                                         row->argument != NULL ? required_argument : no_argument,
                                         NULL, FIRST_ROW + i};
        if (row->letter != 0)
            used += (size_t)snprintf(shorts + used, room - used, "%c%s", row->letter,
                                     row->argument != NULL ? ":" : "");
    }
    opterr = 0;
    optind = 0;
    for (;;) {
        const int before = optind > 0 ? optind : 1;
        const int value = getopt_long(argc, argv, shorts, longs, NULL);
        if (value == -1) return LKS_OK;
        int at = before; /* the word that it looked at: behind operands */
        while (argv[at] != NULL && (argv[at][0] != '-' || argv[at][1] == '\0')) at++;
        if (value == '?') return bad_option(cli, optopt, argv[at]);
        if (value == ':')
            return lks_fail(LKS_E_INVALID, "option %.60s needs a value", argv[optind - 1]);
        const lks_status status = take_option(cli, option_of(value, cli->verb_bit), optarg);
        if (status != LKS_OK) return status;
    }
}

static bool wants_only_help(const cli_args *cli)
{
    return cli->local[LOCAL_HELP] != NULL || cli->local[LOCAL_HELP_CONFIG] != NULL ||
           cli->local[LOCAL_HELP_LAYERS] != NULL || cli->local[LOCAL_HELP_AS] != NULL ||
           cli->local[LOCAL_VERSION] != NULL;
}

/* --nproc_per_node, as torchrun has it, and --yaml_config; of a launch up to the words that are the ranks'. */
static void take_underscores(const cli_args *cli, cli_pool *pool, int argc, char **words)
{
    const bool launches = (cli->verb_bit & (VERB_LAUNCH | VERB_DOCTOR)) != 0;
    for (int i = 2; i < argc && strcmp(words[i], "--") != 0; i++) {
        for (int verb = 0; verb < cli_verb_count && launches; verb++)
            if (strcmp(cli_verbs[verb].name, words[i]) == 0) return;
        if (strncmp(words[i], "--", 2) != 0) continue;
        words[i] = pool_copy(pool, words[i], strlen(words[i]));
        for (char *c = words[i]; *c != '\0' && *c != '='; c++)
            if (*c == '_') *c = '-';
    }
}

/* `--resume latest` and `--resume 3` as --resume-from=; --resume alone has no value. */
static void take_resume(const cli_args *cli, cli_pool *pool, int argc, char **words)
{
    int64_t epoch;
    for (int i = 2; i + 1 < argc && cli->verb_bit == VERB_TRAIN; i++) {
        if (strcmp(words[i], "--resume") != 0) continue;
        const char *which = words[i + 1];
        if (strcmp(which, "latest") != 0 && !lki_text_is_int(which, &epoch)) continue;
        words[i + 1] = pool_format(pool, "--resume-from=%s", which);
    }
}

/* --arch and --dataset stand for the operand. */
static lks_status take_arch(cli_args *cli)
{
    const char *arch = cli->local[LOCAL_ARCH], *data = cli->local[LOCAL_DATASET];
    if (arch == NULL && data == NULL) return LKS_OK;
    if (cli->operands > 0)
        return lks_fail(LKS_E_INVALID,
                        "--arch and --dataset stand in the place of a configuration, but %.200s is "
                        "given too; drop one",
                        cli->operand[0]);
    cli->operand = pool_alloc(cli->pool, 2 * sizeof *cli->operand);
    cli->operand[0] = arch != NULL ? pool_format(cli->pool, "--arch %s", arch)
                                   : pool_format(cli->pool, "--dataset %s", data);
    cli->operand[1] = NULL;
    cli->operands = 1;
    return LKS_OK;
}

/* --yaml-config stands for the first operand. */
static void take_yaml_config(cli_args *cli)
{
    const char *file = cli->local[LOCAL_YAML_CONFIG];
    if (file == NULL) return;
    char **operand = pool_alloc(cli->pool, ((size_t)cli->operands + 2) * sizeof *operand);
    operand[0] = pool_format(cli->pool, "%s", file);
    memcpy(operand + 1, cli->operand, ((size_t)cli->operands + 1) * sizeof *operand);
    cli->operand = operand;
    cli->operands++;
}

lks_status cli_parse(cli_args *out, cli_pool *pool, int argc, char **argv)
{
    *out = (cli_args){.pool = pool, .argc = argc, .argv = argv, .verb_bit = VERB_NONE};
    out->setting = pool_alloc(pool, (size_t)argc * sizeof *out->setting);
    int first = 0;
    lks_status status = LKS_OK;
    if (argc > 1 && argv[1][0] != '-') {
        first = 1;
        if (strcmp(argv[1], "help") == 0) { /* lockstep help train */
            out->local[LOCAL_HELP] = "true";
            return argc > 2 ? find_verb(out, argv[2]) : LKS_OK;
        }
        status = find_verb(out, argv[1]);
    }
    /* getopt moves operands to the end; the command line is kept as it was typed. */
    char **moved = pool_alloc(pool, ((size_t)argc + 1) * sizeof *moved);
    memcpy(moved, argv, (size_t)argc * sizeof *moved);
    take_underscores(out, pool, argc, moved);
    take_resume(out, pool, argc, moved);
    if (status == LKS_OK) status = parse_read_options(out, pool, argc - first, moved + first);
    if (status != LKS_OK || wants_only_help(out)) return status;
    out->operands = argc - first - optind;
    out->operand = moved + first + optind;
    take_yaml_config(out);
    status = take_arch(out);
    if (status != LKS_OK) return status;
    char names[NAMES_SIZE];
    if (out->verb == NULL)
        return lks_fail(LKS_E_INVALID, "no verb; expected %s (lockstep --help)",
                        verb_names(names, sizeof names));
    for (int i = 0; i < out->operands; i++)
        if (*out->operand[i] == '\0')
            return lks_fail(
                LKS_E_INVALID,
                "an operand of %s is empty, expected %s; is a variable of the shell not "
                "set?",
                out->verb->name, out->verb->operands);
    const int least = out->local[LOCAL_PROGRAM] != NULL ? 0 : out->verb->least; /* it is the verb */
    if (out->operands >= least && out->operands <= out->verb->most) return LKS_OK;
    const char *last = out->operands > 1 ? out->operand[out->operands - 1] : "";
    return lks_fail(LKS_E_INVALID, "%s takes %s, found %d operand%s%s%.60s (lockstep %s --help)",
                    out->verb->name, *out->verb->operands != '\0' ? out->verb->operands : "none",
                    out->operands, TEXT_S(out->operands),
                    strchr(last, '=') != NULL ? "; a key is set by --set " : "",
                    strchr(last, '=') != NULL ? last : "", out->verb->name);
}

lks_status cli_count(int64_t *out, const cli_args *cli, cli_local local, const char *name,
                     int64_t most)
{
    const char *text = cli->local[local];
    int64_t count;
    if (text == NULL) return LKS_OK;
    if (!lki_text_is_int(text, &count) || count < 1 || count > most)
        return lks_fail(LKS_E_INVALID, "%s is '%.60s', expected a number from 1 to %lld", name,
                        text, (long long)most);
    *out = count;
    return LKS_OK;
}

lks_status cli_seconds(double *out, const cli_args *cli)
{
    const char *text = cli->local[LOCAL_SECONDS];
    if (text == NULL || (lki_text_is_float(text, out) && *out > 0 && *out < 1e6)) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--seconds is '%.60s', expected a number above 0", text);
}
