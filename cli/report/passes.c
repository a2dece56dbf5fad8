#include "cli/report/passes.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <lockstep/layers.h>
#include <lockstep/tools.h>

#include "cli/out/say.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/pool.h"
#include "cli/process.h"

enum { PASSES = 3, LEAST = 10, MOST = 10000000 };
static const char *const pass_names[PASSES] = {"forward", "backward input", "backward params"};
static const char *const pass_keys[PASSES] = {"forward_ms", "backward_input_ms",
                                              "backward_params_ms"};

typedef struct passes {
    lks_model *model;
    lks_batch batch;
    const float *
        ones; /* the gradient of the outputs; NULL: it begins at the loss, which reads more than them */
    double milliseconds[PASSES];
    int64_t warmup, calls; /* of each; of those that are timed, the least of the three */
    int layers;            /* 0: nobody asks for them */
    double *of_layer;      /* [layers][PASSES]: milliseconds */
} passes;

static lks_status run_pass(const passes *p, int pass)
{
    switch (pass) {
    case 0:
        return lks_model_forward(p->model, &p->batch, true, NULL);
    case 1:
        return lks_model_backward_input(p->model, p->ones);
    default: {
        const lks_status status = lks_model_zero_gradients(p->model);
        return status == LKS_OK ? lks_model_backward_params(p->model) : status;
    }
    }
}

/* Seconds of so many calls of a pass. */
static lks_status time_calls(const passes *p, int pass, int64_t count, double *seconds)
{
    lks_status status = LKS_OK;
    const double begin = process_clock();
    for (int64_t i = 0; i < count && status == LKS_OK; i++) status = run_pass(p, pass);
    *seconds = process_clock() - begin;
    return status;
}

/* `calls` of each, or as many as fit in a third of the time, in this order, as the later ones read what the earlier leave. */
static lks_status time_all(passes *p, const passes_extent *extent)
{
    lks_status status = LKS_OK;
    double taken;
    p->warmup = extent->warmup;
    for (int64_t i = 0; i < extent->warmup && status == LKS_OK; i++)
        for (int pass = 0; pass < PASSES && status == LKS_OK; pass++)
            status = time_calls(p, pass, 1, &taken);
    for (int pass = 0; pass < PASSES && status == LKS_OK; pass++) {
        int64_t count = extent->calls;
        if (count == 0) {
            status = time_calls(p, pass, LEAST, &taken);
            if (status != LKS_OK) return status;
            const double fit = extent->seconds / PASSES / (taken / LEAST);
            count = fit < LEAST ? LEAST : fit > MOST ? MOST : (int64_t)fit;
        }
        status = time_calls(p, pass, count, &taken);
        p->calls = p->calls == 0 || count < p->calls ? count : p->calls;
        p->milliseconds[pass] = 1e3 * taken / (double)count;
    }
    return status;
}

/* The same once more, as laps take time of their own. */
static lks_status time_layers(passes *p, cli_pool *pool)
{
    lks_status status = LKS_OK;
    double taken;
    p->layers = lks_model_stages(p->model);
    p->of_layer = pool_alloc(pool, (size_t)(p->layers * PASSES) * sizeof *p->of_layer);
    memset(p->of_layer, 0, (size_t)(p->layers * PASSES) * sizeof *p->of_layer);
    for (int pass = 0; pass < PASSES && status == LKS_OK; pass++) {
        status = lks_profile_start(p->model);
        if (status == LKS_OK) status = time_calls(p, pass, p->calls, &taken);
        lks_profile_stop(p->model);
        for (int r = 0; r < lks_profile_total(p->model).rows; r++) {
            const lks_profile_row row = lks_profile_get(p->model, r);
            if (row.stage >= 0)
                p->of_layer[row.stage * PASSES + pass] += 1e3 * row.seconds / (double)p->calls;
        }
    }
    return status;
}

static const char *layer_name(const passes *p, int layer)
{
    return lks_tensor_name(lks_model_stage_layer(p->model, layer, 0));
}

static void print_layers(const passes *p, cli_pool *pool)
{
    enum { COLUMNS = 1 + PASSES };
    const char *title[COLUMNS] = {"layer, ms", "forward", "backward input", "backward params"};
    const bool right[COLUMNS] = {false, true, true, true};
    const char **cell = pool_alloc(pool, (size_t)(p->layers * COLUMNS) * sizeof *cell);
    for (int l = 0; l < p->layers; l++) {
        cell[l * COLUMNS] = layer_name(p, l);
        for (int pass = 0; pass < PASSES; pass++)
            cell[l * COLUMNS + 1 + pass] = pool_format(pool, "%.6f",
                                                       p->of_layer[l * PASSES + pass]);
    }
    say("%s", "");
    table_print(&(cli_table){p->layers, COLUMNS, title, cell, right}, say_columns());
}

static json_t *layers_json(const passes *p)
{
    json_t *list = json_array();
    for (int l = 0; l < p->layers; l++) {
        json_t *layer = json_object();
        json_object_set_new(layer, "layer", json_string(layer_name(p, l)));
        for (int pass = 0; pass < PASSES; pass++)
            json_object_set_new(layer, pass_keys[pass], json_real(p->of_layer[l * PASSES + pass]));
        json_array_append_new(list, layer);
    }
    return list;
}

static void print_passes(const passes *p, cli_pool *pool, bool as_json)
{
    double total = 0;
    json_t *json = json_object();
    for (int pass = 0; pass < PASSES; pass++) {
        total += p->milliseconds[pass];
        json_object_set_new(json, pass_keys[pass], json_real(p->milliseconds[pass]));
        if (!as_json) say("Average %s pass time: %f ms", pass_names[pass], p->milliseconds[pass]);
    }
    json_object_set_new(json, "total_ms", json_real(total));
    json_object_set_new(json, "warmup", json_integer((json_int_t)p->warmup));
    json_object_set_new(json, "calls", json_integer((json_int_t)p->calls));
    if (p->layers > 0) json_object_set_new(json, "layers", layers_json(p));
    if (as_json) {
        text_say_json(json, 0);
    } else {
        say("Total time: %f ms", total);
        if (p->layers > 0) print_layers(p, pool);
    }
    json_decref(json);
}

/* The same network once more, layer by layer. */
static lks_status compile_apart(passes *p, const lks_recipe_parts *parts)
{
    const lks_model_opts opts = {.loss = parts->loss,
                                 .output = parts->output,
                                 .global_batch = lks_model_get_info(parts->model).global_batch,
                                 .layers = true};
    return lks_model_compile(&p->model, parts->graph, &opts);
}

static lks_status measure(passes *p, const lks_recipe_parts *parts, float **ones,
                          const passes_extent *extent)
{
    const lks_shape shape = lks_tensor_shape(parts->output);
    const int64_t elements = p->batch.count * lks_shape_elements(&shape);
    lks_status status = compile_apart(p, parts);
    if (status != LKS_OK) return status;
    *ones = malloc((size_t)elements * sizeof **ones);
    if (*ones == NULL) return lks_fail(LKS_E_NOMEM, "no memory for the gradient of the outputs");
    for (int64_t i = 0; i < elements; i++) (*ones)[i] = 1;
    p->ones = *ones;
    status = lks_model_forward(p->model, &p->batch, true, NULL);
    if (status == LKS_OK) status = lks_model_backward_input(p->model, p->ones);
    if (status == LKS_E_UNSUPPORTED) {
        p->ones = NULL;
        status = LKS_OK;
    }
    return status == LKS_OK ? time_all(p, extent) : status;
}

lks_status passes_measure(lks_recipe *recipe, const passes_extent *extent, bool as_json)
{
    passes p = {.model = NULL};
    cli_pool pool = {0};
    float *ones = NULL;
    lks_loader *loader = NULL;
    lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (lks_comm_size(parts.comm) > 1)
        return lks_fail(LKS_E_UNSUPPORTED, "--passes measures one process, and there are %d",
                        lks_comm_size(parts.comm));
    lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 1);
    parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK) status = lks_recipe_loader(&loader, recipe, parts.train, true);
    if (status == LKS_OK) status = lks_loader_next(loader, &p.batch);
    if (status == LKS_OK) status = measure(&p, &parts, &ones, extent);
    if (status == LKS_OK && extent->by_layer) status = time_layers(&p, &pool);
    if (status == LKS_OK) print_passes(&p, &pool, as_json);
    lks_model_destroy(p.model);
    lks_loader_destroy(loader);
    free(ones);
    pool_clear(&pool);
    return status;
}
