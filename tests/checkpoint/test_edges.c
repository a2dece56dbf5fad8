/* Files at their edges: what cannot be removed or replaced, names that are too long, what a save writes to
 * the letter, and tensors under other names. */
#include "checkpoint/edges.h"
#include "support/backends.h"

/* A folder of this name that is not empty: it is no file, and cannot be unlinked. */
static void block(const char *name)
{
    char inner[64];
    assert_int_equal(mkdir(in_folder(name), 0777), 0);
    snprintf(inner, sizeof inner, "%s/x", name);
    assert_int_equal(mkdir(in_folder(inner), 0777), 0);
}

static int files(void)
{
    int count = -2; /* . and .. */
    DIR *open = opendir(folder);
    assert_non_null(open);
    while (readdir(open) != NULL) count++;
    closedir(open);
    return count;
}

static void save(tiny *t, int keep)
{
    const lks_run run = tiny_run(t);
    LKT_OK(lks_checkpoint_save(t->model, &run, folder, keep));
}

/* ---------------------------------------------------------------- what the log says */

typedef struct lines {
    char text[4][512];
    lks_log_level level[4];
    int count;
} lines;

static lines logged;

static void keep_line(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (logged.count == 4) return;
    logged.level[logged.count] = level;
    snprintf(logged.text[logged.count++], sizeof logged.text[0], "%s", line);
}

/* A checkpoint that cannot be removed stays whole, and the new one is good. */
static void what_cannot_be_removed_stays(void **state)
{
    (void)state;
    char expected[5000];
    tiny t = tiny_open(&(tiny_opts){.log = keep_line});
    LKT_OK(lki_folder_make(folder));
    block("step-00000001.json");
    write_file("step-00000001.safetensors", "x", 1);
    write_file("step-00000000.safetensors", "x", 1); /* of no record */
    write_file("step-00000003.safetensors", "x", 1);
    tiny_steps(&t, 2);
    logged.count = 0;
    save(&t, 1);
    assert_int_equal(logged.count, 1);
    assert_int_equal(logged.level[0], LKS_LOG_WARN);
    snprintf(expected, sizeof expected,
             "'%s/step-00000001.json' could not be removed: Is a directory", folder);
    assert_string_equal(logged.text[0], expected);
    assert_true(there("step-00000001.json") && there("step-00000001.safetensors"));
    assert_false(there("step-00000000.safetensors"));
    assert_false(there("step-00000003.safetensors"));
    assert_int_equal(files(), 4);
    tiny_close(&t);
}

/* Checkpoints of later steps are another run's affair. */
static void later_ones_stay(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){0});
    LKT_OK(lki_folder_make(folder));
    write_file("step-00000009.json", "x", 1);
    write_file("step-00000009.safetensors", "x", 1);
    tiny_steps(&t, 1);
    save(&t, 1);
    tiny_steps(&t, 1);
    save(&t, 1);
    assert_true(there("step-00000009.json") && there("step-00000009.safetensors"));
    assert_true(there("step-00000002.json") && !there("step-00000001.json"));
    assert_int_equal(files(), 4);
    tiny_close(&t);
}

/* A record of the same step that cannot go: nothing is written, and nothing unfinished is left. */
static void what_cannot_be_replaced_stays(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){0});
    LKT_OK(lki_folder_make(folder));
    block("step-00000002.json");
    tiny_steps(&t, 2);
    const lks_run run = tiny_run(&t);
    LKT_FAILS(LKS_E_IO, "step-00000002.json' cannot be replaced: Is a directory",
              lks_checkpoint_save(t.model, &run, folder, 1));
    assert_int_equal(files(), 1);
    tiny_close(&t);
}

static void saves_and_loads_are_logged(void **state)
{
    (void)state;
    lks_context *context;
    lks_run run;
    char saved[5000];
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device("ref"),
                                                            .log = keep_line,
                                                            .log_level = LKS_LOG_DEBUG}));
    tiny t = tiny_open(&(tiny_opts){0});
    save(&t, 1);
    logged.count = 0;
    LKT_OK(lks_checkpoint_load(context, t.model, &run, folder, 0));
    lks_run_clear(&run);
    assert_int_equal(logged.count, 3); /* behind the files that are opened */
    assert_int_equal(logged.level[2], LKS_LOG_DEBUG);
    snprintf(saved, sizeof saved, "loaded '%s/step-00000000.safetensors' in ", folder);
    assert_int_equal(strncmp(logged.text[2], saved, strlen(saved)), 0);
    const double seconds = strtod(logged.text[2] + strlen(saved), NULL);
    assert_true(seconds >= 0 && seconds < 60);
    logged.count = 0; /* a record alone is not worth a line */
    LKT_OK(lks_checkpoint_load(context, NULL, &run, folder, 0));
    lks_run_clear(&run);
    assert_int_equal(logged.count, 1);
    lks_context_destroy(context);
    tiny_close(&t);
}

/* ---------------------------------------------------------------- names */

/* A folder's name of so many bytes, below the test's. */
static char *long_name(size_t bytes)
{
    static char name[FOLDER_PATH];
    size_t used = (size_t)snprintf(name, sizeof name, "%s", folder);
    while (used < bytes) {
        const size_t left = bytes - used;
        size_t part = left > 220 ? 200 : left;
        if (left == 1) name[used - 1] = 'x', part = 1;
        memset(name + used, 'd', part);
        if (part > 1) name[used] = '/';
        used += part;
        name[used] = '\0';
    }
    assert_int_equal(strlen(name), bytes);
    return name;
}

/* 4,095 bytes is the longest path. */
static void names_have_a_longest(void **state)
{
    (void)state;
    const size_t tensors = strlen("/step-00000000.safetensors"), lock = strlen("/.lockstep.lock");
    lks_folder_lock *held;
    lks_run run;
    char expected[200];
    tiny t = tiny_open(&(tiny_opts){0});
    const lks_run own = tiny_run(&t);

    char *name = long_name(4096 - tensors);
    snprintf(expected, sizeof expected, "the name of the folder '%.60s...' is too long: %zu bytes",
             name, strlen(name));
    LKT_FAILS(LKS_E_INVALID, expected, lks_checkpoint_save(t.model, &own, name, 1));
    LKT_FAILS(LKS_E_INVALID, expected, lks_checkpoint_load(NULL, t.model, &run, name, 0));
    LKT_FAILS(LKS_E_INVALID, expected, lks_checkpoint_check(NULL, name, 0));
    name = long_name(4095 - tensors);
    LKT_FAILS(LKS_E_IO, "no such file", lks_checkpoint_load(NULL, t.model, &run, name, 0));
    LKT_FAILS(LKS_E_IO, "no such file", lks_checkpoint_check(NULL, name, 0));

    name = long_name(4095 - lock);
    LKT_OK(lks_checkpoint_lock(&held, NULL, name));
    lks_checkpoint_unlock(held);
    LKT_FAILS(LKS_E_IO, "lock the folder",
              lks_checkpoint_lock(&held, NULL, long_name(4096 - lock)));
    assert_null(held);
    tiny_close(&t);
}

static const char *shown(const char *name)
{
    static char buffer[LKI_NAME_TEXT];
    return lki_name_print(name, buffer);
}

/* At most 80 bytes, and nothing that a terminal would obey. */
static void names_are_printed_short(void **state)
{
    (void)state;
    char name[100] = "", text[LKI_TENSOR_TEXT];
    memset(name, 'n', 80);
    assert_string_equal(shown(name), name);
    name[80] = 'm';
    assert_int_equal(strlen(shown(name)), 80);
    assert_true(strncmp(shown(name), name, 77) == 0 && strcmp(shown(name) + 77, "...") == 0);
    assert_string_equal(shown("a\x1f\x20\x7e\x7f\xc3\xa9\n"), "a?\x20\x7e?\xc3\xa9?");
    assert_string_equal(shown(""), "");
    const lks_shape none = {0}, three = LKS_SHAPE(64, 7, 1);
    assert_string_equal(lki_tensor_print(LKS_I64, &none, text), "I64");
    assert_string_equal(lki_tensor_print(LKS_F32, &three, text), "64x7x1 F32");
}

/* ---------------------------------------------------------------- runs that cannot be saved */

static void bad_run(tiny *t, const lks_run *run, const char *part)
{
    LKT_FAILS(LKS_E_INVALID, part, lks_checkpoint_save(t->model, run, folder, 1));
    assert_int_equal(access(folder, F_OK), -1);
}

static void every_field_is_compared(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){.seed = 3});
    tiny_steps(&t, 2);
    const lks_run good = tiny_run(&t);
    lks_run run = good;
    run.global_batch = 9;
    bad_run(&t, &run,
            "the run to save has replicas 4, batch 9, hash_every 10, seed 3; its model "
            "has replicas 4, batch 8, hash_every 10, seed 3");
    run = good;
    run.hash_every = 11;
    bad_run(&t, &run, "has replicas 4, batch 8, hash_every 11, seed 3; its model");
    run = good;
    run.seed = 4;
    bad_run(&t, &run, "hash_every 10, seed 4; its model has replicas 4, batch 8, hash_every 10");
    run = good;
    run.best_step = -2;
    bad_run(&t, &run,
            "the run to save is not valid: keep 1, best_step -2, bad_epochs 0, epochs 0; "
            "expected 0, -1, 0, 0 or more");
    run = good;
    run.bad_epochs = -1;
    bad_run(&t, &run, "best_step -1, bad_epochs -1, epochs 0;");
    run = good;
    run.epochs = -1;
    bad_run(&t, &run, "bad_epochs 0, epochs -1;");
    run = good;
    run.progress.step = 3;
    bad_run(&t, &run, "the run to save says step 3, its model is at step 2: set run.progress");
    LKT_OK(lks_checkpoint_save(t.model, &good, folder, 0));
    tiny_close(&t);
}

/* ---------------------------------------------------------------- what a file has */

/* ---------------------------------------------------------------- other names */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_be_removed_stays),  TEST(later_ones_stay),
        TEST(what_cannot_be_replaced_stays), TEST(saves_and_loads_are_logged),
        TEST(names_have_a_longest),          TEST(names_are_printed_short),
        TEST(every_field_is_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
