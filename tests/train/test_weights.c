/* Weights: files that PyTorch reads, and what a model accepts. */
#include "train/tiny.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[4200];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/weights.safetensors", lkt_make_folder());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

static void survive_a_file(void **state)
{
    (void)state;
    tiny one = tiny_open(&(tiny_opts){.seed = 1, .optim = lks_adam()});
    tiny other = tiny_open(&(tiny_opts){.seed = 2, .replicas = 2, .optim = lks_sgd(0.9f)});
    tiny_steps(&one, 3);
    LKT_OK(lks_weights_save(one.model, path));
    LKT_OK(lks_weights_load(other.model, path));
    for (int i = 0; i < lks_model_state_count(one.model); i++) {
        uint8_t a[512], b[512];
        const lks_state_info info = lks_model_state_info(one.model, i);
        if (info.kind != LKS_PARAMETER && info.kind != LKS_BUFFER) continue;
        const int index = lks_model_state_find(other.model, info.name);
        LKT_OK(lks_model_state_read(one.model, i, a, info.bytes));
        LKT_OK(lks_model_state_read(other.model, index, b, info.bytes));
        assert_memory_equal(a, b, info.bytes);
    }
    /* The model predicts with what was loaded, also after it has predicted with something else. */
    float x[TINY_FEATURES], a[TINY_CLASSES], b[TINY_CLASSES], c[TINY_CLASSES];
    int32_t y;
    tiny_sample(7, x, &y);
    LKT_OK(lks_model_predict(one.model, x, 1, a));
    LKT_OK(lks_model_predict(other.model, x, 1, b));
    assert_memory_equal(a, b, sizeof a);
    tiny_steps(&one, 1);
    LKT_OK(lks_model_predict(one.model, x, 1, c));
    assert_memory_not_equal(a, c, sizeof a);
    LKT_OK(lks_weights_load(one.model, path));
    LKT_OK(lks_model_predict(one.model, x, 1, c));
    assert_memory_equal(a, c, sizeof a);
    tiny_close(&one);
    tiny_close(&other);
}

static char warned[4][256];
static int warnings;

static void keep_warning(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (level == LKS_LOG_WARN && warnings < 4) snprintf(warned[warnings++], 256, "%s", line);
}

/* Whether an entry of `to` has the bytes that it has in `from`, or had before. */
static bool taken(const tiny *from, const tiny *to, const char *name)
{
    uint8_t a[512], b[512];
    const int i = lks_model_state_find(from->model, name);
    const int k = lks_model_state_find(to->model, name);
    const size_t bytes = lks_model_state_info(from->model, i).bytes;
    LKT_OK(lks_model_state_read(from->model, i, a, bytes));
    LKT_OK(lks_model_state_read(to->model, k, b, bytes));
    return memcmp(a, b, bytes) == 0;
}

/* A network with another layer takes the rest, names what it does not, and leaves that as it was. */
static void may_be_taken_as_far_as_they_fit(void **state)
{
    (void)state;
    tiny one = tiny_open(&(tiny_opts){.seed = 1, .optim = lks_adam()});
    const tiny_opts renamed = {.seed = 2, .name = "stem", .optim = lks_adam(), .log = keep_warning};
    tiny other = tiny_open(&renamed), untouched = tiny_open(&renamed);
    tiny_steps(&one, 3);
    LKT_OK(lks_weights_save(one.model, path));
    LKT_FAILS(LKS_E_MISMATCH, "has no tensor 'stem.weight'", lks_weights_load(other.model, path));
    assert_true(taken(&untouched, &other, "head.weight")); /* nothing has changed */
    warnings = 0;
    LKT_OK(lks_weights_load_matching(other.model, path));
    assert_true(taken(&one, &other, "head.weight") && taken(&one, &other, "bn.running_mean"));
    assert_true(taken(&untouched, &other, "stem.weight") && taken(&untouched, &other, "stem.bias"));
    assert_int_equal(warnings, 2);
    assert_non_null(strstr(warned[0], "stem.weight is not taken from '"));
    assert_non_null(strstr(warned[0], "', which has none; the model's is "));
    assert_non_null(strstr(warned[1], "stem.bias is not taken"));
    tiny_steps(&other, 1);
    tiny_close(&other);
    tiny_close(&untouched);
    /* By shape: what stays is in the same place. */
    const tiny_opts wider = {.seed = 2, .hidden = 7, .optim = lks_adam(), .log = keep_warning};
    other = tiny_open(&wider);
    warnings = 0;
    LKT_OK(lks_weights_load_matching(other.model, path));
    assert_true(taken(&one, &other, "head.bias"));
    assert_non_null(strstr(warned[0], "fc1.weight is not taken from '"));
    assert_null(strstr(warned[0], "has none"));
    tiny_close(&other);
    tiny_close(&one);
}

/* A file of another network altogether is refused. */
static void fit_somewhere(void **state)
{
    (void)state;
    tiny one = tiny_open(&(tiny_opts){.seed = 1, .shallow = true, .optim = lks_adam()});
    LKT_OK(lks_weights_save(one.model, path));
    tiny_close(&one);
    LKT_OK(lks_context_create(&one.context, &(lks_context_opts){.device = lkt_device("ref")}));
    LKT_OK(lks_graph_create(&one.graph, one.context));
    lks_tensor *x = lks_input(one.graph, &(lks_input_opts){.shape = LKS_SHAPE(6)});
    lks_tensor *y = lks_target(one.graph, &(lks_target_opts){.classes = 2});
    x = lks_dense(one.graph, x, &(lks_dense_opts){.name = "foot", .units = 2});
    const lks_model_opts opts = {.loss = lks_cross_entropy(one.graph, x, y, NULL),
                                 .global_batch = 4,
                                 .replicas = 1,
                                 .optim = lks_adam()};
    LKT_OK(lks_model_compile(&one.model, one.graph, &opts));
    LKT_FAILS(LKS_E_MISMATCH, "has no parameter of this model with its shape",
              lks_weights_load_matching(one.model, path));
    LKT_FAILS(LKS_E_INVALID, "NULL", lks_weights_load_matching(one.model, NULL));
    LKT_FAILS(LKS_E_INVALID, "NULL", lks_weights_load_matching(NULL, path));
    tiny_close(&one);
}

/* Names, order and padding that other readers of safetensors expect. */
static void have_pytorchs_form(void **state)
{
    (void)state;
    const char *names[] = {
        "bn.num_batches_tracked", "fc1.weight",     "fc1.bias",    "bn.weight", "bn.bias",
        "bn.running_mean",        "bn.running_var", "head.weight", "head.bias"};
    tiny t = tiny_open(&(tiny_opts){.optim = lks_adadelta()});
    LKT_OK(lks_weights_save(t.model, path));
    lks_tensor_file *file;
    LKT_OK(lks_tensor_file_open(&file, t.context, path));
    assert_string_equal(lks_tensor_file_metadata(file, "format"), "pt");
    assert_int_equal(lks_tensor_file_count(file), 9);
    size_t data = 0;
    for (int i = 0; i < 9; i++) {
        assert_string_equal(lks_tensor_file_entry(file, i).name, names[i]);
        data += lks_tensor_file_entry(file, i).bytes;
    }
    lks_tensor_file_close(file);
    tiny_close(&t);

    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(((size_t)info.st_size - data) % 8, 0);
    const char *keep = getenv("LKT_KEEP"); /* for safetensors_file.py --check */
    if (keep) assert_int_equal(rename(path, keep), 0);
}

static void refuses(const tiny_opts *opts, lks_status status, const char *part)
{
    tiny t = tiny_open(opts);
    const tiny_state before = tiny_read(&t);
    LKT_FAILS(status, part, lks_weights_load(t.model, path));
    const tiny_state after = tiny_read(&t);
    tiny_assert_same(&before, &after);
    tiny_close(&t);
}

static void of_another_net_are_refused(void **state)
{
    (void)state;
    refuses(&(tiny_opts){0}, LKS_E_IO, "no such file");
    tiny t = tiny_open(&(tiny_opts){.seed = 1});
    LKT_OK(lks_weights_save(t.model, path));
    tiny_close(&t);
    refuses(&(tiny_opts){.hidden = 7}, LKS_E_MISMATCH,
            "another network: its 'fc1.weight' is 5x6 F32, the model's is 7x6 F32");
    refuses(&(tiny_opts){.name = "dense"}, LKS_E_MISMATCH,
            "has no tensor 'dense.weight', which the model needs (its first of 9 is "
            "'bn.num_batches_tracked')");
    refuses(&(tiny_opts){.shallow = true}, LKS_E_MISMATCH,
            "its 'head.weight' is 3x5 F32, the model's is 3x6 F32");
    t = tiny_open(&(tiny_opts){.name = "module.fc1"});
    LKT_OK(lks_weights_save(t.model, path));
    tiny_close(&t);
    refuses(&(tiny_opts){0}, LKS_E_MISMATCH,
            "has no tensor 'fc1.weight', but has 'module.fc1.weight': rename its tensors");
    t = tiny_open(&(tiny_opts){.name = "the_fc1"}); /* another name, no prefix */
    LKT_OK(lks_weights_save(t.model, path));
    tiny_close(&t);
    refuses(&(tiny_opts){0}, LKS_E_MISMATCH, "has no tensor 'fc1.weight', which the model needs");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, file), 10);
    assert_int_equal(fclose(file), 0);
    refuses(&(tiny_opts){0}, LKS_E_MISMATCH, "has no tensors, expected 'fc1.weight'");
    assert_int_equal(truncate(path, 9), 0);
    refuses(&(tiny_opts){0}, LKS_E_FORMAT, "not a safetensors file");
}

static void that_are_not_finite_stay_out(void **state)
{
    (void)state;
    tiny t = tiny_open(&(tiny_opts){0});
    LKT_OK(lks_weights_save(t.model, path));
    const tiny_state before = tiny_read(&t);
    float bias[5] = {0.0f, 1.0f, 2.0f, NAN, INFINITY};
    const int index = lks_model_state_find(t.model, "fc1.bias");
    LKT_OK(lks_model_state_write(t.model, index, bias, sizeof bias));
    LKT_FAILS(LKS_E_NUMERIC, "parameter 'fc1.bias' is not finite after step 0: element 3 is nan",
              lks_weights_save(t.model, path));
    LKT_OK(lks_weights_load(t.model, path));
    const tiny_state after = tiny_read(&t);
    tiny_assert_same(&before, &after);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(survive_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(may_be_taken_as_far_as_they_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fit_somewhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(have_pytorchs_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_another_net_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(that_are_not_finite_stay_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
