/* masking: token 0 where all features of a position equal the value, else 1. */
#include "backend/ref/kernels.h"

#include <string.h>

static lks_status ref_masking_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, 0, 0);
}

/* By their bits: a processor that takes denormals for zeros would call some of them equal to 0. */
static bool ref_masking_equal(float x, float value)
{
    uint32_t bits, wanted;

    memcpy(&bits, &x, sizeof bits);
    memcpy(&wanted, &value, sizeof wanted);
    return bits == wanted || ((bits | wanted) << 1) == 0; /* both are 0 or -0 */
}

static lks_status ref_masking_forward(const lki_plan *plan_, const lki_args *args)
{
    const lki_node *node = plan_->cluster.node[0];
    const lks_masking_opts *opts = node->attr;
    const int64_t features = node->in[0]->shape.dim[1];
    const float *x = args->in[0];
    int32_t *token = args->out;

    for (int64_t t = 0; t < args->count * lki_ref_out(plan_); t++) {
        token[t] = 0;
        for (int64_t f = 0; f < features; f++)
            if (!ref_masking_equal(x[t * features + f], opts->value)) token[t] = 1;
    }
    return LKS_OK;
}

const lki_kernel lki_ref_masking = {
    .plan_bytes = sizeof(lki_plan),
    .span = LKI_SPAN_EITHER,
    .plan = ref_masking_plan,
    .forward = ref_masking_forward,
};
