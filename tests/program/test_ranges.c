/*
 * Passes over ranges of replicas, as several processes take them: each has the samples of its replicas alone,
 * and a program with memory for those. What they form are the replicas' gradients, statistics and outputs,
 * and their nodes of the tree sum up to the gradient that a model forms of the whole batch.
 */
#include <stdlib.h>
#include <string.h>

#include "base/float.h"
#include "model/model.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { REPLICAS = 6, BATCH = 61, CLASSES = 5, PIXELS = 12 * 10 * 3, MOST_STATS = 64 };

/* One training problem, and the sums of all processes. */
typedef struct problem {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    const lki_memory *memory;
    lkt_images images;
    int64_t count; /* samples of the batch */
    lki_arena arena;
    lki_reduce by_replica, by_rows; /* a holder is a process */
    int64_t row_floats;
    int64_t *row_offset; /* of a weight by rows in the arrays of these */
    float output[BATCH][CLASSES];
} problem;

static problem problem_make(const char *device, lkt_net net, bool by_replica)
{
    problem p = {.images = lkt_images_make(BATCH)};
    LKT_OK(lks_context_create(&p.context, &(lks_context_opts){.device = device, .seed = 5}));
    LKT_OK(lks_graph_create(&p.graph, p.context));
    LKT_OK(lks_model_compile(&p.model, p.graph,
                             &(lks_model_opts){.loss = net(p.graph),
                                               .global_batch = BATCH,
                                               .replicas = REPLICAS,
                                               .workers = 1,
                                               .by_replica = by_replica}));
    p.memory = p.model->program.backend->memory;
    p.row_offset = calloc((size_t)p.model->weights, sizeof *p.row_offset);
    for (int w = 0; w < p.model->weights; w++) {
        if (p.model->weight[w].offset >= 0) continue;
        p.row_offset[w] = p.row_floats;
        p.row_floats += p.model->weight[w].count;
    }
    return p;
}

static void problem_free(problem *p)
{
    free(p->row_offset);
    lkt_images_free(&p->images);
    lks_model_destroy(p->model);
    lks_graph_destroy(p->graph);
    lks_context_destroy(p->context);
}

static void *device_memory(const problem *p, size_t bytes)
{
    void *made;
    LKT_OK(p->memory->alloc(p->context, &made, bytes, "a test"));
    return made;
}

/* A process: a program for at most so many replicas, with the model's parameters. */
typedef struct process {
    lki_program program;
    lki_pass pass;
    lki_local local;
    void *x, *y;
    size_t x_bytes, y_bytes;
} process;

static void borrow(const lks_model *model, lki_program *program)
{
    assert_int_equal(program->stages, model->program.stages);
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *from = &model->program.stage[s];
        lki_stage *to = &program->stage[s];
        assert_ptr_equal(to->impl, from->impl);
        assert_int_equal(to->plan->by_rows, from->plan->by_rows);
        memcpy(to->weight, from->weight, sizeof to->weight);
        memcpy(to->param, from->param, sizeof to->param);
        memcpy(to->d_param, from->d_param, sizeof to->d_param);
        memcpy(to->buffer, from->buffer, sizeof to->buffer);
        lki_plan_pack(to->plan, (const float *const *)to->param,
                      program->packed + to->packed_offset, 0, 1);
    }
}

static process process_make(const problem *p, int64_t first, int64_t last)
{
    const lki_program *whole = &p->model->program;
    process it = {.program = {.context = p->context,
                              .backend = whole->backend,
                              .graph = p->graph,
                              .loss = whole->loss,
                              .output = whole->output,
                              .global_batch = BATCH,
                              .replicas = REPLICAS,
                              .most_replicas = last - first,
                              .pass_replicas = last - first,
                              .by_replica = whole->by_replica}};
    LKT_OK(lki_program_compile(&it.program));
    LKT_OK(lki_program_allocate(&it.program));
    borrow(p->model, &it.program);
    assert_int_equal(it.program.max_pass, ((last - first) * BATCH + REPLICAS - 1) / REPLICAS);
    if (whole->kept_bytes > 0 && last - first < REPLICAS)
        assert_true(it.program.kept_bytes < whole->kept_bytes);
    it.local.memory = device_memory(p, it.program.local_bytes + it.program.workspace_bytes);
    it.local.kept = it.program.kept;
    it.pass = lki_program_pass(&it.program, first, last, p->count);
    it.pass.training = it.pass.backward = true;
    const int64_t samples = lki_share(last, REPLICAS, p->count) - it.pass.begin;
    it.x_bytes = (size_t)samples * PIXELS;
    it.y_bytes = (size_t)samples * sizeof(int32_t);
    it.pass.x = it.x = device_memory(p, it.x_bytes);
    it.pass.y = it.y = device_memory(p, it.y_bytes);
    p->memory->copy_in(it.x, p->images.x + it.pass.begin * PIXELS, it.x_bytes);
    p->memory->copy_in(it.y, p->images.y + it.pass.begin, it.y_bytes);
    return it;
}

static void process_free(const problem *p, process *it)
{
    p->memory->free(p->context, it->local.memory,
                    it->program.local_bytes + it->program.workspace_bytes);
    p->memory->free(p->context, it->x, it->x_bytes);
    p->memory->free(p->context, it->y, it->y_bytes);
    lki_program_release(&it->program);
}

/* Forward and backward of its replicas, group by group, as a worker does it. */
static void run_replicas(problem *p, int holder, process *it)
{
    float out[BATCH][CLASSES];
    const lki_pass *pass = &it->pass;
    lki_reduce_begin(&p->by_replica, holder);
    for (int64_t r = pass->first, end; r < pass->last; r = end) {
        end = r + it->program.cohort < pass->last ? r + it->program.cohort : pass->last;
        const lki_cohort group = lki_program_cohort(&it->program, pass, r, end);
        LKT_OK(lki_program_forward(&it->program, pass, &group, &it->local));
        lki_program_copy_output(&it->program, pass, &group, &it->local, out[0]);
        memcpy(p->output[group.begin], out[group.begin - pass->begin],
               (size_t)group.count * sizeof out[0]);
        LKT_OK(lki_program_backward_joint(&it->program, pass, &group, &it->local));
        for (int64_t leaf = r; leaf < end; leaf++) {
            const lki_tree_node node = {.lo = leaf, .hi = leaf + 1};
            it->local.gradient = NULL;
            if (lki_program_cohort(&it->program, pass, leaf, leaf + 1).count > 0) {
                it->local.gradient = lki_reduce_array(&p->by_replica, holder, 0);
                LKT_OK(lki_program_backward(&it->program, pass, &group, leaf, &it->local));
            }
            lki_reduce_push(&p->by_replica, holder, 0, node, it->local.gradient);
        }
    }
}

/* Arrays of the sums by rows, one for each maximal node of a process, in their order. */
typedef struct rows_target {
    const problem *p;
    const lki_stage *stage;
    int64_t first, last;
    float *array;
} rows_target;

static void keep_rows(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                      const float *sums)
{
    const rows_target *to = user;
    float *array = to->array;
    for (int64_t at = to->first; at != node.lo; at = lki_tree_maximal(REPLICAS, at, to->last).hi)
        array += to->p->row_floats;
    to->p->memory->copy(array + to->p->row_offset[to->stage->weight[slot]] + first, sums,
                        (size_t)count * sizeof *sums);
}

static const float *in_pass(const process *it, int value)
{
    const lki_value *v = &it->program.value[value];
    return v->place == LKI_AT_BATCH_X ? it->pass.x
                                      : (const float *)(void *)(it->program.kept + v->offset);
}

static void run_rows(problem *p, int holder, process *it, const int64_t *start)
{
    lki_holder *own = &p->by_rows.holder[holder];
    rows_target target = {
        .p = p, .first = it->pass.first, .last = it->pass.last, .array = own->memory};
    for (int s = 0; s < it->program.stages; s++) {
        const lki_stage *stage = target.stage = &it->program.stage[s];
        if (!stage->plan->by_rows) continue;
        const lki_rows rows = {.in = in_pass(it, stage->in[0]),
                               .d_out = in_pass(it, stage->d_out),
                               .start = start,
                               .replicas = REPLICAS,
                               .first = it->pass.first,
                               .last = it->pass.last,
                               .row_count = p->model->weight[stage->weight[0]].shape.dim[0],
                               .workspace = it->local.memory + it->program.local_bytes,
                               .sum = keep_rows,
                               .user = &target};
        stage->kernel->rows(stage->plan, &rows);
    }
    lki_reduce_begin(&p->by_rows, holder);
    float *array = own->memory;
    for (int64_t at = it->pass.first; at < it->pass.last; array += p->row_floats) {
        const lki_tree_node node = lki_tree_maximal(REPLICAS, at, it->pass.last);
        lki_reduce_push(&p->by_rows, holder, 0, node,
                        start[node.lo] < start[node.hi] ? array : NULL);
        at = node.hi;
    }
}

/* Batch norm's, of the replicas that have samples. */
static void check_statistics(const problem *p, const process *it, const int64_t *start)
{
    double found[MOST_STATS], expected[MOST_STATS];
    for (int s = 0; s < it->program.stages; s++) {
        const lki_stage *stage = &it->program.stage[s];
        const lki_node *counted = stage->cluster->counted;
        if (counted == NULL || counted->stats == 0) continue;
        const size_t bytes = (size_t)counted->stats * sizeof *found;
        assert_true(counted->stats <= MOST_STATS);
        for (int64_t r = it->pass.first; r < it->pass.last; r++) {
            const size_t at = stage->stats_offset + (size_t)(r * counted->stats);
            if (start[r] == start[r + 1]) continue;
            p->memory->copy_out(found, it->program.stats + at, bytes);
            p->memory->copy_out(expected, p->model->program.stats + at, bytes);
            assert_memory_equal(found, expected, bytes);
        }
    }
}

static void table_make(problem *p, lki_reduce *out, int processes, const int64_t *cut,
                       int64_t floats)
{
    *out = (lki_reduce){.backend = p->model->program.backend, .replicas = REPLICAS};
    LKT_OK(lki_reduce_make(out, &p->arena, processes, 1, (const int64_t[]){0, floats}));
    for (int i = 0; i < processes; i++) {
        LKT_OK(lki_reduce_assign(out, &p->arena, i, cut[i], cut[i + 1]));
        out->holder[i].memory = device_memory(p, lki_reduce_bytes(out, i));
    }
}

static void table_free(const problem *p, const lki_reduce *table)
{
    for (int i = 0; i < table->holders; i++)
        p->memory->free(p->context, table->holder[i].memory, lki_reduce_bytes(table, i));
}

/* The means, for every weight, against the model's own gradient. */
static void check_gradients(const problem *p, const int64_t *cut, int processes)
{
    const lki_tree_node all = {.lo = 0, .hi = REPLICAS};
    const lks_model *model = p->model;
    const float scale = (float)(1.0 / (double)p->count);
    const float *by_replica = lki_reduce_total(&p->by_replica, all, 0, model->gradient_count);
    const float *by_rows = p->row_floats > 0 ? lki_reduce_total(&p->by_rows, all, 0, p->row_floats)
                                             : NULL;
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        const size_t bytes = (size_t)weight->count * sizeof(float);
        float *found = malloc(bytes), *expected = malloc(bytes);
        char name[96];
        snprintf(name, sizeof name, "gradient.%s", weight->name);
        LKT_OK(lks_model_state_read(p->model, lks_model_state_find(model, name), expected, bytes));
        p->memory->copy_out(
            found, weight->offset >= 0 ? by_replica + weight->offset : by_rows + p->row_offset[w],
            bytes);
        for (int64_t i = 0; i < weight->count; i++) {
            const float mean = lki_flush(found[i] * scale);
            if (memcmp(&mean, &expected[i], sizeof mean) != 0)
                fail_msg("%s, %lld samples, %d processes, the second from replica %lld: "
                         "%s[%lld] is %a, expected %a",
                         model->program.backend->name, (long long)p->count, processes,
                         (long long)cut[1], weight->name, (long long)i, (double)mean,
                         (double)expected[i]);
        }
        free(found);
        free(expected);
    }
}

static void check_cut(problem *p, const int64_t *cut)
{
    int64_t start[REPLICAS + 1];
    int processes = 0;
    while (cut[processes] < REPLICAS) processes++;
    for (int64_t r = 0; r <= REPLICAS; r++) start[r] = lki_share(r, REPLICAS, p->count);
    p->arena = (lki_arena){.context = p->context};
    table_make(p, &p->by_replica, processes, cut, p->model->gradient_count);
    table_make(p, &p->by_rows, processes, cut, p->row_floats + 1);
    for (int i = 0; i < processes; i++) {
        process it = process_make(p, cut[i], cut[i + 1]);
        const unsigned saved = lki_float_enter();
        run_replicas(p, i, &it);
        run_rows(p, i, &it, start);
        lki_float_leave(saved);
        check_statistics(p, &it, start);
        process_free(p, &it);
    }
    check_gradients(p, cut, processes);
    table_free(p, &p->by_replica);
    table_free(p, &p->by_rows);
    lki_arena_release(&p->arena);
}

/* The first is one process; the fourth's ranges are no subtrees. */
static const int64_t CUTS[][REPLICAS + 1] = {
    {0, 6}, {0, 4, 6}, {0, 1, 2, 3, 4, 5, 6}, {0, 3, 5, 6}, {0, 1, 6}};
enum { CUT_COUNT = sizeof CUTS / sizeof CUTS[0] };

static void check_net(const char *device, lkt_net net, bool by_replica, int64_t count)
{
    float expected[BATCH][CLASSES];
    problem p = problem_make(device, net, by_replica);
    const lks_batch batch = {.x = p.images.x, .y = p.images.y, .count = count};
    p.count = count;
    LKT_OK(lks_model_gradient(p.model, &batch, NULL));
    for (int c = 0; c < CUT_COUNT; c++) {
        memset(p.output, 0, sizeof p.output);
        check_cut(&p, CUTS[c]);
        if (c == 0) memcpy(expected, p.output, sizeof expected);
        assert_memory_equal(p.output, expected, sizeof expected);
    }
    problem_free(&p);
}

/* A full batch, a short one, and one of fewer samples than there are replicas. */
static void ranges_are_the_batch(void **state)
{
    static const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual};
    static const int64_t counts[] = {BATCH, 40, 4};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < 3; n++)
            for (int i = 0; i < 3; i++)
                check_net(lkt_backends()[b]->name, nets[n], i == 1, counts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_are_the_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
