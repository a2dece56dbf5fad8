#include "cli/report/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

enum { RULE = 100, TYPE = 40 };

typedef struct row {
    const char *name, *type;
    int64_t parameters;
} row;

const char *summary_count(cli_pool *pool, int64_t count)
{
    static const char *const units[] = {" K", " M", " B", " T"};
    double value = (double)count;
    int unit = -1;
    for (; value >= 1000 && unit < 3; unit++) value /= 1000;
    if (unit < 0) return pool_format(pool, "%" PRId64, count);
    return value >= 100 ? pool_format(pool, "%" PRId64 "%s", (int64_t)value, units[unit])
                        : pool_format(pool, "%.1f%s", value, units[unit]);
}

/* PyTorch's name of an operation, where it has one. */
static const char *type_of(cli_pool *pool, const lks_tensor *layer)
{
    static const char *const names[][2] = {
        {"dense", "Linear"},
        {"conv2d", "Conv2d"},
        {"silu", "SiLU"},
        {"relu", "ReLU"},
        {"batch_norm", "BatchNorm2d"},
        {"max_pool", "MaxPool2d"},
        {"flatten", "Flatten"},
        {"dropout", "Dropout"},
        {"gelu", "GELU"},
        {"layer_norm", "LayerNorm"},
        {"avg_pool", "AvgPool2d"},
        {"tanh", "Tanh"},
        {"log_softmax", "LogSoftmax"},
        {"normalize", "Normalize"},
    };
    char line[LKS_LINE_SIZE];
    lks_tensor_line(layer, 0, line, sizeof line);
    line[strcspn(line, " ")] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(line, names[i][0]) == 0) return names[i][1];
    return pool_format(pool, "%.*s", TYPE, line);
}

/* Those called "<layer>.weight" and so on. */
static int64_t parameters_of(const lks_model *model, const char *layer)
{
    const size_t length = strlen(layer);
    int64_t sum = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind == LKS_PARAMETER && strncmp(info.name, layer, length) == 0 &&
            info.name[length] == '.' && strchr(info.name + length + 1, '.') == NULL)
            sum += lks_shape_elements(&info.shape);
    }
    return sum;
}

static bool is_loss(const lks_tensor *layer)
{
    char line[LKS_LINE_SIZE];
    lks_tensor_line(layer, 0, line, sizeof line);
    line[strcspn(line, " ")] = '\0';
    return strcmp(line, "target") == 0 || strcmp(line, "mse") == 0 || strcmp(line, "nll") == 0 ||
           strcmp(line, "cross_entropy") == 0;
}

/* Standardisation of tables and shards is a layer there, which learns nothing. */
static row *list_layers(int *count, cli_pool *pool, const lks_recipe *recipe,
                        const lks_model *model)
{
    int room = 1;
    const lks_tensor *layer;
    for (int s = 0; s < lks_model_stages(model); s++)
        for (int i = 0; lks_model_stage_layer(model, s, i) != NULL; i++) room++;
    row *rows = pool_alloc(pool, (size_t)room * sizeof *rows);
    *count = 0;
    if (lks_recipe_bool(recipe, "data.standardize") &&
        (lks_recipe_text(recipe, "data.table") != NULL ||
         lks_recipe_text(recipe, "data.shards") != NULL))
        rows[(*count)++] = (row){"normalize", "Normalize", 0};
    for (int s = 0; s < lks_model_stages(model); s++)
        for (int i = 0; (layer = lks_model_stage_layer(model, s, i)) != NULL; i++) {
            if (is_loss(layer)) continue;
            const char *name = text_clean(pool, lks_tensor_name(layer));
            rows[(*count)++] = (row){name, type_of(pool, layer), parameters_of(model, name)};
        }
    return rows;
}

static void say_rule(cli_pool *pool, int width)
{
    char *rule = pool_format(pool, "%*s", width, "");
    memset(rule, '-', (size_t)width);
    say("%s", rule);
}

static void print_layers(cli_pool *pool, const lks_recipe *recipe, const lks_model *model)
{
    enum { NUMBER = 6 };
    int count, digits = 1, names = 4, types = 4;
    const row *rows = list_layers(&count, pool, recipe, model);
    const lks_model_info info = lks_model_get_info(model);
    for (int i = count - 1; i >= 10; i /= 10) digits++;
    for (int i = 0; i < count; i++) {
        if ((int)strlen(rows[i].name) > names) names = (int)strlen(rows[i].name);
        if ((int)strlen(rows[i].type) > types) types = (int)strlen(rows[i].type);
    }
    const int width = digits + names + types + NUMBER + 9;
    say("\n%*s | %-*s | %-*s | Params", digits, "", names, "Name", types, "Type");
    say_rule(pool, width);
    for (int i = 0; i < count; i++)
        say("%-*d | %-*s | %-*s | %-*s", digits, i, names, rows[i].name, types, rows[i].type,
            NUMBER, summary_count(pool, rows[i].parameters));
    say_rule(pool, width);
    say("%-9s Trainable params", summary_count(pool, info.parameters - info.frozen));
    say("%-9s Non-trainable params", summary_count(pool, info.frozen));
    say("%-9s Total params", summary_count(pool, info.parameters));
    say("%-9s Total estimated model params size (MB)\n",
        pool_format(pool, "%.3f", (double)info.parameters * sizeof(float) / 1e6));
}

void summary_print(cli_pool *pool, const lks_recipe *recipe, const lks_recipe_parts *parts)
{
    const int size = lks_comm_size(parts->comm);
    say("Global seed set to %" PRId64, lks_recipe_int(recipe, "train.seed"));
    say("GPU available: False, used: False");
    for (int i = 0; i < size; i++)
        say("initializing distributed: GLOBAL_RANK: %d, MEMBER: %d/%d", i, i + 1, size);
    if (size > 1) {
        say_rule(pool, RULE);
        say("distributed_backend=%s", lks_comm_library(parts->comm));
        say("All distributed processes registered. Starting with %d processes", size);
        say_rule(pool, RULE);
    }
    print_layers(pool, recipe, parts->model);
}
