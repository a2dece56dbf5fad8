/* concat along channels: each row of the output is a row of a, then one of b. */
#include "backend/ref/kernels.h"

#include <string.h>

static lks_status ref_concat_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, 0, 0);
}

static int64_t channels(const lks_tensor *tensor)
{
    return tensor->shape.dim[tensor->shape.ndim - 1];
}

static lks_status ref_concat_forward(const lki_plan *plan_, const lki_args *args)
{
    const lki_node *node = plan_->cluster.node[0];
    const int64_t a = channels(node->in[0]), b = channels(node->in[1]);
    const int64_t rows = args->count * lki_ref_in(plan_) / a;
    float *out = args->out;

    for (int64_t r = 0; r < rows; r++, out += a + b) {
        memcpy(out, (const float *)args->in[0] + r * a, (size_t)a * sizeof *out);
        memcpy(out + a, (const float *)args->in[1] + r * b, (size_t)b * sizeof *out);
    }
    return LKS_OK;
}

/* One input after the other: they may be one tensor, whose gradient is then added to the second
 * time. */
static lks_status ref_concat_backward(const lki_plan *plan_, const lki_args *args)
{
    const lki_node *node = plan_->cluster.node[0];
    const int64_t all = channels(&node->out), rows = args->count * lki_ref_out(plan_) / all;
    int64_t first = 0;

    for (int in = 0; in < 2; in++) {
        const int64_t own = channels(node->in[in]);

        for (int64_t i = 0; args->d_in[in] != NULL && i < rows * own; i++)
            lki_ref_put(&args->d_in[in][i], args->add_in >> in & 1u,
                        (double)args->d_out[i / own * all + first + i % own]);
        first += own;
    }
    return LKS_OK;
}

const lki_kernel lki_ref_concat = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = ref_concat_plan,
    .forward = ref_concat_forward,
    .backward = ref_concat_backward,
};
