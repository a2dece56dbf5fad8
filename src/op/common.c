#include "op/common.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

lks_status lki_check_floats(const lki_node *node)
{
    const int count = lki_op_get(node->op)->is_loss ? 1 : node->in_count;

    for (int i = 0; i < count; i++) {
        if (node->in[i]->dtype != LKS_F32)
            return LKI_FAIL(
                LKS_E_SHAPE, "%s '%s': input '%s' is %s, expected F32; put a normalize before it",
                LKI_NODE(node), node->in[i]->node->name, lks_dtype_name(node->in[i]->dtype));
    }
    return LKS_OK;
}

lks_status lki_check_image(const lki_node *node)
{
    if (node->in[0]->shape.ndim != 3)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimension%s, expected 3 (height, width, channels)",
                        LKI_NODE(node), node->in[0]->shape.ndim, LKI_S(node->in[0]->shape.ndim));
    return lki_check_floats(node);
}

lks_status lki_check_vector(const lki_node *node)
{
    if (node->in[0]->shape.ndim != 1)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimensions, expected 1; put a flatten before it",
                        LKI_NODE(node), node->in[0]->shape.ndim);
    return lki_check_floats(node);
}

lks_status lki_check_range(const lki_node *node, const char *attribute, int64_t value,
                           int64_t least, int64_t most)
{
    if (value < least)
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': %s is %lld, expected at least %lld",
                        LKI_NODE(node), attribute, (long long)value, (long long)least);
    if (value > most)
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': %s is %lld, expected at most %lld", LKI_NODE(node),
                        attribute, (long long)value, (long long)most);
    return LKS_OK;
}

lks_status lki_check_shape(const lki_node *node, const char *what, const lks_shape *shape)
{
    int64_t elements = 1;

    if (shape->ndim < 1 || shape->ndim > LKS_MAX_DIMS)
        return LKI_FAIL(LKS_E_SHAPE, "%s '%s': %s has %d dimensions, expected 1 to %d",
                        LKI_NODE(node), what, shape->ndim, LKS_MAX_DIMS);
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] < 1)
            return LKI_FAIL(LKS_E_SHAPE, "%s '%s': dimension %d of %s is %lld, expected at least 1",
                            LKI_NODE(node), i, what, (long long)shape->dim[i]);
        if (shape->dim[i] > INT32_MAX / elements)
            return LKI_FAIL(LKS_E_SHAPE, "%s '%s': %s has more than %d elements, the most allowed",
                            LKI_NODE(node), what, INT32_MAX);
        elements *= shape->dim[i];
    }
    return LKS_OK;
}

lks_status lki_check_init(const lki_node *node, const char *attribute, const lks_init *init)
{
    const bool scaled = init->kind == LKS_INIT_UNIFORM || init->kind == LKS_INIT_NORMAL;

    if ((unsigned)init->kind > LKS_INIT_IDENTITY)
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': %s is %d, which is no kind of initialisation",
                        LKI_NODE(node), attribute, (int)init->kind);
    if (scaled && !(init->scale > 0.0f && isfinite(init->scale)))
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': %s has scale %g, expected a positive number for uniform or normal",
            LKI_NODE(node), attribute, (double)init->scale);
    if (!isfinite(init->value))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': %s has value %g, expected a finite number",
                        LKI_NODE(node), attribute, (double)init->value);
    if (!(init->gain >= 0.0f && isfinite(init->gain)))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': %s has gain %g, expected a positive number",
                        LKI_NODE(node), attribute, (double)init->gain);
    if (!isfinite(init->slope))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': %s has slope %g, expected a finite number",
                        LKI_NODE(node), attribute, (double)init->slope);
    if (init->kind == LKS_INIT_IDENTITY && strcmp(attribute, "bias_init") == 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': bias_init is identity, which is for weights; use zeros",
                        LKI_NODE(node));
    return LKS_OK;
}

lks_status lki_infer_same(lki_node *node)
{
    LKI_TRY(lki_check_floats(node));
    node->out.shape = node->in[0]->shape;
    return LKS_OK;
}

static bool is_channel_vector(const lks_shape *vector, const lks_shape *of)
{
    return vector->ndim == 1 && of->ndim > 1 && vector->dim[0] == of->dim[of->ndim - 1];
}

lks_status lki_infer_pair(lki_node *node)
{
    const lks_tensor *a = node->in[0], *b = node->in[1];

    LKI_TRY(lki_check_floats(node));
    if (!lki_shape_equal(&a->shape, &b->shape) && !is_channel_vector(&b->shape, &a->shape)) {
        char first[128], second[128];

        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': '%s' is %s, but '%s' is %s; shapes must be equal, or one a "
                        "vector with a value for each channel of the other",
                        LKI_NODE(node), a->node->name,
                        lki_shape_print(&a->shape, first, sizeof first), b->node->name,
                        lki_shape_print(&b->shape, second, sizeof second));
    }
    node->out.shape = a->shape;
    return LKS_OK;
}

lks_tensor *lki_graph_add_pair(lks_graph *graph, lki_op_id op, lks_tensor *a, lks_tensor *b)
{
    if (a != NULL && b != NULL && is_channel_vector(&a->shape, &b->shape))
        return lki_graph_add(graph, op, NULL, (lks_tensor *[]){b, a}, 2);
    return lki_graph_add(graph, op, NULL, (lks_tensor *[]){a, b}, 2);
}

lks_status lki_check_classes(const lki_node *node)
{
    const lki_node *target = node->in[1]->node;
    const int64_t classes = ((const lks_target_opts *)target->attr)->classes;
    const int64_t values = node->in[0]->shape.dim[0];

    if (classes == 0)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': target '%s' has floats, expected classes; give it .classes = %lld",
            LKI_NODE(node), target->name, (long long)values);
    if (classes != values)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': input '%s' has %lld value%s, but target '%s' has %lld class%s; they "
            "must be equal",
            LKI_NODE(node), node->in[0]->node->name, (long long)values, LKI_S(values), target->name,
            (long long)classes, classes == 1 ? "" : "es");
    return LKS_OK;
}

lks_status lki_window_out(const lki_node *node, lki_window window, int64_t out[2])
{
    static const char *const axis[2] = {"height", "width"};

    for (int i = 0; i < 2; i++) {
        const int64_t size = node->in[0]->shape.dim[i];
        int64_t padded, covered;

        LKI_TRY(lki_check_range(node, "kernel", window.kernel[i], 1, LKI_ATTRIBUTE_MOST));
        LKI_TRY(lki_check_range(node, "stride", window.stride[i], 1, LKI_ATTRIBUTE_MOST));
        LKI_TRY(lki_check_range(node, "padding", window.padding[i], 0, LKI_ATTRIBUTE_MOST));
        LKI_TRY(lki_check_range(node, "dilation", window.dilation[i], 1, LKI_ATTRIBUTE_MOST));
        padded = size + 2 * window.padding[i];
        covered = window.dilation[i] * (window.kernel[i] - 1) + 1;
        if (covered > padded)
            return LKI_FAIL(LKS_E_SHAPE,
                            "%s '%s': the kernel covers a %s of %lld, but the input has %lld with "
                            "its padding; use a smaller kernel or more padding",
                            LKI_NODE(node), axis[i], (long long)covered, (long long)padded);
        out[i] = (padded - covered) / window.stride[i] + 1;
    }
    return LKS_OK;
}

void lki_print(char *buffer, size_t size, const char *format, ...)
{
    size_t used = strlen(buffer);
    va_list arguments;

    if (used > 0 && used + 1 < size) {
        buffer[used++] = ' ';
        buffer[used] = '\0';
    }
    va_start(arguments, format);
    lki_text_list(buffer + used, size - used, format, arguments);
    va_end(arguments);
}

void lki_print_float(char *buffer, size_t size, const char *name, float value)
{
    char text[LKI_NUMBER_SIZE];

    lki_print(buffer, size, "%s=%s", name, lki_text_float(text, value));
}

void lki_print_pair(char *buffer, size_t size, const char *name, const int64_t pair[2],
                    int64_t standard)
{
    if (pair[0] != pair[1])
        lki_print(buffer, size, "%s=%lldx%lld", name, (long long)pair[0], (long long)pair[1]);
    else if (pair[0] != standard)
        lki_print(buffer, size, "%s=%lld", name, (long long)pair[0]);
}

/* The kind's one number that is not at its default; NAN: none. */
static float init_number(const lks_init *init)
{
    switch (init->kind) {
    case LKS_INIT_UNIFORM:
    case LKS_INIT_NORMAL:
        return init->scale;
    case LKS_INIT_CONSTANT:
        return init->value;
    case LKS_INIT_KAIMING_UNIFORM:
    case LKS_INIT_KAIMING_NORMAL:
        return init->slope != 0.0f ? init->slope : NAN;
    case LKS_INIT_XAVIER_UNIFORM:
    case LKS_INIT_XAVIER_NORMAL:
        return init->gain != 0.0f && init->gain != 1.0f ? init->gain : NAN;
    case LKS_INIT_DEFAULT:
    case LKS_INIT_ZEROS:
    case LKS_INIT_ONES:
    case LKS_INIT_IDENTITY:
        break;
    }
    return NAN;
}

void lki_print_init(char *buffer, size_t size, const char *name, const lks_init *init)
{
    static const char *const kinds[] = {
        [LKS_INIT_ZEROS] = "zeros",
        [LKS_INIT_ONES] = "ones",
        [LKS_INIT_UNIFORM] = "uniform",
        [LKS_INIT_NORMAL] = "normal",
        [LKS_INIT_KAIMING_UNIFORM] = "kaiming_uniform",
        [LKS_INIT_KAIMING_NORMAL] = "kaiming_normal",
        [LKS_INIT_XAVIER_UNIFORM] = "xavier_uniform",
        [LKS_INIT_XAVIER_NORMAL] = "xavier_normal",
        [LKS_INIT_CONSTANT] = "constant",
        [LKS_INIT_IDENTITY] = "identity",
    };
    const bool kaiming = init->kind == LKS_INIT_KAIMING_UNIFORM ||
                         init->kind == LKS_INIT_KAIMING_NORMAL;
    const float number = init_number(init);
    char text[LKI_NUMBER_SIZE] = "";

    if (init->kind == LKS_INIT_DEFAULT) return;
    if (!isnan(number)) lki_text_float(text, number);
    lki_print(buffer, size, "%s=%s%s%s%s", name, kinds[init->kind], text[0] != '\0' ? ":" : "",
              text, kaiming && init->fan_out ? ":fan_out" : "");
}

void lki_print_nothing(const lki_node *node, char *buffer, size_t size)
{
    (void)node;
    if (size > 0) buffer[0] = '\0';
}
