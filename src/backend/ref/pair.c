/* add, mul: of equal shapes, or with a vector that has a value for each channel of in[0]. */
#include "backend/ref/kernels.h"

/* Elements of a sample's second operand; element i of in[0] belongs to its element i % of these. */
static int64_t ref_pair_second(const lki_plan *plan_)
{
    return lks_shape_elements(&plan_->cluster.node[0]->in[1]->shape);
}

static lks_status add_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, 0, 0);
}

static lks_status ref_mul_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, LKI_READS_IN, 0);
}

static lks_status ref_pair_forward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t elements = lki_ref_in(plan_), values = ref_pair_second(plan_);
    const bool multiply = plan_->cluster.node[0]->op == LKI_OP_MUL;

    for (int64_t n = 0; n < args->count; n++) {
        const float *a = (const float *)args->in[0] + n * elements;
        const float *b = (const float *)args->in[1] + n * values;
        float *out = (float *)args->out + n * elements;

        for (int64_t i = 0; i < elements; i++)
            out[i] = lki_flush(multiply ? a[i] * b[i % values] : a[i] + b[i % values]);
    }
    return LKS_OK;
}

/* One sample's gradient of in[0]; `factor` is the second operand, or NULL for an addition. */
static void first_gradient(int64_t elements, int64_t values, const float *d_out,
                           const float *factor, float *d_in, bool add)
{
    for (int64_t i = 0; i < elements; i++)
        lki_ref_put(&d_in[i], add,
                    (double)d_out[i] * (factor != NULL ? (double)factor[i % values] : 1.0));
}

/* One sample's gradient of in[1]: sums over the pixels, in order. Terms that are zero are left out. */
static void second_gradient(int64_t elements, int64_t values, const float *d_out,
                            const float *factor, float *d_in, bool add)
{
    for (int64_t j = 0; j < values; j++) {
        double sum = 0.0;

        for (int64_t i = j; i < elements; i += values) {
            const double other = factor != NULL ? (double)factor[i] : 1.0;

            if (elements == values || (d_out[i] != 0.0f && other != 0.0))
                sum += (double)d_out[i] * other;
        }
        lki_ref_put(&d_in[j], add, sum);
    }
}

/* One input after the other: they may be one tensor, whose gradient is then added to the second
 * time. */
static lks_status ref_pair_backward(const lki_plan *plan_, const lki_args *args)
{
    const int64_t elements = lki_ref_in(plan_), values = ref_pair_second(plan_);
    const bool multiply = plan_->cluster.node[0]->op == LKI_OP_MUL;

    for (int64_t n = 0; n < args->count; n++) {
        const float *d_out = args->d_out + n * elements;
        const float *a = multiply ? (const float *)args->in[0] + n * elements : NULL;
        const float *b = multiply ? (const float *)args->in[1] + n * values : NULL;

        if (args->d_in[0] != NULL)
            first_gradient(elements, values, d_out, b, args->d_in[0] + n * elements,
                           args->add_in & 1u);
        if (args->d_in[1] != NULL)
            second_gradient(elements, values, d_out, a, args->d_in[1] + n * values,
                            args->add_in >> 1 & 1u);
    }
    return LKS_OK;
}

const lki_kernel lki_ref_add = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = add_plan,
    .forward = ref_pair_forward,
    .backward = ref_pair_backward,
};

const lki_kernel lki_ref_mul = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = ref_mul_plan,
    .forward = ref_pair_forward,
    .backward = ref_pair_backward,
};
