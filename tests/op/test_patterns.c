/*
 * Every fused kernel of every backend against the chain of ref's kernels.
 *
 * First on values for which all sums are exact in f32 (LKT_EXACT): results must be equal, ties and
 * zeros included. Then, for chains that start with conv2d or dense, on random values within bounds;
 * draws where rounding could change which way a relu or max_pool goes are passed over.
 *
 * test_clusters.c has clusters of any form, and compares them with single nodes of the same backend.
 */
#include <math.h>
#include <string.h>

#include "numeric/random.h"
#include "support/backends.h"
#include "support/ops.h"

enum { CASES = 24, TRIES = 40000 };

static const double U = 0x1p-24;

static void equal(const lkt_case *c, const char *what, const float *found, const float *expected,
                  int64_t count)
{
    for (int64_t i = 0; expected != NULL && i < count; i++) {
        if (!(found[i] == expected[i]))
            fail_msg("fused %s: %s[%lld] is %.9g, on ref %.9g", lkt_describe(c), what, (long long)i,
                     (double)found[i], (double)expected[i]);
    }
}

static void compare_exactly(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                            lkt_how how)
{
    lkt_result found, expected;

    lkt_run(c, backend, fused, &how, &found);
    how.slice = 0;
    lkt_run(c, lkt_ref(), NULL, &how, &expected);
    equal(c, "the output", found.out, expected.out, lkt_out_elements(c));
    for (int i = 0; i < c->cluster.in_count && c->training; i++) {
        if (lkt_has_gradient(c, i))
            equal(c, "the input's gradient", found.d_in[i], expected.d_in[i],
                  lkt_in_elements(c, i));
    }
    for (int i = 0; i < LKI_MAX_SLOTS && c->training && c->param[i] != NULL; i++)
        equal(c, "a parameter's gradient", found.d_param[i], expected.d_param[i],
              lkt_param_elements(c, i));
}

/* Written, in small pieces and added, without the input's gradient, and as in evaluation. */
static void exact_case(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                       lkt_random *random)
{
    lkt_how pieces = {.slice = 2};

    if (lkt_has_gradient(c, 0)) {
        float *prior = lkt_case_memory(c, (size_t)lkt_in_elements(c, 0) * sizeof *prior);

        for (int64_t i = 0; i < lkt_in_elements(c, 0); i++)
            prior[i] = (float)lkt_random_from(random, -8, 8) / 8.0f;
        pieces.add_in = 1;
        pieces.prior[0] = prior;
    }
    compare_exactly(c, backend, fused, (lkt_how){0});
    compare_exactly(c, backend, fused, pieces);
    compare_exactly(c, backend, fused, (lkt_how){.skip_in = 1});
    c->training = false;
    compare_exactly(c, backend, fused, (lkt_how){0});
}

/* The case of nodes [from, to) of the chain, sharing all else. */
static lkt_case part_of(const lkt_case *c, int from, int to)
{
    lkt_case part = *c;

    part.cluster.count = to - from;
    for (int i = from; i < to; i++) part.cluster.node[i - from] = c->cluster.node[i];
    assert_true(lki_cluster_close(&part.cluster));
    return part;
}

/* Whether the two largest of a window differ by more than `room`; zeros are exact. */
static bool clear_winner(const lki_node *pool, const float *in, int64_t oy, int64_t ox, int64_t c,
                         double room)
{
    const lks_pool_opts *opts = pool->attr;
    const int64_t *size = pool->in[0]->shape.dim;
    double best = -INFINITY, second = -INFINITY;

    for (int64_t k = 0; k < opts->kernel[0] * opts->kernel[1]; k++) {
        const int64_t y = oy * opts->stride[0] + k / opts->kernel[1] - opts->padding[0];
        const int64_t x = ox * opts->stride[1] + k % opts->kernel[1] - opts->padding[1];

        if (y < 0 || y >= size[0] || x < 0 || x >= size[1]) continue;
        const double v = (double)in[(y * size[1] + x) * size[2] + c];
        second = v > best ? best : fmax(second, v);
        best = fmax(best, v);
    }
    return best - second > room || (best == 0.0 && second == 0.0);
}

/* Whether an error of `room` / 2 in the node's input `in` leaves its choices as they are. */
static bool clear(const lki_node *node, const float *in, int64_t samples, double room)
{
    const int64_t elements = lks_shape_elements(&node->in[0]->shape);

    for (int64_t i = 0; node->op == LKI_OP_RELU && i < samples * elements; i++) {
        if (in[i] != 0.0f && fabs((double)in[i]) <= room) return false;
    }
    if (node->op != LKI_OP_MAX_POOL) return true;
    const int64_t *size = node->out.shape.dim;
    for (int64_t i = 0; i < samples * size[0] * size[1] * size[2]; i++) {
        const int64_t at = i / size[2], n = at / (size[0] * size[1]);

        if (!clear_winner(node, in + n * elements, at / size[1] % size[0], at % size[1],
                          i % size[2], room))
            return false;
    }
    return true;
}

/* Of these the second derivative is below 0.8 (gelu at 0: sqrt(2 / pi)), and their results have a few roundings. */
#define STEEPEST 1.13 /* gelu at sqrt(2) */
static bool smooth(const lki_node *node)
{
    return node->op == LKI_OP_GELU || node->op == LKI_OP_SILU;
}

/* What follows the head: whether no choice is near, and how it enlarges errors. */
typedef struct tail {
    bool clear;
    double scale; /* of an error of the head's output */
    double terms; /* roundings of a gradient on its way back to the head's output */
} tail;

static tail look_at_tail(lkt_case *c, double error)
{
    tail t = {.clear = true, .scale = 1.0};

    for (int i = 1; i < c->cluster.count; i++) {
        const lki_node *node = c->cluster.node[i];
        lkt_case before = part_of(c, 0, i);
        lkt_result result;

        lkt_run(&before, lkt_ref(), NULL, &(lkt_how){.no_backward = true}, &result);
        c->blocks = before.blocks;
        t.clear &= clear(node, result.out, c->count, 2.0 * error * t.scale);
        t.terms += 1.0;
        if (smooth(node)) {
            t.scale *= STEEPEST;
            t.terms += 4.0;
        }
        if (node->op == LKI_OP_DROPOUT)
            t.scale /=
                1.0 -
                lki_bernoulli_make(((const lks_dropout_opts *)node->attr)->probability).probability;
        if (node->op == LKI_OP_MAX_POOL || node->op == LKI_OP_AVG_POOL) {
            const lks_pool_opts *opts = node->attr;

            t.terms += (double)(opts->kernel[0] * opts->kernel[1]);
        }
    }
    return t;
}

static void within(const lkt_case *c, const char *what, const float *found, const float *expected,
                   const double *bound, double factor, double more, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double room = bound[i] * factor + more * (1.0 + fabs((double)expected[i]));

        if (!(fabs((double)found[i] - (double)expected[i]) <= room))
            fail_msg("fused %s: %s[%lld] is %.9g, on ref %.9g, the bound is %.3g", lkt_describe(c),
                     what, (long long)i, (double)found[i], (double)expected[i], room);
    }
}

/* The bound of gradients as if the slope of the activation behind the head were the steepest everywhere. */
static void steepest(lkt_case *c, lkt_case *head, lkt_result *of_head, lkt_bounds *bound)
{
    lkt_case before = part_of(c, 0, 2), pool = part_of(c, 2, c->cluster.count);
    lkt_result of_before, of_pool;
    before.blocks = c->blocks;
    lkt_run(&before, lkt_ref(), NULL, &(lkt_how){.no_backward = true}, &of_before);
    pool.blocks = before.blocks;
    pool.in[0] = of_before.out;
    lkt_run(&pool, lkt_ref(), NULL, NULL, &of_pool);
    head->blocks = pool.blocks;
    for (int64_t i = 0; i < lkt_out_elements(head); i++)
        head->d_out[i] = (float)STEEPEST * of_pool.d_in[0][i];
    lkt_run(head, lkt_ref(), NULL, NULL, of_head);
    lkt_bounds_make(head, NULL, of_head, bound);
    c->blocks = head->blocks;
}

/*
 * The head's output has the error bound E of bounds.c, at most; what follows multiplies it by `scale`
 * and rounds `terms` times. Its gradient comes back with `terms` roundings (d_out is positive here, so
 * sums in pools do not cancel), which adds terms * u * S to the head's bound of at least 4.4 u S.
 * Behind gelu and silu the gradient at the head's output errs by the slope's error too, 0.8 E and some roundings: the
 * bound is that of gradients of the steepest slope, and that error is counted as terms of those.
 * Returns false where a choice is too near.
 */
static bool random_case(lkt_case *c, const lki_backend *backend, const lki_kernel *fused)
{
    lkt_case head = part_of(c, 0, 1), rest = part_of(c, 1, c->cluster.count);
    lkt_result of_head, of_rest, found, expected;
    lkt_bounds bound;
    double error = 0.0;

    for (int64_t i = 0; i < lkt_out_elements(c); i++) c->d_out[i] = fabsf(c->d_out[i]);
    head.d_out = lkt_case_memory(&head, (size_t)lkt_out_elements(&head) * sizeof(float));
    lkt_run(&head, lkt_ref(), NULL, &(lkt_how){.no_backward = true}, &of_head);
    rest.blocks = head.blocks;
    rest.in[0] = of_head.out;
    rest.d_out = c->d_out;
    lkt_run(&rest, lkt_ref(), NULL, NULL, &of_rest);
    head.blocks = rest.blocks;
    head.d_out = of_rest.d_in[0];
    lkt_run(&head, lkt_ref(), NULL, NULL, &of_head);
    lkt_bounds_make(&head, NULL, &of_head, &bound);
    c->blocks = head.blocks;
    for (int64_t i = 0; i < lkt_out_elements(&head); i++) error = fmax(error, bound.out[i]);

    tail t = look_at_tail(c, error);
    if (!t.clear) return false;
    if (smooth(c->cluster.node[1])) {
        t.terms += 0.8 * error / U + 8.0;
        steepest(c, &head, &of_head, &bound);
    }
    lkt_run(c, lkt_ref(), NULL, NULL, &expected);
    lkt_run(c, backend, fused, NULL, &found);
    double *whole = lkt_case_memory(c, (size_t)lkt_out_elements(c) * sizeof *whole);
    for (int64_t i = 0; i < lkt_out_elements(c); i++) whole[i] = error * t.scale;
    within(c, "the output", found.out, expected.out, whole, 1.0, 2.0 * t.terms * U,
           lkt_out_elements(c));
    const double factor = 1.0 + t.terms / 4.0;
    within(c, "the input's gradient", found.d_in[0], expected.d_in[0], bound.d_in[0], factor, 0.0,
           lkt_in_elements(c, 0));
    for (int i = 0; i < LKI_MAX_SLOTS && c->param[i] != NULL; i++)
        within(c, "a parameter's gradient", found.d_param[i], expected.d_param[i], bound.d_param[i],
               factor, 0.0, lkt_param_elements(c, i));
    return true;
}

static void check_impl(const lki_backend *backend, const lki_impl *impl, lkt_random *random)
{
    const bool linear_head = (impl->pattern[0].ops & (LKI_OPS(CONV2D) | LKI_OPS(DENSE))) != 0;
    int exact = 0, rounded = linear_head ? 0 : CASES;

    for (int k = 0; k < TRIES && (exact < CASES || rounded < CASES); k++) {
        const bool want_exact = exact < CASES;
        lkt_case c;

        if (!lkt_random_chain(impl, want_exact, random, &c)) continue;
        if (want_exact) {
            exact_case(&c, backend, impl->kernel, random);
            exact++;
        } else if (random_case(&c, backend, impl->kernel)) {
            rounded++;
        }
        lkt_case_free(&c);
    }
    if (exact < CASES || rounded < CASES)
        fail_msg("%s: %s met only %d exact and %d random cases in %d tries", backend->name,
                 impl->name, exact, rounded, TRIES);
}

static void fused_kernels_agree_with_the_chain(void **state)
{
    lkt_random random = lkt_random_make("fused_kernels_agree_with_the_chain", 60);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int i = 0; lkt_backends()[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = lkt_backends()[b]->impl[i];
            if (impl->count == 1 || !lkt_exact_impl(impl)) continue;
            print_message("%s: %s\n", lkt_backends()[b]->name, impl->name);
            check_impl(lkt_backends()[b], impl, &random);
        }
    }
}

/* Blocks whose channels and filters fill no vector: one pixel, windows over the border, images with an odd
 * row and column too many for the pool, each pool, and dropout. */
static bool small_block(lkt_case *c, const lki_impl *impl, bool exact, lkt_random *random)
{
    static const int64_t pools[][2] = {{2, 2}, {3, 2}, {3, 3}};
    const int64_t *pool = pools[lkt_random_below(random, 3)];
    const int64_t kernel[2] = {lkt_random_from(random, 1, 7), lkt_random_from(random, 1, 7)};
    lks_conv2d_opts opts = {.filters = lkt_random_from(random, 1, 20)};
    int64_t size[2];
    lkt_case_begin(c);
    for (int i = 0; i < 2; i++) {
        const int64_t pixels = lkt_random_below(random, 3) == 0 ? pool[0]
                                                                : lkt_random_from(random, 3, 12);
        opts.kernel[i] = kernel[i];
        opts.padding[i] = lkt_random_from(random, 0, kernel[i]);
        size[i] = pixels + kernel[i] - 1 - 2 * opts.padding[i];
        if (size[i] < 1) size[i] = 1;
    }
    lks_tensor *x = lks_input(
        c->graph,
        &(lks_input_opts){.shape = LKS_SHAPE(size[0], size[1], lkt_random_from(random, 1, 9))});
    lks_tensor *first = x = lks_conv2d(c->graph, x, &opts);
    x = lkt_random_op(c->graph, lkt_random_member(&impl->pattern[1], random), x, exact, random);
    x = lks_max_pool(c->graph, x,
                     &(lks_pool_opts){.kernel = {pool[0], pool[0]}, .stride = {pool[1], pool[1]}});
    if (lkt_random_below(random, 2) == 0)
        x = lks_dropout(c->graph, x, &(lks_dropout_opts){.probability = 0.5f});
    if (lkt_random_below(random, 2) == 0) x = lks_flatten(c->graph, x);
    if (lks_graph_status(c->graph) == LKS_OK) {
        lkt_case_end(c, first, x, lkt_random_from(random, 1, 5), exact ? LKT_EXACT : LKT_RANDOM,
                     random);
        return true;
    }
    lkt_case_free(c);
    return false;
}

static void small_blocks_agree_with_the_chain(void **state)
{
    lkt_random random = lkt_random_make("small_blocks_agree_with_the_chain", 63);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int i = 0; lkt_backends()[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = lkt_backends()[b]->impl[i];
            if (strncmp(impl->name, "conv_block", strlen("conv_block")) != 0) continue;
            int exact = lkt_exact_impl(impl) ? 0 : 2 * CASES, rounded = 0;
            for (int k = 0; k < TRIES && (exact < 2 * CASES || rounded < CASES); k++) {
                lkt_case c;
                if (!small_block(&c, impl, exact < 2 * CASES, &random)) continue;
                assert_null(impl->refuses(&c.cluster, &c.switches));
                if (exact < 2 * CASES) {
                    exact_case(&c, lkt_backends()[b], impl->kernel, &random);
                    exact++;
                } else if (random_case(&c, lkt_backends()[b], impl->kernel)) {
                    rounded++;
                }
                lkt_case_free(&c);
            }
            assert_true(exact == 2 * CASES && rounded == CASES);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_blocks_agree_with_the_chain),
        cmocka_unit_test(fused_kernels_agree_with_the_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
