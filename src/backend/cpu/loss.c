/* log_softmax and the losses. A sample, or each of its positions, is a few values, so sums are in double. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "numeric/real.h"

static lks_status plan_reads_in(lki_plan *plan)
{
    plan->needs.reads = LKI_READS_IN;
    return lki_cpu_plan_start(plan);
}

static lks_status plan_reads_out(lki_plan *plan)
{
    plan->needs.reads = LKI_READS_OUT;
    return lki_cpu_plan_start(plan);
}

static int64_t values_of(const lki_plan *plan)
{
    const lks_shape *in = &plan->cluster.node[0]->in[0]->shape;
    return in->dim[in->ndim - 1];
}

/* Of a call: samples, or their positions. */
static int64_t rows_of(const lki_plan *plan, const lki_args *args)
{
    return args->count * (lki_cpu(plan)->in / values_of(plan));
}

static void put_gradient(float *to, double value, bool add)
{
    *to = add ? lki_flush(*to + lki_round(value)) : lki_round(value);
}

/* Runs a body over values [0, count) with share[j] = e^(x[i + j] - from) of the n from i on. For a sum whose largest
 * term is 1, or for a product that is rounded to f32, what is below e^-200 is lost in both. */
enum { CHUNK = 256 };
#define FOR_SHARES(i, n, count, x, from)                                                           \
    for (int64_t i = 0, n; n = (count)-i < CHUNK ? (count)-i : CHUNK,                              \
                 i < (count) && (element->shares(n, (x) + i, from, share), true);                  \
         i += n)

/* log of the sum of exp(x); the largest is taken out, so that nothing overflows. Many are summed in lanes, fewer one by one. */
static double log_sum(const lki_vector_element *element, int64_t count, const float *x)
{
    enum { MANY = 1024 };
    const double most = (double)element->most(count, x);
    double share[CHUNK], sum = 0;
    if (count >= MANY) return most + lki_log(element->sum_shares(count, x, most));
    FOR_SHARES(i, n, count, x, most)
    {
        for (int64_t j = 0; j < n; j++) sum += share[j];
    }
    return most + lki_log(sum);
}

static lks_status cpu_log_softmax_forward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = values_of(plan);
    for (int64_t s = 0; s < rows_of(plan, args); s++) {
        const float *x = (const float *)args->in[0] + s * size;
        float *y = (float *)args->out + s * size;
        const double total = log_sum(lki_cpu(plan)->vector->element, size, x);
        for (int64_t i = 0; i < size; i++) put_gradient(&y[i], (double)x[i] - total, false);
    }
    return LKS_OK;
}

static lks_status cpu_log_softmax_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_vector_element *element = lki_cpu(plan)->vector->element;
    const int64_t size = values_of(plan);
    double share[CHUNK];
    for (int64_t s = 0; args->d_in[0] != NULL && s < rows_of(plan, args); s++) {
        const float *y = (const float *)args->out + s * size, *d = args->d_out + s * size;
        double sum = 0;
        for (int64_t i = 0; i < size; i++) sum += (double)d[i];
        FOR_SHARES(i, n, size, y, 0)
        {
            for (int64_t j = 0; j < n; j++)
                put_gradient(args->d_in[0] + s * size + i + j, (double)d[i + j] - share[j] * sum,
                             args->add_in & 1);
        }
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_log_softmax = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_reads_out,
    .forward = cpu_log_softmax_forward,
    .backward = cpu_log_softmax_backward,
};

/* At a position without a class there is no loss, and no gradient. */
static bool has_class(const lki_args *args, int64_t s)
{
    return ((const int32_t *)args->in[1])[s] != LKS_NO_CLASS;
}

/* A gradient of zeros, to which others may be added. */
static void no_gradient(const lki_args *args, int64_t s, int64_t size)
{
    for (int64_t i = 0; !(args->add_in & 1) && i < size; i++) args->d_in[0][s * size + i] = 0;
}

/* What a sample should answer: so much of its own class, and so much of another. */
typedef struct wanted {
    int32_t own, other;
    double of_own, of_other;
} wanted;

static wanted wanted_of(const lki_args *args, int64_t s)
{
    const int32_t own = ((const int32_t *)args->in[1])[s];
    if (args->mix == NULL || args->mix[s].label == own) return (wanted){own, own, 1, 0};
    const double of_other = (double)args->mix[s].weight;
    return (wanted){own, args->mix[s].label, 1 - of_other, of_other};
}

/* The mean of two values; one that is infinite and has no weight is left out. */
static double mean_of(const wanted *w, double own, double other)
{
    return w->of_other > 0 ? w->of_own * own + w->of_other * other : own;
}

static double smoothing_of(const lki_plan *plan)
{
    const lks_cross_entropy_opts *opts = plan->cluster.node[0]->attr;
    return (double)opts->label_smoothing;
}

/* saved: of each row the logarithm of the sum of its exponentials. */
static lks_status cpu_cross_entropy_plan(lki_plan *plan)
{
    LKI_TRY(plan_reads_in(plan));
    plan->needs.saved_bytes = lki_align(
        lki_times((size_t)(lki_cpu(plan)->in / values_of(plan)), sizeof(double)));
    return LKS_OK;
}

static double *total_of(const lki_plan *plan, const lki_args *args, int64_t row)
{
    const int64_t rows = lki_cpu(plan)->in / values_of(plan);
    char *sample = (char *)args->saved + plan->needs.saved_bytes * (size_t)(row / rows);
    return (double *)(void *)sample + row % rows;
}

static lks_status cpu_cross_entropy_forward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = values_of(plan);
    const double smoothing = smoothing_of(plan);
    for (int64_t s = 0; s < rows_of(plan, args); s++) {
        const float *x = (const float *)args->in[0] + s * size;
        float *loss = (float *)args->out + s;
        *loss = 0;
        if (!has_class(args, s)) continue;
        const double total = log_sum(lki_cpu(plan)->vector->element, size, x);
        *total_of(plan, args, s) = total;
        const wanted w = wanted_of(args, s);
        double sum = 0;
        for (int64_t i = 0; smoothing > 0 && i < size; i++) sum += (double)x[i] - total;
        put_gradient(loss,
                     -(1 - smoothing) *
                             mean_of(&w, (double)x[w.own] - total, (double)x[w.other] - total) -
                         smoothing / (double)size * sum,
                     false);
    }
    return LKS_OK;
}

static lks_status cpu_cross_entropy_backward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = values_of(plan);
    const lki_vector_element *element = lki_cpu(plan)->vector->element;
    const double smoothing = smoothing_of(plan), rest = smoothing / (double)size;
    const bool add = args->add_in & 1;
    for (int64_t s = 0; args->d_in[0] != NULL && s < rows_of(plan, args); s++) {
        const float *x = (const float *)args->in[0] + s * size;
        float *d = args->d_in[0] + s * size;
        if (!has_class(args, s)) {
            no_gradient(args, s, size);
            continue;
        }
        const double total = *total_of(plan, args, s), factor = (double)args->d_out[s];
        const wanted w = wanted_of(args, s);
        const double of_own = (1 - smoothing) * w.of_own, of_other = (1 - smoothing) * w.of_other;
        float own = d[w.own], other = d[w.other];
        element->answers(size, factor, rest, x, total, d, add);
        if (w.other != w.own) {
            element->answers(1, factor, of_other + rest, &x[w.other], total, &other, add);
            d[w.other] = other;
        }
        element->answers(1, factor, of_own + (w.other == w.own ? of_other : 0) + rest, &x[w.own],
                         total, &own, add);
        d[w.own] = own;
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_cross_entropy = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = cpu_cross_entropy_plan,
    .forward = cpu_cross_entropy_forward,
    .backward = cpu_cross_entropy_backward,
};

static lks_status cpu_nll_forward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = values_of(plan);
    for (int64_t s = 0; s < rows_of(plan, args); s++) {
        const float *x = (const float *)args->in[0] + s * size;
        float *loss = (float *)args->out + s;
        *loss = 0;
        if (!has_class(args, s)) continue;
        const wanted w = wanted_of(args, s);
        put_gradient(loss, -mean_of(&w, (double)x[w.own], (double)x[w.other]), false);
    }
    return LKS_OK;
}

static lks_status cpu_nll_backward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = values_of(plan);
    for (int64_t s = 0; args->d_in[0] != NULL && s < rows_of(plan, args); s++) {
        float *d = args->d_in[0] + s * size;
        no_gradient(args, s, size);
        if (!has_class(args, s)) continue;
        const wanted w = wanted_of(args, s);
        put_gradient(&d[w.own], -(double)args->d_out[s] * w.of_own, true);
        if (w.of_other > 0) put_gradient(&d[w.other], -(double)args->d_out[s] * w.of_other, true);
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_nll = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_reads_in,
    .forward = cpu_nll_forward,
    .backward = cpu_nll_backward,
};

/* Where Huber's squares, which are halves, end; 0: l1, which has none; mse is twice those that do not end. */
static double limit_of(const lki_plan *plan)
{
    const lki_node *node = plan->cluster.node[0];
    if (node->op == LKI_OP_MSE) return (double)INFINITY;
    return node->op == LKI_OP_HUBER ? (double)((const lks_huber_opts *)node->attr)->delta : 0;
}

static double times_of(const lki_plan *plan)
{
    return plan->cluster.node[0]->op == LKI_OP_MSE ? 2 : 1;
}

static lks_status cpu_distances_forward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = lki_cpu(plan)->in;
    for (int64_t s = 0; s < args->count; s++) {
        const float *x = (const float *)args->in[0] + s * size;
        const float *t = (const float *)args->in[1] + s * size;
        const double sum = lki_cpu(plan)->vector->element->lengths(size, limit_of(plan), x, t);
        put_gradient((float *)args->out + s, times_of(plan) * sum / (double)size, false);
    }
    return LKS_OK;
}

static lks_status cpu_distances_backward(const lki_plan *plan, const lki_args *args)
{
    const int64_t size = lki_cpu(plan)->in;
    for (int64_t s = 0; args->d_in[0] != NULL && s < args->count; s++) {
        const float *x = (const float *)args->in[0] + s * size;
        const float *t = (const float *)args->in[1] + s * size;
        const double factor = times_of(plan) * (double)args->d_out[s] / (double)size;
        lki_cpu(plan)->vector->element->slopes(size, factor, limit_of(plan), x, t,
                                               args->d_in[0] + s * size, args->add_in & 1);
    }
    return LKS_OK;
}

#define DISTANCE(name)                                                                             \
    const lki_kernel lki_cpu_##name = {                                                            \
        .plan_bytes = sizeof(lki_cpu_plan),                                                        \
        .span = LKI_SPAN_EITHER,                                                                   \
        .plan = plan_reads_in,                                                                     \
        .forward = cpu_distances_forward,                                                          \
        .backward = cpu_distances_backward,                                                        \
    }
DISTANCE(mse);
DISTANCE(l1);
DISTANCE(huber);
