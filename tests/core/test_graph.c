/* Graphs: names, sticky errors, what belongs together, memory. */
#include <string.h>

#include "core/graph.h"
#include "support/test.h"

typedef struct fixture {
    lks_context *context;
    lks_graph *graph;
} fixture;

static int set_up(void **state)
{
    static fixture f;

    LKT_OK(lks_context_create(&f.context, NULL));
    LKT_OK(lks_graph_create(&f.graph, f.context));
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    lks_graph_destroy(f->graph);
    lks_context_destroy(f->context);
    return 0;
}

static lks_tensor *image(lks_graph *g)
{
    return lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(8, 6, 3)});
}

static void nodes_have_names_and_shapes(void **state)
{
    lks_graph *g = ((fixture *)*state)->graph;
    char name[] = "conv1";
    char text[64];
    lks_tensor *x = image(g);
    lks_tensor *a = lks_conv2d(g, x,
                               &(lks_conv2d_opts){.name = name, .filters = 4, .kernel = {3, 3}});
    memset(name, '?', sizeof name - 1); /* the caller's string is copied */
    lks_tensor *b = lks_relu(g, a);
    lks_tensor *c = lks_relu(g, b);

    LKT_OK(lks_graph_status(g));
    assert_string_equal(lks_tensor_name(x), "input_1");
    assert_string_equal(lks_tensor_name(a), "conv1");
    assert_string_equal(((const lks_conv2d_opts *)a->node->attr)->name, "conv1");
    assert_string_equal(lks_tensor_name(b), "relu_1");
    assert_string_equal(lks_tensor_name(c), "relu_2");
    const lks_shape shape = lks_tensor_shape(c);
    assert_string_equal(lki_shape_print(&shape, text, sizeof text), "6x4x4");
    assert_int_equal(lks_tensor_dtype(c), LKS_F32);
    assert_string_equal(lki_shape_print(&(lks_shape){0}, text, sizeof text), "one number");
    assert_true(strlen(lki_shape_print(&shape, text, 3)) == 2);
    assert_true(lki_shape_equal(&shape, &b->shape));
    assert_false(lki_shape_equal(&shape, &x->shape));
    assert_false(lki_shape_equal(&shape, &LKS_SHAPE(6, 4)));
}

/* Order, and whether a parameter comes before. */
static void nodes_are_in_order(void **state)
{
    lks_graph *g = ((fixture *)*state)->graph;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(5)});
    lks_tensor *n = lks_relu(g, x);
    lks_tensor *d = lks_dense(g, n, &(lks_dense_opts){.units = 5});
    lks_tensor *s = lks_add(g, d, n);
    lks_tensor *t = lks_target(g, &(lks_target_opts){.classes = 5});
    lks_tensor *loss = lks_cross_entropy(g, s, t, NULL);
    const lks_tensor *order[] = {x, n, d, s, t, loss};
    const bool gradient[] = {false, false, true, true, false, true};
    const lki_node *node = g->first;

    LKT_OK(lks_graph_status(g));
    assert_int_equal(g->count, 6);
    for (int i = 0; i < 6; i++, node = node->next) {
        assert_ptr_equal(&node->out, order[i]);
        assert_int_equal(node->index, i);
        assert_int_equal(node->needs_gradient, gradient[i]);
    }
    assert_null(node);
    assert_ptr_equal(g->last, loss->node);
    assert_ptr_equal(g->input, x);
    assert_ptr_equal(g->target, t);
}

/* A number that the user took is passed over. */
static void default_names_avoid_given_ones(void **state)
{
    lks_graph *g = ((fixture *)*state)->graph;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.name = "relu_1", .shape = LKS_SHAPE(2)});

    assert_string_equal(lks_tensor_name(lks_relu(g, x)), "relu_2");
    assert_string_equal(lks_tensor_name(lks_relu(g, x)), "relu_3");
}

static void the_first_error_stays(void **state)
{
    lks_graph *g = ((fixture *)*state)->graph;
    lks_tensor *x = image(g);
    lks_tensor *bad = lks_dense(g, x, &(lks_dense_opts){.name = "head", .units = 10});

    assert_null(bad);
    assert_null(lks_relu(g, bad));
    assert_null(lks_relu(g, x)); /* nothing is built any more */
    assert_null(lks_dropout(g, x, &(lks_dropout_opts){.probability = 7.0f}));
    (void)lks_fail(LKS_E_IO, "something else happened on this thread");
    LKT_FAILS(LKS_E_SHAPE,
              "dense 'head': input has 3 dimensions, expected 1, or 2 (positions, channels); put a "
              "flatten before it",
              lks_graph_status(g));
    assert_int_equal(g->count, 1);
}

static void own_builders_can_fail(void **state)
{
    lks_graph *g = ((fixture *)*state)->graph;

    assert_null(lks_graph_fail(g, "block has %d layers, expected 1 to 9", 10));
    assert_null(lks_graph_fail(g, "later"));
    LKT_FAILS(LKS_E_INVALID, "block has 10 layers, expected 1 to 9", lks_graph_status(g));
}

static void wrong_names_are_refused(void **state)
{
    static const struct {
        const char *name, *part;
    } list[] = {
        {"taken", "the name 'taken' is taken by another input"},
        {"", "the name '' is not valid; use letters"},
        {"conv 1", "the name 'conv 1' is not valid; use letters"},
        {"caf\xc3\xa9", "is not valid; use letters"},
        {"optimizer.x", "begins with 'optimizer.', as names of the optimizer's state"},
        {"gradient.x", "begins with 'gradient.'"},
        {"ema.fc", "begins with 'ema.'"},
        {"a123456789b123456789c123456789d123456789e123456789f123456789g123",
         "has 64 characters, expected at most 63"},
    };
    const fixture *f = *state;

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lks_graph *g = NULL;

        LKT_OK(lks_graph_create(&g, f->context));
        lks_tensor *x = lks_input(g, &(lks_input_opts){.name = "taken", .shape = LKS_SHAPE(4)});
        assert_null(lks_dense(g, x, &(lks_dense_opts){.name = list[i].name, .units = 2}));
        LKT_FAILS(LKS_E_INVALID, list[i].part, lks_graph_status(g));
        lks_graph_destroy(g);
    }
}

/* Reserved is how a name begins, up to the point. */
static void names_that_resemble_reserved_ones_are_taken(void **state)
{
    static const char *const names[] = {"optimizer", "gradients.x", "fc.ema.x", "ema-x", "Ema.x"};
    lks_graph *g = ((fixture *)*state)->graph;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(4)});

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        x = lks_dense(g, x, &(lks_dense_opts){.name = names[i], .units = 2});
        LKT_OK(lks_graph_status(g));
        assert_string_equal(lks_tensor_name(x), names[i]);
    }
}

/* Each builds one wrong thing. */
static void null_input(lks_graph *g, lks_graph *other)
{
    (void)other;
    lks_add(g, image(g), NULL);
}
static void foreign_input(lks_graph *g, lks_graph *other)
{
    image(g);
    lks_relu(g, image(other));
}
static void second_input(lks_graph *g, lks_graph *other)
{
    (void)other;
    image(g);
    image(g);
}
static void second_target(lks_graph *g, lks_graph *other)
{
    (void)other;
    lks_target(g, &(lks_target_opts){.classes = 3});
    lks_target(g, &(lks_target_opts){.classes = 3});
}
static void target_as_data(lks_graph *g, lks_graph *other)
{
    (void)other;
    lks_relu(g, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(3)}));
}
static void data_as_target(lks_graph *g, lks_graph *other)
{
    (void)other;
    lks_tensor *x = image(g);
    lks_mse(g, x, x);
}
static void after_a_loss(lks_graph *g, lks_graph *other)
{
    (void)other;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(3)});
    lks_relu(g, lks_mse(g, x, lks_target(g, &(lks_target_opts){.shape = LKS_SHAPE(3)})));
}

static void what_does_not_belong_is_refused(void **state)
{
    static const struct {
        void (*build)(lks_graph *g, lks_graph *other);
        const char *part;
    } list[] = {
        {null_input, "add 'add_1': input 1 is NULL; pass a tensor that a builder returned"},
        {foreign_input, "relu 'relu_1': input 0 belongs to another graph"},
        {second_input, "input 'input_2': the graph has one already, 'input_1'"},
        {second_target, "target 'target_2': the graph has one already, 'target_1'"},
        {target_as_data, "relu 'relu_1': input 0 is 'target_1', a target; only a loss takes"},
        {data_as_target, "mse 'mse_1': input 1 is 'input_1', not a target"},
        {after_a_loss, "relu 'relu_1': input 0 is the loss 'mse_1', and nothing can follow"},
    };
    const fixture *f = *state;

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lks_graph *g = NULL, *other = NULL;

        LKT_OK(lks_graph_create(&g, f->context));
        LKT_OK(lks_graph_create(&other, f->context));
        list[i].build(g, other);
        LKT_FAILS(LKS_E_INVALID, list[i].part, lks_graph_status(g));
        lks_graph_destroy(g);
        lks_graph_destroy(other);
    }
}

static void null_is_answered(void **state)
{
    lks_graph *g = NULL;

    (void)state;
    LKT_FAILS(LKS_E_INVALID, "the context is NULL", lks_graph_create(&g, NULL));
    assert_null(g);
    LKT_FAILS(LKS_E_INVALID, "the graph is NULL", lks_graph_status(NULL));
    assert_null(lks_input(NULL, &(lks_input_opts){.shape = LKS_SHAPE(3)}));
    assert_string_equal(lks_last_error()->message,
                        "input: the graph is NULL; make one with lks_graph_create()");
    assert_null(lks_graph_fail(NULL, "nowhere to keep it"));
    lks_graph_destroy(NULL);
    assert_int_equal(lks_tensor_shape(NULL).ndim, 0);
    assert_int_equal(lks_tensor_dtype(NULL), LKS_F32);
    assert_string_equal(lks_tensor_name(NULL), "");
}

static lks_status build(lks_context *context)
{
    lks_graph *g = NULL;
    const lks_status created = lks_graph_create(&g, context);

    if (created != LKS_OK) {
        assert_null(g);
        return created;
    }
    lks_tensor *x = image(g);
    for (int i = 0; i < 40; i++)
        x = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 2, .kernel = {1, 1}});
    const lks_status built = lks_graph_status(g);
    lks_graph_destroy(g);
    return built;
}

/* Allocation n fails, for every n: LKS_E_NOMEM, and nothing stays behind. */
static void no_memory_is_an_error(void **state)
{
    lkt_heap heap = {0};
    lks_context *context = NULL;

    (void)state;
    LKT_OK(
        lks_context_create(&context, &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}));
    const int64_t live = heap.live, before = heap.allocations;
    LKT_OK(build(context));
    const int64_t needed = heap.allocations - before;
    assert_true(needed >= 2);
    for (int64_t n = 1; n <= needed; n++) {
        heap.fail_at = heap.allocations + n;
        LKT_FAILS(LKS_E_NOMEM, "memory", build(context));
        assert_int_equal(heap.live, live);
    }
    lks_context_destroy(context);
    assert_int_equal(heap.live, 0);
    assert_int_equal(heap.errors, 0);
}

/* relu's zeros, also through what passes nothing on from a zero that it has not received one for. */
static void gradients_stop_at_zeros_of_relu(void **state)
{
    lks_graph *g = ((fixture *)*state)->graph;
    const lks_pool_opts pool = {.kernel = {2, 2}};
    const lks_dropout_opts drop = {.probability = .5f};
    lks_tensor *x = image(g), *y = lks_relu(g, x);
    lks_tensor *through = lks_flatten(g, lks_dropout(g, lks_max_pool(g, y, &pool), &drop));
    assert_true(lki_stops_at_zero(y));
    assert_true(lki_stops_at_zero(through));
    assert_false(lki_stops_at_zero(x));
    assert_false(lki_stops_at_zero(lks_dropout(g, x, &drop)));
    assert_false(lki_stops_at_zero(lks_flatten(g, lks_gelu(g, x, NULL))));
    assert_false(lki_stops_at_zero(lks_avg_pool(g, y, &pool)));
    assert_false(lki_stops_at_zero(lks_add(g, y, x)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nodes_have_names_and_shapes),
        TEST(nodes_are_in_order),
        TEST(default_names_avoid_given_ones),
        TEST(the_first_error_stays),
        TEST(own_builders_can_fail),
        TEST(wrong_names_are_refused),
        TEST(names_that_resemble_reserved_ones_are_taken),
        TEST(what_does_not_belong_is_refused),
        cmocka_unit_test(null_is_answered),
        TEST(gradients_stop_at_zeros_of_relu),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
