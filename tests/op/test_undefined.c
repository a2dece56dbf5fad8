/*
 * NaN and infinity in what kernels are given: one number of an input or of the output's gradient, each kernel with a
 * rule of its own and each fused one. It reaches what it reaches in the chain of ref's kernels (relu is 0 for a NaN,
 * a NaN in a window loses against every number), and everything else has the bits that it has with another number in
 * that place. What is allowed beyond that is what docs/kernels.md says: by Winograd's algorithm it may reach the
 * whole tile (op/winograd says which it does not reach), so the samples beside it are looked at.
 */
#include <math.h>
#include <string.h>

#include "core/winograd.h"
#include "support/backends.h"
#include "support/ops.h"

enum { CASES = 16, TRIES = 20000, FINITE = 0, INFINITE = 1, UNDEFINED = 2 };

static int class_of(float x)
{
    return isnan(x) ? UNDEFINED : isinf(x) ? (x > 0 ? INFINITE : -INFINITE) : FINITE;
}

/* A tensor with the odd number in, on ref without it, on ref and on the backend with it, and on the backend without. */
typedef struct four {
    const float *ref, *ref_odd, *found, *found_odd;
} four;

/* What may have it, too: the sample that it is in, perhaps in the tile; what it meets in the border. */
typedef struct reach {
    int64_t sample; /* -1: none */
    bool border;
} reach;

static void check(const lkt_case *c, const char *what, const four *f, int64_t count, reach may)
{
    for (int64_t i = 0; i < count && f->found != NULL; i++) {
        const bool reached = memcmp(&f->ref[i], &f->ref_odd[i], sizeof(float)) != 0;
        const int expected = class_of(f->ref_odd[i]), is = class_of(f->found_odd[i]);
        if (may.sample >= 0 && i / (count / c->count) == may.sample) continue;
        if (may.border && is == UNDEFINED) continue; /* also beside what ref has of it */
        if (reached ? is != expected : memcmp(&f->found[i], &f->found_odd[i], sizeof(float)) != 0)
            fail_msg("%s, winograd %d: %s[%lld] is %g, was %g; on ref %g, was %g", lkt_describe(c),
                     (int)c->switches.winograd, what, (long long)i, (double)f->found_odd[i],
                     (double)f->found[i], (double)f->ref_odd[i], (double)f->ref[i]);
    }
}

typedef struct results {
    lkt_result ref, ref_odd, found, found_odd;
} results;

static void run_all(lkt_case *c, const lki_backend *backend, const lki_kernel *kernel, float *place,
                    float odd, results *r)
{
    const float kept = *place;
    lkt_run(c, lkt_ref(), NULL, NULL, &r->ref);
    lkt_run(c, backend, kernel, NULL, &r->found);
    *place = odd;
    lkt_run(c, lkt_ref(), NULL, NULL, &r->ref_odd);
    lkt_run(c, backend, kernel, NULL, &r->found_odd);
    *place = kept;
}

static bool by_winograd(const lkt_case *c)
{
    return lkt_first(c)->op == LKI_OP_CONV2D && lki_winograd_side(lkt_first(c), &c->switches) > 0;
}

static bool has_border(const lkt_case *c)
{
    for (int i = 0; i < c->cluster.count; i++) {
        const lks_conv2d_opts *opts = c->cluster.node[i]->attr;
        if (c->cluster.node[i]->op == LKI_OP_CONV2D && opts->padding[0] + opts->padding[1] > 0)
            return true;
    }
    return false;
}

static float draw(lkt_random *random)
{
    return (float[]){NAN, INFINITY, -INFINITY}[lkt_random_below(random, 3)];
}

static void check_input(lkt_case *c, const lki_backend *backend, const lki_kernel *kernel,
                        lkt_random *random)
{
    const int64_t count = lkt_in_elements(c, 0), at = lkt_random_below(random, count);
    results r;
    if (c->cluster.in[0]->dtype != LKS_F32 || (by_winograd(c) && c->cluster.counted != NULL))
        return;
    run_all(c, backend, kernel, (float *)c->in[0] + at, draw(random), &r);
    check(c, "out", &(four){r.ref.out, r.ref_odd.out, r.found.out, r.found_odd.out},
          lkt_out_elements(c), (reach){by_winograd(c) ? at / (count / c->count) : -1, false});
}

static void check_gradient(lkt_case *c, const lki_backend *backend, const lki_kernel *kernel,
                           lkt_random *random)
{
    const int64_t count = lkt_out_elements(c), at = lkt_random_below(random, count);
    const int64_t where = by_winograd(c) ? at / (count / c->count) : -1;
    results r;
    if (kernel->backward == NULL || (by_winograd(c) && c->cluster.counted != NULL)) return;
    run_all(c, backend, kernel, c->d_out + at, draw(random), &r);
    for (int i = 0; i < c->cluster.in_count; i++)
        if (lkt_has_gradient(c, i))
            check(c, "d_in",
                  &(four){r.ref.d_in[i], r.ref_odd.d_in[i], r.found.d_in[i], r.found_odd.d_in[i]},
                  lkt_in_elements(c, i), (reach){where, false});
    for (int i = 0; i < c->cluster.param_count && where < 0; i++)
        check(c, "d_param",
              &(four){r.ref.d_param[i], r.ref_odd.d_param[i], r.found.d_param[i],
                      r.found_odd.d_param[i]},
              lkt_param_elements(c, i), (reach){-1, has_border(c)});
}

/* A dense layer that may leave zeros out, of which there are none. */
static bool dense_behind_relu(const lki_impl *impl, lkt_random *random, lkt_case *c)
{
    lkt_case_begin(c);
    lks_tensor *x = lks_input(
        c->graph, &(lks_input_opts){.shape = LKS_SHAPE(lkt_random_from(random, 1024, 1300))});
    const lks_dense_opts opts = {.units = lkt_random_from(random, 64, 128)};
    x = lks_dense(c->graph, lks_relu(c->graph, x), &opts);
    lkt_case_end(c, x, x, lkt_random_from(random, 1, 40), LKT_RANDOM, random);
    for (int64_t i = 0; i < lkt_in_elements(c, 0); i++)
        ((float *)c->in[0])[i] = (float)lkt_random_real(random, 0.1, 1.0);
    if (impl->refuses == NULL || impl->refuses(&c->cluster, &c->switches) == NULL) return true;
    lkt_case_free(c);
    return false;
}

static void odd_numbers_reach_what_they_reach(void **state)
{
    lkt_random random = lkt_random_make("odd_numbers_reach_what_they_reach", 150);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int i = 0; lkt_backends()[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = lkt_backends()[b]->impl[i];
            int cases = 0;
            if (impl->count == 1 && impl->refuses == NULL) continue;
            for (int k = 0; k < TRIES && cases < CASES; k++) {
                lkt_case c;
                if (!lkt_random_chain(impl, false, &random, &c) &&
                    (impl->pattern[0].ops != LKI_OPS(DENSE) ||
                     !dense_behind_relu(impl, &random, &c)))
                    continue;
                check_input(&c, lkt_backends()[b], impl->kernel, &random);
                check_gradient(&c, lkt_backends()[b], impl->kernel, &random);
                lkt_case_free(&c);
                cases++;
            }
            assert_int_equal(cases, CASES);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_numbers_reach_what_they_reach)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
