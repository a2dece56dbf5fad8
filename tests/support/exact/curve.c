/* Functions of one element that are curved, in double. */
#include <math.h>

#include "support/exact.h"

static double below(double x) /* the standard normal distribution */
{
    return erfc(-x * sqrt(0.5)) / 2;
}

void lkt_exact_curve(const lki_node *node, double x, double *y, double *slope)
{
    const double s = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));

    if (node->op == LKI_OP_SIGMOID) {
        *y = s;
        *slope = s * rest;
    } else if (node->op == LKI_OP_SILU) {
        *y = x * s;
        *slope = s * (1 + x * rest);
    } else if (node->op == LKI_OP_SOFTPLUS) {
        *y = fmax(x, 0) + log1p(exp(-fabs(x)));
        *slope = s;
    } else if (node->op == LKI_OP_TANH) {
        *y = tanh(x);
        *slope = 1 / (cosh(x) * cosh(x));
    } else if (((const lks_gelu_opts *)node->attr)->form == LKS_GELU_ERF) {
        *y = x * below(x);
        *slope = below(x) + x * exp(-x * x / 2) / sqrt(8 * atan(1));
    } else { /* x times the logistic function of 2 a, as (1 + tanh(a)) / 2 cancels */
        const double root = sqrt(2 / (4 * atan(1))), a = root * (x + 0.044715 * x * x * x);
        const double g = 1 / (1 + exp(-2 * a)), other = 1 / (1 + exp(2 * a));

        *y = x * g;
        *slope = g + x * g * other * 2 * root * (1 + 3 * 0.044715 * x * x);
    }
}
