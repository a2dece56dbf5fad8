/*
 * The bounds of src/check/bounds*.c do not change unnoticed: a bound that is too wide makes every test that
 * rests on it blind. Weighted sums over the elements of each, for every operation, beside those that
 * tests/op/golden/bounds.json has. They follow from formulas in double, with functions of the C library
 * whose last digits may differ, so they agree within 1e-9. To write the file anew, where a derivation
 * changes:
 *
 *     LKT_SOURCE=$PWD LKT_BOUNDS=write build/release/tests/test_op_bounds 2>/dev/null |
 *         sed -n '/^{/,/^}/p' > tests/op/golden/bounds.json
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric/random.h"
#include "support/backends.h"
#include "support/op_json.h"

enum { CASES = 3, MOST_SUMS = 3 + LKI_MAX_IN + LKI_MAX_PARAM };

typedef struct sums {
    double value[MOST_SUMS];
    int count;
} sums;

static void add(sums *to, const double *bound, int64_t count)
{
    if (bound == NULL) return;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += bound[i] * (double)(1 + i % 7);
    assert_true(sum >= 0 && isfinite(sum));
    to->value[to->count++] = sum;
}

static sums sums_of(lkt_case *c, const lkt_how *how)
{
    sums out = {.count = 0};
    lkt_result ref;
    lkt_bounds bound;
    lkt_run(c, lkt_ref(), NULL, how, &ref);
    lkt_bounds_make(c, how, &ref, &bound);
    add(&out, bound.out, lkt_out_elements(c));
    for (int i = 0; i < LKI_MAX_IN; i++)
        if (lkt_has_gradient(c, i)) add(&out, bound.d_in[i], lkt_in_elements(c, i));
    for (int i = 0; i < LKI_MAX_PARAM && bound.d_param[i] != NULL; i++)
        add(&out, bound.d_param[i], lkt_param_elements(c, i));
    add(&out, bound.stats, lkt_first(c)->stats);
    add(&out, bound.leaves, c->count * lkt_first(c)->carries);
    return out;
}

static const json_t *golden; /* NULL: written */
static bool wrote;

static void compare(const char *name, const sums *found)
{
    if (golden == NULL) {
        printf("%s\n\"%s\": [", wrote ? "," : "{", name);
        for (int i = 0; i < found->count; i++)
            printf("%s%.12g", i > 0 ? ", " : "", found->value[i]);
        printf("]");
        wrote = true;
        return;
    }
    const json_t *expected = json_object_get(golden, name);
    if (json_array_size(expected) != (size_t)found->count)
        fail_msg("%s: %d sums of bounds, expected %zu", name, found->count,
                 json_array_size(expected));
    for (int i = 0; i < found->count; i++) {
        const double value = json_number_value(json_array_get(expected, (size_t)i));
        if (!(fabs(found->value[i] - value) <= 1e-9 * value))
            fail_msg("%s: sum %d of bounds is %.12g, was %.12g", name, i, found->value[i], value);
    }
}

/* In training, adding to a gradient that is there, without backward, and as in evaluation. */
static void all_ways(lkt_case *c, const char *name)
{
    static const char *const ways[] = {"", "added", "forward", "evaluated"};
    for (int way = 0; way < 4; way++) {
        lkt_how how = {.no_backward = way == 2};
        char full[96];
        for (int i = 0; way == 1 && i < LKI_MAX_IN; i++) {
            if (!lkt_has_gradient(c, i)) continue;
            how.prior[i] = c->in[i];
            how.add_in |= 1u << i;
        }
        c->training = way < 3;
        snprintf(full, sizeof full, "%s %s", name, ways[way]);
        const sums found = sums_of(c, &how);
        compare(full, &found);
    }
}

static void random_operations(void)
{
    for (int k = 0; k < CASES * LKI_OP_COUNT; k++) {
        const lki_op_id op = (lki_op_id)(k % LKI_OP_COUNT);
        /* Not LKT_SEED's; and each operation's own, whatever others draw and how many there are. */
        lkt_random random = {
            .state = lki_random_key((uint64_t)(k / LKI_OP_COUNT), "bounds", lki_op_get(op)->name)};
        lkt_case c;
        char name[64];
        if (lkt_kernel(lkt_ref(), op) == NULL) continue;
        lkt_case_begin(&c);
        lks_tensor *x = lkt_random_input(c.graph, op, &random);
        lks_tensor *y = lkt_random_op(c.graph, op, x, false, &random);
        lkt_case_end(&c, y, y, 1 + k / LKI_OP_COUNT % 4, LKT_RANDOM, &random);
        snprintf(name, sizeof name, "%s %d", lki_op_get(op)->name, k / LKI_OP_COUNT);
        all_ways(&c, name);
        lkt_case_free(&c);
    }
}

/* Sums with blocks, groups and a rest; and moments of one and of two values. */
static void long_sums_and_short_ones(void)
{
    lkt_random random = {.state = 78};
    static const int64_t terms[] = {64, 65, 1024, 2500};
    char name[64];
    lkt_case c;
    for (int k = 0; k < 4; k++) {
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(terms[k])});
        lks_tensor *y = lks_dense(c.graph, x, &(lks_dense_opts){.units = 3});
        lkt_case_end(&c, y, y, 2, LKT_RANDOM, &random);
        snprintf(name, sizeof name, "dense of %d", (int)terms[k]);
        all_ways(&c, name);
        lkt_case_free(&c);
    }
    for (int m = 1; m <= 2; m++) {
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(1, 1, 3)});
        lks_tensor *y = lks_batch_norm(c.graph, x, NULL);
        lkt_case_end(&c, y, y, m, LKT_RANDOM, &random);
        snprintf(name, sizeof name, "batch_norm of %d", m);
        all_ways(&c, name);
        lkt_case_free(&c);
    }
}

/* Random ones are often of a position, or of padding alone, where little is computed. */
static void attention_of_some_positions(void)
{
    static const struct {
        int64_t positions, channels;
        lks_attention_opts opts;
    } list[] = {
        {7, 30, {.heads = 3, .kv_heads = 1, .causal = true, .rotary = 100}},
        {70, 24, {.heads = 2}},
        {66, 16, {.heads = 2, .kv_heads = 1, .causal = true, .dropout = .1f}},
    };
    lkt_random random = {.state = 80};
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
        char name[64];
        lkt_case c;
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(
            c.graph, &(lks_input_opts){.shape = LKS_SHAPE(list[k].positions, list[k].channels)});
        lks_tensor *y = lks_attention(c.graph, x, NULL, &list[k].opts);
        lkt_case_end(&c, y, y, 2, LKT_RANDOM, &random);
        snprintf(name, sizeof name, "attention of %d", (int)list[k].positions);
        all_ways(&c, name);
        lkt_case_free(&c);
    }
}

static void bounds_are_as_they_were(void **state)
{
    (void)state;
    const char *mode = getenv("LKT_BOUNDS");
    json_t *file = NULL;
    if (mode == NULL || strcmp(mode, "write") != 0)
        golden = file = lkt_json_load("tests/op/golden/bounds.json");
    random_operations();
    long_sums_and_short_ones();
    attention_of_some_positions();
    if (golden == NULL) printf("\n}\n");
    json_decref(file);
}

/* What is no operation has no bounds. */
static void an_input_has_no_bounds(void **state)
{
    (void)state;
    lkt_random random = {.state = 79};
    lkt_result ref;
    lkt_bounds bound;
    lkt_case c;
    lkt_case_begin(&c);
    lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(4)});
    lks_tensor *y = lks_relu(c.graph, x);
    lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
    lkt_run(&c, lkt_ref(), NULL, NULL, &ref);
    c.cluster = lki_cluster_of(x->node);
    c.in[0] = NULL;
    LKT_FAILS(LKS_E_BUG, "there are no bounds for input", lki_bounds_make(&c, NULL, &ref, &bound));
    lkt_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_as_they_were),
        cmocka_unit_test(an_input_has_no_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
