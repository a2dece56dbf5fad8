/*
 * Fused kernels of operations for which no values are exact (batch norm): their bits are those of their own
 * backend's kernels one after the other, which are held to ref's on their own. In training, in small pieces
 * and added to gradients that are there, without gradients of inputs, and as in evaluation.
 */
#include <string.h>

#include "support/backends.h"
#include "support/ops.h"

enum { CASES = 150, TRIES = 40000 };

static void same_bits(const lkt_case *c, const char *what, int index, const float *found,
                      const float *expected, int64_t count)
{
    for (int64_t i = 0; expected != NULL && i < count; i++)
        if (memcmp(&found[i], &expected[i], sizeof *found) != 0)
            fail_msg("fused %s: %s %d[%lld] is %.9g, of single kernels %.9g", lkt_describe(c), what,
                     index, (long long)i, (double)found[i], (double)expected[i]);
}

static void compare_bits(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                         lkt_how how)
{
    lkt_result found, expected;

    lkt_run(c, backend, fused, &how, &found);
    lkt_run(c, backend, NULL, &how, &expected);
    same_bits(c, "the output", 0, found.out, expected.out, lkt_out_elements(c));
    for (int i = 0; i < c->cluster.in_count && c->training; i++)
        same_bits(c, "the gradient of input", i, found.d_in[i], expected.d_in[i],
                  lkt_in_elements(c, i));
    for (int i = 0; i < c->cluster.param_count && c->training; i++)
        same_bits(c, "the gradient of parameter", i, found.d_param[i], expected.d_param[i],
                  lkt_param_elements(c, i));
    if (c->training && c->cluster.counted != NULL)
        assert_memory_equal(found.stats, expected.stats,
                            (size_t)c->cluster.counted->stats * sizeof *found.stats);
}

static void bits_case(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                      lkt_random *random)
{
    lkt_how pieces = {.slice = 2};

    for (int i = 0; i < c->cluster.in_count; i++) {
        float *prior = lkt_case_memory(c, (size_t)lkt_in_elements(c, i) * sizeof *prior);

        if (!lkt_has_gradient(c, i)) continue;
        for (int64_t e = 0; e < lkt_in_elements(c, i); e++)
            prior[e] = (float)lkt_random_real(random, -1.0, 1.0);
        pieces.add_in |= 1u << i;
        pieces.prior[i] = prior;
    }
    compare_bits(c, backend, fused, (lkt_how){0});
    compare_bits(c, backend, fused, pieces);
    compare_bits(c, backend, fused, (lkt_how){.skip_in = 1});
    compare_bits(c, backend, fused, (lkt_how){.skip_in = 2, .slice = 1});
    c->training = false;
    compare_bits(c, backend, fused, (lkt_how){.slice = 2});
}

static void check_impl(const lki_backend *backend, const lki_impl *impl, lkt_random *random)
{
    int count = 0;

    for (int k = 0; k < TRIES && count < CASES; k++) {
        lkt_case c;

        if (!lkt_random_chain(impl, false, random, &c)) continue;
        bits_case(&c, backend, impl->kernel, random);
        lkt_case_free(&c);
        count++;
    }
    if (count < CASES)
        fail_msg("%s: %s met only %d cases in %d tries", backend->name, impl->name, count, TRIES);
}

static void fused_bits(void **state)
{
    lkt_random random = lkt_random_make("fused_bits", 62);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int i = 0; i < lkt_backends()[b]->impl_count; i++) {
            const lki_impl *impl = &lkt_backends()[b]->impl[i];
            if (impl->count == 1 || lkt_exact_impl(impl)) continue;
            print_message("%s: %s\n", lkt_backends()[b]->name, impl->name);
            check_impl(lkt_backends()[b], impl, &random);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
