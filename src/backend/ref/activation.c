/* gelu, silu, tanh, sigmoid, softplus, relu6, leaky_relu, scale: y = f(x) for each element. Backward forms
 * f'(x) from x, so that a gradient has one rounding. */
#include "backend/ref/kernels.h"

#include "numeric/real.h"

typedef double function(const lki_node *node, double x);

static double sigmoid(const lki_node *node, double x)
{
    (void)node;
    return 1.0 / (1.0 + lki_exp(-x));
}

static double sigmoid_slope(const lki_node *node, double x)
{
    return sigmoid(node, x) * sigmoid(node, -x);
}

/* log(1 + z) for 0 <= z <= 1: where 1 + z rounds, the quotient takes that out of the logarithm (D.
 * Goldberg: "What every computer scientist should know about floating-point arithmetic", theorem 4). */
static double log_of_one_more(double z)
{
    const double sum = 1.0 + z;

    return sum == 1.0 ? z : z * (lki_log(sum) / (sum - 1.0));
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)) */
static double softplus(const lki_node *node, double x)
{
    (void)node;
    return (x > 0.0 ? x : 0.0) + log_of_one_more(lki_exp(x > 0.0 ? -x : x));
}

static double hyperbolic(const lki_node *node, double x)
{
    (void)node;
    return lki_tanh(x);
}

/* 1 - tanh(x)^2 = 4 s(2x) s(-2x). */
static double hyperbolic_slope(const lki_node *node, double x)
{
    return 4.0 * sigmoid_slope(node, 2.0 * x);
}

static double silu(const lki_node *node, double x)
{
    return x * sigmoid(node, x);
}

static double silu_slope(const lki_node *node, double x)
{
    return sigmoid(node, x) * (1.0 + x * sigmoid(node, -x));
}

/* The probability that a normal variable is below x. */
static double normal(double x)
{
    const double root_half = 0x1.6a09e667f3bcdp-1;

    return 0.5 * (1.0 + lki_erf(x * root_half));
}

/* a(x) of op/gelu.c, and its derivative. */
static const double TANH_FACTOR = 0x1.9884533d43651p+0; /* 2 sqrt(2 / pi) */
static const double TANH_CUBE = 0.044715;

static double tanh_argument(double x)
{
    return TANH_FACTOR * x * (1.0 + TANH_CUBE * x * x);
}

static bool has_tanh_form(const lki_node *node)
{
    return ((const lks_gelu_opts *)node->attr)->form == LKS_GELU_TANH;
}

static double ref_gelu(const lki_node *node, double x)
{
    return x * (has_tanh_form(node) ? sigmoid(node, tanh_argument(x)) : normal(x));
}

static double gelu_slope(const lki_node *node, double x)
{
    const double peak = 0x1.9884533d43651p-2; /* 1 / sqrt(2 pi) */

    if (!has_tanh_form(node)) return normal(x) + x * peak * lki_exp(-0.5 * x * x);
    const double a = tanh_argument(x), d_a = TANH_FACTOR * (1.0 + 3.0 * TANH_CUBE * x * x);
    return sigmoid(node, a) * (1.0 + x * d_a * sigmoid(node, -a));
}

static double relu6_slope(const lki_node *node, double x)
{
    (void)node;
    return x > 0.0 && x < 6.0 ? 1.0 : 0.0;
}

static double relu6(const lki_node *node, double x)
{
    (void)node;
    return x > 0.0 ? (x < 6.0 ? x : 6.0) : 0.0;
}

static double leaky_relu_slope(const lki_node *node, double x)
{
    return x > 0.0 ? 1.0 : (double)((const lks_leaky_relu_opts *)node->attr)->slope;
}

static double leaky_relu(const lki_node *node, double x)
{
    return leaky_relu_slope(node, x) * x;
}

static double scale_slope(const lki_node *node, double x)
{
    (void)x;
    return (double)((const lks_scale_opts *)node->attr)->factor;
}

static double ref_activation_scale(const lki_node *node, double x)
{
    return scale_slope(node, x) * x;
}

static const struct {
    function *value, *slope;
} functions[LKI_OP_COUNT] = {
    [LKI_OP_RELU6] = {relu6, relu6_slope},
    [LKI_OP_LEAKY_RELU] = {leaky_relu, leaky_relu_slope},
    [LKI_OP_GELU] = {ref_gelu, gelu_slope},
    [LKI_OP_SILU] = {silu, silu_slope},
    [LKI_OP_TANH] = {hyperbolic, hyperbolic_slope},
    [LKI_OP_SIGMOID] = {sigmoid, sigmoid_slope},
    [LKI_OP_SOFTPLUS] = {softplus, sigmoid},
    [LKI_OP_SCALE] = {ref_activation_scale, scale_slope},
};

static lks_status ref_activation_plan(lki_plan *plan_)
{
    return lki_ref_needs(plan_, LKI_READS_IN, 0);
}

static lks_status ref_activation_forward(const lki_plan *plan_, const lki_args *args)
{
    const lki_node *node = plan_->cluster.node[0];
    const int64_t count = args->count * lki_ref_in(plan_);
    const float *in = args->in[0];
    float *out = args->out;

    for (int64_t i = 0; i < count; i++) out[i] = lki_round(functions[node->op].value(node, in[i]));
    return LKS_OK;
}

static lks_status ref_activation_backward(const lki_plan *plan_, const lki_args *args)
{
    const lki_node *node = plan_->cluster.node[0];
    const int64_t count = args->count * lki_ref_in(plan_);
    const float *in = args->in[0];
    const bool passes = node->op == LKI_OP_RELU6; /* or not at all, as relu: infinity * 0 is none */

    for (int64_t i = 0; args->d_in[0] != NULL && i < count; i++) {
        const double d = args->d_out[i], slope = functions[node->op].slope(node, in[i]);
        lki_ref_put(&args->d_in[0][i], args->add_in & 1u, passes && slope == 0.0 ? 0.0 : d * slope);
    }
    return LKS_OK;
}

#define KERNEL(id)                                                                                 \
    const lki_kernel lki_ref_##id = {                                                              \
        .plan_bytes = sizeof(lki_plan),                                                            \
        .span = LKI_SPAN_EITHER,                                                                   \
        .plan = ref_activation_plan,                                                               \
        .forward = ref_activation_forward,                                                         \
        .backward = ref_activation_backward,                                                       \
    }

KERNEL(relu6);
KERNEL(leaky_relu);
KERNEL(gelu);
KERNEL(silu);
KERNEL(tanh);
KERNEL(sigmoid);
KERNEL(softplus);
KERNEL(scale);
