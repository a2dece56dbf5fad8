/* Masking: most positions are told by their first feature. */
#include "backend/cpu/cpu.h"

#include <string.h>

/* As integers, whatever the processor makes of denormals; of both zeros, +0. */
static uint32_t cpu_masking_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits == UINT32_C(0x80000000) ? 0 : bits;
}

static lks_status cpu_masking_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const lks_masking_opts *opts = plan->cluster.node[0]->attr;
    const uint32_t value = cpu_masking_bits(opts->value);
    const int64_t features = p->in / p->out;
    const float *x = args->in[0];
    int32_t *token = args->out;
    for (int64_t t = 0; t < args->count * p->out; t++, x += features) {
        int64_t same = 0;
        while (same < features && cpu_masking_bits(x[same]) == value) same++;
        token[t] = same < features;
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_masking = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = cpu_masking_forward,
};
