/* Dropout. Nothing is kept for backward: the events are drawn again. */
#include "backend/cpu/cpu.h"

#include <string.h>

enum { CHUNK = 4096 }; /* elements whose events lie on the stack */

typedef struct dropout_plan {
    lki_cpu_plan cpu;
    lki_bernoulli event;
    float scale;
    bool by_sample;
} dropout_plan;

static lks_status plan_dropout(lki_plan *plan)
{
    dropout_plan *p = (dropout_plan *)(void *)plan;
    const lks_dropout_opts *opts = plan->cluster.node[0]->attr;
    p->event = lki_bernoulli_make(opts->probability);
    p->by_sample = opts->by_sample;
    p->scale = (float)(1.0 / (1.0 - p->event.probability));
    return lki_cpu_plan_start(plan);
}

/* Of elements e to e + n of sample s. */
static void draw(const lki_plan *plan, const lki_args *args, int64_t s, int64_t e, int64_t n,
                 uint8_t *dropped)
{
    const dropout_plan *p = (const dropout_plan *)(const void *)plan;
    const uint32_t position = (uint32_t)(args->position + s);
    if (p->by_sample) e = 0;
    p->cpu.vector->dropout->draw(&p->event, plan->random_key, args->step, position, e,
                                 p->by_sample ? 1 : n, dropped);
    if (p->by_sample) memset(dropped, dropped[0], (size_t)n);
}

static void cpu_dropout_run(const lki_plan *plan, const lki_args *args, const float *in, float *out,
                            bool add)
{
    const dropout_plan *p = (const dropout_plan *)(const void *)plan;
    const lki_vector *vector = p->cpu.vector;
    const int64_t size = p->cpu.out;
    uint8_t dropped[CHUNK];
    for (int64_t s = 0; s < args->count; s++)
        for (int64_t e = 0; e < size; e += CHUNK) {
            const int64_t n = size - e < CHUNK ? size - e : CHUNK, at = s * size + e;
            draw(plan, args, s, e, n, dropped);
            vector->dropout->apply(n, dropped, p->scale, in + at, out + at, add);
        }
}

static lks_status cpu_dropout_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    if (args->training)
        cpu_dropout_run(plan, args, args->in[0], args->out, false);
    else
        p->vector->element->pass(args->count * p->out, args->in[0], args->out, false);
    return LKS_OK;
}

static lks_status cpu_dropout_backward(const lki_plan *plan, const lki_args *args)
{
    if (args->d_in[0] != NULL)
        cpu_dropout_run(plan, args, args->d_out, args->d_in[0], args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_dropout = {
    .plan_bytes = sizeof(dropout_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_dropout,
    .forward = cpu_dropout_forward,
    .backward = cpu_dropout_backward,
};
