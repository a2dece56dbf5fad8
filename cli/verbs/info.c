/* lockstep info */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/out/output.h"
#include "cli/out/sheet.h"
#include "cli/verbs/checkpoint_path.h"
#include "cli/verbs/filters.h"

static void print_line(void *user, const char *line)
{
    (void)user;
    say("%s", line);
}

static lks_status info_model(const cli_args *cli, lks_recipe *recipe)
{
    lks_status status = lks_recipe_compile(recipe, 0);
    const lks_model *model = lks_recipe_get_parts(recipe).model;
    if (status == LKS_OK) status = lks_model_describe(model, LKS_DESCRIBE_LAYERS, print_line, NULL);
    if (status == LKS_OK && cli->local[LOCAL_PLAN] != NULL) {
        say("%s", "");
        status = lks_model_describe(model, LKS_DESCRIBE_PLAN, print_line, NULL);
    }
    if (status == LKS_OK && cli->local[LOCAL_MEMORY] != NULL) {
        say("%s", "");
        status = lks_model_describe(model, LKS_DESCRIBE_MEMORY, print_line, NULL);
    }
    return status;
}

static lks_status info_config(const cli_args *cli, lks_recipe *recipe, int *code)
{
    (void)code;
    if (cli->local[LOCAL_SHAPE] != NULL)
        return lks_fail(LKS_E_INVALID,
                        "--shape is for networks by name (lockstep info --models); the data of a "
                        "configuration says what shape its images have");
    const lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_SHAPE);
    return status == LKS_OK ? info_model(cli, recipe) : status;
}

enum {
    SMALL_SIDE = 64,
    SMALL_CLASSES = 10
}; /* of images for which networks have a form of their own */

/* The data that a network by name is shown for. */
static lks_status like_of(lks_dataset_info *out, const cli_args *cli,
                          const lks_network_info *network)
{
    const char *text = cli->local[LOCAL_SHAPE];
    int64_t *dim = out->shape.dim;
    int used = 0;
    *out = (lks_dataset_info){.shape = network->image, .classes = network->classes};
    if (network->vocabulary > 0) {
        out->dtype = LKS_I32;
        out->vocabulary = network->vocabulary;
    }
    if (network->by_position) out->target_shape = network->image;
    if (text == NULL) return LKS_OK;
    if (network->vocabulary > 0)
        return lks_fail(LKS_E_INVALID, "--shape is for images, and %s takes tokens; drop it",
                        network->name);
    if (sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%n", &dim[0], &dim[1], &dim[2], &used) !=
            3 ||
        text[used] != '\0' || dim[0] < 1 || dim[1] < 1 || dim[2] < 1)
        return lks_fail(
            LKS_E_INVALID,
            "--shape is '%.60s', expected height, width and channels, such as 224x224x3", text);
    if (dim[0] <= SMALL_SIDE && dim[1] <= SMALL_SIDE) out->classes = SMALL_CLASSES;
    return LKS_OK;
}

/* One sample at a time, unless options say otherwise: nothing is trained. */
static lks_status info_network(const cli_args *cli, const lks_network_info *network)
{
    lks_recipe *recipe;
    const char *yaml;
    lks_dataset_info like;
    lks_status status = like_of(&like, cli, network);
    if (status != LKS_OK) return status;
    status = cli_configure(&recipe, cli, NULL);
    if (status != LKS_OK) return status;
    status = lks_recipe_option(recipe, "model.name", network->name, "info");
    if (status == LKS_OK && !lks_recipe_given(recipe, "train.replicas"))
        status = lks_recipe_option(recipe, "train.replicas", "1", "info");
    if (status == LKS_OK && !lks_recipe_given(recipe, "train.batch_size"))
        status = lks_recipe_option(recipe, "train.batch_size",
                                   lks_recipe_value(recipe, "train.replicas"), "info");
    if (status == LKS_OK && cli->local[LOCAL_PRINT_CONFIG] != NULL) {
        status = lks_recipe_yaml(recipe, &yaml);
        if (status == LKS_OK) fputs(yaml, stdout);
    } else {
        if (status == LKS_OK) status = lks_recipe_open_like(recipe, &like);
        if (status == LKS_OK) status = info_model(cli, recipe);
    }
    lks_recipe_close(recipe);
    return status;
}

static lks_status info_models(void)
{
    lks_context *context;
    lks_network_info network;
    const lks_status status = lks_context_create(&context, &say_logged);
    if (status != LKS_OK) return status;
    say("%-18s  %-9s  %7s  %11s  %s", "name", "images", "outputs", "parameters", "what");
    for (int i = 0; lks_network_get(&network, context, i); i++) {
        char shape[64], parameters[32];
        lks_shape_text(shape, sizeof shape, &network.image);
        say("%-18s  %-9s  %7" PRId64 "  %11s  %s", network.name, shape, network.classes,
            lks_text_count(parameters, network.parameters), network.what);
    }
    lks_context_destroy(context);
    return LKS_OK;
}

static bool is_network(lks_network_info *out, const char *name)
{
    for (int i = 0; lks_network_get(out, NULL, i); i++)
        if (strcmp(out->name, name) == 0) return access(name, F_OK) != 0;
    return false;
}

/* What is no file is a name that was mistyped, unless it looks like a path. */
static bool is_mistyped(const char *name)
{
    return access(name, F_OK) != 0 && errno == ENOENT && strpbrk(name, "/#.") == NULL;
}

static lks_status fail_name(cli_pool *pool, const char *name)
{
    lks_network_info network;
    char *small = pool_format(pool, "%s", name); /* ResNet50 is what papers call it */
    for (char *c = small; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    lki_nearest near = {.word = small};
    for (int i = 0; lks_network_get(&network, NULL, i); i++) lki_nearest_offer(&near, network.name);
    return lks_fail(LKS_E_IO,
                    "'%.100s' is neither a file nor the name of a network%s%s; 'lockstep info "
                    "--models' lists networks",
                    name, near.best != NULL ? ", of which the nearest is " : "",
                    near.best != NULL ? near.best : "");
}

/* Columns of the longest name, in which most are of one width whatever the file. */
static int name_width(cli_pool *pool, const lks_tensor_file *file)
{
    int width = 44;
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const int length = text_length(text_clean(pool, lks_tensor_file_entry(file, i).name));
        if (length > width) width = length;
    }
    return width;
}

static lks_status print_tensors(const cli_args *cli, lks_context *context, const char *path)
{
    lks_tensor_file *file;
    const lks_status status = lks_tensor_file_open(&file, context, path);
    if (status != LKS_OK) return status;
    int64_t elements = 0;
    cli_pool pool = {0};
    const int width = name_width(&pool, file);
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        char shape[LKS_MAX_DIMS * 24] = "";
        for (int d = 0; d < entry.shape.ndim; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "[%" PRId64 "]",
                     entry.shape.dim[d]);
        const char *name = text_clean(&pool, entry.name);
        say("%s%*s %-4s %s", name, text_gap(name, width), "", lks_dtype_name(entry.dtype), shape);
        elements += lks_shape_elements(&entry.shape);
    }
    const int tensors = lks_tensor_file_count(file);
    say("%d tensor%s, %" PRId64 " number%s", tensors, TEXT_S(tensors), elements, TEXT_S(elements));
    lks_tensor_file_close(file);
    pool_clear(&pool);
    const char *picture = cli->local[LOCAL_FILTERS];
    return picture != NULL ? filters_write(context, path, picture) : LKS_OK;
}

/* "0.123456" and "97.12", "-" where there was no evaluation. */
static void evaluation_text(char loss[32], char share[32], const lks_metrics *metrics)
{
    snprintf(loss, 32, "-");
    snprintf(share, 32, "-");
    if (metrics->samples == 0) return;
    snprintf(loss, 32, "%.6f", lks_metrics_loss(metrics));
    snprintf(share, 32, "%.2f", 100.0 * (double)metrics->correct / (double)metrics->counted);
}

static void info_print_history(const lks_run *run)
{
    bool valid = false;
    for (int64_t i = 0; i < run->epochs; i++) valid |= run->history[i].valid.samples > 0;
    if (run->epochs > 0)
        say("\nepoch  train loss%s   test loss  test %%        lr  seconds",
            valid ? "  valid loss  valid %" : "");
    for (int64_t i = 0; i < run->epochs; i++) {
        const lks_epoch *e = &run->history[i];
        char loss[32], share[32], held[80] = "";
        evaluation_text(loss, share, &e->valid);
        if (valid) snprintf(held, sizeof held, "  %10s  %7s", loss, share);
        evaluation_text(loss, share, &e->test);
        say("%5" PRId64 "  %10.6f%s  %10s  %6s  %8.4g  %7.2f", e->epoch,
            lks_metrics_loss(&e->train), held, loss, share, e->learning_rate, e->seconds);
    }
}

/* The hash after the checkpoint's step: a model as it was configured then, with its state. */
static lks_status find_hash(uint64_t *hash, const lks_run *run, const checkpoint_path *found)
{
    lks_recipe *recipe;
    lks_run same = {0};
    if (run->config == NULL) return lks_fail(LKS_E_STATE, "the checkpoint has no configuration");
    lks_status status = lks_recipe_open_text(&recipe, found->folder, run->config);
    lks_recipe_log(recipe, say_log, NULL);
    if (status == LKS_OK) /* that one said more of itself is nothing of this command */
        status = lks_recipe_option(recipe, "log.verbose", "false", "info");
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_SHAPE);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 1);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK)
        status = lks_checkpoint_load(parts.context, parts.model, &same, found->folder, found->step);
    if (status == LKS_OK) status = lks_model_hash(parts.model, hash);
    lks_run_clear(&same);
    lks_recipe_close(recipe);
    return status;
}

static void print_run(const lks_run *run, const checkpoint_path *found)
{
    char number[TEXT_NUMBER_SIZE];
    cli_pool pool = {0};
    uint64_t hash;
    say("checkpoint    %s, step %" PRId64 "%s", found->folder, run->progress.step,
        run->finished ? " (finished)" : "");
    if (find_hash(&hash, run, found) == LKS_OK)
        say("hash          %016" PRIx64, hash);
    else
        say("hash          not known: %s", lks_last_error()->message);
    say("numerics      version %d", run->numerics);
    say("link          %016" PRIx64, run->progress.link);
    say("seed          %" PRIu64, run->seed);
    say("batch size    %" PRId64, run->global_batch);
    say("replicas      %d", run->replicas);
    if (run->law != NULL) say("bits of       %s", text_clean(&pool, run->law));
    say("data hash     %016" PRIx64, run->data_hash);
    printf("device        ");
    const char *device = run->fingerprint != NULL ? run->fingerprint : "not known";
    text_print_wrapped(stdout, text_clean(&pool, device), 14, 14, say_columns());
    if (isfinite(run->best_loss))
        say("best loss     %s, step %" PRId64, lks_text_number(number, run->best_loss),
            run->best_step);
    info_print_history(run);
    json_t *config = run->config != NULL ? json_loads(run->config, 0, NULL) : NULL;
    if (config != NULL) {
        say("\nconfiguration");
        const char *section;
        json_t *keys;
        json_object_foreach(config, section, keys)
        {
            const int used = printf("  %s: ", text_clean(&pool, section));
            const char *yaml = text_clean(&pool, text_yaml(&pool, keys));
            text_print_wrapped(stdout, yaml, used, 4, say_columns());
        }
    }
    json_decref(config);
    pool_clear(&pool);
}

static lks_status info_checkpoint(const cli_args *cli, lks_context *context, const char *path)
{
    cli_pool pool = {0};
    checkpoint_path found;
    lks_run run = {0};
    lks_status status = checkpoint_resolve(&found, &pool, path);
    if (status == LKS_OK) {
        status = lks_checkpoint_load(context, NULL, &run, found.folder, found.step);
        if (status == LKS_OK) {
            print_run(&run, &found);
            lks_run_clear(&run);
            say("%s", "");
            status = lks_checkpoint_check(context, found.folder, found.step);
            if (status == LKS_OK) status = print_tensors(cli, context, found.tensors);
        }
    }
    pool_clear(&pool);
    return status;
}

lks_status verb_info(const cli_args *cli, int *code)
{
    lks_network_info network;
    if (cli->local[LOCAL_MODELS] != NULL) return info_models();
    if (cli->operands == 0)
        return lks_fail(LKS_E_INVALID,
                        "info takes CONFIG|NETWORK|CHECKPOINT, found 0 operands (lockstep info "
                        "--help; info --models lists networks)");
    const char *path = cli->operand[0];
    const checkpoint_kind kind = checkpoint_kind_of(path);
    const char *picture = cli->local[LOCAL_FILTERS];
    lks_status status = sheet_check_name("--filters", picture);
    if (status == LKS_OK) status = output_check(cli, NULL, "--filters", picture, false);
    if (status == LKS_OK && kind == PATH_OTHER && picture != NULL)
        status = lks_fail(LKS_E_INVALID, "--filters draws what is saved: give a folder of "
                                         "checkpoints, or a checkpoint's or a safetensors file");
    if (status != LKS_OK) return status;
    if (kind == PATH_OTHER && is_network(&network, path)) return info_network(cli, &network);
    if (kind == PATH_OTHER && is_mistyped(path)) return fail_name(cli->pool, path);
    if (kind == PATH_OTHER) return cli_with_recipe(cli, code, NULL, info_config);
    lks_context *context;
    status = lks_context_create(&context, &say_logged);
    if (status == LKS_OK)
        status = kind == PATH_TENSORS ? print_tensors(cli, context, path)
                                      : info_checkpoint(cli, context, path);
    lks_context_destroy(context);
    return status;
}
