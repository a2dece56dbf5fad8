/* scale; add and mul of equal shapes, or with a value for each channel of in[0]. */
#include "backend/cpu/cpu.h"

static float factor_of(const lki_plan *plan)
{
    return ((const lks_scale_opts *)plan->cluster.node[0]->attr)->factor;
}

static lks_status scale_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    p->vector->product->scale(args->count * p->out, factor_of(plan), args->in[0], args->out, false);
    return LKS_OK;
}

static lks_status scale_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    if (args->d_in[0] != NULL)
        p->vector->product->scale(args->count * p->out, factor_of(plan), args->d_out, args->d_in[0],
                                  args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_scale = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = scale_forward,
    .backward = scale_backward,
};

/* The second operand has so many values for each sample: as many as the first, or its channels. */
static int64_t cpu_pair_second(const lki_plan *plan)
{
    return lks_shape_elements(&plan->cluster.node[0]->in[1]->shape);
}

static lks_status add_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const int64_t values = cpu_pair_second(plan);
    const float *a = args->in[0], *b = args->in[1];
    float *out = args->out;
    if (values == p->out) {
        p->vector->element->sum(args->count * p->out, a, b, out);
        return LKS_OK;
    }
    for (int64_t s = 0; s < args->count; s++)
        p->vector->product->rows_plus(p->out / values, values, a + s * p->out, b + s * values,
                                      out + s * p->out);
    return LKS_OK;
}

static lks_status add_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const int64_t values = cpu_pair_second(plan);
    for (int i = 0; i < 2; i++) {
        const bool add = args->add_in >> i & 1;
        if (args->d_in[i] == NULL) continue;
        if (i == 0 || values == p->out) {
            p->vector->element->pass(args->count * p->out, args->d_out, args->d_in[i], add);
            continue;
        }
        for (int64_t s = 0; s < args->count; s++)
            p->vector->product->column_sums(p->out / values, values, args->d_out + s * p->out,
                                            args->d_in[1] + s * values, add);
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_add = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = add_forward,
    .backward = add_backward,
};

static lks_status cpu_mul_plan(lki_plan *plan)
{
    plan->needs.reads = LKI_READS_IN;
    return lki_cpu_plan_start(plan);
}

static lks_status mul_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const int64_t values = cpu_pair_second(plan);
    const float *a = args->in[0], *b = args->in[1];
    float *out = args->out;
    if (values == p->out) {
        p->vector->product->product(args->count * p->out, a, b, out, false);
        return LKS_OK;
    }
    for (int64_t s = 0; s < args->count; s++)
        p->vector->product->rows_times(p->out / values, values, a + s * p->out, b + s * values,
                                       out + s * p->out, false);
    return LKS_OK;
}

/* One operand after the other: they may be one tensor. */
static lks_status mul_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const lki_vector_product *v = p->vector->product;
    const int64_t values = cpu_pair_second(plan), rows = p->out / values,
                  whole = args->count * p->out;
    const float *a = args->in[0], *b = args->in[1], *d = args->d_out;
    const bool add[2] = {args->add_in & 1, args->add_in >> 1 & 1};
    if (values == p->out) {
        if (args->d_in[0] != NULL) v->product(whole, d, b, args->d_in[0], add[0]);
        if (args->d_in[1] != NULL) v->product(whole, d, a, args->d_in[1], add[1]);
        return LKS_OK;
    }
    for (int64_t s = 0; s < args->count; s++) {
        if (args->d_in[0] != NULL)
            v->rows_times(rows, values, d + s * p->out, b + s * values, args->d_in[0] + s * p->out,
                          add[0]);
        if (args->d_in[1] != NULL)
            v->column_products(rows, values, d + s * p->out, a + s * p->out,
                               args->d_in[1] + s * values, add[1]);
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_mul = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = cpu_mul_plan,
    .forward = mul_forward,
    .backward = mul_backward,
};
