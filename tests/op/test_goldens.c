/* Operations and optimizers against PyTorch (tools/goldens/ops.py made tests/op/golden/ops.json). */
#include <math.h>
#include <string.h>

#include "base/float.h"
#include "support/backends.h"
#include "support/op_json.h"

/* Salts of the formula that inputs follow, as in ops.py. */
enum { IN, WEIGHT, BIAS, D_OUT, TARGET, LABEL, MEAN, VARIANCE };

static uint32_t hashed(int64_t i, uint32_t salt)
{
    return (uint32_t)i * 2654435761u + salt * (40503u * 65537u);
}

static float value(int64_t i, uint32_t salt)
{
    return (float)(hashed(i, salt) >> 8) / 8388608.0f - 1.0f; /* exact */
}

static void fill(float *out, int64_t count, uint32_t salt)
{
    for (int64_t i = 0; i < count; i++) out[i] = value(i, salt);
}

static float number(const json_t *test, const char *key)
{
    return (float)lkt_json_number(test, key);
}

static void open_case(lkt_case *c, const json_t *test, lkt_random *random)
{
    static const uint32_t salt[LKI_MAX_PARAM] = {WEIGHT, BIAS, MEAN, VARIANCE};

    lkt_case_begin(c);
    lks_tensor *y = lkt_json_op(c->graph, test);
    lkt_case_end(c, y, y, lkt_json_integer(test, "count"), LKT_RANDOM, random);
    c->training = !json_is_true(json_object_get(test, "eval"));
    c->mix = NULL;

    const lki_node *node = lkt_first(c);
    fill(c->in[0], lkt_in_elements(c, 0), IN);
    const float spread = json_object_get(test, "spread") != NULL ? number(test, "spread") : 1.0f;
    for (int64_t i = 0; i < lkt_in_elements(c, 0); i++) ((float *)c->in[0])[i] *= spread;
    fill(c->d_out, lkt_out_elements(c), D_OUT);
    for (int i = 0; i < node->param_count; i++)
        fill(c->param[i], lkt_param_elements(c, i), salt[i]);
    if (node->in_count > 1 && node->in[1]->dtype == LKS_F32)
        fill(c->in[1], lkt_in_elements(c, 1), TARGET);
    const bool tokens = lki_op_get(node->op)->reads_tokens; /* else classes */
    const int64_t kinds = tokens ? lkt_json_integer(test, "vocabulary") : node->in[0]->shape.dim[0];
    for (int64_t i = 0;
         node->in_count > 1 && node->in[1]->dtype == LKS_I32 && i < lkt_in_elements(c, 1); i++)
        ((int32_t *)c->in[1])[i] = (int32_t)(hashed(i, LABEL) % (uint32_t)kinds);
    if (json_is_true(json_object_get(test, "mix"))) {
        c->mix = lkt_case_memory(c, (size_t)c->count * sizeof *c->mix);
        for (int64_t i = 0; i < c->count; i++)
            c->mix[i] = (lks_mix){
                .label = (int32_t)(hashed(i, VARIANCE) % (uint32_t)node->in[0]->shape.dim[0]),
                .weight = (float)(hashed(i, MEAN) >> 8) * 0x1p-24f};
    }
    for (int64_t i = 0; node->buffer_count > 0 && i < lkt_param_elements(c, 0); i++) {
        ((float *)c->buffer[0])[i] = value(i, MEAN);
        ((float *)c->buffer[1])[i] = value(i, VARIANCE) / 2.0f + 0.75f;
    }
}

/* The golden values have 10 digits; and x (1 + tanh(..)) cancels in float64 too: 2^-53 |x|, |x| <= 8,
 * twice. */
static void compare(const lkt_case *c, const lki_backend *backend, const char *what,
                    const json_t *expected, const float *found, const double *bound, int64_t count)
{
    assert_int_equal(json_array_size(expected), count);
    for (int64_t i = 0; i < count; i++) {
        const double golden = json_number_value(json_array_get(expected, (size_t)i));
        const double error = fabs((double)found[i] - golden);

        if (!(error <= bound[i] + 0x1p-24 * fabs(golden) + 0x1p-49))
            fail_msg(
                "%s, %s: %s[%lld] is %.9g, PyTorch has %.9g: they differ by %.3g, the bound is "
                "%.3g",
                backend->name, lkt_describe(c), what, (long long)i, (double)found[i], golden, error,
                bound[i]);
    }
}

/* The buffers after a step. One more rounding of the statistic and three of the update. */
static void compare_running(lkt_case *c, const lki_backend *backend, const json_t *expected,
                            const lkt_result *found, const lkt_bounds *bound)
{
    const int64_t channels = lkt_param_elements(c, 0);
    int64_t batches = 0;

    lki_op_batch_norm.update_buffers(lkt_first(c), found->stats,
                                     (void *[]){c->buffer[0], c->buffer[1], &batches});
    assert_int_equal(batches, 1);
    for (size_t which = 0; which < 2; which++) {
        double *room = lkt_case_memory(c, (size_t)channels * sizeof *room);

        for (int64_t j = 0; j < channels; j++)
            room[j] = bound->stats[2 + (int64_t)which * channels + j] / found->stats[which] +
                      4.0 * 0x1p-24;
        compare(c, backend, which == 0 ? "running_mean" : "running_var",
                json_array_get(expected, which), c->buffer[which], room, channels);
    }
}

static void operations_match_pytorch(void **state)
{
    lkt_random random = lkt_random_make("operations_match_pytorch", 50);
    json_t *golden = lkt_json_load("tests/op/golden/ops.json"), *test;
    size_t index;

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const lki_backend *backend = lkt_backends()[b];

        json_array_foreach(json_object_get(golden, "operations"), index, test)
        {
            lkt_result found;
            lkt_bounds bound;
            lkt_case c;

            open_case(&c, test, &random);
            lkt_run(&c, backend, NULL, NULL, &found);
            lkt_bounds_make(&c, NULL, &found, &bound);
            compare(&c, backend, "the output", json_object_get(test, "out"), found.out, bound.out,
                    lkt_out_elements(&c));
            if (c.training)
                compare(&c, backend, "the input's gradient", json_object_get(test, "d_in"),
                        found.d_in[0], bound.d_in[0], lkt_in_elements(&c, 0));
            if (json_object_get(test, "d_in_1") != NULL)
                compare(&c, backend, "the second input's gradient", json_object_get(test, "d_in_1"),
                        found.d_in[1], bound.d_in[1], lkt_in_elements(&c, 1));
            for (int i = 0; c.training && i < lkt_first(&c)->param_count; i++)
                compare(&c, backend, "a parameter's gradient",
                        json_array_get(json_object_get(test, "d_param"), (size_t)i),
                        found.d_param[i], bound.d_param[i], lkt_param_elements(&c, i));
            if (json_object_get(test, "running") != NULL)
                compare_running(&c, backend, json_object_get(test, "running"), &found, &bound);
            lkt_case_free(&c);
        }
    }
    json_decref(golden);
}

static double setting(const json_t *test, const char *key, double standard)
{
    const json_t *given = json_object_get(test, key);

    return given != NULL ? json_number_value(given) : standard;
}

static lks_optim optim_of(const json_t *test)
{
    const char *kind = json_string_value(json_object_get(test, "kind"));
    const json_t *betas = json_object_get(test, "betas");
    lks_optim optim = {.kind = LKS_SGD,
                       .weight_decay = setting(test, "weight_decay", 0),
                       .momentum = setting(test, "momentum", 0),
                       .dampening = setting(test, "dampening", 0),
                       .nesterov = json_is_true(json_object_get(test, "nesterov"))};

    if (strcmp(kind, "Adam") == 0 || strcmp(kind, "AdamW") == 0) {
        optim.kind = strcmp(kind, "Adam") == 0 ? LKS_ADAM : LKS_ADAMW;
        optim.epsilon = setting(test, "eps", 1e-8);
        optim.beta1 = betas != NULL ? json_number_value(json_array_get(betas, 0)) : 0.9;
        optim.beta2 = betas != NULL ? json_number_value(json_array_get(betas, 1)) : 0.999;
    } else if (strcmp(kind, "Adadelta") == 0) {
        optim.kind = LKS_ADADELTA;
        optim.epsilon = setting(test, "eps", 1e-6);
        optim.rho = setting(test, "rho", 0.9);
    } else if (strcmp(kind, "RMSprop") == 0) {
        optim.kind = LKS_RMSPROP;
        optim.epsilon = setting(test, "eps", 1e-8);
        optim.alpha = setting(test, "alpha", 0.99);
        optim.centered = json_is_true(json_object_get(test, "centered"));
    }
    return optim;
}

/*
 * 20 steps on sum of (1 + c) (w - t)^2 / 2, all in f32. The tolerance is measured on PyTorch itself:
 * 8 times the largest distance of its float32 from its float64 run, on the same steps.
 */
static void optimizer_matches(const lki_backend *backend, const json_t *test)
{
    enum { WEIGHTS = 6, STEPS = 20 };
    const double tolerance = 8.0 * json_number_value(json_object_get(test, "float32"));
    const lks_optim optim = optim_of(test);
    const json_t *golden = json_object_get(test, "w");
    float w[WEIGHTS], sums[WEIGHTS], state[LKI_MAX_STATES][WEIGHTS] = {{0}};

    assert_int_equal(json_array_size(golden), WEIGHTS * STEPS);
    fill(w, WEIGHTS, IN);
    for (int step = 1; step <= STEPS; step++) {
        const lki_update update = {.optim = optim,
                                   .lr = setting(test, "lr", 0),
                                   .scale = 0.125f, /* exact */
                                   .step = step,
                                   .correction1 = 1.0 - pow(optim.beta1, step),
                                   .correction2 = 1.0 - pow(optim.beta2, step)};

        for (int i = 0; i < WEIGHTS; i++)
            sums[i] = 8.0f * ((fabsf(value(i, WEIGHT)) + 1.0f) * (w[i] - value(i, TARGET)));
        const unsigned saved = lki_float_enter();
        backend->update(&update, WEIGHTS, w,
                        (float *const[LKI_MAX_STATES]){state[0], state[1], state[2]}, sums);
        lki_float_leave(saved);
        for (int i = 0; i < WEIGHTS; i++) {
            const double expected = json_number_value(
                json_array_get(golden, (size_t)((step - 1) * WEIGHTS + i)));

            if (!(fabs((double)w[i] - expected) <= tolerance))
                fail_msg("%s, %s: after step %d w[%d] is %.9g, PyTorch has %.9g, tolerance %.3g",
                         backend->name, json_string_value(json_object_get(test, "kind")), step, i,
                         (double)w[i], expected, tolerance);
        }
    }
}

static void optimizers_match_pytorch(void **state)
{
    json_t *golden = lkt_json_load("tests/op/golden/ops.json"), *test;
    size_t index;

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        json_array_foreach(json_object_get(golden, "optimizers"), index, test)
            optimizer_matches(lkt_backends()[b], test);
    }
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_match_pytorch),
        cmocka_unit_test(optimizers_match_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
