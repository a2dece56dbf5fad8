/*
 * Every implementation of several nodes, of every backend and of the device `joined`, on cases that its
 * pattern makes: with and without each node that may be missing, operands in either order, both ways, in
 * pieces of any size. It has the bits of single nodes on the same backend, unless it is said to have an
 * order of sums of its own.
 */
#include <string.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/joined.h"
#include "support/ops.h"

enum { CASES = 40, TRIES = 4000 };

/* Nodes under way: the last of each of the pattern's, and all in order of the pattern. */
typedef struct made {
    lks_tensor *at[LKI_MAX_CLUSTER]; /* NULL: missing, it is what it would read */
    lks_tensor *node[LKI_MAX_CLUSTER];
    int count;
} made;

/* What the pattern's node p reads inside as its input i; NULL: nothing. */
static lks_tensor *read_inside(const lki_impl *impl, const made *m, int p, int i)
{
    while (impl->pattern[p].from[i] > 0) {
        p -= impl->pattern[p].from[i];
        if (m->at[p] != NULL) return m->at[p];
        i = 0; /* one that may be missing reads one */
    }
    return NULL;
}

/* The node once more, with the same attributes, of other inputs. */
static lks_tensor *again(lks_graph *graph, const lki_node *node, lks_tensor *const in[])
{
    const size_t size = lki_op_get(node->op)->attr_size;
    char attr[512] = {0};

    assert_true(size <= sizeof attr);
    if (size > sizeof(char *))
        memcpy(attr + sizeof(char *), (const char *)node->attr + sizeof(char *),
               size - sizeof(char *)); /* all but the name */
    return lki_graph_add(graph, node->op, size > 0 ? attr : NULL, in, node->in_count);
}

/* A tensor of the same shape as the cluster's so far, made of x by nodes of the same attributes. */
static lks_tensor *twin(lks_graph *graph, const made *m, lks_tensor *x)
{
    lks_tensor *y = x;

    for (int n = 0; n < m->count && y != NULL; n++)
        if (m->node[n]->node->in_count == 1) y = again(graph, m->node[n]->node, &y);
    return y;
}

/* The pattern's nodes with `present` of those that may be missing, of x; an operand from outside is a
 * twin of the other. False: no such case. */
static bool make_nodes(const lki_impl *impl, unsigned present, lks_graph *graph, lks_tensor *x,
                       lkt_random *random, made *m)
{
    *m = (made){.count = 0};
    for (int p = 0; p < impl->count; p++) {
        const lki_pattern_node *node = &impl->pattern[p];
        const lki_op_id op = lkt_random_member(node, random);
        lks_tensor *inside = read_inside(impl, m, p, 0), *other = read_inside(impl, m, p, 1);
        if (node->optional && !(present >> p & 1u)) continue;
        if (op == LKI_OP_ADD || op == LKI_OP_MUL) {
            if (inside == NULL) return false;
            if (other == NULL) other = twin(graph, m, x);
            const bool swapped = node->from[1] == 0 && lkt_random_below(random, 2) == 0;
            lks_tensor *in[2] = {swapped ? other : inside, swapped ? inside : other};
            m->at[p] = lki_graph_add(graph, op, NULL, in, 2);
        } else if (op == LKI_OP_DENSE && p == 1 && inside == NULL) {
            m->at[p] = again(graph, m->node[0]->node, &x); /* another head: of the same shape */
        } else {
            m->at[p] = lkt_random_op(graph, op, inside != NULL ? inside : x, false, random);
        }
        if (lks_graph_status(graph) != LKS_OK) return false;
        m->node[m->count++] = m->at[p];
    }
    return true;
}

static bool is_inside(const void *user, const lki_node *node)
{
    return lki_cluster_has(user, node);
}

/* A case of the implementation, in c, as its pattern finds it. False: not this time. */
static bool random_cluster(const lki_impl *impl, unsigned present, lkt_random *random, lkt_case *c)
{
    lki_cluster found;
    made m;

    lkt_case_begin(c);
    lks_tensor *x = lkt_random_input(c->graph, lkt_random_member(&impl->pattern[0], random),
                                     random);
    if (make_nodes(impl, present, c->graph, x, random, &m) && m.count > 1) {
        for (int n = 0; n < m.count; n++) c->cluster.node[c->cluster.count++] = m.node[n]->node;
        lkt_case_fill(c, lkt_random_from(random, 1, 9), LKT_RANDOM, random);
        assert_true(lki_impl_match(impl, lkt_last(c), is_inside, &c->cluster, &found));
        assert_memory_equal(found.node, c->cluster.node, sizeof found.node);
        c->switches.winograd = (lks_winograd)lkt_random_below(random, 4);
        c->switches.bf16 = lkt_random_chance(random, 4);
        if (impl->refuses == NULL || impl->refuses(&c->cluster, &c->switches) == NULL) return true;
    }
    lkt_case_free(c);
    return false;
}

static void same(const lkt_case *c, const char *what, int number, const void *a, const void *b,
                 size_t bytes)
{
    if (a != NULL && memcmp(a, b, bytes) != 0)
        fail_msg("%s, winograd %d, bf16 %d: %s %d has other bits than single nodes give",
                 lkt_describe(c), (int)c->switches.winograd, c->switches.bf16, what, number);
}

static void compare_with_nodes(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                               const lkt_how *how)
{
    lkt_result found, expected;

    lkt_run(c, backend, fused, how, &found);
    lkt_run(c, backend, NULL, how, &expected);
    same(c, "output", 0, found.out, expected.out, (size_t)lkt_out_elements(c) * sizeof(float));
    for (int i = 0; i < c->cluster.in_count; i++)
        same(c, "gradient of input", i, found.d_in[i], expected.d_in[i],
             (size_t)lkt_in_elements(c, i) * sizeof(float));
    for (int p = 0; p < c->cluster.param_count; p++)
        same(c, "gradient of parameter", p, found.d_param[p], expected.d_param[p],
             (size_t)lkt_param_elements(c, p) * sizeof(float));
    if (c->training && c->cluster.counted != NULL)
        same(c, "statistics", 0, found.stats, expected.stats,
             (size_t)c->cluster.counted->stats * sizeof(double));
}

/* In pieces of any size, written and added, without the gradient of each input, and as in evaluation. */
static void every_way(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                      lkt_random *random)
{
    lkt_how added = {.slice = 2};

    for (int i = 0; i < c->cluster.in_count; i++) {
        float *prior = lkt_case_memory(c, (size_t)lkt_in_elements(c, i) * sizeof *prior);
        for (int64_t e = 0; e < lkt_in_elements(c, i); e++)
            prior[e] = (float)lkt_random_real(random, -1.0, 1.0);
        added.prior[i] = prior;
        if (lkt_has_gradient(c, i) && lkt_random_below(random, 2) == 0) added.add_in |= 1u << i;
    }
    for (int64_t slice = 1; slice <= 8; slice *= 2)
        compare_with_nodes(c, backend, fused, &(lkt_how){.slice = slice});
    compare_with_nodes(c, backend, fused, &added);
    for (unsigned skip = 1; skip < 1u << c->cluster.in_count; skip++)
        compare_with_nodes(c, backend, fused, &(lkt_how){.skip_in = skip});
    c->training = false;
    compare_with_nodes(c, backend, fused, NULL);
    compare_with_nodes(c, backend, fused, &(lkt_how){.slice = 1});
}

/* Its sums have an order of their own (docs/numerics.md). */
static bool has_own_order(const lki_impl *impl)
{
    return strncmp(impl->name, "conv_block", strlen("conv_block")) == 0;
}

static void check_cluster(const lki_backend *backend, const lki_impl *impl, unsigned present,
                          lkt_random *random)
{
    int cases = 0;
    lkt_case c;

    for (int k = 0; k < TRIES && cases < CASES; k++) {
        if (!random_cluster(impl, present, random, &c)) continue;
        every_way(&c, backend, impl->kernel, random);
        lkt_case_free(&c);
        cases++;
    }
    if (cases < CASES)
        fail_msg("%s: %s met only %d cases in %d tries", backend->name, impl->name, cases, TRIES);
}

static void clusters_have_the_bits_of_their_nodes(void **state)
{
    lkt_random random = lkt_random_make("clusters_have_the_bits_of_their_nodes", 62);
    const lki_backend *backends[18] = {lkt_joined()};

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) backends[b + 1] = lkt_backends()[b];
    for (int b = 0; backends[b] != NULL; b++)
        for (int i = 0; backends[b]->impl[i] != NULL; i++) {
            const lki_impl *impl = backends[b]->impl[i];
            unsigned optional = 0;
            if (impl->count == 1 || has_own_order(impl)) continue;
            for (int p = 0; p < impl->count; p++)
                optional |= (unsigned)impl->pattern[p].optional << p;
            for (unsigned present = 0; present <= optional; present++)
                if ((present & ~optional) == 0) check_cluster(backends[b], impl, present, &random);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters_have_the_bits_of_their_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
