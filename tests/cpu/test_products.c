/* Dense layers against their definition in bits: see products.h. */
#include "cpu/products.h"

#ifdef LKT_HAVE_CPU

/* Sizes around the borders of blocks, of vectors and of what is narrow, or small ones. */
static int64_t size_of_sum(lkt_random *random)
{
    static const int64_t sizes[] = {1,    2,    63,   64,   65, 128, 257, 511, 1023,
                                    1024, 1025, 1089, 2300, 5,  9,   15,  16};
    return lkt_random_below(random, 2) == 0 ? sizes[lkt_random_below(random, 17)]
                                            : lkt_random_from(random, 1, 90);
}

/* A dense layer and its operands. */
typedef struct dense_case {
    const lki_vector_dense *kernels;
    lki_dense_shape shape;
    int64_t rows;
    lkt_floats x, w, bias, d_y;
    void *packed;
} dense_case;

/* One of the two sums has two or three runs, of more than a group. */
static void set_runs(lki_dense_shape *s, lkt_random *random)
{
    const int way = lkt_random_chance(random, 2);
    int64_t *long_one = way == 0 ? &s->inputs : &s->units;
    int64_t *other = way == 0 ? &s->units : &s->inputs;
    *long_one = lkt_random_from(random, 2060, 2700);
    *other = lkt_random_from(random, 16, 40);
    s->run[way] = lkt_random_from(random, 1025, 1030);
}

/* In parts of rows, the last one first. */
static void pack_parts(const lki_vector_dense *kernels, const lki_dense_shape *s,
                       const float *weight, void *packed, int parts)
{
    const int64_t units = (s->units + LKI_PACKED_ROWS - 1) / LKI_PACKED_ROWS;
    int64_t end = s->units;
    for (int part = parts - 1; part >= 0; part--) {
        const int64_t first = lki_share(part, parts, units) * LKI_PACKED_ROWS;
        if (first < end) kernels->pack(s, weight, packed, first, end - first);
        end = first;
    }
}

/* The operands of a shape, and its packed weight. */
static void dense_fill(const lki_vector *v, lkt_random *random, dense_case *c)
{
    const lki_dense_shape *s = &c->shape;
    c->kernels = s->bf16 ? v->dense_bf16 : v->dense;
    c->x = lkt_floats_make(random, c->rows * s->inputs);
    if (s->masks) {
        const int64_t active = lkt_random_below(random, 9);
        for (int64_t i = 0; i < c->rows * s->inputs; i++)
            if (lkt_random_below(random, 8) >= active) c->x.at[i] = 0;
    }
    c->w = lkt_floats_make(random, s->units * s->inputs);
    c->bias = lkt_floats_make(random, s->units);
    c->d_y = lkt_floats_make(random, c->rows * s->units);
    c->packed = lkt_scratch(c->kernels->packed_bytes(s));
    pack_parts(c->kernels, s, c->w.at, c->packed, (int)lkt_random_from(random, 1, 4));
}

static dense_case dense_make(const lki_vector *v, lkt_random *random, int64_t rows, bool runs)
{
    dense_case c = {.rows = rows};
    c.shape.inputs = size_of_sum(random);
    c.shape.units = c.shape.inputs < 300 ? size_of_sum(random) : lkt_random_from(random, 1, 50);
    c.shape.bias = true;
    c.shape.bf16 = !runs && lkt_random_chance(random, 2);
    c.shape.unit = v->unit;
    c.shape.masks = !runs && !c.shape.bf16 && c.shape.units >= 16 &&
                    lkt_random_below(random, 2) == 0;
    if (runs) set_runs(&c.shape, random);
    dense_fill(v, random, &c);
    return c;
}

static sum dense_sum(const dense_case *c, int64_t columns)
{
    sum s = sum_of(columns);
    s.bf16 = c->shape.bf16;
    s.narrow &= !s.bf16;
    return s;
}

/* The next term, in runs of so many. */
static void add_in_runs(sum *s, int64_t run, int64_t number, float a, float b)
{
    if (run > 0 && number > 0 && number % run == 0) end_group(s);
    add_term(s, run > 0 ? number % run : number, a, b);
}

static void dense_free(dense_case *c)
{
    lkt_floats_free(&c->x);
    lkt_floats_free(&c->w);
    lkt_floats_free(&c->bias);
    lkt_floats_free(&c->d_y);
    free(c->packed);
}

/* A gradient of an input with masks: unit u in lane u mod 16, lanes added pairwise. */
static float in_lanes(const dense_case *c, int64_t sample, int64_t input)
{
    float lane[16] = {0};
    for (int64_t u = 0; u < c->shape.units; u++)
        lane[u % 16] = fmaf(c->d_y.at[sample * c->shape.units + u],
                            c->w.at[u * c->shape.inputs + input], lane[u % 16]);
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* Both packings of a weight so large that they are written past the caches; rests of panels are zeros. */
static void large_weights_are_packed(void **state)
{
    lkt_random random = lkt_random_make("large_weights", 1);
    const lki_dense_shape s = {.inputs = 2075, .units = 1050};
    lkt_floats w = lkt_floats_make(&random, s.units * s.inputs);
    (void)state;
    LKT_FOR_UNITS(v)
    {
        const int64_t panel = 2 * v->lanes;
        const int64_t size = (int64_t)(v->dense->packed_bytes(&s) / sizeof(float));
        const int64_t forward = (s.units + panel - 1) / panel * panel * s.inputs;
        float *packed = lkt_scratch(sizeof(float) * (size_t)size);
        float *expected = lkt_scratch(sizeof(float) * (size_t)size);
        memset(expected, 0, sizeof(float) * (size_t)size);
        for (int64_t u = 0; u < s.units; u++)
            for (int64_t k = 0; k < s.inputs; k++) {
                const float value = w.at[u * s.inputs + k];
                expected[(u / panel * s.inputs + k) * panel + u % panel] = value;
                expected[forward + (k / panel * s.units + u) * panel + k % panel] = value;
            }
        pack_parts(v->dense, &s, w.at, packed, 3);
        lkt_same(v, "packed", packed, expected, size);
        free(packed);
        free(expected);
    }
    lkt_floats_free(&w);
}

/* Forward, and the gradient of the input, each of the rows in two parts. */
static void check_forward(const lki_vector *v, lkt_random *random, const dense_case *c, int64_t cut)
{
    const int64_t in = c->shape.inputs, units = c->shape.units, rows = c->rows;
    lkt_floats y = lkt_floats_make(random, rows * units);
    float *expected = lkt_scratch(sizeof(float) * (size_t)(rows * units));
    void *space = lkt_scratch(c->kernels->workspace_bytes(&c->shape, rows));
    for (int64_t i = 0; i < rows * units; i++) {
        const float *x = c->x.at + i / units * in, *w = c->w.at + i % units * in;
        sum s = dense_sum(c, units);
        for (int64_t j = 0; j < in; j++) add_in_runs(&s, c->shape.run[0], j, x[j], w[j]);
        expected[i] = lki_flush(total_of(&s) + c->bias.at[i % units]);
    }
    c->kernels->forward(&c->shape, cut, c->x.at, c->packed, c->bias.at, y.at, space);
    c->kernels->forward(&c->shape, rows - cut, c->x.at + cut * in, c->packed, c->bias.at,
                        y.at + cut * units, space);
    lkt_same(v, "y", y.at, expected, rows * units);
    lkt_floats_free(&y);
    free(expected);
    free(space);
}

static void check_backward(const lki_vector *v, lkt_random *random, const dense_case *c,
                           int64_t cut, bool add)
{
    const int64_t in = c->shape.inputs, units = c->shape.units, rows = c->rows;
    lkt_floats d_x = lkt_floats_make(random, rows * in);
    float *expected = lkt_scratch(sizeof(float) * (size_t)(rows * in));
    void *space = lkt_scratch(c->kernels->workspace_bytes(&c->shape, rows));
    for (int64_t i = 0; i < rows * in; i++) {
        sum s = dense_sum(c, in);
        for (int64_t u = 0; u < units; u++)
            add_in_runs(&s, c->shape.run[1], u, c->d_y.at[i / in * units + u],
                        c->w.at[u * in + i % in]);
        float d = total_of(&s);
        if (c->shape.masks) d = c->x.at[i] == 0 ? 0 : in_lanes(c, i / in, i % in);
        expected[i] = lki_flush(add ? d + d_x.at[i] : d);
    }
    c->kernels->backward(&c->shape, cut, c->x.at, c->d_y.at, c->packed, d_x.at, add, space);
    c->kernels->backward(&c->shape, rows - cut, c->x.at + cut * in, c->d_y.at + cut * units,
                         c->packed, d_x.at + cut * in, add, space);
    lkt_same(v, "d_x", d_x.at, expected, rows * in);
    lkt_floats_free(&d_x);
    free(expected);
    free(space);
}

static void dense_passes(void **state)
{
    lkt_random random = lkt_random_make("dense_passes", 80);
    (void)state;
    LKT_FOR_UNITS(v)
    for (int k = 0; k < cases(); k++) {
        const bool runs = k % 4 == 1;
        const int64_t most = runs ? 14 : k == 0 && !lkt_in_part() ? 600 : k % 8 == 0 ? 150 : 40;
        dense_case c = dense_make(v, &random, lkt_random_from(&random, 1, most), runs);
        const int64_t cut = lkt_random_below(&random, c.rows);
        check_forward(v, &random, &c, cut);
        check_backward(v, &random, &c, cut, k % 2 != 0);
        dense_free(&c);
    }
}

/* So small a weight that some results are flushed. */
static void make_tiny(dense_case *c)
{
    for (int64_t i = 0; i < c->shape.units * c->shape.inputs; i++) c->w.at[i] *= 0x1p-63f;
    for (int64_t i = 0; i < c->shape.units; i++) c->bias.at[i] *= 0x1p-63f;
    c->kernels->pack(&c->shape, c->w.at, c->packed, 0, c->shape.units);
}

/* The last panel has from one column to one more than a vector, whose rows go by pairs: of an even number of rows, and of an
 * odd one. Some lie 4,096 bytes apart. */
static void last_panels(void **state)
{
    static const int64_t terms[] = {1, 64, 65, 600, 1024, 1100};
    lkt_random random = lkt_random_make("last_panels", 83);
    (void)state;
    LKT_FOR_UNITS(v)
    for (int64_t k = 0; k < 4 * (v->lanes + 1); k++) {
        const int64_t columns = (v->lanes < 8 ? 16 : 2 * v->lanes) + 1 + k / 4;
        const int64_t others = terms[lkt_random_below(&random, 6)];
        const int64_t cut = 2 * lkt_random_below(&random, 28);
        dense_case c = {.rows = cut + 2 * lkt_random_from(&random, 1, 28) - k % 2};
        c.shape = (lki_dense_shape){.bias = true, .unit = v->unit};
        c.shape.units = k % 4 < 2 ? columns : others;
        c.shape.inputs = k % 4 < 2 ? others : columns;
        dense_fill(v, &random, &c);
        if (lkt_random_chance(&random, 3)) make_tiny(&c);
        if (k % 4 < 2)
            check_forward(v, &random, &c, cut);
        else
            check_backward(v, &random, &c, cut, lkt_random_chance(&random, 2));
        dense_free(&c);
    }
}

/* Element (u, j) of the sums over replicas [lo, hi); j == inputs: of the bias. */
static bool tree_element(const dense_case *c, const int64_t *start, int64_t lo, int64_t hi,
                         int64_t u, int64_t j, float *out)
{
    if (hi - lo == 1) {
        sum terms = {.bf16 = c->shape.bf16 && j < c->shape.inputs};
        for (int64_t s = start[lo]; s < start[hi]; s++) {
            const float d = c->d_y.at[s * c->shape.units + u];
            if (j == c->shape.inputs)
                terms.total += (double)d;
            else
                add_term(&terms, s - start[lo], d, c->x.at[s * c->shape.inputs + j]);
        }
        *out = total_of(&terms);
        return start[hi] > start[lo];
    }
    const int64_t middle = lki_tree_split(lo, hi);
    float right;
    const bool a = tree_element(c, start, lo, middle, u, j, out);
    const bool b = tree_element(c, start, middle, hi, u, j, &right);
    if (a && b)
        *out += right;
    else if (b)
        *out = right;
    return a || b;
}

enum { MOST_NODES = 8 };

/* The sums of every maximal node of a range of replicas: the weight's, behind them the bias's. */
typedef struct gathered {
    int64_t weights;
    lki_tree_node node[MOST_NODES];
    lkt_floats sums[MOST_NODES];
    int nodes;
} gathered;

static void gather(void *user, lki_tree_node node, int param, int64_t first, int64_t count,
                   const float *sums)
{
    const gathered *g = user;
    int i = 0;
    while (i < g->nodes && g->node[i].lo != node.lo) i++;
    assert_true(i < g->nodes && g->node[i].hi == node.hi);
    memcpy(g->sums[i].at + param * g->weights + first, sums, sizeof(float) * (size_t)count);
}

/* Samples of each replica, some absent, sometimes more than are copied at a time, or than a block. */
static int64_t shares(lkt_random *random, int replicas, int64_t *start)
{
    static const int64_t several[] = {9, 9, 150, 1400};
    const int64_t most = several[lkt_random_below(random, replicas > 5 ? 3 : 4)];
    start[0] = 0;
    for (int r = 0; r < replicas; r++)
        start[r + 1] = start[r] +
                       (lkt_random_below(random, 3) == 0 ? 0 : lkt_random_below(random, most));
    return start[replicas];
}

/* The rows in two parts, from the samples of replicas first .. last-1 alone. */
static void run_rows(const dense_case *c, lkt_random *random, lki_rows *rows, gathered *to)
{
    const int64_t units = c->shape.units, cut = lkt_random_below(random, units);
    to->weights = units * c->shape.inputs;
    to->nodes = 0;
    for (int64_t at = rows->first; at < rows->last; at = to->node[to->nodes++].hi) {
        to->node[to->nodes] = lki_tree_maximal(rows->replicas, at, rows->last);
        to->sums[to->nodes] = lkt_floats_make(random, to->weights + units);
    }
    rows->in = c->x.at + rows->start[rows->first] * c->shape.inputs;
    rows->d_out = c->d_y.at + rows->start[rows->first] * units;
    rows->workspace = lkt_scratch(c->kernels->rows_bytes());
    rows->sum = gather;
    rows->user = to;
    if (c->shape.masks && c->shape.inputs > 64 && lkt_random_below(random, 2) == 0) {
        rows->row_count = units; /* ranges of inputs */
        rows->column_count = 64;
        c->kernels->rows(&c->shape, rows);
        rows->column_first = 64;
        rows->column_count = c->shape.inputs - 64;
    } else {
        rows->row_count = cut;
        c->kernels->rows(&c->shape, rows);
        rows->row_first = cut;
        rows->row_count = units - cut;
    }
    c->kernels->rows(&c->shape, rows);
    free(rows->workspace);
}

static void rows_are_the_tree_of_replicas(void **state)
{
    lkt_random random = lkt_random_make("rows_are_the_tree_of_replicas", 81);
    (void)state;
    LKT_FOR_UNITS(v)
    for (int k = 0; k < cases(); k++) {
        int64_t start[14];
        const int replicas = (int)lkt_random_from(&random, 1, 13);
        dense_case c = dense_make(v, &random, shares(&random, replicas, start), false);
        const int64_t in = c.shape.inputs, units = c.shape.units;
        lki_rows rows = {.start = start, .replicas = replicas, .last = replicas};
        gathered found;
        if (k % 2 == 1) {
            rows.first = lkt_random_below(&random, replicas);
            rows.last = lkt_random_from(&random, rows.first + 1, replicas);
        }
        run_rows(&c, &random, &rows, &found);
        for (int n = 0; n < found.nodes; n++) {
            const lki_tree_node node = found.node[n];
            for (int64_t i = 0; i < units * (in + 1) && start[node.lo] < start[node.hi]; i++) {
                const int64_t u = i / (in + 1), j = i % (in + 1);
                float expected;
                tree_element(&c, start, node.lo, node.hi, u, j, &expected);
                lkt_same(v, j == in ? "d_bias" : "d_w",
                         found.sums[n].at + (j == in ? found.weights + u : u * in + j), &expected,
                         1);
            }
            lkt_floats_free(&found.sums[n]);
        }
        dense_free(&c);
    }
}

/* The sums become the weight. */
static void renew(void *user, lki_tree_node node, int param, int64_t first, int64_t count,
                  const float *sums)
{
    float *weight = user;
    (void)node;
    if (param == 0) memcpy(weight + first, sums, sizeof(float) * (size_t)count);
}

static void rows_pack_what_they_update(void **state)
{
    lkt_random random = lkt_random_make("rows_pack_what_they_update", 82);
    (void)state;
    LKT_FOR_UNITS(v)
    for (int k = 0; k < cases(); k++) {
        const int64_t samples = lkt_random_from(&random, 1, 300), start[] = {0, samples};
        dense_case c = dense_make(v, &random, samples, false);
        const int64_t in = c.shape.inputs, units = c.shape.units;
        const int64_t row = lkt_random_below(&random, units) / LKI_PACKED_ROWS * LKI_PACKED_ROWS;
        const int64_t column = in > 64 && c.shape.masks ? 64 : in;
        const size_t bytes = c.kernels->packed_bytes(&c.shape);
        void *expected = lkt_scratch(bytes);
        lki_rows rows = {.in = c.x.at,
                         .d_out = c.d_y.at,
                         .start = start,
                         .replicas = 1,
                         .last = 1,
                         .workspace = lkt_scratch(c.kernels->rows_bytes()),
                         .param = (const float *const[]){c.w.at},
                         .packed = c.packed,
                         .sum = renew,
                         .user = c.w.at};
        for (int part = 0; part < 4; part++) { /* two of rows by two of columns */
            rows.row_first = part % 2 * row;
            rows.row_count = part % 2 == 0 ? row : units - row;
            rows.column_first = part / 2 * column;
            rows.column_count = part / 2 == 0 ? column : in - column;
            if (rows.row_count > 0 && rows.column_count > 0) c.kernels->rows(&c.shape, &rows);
        }
        c.kernels->pack(&c.shape, c.w.at, expected, 0, units);
        lkt_same(v, "packed", c.packed, expected, (int64_t)(bytes / sizeof(float)));
        free(rows.workspace);
        free(expected);
        dense_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_weights_are_packed),
        cmocka_unit_test(dense_passes),
        cmocka_unit_test(last_panels),
        cmocka_unit_test(rows_are_the_tree_of_replicas),
        cmocka_unit_test(rows_pack_what_they_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
