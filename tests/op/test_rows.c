/* A gradient by rows has the bits of the gradients by replica, merged in the tree: of all replicas at once, or
 * of ranges whose nodes are summed afterwards. */
#include <string.h>

#include "base/float.h"
#include "reduce/reduce.h"
#include "support/backends.h"
#include "support/ops.h"

enum { MOST_REPLICAS = 1023 };

/* Where the sums of rows arrive, for one node; each element once. */
typedef struct gathered {
    const lkt_case *c;
    lki_tree_node node;
    float *sums[LKI_MAX_PARAM];
    int *times[LKI_MAX_PARAM];
} gathered;

/* Those of the nodes of a range of replicas, which lie one behind the other. */
static void gather(void *user, lki_tree_node node, int param, int64_t first, int64_t count,
                   const float *sums)
{
    const gathered *g = user;

    while (g->node.lo < node.lo) g++;
    assert_int_equal(g->node.lo, node.lo);
    assert_int_equal(g->node.hi, node.hi);
    assert_in_range(param, 0, lkt_first(g->c)->param_count - 1);
    assert_true(first >= 0 && count >= 1 && first + count <= lkt_param_elements(g->c, param));
    memcpy(g->sums[param] + first, sums, (size_t)count * sizeof *sums);
    for (int64_t i = 0; i < count; i++) g->times[param][first + i]++;
}

/* The gradient of replicas [lo, hi) in the tree, from those of each; NULL where all are absent. */
static float *tree_sum(const lki_backend *backend, float *const replica[], int64_t lo, int64_t hi,
                       int64_t count)
{
    if (hi - lo == 1) return replica[lo];
    const int64_t middle = lki_tree_split(lo, hi);
    float *left = tree_sum(backend, replica, lo, middle, count);
    float *right = tree_sum(backend, replica, middle, hi, count);

    if (left == NULL || right == NULL) return left != NULL ? left : right;
    backend->add(count, left, right);
    return left;
}

/* Samples [start, end) of the case, as a replica of their own. */
static void run_replica(lkt_case *c, const lki_backend *backend, int64_t start, int64_t end,
                        lkt_result *out)
{
    const lki_node *node = lkt_first(c);
    lkt_case part = *c;

    part.count = end - start;
    part.position += start;
    part.in[0] = (float *)c->in[0] + start * lks_shape_elements(&node->in[0]->shape);
    part.d_out = c->d_out + start * lks_shape_elements(&node->out.shape);
    lkt_run(&part, backend, NULL, NULL, out);
    c->blocks = part.blocks;
}

static void gathered_make(lkt_case *c, lki_tree_node node, gathered *out)
{
    *out = (gathered){.c = c, .node = node};
    for (int p = 0; p < lkt_first(c)->param_count; p++) {
        const size_t count = (size_t)lkt_param_elements(c, p);

        out->sums[p] = lkt_case_memory(c, count * sizeof(float));
        out->times[p] = lkt_case_memory(c, count * sizeof(int));
        memset(out->times[p], 0, count * sizeof(int));
    }
}

/* All rows, by `workers` workers, of replicas [first, last), whose samples alone they see; returns how
 * many nodes these are. */
static int run_rows(lkt_case *c, const lki_kernel *kernel, lki_rows rows, int workers,
                    gathered *out)
{
    const lki_node *node = lkt_first(c);
    const int64_t count = node->param[0].shape.dim[0];
    lkt_stage stage;
    int nodes = 0;

    for (int64_t at = rows.first; at < rows.last; at = out[nodes++].node.hi)
        gathered_make(c, lki_tree_maximal(rows.replicas, at, rows.last), &out[nodes]);
    lkt_stage_open(c, kernel, &c->cluster, c->count, 0, &stage);
    rows.in = (const float *)c->in[0] +
              rows.start[rows.first] * lks_shape_elements(&node->in[0]->shape);
    rows.d_out = c->d_out + rows.start[rows.first] * lks_shape_elements(&node->out.shape);
    rows.workspace = stage.workspace;
    rows.sum = gather;
    rows.user = out;
    const unsigned saved = lki_float_enter();
    for (int w = 0; w < workers; w++) {
        rows.row_first = lki_share(w, workers, count);
        rows.row_count = lki_share(w + 1, workers, count) - rows.row_first;
        kernel->rows(stage.plan, &rows);
    }
    lki_float_leave(saved);
    lkt_stage_close(&stage);
    return nodes;
}

/* Every element once; of a node without samples none. */
static void check_times(const gathered *g, const int64_t *start)
{
    const int times = start[g->node.lo] < start[g->node.hi];

    for (int p = 0; p < lkt_first(g->c)->param_count; p++)
        for (int64_t i = 0; i < lkt_param_elements(g->c, p); i++)
            if (g->times[p][i] != times)
                fail_msg("%s: element %lld of parameter %d of [%lld, %lld) was given %d times",
                         lkt_describe(g->c), (long long)i, p, (long long)g->node.lo,
                         (long long)g->node.hi, g->times[p][i]);
}

/* The sums over all replicas of one parameter, from those of the nodes of `parts` ranges. */
static const float *sum_nodes(const lki_backend *backend, lki_arena *arena, const lki_rows *rows,
                              int parts, const gathered *nodes, int param)
{
    const int64_t count = lkt_param_elements(nodes->c, param), border[] = {0, count};
    lki_reduce reduce = {.backend = backend, .replicas = rows->replicas};

    LKT_OK(lki_reduce_make(&reduce, arena, parts, 1, border));
    for (int i = 0; i < parts; i++) {
        const int64_t end = lki_share(i + 1, parts, rows->replicas);

        LKT_OK(lki_reduce_assign(&reduce, arena, i, lki_share(i, parts, rows->replicas), end));
        lki_reduce_begin(&reduce, i);
        for (; nodes->node.hi <= end && nodes->c != NULL; nodes++) {
            const bool present = rows->start[nodes->node.lo] < rows->start[nodes->node.hi];

            lki_reduce_push(&reduce, i, 0, nodes->node, present ? nodes->sums[param] : NULL);
        }
    }
    return lki_reduce_total(&reduce, (lki_tree_node){0, rows->replicas}, 0, count);
}

/* Rows of `parts` ranges of replicas against the sum of the replicas' own gradients. */
static void compare(lkt_case *c, const lki_backend *backend, int replicas, int workers, int parts)
{
    const lki_node *node = lkt_first(c);
    int64_t start[MOST_REPLICAS + 1];
    lkt_result each[MOST_REPLICAS];
    gathered nodes[64] = {{0}};
    lki_rows rows = {.start = start, .replicas = replicas};
    lki_arena arena = {0};
    int count = 0;

    for (int r = 0; r <= replicas; r++) start[r] = lki_share(r, replicas, c->count);
    for (int r = 0; r < replicas; r++) {
        if (start[r] < start[r + 1])
            run_replica(c, backend, start[r], start[r + 1], &each[r]);
        else
            each[r] = (lkt_result){0};
    }
    for (int i = 0; i < parts; i++) {
        rows.first = lki_share(i, parts, replicas);
        rows.last = lki_share(i + 1, parts, replicas);
        count += run_rows(c, lkt_kernel(backend, node->op), rows, workers, &nodes[count]);
    }
    for (int i = 0; i < count; i++) check_times(&nodes[i], start);
    for (int p = 0; p < node->param_count; p++) {
        float *parts_of[MOST_REPLICAS];
        const int64_t elements = lkt_param_elements(c, p);

        for (int r = 0; r < replicas; r++) parts_of[r] = each[r].d_param[p];
        const float *whole = tree_sum(backend, parts_of, 0, replicas, elements);
        const float *found = sum_nodes(backend, &arena, &rows, parts, nodes, p);
        for (int64_t i = 0; i < elements; i++)
            if (memcmp(&whole[i], &found[i], sizeof(float)) != 0)
                fail_msg("%s, %s, %d replicas in %d parts: parameter %d[%lld] is %a by replica, %a "
                         "by rows",
                         backend->name, lkt_describe(c), replicas, parts, p, (long long)i,
                         (double)whole[i], (double)found[i]);
    }
    lki_arena_release(&arena);
}

static void rows_have_the_bits_of_replicas(void **state)
{
    static const int replicas[] = {1, 2, 3, 5, 6, 7, 8, 16};
    static const int64_t widths[] = {1, 2, 37, 256, 300, 515};
    lkt_random random = lkt_random_make("rows_have_the_bits_of_replicas", 20);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        if (lkt_kernel(lkt_backends()[b], LKI_OP_DENSE)->rows == NULL) continue;
        for (int k = 0; k < 48; k++) {
            lkt_case c;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(
                c.graph,
                &(lks_input_opts){.shape = LKS_SHAPE(widths[lkt_random_below(&random, 6)])});
            lks_tensor *y = lks_dense(
                c.graph, x,
                &(lks_dense_opts){.units = lkt_random_from(&random, 1, 33), .no_bias = k % 5 == 0});
            lkt_case_end(&c, y, y, lkt_random_from(&random, 1, k % 2 == 0 ? 9 : 70), LKT_RANDOM,
                         &random);
            c.switches.bf16 = lkt_random_chance(&random, 3);
            compare(&c, lkt_backends()[b], replicas[k % 8], (int)lkt_random_from(&random, 1, 5),
                    k % 3 == 0 ? 1 : (int)lkt_random_from(&random, 1, 4));
            lkt_case_free(&c);
        }
    }
}

/* The sums that wait in a deep tree need so much room that fewer columns are taken at a time: with
 * as many units as a block has, columns that would otherwise go together, and samples for several
 * blocks. And where there are few samples, hundreds of replicas between them have none. */
static void rows_of_many_replicas(void **state)
{
    lkt_random random = lkt_random_make("rows_of_many_replicas", 22);

    (void)state;
    for (int b = 0; lkt_backends()[b / 3] != NULL; b++) {
        const lki_backend *backend = lkt_backends()[b / 3];
        lkt_case c;

        if (lkt_kernel(backend, LKI_OP_DENSE)->rows == NULL) continue;
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(131)});
        lks_tensor *y = lks_dense(c.graph, x, &(lks_dense_opts){.units = 127});
        lkt_case_end(&c, y, y, b % 3 < 2 ? 1100 : 3, LKT_RANDOM, &random);
        c.switches.bf16 = b % 3 == 0;
        compare(&c, backend, 1023, 1, 1);
        lkt_case_free(&c);
    }
}

/* As behind relu and dropout, half of the factors are zeros, some of them negative. */
static void zeros_of_both_signs_agree(void **state)
{
    lkt_random random = lkt_random_make("zeros_of_both_signs_agree", 21);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        if (lkt_kernel(lkt_backends()[b], LKI_OP_DENSE)->rows == NULL) continue;
        for (int k = 0; k < 8; k++) {
            lkt_case c;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(131)});
            lks_tensor *y = lks_dense(c.graph, x, &(lks_dense_opts){.units = 19});
            lkt_case_end(&c, y, y, 21, LKT_RANDOM, &random);
            for (int64_t i = 0; i < lkt_in_elements(&c, 0); i++) {
                if (lkt_random_below(&random, 2) == 0) ((float *)c.in[0])[i] = 0.0f;
            }
            for (int64_t i = 0; i < lkt_out_elements(&c); i++) {
                if (lkt_random_below(&random, 2) == 0) c.d_out[i] *= 0.0f;
            }
            compare(&c, lkt_backends()[b], 1 + k, 2, 1);
            lkt_case_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_bits_of_replicas),
        cmocka_unit_test(rows_of_many_replicas),
        cmocka_unit_test(zeros_of_both_signs_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
