/* What infer gives rms_norm, layer_norm without a bias, and positions that are not learned: shapes, parameters, what is printed. */
#include <lockstep/lockstep.h>

#include "base/shape.h"
#include "core/graph.h"
#include "support/runs.h"
#include "support/test.h"

static void expect(const lks_tensor *y, const char *printed, const char *weight)
{
    char text[96];

    assert_non_null(y);
    lki_node_print(y->node, text, sizeof text);
    assert_string_equal(text, printed);
    assert_string_equal(lki_shape_print(&y->shape, text, sizeof text), "4x6");
    assert_int_equal(y->node->param_count, weight != NULL);
    if (weight == NULL) return;
    assert_string_equal(y->node->param[0].suffix, "weight");
    assert_string_equal(lki_shape_print(&y->node->param[0].shape, text, sizeof text), weight);
}

static void norms_and_positions(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_graph *g = m.graph;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(4, 6)});
    lks_tensor *y = lks_rms_norm(g, x, NULL);
    expect(y, "", "6");
    assert_true(y->node->param[0].init.kind == LKS_INIT_ONES && !y->node->param[0].is_weight);
    expect(lks_rms_norm(g, x, &(lks_rms_norm_opts){.epsilon = 0.25f, .no_affine = true}),
           "epsilon=0.25 no_affine", NULL);
    y = lks_position(g, x, NULL);
    expect(y, "", "4x6");
    assert_int_equal(y->node->param[0].fan_in, 6);
    y = lks_position(g, x, &(lks_position_opts){.class_token = true}); /* a position more */
    const lks_shape more = LKS_SHAPE(5, 6);
    assert_true(lki_shape_equal(&y->shape, &more));
    assert_true(lki_shape_equal(&y->node->param[0].shape, &more));
    expect(lks_position(g, x, &(lks_position_opts){.form = LKS_POSITION_SINUSOIDAL}),
           "form=sinusoidal", NULL);
    expect(lks_layer_norm(g, x, &(lks_layer_norm_opts){.dims = 2, .no_bias = true}),
           "dims=2 no_bias", "4x6");
    lkt_end(&m);
}

/* An image's pixels are positions, whose mean is as one of pixels. */
static void pixels_are_positions(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_graph *g = m.graph;
    char text[64];
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(4, 6, 5)});
    lks_tensor *y = lks_sequence(g, x);
    assert_non_null(y);
    assert_string_equal(lki_shape_print(&y->shape, text, sizeof text), "24x5");
    y = lks_global_avg_pool(g, y);
    assert_non_null(y);
    assert_string_equal(lki_shape_print(&y->shape, text, sizeof text), "5");
    assert_null(lks_global_avg_pool(g, y));
    LKT_FAILS(
        LKS_E_SHAPE,
        "global_avg_pool 'global_avg_pool_2': input has 1 dimension, expected 3 (height, width, "
        "channels) or 2 (positions, channels)",
        lks_graph_status(g));
    lkt_end(&m);
}

/* One position: from 0, or from the end. */
static void positions_are_selected(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_graph *g = m.graph;
    char text[64];
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(4, 6)});
    for (int64_t position = -4; position < 4; position++) {
        lks_tensor *y = lks_select(g, x, &(lks_select_opts){.position = position});
        assert_non_null(y);
        assert_string_equal(lki_shape_print(&y->shape, text, sizeof text), "6");
    }
    assert_null(lks_select(g, x, &(lks_select_opts){.name = "s", .position = 4}));
    LKT_FAILS(LKS_E_INVALID, "select 's': position is 4, but there are 4, expected -4 to 3",
              lks_graph_status(g));
    lkt_end(&m);
    m = lkt_begin(NULL);
    x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(1, 6)});
    assert_null(lks_select(m.graph, x, &(lks_select_opts){.position = -2}));
    LKT_FAILS(LKS_E_INVALID, "select 'select_1': position is -2, but there is 1, expected -1 to 0",
              lks_graph_status(m.graph));
    lkt_end(&m);
    m = lkt_begin(NULL);
    x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(3, 1, 6)});
    assert_null(lks_select(m.graph, x, NULL));
    LKT_FAILS(LKS_E_SHAPE,
              "select 'select_1': input has 3 dimensions, expected 2 (positions, channels)",
              lks_graph_status(m.graph));
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_and_positions),
        cmocka_unit_test(pixels_are_positions),
        cmocka_unit_test(positions_are_selected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
