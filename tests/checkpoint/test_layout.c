/* What a save writes to the letter, and tensors under other names. */
#include "checkpoint/edges.h"

static size_t read_file(const char *name, char *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, size, file);
    assert_true(bytes < size);
    fclose(file);
    return bytes;
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_laid_out),
        TEST(identities_are_of_the_bytes),
        TEST(missing_tensors_are_explained),
        TEST(more_tensors_are_named),
        TEST(averages_are_saved_as_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
