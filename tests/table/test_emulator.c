/* kosmoss' emulator (configs/emulator.yaml) beside PyTorch: normalised inputs, SiLU, MSE, AdamP; and its numbers of
 * parameters. */
#include "recipe/recipes.h"

#include <math.h>

#include <lockstep/tools.h>

#include "support/golden.h"

enum { INPUTS = 4128, OUTPUTS = 552, BATCH = 16, BATCHES = 4 };

static double unit(int64_t i, uint32_t stream)
{
    return (double)(lkt_hashed((uint32_t)i, stream) >> 8) * 0x1p-23 - 1;
}

/* The table that tools/goldens/emulator.py has in memory. */
static void write_columns(int64_t rows)
{
    FILE *file = fopen("columns.csv", "w");
    assert_non_null(file);
    for (int j = 0; j < INPUTS; j++) fprintf(file, "x%d,", j);
    for (int j = 0; j < OUTPUTS; j++) fprintf(file, "y%d%s", j, j < OUTPUTS - 1 ? "," : "\n");
    for (int64_t i = 0; i < rows; i++) {
        double x[INPUTS];
        for (int j = 0; j < INPUTS; j++) {
            x[j] = unit(i * INPUTS + j, 11) * (1 + j % 7) + j % 5;
            fprintf(file, "%.17g,", x[j]);
        }
        for (int j = 0; j < OUTPUTS; j++)
            fprintf(file, "%.17g%s", unit(i * OUTPUTS + j, 12) + x[j],
                    j < OUTPUTS - 1 ? "," : "\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* The configuration, with another data section. */
static void open_emulator(lks_recipe **recipe, double delta)
{
    enum { ROOM = 8 * OUTPUTS };
    static char text[ROOM + 4096];
    char projection[64];
    size_t used = (size_t)snprintf(text, sizeof text, "data: {table: columns.csv, targets: [");
    for (int j = 0; j < OUTPUTS; j++)
        used += (size_t)snprintf(text + used, sizeof text - used, "y%d%s", j,
                                 j < OUTPUTS - 1 ? "," : "]}\n");
    FILE *file = fopen(source("configs/emulator.yaml"), "r");
    assert_non_null(file);
    char *rest = text + used;
    rest[fread(rest, 1, sizeof text - used - 1, file)] = '\0';
    fclose(file);
    const char *model = strstr(rest, "model:");
    assert_non_null(model);
    memmove(rest, model, strlen(model) + 1);
    snprintf(projection, sizeof projection, "optimizer.delta=%g", delta);
    LKT_OK(lks_recipe_open_text(recipe, "emulator", text));
    LKT_OK(lks_recipe_set(*recipe, projection));
    LKT_OK(lks_recipe_set(*recipe, "validation.fraction=null"));
    LKT_OK(lks_recipe_resolve(*recipe));
    LKT_OK(lks_recipe_open_data(*recipe, LKS_RECIPE_TRAIN));
    LKT_OK(lks_recipe_compile(*recipe, 2));
}

/* The layers have as many parameters as the golden says. */
static void write_parameters(lks_model *model, const json_t *golden)
{
    const json_t *counts = json_object_get(golden, "parameters");
    int64_t all = 0;
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%u.%s", i / 2 + 1, i % 2 == 0 ? "weight" : "bias");
        lkt_golden_write(model, name, i + 1, i < 2 ? 1 / 64.0f : 0.125f, 0);
    }
    for (size_t i = 0; i < 4; i++) all += json_integer_value(json_array_get(counts, i));
    assert_int_equal(all, 488852);
    assert_int_equal(lks_model_get_info(model).parameters, all);
}

/* Each loss may be 8 times as far from PyTorch's float64 as its own float32 is, and 2^-20 more, where that has been
 * lucky: far within the 1e-4 that two implementations may differ by. */
static void compare_run(const json_t *golden, const json_t *run)
{
    static float x[BATCH * INPUTS], y[BATCH * OUTPUTS];
    const json_t *losses = json_object_get(run, "losses"),
                 *errors = json_object_get(run, "f32_loss_errors");
    const double delta = lkt_json_number(run, "delta");
    lks_recipe *recipe;
    open_emulator(&recipe, delta);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    write_parameters(parts.model, golden);
    assert_int_equal(json_array_size(losses), 50);
    for (size_t step = 0; step < json_array_size(losses); step++) {
        const lks_batch part = {.x = x, .y = y, .count = BATCH};
        lks_metrics metrics;
        for (int64_t i = 0; i < BATCH; i++)
            LKT_OK(lks_dataset_read(parts.train, (int64_t)(step % BATCHES) * BATCH + i,
                                    x + i * INPUTS, y + i * OUTPUTS));
        LKT_OK(lks_model_step(parts.model, &part, lkt_json_number(golden, "rate"), &metrics));
        const double expected = json_number_value(json_array_get(losses, step));
        const double bound = 8 * json_number_value(json_array_get(errors, step)) + 0x1p-20;
        assert_true(bound < 1e-4 * expected);
        if (!(fabs(lks_metrics_loss(&metrics) - expected) <= bound))
            fail_msg("delta %g, step %zu: loss %.9g, PyTorch %.9g +- %.2g", delta, step,
                     lks_metrics_loss(&metrics), expected, bound);
    }
    lks_recipe_close(recipe);
}

static void losses_are_those_of_pytorch(void **state)
{
    (void)state;
    json_t *golden = lkt_json_load("tests/table/golden/emulator.json");
    const json_t *runs = json_object_get(golden, "runs");
    assert_int_equal(lkt_json_integer(golden, "batch"), BATCH);
    assert_int_equal(json_array_size(runs), 2);
    write_columns(lkt_json_integer(golden, "rows"));
    for (size_t i = 0; i < 2; i++) compare_run(golden, json_array_get(runs, i));
    json_decref(golden);
}

/* The table is that of kosmoss' log: 488 K, 1.955 MB. */
static void it_begins_as_kosmoss_does(void **state)
{
    (void)state;
    static const char head[] = "Global seed set to 42\n"
                               "GPU available: False, used: False\n"
                               "initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1\n"
                               "\n"
                               "  | Name      | Type      | Params\n"
                               "----------------------------------\n"
                               "0 | normalize | Normalize | 0     \n"
                               "1 | fc1       | Linear    | 412 K \n"
                               "2 | silu_1    | SiLU      | 0     \n"
                               "3 | fc2       | Linear    | 10.1 K\n"
                               "4 | silu_2    | SiLU      | 0     \n"
                               "5 | fc3       | Linear    | 10.1 K\n"
                               "6 | silu_3    | SiLU      | 0     \n"
                               "7 | fc4       | Linear    | 55.8 K\n"
                               "----------------------------------\n"
                               "488 K     Trainable params\n"
                               "0         Non-trainable params\n"
                               "488 K     Total params\n"
                               "1.955     Total estimated model params size (MB)\n"
                               "\n"
                               "Train set size: 512\n"
                               "Validation set size: 64\n"
                               "Test set size: 64\n";
    run("data columns --rows 640 --out columns");
    expect_ok();
    run("train '%s' --workers 1 --format lightning", source("configs/emulator.yaml"));
    expect_ok();
    assert_memory_equal(last.out, head, strlen(head));
    expect_out("Test set: Average loss: ");
    run("train '%s' --workers 1 --format lightning --steps 1 --set data.standardize=false --set "
        "'model.freeze=[fc1.*]'",
        source("configs/emulator.yaml"));
    expect_ok();
    expect_out("\n0 | fc1    | Linear | 412 K \n");
    expect_out("\n76.0 K    Trainable params\n412 K     Non-trainable params\n488 K     Total");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_pytorch),
        cmocka_unit_test(it_begins_as_kosmoss_does),
    };
    return cmocka_run_group_tests_name("emulator", tests, set_up, tear_down);
}
