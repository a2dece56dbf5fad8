/*
 * Twenty steps of four networks of the zoo beside PyTorch's of torchvision's networks. tools/goldens/zoo_training.py made
 * tests/models/golden/zoo_training.json, and says where values come from.
 *
 * f32: each loss within 1e-4 of PyTorch's in float64, relatively. PyTorch's own float32, at rates that were chosen for it, is up to
 * 1e-4 from that, too.
 * bf16: PyTorch's autocast rounds the factors that we round, and beyond these stores activations and gradients in bfloat16. So a
 * loss may be as far from float64's as PyTorch's have been until then, twice: two sequences of roundings of the same size are
 * independent of each other, and the smaller of two such distances is no bound of the other.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

enum { SIDE = 32, ELEMENTS = SIDE * SIDE * 3, SAMPLES = 24, BATCH = 8, CLASSES = 10 };

static float unit(uint32_t i, uint32_t stream)
{
    return (float)(lkt_hashed(i, stream) >> 8) * 0x1p-23f - 1;
}

typedef struct samples {
    float x[SAMPLES * ELEMENTS];
    int32_t y[SAMPLES];
} samples;

static samples *make_samples(void)
{
    samples *all = malloc(sizeof *all);
    assert_non_null(all);
    for (int s = 0; s < SAMPLES; s++) {
        all->y[s] = s % CLASSES;
        for (int i = 0; i < ELEMENTS; i++) {
            float *x = &all->x[s * ELEMENTS + i];
            *x = unit((uint32_t)(s * ELEMENTS + i), 1001);
            if (i % 3 == s % 3) *x += (float)(s % 10) / 5.0f - 1.0f;
        }
    }
    return all;
}

static void fill_norm(lks_model *model, const lki_node *node, const char *network, uint32_t p)
{
    const char *last = strcmp(network, "resnet18") == 0   ? ".bn2"
                       : strcmp(network, "resnet50") == 0 ? ".bn3"
                                                          : "?";
    const float part = strstr(node->name, last) != NULL ? .25f : 1;
    char name[LKI_NAME_SIZE + 40];
    snprintf(name, sizeof name, "%s.weight", node->name);
    lkt_golden_write(model, name, p, part / 16, part);
    snprintf(name, sizeof name, "%s.bias", node->name);
    lkt_golden_write(model, name, p + 1, part / 16, 0);
}

static void fill_product(lks_model *model, const lki_node *node, uint32_t p)
{
    double fan_in = 1;
    char name[LKI_NAME_SIZE + 40];
    for (int d = 1; d < node->param[0].shape.ndim; d++)
        fan_in *= (double)node->param[0].shape.dim[d];
    snprintf(name, sizeof name, "%s.weight", node->name);
    lkt_golden_write(model, name, p, (float)sqrt(6 / fan_in), 0);
    snprintf(name, sizeof name, "%s.bias", node->name);
    if (node->param_count > 1) lkt_golden_write(model, name, p + 1, .1f, 0);
}

static void fill(lks_model *model, const lks_graph *graph, const char *network)
{
    uint32_t p = 0; /* of torchvision's state dict, which has running statistics, too */
    for (const lki_node *node = graph->first; node != NULL; node = node->next) {
        if (node->op == LKI_OP_BATCH_NORM)
            fill_norm(model, node, network, p);
        else if (node->param_count > 0)
            fill_product(model, node, p);
        p += (uint32_t)node->param_count + (node->op == LKI_OP_BATCH_NORM ? 2 : 0);
    }
}

static lks_tensor *build(lks_graph *graph, const char *network)
{
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, 3)});
    x = lks_network(
        graph, x, network,
        &(lks_network_opts){.outputs = CLASSES, .stem = LKS_STEM_CIFAR, .no_dropout = true});
    return lks_cross_entropy(graph, x, lks_target(graph, &(lks_target_opts){.classes = CLASSES}),
                             NULL);
}

/* The largest distance, over its bound. */
static double check_steps(lks_model *model, const json_t *entry, const samples *all, bool bf16)
{
    const json_t *losses = json_object_get(entry, "losses");
    const json_t *errors = json_object_get(entry, "bf16_errors");
    double most = 0;
    assert_int_equal(json_array_size(losses), 20);
    const size_t steps = lkt_in_part() ? 4 : json_array_size(losses);
    for (size_t step = 0; step < steps; step++) {
        const size_t first = step % 3 * BATCH;
        const lks_batch batch = {
            .x = all->x + first * ELEMENTS, .y = all->y + first, .count = BATCH};
        const double expected = json_number_value(json_array_get(losses, step));
        const double bound = bf16 ? 2 * json_number_value(json_array_get(errors, step)) : 1e-4;
        lks_metrics metrics;
        LKT_OK(lks_model_step(model, &batch, lkt_json_number(entry, "rate"), &metrics));
        const double far = fabs(lks_metrics_loss(&metrics) - expected) / expected;
        if (!(far <= bound))
            fail_msg("%s, %s, step %zu: loss %.9g, PyTorch %.9g: %.2g away, allowed %.2g",
                     json_string_value(json_object_get(entry, "network")), bf16 ? "bf16" : "f32",
                     step, lks_metrics_loss(&metrics), expected, far, bound);
        most = fmax(most, far / bound);
    }
    return most;
}

static void train(const json_t *entry, const samples *all, bool bf16)
{
    const char *network = json_string_value(json_object_get(entry, "network"));
    lkt_model m = lkt_begin(NULL);
    lkt_compile(&m, &(lks_model_opts){.loss = build(m.graph, network),
                                      .global_batch = BATCH,
                                      .replicas = 1,
                                      .kernels = {.bf16 = bf16},
                                      .optim = lks_sgd(.9)});
    fill(m.model, m.graph, network);
    print_message("%s, %s: %.2g of what is allowed\n", network, bf16 ? "bf16" : "f32",
                  check_steps(m.model, entry, all, bf16));
    lkt_end(&m);
}

static void losses_are_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/models/golden/zoo_training.json"), *entry;
    samples *all = make_samples();
    size_t i;
    (void)state;
    assert_int_equal(json_array_size(json_object_get(golden, "networks")), 4);
    json_array_foreach(json_object_get(golden, "networks"), i, entry)
    {
        if (lkt_in_part() && i > 0) break;
        train(entry, all, false);
        train(entry, all, true);
    }
    free(all);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
