/* Compile a model: check the question, compile the program, make parameters and workers. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "comm/comm.h"
#include "model/model.h"
#include "numeric/tree.h"

enum { DEFAULT_REPLICAS = 8, DEFAULT_HASH_EVERY = 100, MAX_REPLICAS = 1 << 16 };
static const double LEAST_WEIGHT = 1e-6, LEAST_WORK = 1 << 20;

static lks_status compile_check_counts(const lks_model_opts *opts)
{
    if (opts->global_batch < 1 || opts->global_batch > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID, "global_batch is %lld, expected 1 to %d",
                        (long long)opts->global_batch, INT32_MAX);
    if (opts->replicas < 1 || opts->accumulate < 1 ||
        (int64_t)opts->replicas * opts->accumulate > MAX_REPLICAS)
        return LKI_FAIL(LKS_E_INVALID,
                        "replicas is %d and accumulate %d, expected both at least 1 and their "
                        "product at most %d",
                        opts->replicas, opts->accumulate, MAX_REPLICAS);
    if (opts->hash_every < 1)
        return LKI_FAIL(LKS_E_INVALID, "hash_every is %d, expected at least 1", opts->hash_every);
    return LKS_OK;
}

/* Members of enums, which C lets have any value. */
static lks_status check_choices(const lks_model_opts *o)
{
    const struct {
        const char *name, *type;
        int value, last;
    } choices[] = {{"decay_of", "lks_decay", (int)o->decay_of, LKS_DECAY_WEIGHTS},
                   {"balance", "lks_balance", (int)o->balance, LKS_BALANCE_AUTO},
                   {"exchange", "lks_exchange", (int)o->exchange, LKS_EXCHANGE_NONE},
                   {"reduction", "lks_reduction", (int)o->reduction, LKS_REDUCTION_LIBRARY},
                   {"shard", "lks_shard", (int)o->shard, LKS_SHARD_OFF},
                   {"kernels.winograd", "lks_winograd", (int)o->kernels.winograd, LKS_WINOGRAD_F4}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value < 0 || choices[i].value > choices[i].last)
            return LKI_FAIL(LKS_E_INVALID, "%s is %d, expected one of %s, which are 0 to %d",
                            choices[i].name, choices[i].value, choices[i].type, choices[i].last);
    return LKS_OK;
}

/* What a step does, in its forward pass alone: multiply-adds, numbers that are written, parameters that are read. */
static double work_of(const lks_graph *graph, int64_t batch)
{
    double work = 0;
    for (const lki_node *node = graph->first; node != NULL; node = node->next) {
        work += (double)batch *
                (double)(node->multiply_adds + lks_shape_elements(&node->out.shape));
        for (int p = 0; p < node->param_count; p++)
            work += (double)lks_shape_elements(&node->param[p].shape);
    }
    return work;
}

/* Ranks of one host share its cores. Where a worker would have less than LEAST_WORK, to wait for the others would take
 * longer than to do their part, so there are fewer. */
static int default_workers(const lks_model_opts *opts, const lks_graph *graph, int replicas)
{
    const int ranks = opts->comm != NULL ? lks_comm_size(opts->comm) : 1;
    const double enough = work_of(graph, opts->global_batch) / ranks / LEAST_WORK;
    int workers = lki_comm_cores(opts->comm);
    if (workers > replicas / ranks) workers = replicas / ranks;
    if (workers > enough) workers = (int)enough;
    return workers < 1 ? 1 : workers;
}

static lks_status compile_fill_opts(lks_model *model, const lks_graph *graph,
                                    const lks_model_opts *opts)
{
    model->opts = *opts;
    lks_model_opts *o = &model->opts;
    LKI_TRY(lki_layers_options(o));
    if (o->replicas == 0) o->replicas = DEFAULT_REPLICAS;
    if (o->accumulate == 0) o->accumulate = 1;
    if (o->hash_every == 0) o->hash_every = DEFAULT_HASH_EVERY;
    LKI_TRY(compile_check_counts(o));
    LKI_TRY(lks_optim_check(&o->optim));
    if (o->freeze_count < 0 || (o->freeze_count > 0 && o->freeze == NULL))
        return LKI_FAIL(LKS_E_INVALID, "freeze_count is %d, but %s", o->freeze_count,
                        o->freeze_count < 0 ? "it counts patterns" : "there are no patterns");
    for (int i = 0; i < o->freeze_count; i++)
        if (o->freeze[i] == NULL || o->freeze[i][0] == '\0')
            return LKI_FAIL(LKS_E_INVALID,
                            "pattern %d of freeze is empty, expected one such as 'conv1.*'", i + 1);
    LKI_TRY(check_choices(o));
    if (!(o->ema_decay >= 0 && o->ema_decay < 1))
        return LKI_FAIL(LKS_E_INVALID,
                        "ema_decay is %g, expected a number above 0 and below 1, or 0: none",
                        o->ema_decay);

    const int replicas = o->replicas * o->accumulate;
    if (o->workers == 0) o->workers = default_workers(o, graph, replicas);
    if (o->weight == 0) o->weight = 1;
    if (!(o->weight >= LEAST_WEIGHT && o->weight <= 1 / LEAST_WEIGHT))
        return LKI_FAIL(LKS_E_INVALID, "weight is %g, expected %g to %g, or 0: 1", o->weight,
                        LEAST_WEIGHT, 1 / LEAST_WEIGHT);
    if (o->workers < 1 || o->workers > replicas)
        return LKI_FAIL(LKS_E_INVALID,
                        "%d worker%s cannot share %d replica%s: a worker runs whole replicas; use "
                        "1 to %d, or replicas: %d (other bits)",
                        o->workers, LKI_S(o->workers), replicas, LKI_S(replicas), replicas,
                        o->workers);
    if (o->loss != NULL && o->loss->node->in_count < 2)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s' is not a loss; give the tensor of lks_nll() or another",
                        o->loss->node->name);
    if (o->output == NULL && o->loss != NULL) o->output = o->loss->node->in[0];
    if (o->output == NULL)
        return LKI_FAIL(LKS_E_INVALID, "there is neither a loss nor an output to compile for");
    if (graph->input == NULL)
        return LKI_FAIL(LKS_E_INVALID, "the graph has no input; start it with lks_input()");
    return LKS_OK;
}

static lks_status check_tensors(const lks_model_opts *opts, const lks_graph *graph)
{
    const lks_tensor *loss = opts->loss, *output = opts->output;
    if (loss != NULL && !lki_op_get(loss->node->op)->is_loss)
        return LKI_FAIL(LKS_E_SHAPE,
                        "loss '%s' has %d dimension%s, expected one number per sample; use a loss "
                        "such as lks_cross_entropy()",
                        loss->node->name, loss->shape.ndim, LKI_S(loss->shape.ndim));
    if (output->dtype != LKS_F32 || output->node->op == LKI_OP_INPUT ||
        output->node->op == LKI_OP_TARGET)
        return LKI_FAIL(LKS_E_INVALID, "output '%s' is not computed by the network",
                        output->node->name);
    const lks_tensor *target = graph->target;
    if (loss == NULL || target == NULL || target->dtype != LKS_I32) return LKS_OK;
    const int64_t positions = lks_shape_elements(&target->shape);
    const int64_t classes = ((const lks_target_opts *)target->node->attr)->classes * positions;
    const int64_t elements = lks_shape_elements(&output->shape);
    if (elements != classes)
        return LKI_FAIL(LKS_E_SHAPE,
                        "output '%s' has %lld element%s, expected %lld, the classes of target '%s'",
                        output->node->name, (long long)elements, LKI_S(elements),
                        (long long)classes, target->node->name);
    return LKS_OK;
}

static int64_t place_gradient(lks_model *model, int64_t count)
{
    const int64_t at = model->gradient_count;
    model->gradient_count += (int64_t)(lki_align((size_t)count * sizeof(float)) / sizeof(float));
    return at;
}

/* A tied parameter is the one of the node in front, which has its place in the gradients; where that is frozen, and a
 * bias beside this one is not, what is formed of it has one that nobody reads. */
static void join_weight(lks_model *model, lki_stage *stage, int slot, const lki_param *param)
{
    int w = 0;
    while (lki_weight_owner(model, &model->weight[w]) != param->of) w++;
    stage->weight[slot] = w;
    stage->d_param[slot] = model->weight[w].offset;
    if (stage->d_param[slot] < 0 && stage->backward && !stage->plan->by_rows &&
        lki_program_forms_any(&model->program, stage->cluster))
        stage->d_param[slot] = place_gradient(model, model->weight[w].count);
}

static lks_status add_weight(lks_model *model, int s, int slot)
{
    lki_stage *stage = &model->program.stage[s];
    const lki_node *owner = stage->cluster->param[slot].owner;
    const lki_param *param = &owner->param[stage->cluster->param[slot].index];
    if (param->of != NULL) {
        join_weight(model, stage, slot, param);
        return LKS_OK;
    }
    lki_weight *weight = &model->weight[model->weights];
    char name[2 * LKI_NAME_SIZE];
    stage->weight[slot] = model->weights++;
    snprintf(name, sizeof name, "%s.%s", lki_node_stem(owner), param->suffix);
    *weight = (lki_weight){
        .shape = param->shape,
        .count = lks_shape_elements(&param->shape),
        .init = param->init,
        .fan_in = param->fan_in,
        .fan_out = param->fan_out,
        .groups = param->groups,
        .blank = param->blank,
        .stage = s,
        .slot = slot,
        .offset = -1,
        .frozen = lki_program_freezes(&model->program, owner, (int)(param - owner->param))};
    weight->trained = stage->backward && !weight->frozen;
    stage->d_param[slot] = -1;
    LKI_TRY(lki_arena_string(&model->arena, &weight->name, name));
    if (!stage->backward || stage->plan->by_rows || !lki_program_forms(&model->program, owner))
        return LKS_OK;
    weight->offset = stage->d_param[slot] = place_gradient(model, weight->count);
    return LKS_OK;
}

/* Weights in graph order, whatever the order of stages. */
static lks_status list_weights(lks_model *model)
{
    const lki_program *program = &model->program;
    size_t most = 0;
    for (int s = 0; s < program->stages; s++)
        most += (size_t)program->stage[s].cluster->param_count;
    void *memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (most + 1) * sizeof(lki_weight), "weights"));
    model->weight = memory;
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next)
        for (int s = 0; s < program->stages && node->param_count > 0; s++)
            for (int p = 0; p < program->stage[s].cluster->param_count; p++)
                if (program->stage[s].cluster->param[p].owner == node)
                    LKI_TRY(add_weight(model, s, p));
    /* Never empty: NULL instead of an array of gradients means an absent replica. */
    if (model->gradient_count == 0) model->gradient_count = LKI_ALIGN / sizeof(float);
    for (int s = 0; s < program->stages; s++)
        for (int p = 0; p < program->stage[s].cluster->param_count; p++)
            if (program->stage[s].plan->needs.packs >> p & 1)
                model->weight[program->stage[s].weight[p]].packed = true;
    lki_program_place_joined(&model->program);
    return LKS_OK;
}

/* Workers, and the buckets of their sums. */
static lks_status describe_workers(lks_model *model)
{
    const lki_program *program = &model->program;
    void *memory;
    model->workers = model->parts = model->opts.workers;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, (size_t)model->workers * sizeof(lki_worker),
                            "workers"));
    model->worker = memory;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory,
                            (size_t)(program->replicas + 1) * sizeof(int64_t), "shares"));
    model->share_start = memory;
    LKI_TRY(lki_spread_choose(model));
    if (lki_sums_across(model)) return lki_across_near(model);
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, 2 * sizeof(int64_t), "borders"));
    model->border = memory;
    model->border[1] = model->gradient_count;
    model->buckets = 1;
    return LKS_OK;
}

/* Whatever becomes of the ranges, kernels and places are planned once. */
static int64_t most_replicas(const lks_model *model)
{
    int64_t most = 0;
    if (model->balance != NULL)
        return (int64_t)model->opts.replicas * model->opts.accumulate - model->balance->workers + 1;
    for (int w = 0; w < model->opts.workers; w++) {
        const int64_t own = lki_across_first(model, w + 1) - lki_across_first(model, w);
        most = own > most ? own : most;
    }
    return most;
}

/* All that can be said before there is memory. */
static lks_status compile_plan(lks_model *model, const lks_graph *graph)
{
    model->program = (lki_program){
        .context = model->context,
        .backend = lki_backend_find(model->context->device),
        .graph = graph,
        .loss = model->opts.loss,
        .output = model->opts.output,
        .global_batch = model->opts.global_batch,
        .replicas = (int64_t)model->opts.replicas * model->opts.accumulate,
        .most_replicas = most_replicas(model),
        .pass_replicas = model->across != NULL ? lki_across_first(model, model->opts.workers) -
                                                     lki_across_first(model, 0)
                                               : 0,
        .switches = model->opts.kernels,
        .by_replica = model->opts.by_replica,
        .layers = model->opts.layers,
        .recompute = model->opts.recompute && model->opts.loss != NULL,
        .freeze = model->opts.freeze,
        .freeze_count = model->opts.freeze_count};
    LKI_TRY(lki_mirror_check(model));
    if (model->opts.kernels.f16 && model->program.backend->narrow == NULL)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' has no numbers of half precision; device ref rounds to them",
                        model->program.backend->name);
    if (model->opts.kernels.bf16_storage && model->opts.recompute)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "bf16_storage keeps activations rounded, and recompute forms them again; "
                        "leave one of them out");
    if (model->opts.kernels.bf16_storage && model->program.backend->pack == NULL)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' cannot keep activations in bfloat16 (bf16_storage); choose "
                        "another device, or leave it out",
                        model->program.backend->name);
    LKI_TRY(lki_program_compile(&model->program));
    LKI_TRY(list_weights(model));
    LKI_TRY(lki_freeze_check(model));
    LKI_TRY(lki_groups_apply(model));
    LKI_TRY(lki_whole_choose(model));
    LKI_TRY(describe_workers(model));
    lki_arrays_measure(model);
    return lki_across_plan(model);
}

static lks_status allocate(lks_model *model)
{
    lki_arrays_spread(model);
    LKI_TRY(lki_ranges_plan(model));
    LKI_TRY(lki_check_budget(model));
    LKI_TRY(lki_program_allocate(&model->program));
    LKI_TRY(lki_whole_make(model));
    LKI_TRY(lki_arrays_make(model));
    LKI_TRY(lki_ranges_make(model));
    LKI_TRY(lki_state_list(model));
    LKI_TRY(lki_average_plan(model));
    LKI_TRY(lki_layers_make(model));
    LKI_TRY(lki_mirror_make(model));
    return lki_workers_create(&model->threads, model->context, model->workers);
}

/* A tensor of another graph would be looked for in vain, or outlived by the model. */
static lks_status compile_check_graph(const lks_graph *graph, const char *role,
                                      const lks_tensor *tensor)
{
    const lki_node *node = graph->first;
    while (node != NULL && &node->out != tensor) node = node->next;
    if (tensor == NULL || node != NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the %s belongs to another graph; compile the graph that it was built in",
                    role);
}

static void compile_log_line(void *user, const char *line)
{
    lki_log_line(user, LKS_LOG_DEBUG, "%s", line);
}

/* What was chosen, and how long it took. */
static void log_plan(const lks_model *model, double seconds)
{
    if (!lki_log_wanted(model->context, LKS_LOG_DEBUG)) return;
    const lks_model_info info = lks_model_get_info(model);
    lki_log_line(model->context, LKS_LOG_DEBUG,
                 "compiled in %.3f s: %lld parameters, %d replica%s, %lld sample%s a step, "
                 "%d worker%s; the kernels:",
                 seconds, (long long)info.parameters, info.replicas, LKI_S(info.replicas),
                 (long long)info.global_batch, LKI_S(info.global_batch), info.workers,
                 LKI_S(info.workers));
    (void)!lks_model_describe(model, LKS_DESCRIBE_PLAN, compile_log_line, model->context);
}

/* A model with options that make sense on this rank. */
static lks_status compile_begin(lks_model **out, const lks_graph *graph, const lks_model_opts *opts)
{
    LKI_TRY(lks_graph_status(graph));
    if (opts == NULL)
        return LKI_FAIL(LKS_E_INVALID, "lks_model_compile() got no options; give at least loss and "
                                       "global_batch");
    LKI_TRY(compile_check_graph(graph, "loss", opts->loss));
    LKI_TRY(compile_check_graph(graph, "output", opts->output));
    void *memory;
    LKI_TRY(lki_alloc(graph->context, &memory, sizeof(lks_model), "the model"));
    lks_model *model = *out = memory;
    model->context = graph->context;
    model->arena.context = model->ranges.context = graph->context;
    model->forks = lki_forks();
    pthread_mutex_init(&model->preparing, NULL); /* without attributes it does not fail on Linux */
    LKI_TRY(compile_fill_opts(model, graph, opts));
    return check_tensors(&model->opts, graph);
}

lks_status lks_model_compile(lks_model **out, lks_graph *graph, const lks_model_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    const double begin = lki_seconds();
    lks_comm *comm = opts != NULL ? opts->comm : NULL;
    lks_model *model = NULL;
    lks_status status = compile_begin(&model, graph, opts);
    status = lki_across_meet(comm, model, graph, status);
    if (status == LKS_OK) {
        const unsigned saved = lki_float_enter(); /* plans see what workers see */
        status = lki_balance_make(model);
        if (status == LKS_OK) status = compile_plan(model, graph);
        status = lki_across_agree(comm, status);
        if (status == LKS_OK) status = lki_across_check(model);
        if (status == LKS_OK) status = lki_common_make(model);
        if (status == LKS_OK) status = allocate(model);
        lki_float_leave(saved);
        status = lki_across_agree(comm, status);
        if (status == LKS_OK) status = lki_across_agree(comm, lki_across_allocate(model));
    }
    if (status != LKS_OK) {
        const lks_error error = *lks_last_error();
        lks_model_destroy(model);
        lki_error_restore(&error);
        return status;
    }
    log_plan(model, lki_seconds() - begin);
    *out = model;
    return LKS_OK;
}

void lks_model_destroy(lks_model *model)
{
    if (model == NULL) return;
    lks_context *context = model->context;
    lki_workers_destroy(model->threads);
    lki_ranges_release(model);
    lki_common_release(model);
    lki_arrays_release(model);
    lki_layers_release(model);
    lki_program_release(&model->program);
    lki_profile_release(model);
    if (model->forks == lki_forks()) pthread_mutex_destroy(&model->preparing);
    lki_arena_release(&model->arena);
    lki_free(context, model, sizeof *model);
}

lks_comm *lks_model_comm(const lks_model *model)
{
    return model != NULL ? model->opts.comm : NULL;
}

lks_context *lks_model_context(const lks_model *model)
{
    return model != NULL ? model->context : NULL;
}
