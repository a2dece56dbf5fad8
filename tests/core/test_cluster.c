/* Where a pattern occurs in a graph, and what a cluster reads and has. */
#include "core/cluster.h"
#include "support/test.h"

/* conv2d, batch_norm, perhaps add, perhaps an activation. */
static const lki_impl norm = {
    .name = "norm",
    .pattern = {{.ops = LKI_OPS(CONV2D)},
                {.ops = LKI_OPS(BATCH_NORM), .from = {1}},
                {.ops = LKI_OPS(ADD), .from = {1}, .optional = true},
                {.ops = LKI_OPS(RELU) | LKI_OPS(GELU), .from = {1}, .optional = true}},
    .count = 4,
};

typedef struct net {
    lks_context *context;
    lks_graph *graph;
    lks_tensor *x, *early; /* the input, and what was made of it first */
    lks_tensor *conv, *norm;
} net;

static net open_net(void)
{
    net n;
    LKT_OK(lks_context_create(&n.context, NULL));
    LKT_OK(lks_graph_create(&n.graph, n.context));
    n.x = lks_input(n.graph, &(lks_input_opts){.shape = LKS_SHAPE(4, 4, 3)});
    n.early = lks_scale(n.graph, n.x, &(lks_scale_opts){.factor = 2.0f});
    n.conv = lks_conv2d(n.graph, n.x, &(lks_conv2d_opts){.filters = 3, .kernel = {1, 1}});
    n.norm = lks_batch_norm(n.graph, n.conv, NULL);
    return n;
}

static void close_net(const net *n)
{
    LKT_OK(lks_graph_status(n->graph));
    lks_graph_destroy(n->graph);
    lks_context_destroy(n->context);
}

/* Every node but the one that `user` is. */
static bool all_but(const void *user, const lki_node *node)
{
    return node != user;
}

/* Whether the pattern ends at `last` with these nodes, and reads these tensors. */
static void expect(const net *n, const lks_tensor *last, const lks_tensor *const nodes[], int count,
                   const lks_tensor *side)
{
    lki_cluster found;
    LKT_OK(lks_graph_status(n->graph));
    assert_true(lki_impl_match(&norm, last->node, all_but, NULL, &found));
    assert_int_equal(found.count, count);
    for (int i = 0; i < count; i++) assert_ptr_equal(found.node[i], nodes[i]->node);
    assert_int_equal(found.in_count, side != NULL ? 2 : 1);
    assert_ptr_equal(found.in[0], n->x);
    if (side != NULL) assert_ptr_equal(found.in[1], side);
    assert_int_equal(found.param_count, 4); /* in order of the nodes */
    for (int p = 0; p < 4; p++) {
        assert_ptr_equal(found.param[p].owner, nodes[p / 2]->node);
        assert_int_equal(found.param[p].index, p % 2);
    }
    assert_ptr_equal(found.counted, n->norm->node);
}

static void optional_nodes_may_be_missing(void **state)
{
    (void)state;
    for (int sum = 0; sum < 2; sum++)
        for (int activation = 0; activation < 3; activation++) {
            net n = open_net();
            const lks_tensor *nodes[4] = {n.conv, n.norm};
            int count = 2;
            lks_tensor *x = n.norm;
            if (sum) nodes[count++] = x = lks_add(n.graph, x, n.early);
            if (activation > 0)
                nodes[count++] = x = activation == 1 ? lks_relu(n.graph, x)
                                                     : lks_gelu(n.graph, x, NULL);
            expect(&n, x, nodes, count, sum ? n.early : NULL);
            close_net(&n);
        }
}

/* The side operand may be the first or the second, and may have been built before or behind. */
static void operands_may_be_swapped(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        net n = open_net();
        lks_tensor *late = lks_sigmoid(n.graph, n.x);
        lks_tensor *side = k / 2 == 0 ? n.early : late;
        lks_tensor *sum = k % 2 == 0 ? lks_add(n.graph, n.norm, side)
                                     : lks_add(n.graph, side, n.norm);
        expect(&n, sum, (const lks_tensor *[]){n.conv, n.norm, sum}, 3, side);
        close_net(&n);
    }
}

/* Of two that would do, the first operand. */
static void the_first_operand_is_preferred(void **state)
{
    (void)state;
    net n = open_net();
    lks_tensor *other = lks_conv2d(n.graph, n.x,
                                   &(lks_conv2d_opts){.filters = 3, .kernel = {1, 1}});
    other = lks_batch_norm(n.graph, other, NULL);
    lks_tensor *sum = lks_add(n.graph, n.norm, other);
    expect(&n, sum, (const lks_tensor *[]){n.conv, n.norm, sum}, 3, other);
    close_net(&n);
}

/* A vector of a value for each channel is another operation: not the conv2d's side of the sum. */
static void a_vector_does_not_swap(void **state)
{
    static const lki_impl pair = {
        .name = "pair",
        .pattern = {{.ops = LKI_OPS(SCALE)}, {.ops = LKI_OPS(MUL), .from = {1}}},
        .count = 2,
    };
    lki_cluster found;
    net n = open_net();
    (void)state;
    lks_tensor *vector = lks_global_avg_pool(n.graph, n.x);
    vector = lks_scale(n.graph, vector, &(lks_scale_opts){.factor = 3.0f});
    lks_tensor *right = lks_mul(n.graph, n.early, vector);
    assert_true(lki_impl_match(&pair, right->node, all_but, NULL, &found));
    assert_ptr_equal(found.node[0], n.early->node);
    lks_tensor *left = lks_mul(n.graph, n.x, n.early); /* a product of equals swaps as a sum does */
    assert_true(lki_impl_match(&pair, left->node, all_but, NULL, &found));
    assert_ptr_equal(found.node[0], n.early->node);
    assert_ptr_equal(found.in[1], n.x);
    lks_tensor *wrong = lks_mul(n.graph, n.conv, vector); /* the scaled one is the vector */
    assert_false(lki_impl_match(&pair, wrong->node, all_but, NULL, &found));
    close_net(&n);
}

static void what_others_read_is_not_inside(void **state)
{
    lki_cluster found;
    net n = open_net();
    lks_tensor *relu = lks_relu(n.graph, n.norm);
    (void)state;
    assert_false(lki_impl_match(&norm, relu->node, all_but, n.norm->node, &found));
    assert_false(lki_impl_match(&norm, relu->node, all_but, n.conv->node, &found));
    assert_true(
        lki_impl_match(&norm, relu->node, all_but, relu->node, &found)); /* the last may be */
    assert_false(lki_impl_match(&norm, n.conv->node, all_but, NULL, &found));
    assert_false(lki_impl_match(&norm, n.x->node, all_but, NULL, &found));
    close_net(&n);
}

/* What was tried first and did not match is not in the cluster; its nodes stand in order of the graph. */
static void a_failed_try_leaves_nothing(void **state)
{
    static const lki_impl branches = {
        .name = "branches",
        .pattern = {{.ops = LKI_OPS(RELU)},
                    {.ops = LKI_OPS(SCALE)},
                    {.ops = LKI_OPS(RELU), .from = {1}, .optional = true},
                    {.ops = LKI_OPS(ADD), .from = {1, 3}}},
        .count = 4,
    };
    static const lki_impl either = {
        .name = "either",
        .pattern = {{.ops = LKI_OPS(RELU) | LKI_OPS(SCALE)},
                    {.ops = LKI_OPS(RELU), .from = {1}, .optional = true}},
        .count = 2,
    };
    lki_cluster found;
    net n = open_net();
    (void)state;
    /* Its relu and scale do for the branch of two, but then the other scale does not for the relu. */
    lks_tensor *other = lks_scale(n.graph, n.conv, &(lks_scale_opts){.factor = 3.0f});
    lks_tensor *relu = lks_relu(n.graph, n.early);
    lks_tensor *sum = lks_add(n.graph, relu, other);
    LKT_OK(lks_graph_status(n.graph));
    assert_true(lki_impl_match(&branches, sum->node, all_but, NULL, &found));
    assert_int_equal(found.count, 3);
    assert_ptr_equal(found.node[0], other->node); /* behind it in the pattern */
    assert_ptr_equal(found.node[1], relu->node);
    assert_ptr_equal(found.node[2], sum->node);
    lks_tensor *alone = lks_relu(n.graph, n.conv);
    assert_true(lki_impl_match(&either, alone->node, all_but, NULL, &found));
    assert_int_equal(found.count, 1);
    assert_true(lki_impl_match(&either, relu->node, all_but, NULL, &found));
    assert_int_equal(found.count, 2);
    close_net(&n);
}

/* Where a pattern begins with nodes that may be missing, one of its nodes is there at least. */
static void a_pattern_may_begin_with_optional_nodes(void **state)
{
    static const lki_impl lead = {
        .name = "lead",
        .pattern = {{.ops = LKI_OPS(RELU), .optional = true}, {.ops = LKI_OPS(SCALE), .from = {1}}},
        .count = 2,
    };
    static const lki_impl all = {
        .name = "all",
        .pattern = {{.ops = LKI_OPS(RELU), .optional = true},
                    {.ops = LKI_OPS(SCALE), .from = {1}, .optional = true}},
        .count = 2,
    };
    lki_cluster found;
    net n = open_net();
    (void)state;
    lks_tensor *relu = lks_relu(n.graph, n.norm);
    lks_tensor *scale = lks_scale(n.graph, relu, &(lks_scale_opts){.factor = 3.0f});
    assert_true(lki_impl_match(&lead, scale->node, all_but, NULL, &found));
    assert_int_equal(found.count, 2);
    assert_true(lki_impl_match(&lead, n.early->node, all_but, NULL, &found));
    assert_int_equal(found.count, 1);
    assert_true(lki_impl_match(&all, relu->node, all_but, NULL, &found));
    assert_int_equal(found.count, 1);
    assert_false(lki_impl_match(&all, n.norm->node, all_but, NULL, &found));
    close_net(&n);
}

/* There is no room for more tensors or parameters, and for the statistics of one node only. */
static void a_cluster_has_its_limits(void **state)
{
    static const lki_impl twice = {
        .name = "twice",
        .pattern = {{.ops = LKI_OPS(BATCH_NORM)}, {.ops = LKI_OPS(BATCH_NORM), .from = {1}}},
        .count = 2,
    };
    static const lki_impl thrice = {
        .name = "thrice",
        .pattern = {{.ops = LKI_OPS(DENSE)},
                    {.ops = LKI_OPS(DENSE), .from = {1}},
                    {.ops = LKI_OPS(DENSE), .from = {1}}},
        .count = 3,
    };
    lki_cluster found;
    net n = open_net();
    (void)state;
    lks_tensor *second = lks_batch_norm(n.graph, n.norm, NULL);
    assert_false(lki_impl_match(&twice, second->node, all_but, NULL, &found));
    for (int biases = 1; biases <= 3; biases++) { /* four parameters, five, six */
        lks_tensor *x = lks_flatten(n.graph, n.x);
        for (int i = 0; i < 3; i++)
            x = lks_dense(n.graph, x, &(lks_dense_opts){.units = 2, .no_bias = i >= biases});
        assert_int_equal(lki_impl_match(&thrice, x->node, all_but, NULL, &found), biases == 1);
    }
    for (int adds = LKI_MAX_CLUSTER_IN - 1; adds <= LKI_MAX_CLUSTER_IN; adds++) {
        lki_impl sums = {.name = "sums", .count = adds};
        lks_tensor *x = n.early;
        for (int i = 0; i < adds; i++) {
            sums.pattern[i] = (lki_pattern_node){.ops = LKI_OPS(ADD), .from = {i > 0}};
            x = lks_add(n.graph, x, n.x);
        }
        assert_int_equal(lki_impl_match(&sums, x->node, all_but, NULL, &found),
                         adds < LKI_MAX_CLUSTER_IN);
    }
    close_net(&n);
}

static const char *refuses_usual(const lki_cluster *cluster, const lki_switches *switches)
{
    (void)cluster;
    return switches->all_terms ? NULL : "is taken where a switch says so";
}

/* One node alone has the first implementation that does not refuse it, and whose pattern needs no other. */
static void alone_it_has_the_first_that_takes_it(void **state)
{
    const lki_impl list[] = {
        norm,
        {.name = "refused",
         .pattern = {{.ops = LKI_OPS(RELU)}},
         .count = 1,
         .refuses = refuses_usual},
        {.name = "first", .pattern = {{.ops = LKI_OPS(RELU)}}, .count = 1},
        {.name = "second", .pattern = {{.ops = LKI_OPS(RELU)}}, .count = 1},
    };
    const lki_impl *const listed[] = {&list[0], &list[1], &list[2], &list[3], NULL};
    const lki_backend backend = {.name = "four", .impl = listed};
    const lki_switches usual = {0}, other = {.all_terms = true};
    net n = open_net();
    (void)state;
    lks_tensor *relu = lks_relu(n.graph, n.norm);
    assert_ptr_equal(lki_impl_alone(&backend, relu->node, &other), &list[1]);
    assert_ptr_equal(lki_impl_alone(&backend, relu->node, &usual), &list[2]);
    assert_null(lki_impl_alone(&backend, n.conv->node, &usual));
    assert_true(lki_backend_computes(&backend, LKI_OP_RELU));
    assert_false(lki_backend_computes(&backend, LKI_OP_CONV2D));
    close_net(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_nodes_may_be_missing),
        cmocka_unit_test(operands_may_be_swapped),
        cmocka_unit_test(the_first_operand_is_preferred),
        cmocka_unit_test(a_vector_does_not_swap),
        cmocka_unit_test(what_others_read_is_not_inside),
        cmocka_unit_test(a_failed_try_leaves_nothing),
        cmocka_unit_test(a_pattern_may_begin_with_optional_nodes),
        cmocka_unit_test(a_cluster_has_its_limits),
        cmocka_unit_test(alone_it_has_the_first_that_takes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
