/* The updates of every backend against the formulas of optim.h in double (updates.h), one step at a time. */
#include <math.h>
#include <string.h>

#include "base/float.h"
#include "op/updates.h"
#include "support/backends.h"
#include "support/optims.h"
#include "support/test.h"

enum { COUNT = 1003 };

static void near(const char *what, int i, float found, double value, double error)
{
    if (!(fabs((double)found - value) <= 1.2 * error))
        fail_msg("%s[%d] is %.9g, expected %.9g within %.3g", what, i, (double)found, value,
                 1.2 * error);
}

/* Where the step goes by rows, it takes what direction() made of the arrays; LARS has none. */
static bool keeps(const lks_optim *optim, int array)
{
    const bool directed = lki_optimizer_of(optim->kind)->by_rows && optim->kind != LKS_LARS;
    return lki_optimizer_keeps(optim, array) && !directed;
}

/* 20 steps; each is compared, then the backend's own values go on. */
static void follow(const lki_backend *backend, lks_optim optim, lkt_random *random)
{
    static float w[COUNT], state[LKI_MAX_STATES][COUNT], sums[COUNT];
    static float old_w[COUNT], old[LKI_MAX_STATES][COUNT];
    float *arrays[LKI_MAX_STATES];

    memset(state, 0, sizeof state);
    for (int a = 0; a < LKI_MAX_STATES; a++) arrays[a] = keeps(&optim, a) ? state[a] : NULL;
    for (int i = 0; i < COUNT; i++) w[i] = (float)lkt_random_real(random, -1.0, 1.0);
    for (int step = 1; step <= 20; step++) {
        const lki_update update = {.optim = optim,
                                   .lr = 0.1,
                                   .scale = 1.0f / 61.0f,
                                   .step = step,
                                   .correction1 = 1.0 - pow(optim.beta1, step),
                                   .correction2 = 1.0 - pow(optim.beta2, step),
                                   .along = 0.375f * (float)(step % 3),
                                   .projected = step % 2 == 0};

        for (int i = 0; i < COUNT; i++) sums[i] = (float)lkt_random_real(random, -61.0, 61.0);
        memcpy(old_w, w, sizeof w);
        memcpy(old, state, sizeof state);
        const unsigned saved = lki_float_enter();
        backend->update(&update, COUNT, w, arrays, sums);
        lki_float_leave(saved);
        for (int i = 0; i < COUNT; i++) {
            const double before[LKI_MAX_STATES] = {old[0][i], old[1][i], old[2][i]};
            const element e = expected(&update, sums[i], old_w[i], before);

            near("w", i, w[i], e.w, e.w_error);
            for (int a = 0; a < LKI_MAX_STATES; a++)
                if (arrays[a] != NULL) near("state", i, state[a][i], e.state[a], e.state_error[a]);
        }
    }
}

enum { OPTIMIZERS = 64 };

/* Those of the list, and what more there is to see. */
static int optimizers(lks_optim out[OPTIMIZERS])
{
    int count = 0;

    out[count] = (lks_optim){.kind = LKS_SGD};
    out[++count] = (lks_optim){.kind = LKS_SGD, .weight_decay = 0.01};
    out[++count] = (lks_optim){.kind = LKS_SGD, .momentum = 0.9};
    out[++count] = (lks_optim){.kind = LKS_SGD, .momentum = 0.9, .dampening = 0.3};
    out[++count] = (lks_optim){
        .kind = LKS_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01};
    out[++count] = (lks_optim){.kind = LKS_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    out[++count] = (lks_optim){
        .kind = LKS_ADAM, .beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.01};
    out[++count] = (lks_optim){
        .kind = LKS_ADADELTA, .rho = 0.9, .epsilon = 1e-6, .weight_decay = 0.01};
    out[++count] = lks_adamw();
    out[++count] = (lks_optim){
        .kind = LKS_ADAMW, .beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.5};
    out[++count] = lks_rmsprop();
    out[++count] = (lks_optim){
        .kind = LKS_RMSPROP, .alpha = 0.9, .epsilon = 1e-3, .weight_decay = 0.01, .momentum = 0.8};
    out[++count] = (lks_optim){
        .kind = LKS_RMSPROP, .alpha = 0.9, .epsilon = 1e-2, .centered = true};
    out[++count] = (lks_optim){
        .kind = LKS_RMSPROP, .alpha = 0.9, .epsilon = 1e-2, .centered = true, .momentum = 0.8};
    out[++count] = lks_adamp();
    out[++count] = lks_adamp();
    out[count].weight_decay = 0.5;
    /* Averages that forget so slowly that b in f32 is wrong in the fourth digit of 1 - b. */
    out[++count] = (lks_optim){.kind = LKS_RMSPROP, .alpha = 0.9999, .epsilon = 1e-8};
    out[++count] = (lks_optim){.kind = LKS_ADADELTA, .rho = 0.999, .epsilon = 1e-6};
    out[++count] = (lks_optim){
        .kind = LKS_ADAM, .beta1 = 0.9999, .beta2 = 0.99999, .epsilon = 1e-8};
    out[++count] = (lks_optim){.kind = LKS_SGD, .momentum = 0.9, .dampening = 0.9999};
    count++;
    for (int i = 0; lkt_optim(i, &out[count]) != NULL; i++) assert_true(++count < OPTIMIZERS);
    return count;
}

/* Moments as Adam's, and m / (sqrt(v) / root + eps) of them, with or without Nesterov. */
static void directions_follow_the_formula(void **state)
{
    lkt_random random = lkt_random_make("directions_follow_the_formula", 43);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            static float g[COUNT], old_g[COUNT], m[COUNT], old_m[COUNT], v[COUNT], old_v[COUNT],
                w[COUNT];
            lki_update update = {.optim = lks_adamp(),
                                 .lr = 1.0f,
                                 .scale = 0.75f,
                                 .step = 4,
                                 .correction1 = 1.0,
                                 .correction2 = 0.003994};
            update.optim.nesterov = nesterov;
            const double b1 = update.optim.beta1;
            for (int i = 0; i < COUNT; i++) {
                g[i] = old_g[i] = (float)lkt_random_real(&random, -1.0, 1.0);
                m[i] = old_m[i] = (float)lkt_random_real(&random, -1.0, 1.0);
                v[i] = old_v[i] = (float)lkt_random_real(&random, 0.0, 1.0);
            }
            const unsigned saved = lki_float_enter();
            double sum[LKI_ROW_SUMS];
            lkt_backends()[b]->direction(&update, COUNT, w,
                                         (float *const[LKI_MAX_STATES]){m, v, NULL}, g, sum);
            lki_float_leave(saved);
            for (int i = 0; i < COUNT; i++) {
                const double scaled = old_g[i] * update.scale;
                const double before[LKI_MAX_STATES] = {old_m[i], old_v[i], 0.0};
                const element e = adam(&update, scaled, fabs(scaled), 0.0, before);
                const double ratio = e.state[0] != 0.0 ? -e.w / e.state[0] : 0.0;
                const double top = nesterov ? b1 * e.state[0] + (1.0 - b1) * scaled : e.state[0];
                const double more = nesterov ? 4.0 * U * (fabs(e.state[0]) + fabs(scaled)) : 0.0;

                near("exp_avg", i, m[i], e.state[0], e.state_error[0]);
                near("exp_avg_sq", i, v[i], e.state[1], e.state_error[1]);
                /* Adam's step at rate 1 is this direction, but for Nesterov's numerator. */
                near("direction", i, g[i], top * ratio,
                     e.w_error * (1.0 + fabs(top * ratio) / fmax(fabs(e.w), 1e-30)) + more * ratio);
            }
        }
}

/* Every backend and length has the order of docs/numerics.md 8: eight lanes, added pairwise. */
static void dots_have_one_order(void **state)
{
    static float a[LKI_UPDATE_BLOCK], b[LKI_UPDATE_BLOCK];
    lkt_random random = lkt_random_make("dots_have_one_order", 44);
    (void)state;
    for (int i = 0; i < LKI_UPDATE_BLOCK; i++) {
        a[i] = (float)lkt_random_real(&random, -1.0, 1.0);
        b[i] = (float)lkt_random_real(&random, -1e-3, 1e3);
    }
    for (int64_t count = 0; count <= LKI_UPDATE_BLOCK; count += count < 40 ? 1 : 507) {
        double lane[8] = {0};
        for (int64_t i = 0; i < count; i++) lane[i % 8] += (double)a[i] * (double)b[i];
        const double expected = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                                ((lane[1] + lane[5]) + (lane[3] + lane[7]));
        for (int k = 0; lkt_backends()[k] != NULL; k++) {
            const double found = lkt_backends()[k]->dot(count, a, b);
            if (memcmp(&found, &expected, sizeof found) != 0)
                fail_msg("%s: a dot of %d has another order", lkt_backends()[k]->name, (int)count);
        }
    }
}

/* The sums that ride along with directions are those of dot, of every length and vector's end. */
static void directions_sum_rows(void **state)
{
    static float w[LKI_UPDATE_BLOCK], g[LKI_UPDATE_BLOCK], p[LKI_UPDATE_BLOCK];
    static float m[LKI_UPDATE_BLOCK], v[LKI_UPDATE_BLOCK];
    lkt_random random = lkt_random_make("directions_sum_rows", 46);
    (void)state;
    for (int i = 0; i < LKI_UPDATE_BLOCK; i++) {
        w[i] = (float)lkt_random_real(&random, -1.0, 1.0);
        g[i] = (float)lkt_random_real(&random, -1e-3, 1e3);
    }
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int64_t count = 1; count <= LKI_UPDATE_BLOCK; count += count < 40 ? 1 : 507)
            for (int lamb = 0; lamb < 2; lamb++) {
                const lki_backend *backend = lkt_backends()[b];
                const lki_update update = {.optim = lamb ? lks_lamb() : lks_adamp(),
                                           .scale = 0.75f,
                                           .step = 4,
                                           .correction1 = 1.0,
                                           .correction2 = 0.003994};
                double sum[LKI_ROW_SUMS];
                memcpy(p, g, sizeof p);
                memset(m, 0, sizeof m);
                memset(v, 0, sizeof v);
                backend->direction(&update, count, w, (float *const[LKI_MAX_STATES]){m, v, NULL}, p,
                                   sum);
                const float *squared = lamb ? p : g;
                const double expected[LKI_ROW_SUMS] = {
                    [LKI_ROW_GRADIENT] = backend->dot(count, squared, squared),
                    [LKI_ROW_PARAMETER] = backend->dot(count, w, w),
                    [LKI_ROW_BOTH] = backend->dot(count, g, w),
                    [LKI_ROW_DIRECTION] = backend->dot(count, w, p)};
                if (memcmp(sum, expected, sizeof sum) != 0)
                    fail_msg("%s: sums of a row of %d differ from dots", backend->name, (int)count);
            }
}

/* Three roundings: of the difference, the product and the sum. */
static void averages_approach(void **state)
{
    lkt_random random = lkt_random_make("averages_approach", 45);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        static float left[COUNT], old[COUNT], right[COUNT];
        for (int i = 0; i < COUNT; i++) {
            left[i] = old[i] = (float)lkt_random_real(&random, -1.0, 1.0);
            right[i] = (float)lkt_random_real(&random, -1.0, 1.0);
        }
        lkt_backends()[b]->approach(COUNT - 1, 0.125f, left, right);
        for (int i = 0; i < COUNT - 1; i++) {
            const double step = 0.125 * ((double)right[i] - (double)old[i]);
            near("average", i, left[i], (double)old[i] + step,
                 2.0 * U * fabs(step) + U * fabs((double)old[i] + step));
        }
        assert_true(left[COUNT - 1] == old[COUNT - 1]);
    }
}

/* A gradient that never changes: the spread goes to 0, and rounding takes it below; the step stays
 * a number all the same. */
static void a_spread_below_zero_is_zero(void **state)
{
    (void)state;
    const lks_optim optim = {
        .kind = LKS_RMSPROP, .alpha = 0.5f, .epsilon = 1e-3f, .centered = true};
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        static float w[COUNT], square[COUNT], average[COUNT], sums[COUNT];
        float *arrays[LKI_MAX_STATES] = {square, average, NULL};

        memset(square, 0, sizeof square);
        memset(average, 0, sizeof average);
        for (int i = 0; i < COUNT; i++) w[i] = 1.0f, sums[i] = 1.0f + (float)i / 7.0f;
        for (int step = 1; step <= 60; step++) {
            const lki_update update = {.optim = optim, .lr = 1e-6f, .scale = 1.0f, .step = step};
            const unsigned saved = lki_float_enter();
            lkt_backends()[b]->update(&update, COUNT, w, arrays, sums);
            lki_float_leave(saved);
        }
        for (int i = 0; i < COUNT; i++) assert_true(isfinite(w[i]));
    }
}

static void updates_follow_the_formulas(void **state)
{
    lkt_random random = lkt_random_make("updates_follow_the_formulas", 40);
    lks_optim list[OPTIMIZERS];
    const int count = optimizers(list);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int i = 0; i < count; i++) follow(lkt_backends()[b], list[i], &random);
    }
}

/* The same elements in odd ranges, at odd addresses: the same bits. */
static void updates_do_not_depend_on_the_range(void **state)
{
    lkt_random random = lkt_random_make("updates_do_not_depend_on_the_range", 41);
    lks_optim list[OPTIMIZERS];
    const int count = optimizers(list);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int k = 0; k < count; k++) {
            static float sums[COUNT], whole[4][COUNT], cut[4][COUNT];
            const lki_update update = {.optim = list[k],
                                       .lr = 0.3f,
                                       .scale = 0.1f,
                                       .step = 3,
                                       .correction1 = 0.271,
                                       .correction2 = 0.0029970010};

            for (int i = 0; i < COUNT; i++) {
                sums[i] = (float)lkt_random_real(&random, -1.0, 1.0);
                for (int j = 0; j < 4; j++)
                    whole[j][i] = cut[j][i] = (float)lkt_random_real(&random, 0.0, 1.0);
            }
            const unsigned saved = lki_float_enter();
            lkt_backends()[b]->update(&update, COUNT, whole[0],
                                      (float *const[LKI_MAX_STATES]){whole[1], whole[2], whole[3]},
                                      sums);
            for (int64_t i = 0, n; i < COUNT; i += n) {
                n = lkt_random_from(&random, 1, 70);
                n = n < COUNT - i ? n : COUNT - i;
                lkt_backends()[b]->update(
                    &update, n, cut[0] + i,
                    (float *const[LKI_MAX_STATES]){cut[1] + i, cut[2] + i, cut[3] + i}, sums + i);
            }
            lki_float_leave(saved);
            if (memcmp(whole, cut, sizeof whole) != 0)
                fail_msg("%s: the bits of update %d depend on the range", lkt_backends()[b]->name,
                         k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_the_formulas),
        cmocka_unit_test(directions_follow_the_formula),
        cmocka_unit_test(dots_have_one_order),
        cmocka_unit_test(directions_sum_rows),
        cmocka_unit_test(averages_approach),
        cmocka_unit_test(a_spread_below_zero_is_zero),
        cmocka_unit_test(updates_do_not_depend_on_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
