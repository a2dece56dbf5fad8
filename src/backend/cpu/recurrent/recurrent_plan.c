/* How rnn, lstm and gru are planned, and where the arrays of a call are. */
#include <string.h>

#include "backend/cpu/recurrent/recurrent.h"
#include "base/memory.h"

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* So many floats more; returns where they begin. */
static size_t reserve(size_t *bytes, int64_t samples, int64_t floats)
{
    const size_t at = *bytes;
    *bytes = lki_plus(at, lki_align(lki_times((size_t)samples, sizeof(float) * (size_t)floats)));
    return at;
}

static void plan_workspace(lki_recurrent_plan *p, lki_plan *plan)
{
    const lki_vector_dense *dense = p->cpu.vector->dense;
    const int64_t most = plan->slice;
    size_t bytes = largest(dense->rows_bytes(),
                           dense->workspace_bytes(&p->ih, most * p->positions));
    bytes = lki_align(largest(bytes, dense->workspace_bytes(&p->hh, most)));
    p->of.q = reserve(&bytes, most, p->rows);
    p->of.h = reserve(&bytes, most, p->hidden);
    p->of.d_h = reserve(&bytes, most, p->hidden);
    p->of.carried = reserve(&bytes, most, p->hidden);
    p->of.zeros = reserve(&bytes, 1, p->hidden);
    if (!plan->by_rows) {
        p->of.d_p = p->of.d_q = reserve(&bytes, most, p->positions * p->rows);
        if (p->op == LKI_OP_GRU) p->of.d_q = reserve(&bytes, most, p->positions * p->rows);
        p->of.past = reserve(&bytes, most, p->positions * p->hidden);
    }
    plan->needs.workspace_bytes = bytes;
}

/* Gradients of p and of q, which of gru are two, and the states before. */
static void plan_factors(const lki_recurrent_plan *p, lki_plan *plan)
{
    const size_t place = lki_times((size_t)p->positions, sizeof(float));
    plan->needs.factor_bytes[LKI_D_P] = lki_times(place, (size_t)p->rows);
    plan->needs.factor_bytes[LKI_PAST] = lki_times(place, (size_t)p->hidden);
    if (p->op == LKI_OP_GRU) plan->needs.factor_bytes[LKI_D_Q] = lki_times(place, (size_t)p->rows);
}

lks_status lki_recurrent_plan_make(lki_plan *plan)
{
    lki_recurrent_plan *p = (lki_recurrent_plan *)(void *)plan;
    const lki_node *node = plan->cluster.node[0];
    const lks_recurrent_opts *opts = node->attr;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_vector_dense *dense = p->cpu.vector->dense;
    p->op = node->op;
    p->positions = node->in[0]->shape.dim[0];
    p->hidden = opts->hidden;
    p->rows = node->param[0].shape.dim[0];
    p->kept = p->op == LKI_OP_LSTM ? 2 * p->hidden : p->op == LKI_OP_GRU ? p->hidden : 0;
    p->reverse = opts->reverse;
    p->masked = opts->masked;
    p->padding = (int32_t)opts->padding;
    p->relu = node->op == LKI_OP_RNN && opts->nonlinearity == LKS_NONLINEARITY_RELU;
    p->ih = (lki_dense_shape){.inputs = node->in[0]->shape.dim[1],
                              .units = p->rows,
                              .bias = true,
                              .positions = p->positions};
    p->hh = p->ih;
    p->hh.inputs = p->hidden;
    p->packed_hh = lki_align(dense->packed_bytes(&p->ih));
    plan->needs.reads = LKI_READS_IN | LKI_READS_OUT;
    plan->needs.packed_bytes = lki_plus(p->packed_hh, dense->packed_bytes(&p->hh));
    plan->needs.packs = 3;
    plan->needs.saved_bytes = lki_times((size_t)p->positions,
                                        sizeof(float) * (size_t)(p->rows + p->kept));
    plan->needs.state_bytes = sizeof(float) * (size_t)lki_recurrent_carried_floats(p);
    plan_workspace(p, plan);
    if (plan->by_rows) plan_factors(p, plan);
    return LKS_OK;
}

void lki_recurrent_pack(const lki_plan *plan, int slot, const float *weight, void *packed,
                        int64_t first, int64_t count)
{
    const lki_recurrent_plan *p = lki_recurrent_plan_of(plan);
    p->cpu.vector->dense->pack(slot == 0 ? &p->ih : &p->hh, weight,
                               (char *)packed + (slot == 0 ? 0 : p->packed_hh), first, count);
}

lki_recurrent_share lki_recurrent_share_of(const lki_recurrent_plan *p, const lki_args *args)
{
    char *at = args->workspace;
    lki_recurrent_share s = {.p = p, .vector = p->cpu.vector, .args = args, .count = args->count};
    s.gates = args->saved;
    s.kept = s.gates + s.count * p->positions * p->rows;
    s.q = (float *)(void *)(at + p->of.q);
    s.h = (float *)(void *)(at + p->of.h);
    s.d_h = (float *)(void *)(at + p->of.d_h);
    s.carried = (float *)(void *)(at + p->of.carried);
    if (p->cpu.plan.by_rows) {
        s.d_p = args->factor[LKI_D_P];
        s.d_q = p->op == LKI_OP_GRU ? args->factor[LKI_D_Q] : s.d_p;
        s.past = args->factor[LKI_PAST];
    } else {
        s.d_p = (float *)(void *)(at + p->of.d_p);
        s.d_q = (float *)(void *)(at + p->of.d_q);
        s.past = (float *)(void *)(at + p->of.past);
    }
    const float *begins = args->at > 0 ? args->state : args->begins;
    if (begins != NULL) {
        s.stride = lki_recurrent_carried_floats(p);
        s.first_h = begins;
        s.first_c = begins + p->hidden;
    } else {
        s.first_h = s.first_c = memset(at + p->of.zeros, 0, sizeof(float) * (size_t)p->hidden);
    }
    return s;
}

/* What rows read of the whole batch would be more than the weights' gradients, EACH of them. */
enum { EACH = 2 };

const char *lki_recurrent_no_rows(const lki_plan *plan)
{
    const lki_node *node = plan->cluster.node[0];
    const int64_t positions = node->in[0]->shape.dim[0], inputs = node->in[0]->shape.dim[1];
    const int64_t rows = node->param[0].shape.dim[0];
    const int64_t hidden = node->param[1].shape.dim[1];
    const double place = (double)(inputs + hidden + rows * (node->op == LKI_OP_GRU ? 2 : 1));
    if (plan->switches.bf16_storage) return "bf16_storage";
    if (place * (double)(plan->batch * positions) >
        (double)EACH * (double)(rows * (inputs + hidden)))
        return "its factors have more numbers than two gradients";
    return NULL;
}
