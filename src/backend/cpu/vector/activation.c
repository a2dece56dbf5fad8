/* Activations: the functions of activation.h, run over arrays. */
#include "backend/cpu/vector/activation.h"

/*
 * A function in three loops over a piece that stays in the nearest cache: begin(x) of each vector is kept for
 * middle(x, kept), and that for end(x, kept). The operations of one vector wait for each other; a
 * processor finds others to do meanwhile among the next few hundred instructions, which are more
 * vectors where a loop is short. In one loop the functions take up to twice as long.
 */
enum { PIECE = 512 };

#define NO_MIDDLE(x, kept) (kept)

#define FORWARD(name, kept, begin, middle, end)                                                    \
    static void name##_vectors(int64_t count, float constant, const float *in, float *out)         \
    {                                                                                              \
        (void)constant;                                                                            \
        for (kept value[PIECE / LANES]; count > 0; count -= PIECE, in += PIECE, out += PIECE) {    \
            const int64_t some = (count < PIECE ? count : PIECE) / LANES;                          \
            UNROLL_4 for (int64_t v = 0; v < some; v++) value[v] = begin(vf_load(in + v * LANES)); \
            UNROLL_4 for (int64_t v = 0; v < some; v++)                                            \
                value[v] = middle(vf_load(in + v * LANES), value[v]);                              \
            UNROLL_4 for (int64_t v = 0; v < some; v++)                                            \
                vf_store(out + v * LANES, vf_flush(end(vf_load(in + v * LANES), value[v])));       \
        }                                                                                          \
    }

#define BACKWARD(name, kept, begin, middle, end)                                                   \
    static void name##_slopes(int64_t count, float constant, const float *at, const float *d_out,  \
                              float *d_in, bool adds)                                              \
    {                                                                                              \
        (void)constant;                                                                            \
        for (kept value[PIECE / LANES]; count > 0;                                                 \
             count -= PIECE, at += PIECE, d_out += PIECE, d_in += PIECE) {                         \
            const int64_t some = (count < PIECE ? count : PIECE) / LANES;                          \
            UNROLL_4 for (int64_t v = 0; v < some; v++) value[v] = begin(vf_load(at + v * LANES)); \
            UNROLL_4 for (int64_t v = 0; v < some; v++)                                            \
                value[v] = middle(vf_load(at + v * LANES), value[v]);                              \
            UNROLL_4 for (int64_t v = 0; v < some; v++)                                            \
            {                                                                                      \
                const vf slope = vf_flush(end(vf_load(at + v * LANES), value[v]));                 \
                const vf d = vf_load(d_out + v * LANES) * slope;                                   \
                vf_put_result(d_in + v * LANES, d, LANES, adds);                                   \
            }                                                                                      \
        }                                                                                          \
    }

/* Of few operations; the derivative, and what it is made of, is flushed already or never tiny. */
#define BACKWARD_SHORT(name, slope)                                                                \
    static void name##_slopes(int64_t count, float constant, const float *at, const float *d_out,  \
                              float *d_in, bool adds)                                              \
    {                                                                                              \
        const vf c = vf_flush(vf_set(constant));                                                   \
        for (int64_t i = 0; i < count; i += LANES)                                                 \
            vf_put_result(d_in + i, vf_load(d_out + i) * slope(vf_load(at + i), c), LANES, adds);  \
    }

FORWARD(gelu, vf, normal_exponential, normal_tail, gelu_end)
BACKWARD(gelu, pair, gelu_slope_begin, gelu_slope_middle, gelu_slope_end)
FORWARD(gelu_tanh, vf, gelu_tanh_begin, gelu_tanh_middle, gelu_tanh_end)
BACKWARD(gelu_tanh, pair, gelu_tanh_slope_begin, gelu_tanh_slope_middle, gelu_tanh_slope_end)
FORWARD(silu, vf, logistic_begin, NO_MIDDLE, silu_end)
BACKWARD(silu, vf, logistic_begin, NO_MIDDLE, silu_slope_end)
FORWARD(hyperbolic, pair, hyperbolic_begin, hyperbolic_middle, hyperbolic_end)
BACKWARD_SHORT(hyperbolic, hyperbolic_slope)
FORWARD(sigmoid, vf, logistic_begin, NO_MIDDLE, sigmoid_end)
BACKWARD_SHORT(sigmoid, sigmoid_slope)
FORWARD(softplus, pair, softplus_begin, softplus_middle, softplus_end)
BACKWARD(softplus, vf, logistic_begin, NO_MIDDLE, sigmoid_end)
BACKWARD_SHORT(leaky_relu, leaky_relu_slope)

static void relu6_vectors(int64_t count, float constant, const float *in, float *out)
{
    (void)constant;
    for (int64_t i = 0; i < count; i += LANES)
        vf_store(out + i, vf_least(vf_relu_flush(vf_load(in + i)), vf_set(6.0f)));
}

/* As relu's: a gradient passes as it is, or not at all. */
static void relu6_slopes(int64_t count, float constant, const float *at, const float *d_out,
                         float *d_in, bool adds)
{
    (void)constant;
    for (int64_t i = 0; i < count; i += LANES) {
        const vf y = vf_load(at + i),
                 below = vf_blend(vm_gt(vf_set(6.0f), y), vf_load(d_out + i), vf_zero());
        vf_put_result(d_in + i, vf_blend(vm_gt(y, vf_zero()), below, vf_zero()), LANES, adds);
    }
}

static void leaky_relu_vectors(int64_t count, float constant, const float *in, float *out)
{
    const vf c = vf_set(constant);
    for (int64_t i = 0; i < count; i += LANES)
        vf_store(out + i, vf_flush(leaky_relu(vf_load(in + i), c)));
}

/* Functions of whole vectors, run on any number of elements. */
typedef void forward_function(int64_t count, float constant, const float *in, float *out);
typedef void backward_function(int64_t count, float constant, const float *at, const float *d_out,
                               float *d_in, bool adds);

INLINE void run_forward(forward_function *vectors, int64_t count, float constant, const float *in,
                        float *out)
{
    const int64_t rest = count % LANES, whole = count - rest;
    vectors(whole, constant, in, out);
    if (rest > 0) {
        float x[LANES];
        vf_store(x, vf_load_some(in + whole, rest));
        vectors(LANES, constant, x, x);
        vf_store_some(out + whole, vf_load(x), rest);
    }
}

INLINE void run_backward(backward_function *slopes, int64_t count, float constant, const float *at,
                         const float *d_out, float *d_in, bool adds)
{
    const int64_t rest = count % LANES, whole = count - rest;
    slopes(whole, constant, at, d_out, d_in, adds);
    if (rest > 0) {
        float x[LANES], d[LANES], to[LANES] = {0};
        vf_store(x, vf_load_some(at + whole, rest));
        vf_store(d, vf_load_some(d_out + whole, rest));
        if (adds) vf_store(to, vf_load_some(d_in + whole, rest));
        slopes(LANES, constant, x, d, to, adds);
        vf_store_some(d_in + whole, vf_load(to), rest);
    }
}

#define FUNCTION(name)                                                                             \
    static void name##_forward(int64_t count, float constant, const float *in, float *out)         \
    {                                                                                              \
        run_forward(name##_vectors, count, constant, in, out);                                     \
    }                                                                                              \
    static void name##_backward(int64_t count, float constant, const float *at,                    \
                                const float *d_out, float *d_in, bool adds)                        \
    {                                                                                              \
        run_backward(name##_slopes, count, constant, at, d_out, d_in, adds);                       \
    }

FUNCTION(gelu)
FUNCTION(gelu_tanh)
FUNCTION(silu)
FUNCTION(hyperbolic)
FUNCTION(sigmoid)
FUNCTION(softplus)
FUNCTION(relu6)
FUNCTION(leaky_relu)

#define ENTRY(name)                                                                                \
    {                                                                                              \
        name##_forward, name##_backward                                                            \
    }
const lki_vector_activation LKI_ISA_NAME(lki_vector_activation)[LKI_ACTIVATIONS] = {
    [LKI_GELU] = ENTRY(gelu),       [LKI_GELU_TANH] = ENTRY(gelu_tanh),
    [LKI_SILU] = ENTRY(silu),       [LKI_TANH] = ENTRY(hyperbolic),
    [LKI_SIGMOID] = ENTRY(sigmoid), [LKI_SOFTPLUS] = ENTRY(softplus),
    [LKI_RELU6] = ENTRY(relu6),     [LKI_LEAKY_RELU] = ENTRY(leaky_relu),
};
