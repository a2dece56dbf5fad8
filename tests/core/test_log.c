/* LKS_LOG in the environment: more lines for the program's log, none where it has no log. */
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "support/test.h"

typedef struct lines {
    int count[3]; /* of each level */
} lines;

static void keep_line(void *user, lks_log_level level, const char *line)
{
    lines *kept = user;
    assert_null(strchr(line, '\n'));
    kept->count[level]++;
}

/* How many lines of each level a context and a small model's compilation bring. */
static lines lines_of(const char *asked, lks_log_level level)
{
    lines kept = {0};
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    if (asked != NULL) setenv("LKS_LOG", asked, 1);
    LKT_OK(lks_context_create(
        &context, &(lks_context_opts){
                      .device = "ref", .log = keep_line, .log_user = &kept, .log_level = level}));
    unsetenv("LKS_LOG");
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(4)});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = 3});
    x = lks_dense(graph, x, &(lks_dense_opts){.units = 3});
    LKT_OK(lks_model_compile(
        &model, graph,
        &(lks_model_opts){.loss = lks_cross_entropy(graph, x, y, NULL), .global_batch = 2}));
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return kept;
}

static void the_environment_asks_for_more(void **state)
{
    (void)state;
    const lines none = lines_of(NULL, LKS_LOG_WARN), all = lines_of(NULL, LKS_LOG_DEBUG);
    assert_int_equal(none.count[LKS_LOG_DEBUG], 0);
    assert_true(all.count[LKS_LOG_DEBUG] >= 3); /* the context, the kernels, the time */
    static const struct {
        const char *asked;
        lks_log_level level;
        int debug;
    } cases[] = {{"debug", LKS_LOG_WARN, 1},  {"info", LKS_LOG_WARN, 0},
                 {"warn", LKS_LOG_WARN, 0},   {"warn", LKS_LOG_DEBUG, 1},
                 {"debug", LKS_LOG_DEBUG, 1}, {"info", LKS_LOG_INFO, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lines kept = lines_of(cases[i].asked, cases[i].level);
        assert_int_equal(kept.count[LKS_LOG_DEBUG], cases[i].debug ? all.count[LKS_LOG_DEBUG] : 0);
    }
}

static void a_level_that_is_none_is_refused(void **state)
{
    (void)state;
    lines kept = {0};
    lks_context *context;
    const lks_context_opts logs = {.log = keep_line, .log_user = &kept};
    static const char *const none[] = {"", "DEBUG", "debug ", "2"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        setenv("LKS_LOG", none[i], 1);
        LKT_FAILS(LKS_E_INVALID, "expected warn, info or debug",
                  lks_context_create(&context, &logs));
        LKT_OK(lks_context_create(&context, NULL)); /* nobody reads */
        lks_context_destroy(context);
    }
    unsetenv("LKS_LOG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_asks_for_more),
        cmocka_unit_test(a_level_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
