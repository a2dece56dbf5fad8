/*
 * The updates of every backend against the formulas of optim.h in double, one step at a time.
 *
 * Bounds, with u = 2^-24 and every f32 operation rounding once: g = sums * scale + wd * w has error
 * 3u G, G = |sums * scale| + |wd * w|. A moment b*m + (1-b)*g errs by 6u of the sum of its absolute
 * terms, with G for g; a second moment by 10u of b*v + (1-b)*G^2. What follows from them is the
 * propagation through w -= lr * f, to first order, with 1.2 for the rest.
 */
#include <math.h>
#include <string.h>

#include "base/thread.h"
#include "core/backend.h"
#include "support/test.h"

enum { COUNT = 1003 };

static const double U = 0x1p-24;

typedef struct element {
    double w, state[2];
    double w_error, state_error[2];
} element;

static element sgd(const lki_update *update, double g, double magnitude, double w, double m)
{
    const lks_optim *o = &update->optim;
    const double mu = o->momentum, part = update->step == 1 ? 1.0 : 1.0 - (double)o->dampening;
    element e = {0};
    double direction = g, error = 3.0 * U * magnitude;

    if (mu != 0.0) {
        const double kept = update->step == 1 ? 0.0 : mu * m;

        e.state[0] = kept + part * g;
        e.state_error[0] = 6.0 * U * (fabs(kept) + part * magnitude);
        direction = o->nesterov ? g + mu * e.state[0] : e.state[0];
        error = o->nesterov
                    ? error + mu * e.state_error[0] + 3.0 * U * (magnitude + fabs(mu * e.state[0]))
                    : e.state_error[0];
    }
    e.w = w - (double)update->lr * direction;
    e.w_error = (double)update->lr * (error + 2.0 * U * fabs(direction)) + U * fabs(e.w);
    return e;
}

static element adam(const lki_update *update, double g, double magnitude, double w,
                    const double s[2])
{
    const lks_optim *o = &update->optim;
    const double b1 = o->beta1, b2 = o->beta2;
    element e = {.state = {b1 * s[0] + (1.0 - b1) * g, b2 * s[1] + (1.0 - b2) * g * g}};

    e.state_error[0] = 6.0 * U * (b1 * fabs(s[0]) + (1.0 - b1) * magnitude);
    e.state_error[1] = 10.0 * U * (b2 * s[1] + (1.0 - b2) * magnitude * magnitude);
    const double root = sqrt(e.state[1]) / sqrt(update->correction2);
    const double below = root + (double)o->epsilon;
    const double root_error = e.state[1] > 0.0
                                  ? root * (e.state_error[1] / (2.0 * e.state[1]) + 4.0 * U)
                                  : 0.0;
    const double step = (double)update->lr / update->correction1 * e.state[0] / below;
    e.w = w - step;
    e.w_error = (double)update->lr / update->correction1 * e.state_error[0] / below +
                fabs(step) * (root_error / below + 6.0 * U) + U * fabs(e.w);
    return e;
}

static element adadelta(const lki_update *update, double g, double magnitude, double w,
                        const double s[2])
{
    const double rho = update->optim.rho, epsilon = update->optim.epsilon;
    element e = {.state = {rho * s[0] + (1.0 - rho) * g * g}};

    e.state_error[0] = 10.0 * U * (rho * s[0] + (1.0 - rho) * magnitude * magnitude);
    const double ratio = sqrt(s[1] + epsilon) / sqrt(e.state[0] + epsilon), d = ratio * g;
    const double d_error = ratio * 3.0 * U * magnitude +
                           fabs(d) * (e.state_error[0] / (2.0 * (e.state[0] + epsilon)) + 8.0 * U);
    e.state[1] = rho * s[1] + (1.0 - rho) * d * d;
    e.state_error[1] = 10.0 * U * e.state[1] + (1.0 - rho) * 2.0 * fabs(d) * d_error;
    e.w = w - (double)update->lr * d;
    e.w_error = (double)update->lr * (d_error + 2.0 * U * fabs(d)) + U * fabs(e.w);
    return e;
}

static element expected(const lki_update *update, float sum, float w, float s0, float s1)
{
    const double scaled = sum * update->scale;
    const double decay = (double)update->optim.weight_decay * (double)w;
    const double g = scaled + decay, magnitude = fabs(scaled) + fabs(decay);
    const double state[2] = {s0, s1};

    switch (update->optim.kind) {
    case LKS_SGD:
        return sgd(update, g, magnitude, w, s0);
    case LKS_ADAM:
        return adam(update, g, magnitude, w, state);
    case LKS_ADADELTA:
        return adadelta(update, g, magnitude, w, state);
    }
    return (element){0};
}

static void near(const char *what, int i, float found, double value, double error)
{
    if (!(fabs((double)found - value) <= 1.2 * error))
        fail_msg("%s[%d] is %.9g, expected %.9g within %.3g", what, i, (double)found, value,
                 1.2 * error);
}

/* 20 steps; each is compared, then the backend's own values go on. */
static void follow(const lki_backend *backend, lks_optim optim, lkt_random *random)
{
    static float w[COUNT], state[2][COUNT], sums[COUNT];
    static float old_w[COUNT], old[2][COUNT];
    const bool stateful[2] = {optim.kind != LKS_SGD || optim.momentum != 0.0f,
                              optim.kind != LKS_SGD};

    memset(state, 0, sizeof state);
    for (int i = 0; i < COUNT; i++) w[i] = (float)lkt_random_real(random, -1.0, 1.0);
    for (int step = 1; step <= 20; step++) {
        const lki_update update = {.optim = optim,
                                   .lr = 0.125f,
                                   .scale = 1.0f / 61.0f,
                                   .step = step,
                                   .correction1 = 1.0 - pow((double)optim.beta1, step),
                                   .correction2 = 1.0 - pow((double)optim.beta2, step)};

        for (int i = 0; i < COUNT; i++) sums[i] = (float)lkt_random_real(random, -61.0, 61.0);
        memcpy(old_w, w, sizeof w);
        memcpy(old, state, sizeof state);
        const unsigned saved = lki_float_enter();
        backend->update(
            &update, COUNT, w,
            (float *const[2]){stateful[0] ? state[0] : NULL, stateful[1] ? state[1] : NULL}, sums);
        lki_float_leave(saved);
        for (int i = 0; i < COUNT; i++) {
            const element e = expected(&update, sums[i], old_w[i], old[0][i], old[1][i]);

            near("w", i, w[i], e.w, e.w_error);
            if (stateful[0]) near("state 0", i, state[0][i], e.state[0], e.state_error[0]);
            if (stateful[1]) near("state 1", i, state[1][i], e.state[1], e.state_error[1]);
        }
    }
}

static int optimizers(lks_optim out[8])
{
    int count = 0;

    out[count] = (lks_optim){.kind = LKS_SGD};
    out[++count] = (lks_optim){.kind = LKS_SGD, .weight_decay = 0.01f};
    out[++count] = (lks_optim){.kind = LKS_SGD, .momentum = 0.9f};
    out[++count] = (lks_optim){.kind = LKS_SGD, .momentum = 0.9f, .dampening = 0.3f};
    out[++count] = (lks_optim){
        .kind = LKS_SGD, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f};
    out[++count] = (lks_optim){.kind = LKS_ADAM, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    out[++count] = (lks_optim){
        .kind = LKS_ADAM, .beta1 = 0.5f, .beta2 = 0.9f, .epsilon = 1e-3f, .weight_decay = 0.01f};
    out[++count] = (lks_optim){
        .kind = LKS_ADADELTA, .rho = 0.9f, .epsilon = 1e-6f, .weight_decay = 0.01f};
    return count + 1;
}

static void updates_follow_the_formulas(void **state)
{
    lkt_random random = lkt_random_make("updates_follow_the_formulas", 40);
    lks_optim list[8];
    const int count = optimizers(list);

    (void)state;
    for (int b = 0; lki_backends[b] != NULL; b++) {
        for (int i = 0; i < count; i++) follow(lki_backends[b], list[i], &random);
    }
}

/* The same elements in odd ranges, at odd addresses: the same bits. */
static void updates_do_not_depend_on_the_range(void **state)
{
    lkt_random random = lkt_random_make("updates_do_not_depend_on_the_range", 41);
    lks_optim list[8];
    const int count = optimizers(list);

    (void)state;
    for (int b = 0; lki_backends[b] != NULL; b++) {
        for (int k = 0; k < count; k++) {
            static float sums[COUNT], whole[3][COUNT], cut[3][COUNT];
            const lki_update update = {.optim = list[k],
                                       .lr = 0.3f,
                                       .scale = 0.1f,
                                       .step = 3,
                                       .correction1 = 0.271,
                                       .correction2 = 0.0029970010};

            for (int i = 0; i < COUNT; i++) {
                sums[i] = (float)lkt_random_real(&random, -1.0, 1.0);
                for (int j = 0; j < 3; j++)
                    whole[j][i] = cut[j][i] = (float)lkt_random_real(&random, 0.0, 1.0);
            }
            const unsigned saved = lki_float_enter();
            lki_backends[b]->update(&update, COUNT, whole[0], (float *const[2]){whole[1], whole[2]},
                                    sums);
            for (int64_t i = 0, n; i < COUNT; i += n) {
                n = lkt_random_from(&random, 1, 70);
                n = n < COUNT - i ? n : COUNT - i;
                lki_backends[b]->update(&update, n, cut[0] + i,
                                        (float *const[2]){cut[1] + i, cut[2] + i}, sums + i);
            }
            lki_float_leave(saved);
            if (memcmp(whole, cut, sizeof whole) != 0)
                fail_msg("%s: the bits of update %d depend on the range", lki_backends[b]->name, k);
        }
    }
}

static void add_is_one_rounding(void **state)
{
    lkt_random random = lkt_random_make("add_is_one_rounding", 42);

    (void)state;
    for (int b = 0; lki_backends[b] != NULL; b++) {
        static float left[COUNT], right[COUNT], sum[COUNT];

        for (int i = 0; i < COUNT; i++) {
            left[i] = (float)lkt_random_real(&random, -1.0, 1.0);
            right[i] = (float)lkt_random_real(&random, -1e-3, 1e-3);
            sum[i] = left[i] + right[i];
        }
        lki_backends[b]->add(COUNT - 3, left + 1, right + 1);
        assert_memory_equal(left + 1, sum + 1, (COUNT - 3) * sizeof(float));
        assert_true(left[COUNT - 1] != sum[COUNT - 1]);
    }
}

static void backends_are_found_by_name(void **state)
{
    (void)state;
    assert_non_null(lki_backends[0]);
    for (int b = 0; lki_backends[b] != NULL; b++)
        assert_ptr_equal(lki_backend_find(lki_backends[b]->name), lki_backends[b]);
    assert_string_equal(lki_backend_find("ref")->name, "ref");
    assert_null(lki_backend_find("abacus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_the_formulas),
        cmocka_unit_test(updates_do_not_depend_on_the_range),
        cmocka_unit_test(add_is_one_rounding),
        cmocka_unit_test(backends_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
