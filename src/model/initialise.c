/* How parameters start: graph.h has the kinds, random.h the numbers. */
#include <math.h>

#include "model/model.h"
#include "numeric/random.h"

/* What numbers in [-1, 1), or normal ones, are multiplied by. */
static double scale_of(const lki_weight *weight)
{
    const lks_init *init = &weight->init;
    const double fan = (double)(init->fan_out ? weight->fan_out : weight->fan_in);
    const double both = (double)weight->fan_in + (double)weight->fan_out;
    const double slope = (double)init->slope;
    const double gain = init->gain != 0.0f ? (double)init->gain : 1.0;

    switch (init->kind) {
    case LKS_INIT_DEFAULT:
    case LKS_INIT_PARTIAL_IDENTITY:
        return 1.0 / sqrt((double)weight->fan_in);
    case LKS_INIT_KAIMING_UNIFORM:
        return sqrt(6.0 / ((1.0 + slope * slope) * fan));
    case LKS_INIT_KAIMING_NORMAL:
        return sqrt(2.0 / ((1.0 + slope * slope) * fan));
    case LKS_INIT_XAVIER_UNIFORM:
        return gain * sqrt(6.0 / both);
    case LKS_INIT_XAVIER_NORMAL:
        return gain * sqrt(2.0 / both);
    case LKS_INIT_UNIFORM:
    case LKS_INIT_NORMAL:
        return (double)init->scale;
    case LKS_INIT_ZEROS:
    case LKS_INIT_ONES:
    case LKS_INIT_CONSTANT:
    case LKS_INIT_IDENTITY:
        break;
    }
    return 1.0;
}

static void initialise_fill(const lki_weight *weight, float *values, float value)
{
    for (int64_t i = 0; i < weight->count; i++) values[i] = value;
}

/* Output d of each group is input d of the group, read at the middle of the kernel (after it where
 * its size is even). Weights of outputs for which there is no input stay as they are. */
static void identity(const lki_weight *weight, float *values)
{
    const int64_t *dim = weight->shape.dim;
    const bool image = weight->shape.ndim == 4;
    const int64_t area = image ? dim[2] * dim[3] : 1;
    const int64_t middle = image ? dim[2] / 2 * dim[3] + dim[3] / 2 : 0;
    const int64_t groups = weight->groups != 0 ? weight->groups : 1;
    const int64_t outputs = dim[0] / groups, inputs = dim[1];

    for (int64_t g = 0; g < groups; g++)
        for (int64_t d = 0; d < outputs && d < inputs; d++) {
            float *output = values + (g * outputs + d) * inputs * area;
            for (int64_t i = 0; i < inputs * area; i++) output[i] = 0.0f;
            output[d * area + middle] = 1.0f;
        }
}

static void draw_values(const lks_model *model, const lki_weight *weight, float *values)
{
    const uint64_t key = lki_random_key(model->context->opts.seed, "init", weight->name);
    const float scale = (float)scale_of(weight);

    switch (weight->init.kind) {
    case LKS_INIT_ZEROS:
        initialise_fill(weight, values, 0.0f);
        return;
    case LKS_INIT_ONES:
        initialise_fill(weight, values, 1.0f);
        return;
    case LKS_INIT_CONSTANT:
        initialise_fill(weight, values, weight->init.value);
        return;
    case LKS_INIT_IDENTITY:
        initialise_fill(weight, values, 0.0f);
        identity(weight, values);
        return;
    case LKS_INIT_NORMAL:
    case LKS_INIT_KAIMING_NORMAL:
    case LKS_INIT_XAVIER_NORMAL:
        lki_random_normal(key, weight->count, values);
        break;
    case LKS_INIT_DEFAULT:
    case LKS_INIT_PARTIAL_IDENTITY:
    case LKS_INIT_UNIFORM:
    case LKS_INIT_KAIMING_UNIFORM:
    case LKS_INIT_XAVIER_UNIFORM:
        lki_random_uniform(key, weight->count, values);
        break;
    }
    for (int64_t i = 0; i < weight->count; i++) values[i] *= scale;
    if (weight->init.kind == LKS_INIT_PARTIAL_IDENTITY) identity(weight, values);
}

void lki_initialise(const lks_model *model, const lki_weight *weight, float *values)
{
    const int64_t row = weight->count / weight->shape.dim[0];
    draw_values(model, weight, values);
    for (int64_t i = 0; i < row && weight->blank > 0; i++)
        values[(weight->blank - 1) * row + i] = 0.0f;
}
