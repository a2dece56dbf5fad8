#include "op/common.h"

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

lks_status lki_check_padding(const lki_node *node, const lks_tensor *tokens, bool masked,
                             int64_t padding)
{
    if (!masked && padding != 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': padding is %lld, but masked is false; set it, or drop padding",
                        LKI_NODE(node), (long long)padding);
    if (tokens == NULL) return LKS_OK;
    return lki_check_range(node, "padding", padding, 0, lki_vocabulary_of(tokens) - 1);
}

lks_status lki_check_masked(const lki_node *node, bool masked, int64_t padding)
{
    const lks_tensor *x = node->in[0], *tokens = node->in_count > 1 ? node->in[1] : NULL;
    char text[128];

    LKI_TRY(lki_check_padding(node, tokens, masked, padding));
    if (masked && tokens == NULL)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s '%s': masked is true, but there are no tokens to find the padding in; "
            "the graph's input has to be I32, or a masking of frames to stand before it",
            LKI_NODE(node));
    if (tokens == NULL) return LKS_OK;
    if (!masked)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s '%s': tokens are given, but masked is false, and only padding is "
                        "looked for among them; set it, or give none",
                        LKI_NODE(node));
    if (tokens->shape.ndim != 1 || tokens->shape.dim[0] != x->shape.dim[0])
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': tokens '%s' are %s, but input '%s' has %lld positions; they must "
                        "be as many",
                        LKI_NODE(node), tokens->node->name,
                        lki_shape_print(&tokens->shape, text, sizeof text), x->node->name,
                        (long long)x->shape.dim[0]);
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

int64_t lki_vocabulary_of(const lks_tensor *tokens)
{
    enum { OF_MASKING = 2 }; /* padding, and what is none */

    if (tokens->node->op == LKI_OP_MASKING) return OF_MASKING;
    return ((const lks_input_opts *)tokens->node->attr)->vocabulary;
}

lks_status lki_infer_same(lki_node *node)
{
    node->out.shape = node->in[0]->shape;
    return LKS_OK;
}

static bool is_channel_vector(const lks_shape *vector, const lks_shape *of)
{
    return vector->ndim == 1 && of->ndim > 1 && vector->dim[0] == of->dim[of->ndim - 1];
}

lks_status lki_infer_pair(lki_node *node)
{
    if (is_channel_vector(&node->in[0]->shape, &node->in[1]->shape)) {
        lks_tensor *vector = node->in[0];

        node->in[0] = node->in[1];
        node->in[1] = vector;
    }

    const lks_tensor *a = node->in[0], *b = node->in[1];

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

lks_status lki_infer_classes(lki_node *node)
{
    const lki_node *target = node->in[1]->node;
    const int64_t classes = ((const lks_target_opts *)target->attr)->classes;
    const lks_shape *in = &node->in[0]->shape, *positions = &node->in[1]->shape;
    const int64_t values = in->dim[in->ndim - 1];
    lks_shape expected = *positions;

    if (classes == 0)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': target '%s' has floats, expected classes; give it .classes = %lld",
            LKI_NODE(node), target->name, (long long)values);
    if (positions->ndim == 0 && in->ndim != 1)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input has %d dimensions, expected 1; put a flatten before it",
                        LKI_NODE(node), in->ndim);
    if (classes != values)
        return LKI_FAIL(
            LKS_E_SHAPE,
            "%s '%s': input '%s' has %lld value%s, but target '%s' has %lld class%s; they "
            "must be equal",
            LKI_NODE(node), node->in[0]->node->name, (long long)values, LKI_S(values), target->name,
            (long long)classes, classes == 1 ? "" : "es");
    expected.dim[expected.ndim++] = classes;
    if (!lki_shape_equal(in, &expected)) {
        char found[128], wanted[128];

        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': input '%s' is %s, expected %s, as target '%s' has a class for "
                        "each position",
                        LKI_NODE(node), node->in[0]->node->name,
                        lki_shape_print(in, found, sizeof found),
                        lki_shape_print(&expected, wanted, sizeof wanted), target->name);
    }
    node->out.shape = *positions;
    return LKS_OK;
}

lks_status lki_window_out(const lki_node *node, lki_window window, int64_t out[2])
{
    static const char *const axis[2] = {"height", "width"};

    for (int i = 0; i < 2; i++) {
        const int64_t size = node->in[0]->shape.dim[i];
        int64_t padded, covered;

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

static void add_parameter(lki_node *node, const lki_param *param)
{
    node->param[node->param_count++] = *param;
}

void lki_add_weight(lki_node *node, const lks_shape *shape, const lks_init *init, int64_t fan_in,
                    int64_t fan_out)
{
    add_parameter(node, &(lki_param){.suffix = "weight",
                                     .shape = *shape,
                                     .init = *init,
                                     .fan_in = fan_in,
                                     .fan_out = fan_out,
                                     .is_weight = true});
}

void lki_add_bias(lki_node *node, int64_t count, const lks_init *init)
{
    const lki_param *weight = &node->param[0];

    add_parameter(node, &(lki_param){.suffix = "bias",
                                     .shape = LKS_SHAPE(count),
                                     .init = *init,
                                     .fan_in = weight->fan_in,
                                     .fan_out = weight->fan_out});
}

static void add_of_norm(lki_node *node, const lks_shape *shape, const char *suffix,
                        lks_init_kind first)
{
    add_parameter(
        node,
        &(lki_param){
            .suffix = suffix, .shape = *shape, .fan_in = 1, .fan_out = 1, .init.kind = first});
}

void lki_add_scale(lki_node *node, const lks_shape *shape)
{
    add_of_norm(node, shape, "weight", LKS_INIT_ONES);
}

void lki_add_affine(lki_node *node, const lks_shape *shape)
{
    lki_add_scale(node, shape);
    add_of_norm(node, shape, "bias", LKS_INIT_ZEROS);
}

bool lki_looks_ahead(const lki_node *node)
{
    (void)node;
    return true;
}

lks_status lki_infer_numbers(lki_node *node)
{
    const lks_tensor *x = node->in[0], *target = node->in[1];

    if (target->dtype != LKS_F32)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': target '%s' has classes, expected floats; give it a .shape",
                        LKI_NODE(node), target->node->name);
    if (!lki_shape_equal(&x->shape, &target->shape)) {
        char found[128], expected[128];

        return LKI_FAIL(
            LKS_E_SHAPE, "%s '%s': input '%s' is %s, but target '%s' is %s; shapes must be equal",
            LKI_NODE(node), x->node->name, lki_shape_print(&x->shape, found, sizeof found),
            target->node->name, lki_shape_print(&target->shape, expected, sizeof expected));
    }
    return LKS_OK;
}
