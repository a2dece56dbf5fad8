/* Normalisation of the input by constants; bytes by a table of all 256 values. */
#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct normalize_plan {
    lki_cpu_plan cpu;
    int64_t channels; /* 1: the same constants for all */
    const float *mean, *std;
    float (*table)[256]; /* [channels], for bytes */
} normalize_plan;

lks_status lki_normalize_table(lks_context *context, const lki_node *node, int64_t channels,
                               float (**out)[256])
{
    const lks_normalize_opts *opts = node->attr;
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, (size_t)channels * sizeof **out, "values of bytes"));
    *out = memory;
    for (int64_t c = 0; c < channels; c++)
        for (int value = 0; value < 256; value++) {
            const int64_t of = opts->count == 1 ? 0 : c;
            (*out)[c][value] = lki_flush(((float)value / 255.0f - opts->mean[of]) / opts->std[of]);
        }
    return LKS_OK;
}

static lks_status plan_normalize(lki_plan *plan)
{
    normalize_plan *p = (normalize_plan *)(void *)plan;
    const lki_node *node = plan->cluster.node[0];
    const lks_normalize_opts *opts = node->attr;
    p->channels = opts->count;
    p->mean = opts->mean;
    p->std = opts->std;
    if (node->in[0]->dtype == LKS_U8)
        LKI_TRY(lki_normalize_table(plan->context, node, p->channels, &p->table));
    return lki_cpu_plan_start(plan);
}

static void release_normalize(lki_plan *plan)
{
    normalize_plan *p = (normalize_plan *)(void *)plan;
    lki_free(plan->context, p->table, (size_t)p->channels * sizeof *p->table);
}

static void from_bytes(const normalize_plan *p, int64_t count, const uint8_t *in, float *out)
{
    if (p->channels == 1) {
        for (int64_t i = 0; i < count; i++) out[i] = p->table[0][in[i]];
        return;
    }
    for (int64_t i = 0; i < count; i += p->channels)
        for (int64_t c = 0; c < p->channels; c++) out[i + c] = p->table[c][in[i + c]];
}

static void from_floats(const normalize_plan *p, int64_t count, const float *in, float *out)
{
    for (int64_t i = 0; i < count; i += p->channels)
        for (int64_t c = 0; c < p->channels; c++)
            out[i + c] = lki_flush((in[i + c] - p->mean[c]) / p->std[c]);
}

static lks_status cpu_normalize_forward(const lki_plan *plan, const lki_args *args)
{
    const normalize_plan *p = (const normalize_plan *)(const void *)plan;
    const int64_t count = args->count * p->cpu.out;
    if (plan->cluster.node[0]->in[0]->dtype == LKS_U8)
        from_bytes(p, count, args->in[0], args->out);
    else
        from_floats(p, count, args->in[0], args->out);
    return LKS_OK;
}

const lki_kernel lki_cpu_normalize = {
    .plan_bytes = sizeof(normalize_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_normalize,
    .release = release_normalize,
    .forward = cpu_normalize_forward,
};
