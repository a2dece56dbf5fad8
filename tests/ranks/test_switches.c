/* The theorem with every combination of the switches of kernels: each has one hash, for any instruction set and any
 * number of ranks and workers, with activations that are kept and such that are formed again. */
#include "cpu/vectors.h"
#include "support/chains/met.h"
#include "support/ranks/fake.h"
#include "support/runs.h"

#ifdef LKT_HAVE_CPU

static const lks_winograd WINOGRAD[] = {LKS_WINOGRAD_AUTO, LKS_WINOGRAD_OFF, LKS_WINOGRAD_F2,
                                        LKS_WINOGRAD_F4};
enum { WINOGRADS = sizeof WINOGRAD / sizeof *WINOGRAD, COMBINATIONS = 4 * WINOGRADS };

/* Who runs: workers of each rank. */
static const struct {
    int workers[4];
    bool share; /* memory in common */
} LAYOUTS[] = {{{1}, false}, {{3}, false}, {{1, 1}, false}, {{2, 1}, true}};
enum { LAYOUT_COUNT = sizeof LAYOUTS / sizeof *LAYOUTS };

/* What a switch may take away: convolutions of 3x3 with 16 channels and more before relu and pooling, before batch
 * norm and relu, and before relu alone; convolutions of each channel
 * alone, and one with nothing behind it; a dense layer behind relu and dropout. */
static lks_tensor *net(lks_graph *g)
{
    const lks_conv2d_opts first = {
        .filters = 16, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
    const lks_conv2d_opts narrow = {.filters = 16, .kernel = {3, 3}, .padding = {1, 1}};
    const lks_conv2d_opts wide = {.filters = 32, .kernel = {3, 3}, .padding = {1, 1}};
    const lks_conv2d_opts alone = {
        .filters = 16, .kernel = {3, 3}, .padding = {1, 1}, .groups = 16};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_relu(g, lks_conv2d(g, x, &first));
    x = lks_max_pool(g, lks_relu(g, lks_conv2d(g, x, &wide)), &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_relu(g, lks_batch_norm(g, lks_conv2d(g, x, &narrow), NULL));
    x = lks_gelu(g, lks_conv2d(g, lks_relu(g, lks_conv2d(g, x, &alone)), &alone), NULL);
    x = lks_conv2d(g, lks_relu(g, lks_conv2d(g, x, &wide)), &narrow);
    x = lks_relu(g, lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = 40}));
    x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .25f});
    x = lks_dense(g, x, &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
}

/* A dense layer of so many inputs that zeros are left out, most of them. */
static lks_tensor *masked(lks_graph *g)
{
    const lks_conv2d_opts opts = {.filters = 52, .kernel = {4, 3}, .stride = {2, 2}};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_flatten(g, lks_relu(g, lks_conv2d(g, x, &opts)));
    x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .25f});
    x = lks_relu(g, lks_dense(g, x, &(lks_dense_opts){.units = 70}));
    x = lks_dense(g, x, &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
}

/* Dense layers of positions, behind a convolution of bytes with a norm. */
static lks_tensor *positions(lks_graph *g)
{
    const lks_conv2d_opts first = {.filters = 5, .kernel = {3, 3}, .padding = {1, 1}};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_sequence(g, lks_relu(g, lks_batch_norm(g, lks_conv2d(g, x, &first), NULL)));
    x = lks_gelu(g, lks_dense(g, x, &(lks_dense_opts){.units = 20}), NULL);
    x = lks_dense(g, x, &(lks_dense_opts){.units = 35});
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
}

/* Few channels and filters, windows that overlap, gelu before a pool, and a norm behind it. */
static lks_tensor *small(lks_graph *g)
{
    const lks_conv2d_opts first = {.filters = 3, .kernel = {5, 5}, .padding = {2, 2}};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_max_pool(g, lks_relu(g, lks_conv2d(g, x, &first)),
                     &(lks_pool_opts){.kernel = {3, 3}, .stride = {2, 2}});
    x = lks_gelu(g, lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 7, .kernel = {2, 3}}), NULL);
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_flatten(g, lks_leaky_relu(g, lks_batch_norm(g, x, NULL), NULL));
    x = lks_dense(g, lks_dropout(g, x, NULL), &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
}

static lks_kernel_opts combination(int n)
{
    return (lks_kernel_opts){
        .winograd = WINOGRAD[n / 4], .single = n % 2 == 1, .all_terms = n / 2 % 2 == 1};
}

typedef struct question {
    lkt_run run;
    const int *workers;
    uint64_t expected;
} question;

static int body(lks_comm *comm, int rank, void *user)
{
    const question *q = user;
    lkt_run run = q->run;
    uint64_t hash;
    LKT_CHECK(comm != NULL);
    run.opts.comm = comm;
    run.opts.workers = q->workers[rank];
    LKT_CHECK(lkt_run_try(&run, &hash, NULL) == LKS_OK);
    LKT_CHECK(hash == q->expected);
    return 0;
}

static uint64_t hash_of(question *q)
{
    q->run.opts.workers = 1;
    q->run.opts.recompute = false;
    return lkt_run_hash(&q->run, NULL);
}

static void check_layouts(question *q, const lki_vector *v, int n)
{
    for (int l = 0; l < LAYOUT_COUNT; l++) {
        int ranks = 0, results[LKT_MOST_RANKS];
        while (LAYOUTS[l].workers[ranks] > 0) ranks++;
        q->workers = LAYOUTS[l].workers;
        q->run.opts.recompute = l % 2 == 1 && !q->run.opts.kernels.bf16_storage;
        if (lkt_in_part() && (n + l) % LAYOUT_COUNT != 0) continue;
        lkt_ranks_run(
            &(lkt_hub_opts){.size = ranks, .seed = 5, .delay = l % 2, .share = LAYOUTS[l].share},
            NULL, body, q, results);
        for (int r = 0; r < ranks; r++)
            if (results[r] != 0)
                fail_msg("%s, winograd %d, single %d, all_terms %d, layout %d: other bits", v->name,
                         (int)q->run.opts.kernels.winograd, q->run.opts.kernels.single,
                         q->run.opts.kernels.all_terms, l);
    }
}

static question usual_question(void)
{
    return (question){.run = {.device = "cpu",
                              .net = net,
                              .samples = 9,
                              .batch = 7, /* the second batch of an epoch has two */
                              .steps = 2,
                              .opts = {.replicas = 4, .hash_every = 2, .optim = lks_adam()}}};
}

static void check_combination(question *q, int n)
{
    const lki_vector *usual = lki_cpu_vector();
    q->run.opts.kernels = combination(n);
    q->expected = hash_of(q);
    LKT_FOR_ISAS(v)
    {
        lki_cpu_vector_use(v);
        check_layouts(q, v, n);
    }
    lki_cpu_vector_use(usual);
}

static void each_has_one_hash(void **state)
{
    (void)state;
    for (int n = 0; n < COMBINATIONS; n++) {
        question q = usual_question();
        check_combination(&q, n);
    }
}

static void small_blocks_and_positions_have_one_hash(void **state)
{
    const lkt_net nets[] = {small, positions};
    (void)state;
    for (int n = 0; n < 8; n++) { /* skip_zeros, fuse */
        question q = usual_question();
        q.run.net = nets[n / 4];
        check_combination(&q, n % 4);
    }
}

/* Activations that are kept in bfloat16; none is formed again. */
static void stored_bfloat16_has_one_hash(void **state)
{
    (void)state;
    const lki_vector *usual = lki_cpu_vector();
    question q = usual_question();
    q.run.opts.kernels.bf16_storage = true;
    q.expected = hash_of(&q);
    LKT_FOR_ISAS(v)
    {
        lki_cpu_vector_use(v);
        check_layouts(&q, v, 0);
    }
    lki_cpu_vector_use(usual);
}

/* Matrix units and vectors. */
static void bfloat16_has_one_hash(void **state)
{
    const lki_vector *usual = lki_cpu_vector();
    const lkt_net nets[] = {net, small, masked, positions};
    (void)state;
    for (int n = 0; n < 8; n++) {
        question q = usual_question();
        q.run.net = nets[n / 2];
        const uint64_t f32 = hash_of(&q);
        q.run.opts.kernels = (lks_kernel_opts){.bf16 = true, .single = n % 2 == 1};
        q.expected = hash_of(&q);
        assert_int_not_equal(q.expected, f32);
        LKT_FOR_UNITS(v)
        {
            lki_cpu_vector_use(v);
            check_layouts(&q, v, n);
        }
        lki_cpu_vector_use(usual);
    }
}

/* With enough samples a replica that lists of active inputs pay for its weight's gradient. */
static void zeros_are_left_out_alike(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n += 2) { /* skip_zeros, and not */
        question q = {.run = {.device = "cpu",
                              .net = masked,
                              .samples = 160,
                              .batch = 133,
                              .steps = 2,
                              .opts = {.replicas = 4, .hash_every = 2, .optim = lks_adam()}}};
        check_combination(&q, n);
    }
}

/* Else the test above would say nothing: what a switch takes away here has an order of its own. */
static void they_differ(void **state)
{
    question q = usual_question();
    (void)state;
    const uint64_t usual = hash_of(&q);
    q.run.opts.kernels.all_terms = true;
    const uint64_t all_terms = hash_of(&q);
    q.run.opts.kernels.single = true;
    assert_int_equal(hash_of(&q), all_terms); /* all others have the order of their nodes */
    q.run.opts.kernels.all_terms = false;
    assert_int_equal(hash_of(&q), all_terms);
    assert_int_not_equal(usual, all_terms);
    q.run.net = masked;
    const uint64_t without = hash_of(&q);
    q.run.opts.kernels.all_terms = true;
    assert_int_not_equal(hash_of(&q), without);
}

/* A kernel with a rule of its own that neither network has would be held by nothing here. */
static void they_have_every_implementation(void **state)
{
    const lkt_net nets[] = {net, small, masked, positions};
    lkt_met met = lkt_met_none();
    (void)state;
    for (int n = 0; n < (int)(sizeof nets / sizeof *nets); n++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = "cpu"});
        lkt_compile(&m, &(lks_model_opts){.loss = nets[n](m.graph), .global_batch = 4});
        (void)lkt_met_others(&met, m.model, 1);
        lkt_end(&m);
    }
    if (lkt_met_fewer(&met, 1) != NULL)
        fail_msg("no network here has %s: add what it takes", lkt_met_fewer(&met, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_have_every_implementation),
        cmocka_unit_test(each_has_one_hash),
        cmocka_unit_test(small_blocks_and_positions_have_one_hash),
        cmocka_unit_test(bfloat16_has_one_hash),
        cmocka_unit_test(stored_bfloat16_has_one_hash),
        cmocka_unit_test(zeros_are_left_out_alike),
        cmocka_unit_test(they_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
