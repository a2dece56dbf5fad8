/* Layers from lines of text: what is printed is read as the same layer, for every operation. */
#include <string.h>

#include <lockstep/tools.h>

#include "recipe/network/layer.h"
#include "support/ops.h"

enum { CASES = 40, LINE = 4096 };

static lks_graph *graph_of(lks_context *context)
{
    lks_graph *graph;
    LKT_OK(lks_graph_create(&graph, context));
    return graph;
}

/* A tensor of that shape; where the second input of the node is the graph's, from that. */
static lks_tensor *input_like(lks_graph *graph, const lks_tensor *first, const lks_tensor *second)
{
    const bool tokens = second != NULL && second->node->op == LKI_OP_INPUT;
    const lks_tensor *like = tokens ? second : first;
    const int64_t vocabulary = like->dtype == LKS_I32 ? 7 : 0;
    const lks_input_opts opts = {
        .shape = like->shape, .dtype = like->dtype, .vocabulary = vocabulary};
    lks_tensor *x = lks_input(graph, &opts);
    if (!tokens) return x;
    return lks_embedding(graph, x, &(lks_embedding_opts){.units = first->shape.dim[1]});
}

/* A random operation, printed, built from the line in a graph of its own, and printed again. */
static void one_line(lks_context *context, lki_op_id op, lkt_random *random)
{
    char line[LINE], with[LINE + 80], again[LINE];
    lks_graph *a = graph_of(context), *b = graph_of(context);
    lks_tensor *y = lkt_random_op(a, op, lkt_random_input(a, op, random), false, random);
    LKT_OK(lks_graph_status(a));
    lks_tensor_line(y, 0, line, sizeof line);
    const lks_tensor *first = y->node->in[0],
                     *second = y->node->in_count > 1 ? y->node->in[1] : NULL;
    lks_tensor *x = input_like(b, first, second);
    snprintf(with, sizeof with, "%s", line);
    if (second != NULL && lki_op_get(op)->inputs == 2 && !lki_op_get(op)->is_loss) {
        lks_tensor *flat = lks_flatten(b, x);
        const lks_shape shape = second->shape;
        const bool same = lki_shape_equal(&shape, &first->shape);
        if (shape.ndim == 3 && !same)
            lks_conv2d(b, x,
                       &(lks_conv2d_opts){.name = "b", .filters = shape.dim[2], .kernel = {1, 1}});
        else if (same)
            lks_scale(b, x, &(lks_scale_opts){.name = "b", .factor = 2});
        else
            lks_dense(b, flat, &(lks_dense_opts){.name = "b", .units = shape.dim[0]});
        snprintf(with, sizeof with, "%s with=b", line);
    }
    lks_tensor *z = lks_graph_line(b, x, with);
    LKT_OK(lks_graph_status(b));
    lks_tensor_line(z, 0, again, sizeof again);
    assert_string_equal(again, line);
    assert_true(lki_shape_equal(&z->shape, &y->shape));
    assert_int_equal(z->node->param_count, y->node->param_count);
    lks_graph_destroy(a);
    lks_graph_destroy(b);
}

static void what_is_printed_is_read(void **state)
{
    lkt_random random = lkt_random_make("what_is_printed_is_read", 3);
    lks_context *context;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    for (lki_op_id op = 0; op < LKI_OP_COUNT; op++) {
        if (lki_op_get(op)->inputs == 0) continue;
        for (int i = 0; i < CASES; i++) one_line(context, op, &random);
    }
    lks_context_destroy(context);
}

/* Each option by its name, with a value from what help says of it: accepted, and printed. */
static void options_have_the_names_of_help(void **state)
{
    int layers = 1; /* a block of a transformer, which is no operation */
    (void)state;
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++) layers += lki_op_get(id)->inputs > 0;
    int listed = 0;
    for (lks_list list = LKS_LIST_LAYERS; list <= LKS_LIST_LOSSES; list++) {
        const char *name, *what;
        for (int i = 0; (name = lks_list_name(list, i, &what)) != NULL; i++, listed++) {
            const lki_op *op;
            int own = 0;
            LKT_OK(lki_layer_find(&op, "a test", name, true));
            lks_option option;
            assert_string_equal(what, op->what);
            for (int k = 0; lks_list_option(list, i, k, &option); k++) {
                const lki_attribute *a = lki_attribute_find(&op->attributes, option.name);
                assert_true(option.expected[0] != '\0');
                if (a == NULL) continue;
                own++;
                assert_int_equal(option.required, a->required);
                assert_true(option.required || option.standard != NULL || a->part);
            }
            assert_int_equal(own, op->attributes.count);
        }
    }
    assert_int_equal(listed, layers);
}

static void names_and_earlier_layers(void **state)
{
    lks_context *context;
    char line[200];
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    lks_graph *g = graph_of(context);
    lks_tensor *x = lks_input(g, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(8, 8, 3)});
    lks_tensor *a = lks_graph_line(g, x, "conv2d name=a filters=4 kernel=3 padding=1 no_bias");
    assert_string_equal(lks_tensor_name(a), "a");
    lks_tensor *y = lks_graph_line(g, a, "gelu form=tanh");
    y = lks_graph_line(g, y, "add with=a");
    y = lks_graph_line(g, lks_graph_line(g, y, "global_avg_pool"), "dense units=5");
    lks_tensor *loss = lks_graph_line(g, y, "cross_entropy label_smoothing=0.1");
    LKT_OK(lks_graph_status(g));
    assert_string_equal(lks_tensor_line(a, 0, line, sizeof line),
                        "conv2d filters=4 kernel=3x3 padding=1 no_bias");
    assert_int_equal(lks_tensor_shape(loss).ndim, 0);
    lks_graph_destroy(g);
    lks_context_destroy(context);
}

static void wrong_lines_are_refused(void **state)
{
    static const struct {
        const char *line, *part;
    } wrong[] = {
        {"conv3d filters=2", "'conv3d filters=2': unknown layer 'conv3d'; the nearest is 'conv2d'"},
        {"", "the line is empty"},
        {"conv2d kernel=3", "conv2d needs filters"},
        {"conv2d filters=0 kernel=3", "conv2d filters is '0', expected an integer of at least 1"},
        {"dropout probability=1", "expected a number of at least 0 and below 1"},
        {"dense unit=3", "dense has no option 'unit'; the nearest is 'units'"},
        {"relu in=3x8x8x3", "in is for lines without a graph"},
        {"add with=nothing", "no layer before it has the name 'nothing'"},
        {"dense units=3", "put a flatten before it"},
        {"input shape=3", "unknown layer 'input'"},
    };
    lks_context *context;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lks_graph *g = graph_of(context);
        lks_tensor *x = lks_input(g, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(8, 8, 3)});
        assert_null(lks_graph_line(g, x, wrong[i].line));
        const lks_status status = lks_graph_status(g);
        assert_true(status == LKS_E_INVALID || status == LKS_E_SHAPE);
        if (strstr(lks_last_error()->message, wrong[i].part) == NULL)
            fail_msg("'%s': %s", wrong[i].line, lks_last_error()->message);
        lks_graph_destroy(g);
    }
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_is_read),
        cmocka_unit_test(options_have_the_names_of_help),
        cmocka_unit_test(names_and_earlier_layers),
        cmocka_unit_test(wrong_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
