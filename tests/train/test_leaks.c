/*
 * What is opened is closed and what is taken is given back, by what succeeds and by what is refused. The
 * C library's allocator is counted, which the JSON and the file layers use beside the context's; where a
 * sanitizer is built in, that looks.
 */
#include "support/backends.h"
#include "train/folder.h"
#include "train/job.h"

#include <dirent.h>
#include <stdatomic.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "train/run.h"

#if defined(__GLIBC__) && !LKT_SANITIZER
#define COUNTED 1
#else
#define COUNTED 0
#endif

static _Atomic int64_t live; /* blocks */

/* Allocations of this thread, of which the last has no memory; 0: all have. A worker's that starts late
 * is none of the training's. */
static _Thread_local int64_t fail_in;

#if COUNTED
#pragma GCC visibility push(default) /* for the shared libraries */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

static bool fails(void)
{
    return fail_in > 0 && --fail_in == 0;
}

static void *counted(void *block)
{
    if (block != NULL) atomic_fetch_add(&live, 1);
    return block;
}

void *malloc(size_t bytes)
{
    return fails() ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : counted(__libc_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes)
{
    if (fails()) return NULL;
    void *grown = __libc_realloc(block, bytes);
    return block == NULL ? counted(grown) : grown;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return counted(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    *out = counted(__libc_memalign(alignment, bytes));
    return *out != NULL ? 0 : 12;
}

void free(void *block)
{
    if (block != NULL) atomic_fetch_sub(&live, 1);
    __libc_free(block);
}
#pragma GCC visibility pop
#endif

static int descriptors(void)
{
    int count = 0;
    DIR *open = opendir("/proc/self/fd");
    assert_non_null(open);
    while (readdir(open) != NULL) count++;
    closedir(open);
    return count;
}

/* What is kept for the next time (stacks, buffers) is there after the second. */
static void leaves_nothing(const char *name, void (*body)(void))
{
    body();
    body();
    const int64_t before = live;
    const int files = descriptors();
    for (int i = 0; i < 3; i++) body();
    if (live != before)
        fail_msg("%s: %lld blocks are left of three calls", name, (long long)(live - before));
    if (descriptors() != files) fail_msg("%s leaves files open", name);
}

/* ---------------------------------------------------------------- trainings */

static void write_text(const char *name, const char *text, size_t bytes)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void train_and_resume(void)
{
    for (int k = 0; k < 4; k++) {
        lks_run run;
        job *j = job_open(&(tiny_opts){.seed = 1,
                                       .workers = 2,
                                       .optim = lks_adamp(),
                                       .model = {.ema_decay = 0.5, .clip_norm = 1}},
                          2);
        lks_train_opts opts = job_opts(j, k < 3 ? folder : NULL);
        opts.config = "{}";
        opts.resume = k > 0 && k < 3;
        opts.patience = 5;
        opts.save_steps = 2;
        opts.keep = 1;
        opts.epochs = 2;
        j->stop_step = k == 0 ? 9 : 0;
        const lks_status status = lks_train(j->net.context, &opts, k < 2 ? &run : NULL);
        assert_int_equal(status, k == 0 ? LKS_E_STOPPED : LKS_OK);
        if (k < 2) lks_run_clear(&run);
        job_close(j);
    }
    lkt_remove_folder();
    snprintf(folder, sizeof folder, "%s/run", lkt_make_folder());
}

static void trainings(void **state)
{
    (void)state;
    leaves_nothing("training", train_and_resume);
}

/* Refused: by another network, other data, a damaged record and damaged tensors, as finished by nobody. */
static void refuse_to_train(void)
{
    job *j = job_open(&(tiny_opts){.seed = 1}, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.data_hash = 1;
    opts.steps = 5;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    assert_true(lks_train(j->net.context, &opts, NULL) == LKS_OK);
    opts.resume = true;
    opts.data_hash = 2;
    LKT_FAILS(LKS_E_MISMATCH, "other data", lks_train(j->net.context, &opts, NULL));
    opts.data_hash = 1;
    opts.model = NULL;
    LKT_FAILS(LKS_E_INVALID, "a model", lks_train(j->net.context, &opts, NULL));
    job_close(j);
    j = job_open(&(tiny_opts){.seed = 1, .hidden = 7}, 1);
    opts = job_opts(j, folder);
    opts.resume = true;
    LKT_FAILS(LKS_E_MISMATCH, "another network", lks_train(j->net.context, &opts, NULL));
    opts.resume = false;
    LKT_FAILS(LKS_E_MISMATCH, "earlier run", lks_train(j->net.context, &opts, NULL));
    lks_run run;
    write_text("step-00000005.json", "x", 1);
    LKT_FAILS(LKS_E_FORMAT, "damaged",
              lks_checkpoint_load(j->net.context, j->net.model, &run, folder, 5));
    LKT_FAILS(LKS_E_FORMAT, "damaged", lks_checkpoint_check(j->net.context, folder, 5));
    job_close(j);
    lkt_remove_folder();
    snprintf(folder, sizeof folder, "%s/run", lkt_make_folder());
}

static void refusals(void **state)
{
    (void)state;
    leaves_nothing("a refused training", refuse_to_train);
}

/* Wherever the C library has no memory, a training says so, or its run is whole. */
static void allocations_fail(void **state)
{
    (void)state;
    if (!COUNTED) skip();
    for (int64_t n = 1;; n++) {
        lks_run run;
        job *j = job_open(&(tiny_opts){.workers = 1}, -1);
        lks_train_opts opts = job_opts(j, NULL);
        opts.epochs = 1;
        opts.config = "{}";
        opts.patience = 1;
        fail_in = n;
        const lks_status status = lks_train(NULL, &opts, &run);
        const bool failed = fail_in == 0;
        fail_in = 0;
        if (failed) assert_int_equal(status, LKS_E_NOMEM);
        if (!failed) {
            LKT_OK(status);
            assert_string_equal(run.config, "{}");
            assert_string_equal(run.fingerprint, lks_context_fingerprint(j->net.context));
            assert_int_equal(run.epochs, 1);
            assert_true(n > 4); /* two texts, a copy of the best, the history */
        }
        lks_run_clear(&run);
        job_close(j);
        if (!failed) return;
    }
}

/* ---------------------------------------------------------------- checkpoints and weights */

static void save_load_and_check(void)
{
    char path[4300];
    lks_run run;
    lks_folder_lock *lock, *other;
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adam()});
    tiny_steps(&t, 2);
    LKT_OK(lks_checkpoint_lock(&lock, t.context, folder));
    LKT_FAILS(LKS_E_IO, "in use", lks_checkpoint_lock(&other, t.context, folder));
    run = tiny_run(&t);
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1));
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1)); /* over itself */
    run.config = "\xff";
    LKT_FAILS(LKS_E_INVALID, "UTF-8", lks_checkpoint_save(t.model, &run, folder, 1));
    LKT_OK(lks_checkpoint_check(t.context, folder, 2));
    LKT_OK(lks_checkpoint_load(t.context, t.model, &run, folder, 2));
    lks_run_clear(&run);
    write_text("step-00000001.safetensors", "x", 1);
    tiny_steps(&t, 1);
    run = tiny_run(&t);
    LKT_OK(lks_checkpoint_save(t.model, &run, folder, 1));
    lks_checkpoint_unlock(lock);
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    LKT_OK(lks_weights_save(t.model, path));
    LKT_OK(lks_weights_load(t.model, path));
    LKT_FAILS(LKS_E_IO, "", lks_weights_save(t.model, "/proc/no/such"));
    tiny other_net = tiny_open(&(tiny_opts){.hidden = 4});
    LKT_FAILS(LKS_E_MISMATCH, "", lks_weights_load(other_net.model, path));
    tiny_close(&other_net);
    tiny_close(&t);
    lkt_remove_folder();
    snprintf(folder, sizeof folder, "%s/run", lkt_make_folder());
}

static void checkpoints(void **state)
{
    (void)state;
    leaves_nothing("a checkpoint", save_load_and_check);
}

static void read_tensor_files(void)
{
    static const char *const headers[] = {
        "{}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
        "{\"__metadata__\":{\"k\":\"v\"},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,"
        "1]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}",
        "{\"a\":1}",
        "{",
        "{\"__metadata__\":1}"};
    static const size_t data[] = {0, 4, 4, 9, 0, 0, 0};
    char path[4300];
    LKT_OK(lki_folder_make(folder));
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    for (size_t k = 0; k < sizeof headers / sizeof *headers; k++) {
        char file[512] = {(char)strlen(headers[k])};
        lks_tensor_file *found;
        memcpy(file + 8, headers[k], strlen(headers[k]));
        write_text("t.safetensors", file, 8 + strlen(headers[k]) + data[k]);
        const lks_status status = lks_tensor_file_open(&found, NULL, path);
        assert_int_equal(status, k < 2 || k == 3 ? LKS_OK : LKS_E_FORMAT);
        lks_tensor_file_close(found);
    }
}

static void tensor_files(void **state)
{
    (void)state;
    leaves_nothing("a tensor file", read_tensor_files);
}

static void print_and_parse(void)
{
    lks_epoch epoch = {.epoch = 1};
    const lks_run run = {.global_batch = 1,
                         .replicas = 1,
                         .hash_every = 1,
                         .fingerprint = "f",
                         .config = "c",
                         .plateau = {.lr = 1},
                         .history = &epoch,
                         .epochs = 1};
    lks_run found;
    lki_identity tensors = {0};
    char *text;
    LKT_OK(lki_run_print(&run, "t", &tensors, &text));
    LKT_OK(lki_run_parse("r", text, strlen(text), &found, &tensors));
    lks_run_clear(&found);
    free(text);
    lks_run bad = run;
    bad.replicas = 0;
    LKT_OK(lki_run_print(&bad, "t", &tensors, &text));
    LKT_FAILS(LKS_E_FORMAT, "", lki_run_parse("r", text, strlen(text), &found, &tensors));
    free(text);
    bad.config = "\xff";
    LKT_FAILS(LKS_E_INVALID, "", lki_run_print(&bad, "t", &tensors, &text));
}

static void records(void **state)
{
    (void)state;
    leaves_nothing("a record", print_and_parse);
}

/* ---------------------------------------------------------------- models */

static void use_a_model(void)
{
    for (int k = 0; k < 3; k++) {
        lks_context *context;
        lks_op_report report;
        double peak;
        job *j = job_open(&(tiny_opts){.shallow = k == 2,
                                       .workers = 3,
                                       .optim = k == 0 ? lks_adamp() : lks_adam(),
                                       .model = {.ema_decay = k == 1 ? 0.5 : 0,
                                                 .clip_norm = k == 2,
                                                 .by_replica = k == 2}},
                          1);
        lks_model *model = j->net.model;
        lks_predictor *predictor;
        float out[TINY_CLASSES];
        const lks_batch batch = {.x = j->x, .y = j->y, .count = TINY_BATCH};
        LKT_OK(lks_profile_start(model));
        LKT_OK(lks_profile_start(model));
        LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
        LKT_OK(lks_model_gradient(model, &batch, NULL));
        LKT_OK(lks_predictor_create(&predictor, model));
        LKT_OK(lks_predictor_predict(predictor, j->x, 1, out));
        lks_predictor_destroy(predictor);
        j->x[1][2] = NAN; /* a replay, where no relu is in its way */
        if (k == 2) LKT_FAILS(LKS_E_NUMERIC, "sample 1;", lks_model_step(model, &batch, 0.1, NULL));
        job_close(j);
        LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device(NULL)}));
        lks_graph *graph;
        LKT_OK(lks_graph_create(&graph, context));
        lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(5, 4, 3)});
        x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 2, .kernel = {3, 3}});
        LKT_OK(lks_op_check(&report, context, x, 2, 1e-9));
        LKT_OK(lks_peak(&peak, context, 2, 1e-4));
        LKT_FAILS(
            LKS_E_INVALID, "not a loss",
            lks_model_compile(&model, graph, &(lks_model_opts){.loss = x, .global_batch = 1}));
        lks_graph_destroy(graph);
        lks_context_destroy(context);
        LKT_FAILS(LKS_E_INVALID, "device 'x'",
                  lks_context_create(&context, &(lks_context_opts){.device = "x"}));
    }
}

static void models(void **state)
{
    (void)state;
    leaves_nothing("a model", use_a_model);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(allocations_fail), TEST(trainings), TEST(refusals), TEST(checkpoints),
        TEST(tensor_files),     TEST(records),   TEST(models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
