/*
 * Attention, a head of a sample after the other (vector/attention/). Keys and values are packed once for the heads that
 * have them in common. Kept for backward is of each row the largest score and the inverse of the sum of exponentials.
 */
#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "numeric/rotary.h"
#include "op/attention.h"

typedef struct attention_plan {
    lki_cpu_plan cpu;
    lki_attention a;
    lki_bernoulli drop;
    float keep;  /* 1 / (1 - probability) */
    float *turn; /* cosines, then sines of rotary positions; NULL: none */
    size_t turn_bytes;
    size_t cache;   /* bytes of a kv head in the state */
    size_t numbers; /* where in the workspace those of keys begin */
} attention_plan;

static int64_t whole(int64_t positions)
{
    return (positions + LKI_BLOCK_TERMS - 1) / LKI_BLOCK_TERMS * LKI_BLOCK_TERMS;
}

static lks_status cpu_attention_plan(lki_plan *plan)
{
    attention_plan *p = (attention_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    p->a = lki_attention_of(plan->cluster.node[0]);
    p->drop = lki_bernoulli_make((double)p->a.dropout);
    p->keep = (float)(1.0 / (1.0 - p->drop.probability));
    const lki_vector_attention *vector = p->cpu.vector->attention;
    const size_t forward = vector->forward_bytes(p->a.positions, p->a.head_width);
    const size_t backward = vector->backward_bytes(p->a.positions, p->a.head_width);
    p->numbers = forward > backward ? forward : backward;
    plan->needs.workspace_bytes = lki_plus(p->numbers,
                                           sizeof(float) * (size_t)whole(p->a.positions));
    p->cache = lki_align(vector->cache_bytes(p->a.positions, p->a.head_width));
    plan->needs.state_bytes = lki_times((size_t)p->a.kv_heads, p->cache);
    if (plan->cluster.node[0]->whole == NULL)
        plan->needs.saved_bytes = 2 * sizeof(float) * (size_t)(p->a.heads * p->a.positions);
    plan->needs.reads = LKI_READS_IN | LKI_READS_OUT;
    if (p->a.rotary == 0.0f) return LKS_OK;
    const int64_t half = p->a.positions * (p->a.head_width / 2);
    void *memory;
    p->turn_bytes = 2 * sizeof(float) * (size_t)half;
    LKI_TRY(lki_alloc(plan->context, &memory, p->turn_bytes, "rotary positions"));
    p->turn = memory;
    lki_rotary((double)p->a.rotary, p->a.positions, p->a.head_width, p->turn, p->turn + half);
    return LKS_OK;
}

static void cpu_attention_release(lki_plan *plan)
{
    attention_plan *p = (attention_plan *)(void *)plan;
    if (p->turn != NULL) lki_free(plan->context, p->turn, p->turn_bytes);
    p->turn = NULL;
}

/* A sample of a call. */
typedef struct sample {
    const attention_plan *p;
    const lki_args *args;
    int64_t n;
    const float *qkv;
    const float *numbers; /* of keys; NULL: none is padding */
} sample;

static sample sample_of(const attention_plan *p, const lki_args *args, int64_t n)
{
    const int64_t t = p->a.positions;
    sample s = {.p = p, .args = args, .n = n, .qkv = (const float *)args->in[0] + n * p->cpu.in};
    if (!p->a.masked) return s;
    const int32_t *tokens = (const int32_t *)args->in[1] + n * t;
    float *numbers = (float *)(void *)((char *)args->workspace + p->numbers);
    for (int64_t j = 0; j < whole(t); j++)
        numbers[j] = (float)(j < t && tokens[j] != p->a.padding ? j % LKI_BLOCK_TERMS
                                                                : LKI_BLOCK_TERMS);
    s.numbers = numbers;
    return s;
}

static lki_attention_head head_of(const sample *s, int64_t number)
{
    const attention_plan *p = s->p;
    const lki_attention *a = &p->a;
    const int64_t kv = number / a->group, width = a->head_width;
    const bool drops = s->args->training && a->dropout > 0.0f;
    return (lki_attention_head){
        .q = s->qkv + number * width,
        .k = s->qkv + (a->heads + kv) * width,
        .v = s->qkv + (a->heads + a->kv_heads + kv) * width,
        .row = a->width,
        .positions = a->positions,
        .width = width,
        .scale = a->scale,
        .causal = a->causal,
        .number = s->numbers,
        .cosine = p->turn,
        .sine = p->turn != NULL ? p->turn + a->positions * (width / 2) : NULL,
        .drop = drops ? &p->drop : NULL,
        .key = p->cpu.plan.random_key,
        .step = s->args->step,
        .position = (uint32_t)(s->args->position + s->n),
        .first = number * a->positions * a->positions,
        .keep = drops ? p->keep : 1.0f,
    };
}

/* Where what is kept of a head's rows stands: largest scores, or behind those of all heads inverses. */
static float *kept_of(const sample *s, int64_t number, bool inverses)
{
    const lki_attention *a = &s->p->a;
    float *saved = s->args->saved;
    return saved + ((2 * s->n + inverses) * a->heads + number) * a->positions;
}

/* Rows [first, last) of the heads of this worker's part, behind those that a state has; in and out begin with the first. */
static void forward_rows(const sample *s, int64_t first, int64_t last, float *out)
{
    const attention_plan *p = s->p;
    const lki_args *args = s->args;
    const lki_attention *a = &p->a;
    const lki_vector_attention *vector = p->cpu.vector->attention;
    const bool keep = args->training;
    int64_t begin, end; /* kv heads */
    lki_part_of(args->part, args->parts, a->kv_heads, &begin, &end);
    for (int64_t h = begin * a->group; h < end * a->group; h++) {
        lki_attention_head head = head_of(s, h);
        if (args->state != NULL)
            head.cache = (char *)args->state + h / a->group * (int64_t)p->cache;
        if (h % a->group == 0) vector->forward_begin(&head, first, last, args->workspace);
        vector->forward(&head, first, last, out + h * a->head_width, a->heads * a->head_width,
                        keep ? kept_of(s, h, false) : NULL, keep ? kept_of(s, h, true) : NULL,
                        args->workspace);
    }
}

static lks_status cpu_attention_forward(const lki_plan *plan, const lki_args *args)
{
    const attention_plan *p = (const attention_plan *)(const void *)plan;
    if (args->state != NULL) { /* samples are positions of one text */
        const sample text = sample_of(p, args, 0);
        forward_rows(&text, args->at, args->at + args->count, args->out);
        return LKS_OK;
    }
    for (int64_t n = 0; n < args->count; n++) {
        const sample s = sample_of(p, args, n);
        forward_rows(&s, 0, p->a.positions, (float *)args->out + n * p->cpu.out);
    }
    return LKS_OK;
}

static lks_status cpu_attention_backward(const lki_plan *plan, const lki_args *args)
{
    const attention_plan *p = (const attention_plan *)(const void *)plan;
    const lki_attention *a = &p->a;
    const lki_vector_attention *vector = p->cpu.vector->attention;
    const bool add = args->add_in & 1;
    for (int64_t n = 0; args->d_in[0] != NULL && n < args->count; n++) {
        const sample s = sample_of(p, args, n);
        float *d_qkv = args->d_in[0] + n * p->cpu.in;
        for (int64_t h = 0; h < a->heads; h++) {
            const lki_attention_head head = head_of(&s, h);
            const int64_t at = n * p->cpu.out + h * a->head_width, kv = a->heads + h / a->group;
            if (h % a->group == 0) vector->backward_begin(&head, args->workspace);
            vector->backward(&head, (const float *)args->out + at, args->d_out + at,
                             a->heads * a->head_width, kept_of(&s, h, false), kept_of(&s, h, true),
                             d_qkv + h * a->head_width, add, args->workspace);
            if ((h + 1) % a->group == 0)
                vector->backward_end(&head, d_qkv + kv * a->head_width,
                                     d_qkv + (kv + a->kv_heads) * a->head_width, add,
                                     args->workspace);
        }
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_attention = {
    .plan_bytes = sizeof(attention_plan),
    .span = LKI_SPAN_EITHER,
    .parted = true,
    .follows = true,
    .plan = cpu_attention_plan,
    .release = cpu_attention_release,
    .forward = cpu_attention_forward,
    .backward = cpu_attention_backward,
};
