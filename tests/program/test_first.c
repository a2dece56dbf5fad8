/*
 * Whether a network's first convolution reads bytes, what the plan says where it does not, and that it changes no bit: hashes
 * with and without fused kernels are equal, for any number of replicas, workers and samples, on every instruction set.
 */
#include <string.h>

#include "cpu/vectors.h"
#include "model/model.h"
#include "support/runs.h"

#ifdef LKT_HAVE_CPU

enum { CLASSES = 5 };

enum { NORM = 1, SUM = 2, POOL = 4, FLOATS = 8 }; /* what is behind the convolution; and in front */

typedef struct variant {
    int what;
    int64_t filters, kernel, stride;
    lks_kernel_opts kernels;
    const char *stages; /* up to the convolution's, with why it does not read bytes */
} variant;

static const variant variants[] = {
    {0, 6, 3, 1, {0}, "first"},
    {NORM, 6, 3, 1, {0}, "first_norm"},
    {NORM, 32, 3, 2, {0}, "first_norm"},
    {NORM, 20, 7, 1, {0}, "first_norm"}, /* more terms than two blocks */
    {NORM | SUM, 17, 3, 1, {0}, "first first_norm"},
    {NORM | FLOATS,
     6,
     3,
     1,
     {0},
     "normalize (first_norm: normalises floats) (first: normalises floats) conv_norm"},
    {NORM,
     6,
     3,
     1,
     {.bf16 = true},
     "normalize (first_norm: train.dtype: bf16) (first: train.dtype: bf16) conv_norm"},
    {NORM,
     6,
     3,
     1,
     {.bf16_storage = true},
     "normalize (first_norm: train.dtype: bf16_storage) (first: conv_norm takes c) conv_norm"},
    {POOL, 32, 3, 1, {0}, "normalize (first: conv_block takes c) conv_block"},
};
static const variant *now;

static lks_tensor *net(lks_graph *g)
{
    const int64_t padding = now->kernel / 2;
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3),
                             .dtype = (now->what & FLOATS) != 0 ? LKS_F32 : LKS_U8});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = CLASSES});
    const lks_normalize_opts scale = {
        .count = 3, .mean = (float[]){.4f, .5f, .1f}, .std = (float[]){.3f, .2f, .7f}};
    lks_tensor *side = NULL;
    if ((now->what & SUM) != 0)
        side = lks_conv2d(g, lks_normalize(g, x, &scale),
                          &(lks_conv2d_opts){.filters = now->filters, .kernel = {1, 1}});
    x = lks_normalize(g, x, &scale);
    x = lks_conv2d(g, x,
                   &(lks_conv2d_opts){.name = "c",
                                      .filters = now->filters,
                                      .kernel = {now->kernel, now->kernel},
                                      .stride = {now->stride, now->stride},
                                      .padding = {padding, padding}});
    if ((now->what & NORM) != 0) x = lks_batch_norm(g, x, NULL);
    if ((now->what & SUM) != 0) x = lks_add(g, x, side);
    x = lks_relu(g, x);
    if ((now->what & POOL) != 0) x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = CLASSES});
    return lks_cross_entropy(g, x, y, NULL);
}

static bool has(const lki_stage *stage, const char *name)
{
    bool found = false;
    for (int i = 0; i < stage->cluster->count; i++)
        found = found || strcmp(stage->cluster->node[i]->name, name) == 0;
    return found;
}

static const char *stages(char *out, size_t size)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "cpu"});
    size_t used = 0;
    lkt_compile(
        &m, &(lks_model_opts){.loss = net(m.graph), .global_batch = 4, .kernels = now->kernels});
    const lki_program *program = &m.model->program;
    bool end = false;
    for (int s = 0; !end; s++) {
        const lki_stage *stage = &program->stage[s];
        end = has(stage, "c");
        used += (size_t)snprintf(out + used, size - used, "%s%s", s > 0 ? " " : "",
                                 stage->impl->name);
        for (const lki_refusal *r = stage->refused; r != NULL; r = r->next)
            if (strncmp(r->impl->name, "first", 5) == 0)
                used += (size_t)snprintf(out + used, size - used, " (%s: %s)", r->impl->name,
                                         r->why);
        assert_true(used < size);
    }
    lkt_end(&m);
    return out;
}

/* The last batch has less samples than there are replicas. conv_block, and bf16_storage, have an order of their own. */
static void same_bits(void)
{
    static const int replicas[] = {1, 3, 7};
    const lki_vector *usual = lki_cpu_vector();
    for (int k = 0; k < 3; k++) {
        lkt_run run = {.device = "cpu",
                       .net = net,
                       .samples = 25,
                       .batch = 11,
                       .steps = 5,
                       .opts = {.replicas = replicas[k],
                                .workers = 1,
                                .kernels = now->kernels,
                                .optim = lks_adam()}};
        lks_metrics expected[2], found[2];
        run.opts.kernels.single = true;
        const uint64_t hash = lkt_run_hash(&run, expected);
        run.opts.kernels.single = false;
        run.opts.workers = k > 0 ? 3 : 1;
        LKT_FOR_ISAS(v)
        {
            lki_cpu_vector_use(v);
            if (lkt_run_hash(&run, found) != hash)
                fail_msg("%s, %d replicas, %s: other bits than single nodes", now->stages,
                         replicas[k], v->name);
            assert_memory_equal(found, expected, sizeof expected);
        }
        lki_cpu_vector_use(usual);
    }
}

static void bytes_are_read_or_the_plan_says_why_not(void **state)
{
    char out[512];
    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        now = &variants[v];
        assert_string_equal(stages(out, sizeof out), now->stages);
        if ((now->what & (POOL | FLOATS)) == 0 && !now->kernels.bf16_storage) same_bits();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_read_or_the_plan_says_why_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
