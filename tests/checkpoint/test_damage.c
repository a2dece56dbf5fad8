/* Checkpoints that are damaged or of others, records that are, and saves that fail. */
#include "checkpoint/checkpoints.h"

static char *read_file(const char *name, size_t *bytes)
{
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    char *data = malloc(1 << 16);
    assert_non_null(data);
    *bytes = fread(data, 1, (1 << 16) - 1, file);
    data[*bytes] = '\0';
    fclose(file);
    return data;
}

static void damaged_ones_are_refused(void **state)
{
    (void)state;
    const char *tensors = "step-00000005.safetensors", *record = "step-00000005.json";
    const tiny_opts opts = {.optim = lks_sgd(0.5f)};
    size_t bytes, record_bytes;
    save_five(&opts);
    char *data = read_file(tensors, &bytes), *text = read_file(record, &record_bytes);

    data[bytes - 3] ^= 4;
    write_file(tensors, data, bytes);
    refuses(&opts, LKS_E_FORMAT, "is damaged: its checksum is ");
    refuses(&opts, LKS_E_FORMAT, "there is no checkpoint before it: start in another folder");
    write_file("step-00000003.json", "x", 1);
    refuses(&opts, LKS_E_FORMAT, "step-00000005.json' to continue from step 3, the one before it");
    data[bytes - 3] ^= 4;
    write_file(tensors, data, bytes - 1);
    refuses(&opts, LKS_E_FORMAT, "is damaged: it has ");
    memset(data, 0, 8);
    data[7] = (char)0x80;
    write_file(tensors, data, bytes);
    refuses(&opts, LKS_E_FORMAT, "is damaged");
    unlink(in_folder(tensors));
    refuses(&opts, LKS_E_IO, "no such file");
    refuses(&opts, LKS_E_IO, "remove '");
    free(data);
    save_five(&opts);

    *strstr(text, "\"step\": 5") = '\'';
    write_file(record, text, record_bytes);
    refuses(&opts, LKS_E_FORMAT, "its last line is not the checksum");
    *strstr(text, "'step\": 5") = '"';
    write_file(record, text, record_bytes / 2);
    refuses(&opts, LKS_E_FORMAT, "its last line is not the checksum");
    write_file(record, "", 0);
    refuses(&opts, LKS_E_FORMAT, "its last line is not the checksum");
    write_file(record, text, record_bytes);
    tiny t = tiny_open(&opts);
    lks_run run;
    LKT_OK(lks_checkpoint_load(t.context, t.model, &run, folder, 5));
    lks_run_clear(&run);
    tiny_close(&t);
    free(text);
}

/* Puts the right checksum at the end of a text that has been changed. */
static void seal(char *text, size_t bytes)
{
    const size_t tail = strlen(",\n  \"checksum\": \"0123456789abcdef\"\n}\n");
    char sum[17];
    snprintf(sum, sizeof sum, "%016" PRIx64, lki_hash(text, bytes - tail));
    memcpy(text + bytes - 20, sum, 16);
}

static char *edit_record(const char *find, const char *put)
{
    size_t bytes;
    char *text = read_file("step-00000005.json", &bytes);
    char *at = strstr(text, find);
    assert_non_null(at);
    assert_true(bytes + strlen(put) < 1 << 16);
    memmove(at + strlen(put), at + strlen(find), strlen(at + strlen(find)) + 1);
    memcpy(at, put, strlen(put));
    bytes += strlen(put) - strlen(find);
    seal(text, bytes);
    write_file("step-00000005.json", text, bytes);
    return text;
}

static void edited_ones_are_refused(void **state)
{
    (void)state;
    const char *changes[][3] = {
        {"\"lockstep_checkpoint\": 1", "\"lockstep_checkpoint\": 2", "use the newer program"},
        {"\"lockstep_checkpoint\": 1", "\"lockstep_checkpoint\": X", "entry is missing"},
        {"\"lockstep_checkpoint\": 1", "\"lockstep-checkpoint\": 1", "entry is missing"},
        {"\"step\": 5", "\"step\": 6", "is of step 6: it has been renamed"},
        {"\"best_step\": -1", "\"best_step\": -2", "entry is missing or not valid"},
        {"\"step\": 5", "\"step\": 9223372036854775807", "entry is missing or not valid"},
        {"\"samples\": 0", "\"samples\": 9223372036854775807", "entry is missing or not valid"},
        {"\"samples\": 0", "\"samples\": -1", "entry is missing or not valid"},
        {"\"correct\": 0", "\"correct\": 1", "entry is missing or not valid"},
        {"\"not_finite\": 0", "\"not_finite\": 1", "entry is missing or not valid"},
        {"\"bad_epochs\": 0", "\"bad_epochs\": 2147483647", "entry is missing or not valid"},
        {"\"bad_epochs\": 0", "\"bad-epochs\": 0", "entry is missing or not valid"},
        {"\"finished\": false", "\"finished\": \"nix\"", "entry is missing or not valid"},
        {"\"seed\": \"0000", "\"seed\": \"000g", "entry is missing or not valid"},
        {"\"history\": []", "\"history\": {}", "entry is missing or not valid"},
        {"\"samples\": 0", "\"sampler\": 0", "entry is missing or not valid"},
        {"\"skipped_steps\": 0", "\"skipped_steps\": 6", "entry is missing or not valid"},
        {"\"plateau\": null", "\"plateau\": true", "entry is missing or not valid"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        save_five(&(tiny_opts){0});
        free(edit_record(changes[i][0], changes[i][1]));
        refuses(&(tiny_opts){0}, LKS_E_FORMAT, changes[i][2]);
        unlink(in_folder("step-00000005.json"));
    }
}

/* Records of before there were plateaus and skipped steps: without these entries. */
static void records_of_before_are_read(void **state)
{
    (void)state;
    const tiny_opts opts = {.optim = lks_adam()};
    save_five(&opts);
    free(edit_record("\"skipped_steps\"", "\"skipped-steps\""));
    free(edit_record("\"plateau\"", "\"plateav\""));
    tiny one = tiny_open(&opts), other = tiny_open(&opts);
    lks_run run;
    LKT_OK(lks_checkpoint_load(one.context, one.model, &run, folder, 5));
    assert_int_equal(run.progress.skipped, 0);
    assert_true(run.plateau.lr == 0.0);
    lks_run_clear(&run);
    tiny_steps(&one, 4);
    tiny_steps(&other, 9);
    const tiny_state a = tiny_read(&one), b = tiny_read(&other);
    tiny_assert_same(&a, &b);
    tiny_close(&one);
    tiny_close(&other);
}

/* Every byte of a record changed: seen by the checksum; and where the checksum is right again,
 * refused with a sentence or read, but never more than that. */
static void records_survive_damage(void **state)
{
    (void)state;
    lks_epoch history[2];
    tiny t = tiny_open(&(tiny_opts){0});
    const lks_run run = full_run(&t, history);
    char *text;
    LKT_OK(lki_run_print(&run, "t", &(lki_identity){.bytes = 7, .checksum = 9}, &text));
    const size_t bytes = strlen(text);
    lks_run found;
    lki_identity tensors;
    const char values[] = {'\0', '\xff', '"', '9', '-', '}', 'n', 'x'};
    int64_t read = 0, all = 0;
    for (size_t at = 0; at < bytes; at++) {
        const char right = text[at];
        for (size_t i = 0; i < sizeof values; i++) {
            if (values[i] == right) continue;
            text[at] = values[i];
            LKT_FAILS(LKS_E_FORMAT, "damaged", lki_run_parse("r", text, bytes, &found, &tensors));
            char *copy = malloc(bytes);
            assert_non_null(copy);
            memcpy(copy, text, bytes);
            seal(copy, bytes);
            if (lki_run_parse("r", copy, bytes, &found, &tensors) == LKS_OK) {
                assert_true(found.progress.step >= 0 && found.replicas >= 1);
                lks_run_clear(&found);
                read++;
            } else {
                assert_int_equal(lks_last_error()->status, LKS_E_FORMAT);
            }
            all++;
            free(copy);
        }
        text[at] = right;
        LKT_FAILS(LKS_E_FORMAT, "damaged", lki_run_parse("r", text, at, &found, &tensors));
    }
    print_message("%" PRId64 " of %" PRId64 " sealed again are read\n", read, all);
    LKT_OK(lki_run_parse("r", text, bytes, &found, &tensors));
    assert_same_run(&run, &found);
    assert_true(tensors.bytes == 7 && tensors.checksum == 9);
    lks_run_clear(&found);
    free(text);
    tiny_close(&t);
}

/* No room for the next checkpoint: the error says so, the one before is whole, nothing is left. */
static void full_disk(void **state)
{
    (void)state;
    struct rlimit old;
    char config[8192];
    memset(config, 'x', sizeof config - 1);
    config[sizeof config - 1] = '\0';
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adam()});
    tiny_steps(&t, 5);
    save(&t, 1);
    tiny_steps(&t, 1);
    lks_run run = tiny_run(&t);
    run.config = config;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    /* The tensors have less than 4 kB, the record more than 8. */
    for (rlim_t room = 0; room <= 8192; room += 1024) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){room, old.rlim_max}), 0);
        const lks_status status = lks_checkpoint_save(t.model, &run, folder, 1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        LKT_FAILS(LKS_E_IO, "the file would be larger than is allowed", status);
        const char *failed = room < 4096 ? "00006.safetensors" : "00006.json";
        if (room < 1024 || room >= 4096) assert_non_null(strstr(lks_last_error()->message, failed));

        int files = 0;
        DIR *open = opendir(folder);
        while (readdir(open)) files++;
        closedir(open);
        assert_int_equal(files, 4); /* . .. and the pair */
    }
    signal(SIGXFSZ, handler);
    assert_int_equal(newest(), 5);
    LKT_OK(lks_checkpoint_load(t.context, t.model, &run, folder, 5));
    lks_run_clear(&run);
    tiny_close(&t);
}

static void saves_refuse(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){.seed = 3});
    tiny_steps(&t, 1);
    save(&t, 1);
    tiny_steps(&t, 1);
    const lks_run good = tiny_run(&t);
    lks_run run = good;
    run.progress.step = 1;
    LKT_FAILS(LKS_E_INVALID, "says step 1, its model is at step 2",
              lks_checkpoint_save(t.model, &run, folder, 1));
    run = good;
    run.replicas = 8;
    LKT_FAILS(LKS_E_INVALID, "replicas 8, batch 8, hash_every 10, seed 3; its model has replicas 4",
              lks_checkpoint_save(t.model, &run, folder, 1));
    run = good;
    run.epochs = 1;
    LKT_FAILS(LKS_E_INVALID, "not valid", lks_checkpoint_save(t.model, &run, folder, 1));
    LKT_FAILS(LKS_E_INVALID, "keep -1", lks_checkpoint_save(t.model, &good, folder, -1));
    run = good;
    run.config = "\xff";
    LKT_FAILS(LKS_E_INVALID, "not UTF-8", lks_checkpoint_save(t.model, &run, folder, 1));

    float bias[TINY_CLASSES] = {0.0f, -INFINITY, 0.0f};
    const int index = lks_model_state_find(t.model, "head.bias");
    LKT_OK(lks_model_state_write(t.model, index, bias, sizeof bias));
    LKT_FAILS(LKS_E_NUMERIC, "parameter 'head.bias' is not finite after step 2: element 1 is -inf",
              lks_checkpoint_save(t.model, &good, folder, 1));
    assert_int_equal(newest(), 1);
    assert_false(there("step-00000002.safetensors"));
    tiny_close(&t);
}

/* A record of the same step from another run does not outlive its tensors. */
static void same_step_again(void **state)
{
    (void)state;
    save_five(&(tiny_opts){.seed = 1});
    save_five(&(tiny_opts){.seed = 2});
    refuses(&(tiny_opts){.seed = 1}, LKS_E_MISMATCH, "was made with seed 2");
    save_five(&(tiny_opts){.seed = 2});
    tiny t = tiny_open(&(tiny_opts){.seed = 2});
    lks_run run;
    LKT_OK(lks_checkpoint_load(t.context, t.model, &run, folder, 5));
    lks_run_clear(&run);
    tiny_close(&t);
}

/* Saving (first turn) and loading (second) with every allocation failing once. */
static void allocations_fail(void **state)
{
    (void)state;
    save_five(&(tiny_opts){0});
    for (int loading = 0; loading < 2; loading++) {
        lks_status status = LKS_E_NOMEM;
        for (int64_t n = 1; status != LKS_OK; n++) {
            lkt_heap heap = {0};
            tiny t = tiny_open(&(tiny_opts){.allocator = lkt_heap_allocator(&heap)});
            lks_run run = tiny_run(&t), found = {0};
            heap.fail_at = heap.allocations + n;
            status = loading ? lks_checkpoint_load(t.context, t.model, &found, folder, 5)
                             : lks_checkpoint_save(t.model, &run, folder, 0);
            lks_run_clear(&found);
            if (status != LKS_OK) {
                assert_int_equal(status, LKS_E_NOMEM);
                assert_int_equal(newest(), 5);
            }
            assert_true(status == LKS_OK || n < 50);
            tiny_close(&t);
            assert_int_equal(heap.live, 0);
            assert_int_equal(heap.errors, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(damaged_ones_are_refused),
        TEST(records_of_before_are_read),
        TEST(edited_ones_are_refused),
        TEST(records_survive_damage),
        TEST(full_disk),
        TEST(saves_refuse),
        TEST(same_step_again),
        TEST(allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
