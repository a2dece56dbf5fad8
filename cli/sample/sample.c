/* lockstep sample: text from the weights of a checkpoint, written as it is made. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/sample/ends.h"
#include "cli/stop.h"
#include "cli/verbs/checkpoint_path.h"

enum { USUAL_TOKENS = 200, MOST_TOKENS = 1000000000, MOST_WORKERS = 4096 };

typedef struct sampling {
    const cli_args *cli;
    checkpoint_path found;
    lks_context *context;
    lks_run run;
    lks_tokenizer *tokenizer;
    lks_recipe *recipe;
    lks_model *model; /* the recipe's */
    lks_generator_opts opts;
    sample_ends ends;
    int64_t tokens, workers;
    char prompt[40]; /* for people: "the prompt in line 3" */
    bool terminal;   /* standard output is one: it is sent no control characters */
    uint8_t pending; /* 0xC2, until it is seen whether one follows; 0: nothing */
} sampling;

/* ---------------------------------------------------------------- options */

static lks_status read_int(int64_t *out, const cli_args *cli, cli_local option, const char *name,
                           int64_t least, int64_t most)
{
    const char *text = cli->local[option];
    if (text == NULL || (lki_text_is_int(text, out) && *out >= least && *out <= most))
        return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--%s is '%.60s', expected an integer from %lld to %lld", name,
                    text, (long long)least, (long long)most);
}

static lks_status read_temperature(lks_generator_opts *opts, const char *text)
{
    double value = 1;
    if (text != NULL && (!lki_text_is_float(text, &value) || !(value >= 0) || value > 1e6))
        return lks_fail(LKS_E_INVALID,
                        "--temperature is '%.60s', expected a number from 0 (always the most "
                        "probable token) to 1e6",
                        text);
    opts->most_probable = value == 0;
    opts->temperature = value;
    return LKS_OK;
}

static lks_status read_options(sampling *s)
{
    const cli_args *cli = s->cli;
    const char *share = cli->local[LOCAL_TOP_P];
    int64_t seed = 0;
    s->tokens = USUAL_TOKENS;
    lks_status status = read_int(&s->tokens, cli, LOCAL_TOKENS, "tokens", 0, MOST_TOKENS);
    if (status == LKS_OK)
        status = read_int(&s->opts.top_k, cli, LOCAL_TOP_K, "top-k", 1, INT32_MAX);
    if (status == LKS_OK) status = read_int(&seed, cli, LOCAL_SEED, "seed", 0, INT64_MAX);
    if (status == LKS_OK)
        status = read_int(&s->workers, cli, LOCAL_WORKERS, "workers", 1, MOST_WORKERS);
    if (status == LKS_OK) status = read_temperature(&s->opts, cli->local[LOCAL_TEMPERATURE]);
    if (status != LKS_OK) return status;
    s->opts.seed = (uint64_t)seed;
    if (share != NULL &&
        (!lki_text_is_float(share, &s->opts.top_p) || !(s->opts.top_p > 0) || s->opts.top_p > 1))
        return lks_fail(LKS_E_INVALID, "--top-p is '%.60s', expected a number above 0 and up to 1",
                        share);
    if (cli->local[LOCAL_PROMPT] != NULL && cli->local[LOCAL_PROMPTS] != NULL)
        return lks_fail(LKS_E_INVALID, "--prompt and --prompts both say how texts begin; drop one");
    return LKS_OK;
}

/* ---------------------------------------------------------------- opening */

/* Which checkpoint of a folder, and what it says of its run. */
static lks_status open_run(sampling *s)
{
    const char *path = s->cli->operand[0];
    if (checkpoint_kind_of(path) != PATH_FOLDER && checkpoint_kind_of(path) != PATH_STEP)
        return lks_fail(LKS_E_INVALID,
                        "%.300s is no checkpoint; expected a folder that train --out wrote, or a "
                        "step-<n>.safetensors in it",
                        path);
    lks_status status = checkpoint_resolve(&s->found, s->cli->pool, path);
    if (status != LKS_OK) return status;
    return lks_checkpoint_load(s->context, NULL, &s->run, s->found.folder, s->found.step);
}

static lks_status open_recipe(sampling *s)
{
    if (s->run.config == NULL)
        return lks_fail(LKS_E_STATE,
                        "the checkpoint has no configuration, which says what network it is of; "
                        "lockstep train writes one");
    lks_status status = lks_recipe_open_text(&s->recipe, s->found.folder, s->run.config);
    lks_recipe_log(s->recipe, say_log, NULL);
    if (status == LKS_OK) status = lks_recipe_option(s->recipe, "log.verbose", "false", "sample");
    return status;
}

/* From the newest checkpoint of a folder to that of the best loss, where it is asked for, or the run ended with it. */
static lks_status choose_step(sampling *s)
{
    const cli_args *cli = s->cli;
    const bool asked = cli->local[LOCAL_BEST] != NULL, newest = cli->local[LOCAL_LAST] != NULL;
    const bool folder = checkpoint_kind_of(cli->operand[0]) == PATH_FOLDER;
    const bool restores = lks_recipe_has(s->recipe, "validation.patience") &&
                          lks_recipe_bool(s->recipe, "validation.restore_best");
    lks_run best;
    if (asked && newest)
        return lks_fail(LKS_E_INVALID, "--best and --last name two checkpoints; drop one");
    if ((asked || newest) && !folder)
        return lks_fail(LKS_E_INVALID, "--%s is about a folder of checkpoints; drop it",
                        asked ? "best" : "last");
    if (asked && s->run.best_step < 0)
        return lks_fail(LKS_E_INVALID,
                        "--best: the run in %.300s has no best loss: no whole epoch of it was "
                        "validated; drop it for the newest",
                        cli->operand[0]);
    if (!folder || newest || s->run.best_step < 0 || !(asked || restores)) return LKS_OK;
    const lks_status status = lks_checkpoint_load(s->context, NULL, &best, s->found.folder,
                                                  s->run.best_step);
    if (status == LKS_E_IO && !asked) return LKS_OK; /* it is gone */
    if (status != LKS_OK) return status;
    s->found.step = s->run.best_step;
    lks_run_clear(&s->run);
    s->run = best;
    return LKS_OK;
}

static lks_status open_vocabulary(sampling *s)
{
    static const char *const names[] = {"tokenizer.json", "vocabulary.txt"};
    const char *path = NULL;
    for (int i = 0; i < 2 && path == NULL; i++) {
        path = pool_format(s->cli->pool, "%s/%s", s->found.folder, names[i]);
        if (access(path, F_OK) != 0) path = NULL;
    }
    if (s->run.vocabulary_hash == 0)
        return lks_fail(LKS_E_INVALID,
                        "the run in %.300s was trained on no text; text comes of one with "
                        "data.text (docs/texts.md)",
                        s->found.folder);
    if (path == NULL)
        return lks_fail(LKS_E_IO,
                        "%.300s has neither tokenizer.json nor vocabulary.txt, which the training "
                        "has written beside its checkpoints",
                        s->found.folder);
    const lks_status status = lks_tokenizer_open(&s->tokenizer, s->context, path);
    if (status != LKS_OK || lks_tokenizer_hash(s->tokenizer) == s->run.vocabulary_hash)
        return status;
    return lks_fail(LKS_E_MISMATCH,
                    "%.300s is not the vocabulary that the run was trained with: its hash is "
                    "%016" PRIx64 ", expected %016" PRIx64,
                    path, lks_tokenizer_hash(s->tokenizer), s->run.vocabulary_hash);
}

/* The network as it was trained, without its data: a vocabulary and a context say what that is like. */
static lks_status open_model(sampling *s)
{
    lks_run same = {0};
    if (lks_recipe_has(s->recipe, "data.text_column"))
        return lks_fail(LKS_E_UNSUPPORTED,
                        "the run in %.300s has learned what texts are, not how they go on; "
                        "'lockstep predict --table' says it of others",
                        s->found.folder);
    const lks_shape context = LKS_SHAPE(lks_recipe_int(s->recipe, "data.context"));
    const lks_dataset_info like = {.shape = context,
                                   .target_shape = context,
                                   .dtype = LKS_I32,
                                   .vocabulary = lks_tokenizer_size(s->tokenizer),
                                   .classes = lks_tokenizer_size(s->tokenizer)};
    lks_status status = lks_recipe_open_like(s->recipe, &like);
    if (status == LKS_OK) status = lks_recipe_compile(s->recipe, (int)s->workers);
    const lks_recipe_parts parts = lks_recipe_get_parts(s->recipe);
    s->model = parts.model;
    if (status == LKS_OK)
        status = lks_checkpoint_load(parts.context, parts.model, &same, s->found.folder,
                                     s->found.step);
    lks_run_clear(&same);
    return status;
}

/* ---------------------------------------------------------------- writing */

static void put_byte(void *user, char made)
{
    sampling *s = user;
    const uint8_t byte = (uint8_t)made;
    const bool follows = s->pending != 0 && byte >= 0x80 && byte < 0xA0; /* U+0080 to U+009F */
    const bool control = (byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (!s->terminal) {
        putchar(byte);
        return;
    }
    if (s->pending != 0 && !follows) putchar(s->pending);
    s->pending = byte == 0xC2 ? byte : 0;
    if (s->pending == 0) putchar(control || follows ? '?' : byte);
}

static lks_status put_sampled(sampling *s, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) put_byte(s, text[i]);
    return say_flush();
}

/* Of what is made, up to where the text ends by it. */
static lks_status put_made(sampling *s, const char *text, size_t bytes, bool *ended)
{
    for (size_t i = 0; i < bytes && !*ended; i++)
        *ended = sample_ends_take(&s->ends, text[i], put_byte, s);
    return say_flush();
}

static void say_strange(const sampling *s, const int32_t *ids, int64_t count)
{
    const int32_t unknown = lks_tokenizer_unknown(s->tokenizer);
    int64_t strange = 0;
    for (int64_t i = 0; i < count; i++) strange += ids[i] == unknown;
    if (unknown >= 0 && strange > 0)
        say_error("%lld of the %lld tokens of %s %s not in the vocabulary: the network is given "
                  "the unknown token",
                  (long long)strange, (long long)count, s->prompt, strange == 1 ? "is" : "are");
}

static lks_status feed_prompt(const sampling *s, lks_generator *generator, const char *prompt)
{
    const size_t bytes = strlen(prompt);
    int64_t count = 0;
    if (bytes == 0)
        return lks_fail(LKS_E_INVALID, "the prompt is empty; give at least a character");
    lks_status status = lks_tokenizer_encode(s->tokenizer, prompt, bytes, NULL, 0, &count);
    if (status == LKS_E_FORMAT && s->cli->local[LOCAL_PROMPT] == NULL &&
        s->cli->local[LOCAL_PROMPTS] == NULL)
        return lks_fail(status, "a text begins with a line feed where no prompt is given, and the "
                                "vocabulary has none; give --prompt TEXT");
    if (status != LKS_OK) {
        const lks_error said = *lks_last_error();
        return lks_fail(status, "%s cannot be fed: %s", s->prompt, said.message);
    }
    if (count == 0) /* of words, spaces alone */
        return lks_fail(LKS_E_INVALID, "%s has no token; give at least a word", s->prompt);
    int32_t *ids = malloc((size_t)count * sizeof *ids + 1);
    if (ids == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for a prompt");
    status = lks_tokenizer_encode(s->tokenizer, prompt, bytes, ids, count, &count);
    if (status == LKS_OK) say_strange(s, ids, count);
    if (status == LKS_OK) status = lks_generator_feed(generator, ids, count);
    free(ids);
    return status;
}

/* One text, from its prompt on. */
static lks_status write_sample(sampling *s, const char *prompt, int64_t number)
{
    lks_generator *generator;
    bool ended = false;
    s->opts.stream = number;
    lks_status status = lks_generator_create(&generator, s->model, &s->opts);
    if (status == LKS_OK) status = feed_prompt(s, generator, prompt);
    if (status == LKS_OK) {
        if (number > 0) puts("---");
        status = put_sampled(s, prompt, strlen(prompt));
    }
    for (int64_t i = 0; i < s->tokens && !ended && status == LKS_OK && stop_asked() == 0; i++) {
        int32_t token;
        size_t bytes;
        status = lks_generator_next(generator, &token);
        if (status != LKS_OK) break;
        const char *text = lks_tokenizer_token(s->tokenizer, token, &bytes);
        status = put_made(s, text, bytes, &ended);
    }
    sample_ends_release(&s->ends, put_byte, s);
    if (status == LKS_OK) status = put_sampled(s, "\n", 1);
    lks_generator_destroy(generator);
    return status;
}

static lks_status write_prompts(sampling *s, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    int64_t number = 0, lines = 0, empty = 0; /* the first that is */
    lks_status status = LKS_OK;
    const bool in = strcmp(path, "-") == 0;
    FILE *file = in ? stdin : fopen(path, "r");
    if (file == NULL)
        return lks_fail(LKS_E_IO, "--prompts: '%.300s' cannot be opened: %s", path,
                        strerror(errno));
    for (ssize_t bytes;
         status == LKS_OK && stop_asked() == 0 && (bytes = getline(&line, &room, file)) >= 0;) {
        snprintf(s->prompt, sizeof s->prompt, "the prompt in line %lld", (long long)++lines);
        if (bytes > 0 && line[bytes - 1] == '\n') line[--bytes] = '\0';
        if (bytes > 0 && line[bytes - 1] == '\r') line[--bytes] = '\0';
        const char *prompt = line;
        if (lines == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0) { /* the mark of UTF-8 */
            prompt += 3;
            bytes -= 3;
        }
        if (bytes == 0 && empty == 0) empty = lines;
        if (bytes == 0) continue; /* behind the last prompt they are nothing */
        if (empty > 0)
            status = lks_fail(
                LKS_E_FORMAT,
                "--prompts: line %lld of '%.300s' is empty, expected a prompt in each "
                "line down to the last",
                (long long)empty, path);
        else if (strlen(prompt) != (size_t)bytes)
            status = lks_fail(LKS_E_FORMAT, "%s has a zero byte", s->prompt);
        else
            status = write_sample(s, prompt, number++);
    }
    if (status == LKS_OK && stop_asked() == 0 && !feof(file)) /* or there is no memory */
        status = lks_fail(LKS_E_IO, "--prompts: '%.300s' cannot be read: %s", path,
                          strerror(errno));
    free(line);
    if (!in) fclose(file);
    if (status == LKS_OK && number == 0 && stop_asked() == 0)
        return lks_fail(LKS_E_FORMAT,
                        "--prompts: '%.300s' has no prompt; expected one in each line", path);
    return status;
}

lks_status verb_sample(const cli_args *cli, int *code)
{
    sampling s = {.cli = cli,
                  .ends = sample_ends_of(cli),
                  .terminal = isatty(STDOUT_FILENO) != 0,
                  .prompt = "the prompt"};
    const char *prompt = cli->local[LOCAL_PROMPT];
    lks_status status = read_options(&s);
    if (status == LKS_OK) status = lks_context_create(&s.context, &say_logged);
    if (status == LKS_OK) status = open_run(&s);
    if (status == LKS_OK) status = open_recipe(&s);
    if (status == LKS_OK) status = choose_step(&s);
    if (status == LKS_OK) status = open_vocabulary(&s);
    if (status == LKS_OK) status = open_model(&s);
    if (status == LKS_OK) {
        stop_watch();
        status = cli->local[LOCAL_PROMPTS] != NULL
                     ? write_prompts(&s, cli->local[LOCAL_PROMPTS])
                     : write_sample(&s, prompt != NULL ? prompt : "\n", 0);
        if (status == LKS_OK && stop_asked() != 0) *code = 128 + stop_asked();
    }
    lks_recipe_close(s.recipe);
    lks_tokenizer_destroy(s.tokenizer);
    lks_run_clear(&s.run);
    lks_context_destroy(s.context);
    return status;
}
