/* Every pointer of every function of recipes as NULL, as tests/core/test_nulls.c has the others. */
#include <lockstep/tools.h>

#include "support/test.h"

/* Refused as an argument, with a sentence. */
#define REFUSES(expression) LKT_FAILS(LKS_E_INVALID, "", expression)

static void take_nothing(void *user, const lks_prediction *prediction)
{
    (void)user, (void)prediction;
}

static void of_recipes(void **state)
{
    lks_recipe *recipe;
    lks_dataset *data;
    lks_loader *out;
    lks_metrics sum;
    const lks_run *run;
    const char *text;
    char *record;
    bool complete;
    (void)state;
    LKT_OK(lks_dataset_open_digits(&data, NULL, NULL));
    REFUSES(lks_recipe_open(NULL, "a"));
    REFUSES(lks_recipe_open_text(NULL, "a", ""));
    REFUSES(lks_recipe_open_text(&recipe, "a", NULL));
    lks_recipe_close(NULL);
    LKT_OK(lks_recipe_open(&recipe, NULL));
    REFUSES(lks_recipe_set(NULL, "train.steps=1"));
    REFUSES(lks_recipe_set(recipe, NULL));
    LKT_OK(lks_recipe_set(recipe, "model.name=mlp"));
    lks_recipe_comm(NULL, NULL);
    lks_recipe_comm(recipe, NULL);
    lks_recipe_log(NULL, NULL, NULL);
    lks_recipe_log(recipe, NULL, NULL);
    REFUSES(lks_recipe_resolve(NULL));
    REFUSES(lks_recipe_yaml(NULL, &text));
    REFUSES(lks_recipe_yaml(recipe, NULL));
    assert_string_equal(lks_recipe_value(NULL, "train.steps"), "");
    assert_string_equal(lks_recipe_value(recipe, NULL), "");
    REFUSES(lks_recipe_open_data(NULL, LKS_RECIPE_TRAIN));
    REFUSES(lks_recipe_compile(NULL, 1));
    REFUSES(lks_recipe_init_weights(NULL));
    assert_null(lks_recipe_get_parts(NULL).model);
    REFUSES(lks_recipe_loader(NULL, recipe, data, true));
    REFUSES(lks_recipe_loader(&out, NULL, data, true));
    REFUSES(lks_recipe_loader(&out, recipe, NULL, true));
    assert_true(lks_recipe_schedule(NULL, 1, 1, 1).lr == 0);
    REFUSES(lks_recipe_lock(NULL));
    REFUSES(lks_recipe_start(NULL));
    REFUSES(lks_recipe_run(NULL, NULL, &run, &complete));
    REFUSES(lks_recipe_train(NULL, NULL, &run));
    REFUSES(lks_recipe_record(NULL, &record));
    REFUSES(lks_recipe_record(recipe, NULL));
    REFUSES(lks_recipe_load(NULL, LKS_WHICH_RUN, NULL));
    REFUSES(lks_recipe_evaluate(NULL, NULL, &sum));
    REFUSES(lks_recipe_evaluate(recipe, NULL, NULL));
    REFUSES(lks_class_counts_make(NULL, 1, true));
    assert_null(lks_recipe_paces(NULL, NULL, NULL));
    lks_class_counts_free(NULL);
    assert_int_equal(lks_class_given(NULL, 3), 0);
    lks_class_counts_add(NULL, 0, 0);
    REFUSES(lks_class_counts_sum(NULL, NULL));
    REFUSES(lks_class_counts_sum_matrix(NULL, NULL));
    REFUSES(lks_recipe_evaluate_each(NULL, NULL, &sum, take_nothing, NULL));
    REFUSES(lks_recipe_evaluate_each(recipe, NULL, NULL, take_nothing, NULL));
    lks_fit fit;
    REFUSES(lks_recipe_fits(NULL, NULL, &sum, &fit));
    REFUSES(lks_recipe_fits(recipe, NULL, NULL, &fit));
    REFUSES(lks_recipe_fits(recipe, NULL, &sum, NULL));
    REFUSES(lks_recipe_check_samples(NULL, 1));
    LKT_OK(lks_recipe_check_samples(recipe, 1)); /* nothing is open */
    REFUSES(lks_recipe_predict(NULL, NULL, 1, take_nothing, NULL));
    REFUSES(lks_recipe_predict(recipe, NULL, 1, NULL, NULL));
    lks_recipe_close(recipe);
    lks_dataset_destroy(data);
}

static void of_tables(void **state)
{
    lks_recipe *recipe;
    lks_dataset *rows;
    (void)state;
    LKT_OK(lks_recipe_open_text(&recipe, "a", "model: {name: mlp}"));
    REFUSES(lks_recipe_open_table(&rows, recipe, NULL));
    REFUSES(lks_recipe_open_table(&rows, NULL, "t.csv"));
    REFUSES(lks_recipe_open_table(NULL, recipe, "t.csv"));
    lks_recipe_close(recipe);
}

static void of_shards(void **state)
{
    (void)state;
    lks_shards_result written;
    const lks_shards_opts nowhere = {.rows = 1};
    REFUSES(lks_shards_cut(NULL, NULL, "x", "y", &nowhere));
    REFUSES(lks_shards_cut(&written, NULL, NULL, "y", &nowhere));
    REFUSES(lks_shards_cut(&written, NULL, "x", NULL, &nowhere));
    REFUSES(lks_shards_cut(&written, NULL, "x", "y", NULL));
    REFUSES(lks_shards_cut(&written, NULL, "x", "y", &nowhere));
    REFUSES(lks_shards_draw(NULL, NULL, 1, &nowhere));
    REFUSES(lks_shards_draw(&written, NULL, 1, NULL));
    REFUSES(lks_shards_draw(&written, NULL, 1, &nowhere));
}

static void of_tools(void **state)
{
    lks_recipe *recipe;
    lks_dataset *other;
    lks_context *context;
    lks_graph *graph;
    lks_tensor *tensor;
    char *record, text[10];
    int64_t samples;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    LKT_OK(lks_recipe_open_text(&recipe, "a", "model: {name: mlp}"));
    REFUSES(lks_recipe_json(NULL, &record));
    REFUSES(lks_recipe_names(NULL, &record));
    REFUSES(lks_recipe_names("c.yaml", NULL));
    REFUSES(lks_recipe_json(recipe, NULL));
    assert_null(lks_recipe_weights(NULL));
    assert_null(lks_recipe_record_file(NULL));
    REFUSES(lks_recipe_save_record(NULL));
    LKT_FAILS(LKS_E_STATE, "neither log.record nor checkpoint.path is set",
              lks_recipe_save_record(recipe));
    lks_recipe_clock(NULL, 1, "start");
    lks_recipe_clock(recipe, 1, NULL);
    assert_false(lks_recipe_has(NULL, "train.steps"));
    assert_false(lks_recipe_has(recipe, NULL));
    assert_false(lks_recipe_given(NULL, "train.steps"));
    assert_false(lks_recipe_given(recipe, NULL));
    assert_int_equal(lks_recipe_int(NULL, "train.steps"), 0);
    assert_int_equal(lks_recipe_int(recipe, NULL), 0);
    assert_int_equal(lks_recipe_int(recipe, "optimizer.lr"), 0); /* which has another type */
    assert_true(lks_recipe_float(NULL, "optimizer.lr") == 0);
    assert_false(lks_recipe_bool(NULL, "log.quiet"));
    assert_null(lks_recipe_text(NULL, "data.name"));
    assert_null(lks_recipe_text(recipe, "data.nothing"));
    REFUSES(lks_recipe_option(NULL, "train.steps", "1", "--steps"));
    REFUSES(lks_recipe_option(recipe, NULL, "1", "--steps"));
    REFUSES(lks_recipe_option(recipe, "train.steps", NULL, "--steps"));
    REFUSES(lks_recipe_option(recipe, "train.steps", "1", NULL));
    REFUSES(lks_recipe_option(recipe, "train.nothing", "1", "--nothing"));
    REFUSES(lks_recipe_fail(NULL, "train.steps", "is wrong"));
    REFUSES(lks_recipe_fail(recipe, "train.steps", NULL));
    assert_null(lks_recipe_difference(NULL, recipe));
    assert_null(lks_recipe_difference(recipe, NULL));
    REFUSES(lks_recipe_name_data(NULL));
    assert_null(lks_recipe_folder(NULL));
    lks_loader_opts loader = {0};
    REFUSES(lks_recipe_augment(NULL, &loader));
    REFUSES(lks_recipe_augment(recipe, NULL));
    lks_shards_stats stats;
    REFUSES(lks_recipe_measure_shards(NULL, recipe, NULL, 0));
    REFUSES(lks_recipe_measure_shards(&stats, NULL, NULL, 0));
    REFUSES(lks_recipe_dataset(NULL, recipe, NULL, false));
    REFUSES(lks_recipe_dataset(&other, NULL, NULL, false));
    REFUSES(lks_folder_make(NULL));
    assert_string_equal(lks_text_number(NULL, 1), "");
    assert_string_equal(lks_text_count(NULL, 1), "");
    assert_string_equal(lks_shape_text(NULL, 10, &LKS_SHAPE(1)), "");
    assert_string_equal(lks_shape_text(text, sizeof text, NULL), "");
    assert_false(lks_shape_equal(NULL, &LKS_SHAPE(1)));
    assert_false(lks_shape_equal(&LKS_SHAPE(1), NULL));
    REFUSES(lks_recipe_open_like(recipe, NULL));
    REFUSES(lks_recipe_open_like(NULL, &(lks_dataset_info){0}));
    REFUSES(lks_recipe_line(NULL, &samples, recipe, graph, "relu in=1x2"));
    REFUSES(lks_recipe_line(&tensor, NULL, recipe, graph, "relu in=1x2"));
    REFUSES(lks_recipe_line(&tensor, &samples, NULL, graph, "relu in=1x2"));
    REFUSES(lks_recipe_line(&tensor, &samples, recipe, NULL, "relu in=1x2"));
    REFUSES(lks_recipe_line(&tensor, &samples, recipe, graph, NULL));
    lks_recipe_close(recipe);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

static void of_lists_and_lines(void **state)
{
    lks_context *context;
    lks_graph *graph;
    lks_option option;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_network_info network;
    assert_false(lks_network_get(NULL, NULL, 0));
    assert_false(lks_network_get(&network, NULL, -1));
    assert_false(lks_network_get(&network, NULL, 1000));
    assert_true(lks_network_get(&network, NULL, 0) && network.parameters == 0);
    assert_string_equal(lks_list_name(LKS_LIST_LAYERS, 0, NULL), "normalize");
    assert_null(lks_list_name(LKS_LIST_LAYERS, -1, NULL));
    assert_null(lks_list_name((lks_list)99, 0, NULL));
    assert_false(lks_list_option(LKS_LIST_LAYERS, 0, 0, NULL));
    assert_false(lks_list_option(LKS_LIST_LAYERS, 0, -1, &option));
    assert_false(lks_list_option(LKS_LIST_LAYERS, 1000, 0, &option));
    assert_null(lks_graph_line(NULL, NULL, "relu"));
    assert_null(lks_graph_line(graph, NULL, "relu"));
    REFUSES(lks_graph_status(graph));
    lks_graph_destroy(graph);
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(3)});
    assert_null(lks_graph_line(graph, x, NULL));
    REFUSES(lks_graph_status(graph));
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_recipes), cmocka_unit_test(of_tables),
                                       cmocka_unit_test(of_shards), cmocka_unit_test(of_tools),
                                       cmocka_unit_test(of_lists_and_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
