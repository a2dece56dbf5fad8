/* What pooling in a fused kernel keeps of a chain: of equal values the first has the gradient, and what it refuses. */
#include <string.h>

#include "support/backends.h"
#include "support/ops.h"

/* An implementation's chain, of what may be missing those in `present`, on an image of ones with weights of 1/8, without
 * padding: all that the convolution gives is one positive number, so every window of max_pool has nothing but ties. False:
 * it has no max_pool, or its sums are not exact, or it refuses. */
static bool chain_of_ties(const lki_impl *impl, unsigned present, lkt_random *random, lkt_case *c)
{
    bool pools = false;
    for (int i = 0; i < impl->count; i++) pools |= impl->pattern[i].ops == LKI_OPS(MAX_POOL);
    if (!pools || impl->pattern[0].ops != LKI_OPS(CONV2D) || !lkt_exact_impl(impl)) return false;

    lkt_case_begin(c);
    lks_tensor *x = lks_input(c->graph, &(lks_input_opts){.shape = LKS_SHAPE(9, 11, 16)});
    x = lks_conv2d(c->graph, x, &(lks_conv2d_opts){.filters = 32, .kernel = {2, 3}});
    lks_tensor *first = x;
    for (int i = 1; i < impl->count; i++) {
        const lki_op_id op = lkt_random_member(&impl->pattern[i], random);
        if (impl->pattern[i].optional && !(present >> i & 1u)) continue;
        if (op == LKI_OP_MAX_POOL)
            x = lks_max_pool(c->graph, x, &(lks_pool_opts){.kernel = {2, 2}});
        else if (op == LKI_OP_DROPOUT)
            x = lks_dropout(c->graph, x, &(lks_dropout_opts){.probability = 0.0f});
        else
            x = lkt_random_op(c->graph, op, x, true, random);
    }
    lkt_case_end(c, first, x, 2, LKT_EXACT, random);
    for (int64_t i = 0; i < lkt_in_elements(c, 0); i++) ((float *)c->in[0])[i] = 1.0f;
    for (int64_t i = 0; i < lkt_param_elements(c, 0); i++) c->param[0][i] = 0.125f;
    if (impl->refuses == NULL || impl->refuses(&c->cluster, &c->switches) == NULL) return true;
    lkt_case_free(c);
    return false;
}

/* Every pooled gradient goes through the convolution's output at the first pixel of its window, and
 * from there to the 2 x 3 pixels below it. Sums are exact. */
static void check_ties(const lki_backend *backend, const lki_impl *impl, lkt_case *c)
{
    enum { ROWS = 9, COLUMNS = 11, CHANNELS = 16, FILTERS = 32, POOLED = 4 * 4 };
    const bool flat = lks_tensor_shape(&lkt_last(c)->out).ndim == 1;
    float expected[2 * ROWS * COLUMNS] = {0};
    lkt_result found;

    for (int i = 0; i < 2 * POOLED * FILTERS; i++) {
        const int n = i / (POOLED * FILTERS), inside = i % (POOLED * FILTERS);
        const int at = flat ? inside % POOLED : inside / FILTERS;

        for (int k = 0; k < 6; k++)
            expected[(n * ROWS + at / 4 * 2 + k / 3) * COLUMNS + at % 4 * 2 + k % 3] += 0.125f *
                                                                                        c->d_out[i];
    }
    lkt_run(c, backend, impl->kernel, NULL, &found);
    for (int64_t i = 0; i < lkt_in_elements(c, 0); i++)
        assert_true(found.d_in[0][i] == expected[i / CHANNELS]);
}

static void ties_go_to_the_first(void **state)
{
    lkt_random random = lkt_random_make("ties_go_to_the_first", 61);
    int chains = 0, fused = 0;

    (void)state;
    for (int b = 0; lkt_registered()[b] != NULL; b++)
        for (int i = 0; lkt_registered()[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = lkt_registered()[b]->impl[i];

            fused += impl->count > 1;
            for (unsigned present = 0; present < 1u << impl->count; present++) {
                lkt_case c;

                if (!chain_of_ties(impl, present, &random, &c)) continue;
                chains++;
                check_ties(lkt_registered()[b], impl, &c);
                lkt_case_free(&c);
            }
        }
    assert_true(chains > 0 || fused == 0);
}

/* What conv_block says of these filters of 64 channels, and of so much padding. */
static const char *block_refusal(const lki_impl *impl, int64_t filters, int64_t kernel,
                                 int64_t padding)
{
    lks_context *context;
    lks_graph *graph;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(2, 2, 64)});
    lks_tensor *c = lks_conv2d(graph, x,
                               &(lks_conv2d_opts){.filters = filters,
                                                  .kernel = {kernel, kernel},
                                                  .padding = {padding, padding}});
    lks_tensor *r = impl->pattern[1].ops == LKI_OPS(RELU) ? lks_relu(graph, c) : lks_silu(graph, c);
    lks_tensor *m = lks_max_pool(graph, r, &(lks_pool_opts){.kernel = {2, 2}});
    LKT_OK(lks_graph_status(graph));
    lki_cluster cluster = {.node = {c->node, r->node, m->node}, .count = 3};
    assert_true(lki_cluster_close(&cluster));
    const char *why = impl->refuses(&cluster, &(lki_switches){0});
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return why;
}

/* Positions in an image with its border are 32 bits wide: 6000 x 6000 x 64 is above 2^31. And Winograd's algorithm has
 * fewer products than a wide layer has gradients, or any behind gelu and silu. */
static void large_blocks_are_refused(void **state)
{
    (void)state;
    for (int b = 0; lkt_registered()[b] != NULL; b++)
        for (int i = 0; lkt_registered()[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = lkt_registered()[b]->impl[i];
            if (strcmp(impl->name, "conv_block_gelu") == 0) {
                assert_null(block_refusal(impl, 32, 5, 2));
                assert_string_equal(block_refusal(impl, 32, 3, 1),
                                    "more gradients than Winograd's algorithm has products");
            }
            if (strcmp(impl->name, "conv_block") != 0) continue;
            assert_null(block_refusal(impl, 32, 1, 1));
            assert_string_equal(block_refusal(impl, 32, 1, 3000),
                                "an image with more than 2^31 elements");
            assert_null(block_refusal(impl, 256, 3, 1));
            assert_string_equal(block_refusal(impl, 288, 3, 1),
                                "more gradients than Winograd's algorithm has products");
            assert_null(block_refusal(impl, 288, 1, 1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ties_go_to_the_first),
                                       cmocka_unit_test(large_blocks_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
