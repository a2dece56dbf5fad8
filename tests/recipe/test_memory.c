/* When allocation n of a recipe fails, for every n, there is a clean error, and all is given back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "support/test.h"

static int count, fail_at; /* 0: none fails */

static bool fails(void)
{
    return ++count == fail_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t number, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t number, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    return fails() ? NULL : __real_calloc(number, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : __real_realloc(memory, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, align, bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* Long texts, so that the chunks in which memory is taken do not last. */
static char *long_text(void)
{
    enum { LAYERS = 400, ROOM = 1 << 16 };
    char *text = __real_malloc(ROOM);
    assert_non_null(text);
    int used = snprintf(text, ROOM,
                        "data: {name: digits, samples: 40, test_samples: 10}\n"
                        "train: {steps: 2, batch_size: 10, device: ref, workers: 1}\n"
                        "optimizer:\n  groups: [{match: '*.bias', weight_decay: 0}]\n"
                        "x-many: &many\n  - flatten\n  - dense: {units: 10}\nmodel:\n  layers:\n"
                        "    - flatten\n");
    for (int i = 0; i < LAYERS; i++)
        used += snprintf(text + used, (size_t)(ROOM - used), "    - relu: {name: relu_%d}\n", i);
    snprintf(text + used, (size_t)(ROOM - used), "    - dense: 10\n");
    return text;
}

static lks_status read_and_print(const char *text)
{
    lks_recipe *recipe;
    const char *yaml;
    char *json = NULL;
    lks_status status = lks_recipe_open_text(&recipe, NULL, text);
    if (status == LKS_OK) status = lks_recipe_set(recipe, "optimizer.betas=[0.9, 0.99]");
    if (status == LKS_OK) status = lks_recipe_set(recipe, "optimizer.name=adam");
    if (status == LKS_OK) status = lks_recipe_yaml(recipe, &yaml);
    if (status == LKS_OK) status = lks_recipe_json(recipe, &json);
    if (status == LKS_OK && *lks_recipe_value(recipe, "model.layers") == '\0')
        status = lks_last_error()->status;
    free(json);
    lks_recipe_close(recipe);
    return status;
}

static lks_status train(const char *text)
{
    lks_recipe *recipe;
    char *record = NULL;
    lks_status status = lks_recipe_open_text(&recipe, NULL, text);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, NULL);
    if (status == LKS_OK) status = lks_recipe_record(recipe, &record);
    free(record);
    lks_recipe_close(recipe);
    return status;
}

/* Fails each allocation, but of more than `most` only so many. */
static void try_all(lks_status (*what)(const char *text), const char *text, int most)
{
    count = fail_at = 0;
    LKT_OK(what(text));
    const int all = count, stride = 1 + all / most;
    assert_true(all > 20);
    for (int n = 1; n <= all; n += stride) {
        count = 0;
        fail_at = n;
        const lks_status status = what(text);
        fail_at = 0;
        if (status != LKS_E_NOMEM)
            fail_msg("allocation %d of %d: %s: %s", n, all, lks_status_name(status),
                     lks_last_error()->message);
        assert_true(strlen(lks_last_error()->message) > 10);
    }
}

static void reads_and_prints(void **state)
{
    char *text = long_text();
    (void)state;
    try_all(read_and_print, text, 1000);
    free(text);
}

static const char trained[] = "data: {name: digits, samples: 40, test_samples: 10}\n"
                              "model: {layers: [flatten, dense: 10]}\n"
                              "train: {steps: 2, batch_size: 10, device: ref, workers: 1}\n";

static void trains(void **state)
{
    (void)state;
    try_all(train, trained, 100);
}

/* Behind the last step of `trained` allocation number *user fails. */
static lks_status fail_behind(void *user, const lks_step_event *event)
{
    if (event->step == 2) {
        count = 0;
        fail_at = *(int *)user;
    }
    return LKS_OK;
}

/* A run whose steps are all done has its hash, although there is no memory to save it. */
static void what_cannot_be_saved_has_its_hash(void **state)
{
    const char *folder = lkt_make_folder();
    uint64_t hash = 0;
    int saved = 0, complete = 0;
    (void)state;
    for (int n = 1000; saved == 0 || n > 0; n = n == 1000 ? 40 : n - 1) {
        const lks_train_events events = {.on_step = fail_behind, .user = &n};
        const lks_run *run;
        lks_recipe *recipe;
        char path[400];
        bool has_hash;
        LKT_OK(lks_recipe_open_text(&recipe, NULL, trained));
        snprintf(path, sizeof path, "checkpoint.path=%s/%d", folder, n);
        LKT_OK(lks_recipe_set(recipe, path));
        const lks_status status = lks_recipe_run(recipe, &events, &run, &has_hash);
        fail_at = 0;
        if (status == LKS_OK) {
            assert_true(has_hash);
            saved++;
            hash = run->hash;
        } else {
            if (status != LKS_E_NOMEM)
                fail_msg("allocation %d: %s: %s", n, lks_status_name(status),
                         lks_last_error()->message);
            if (has_hash) assert_int_equal(run->hash, hash);
            complete += has_hash;
        }
        lks_recipe_close(recipe);
    }
    assert_true(saved > 0 && complete > 3);
    lkt_remove_folder();
}

static lks_status open_data(const char *text)
{
    lks_recipe *recipe;
    lks_status status = lks_recipe_open_text(&recipe, NULL, text);
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN | LKS_RECIPE_TEST);
    lks_recipe_close(recipe);
    return status;
}

/* A table of texts, whose vocabulary is made. */
static void texts_of_a_table_are_opened(void **state)
{
    static const char *const levels[] = {"word", "char", "bpe", "byte"};
    const char *folder = lkt_make_folder();
    char path[400], text[1400];
    (void)state;
    snprintf(path, sizeof path, "%s/t.csv", folder);
    static const char csv[] = "t,c\n\"a \"\"b\"\"\",u\nb c,v\nc a,u\nb,v\n";
    LKT_OK(lks_file_write(path, csv, sizeof csv - 1));
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text,
                 "data: {table: '%s', test_table: '%s', text_column: t, level: %s, context: 4}\n"
                 "model: {name: encoder}\n",
                 path, path, levels[i]);
        try_all(open_data, text, 400);
    }
    lkt_remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_prints),
        cmocka_unit_test(trains),
        cmocka_unit_test(texts_of_a_table_are_opened),
        cmocka_unit_test(what_cannot_be_saved_has_its_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
