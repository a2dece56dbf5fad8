/* Files at their edges: what cannot be removed or replaced, names that are too long, what a save writes to
 * the letter, and tensors under other names. */
#include "train/folder.h"
#include "train/tiny.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numeric/hash.h"
#include "train/state.h"

static void write_file(const char *name, const void *data, size_t bytes)
{
    unlink(in_folder(name));
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *name, char *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, size, file);
    assert_true(bytes < size);
    fclose(file);
    return bytes;
}

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
    LKT_OK(lks_context_create(
        &context,
        &(lks_context_opts){.device = "ref", .log = keep_line, .log_level = LKS_LOG_DEBUG}));
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

/* The header's length is a multiple of 8, wide types come first, and every tensor is aligned. */
static void files_are_laid_out(void **state)
{
    (void)state;
    static const char *const order[] = {
        "bn.num_batches_tracked", "fc1.weight",     "fc1.bias",    "bn.weight", "bn.bias",
        "bn.running_mean",        "bn.running_var", "head.weight", "head.bias"};
    char data[8192];
    size_t end = 0;
    lks_tensor_file *file;
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adam(), .model = {.ema_decay = 0.5}});
    tiny_steps(&t, 3);
    LKT_OK(lki_folder_make(folder));
    LKT_OK(lks_weights_save(t.model, in_folder("w")));
    const size_t bytes = read_file("w", data, sizeof data);
    size_t header = 0;
    for (int i = 7; i >= 0; i--) header = header * 256 + (unsigned char)data[i];
    assert_int_equal(header % 8, 0);
    assert_true(strncmp(data + 8, "{\"__metadata__\":{\"format\":\"pt\"},", 32) == 0);
    const char last = data[8 + header - 1];
    assert_true(last == '}' || last == ' ');
    LKT_OK(lks_tensor_file_open(&file, NULL, in_folder("w")));
    assert_int_equal(lks_tensor_file_count(file), 9);
    for (int i = 0; i < 9; i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        assert_string_equal(entry.name, order[i]);
        assert_int_equal(entry.dtype, i == 0 ? LKS_I64 : LKS_F32);
        assert_memory_equal(entry.data, data + 8 + header + end, entry.bytes);
        end += entry.bytes;
    }
    assert_int_equal(bytes, 8 + header + end);
    assert_string_equal(lks_tensor_file_metadata(file, "format"), "pt");
    assert_null(lks_tensor_file_metadata(file, "other"));
    assert_null(lks_tensor_file_metadata(file, NULL));
    assert_null(lks_tensor_file_metadata(NULL, "format"));
    assert_null(lks_tensor_file_entry(file, 9).name);
    assert_null(lks_tensor_file_entry(file, -1).name);
    assert_null(lks_tensor_file_entry(NULL, 0).name);
    assert_int_equal(lks_tensor_file_find(file, "head.bias"), 8);
    assert_int_equal(lks_tensor_file_find(file, "bias"), -1);
    assert_int_equal(lks_tensor_file_find(file, NULL), -1);
    assert_int_equal(lks_tensor_file_count(NULL), 0);
    lks_tensor_file_close(file);
    tiny_close(&t);
}

/* What a writer is told of its file is the file's. */
static void identities_are_of_the_bytes(void **state)
{
    (void)state;
    char data[16384];
    lki_writer *writer;
    lki_identity identity;
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adam()});
    LKT_OK(lki_folder_make(folder));
    LKT_OK(lki_writer_open(&writer, NULL, in_folder("s")));
    LKT_OK(lki_state_write(t.model, LKI_STATE_ALL, writer, &identity));
    LKT_OK(lki_writer_commit(writer));
    const size_t bytes = read_file("s", data, sizeof data);
    assert_int_equal(identity.bytes, bytes);
    assert_true(identity.checksum == lki_hash(data, bytes));
    lks_tensor_file *file;
    LKT_OK(lki_tensor_file_open(&file, NULL, in_folder("s"), &identity));
    assert_int_equal(lks_tensor_file_count(file), 9 + 2 * 6);
    LKT_OK(lki_state_check(t.model, LKI_STATE_WEIGHTS, file, "it"));
    LKT_OK(lki_state_check(t.model, LKI_STATE_ALL, file, "it"));
    lks_tensor_file_close(file);
    char expected[200];
    snprintf(expected, sizeof expected, "/s' is damaged: it has %zu bytes, expected %zu", bytes,
             bytes + 1);
    identity.bytes++;
    LKT_FAILS(LKS_E_FORMAT, expected, lki_tensor_file_open(&file, NULL, in_folder("s"), &identity));
    identity.bytes--;
    identity.checksum++;
    snprintf(expected, sizeof expected, "its checksum is %016llx, expected %016llx",
             (unsigned long long)identity.checksum - 1, (unsigned long long)identity.checksum);
    LKT_FAILS(LKS_E_FORMAT, expected, lki_tensor_file_open(&file, NULL, in_folder("s"), &identity));
    tiny_close(&t);
}

/* ---------------------------------------------------------------- other names */

/* The file "w" with a name exchanged for another one. */
static void rename_tensor(const char *from, const char *to)
{
    char data[16384], edited[16384], quoted[2][100];
    const size_t bytes = read_file("w", data, sizeof data - 1);
    size_t header = 0;
    for (int i = 7; i >= 0; i--) header = header * 256 + (unsigned char)data[i];
    snprintf(quoted[0], sizeof quoted[0], "\"%s\":", from);
    snprintf(quoted[1], sizeof quoted[1], "\"%s\":", to);
    const char *at = data + 8;
    while (strncmp(at, quoted[0], strlen(quoted[0])) != 0) {
        assert_true(at < data + 8 + header);
        at++;
    }
    const size_t before = (size_t)(at - data), more = strlen(quoted[1]), less = strlen(quoted[0]);
    memcpy(edited, data, before);
    memcpy(edited + before, quoted[1], more);
    memcpy(edited + before + more, at + less, bytes - before - less);
    header += more - less;
    for (int i = 0; i < 8; i++) edited[i] = (char)(header >> (8 * i));
    write_file("w", edited, bytes + more - less);
}

static void write_state(tiny *t, lki_state_set set)
{
    lki_writer *writer;
    LKT_OK(lki_writer_open(&writer, NULL, in_folder("w")));
    LKT_OK(lki_state_write(t->model, set, writer, NULL));
    LKT_OK(lki_writer_commit(writer));
}

static void mismatch(const tiny *t, lki_state_set set, const char *expected)
{
    lks_tensor_file *file;
    LKT_OK(lks_tensor_file_open(&file, NULL, in_folder("w")));
    assert_int_equal(lki_state_check(t->model, set, file, "it"), LKS_E_MISMATCH);
    assert_string_equal(lks_last_error()->message, expected);
    lks_tensor_file_close(file);
}

static void missing_tensors_are_explained(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adam(), .model = {.ema_decay = 0.5}});
    LKT_OK(lki_folder_make(folder));
    write_state(&t, LKI_STATE_WEIGHTS);
    mismatch(
        &t, LKI_STATE_ALL,
        "it has no 'ema.fc1.weight': it was made without averages of the parameters (ema), and "
        "they cannot begin later");
    rename_tensor("fc1.weight", "module.fc1.weight");
    mismatch(&t, LKI_STATE_WEIGHTS,
             "it has no tensor 'fc1.weight', but has 'module.fc1.weight': rename its tensors "
             "without the prefix");
    rename_tensor("module.fc1.weight", "modulefc1.weight"); /* no prefix */
    mismatch(&t, LKI_STATE_WEIGHTS,
             "it has no tensor 'fc1.weight', which the model needs (its first of 9 is "
             "'bn.num_batches_tracked'): it belongs to another network");
    write_state(&t, LKI_STATE_ALL);
    rename_tensor("ema.fc1.bias", "x.ema.fc1.bias"); /* no prefix explains that */
    mismatch(&t, LKI_STATE_ALL,
             "it has no 'ema.fc1.bias': it was made without averages of the parameters (ema), and "
             "they cannot begin later");
    write_state(&t, LKI_STATE_ALL);
    rename_tensor("optimizer.exp_avg.bn.bias", "x.optimizer.exp_avg.bn.bias");
    mismatch(&t, LKI_STATE_ALL,
             "it has no 'optimizer.exp_avg.bn.bias', which this run's optimizer keeps: it was made "
             "with another optimizer, or by another network");
    write_file("w", "\2\0\0\0\0\0\0\0{}", 10);
    mismatch(&t, LKI_STATE_WEIGHTS, "it has no tensors, expected 'fc1.weight'");
    tiny_close(&t);
}

/* Weights may have more beside them, a checkpoint may not. */
static void more_tensors_are_named(void **state)
{
    (void)state;
    lks_tensor_file *file;
    tiny plain = tiny_open(&(tiny_opts){0});
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adam()});
    LKT_OK(lki_folder_make(folder));
    write_state(&t, LKI_STATE_ALL);
    mismatch(&plain, LKI_STATE_ALL,
             "it has a tensor 'optimizer.exp_avg.fc1.weight', which the model does not: it belongs "
             "to another network or optimizer");
    LKT_OK(lks_tensor_file_open(&file, NULL, in_folder("w")));
    LKT_OK(lki_state_check(plain.model, LKI_STATE_WEIGHTS, file, "it"));
    lks_tensor_file_close(file);
    tiny deep = tiny_open(&(tiny_opts){.hidden = 7});
    mismatch(&deep, LKI_STATE_WEIGHTS,
             "it belongs to another network: its 'fc1.weight' is 5x6 F32, the model's is 7x6 F32");
    tiny_close(&deep);
    tiny_close(&t);
    tiny_close(&plain);
}

/* Weights of a model that has been asked to use its averages are those; its checkpoints have both. */
static void averages_are_saved_as_weights(void **state)
{
    (void)state;
    lks_tensor_file *file;
    tiny t = tiny_open(&(tiny_opts){.model = {.ema_decay = 0.5}});
    tiny_steps(&t, 4);
    LKT_OK(lki_folder_make(folder));
    for (int use = 0; use < 2; use++)
        for (int all = 0; all < 2; all++) {
            LKT_OK(lks_model_use_averages(t.model, use));
            write_state(&t, all ? LKI_STATE_ALL : LKI_STATE_WEIGHTS);
            LKT_OK(lks_tensor_file_open(&file, NULL, in_folder("w")));
            for (int i = 0; i < lks_model_state_count(t.model); i++) {
                const lks_state_info info = lks_model_state_info(t.model, i);
                char values[512], name[100];
                if (info.kind != LKS_PARAMETER) continue;
                snprintf(name, sizeof name, "%s%s", use && !all ? "ema." : "", info.name);
                LKT_OK(lks_model_state_read(t.model, lks_model_state_find(t.model, name), values,
                                            info.bytes));
                const int index = lks_tensor_file_find(file, info.name);
                assert_memory_equal(lks_tensor_file_entry(file, index).data, values, info.bytes);
                if (use || strcmp(info.name, "head.weight") != 0) continue;
                snprintf(name, sizeof name, "ema.%s", info.name);
                LKT_OK(lks_model_state_read(t.model, lks_model_state_find(t.model, name), values,
                                            info.bytes));
                assert_memory_not_equal(lks_tensor_file_entry(file, index).data, values,
                                        info.bytes);
            }
            lks_tensor_file_close(file);
        }
    tiny_close(&t);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_be_removed_stays),  TEST(later_ones_stay),
        TEST(what_cannot_be_replaced_stays), TEST(saves_and_loads_are_logged),
        TEST(names_have_a_longest),          TEST(names_are_printed_short),
        TEST(every_field_is_compared),       TEST(files_are_laid_out),
        TEST(identities_are_of_the_bytes),   TEST(missing_tensors_are_explained),
        TEST(more_tensors_are_named),        TEST(averages_are_saved_as_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
