/*
 * Two files that are compared, divided by a byte 0x1e. Input: a byte that says what they are, and
 * both:
 *   0  records of trainings, as `lockstep compare` reads them
 *   1  records of checkpoints, without the checksum, which is added here
 *   2  configurations: that of a checkpoint, and that of a run that goes on from it
 * Whatever they are, the comparison is the same both ways round, what is equal to itself is found to
 * be, and what is said is whole lines that a terminal may see.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include "cli/verbs/checkpoint_path.h"
#include "cli/verbs/compare.h"
#include "fuzz/fuzz.h"
#include "numeric/hash.h"
#include "recipe/recipe.h"
#include "train/run.h"

enum { STEP = 8 };

typedef struct capture {
    FILE **stream, *before, *now;
    char *text;
    size_t bytes;
} capture;

static void listen_to(capture *c, FILE **stream)
{
    *c = (capture){.stream = stream, .before = *stream};
    c->now = *stream = open_memstream(&c->text, &c->bytes);
    FUZZ_CHECK(c->now != NULL);
}

/* What was printed, for free(). */
static char *heard(capture *c)
{
    *c->stream = c->before;
    FUZZ_CHECK(fclose(c->now) == 0 && strlen(c->text) == c->bytes);
    FUZZ_CHECK(c->bytes == 0 || c->text[c->bytes - 1] == '\n');
    cli_pool pool = {0};
    for (const char *at = c->text; *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        const char *line = pool_copy(&pool, at, length);
        FUZZ_CHECK(strcmp(text_clean(&pool, line), line) == 0);
        at += length + 1;
    }
    pool_clear(&pool);
    return c->text;
}

static char folder_path[2][40],
    record_path[2][128]; /* of a checkpoint; its record is the slot's file */

static void remove_folders(void)
{
    for (int slot = 0; slot < 2; slot++) {
        char tensors[128];
        snprintf(tensors, sizeof tensors, "%s/step-%08d.safetensors", folder_path[slot], STEP);
        unlink(record_path[slot]);
        unlink(tensors);
        rmdir(folder_path[slot]);
    }
}

/* Links to files in memory. */
static void make_folders(void)
{
    static const uint8_t nothing[] = {2, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    if (record_path[0][0] != '\0') return;
    atexit(remove_folders);
    for (int slot = 0; slot < 2; slot++) {
        char tensors[128];
        snprintf(folder_path[slot], sizeof folder_path[slot], "/tmp/fuzz-compare-XXXXXX");
        FUZZ_CHECK(mkdtemp(folder_path[slot]) != NULL);
        snprintf(record_path[slot], sizeof record_path[slot], "%s/step-%08d.json",
                 folder_path[slot], STEP);
        snprintf(tensors, sizeof tensors, "%s/step-%08d.safetensors", folder_path[slot], STEP);
        FUZZ_CHECK(symlink(fuzz_file(slot, "", 0), record_path[slot]) == 0);
        FUZZ_CHECK(symlink(fuzz_file(2, nothing, sizeof nothing), tensors) == 0);
    }
}

/* Numbers under `key` become larger from entry to entry, as in every record that we write. */
static bool ascends(const json_t *record, const char *list, const char *key)
{
    size_t i;
    const json_t *entry;
    json_int_t last = 0;
    json_array_foreach(json_object_get(record, list), i, entry)
    {
        const json_int_t number = json_integer_value(json_object_get(entry, key));
        if (number <= last) return false;
        last = number;
    }
    return true;
}

static bool is_orderly(const char *path)
{
    json_t *record = json_load_file(path, 0, NULL);
    const bool orderly = ascends(record, "epochs", "epoch") && ascends(record, "links", "step");
    json_decref(record);
    return orderly;
}

/* Compares the records, or the checkpoints, of two slots. */
static lks_status compare(bool *equal, int a, int b, bool checkpoints)
{
    static lks_context *context;
    cli_pool pool = {0};
    capture out;
    if (context == NULL) FUZZ_CHECK(lks_context_create(&context, NULL) == LKS_OK);
    const checkpoint_path x = {folder_path[a], STEP,
                               checkpoint_tensors(&pool, folder_path[a], STEP)};
    const checkpoint_path y = {folder_path[b], STEP,
                               checkpoint_tensors(&pool, folder_path[b], STEP)};
    listen_to(&out, &stdout);
    const lks_status status = checkpoints ? compare_checkpoints(equal, context, &x, &y)
                                          : compare_records(equal, record_path[a], record_path[b]);
    char *text = heard(&out);
    if (status == LKS_OK)
        FUZZ_CHECK(*equal || *text != '\0'); /* why */
    else
        fuzz_check_failure(status);
    free(text);
    pool_clear(&pool);
    return status;
}

static void compare_all(bool checkpoints)
{
    bool equal[2][2], orderly = true;
    for (int i = 0; i < 4; i++)
        if (compare(&equal[i / 2][i % 2], i / 2, i % 2, checkpoints) != LKS_OK && i % 3 == 0)
            return;
    for (int i = 0; i < 2 && !checkpoints; i++) orderly = orderly && is_orderly(record_path[i]);
    FUZZ_CHECK(!orderly || (equal[0][0] && equal[1][1] && equal[0][1] == equal[1][0]));
}

/* The slot's record of a checkpoint: one that can be read, or whatever was given. */
static void put_checkpoint(int slot, const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 64);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, bytes);
    const size_t sealed = bytes + (size_t)sprintf(text + bytes,
                                                  ",\n  \"checksum\": \"%016llx\"\n}\n",
                                                  (unsigned long long)lki_hash(data, bytes));
    (void)fuzz_file(slot, text, sealed);
    free(text);
}

static lks_recipe *read_recipe(const uint8_t *data, size_t bytes)
{
    lks_recipe *recipe;
    char *text = calloc(bytes + 1, 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, bytes);
    lks_status status = lks_recipe_open_text(&recipe, "input", text);
    FUZZ_CHECK((status == LKS_OK) == (recipe != NULL));
    if (status == LKS_OK) status = lks_recipe_resolve(recipe);
    if (status != LKS_OK) {
        fuzz_check_failure(status);
        lks_recipe_close(recipe);
        recipe = NULL;
    }
    free(text);
    return recipe;
}

/* As JSON, which another library reads. */
static json_t *json_of(const lks_recipe *recipe, int key)
{
    lki_emit emit = {0};
    lks_status status = LKS_OK;
    lki_emit_setting(&emit, &recipe->config->value[key], lki_key_rows[key].spec.type);
    char *text = lki_emit_take(&emit, "a setting", &status);
    FUZZ_CHECK(text != NULL);
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    return json;
}

static bool same_value(const lks_recipe *a, const lks_recipe *b, int key)
{
    json_t *x = json_of(a, key), *y = json_of(b, key);
    const bool same = json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

/* The configuration of the checkpoint, as train writes it, in slot 0. */
static void put_recipe(lks_recipe *recipe)
{
    lks_run run = {
        .progress.step = STEP, .global_batch = 1, .replicas = 1, .hash_every = 1, .best_step = -1};
    char *json, *other = NULL, *text;
    FUZZ_CHECK(lks_recipe_json(recipe, &json) == LKS_OK);
    lks_recipe *again = read_recipe((const uint8_t *)json, strlen(json));
    FUZZ_CHECK(again != NULL && lks_recipe_json(again, &other) == LKS_OK);
    FUZZ_CHECK(strcmp(json, other) == 0);
    run.config = json;
    FUZZ_CHECK(lki_run_print(&run, "tensors", &(lki_identity){0}, &text) == LKS_OK);
    (void)fuzz_file(0, text, strlen(text));
    lks_recipe_close(again);
    free(json);
    free(other);
    free(text);
}

static void say_line(void *user, lks_log_level level, const char *line)
{
    (void)user, (void)level;
    say_error("%s", line);
}

/* A line for every key that differs, but those that each command has for itself; the run goes on
 * unless one of them makes it what it is. */
static void check_changes(const lks_recipe *was, lks_recipe *is)
{
    capture err;
    bool fixed = false;
    FILE *behind = stderr;
    listen_to(&err, &stderr);
    lks_recipe_log(is, say_line, NULL);
    const lks_status status = lki_changes_check(is, folder_path[0]);
    char *text = heard(&err);
    for (int key = 0; key < LKI_KEY_COUNT; key++) {
        char begin[80];
        const bool differs = !same_value(was, is, key);
        snprintf(begin, sizeof begin, "lockstep: %s was ", lki_key_rows[key].spec.name);
        const char *said = strstr(text, begin); /* as a line, not in another key's value */
        while (said != NULL && said != text && said[-1] != '\n') said = strstr(said + 1, begin);
        const bool expected = differs && lki_key_rows[key].change != LKI_CHANGE_FREE;
        if ((said != NULL) != expected) fprintf(behind, "%s: %s\n", begin, text);
        FUZZ_CHECK((said != NULL) == expected);
        fixed |= differs && lki_key_rows[key].change == LKI_CHANGE_FIXED;
    }
    FUZZ_CHECK((lks_recipe_difference(was, is) != NULL) == fixed);
    FUZZ_CHECK(lks_recipe_difference(was, is) == lks_recipe_difference(is, was));
    FUZZ_CHECK(lks_recipe_difference(is, is) == NULL && lks_recipe_difference(was, was) == NULL);
    if (fixed && !lks_recipe_bool(is, "checkpoint.accept_changes")) {
        FUZZ_CHECK(status == LKS_E_MISMATCH);
        fuzz_check_failure(status);
    } else {
        FUZZ_CHECK(status == LKS_OK);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *cut = bytes > 1 ? memchr(data + 1, 0x1e, bytes - 1) : NULL;
    if (cut == NULL) return 0;
    const uint8_t *from[2] = {data + 1, cut + 1};
    const size_t size[2] = {(size_t)(cut - from[0]), (size_t)(data + bytes - from[1])};
    make_folders();
    if (data[0] % 3 < 2) {
        for (int i = 0; i < 2; i++) {
            if (data[0] % 3 == 1)
                put_checkpoint(i, from[i], size[i]);
            else
                (void)fuzz_file(i, from[i], size[i]);
        }
        compare_all(data[0] % 3 == 1);
        return 0;
    }
    lks_recipe *was = read_recipe(from[0], size[0]), *is = read_recipe(from[1], size[1]);
    if (was != NULL) put_recipe(was);
    if (was != NULL && is != NULL) check_changes(was, is);
    lks_recipe_close(was);
    lks_recipe_close(is);
    return 0;
}
