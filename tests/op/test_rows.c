/* A gradient by rows has the bits of the gradients by replica, merged in the tree. */
#include <string.h>

#include "base/float.h"
#include "numeric/tree.h"
#include "support/backends.h"
#include "support/ops.h"

enum { MOST_REPLICAS = 1023 };

/* Where the sums of rows arrive; each element once. */
typedef struct gathered {
    const lkt_case *c;
    float *sums[LKI_MAX_PARAM];
    int *times[LKI_MAX_PARAM];
} gathered;

static void gather(void *user, int param, int64_t first, int64_t count, const float *sums)
{
    const gathered *g = user;

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

/* All rows, by `workers` workers. */
static void run_rows(lkt_case *c, const lki_kernel *kernel, const int64_t *start, int replicas,
                     int workers, gathered *out)
{
    const lki_node *node = lkt_first(c);
    lkt_stage stage;

    *out = (gathered){.c = c};
    for (int p = 0; p < node->param_count; p++) {
        const size_t count = (size_t)lkt_param_elements(c, p);

        out->sums[p] = lkt_case_memory(c, count * sizeof(float));
        out->times[p] = lkt_case_memory(c, count * sizeof(int));
        memset(out->times[p], 0, count * sizeof(int));
    }
    lkt_stage_open(c, kernel, &c->cluster, c->count, 0, &stage);
    const unsigned saved = lki_float_enter();
    for (int w = 0; w < workers; w++) {
        const int64_t rows = node->param[0].shape.dim[0], first = lki_share(w, workers, rows);
        const lki_rows args = {.in = c->in[0],
                               .d_out = c->d_out,
                               .start = start,
                               .replicas = replicas,
                               .row_first = first,
                               .row_count = lki_share(w + 1, workers, rows) - first,
                               .workspace = stage.workspace,
                               .sum = gather,
                               .user = out};
        kernel->rows(stage.plan, &args);
    }
    lki_float_leave(saved);
    lkt_stage_close(&stage);
}

static void compare(lkt_case *c, const lki_backend *backend, int replicas, int workers)
{
    const lki_node *node = lkt_first(c);
    int64_t start[MOST_REPLICAS + 1];
    lkt_result each[MOST_REPLICAS];
    gathered rows;

    for (int r = 0; r <= replicas; r++) start[r] = lki_share(r, replicas, c->count);
    for (int r = 0; r < replicas; r++) {
        if (start[r] < start[r + 1])
            run_replica(c, backend, start[r], start[r + 1], &each[r]);
        else
            each[r] = (lkt_result){0};
    }
    run_rows(c, lkt_kernel(backend, node->op), start, replicas, workers, &rows);
    for (int p = 0; p < node->param_count; p++) {
        float *parts[MOST_REPLICAS];
        const int64_t count = lkt_param_elements(c, p);

        for (int r = 0; r < replicas; r++) parts[r] = each[r].d_param[p];
        const float *whole = tree_sum(backend, parts, 0, replicas, count);
        for (int64_t i = 0; i < count; i++) {
            if (rows.times[p][i] != 1)
                fail_msg("%s, %s: element %lld of parameter %d was given %d times", backend->name,
                         lkt_describe(c), (long long)i, p, rows.times[p][i]);
            if (memcmp(&whole[i], &rows.sums[p][i], sizeof(float)) != 0)
                fail_msg("%s, %s, %d replicas: parameter %d[%lld] is %a by replica, %a by rows",
                         backend->name, lkt_describe(c), replicas, p, (long long)i,
                         (double)whole[i], (double)rows.sums[p][i]);
        }
    }
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
            compare(&c, lkt_backends()[b], replicas[k % 8], (int)lkt_random_from(&random, 1, 5));
            lkt_case_free(&c);
        }
    }
}

/* The sums that wait in a deep tree need so much room that fewer columns are taken at a time: with
 * as many units as a block has, columns that would otherwise go together, and samples for several
 * blocks. */
static void rows_of_many_replicas(void **state)
{
    lkt_random random = lkt_random_make("rows_of_many_replicas", 22);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_case c;

        if (lkt_kernel(lkt_backends()[b], LKI_OP_DENSE)->rows == NULL) continue;
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(131)});
        lks_tensor *y = lks_dense(c.graph, x, &(lks_dense_opts){.units = 127});
        lkt_case_end(&c, y, y, 1100, LKT_RANDOM, &random);
        compare(&c, lkt_backends()[b], 1023, 1);
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
            compare(&c, lkt_backends()[b], 1 + k, 2);
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
