/* The memory plan: what is alive at the same time never overlaps, and reuse pays. */
#include <string.h>

#include <lockstep/tools.h>

#include "core/backend.h"
#include "model/model.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

static bool is_local(const lki_value *value)
{
    return value->room > 0 && (value->place == LKI_AT_COHORT || value->place == LKI_AT_SLICE ||
                               value->place == LKI_AT_REPLICA || value->place == LKI_AT_SUMS);
}

/* The segment that is run at a tick: forward through the parts, and back, with blocks forward again in front of their
 * way back. */
static const lki_segment *segment_at(const lki_program *program, int tick)
{
    int part = 0;
    if (tick < program->parts) return &program->segment[program->part[tick].segment];
    while (program->part[part].back != tick && program->part[part].forwarded != tick) part++;
    return &program->segment[program->part[part].segment];
}

static bool meet(int first, int last, int other_first, int other_last)
{
    return first <= other_last && other_first <= last && first >= 0 && other_first >= 0;
}

static bool live_together(const lki_value *a, const lki_value *b)
{
    return meet(a->first, a->last, b->first, b->last) ||
           meet(a->first, a->last, b->again, b->until) ||
           meet(a->again, a->until, b->first, b->last) ||
           meet(a->again, a->until, b->again, b->until);
}

/* The most samples, or replicas, that a local value has room for. */
static size_t most_of(const lki_program *program, const lki_value *value)
{
    switch (value->place) {
    case LKI_AT_COHORT:
        return (size_t)program->max_cohort;
    case LKI_AT_SLICE:
        return (size_t)segment_at(program, value->first)->slice;
    case LKI_AT_REPLICA:
        return (size_t)program->cohort;
    default:
        return 1;
    }
}

static void check_plan(const lki_program *program)
{
    size_t sum = 0, kept = 0;
    for (int i = 0; i < program->values; i++) {
        const lki_value *a = &program->value[i];
        if (a->place == LKI_AT_KEPT) {
            assert_true(a->offset >= kept);
            kept = a->offset + a->room;
            assert_true(a->room >= a->bytes * (size_t)program->global_batch);
        }
        if (!is_local(a)) continue;
        sum += a->room;
        assert_true(a->offset + a->room <= program->local_bytes);
        assert_true(a->room >= a->bytes * most_of(program, a));
        for (int j = 0; j < i; j++) {
            const lki_value *b = &program->value[j];
            if (!is_local(b) || !live_together(a, b)) continue;
            if (a->offset < b->offset + b->room && b->offset < a->offset + a->room)
                fail_msg("%s %s [%d,%d] and %s %s [%d,%d] overlap", a->node, a->role, a->first,
                         a->last, b->node, b->role, b->first, b->last);
        }
    }
    assert_true(kept <= program->kept_bytes);
    assert_true(program->local_bytes < sum); /* something is reused in every network here */
    for (int s = 0; s < program->stages; s++)
        assert_int_equal(program->stage[s].packed_offset % LKI_ALIGN, 0);
}

static void values_that_live_together_do_not_overlap(void **state)
{
    (void)state;
    const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual, lkt_net_synced};
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++)
            for (int batch = 1; batch <= 301; batch += 60) {
                lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
                lkt_compile(&m, &(lks_model_opts){.loss = nets[n](m.graph),
                                                  .global_batch = batch,
                                                  .replicas = 3,
                                                  .workers = 1,
                                                  .recompute = batch % 180 == 1,
                                                  .by_replica = batch % 120 == 1});
                check_plan(&m.model->program);
                lkt_end(&m);
            }
}

/* Several replicas of a worker in one group: what a stage before the joint segment leaves to the
 * joint segment or to backward must survive the passes of the other replicas. */
static void lifetimes_cover_the_head_of_a_group(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "ref"});
    lkt_compile(&m,
                &(lks_model_opts){.loss = lkt_net_conv(m.graph), .global_batch = 32, .workers = 2});
    const lki_program *program = &m.model->program;
    const int head = lki_program_first_joint(program), n = program->parts;
    assert_int_equal(program->cohort, 4); /* 8 replicas of 4 samples on 2 workers */
    assert_int_equal(head, program->segments - 1);
    const int parts = program->segment[head].first;
    for (int v = 0; v < program->values; v++) {
        const lki_value *value = &program->value[v];
        if (value->place != LKI_AT_COHORT || value->room == 0) continue;
        if (value->first < parts) assert_int_equal(value->first, 0);
        if (value->first < parts) assert_true(value->last >= parts - 1);
        if (value->last >= 2 * n - parts) assert_int_equal(value->last, 2 * n - 1);
    }
    lkt_end(&m);
}

/* Where outputs are large fewer replicas stand in a group: those of all stages take 32 MiB at most. */
static void groups_of_large_samples_are_small(void **state)
{
    (void)state;
    static const int64_t sides[] = {64, 96, 512}, groups[] = {7, 3, 1};
    for (int k = 0; k < 3; k++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = "ref"});
        const lks_shape shape = LKS_SHAPE(sides[k], sides[k], 16);
        lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = shape});
        lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.classes = 2});
        for (int i = 0; i < 4; i++) x = lks_relu(m.graph, x);
        x = lks_dense(m.graph, lks_global_avg_pool(m.graph, x), &(lks_dense_opts){.units = 2});
        lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, x, y, NULL),
                                          .global_batch = 32,
                                          .replicas = 8,
                                          .workers = 1});
        assert_int_equal(m.model->program.cohort, groups[k]);
        lkt_end(&m);
    }
}

/* A kernel's unfinished sums over a replica's samples survive all pieces of their segment. */
static void lifetimes_of_sums_cover_backward_of_their_segment(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int by_replica = 0; by_replica < 2; by_replica++) {
            lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
            lkt_compile(&m, &(lks_model_opts){.loss = lkt_net_conv(m.graph),
                                              .global_batch = 96,
                                              .workers = 1,
                                              .by_replica = by_replica != 0});
            const lki_program *program = &m.model->program;
            for (int s = 0; s < program->stages; s++) {
                const lki_stage *stage = &program->stage[s];
                const lki_segment *segment = &program->segment[program->part[stage->first].segment];
                assert_int_equal(stage->sums != LKI_NO_VALUE,
                                 stage->backward && stage->plan->needs.sums_bytes > 0);
                if (stage->sums == LKI_NO_VALUE) continue;
                const lki_value *sums = &program->value[stage->sums];
                const int end = 2 * program->parts - 1;
                assert_int_equal(sums->first, end - (segment->first + segment->count - 1));
                assert_int_equal(sums->last, end - segment->first);
                assert_true(sums->room >= stage->plan->needs.sums_bytes);
            }
            lkt_end(&m);
        }
}

/* What a stage of a slice segment shares with another segment must survive every slice: its
 * lifetime covers its segment. */
static void lifetimes_cover_slice_segments(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "ref"});
    lkt_compile(&m,
                &(lks_model_opts){.loss = lkt_net_conv(m.graph), .global_batch = 96, .workers = 1});
    const lki_program *program = &m.model->program;
    int checked = 0;
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        const lki_segment *segment = &program->segment[program->part[stage->second].segment];
        const lki_value *out = &program->value[stage->out];
        if (segment->slice == 0 || out->place != LKI_AT_COHORT) continue;
        assert_true(out->first <= segment->first);
        assert_true(out->last >= segment->first + segment->count - 1);
        checked++;
    }
    assert_true(checked > 0);
    lkt_end(&m);
}

/* conv2d, batch_norm, relu, conv2d, batch_norm, dense: a batch norm's sums ride with the convolution before
 * it, and its second half with the one behind. What both halves need lives from one to the other, through
 * all pieces of both segments; what one half makes for its own segment lives for a piece. */
static void halves_end_segments_and_share_what_both_need(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
        lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(9, 9, 3)});
        lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.classes = 5});
        for (int i = 0; i < 2; i++) {
            x = lks_conv2d(
                m.graph, x,
                &(lks_conv2d_opts){.filters = 7 + i, .kernel = {3, 3}, .stride = {1, 2}});
            x = lks_batch_norm(m.graph, x, NULL);
            x = lks_relu(m.graph, x);
        }
        x = lks_dense(m.graph, lks_flatten(m.graph, x), &(lks_dense_opts){.units = 5});
        lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, x, y, NULL),
                                          .global_batch = 96,
                                          .kernels.single = true,
                                          .workers = 1});
        const lki_program *program = &m.model->program;
        assert_int_equal(program->parts, program->stages + 2);
        assert_int_equal(program->segments, 4);
        for (int s = 0; s < program->stages; s++) {
            const lki_stage *stage = &program->stage[s];
            const lki_part *first = &program->part[stage->first];
            const lki_part *second = &program->part[stage->second];
            const int end = 2 * program->parts - 1;
            assert_int_equal(first->stage, s);
            assert_int_equal(second->stage, s);
            if (stage->cluster->counted == NULL) {
                assert_ptr_equal(first, second);
                continue;
            }
            const lki_segment *one = &program->segment[first->segment], *other = one + 1;
            assert_int_equal(second->segment, first->segment + 1);
            assert_int_equal(one->first + one->count, other->first); /* the last, and the first */
            assert_int_equal(other->first, stage->second);
            assert_true(one->slice > 0 && other->slice > 0 && one->count > 1 && other->count > 1);
            const lki_value *in = &program->value[stage->in[0]];
            const lki_value *out = &program->value[stage->out];
            const lki_value *d_out = &program->value[stage->d_out];
            const lki_value *d_in = &program->value[stage->d_in[0]];
            const lki_value *replica = &program->value[stage->replica];
            assert_int_equal(in->place, LKI_AT_COHORT);
            assert_true(in->first <= one->first && in->last >= end - one->first);
            assert_int_equal(d_out->place, LKI_AT_COHORT);
            assert_true(d_out->first <= end - (other->first + other->count - 1));
            assert_true(d_out->last >= end - one->first);
            assert_int_equal(replica->place, LKI_AT_REPLICA);
            assert_true(replica->first <= one->first && replica->last >= end - one->first);
            assert_int_equal(d_in->place, LKI_AT_SLICE);
            assert_true(out->first >= other->first);
        }
        check_plan(program);
        lkt_end(&m);
    }
}

/* Each buffer begins a line of the cache, as what the optimizer keeps does; and who only predicts has neither
 * that nor averages, whatever the options say. */
static void state_is_aligned_and_no_more_than_needed(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int trains = 0; trains < 2; trains++) {
            lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
            lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(300)});
            lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.shape = LKS_SHAPE(37)});
            x = lks_dense(m.graph, x, &(lks_dense_opts){.units = 37});
            x = lks_batch_norm(m.graph, x, NULL);
            lkt_compile(&m, &(lks_model_opts){.loss = trains ? lks_mse(m.graph, x, y) : NULL,
                                              .output = x,
                                              .global_batch = 8,
                                              .workers = 1,
                                              .ema_decay = 0.9,
                                              .optim = {.kind = LKS_ADAM}});
            const size_t values = lki_align(300 * 37 * sizeof(float)) +
                                  3 * lki_align(37 * sizeof(float));
            assert_int_equal(m.model->parameter_bytes, values * (trains ? 4 : 1));
            for (int s = 0; s < m.model->program.stages; s++)
                for (int i = 0; i < LKI_MAX_BUFFER; i++)
                    assert_int_equal((uintptr_t)m.model->program.stage[s].buffer[i] % LKI_ALIGN, 0);
            lkt_end(&m);
        }
}

/* A type of eight bytes stands for one whose size is not that of f32. What the caller brings is as it is. */
static lks_dtype wide_gradients(const lks_tensor *tensor, bool gradient)
{
    const lki_op_id op = tensor->node->op;
    if (op == LKI_OP_INPUT || op == LKI_OP_TARGET) fail_msg("asked for the type of a batch");
    return gradient ? LKS_I64 : tensor->dtype;
}

/* An activation and its gradient have the room of their own types, wherever they lie. */
static void gradients_may_be_stored_in_another_type(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "ref"});
    const lks_tensor *loss = lkt_net_conv(m.graph);
    for (int wide = 0; wide < 2; wide++) {
        lki_program program = {.context = m.context,
                               .backend = lki_backend_find("ref"),
                               .graph = m.graph,
                               .loss = loss,
                               .output = loss->node->in[0],
                               .global_batch = 64,
                               .replicas = 4,
                               .stored = wide ? wide_gradients : NULL};
        LKT_OK(lki_program_compile(&program));
        int gradients = 0;
        for (int s = 0; s < program.stages; s++) {
            const lki_stage *stage = &program.stage[s];
            const lks_tensor *tensor = &lki_cluster_tail(stage->cluster)->out;
            const size_t elements = (size_t)lks_shape_elements(&tensor->shape);
            assert_int_equal(program.value[stage->out].type, LKS_F32);
            assert_int_equal(program.value[stage->out].bytes, elements * sizeof(float));
            if (stage->d_out == LKI_NO_VALUE) continue;
            const lki_value *d_out = &program.value[stage->d_out];
            assert_int_equal(d_out->type, wide ? LKS_I64 : LKS_F32);
            assert_int_equal(d_out->bytes, elements * (wide ? 8 : sizeof(float)));
            assert_true(d_out->place == LKI_AT_KEPT || d_out->place == LKI_AT_COHORT ||
                        d_out->place == LKI_AT_SLICE);
            gradients++;
        }
        assert_true(gradients > 3);
        for (int v = 0; v < program.values; v++) {
            const lki_value *value = &program.value[v];
            if (value->place == LKI_AT_BATCH_X) assert_int_equal(value->type, LKS_U8);
            if (value->place == LKI_AT_BATCH_Y) assert_int_equal(value->type, LKS_I32);
        }
        check_plan(&program);
        lki_program_release(&program);
    }
    lkt_end(&m);
}

/* What the plan comes to is what the m.model takes, but for the lists of small things. */
static void bytes_are_those_that_are_allocated(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 4; k++) {
            lkt_heap heap = {0};
            lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name,
                                                        .allocator = lkt_heap_allocator(&heap)});
            lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(300)});
            lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.shape = LKS_SHAPE(300)});
            x = lks_dense(m.graph, x, &(lks_dense_opts){.units = 500});
            x = lks_relu(m.graph, lks_batch_norm(m.graph, x, NULL));
            x = lks_dense(m.graph, x, &(lks_dense_opts){.units = 300});
            const size_t before = heap.live_bytes;
            lkt_compile(&m, &(lks_model_opts){.loss = lks_mse(m.graph, x, y),
                                              .global_batch = 200,
                                              .workers = 1 + k,
                                              .by_replica = k % 2 == 0,
                                              .clip_norm = k / 2,
                                              .ema_decay = k == 2 ? 0.9 : 0});
            const size_t bytes = lks_model_get_info(m.model).memory_bytes;
            const size_t taken = heap.live_bytes - before;
            assert_true(bytes > 300 * 500 * sizeof(float));
            /* The lists are the m.context's memory, too. */
            assert_true(taken >= bytes + sizeof(lks_model) + 6 * sizeof(lki_weight) +
                                     (size_t)lks_model_state_count(m.model) * sizeof(lki_state) +
                                     (size_t)lks_model_stages(m.model) * sizeof(lki_stage));
            if (bytes > taken || taken - bytes > bytes / 32 + 65536)
                fail_msg("%s, %d: %zu bytes by the plan, %zu taken", lkt_backends()[b]->name, k,
                         bytes, taken);
            lkt_end(&m);
        }
}

static lks_tensor *normed(lks_graph *g, lks_tensor *x, const char *name)
{
    x = lks_conv2d(
        g, x, &(lks_conv2d_opts){.name = name, .filters = 16, .kernel = {3, 3}, .padding = {1, 1}});
    return lks_batch_norm(g, x, NULL);
}

/* Of a norm's output, read by its own segment alone, a piece is enough, which backward forms again. All is kept where a later
 * segment reads it, too; where it is formed of a second input, which need not be there in backward; where that reader's or its own
 * first backward half does; and where its whole block is formed again. */
static void outputs_of_norms_are_formed_again(void **state)
{
    enum { ALONE, LATER, SIDE, NORM, SIGMOID, BLOCK, WAYS };
    (void)state;
    if (strcmp(lkt_backends()[0]->name, "cpu") != 0) return;
    for (int way = 0; way < WAYS; way++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = "cpu"});
        lks_graph *g = m.graph;
        lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(8, 8, 16)});
        lks_tensor *first = normed(g, x, "first"), *y = normed(g, x, "a");
        if (way == SIDE)
            y = lks_add(g, y, lks_relu(g, first));
        else
            y = way == SIGMOID ? lks_sigmoid(g, y) : lks_relu(g, y);
        lks_tensor *of = y;
        if (way == NORM) y = lks_batch_norm(g, y, NULL);
        y = lks_relu(g, normed(g, y, "b"));
        if (way == LATER) y = lks_add(g, y, of);
        if (way != SIDE) y = lks_add(g, y, lks_relu(g, first));
        y = lks_dense(g, lks_global_avg_pool(g, y), &(lks_dense_opts){.units = 5});
        y = lks_cross_entropy(g, y, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
        lkt_compile(&m,
                    &(lks_model_opts){
                        .loss = y, .recompute = way == BLOCK, .global_batch = 12, .replicas = 2});
        const lki_program *program = &m.model->program;
        const lki_value *out = &program->value[program->activation[of->node->index]];
        assert_int_equal(out->renewed, way == ALONE);
        assert_int_equal(out->place == LKI_AT_SLICE, way == ALONE);
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_live_together_do_not_overlap),
        cmocka_unit_test(lifetimes_cover_slice_segments),
        cmocka_unit_test(lifetimes_cover_the_head_of_a_group),
        cmocka_unit_test(groups_of_large_samples_are_small),
        cmocka_unit_test(lifetimes_of_sums_cover_backward_of_their_segment),
        cmocka_unit_test(halves_end_segments_and_share_what_both_need),
        cmocka_unit_test(state_is_aligned_and_no_more_than_needed),
        cmocka_unit_test(gradients_may_be_stored_in_another_type),
        cmocka_unit_test(bytes_are_those_that_are_allocated),
        cmocka_unit_test(outputs_of_norms_are_formed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
