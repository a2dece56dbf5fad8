/* The switches of kernels: which kernels of cpu they leave, and what the plan says of those that they take away. */
#include <string.h>

#include "program/program.h"
#include "support/test.h"

#include "model/model.h"
#include "support/runs.h"

/* conv_block, conv_norm and conv2d_relu, each where nothing but a switch speaks against it. */
static lks_tensor *net(lks_graph *g)
{
    const lks_conv2d_opts wide = {.filters = 32, .kernel = {3, 3}, .padding = {1, 1}};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(8, 8, 16)});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = 3});
    x = lks_max_pool(g, lks_relu(g, lks_conv2d(g, x, &wide)), &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_relu(g, lks_batch_norm(g, lks_conv2d(g, x, &wide), NULL));
    x = lks_relu(g, lks_conv2d(g, x, &wide));
    x = lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = 3});
    return lks_cross_entropy(g, x, y, NULL);
}

/* "conv_block[...] conv_norm[...]", with what was refused by a switch, and where norm_activation was, behind each stage. */
static const char *stages(lkt_net build, const lks_kernel_opts *kernels, char *out, size_t size)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "cpu"});
    lkt_compile(&m,
                &(lks_model_opts){.loss = build(m.graph), .global_batch = 4, .kernels = *kernels});
    const lki_program *program = &m.model->program;
    size_t used = 0;
    out[0] = '\0';
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        assert_memory_equal(&stage->plan->switches, kernels, sizeof *kernels);
        used += (size_t)snprintf(out + used, size - used, "%s", stage->impl->name);
        for (const lki_refusal *r = stage->refused; r != NULL; r = r->next)
            if (strncmp(r->why, "kernels.", 8) == 0 ||
                strcmp(r->impl->name, "norm_activation") == 0)
                used += (size_t)snprintf(out + used, size - used, " (%s: %s)", r->impl->name,
                                         r->why);
        used += (size_t)snprintf(out + used, size - used, "\n");
    }
    assert_true(used < size);
    lkt_end(&m);
    return out;
}

/* Norms behind a pool, in a sum, behind a dense layer; and behind a convolution whose kernel does not take the sum, as the other
 * operand's reads the same input behind it. */
static lks_tensor *norms(lks_graph *g)
{
    const lks_conv2d_opts point = {.filters = 16, .kernel = {1, 1}};
    const lks_pool_opts half = {.kernel = {2, 2}};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(8, 8, 16)});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = 3});
    x = lks_gelu(g, lks_batch_norm(g, lks_max_pool(g, x, &half), NULL), NULL);
    x = lks_relu(g, lks_add(g, x, lks_batch_norm(g, x, NULL)));
    lks_tensor *main = lks_batch_norm(g, lks_conv2d(g, x, &point), NULL);
    x = lks_relu(g, lks_add(g, main, lks_conv2d(g, x, &point)));
    x = lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = 3});
    return lks_cross_entropy(g, lks_tanh(g, lks_batch_norm(g, x, NULL)), y, NULL);
}

static void what_a_switch_takes_away(void **state)
{
    char out[2048];
    (void)state;
    if (lki_backend_find("cpu") == NULL) skip();
    assert_string_equal(stages(net, &(lks_kernel_opts){0}, out, sizeof out),
                        "conv_block\nconv_norm\nconv2d_relu\nflatten\ndense\ncross_entropy\n");
    assert_string_equal(
        stages(net, &(lks_kernel_opts){.all_terms = true}, out, sizeof out),
        "conv2d_relu (conv_block: kernels.skip_zeros: false)\nmax_pool\nconv_norm\nconv2d_relu\n"
        "flatten\ndense\ncross_entropy\n");
    assert_string_equal(
        stages(net, &(lks_kernel_opts){.single = true}, out, sizeof out),
        "conv2d (conv_block: kernels.fuse: false) (conv2d_relu: kernels.fuse: false)\nrelu\n"
        "max_pool\nconv2d (conv_norm: kernels.fuse: false)\nbatch_norm "
        "(norm_activation: behind a convolution)\nrelu\n"
        "conv2d (conv2d_relu: kernels.fuse: false)\nrelu\nflatten\ndense\ncross_entropy\n");
}

static void where_norms_have_their_activation(void **state)
{
    char out[2048];
    (void)state;
    if (lki_backend_find("cpu") == NULL) skip();
    assert_string_equal(
        stages(norms, &(lks_kernel_opts){0}, out, sizeof out),
        "max_pool\nbatch_norm (norm_activation: backward would form the slope twice)\ngelu\n"
        "norm_activation\nconv_norm\nconv2d\nadd\nrelu\n"
        "flatten\ndense\nnorm_activation\ncross_entropy\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_switch_takes_away),
        cmocka_unit_test(where_norms_have_their_activation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
