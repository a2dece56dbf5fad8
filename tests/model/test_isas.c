/* The bits of a run do not depend on the instruction set: the theorem's networks, and random ones whose
 * sums are longer than blocks and groups and whose runs of kernel columns x channels are longer than
 * registers hold, on every set that this machine has. */
#include "cpu/vectors.h"
#include "support/runs.h"

#ifdef LKT_HAVE_CPU

static const lkt_net NETS[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual, lkt_net_joined,
                               lkt_net_gated};
enum { NET_COUNT = sizeof NETS / sizeof NETS[0], RANDOM_NETS = 8 };

/* The first instruction set's hash is what all others have to give. */
static void check_all(lkt_run run, const char *what)
{
    const lki_vector *usual = lki_cpu_vector();
    uint64_t expected = 0;
    const char *first = NULL;
    LKT_FOR_ISAS(v)
    {
        lks_metrics metrics[2];
        lki_cpu_vector_use(v);
        run.device = "cpu";
        run.opts.workers = first == NULL || run.opts.replicas == 1 ? 1 : 2;
        const uint64_t hash = lkt_run_hash(&run, metrics);
        if (first == NULL) expected = hash;
        if (hash != expected)
            fail_msg("%s: hash %016llx on %s, %016llx on %s", what, (unsigned long long)hash,
                     v->name, (unsigned long long)expected, first);
        if (first == NULL) first = v->name;
    }
    lki_cpu_vector_use(usual);
}

static void networks_of_the_theorem(void **state)
{
    const lks_optim optim[] = {lks_adam(), lks_sgd(.9f), lks_adadelta()};
    (void)state;
    for (int n = 0; n < NET_COUNT; n++)
        for (int k = 0; k < 3; k++) {
            char what[60];
            if (lkt_in_part() && k != n % 3) continue; /* portable code takes a minute */
            snprintf(what, sizeof what, "network %d, optimizer %d", n, k);
            check_all((lkt_run){.net = NETS[n],
                                .samples = 97,
                                .batch = 61,
                                .steps = 2,
                                .opts = {.replicas = 1 + 3 * k,
                                         .by_replica = (n + k) % 2 == 0,
                                         .optim = optim[k]}},
                      what);
        }
}

static uint64_t seed; /* of the network */

static lks_tensor *stage(lks_graph *graph, lks_tensor *x, bool fused, lkt_random *random)
{
    const int64_t rows = lkt_random_from(random, 1, 3), columns = lkt_random_from(random, 1, 4);
    const lks_conv2d_opts opts = {
        .filters = fused ? 32 * lkt_random_from(random, 1, 2) : lkt_random_from(random, 3, 70),
        .kernel = {rows, columns},
        .padding = {lkt_random_below(random, rows), lkt_random_below(random, columns)},
        .no_bias = lkt_random_below(random, 3) == 0};
    x = lks_conv2d(graph, x, &opts);
    if (!fused) return lks_gelu(graph, x, NULL);
    x = lks_max_pool(graph, lks_relu(graph, x), &(lks_pool_opts){.kernel = {2, 2}});
    return lks_dropout(graph, x, &(lks_dropout_opts){.probability = .25f});
}

/* A convolution of any kind, one that is fused with its pool, dense layers. */
static lks_tensor *random_net(lks_graph *graph)
{
    lkt_random random = {.state = seed};
    lks_tensor *x = lks_input(graph,
                              &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        graph, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = stage(graph, x, false, &random);
    x = lks_conv2d(
        graph, x,
        &(lks_conv2d_opts){.filters = 16 * lkt_random_from(&random, 1, 6), .kernel = {1, 1}});
    x = stage(graph, x, true, &random);
    x = lks_flatten(graph, x);
    x = lks_dense(graph, x, &(lks_dense_opts){.units = lkt_random_from(&random, 10, 400)});
    x = lks_tanh(graph, lks_layer_norm(graph, x, NULL));
    x = lks_dense(graph, x, &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(graph, x, lks_target(graph, &(lks_target_opts){.classes = 5}), NULL);
}

static void random_networks(void **state)
{
    lkt_random random = lkt_random_make("random_networks", 98);
    const int samples = lkt_in_part() ? 16 : 36; /* 16 x 10 x 7 are more than a group, too */
    (void)state;
    for (int n = 0; n < (lkt_in_part() ? 2 : RANDOM_NETS); n++) {
        char what[60];
        seed = lkt_random_bits(&random);
        snprintf(what, sizeof what, "the network of seed %llu", (unsigned long long)seed);
        check_all((lkt_run){.net = random_net,
                            .samples = samples,
                            .batch = samples,
                            .steps = 2,
                            .opts = {.replicas = (int)lkt_random_from(&random, 1, 3),
                                     .optim = lks_adamw()}},
                  what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_of_the_theorem),
        cmocka_unit_test(random_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
