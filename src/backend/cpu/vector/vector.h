/*
 * The kernels that are written once and compiled for every instruction set: a table of each set's
 * functions. Counts are elements, arrays need no alignment unless said, and an element's bits
 * depend neither on the range it is computed in, nor on alignment, nor on the instruction set.
 */
#ifndef LKI_CPU_VECTOR_VECTOR_H
#define LKI_CPU_VECTOR_VECTOR_H

#include "core/backend.h"
#include "numeric/random.h"

/* element.c, update.c, dropout.c */
typedef struct lki_vector_element {
    void (*add)(int64_t count, float *left, const float *right);
    void (*update)(const lki_update *update, int64_t count, float *w,
                   float *const state[LKI_MAX_STATES], const float *sums);
    void (*approach)(int64_t count, float part, float *left, const float *right);
    double (*dot)(int64_t count, const float *a, const float *b);
    void (*direction)(const lki_update *update, int64_t count, const float *w,
                      float *const state[LKI_MAX_STATES], float *gradient,
                      double sum[LKI_ROW_SUMS]);
    /* To the nearest bfloat16 (numeric/bf16.h), and back. */
    void (*pack)(int64_t count, const float *from, uint16_t *to);
    void (*unpack)(int64_t count, const uint16_t *from, float *to);
    void (*sum)(int64_t count, const float *a, const float *b, float *out);
    /* d_in = d_out, or d_in += d_out. */
    void (*pass)(int64_t count, const float *d_out, float *d_in, bool add);
    /* 0 for NaN. */
    void (*relu)(int64_t count, const float *in, float *out);
    /* The gradient where out > 0, else 0. */
    void (*relu_backward)(int64_t count, const float *out, const float *d_out, float *d_in,
                          bool add);
    /* A matrix [rows][columns] from rows that lie in_stride apart to rows out_stride apart; or it is
     * added to what is there. */
    void (*move)(int64_t rows, int64_t columns, const float *in, int64_t in_stride, float *out,
                 int64_t out_stride, bool add);
    /* out[c][r] = in[r][c], or += . */
    void (*transpose)(int64_t rows, int64_t columns, const float *in, float *out, bool add);
    /* out = e^(in - from), which is not above 1 but for rounding; below e^-200 it is 0. */
    void (*shares)(int64_t count, const float *in, double from, double *out);
    /* Their sum: element i in lane i mod 8, lanes added as those of dot. */
    double (*sum_shares)(int64_t count, const float *in, double from);
    /* out = factor * (e^(in - from) - rest), in double, rounded once, or += . */
    void (*answers)(int64_t count, double factor, double rest, const float *in, double from,
                    float *out, bool add);
    /* The largest; NaN only where that is the first. */
    float (*most)(int64_t count, const float *in);
    /* The sum of h(a - b): element i in lane i mod 8, lanes added as those of dot. h(d) = m (|d| - m/2), m the smaller of |d|
     * and limit, which may be infinite; or |d|, where limit is 0. */
    double (*lengths)(int64_t count, double limit, const float *a, const float *b);
    /* out = h'(a - b) * factor in double, rounded once, or += ; of |d| the sign, 0 for 0. NaN stays. */
    void (*slopes)(int64_t count, double factor, double limit, const float *a, const float *b,
                   float *out, bool add);
} lki_vector_element;

/* activation.c; errors are stated there. */
typedef enum lki_activation {
    LKI_GELU,
    LKI_GELU_TANH,
    LKI_SILU,
    LKI_TANH,
    LKI_SIGMOID,
    LKI_SOFTPLUS,
    LKI_RELU6,
    LKI_LEAKY_RELU,
    LKI_ACTIVATIONS
} lki_activation;

typedef struct lki_vector_activation {
    /* `constant`: leaky_relu's slope; others leave it alone. */
    void (*forward)(int64_t count, float constant, const float *in, float *out);
    /* d_in = d_out * derivative, or += . `at` is out for tanh, sigmoid, relu6 and leaky_relu, else in. */
    void (*backward)(int64_t count, float constant, const float *at, const float *d_out,
                     float *d_in, bool add);
} lki_vector_activation;

/* product.c: matrices are [rows][columns], vectors have a value for each column. */
typedef struct lki_vector_product {
    /* out = in * factor, or += ; out = a * b, or += . */
    void (*scale)(int64_t count, float factor, const float *in, float *out, bool add);
    void (*product)(int64_t count, const float *a, const float *b, float *out, bool add);
    /* Each row: out = in + vector; out = in * vector, or += . */
    void (*rows_plus)(int64_t rows, int64_t columns, const float *in, const float *vector,
                      float *out);
    void (*rows_times)(int64_t rows, int64_t columns, const float *in, const float *vector,
                       float *out, bool add);
    /* out[c] = the sum over rows of in, or of a * b, in double; or that is added to out. */
    void (*column_sums)(int64_t rows, int64_t columns, const float *in, float *out, bool add);
    void (*column_products)(int64_t rows, int64_t columns, const float *a, const float *b,
                            float *out, bool add);
} lki_vector_product;

typedef struct lki_vector_dropout {
    /* What lki_bernoulli_draw() writes, bit for bit. */
    void (*draw)(const lki_bernoulli *event, uint64_t key, uint64_t step, uint32_t position,
                 int64_t first, int64_t count, uint8_t *out);
    /* out = 0 where dropped, else in * scale; or that is added to out. */
    void (*apply)(int64_t count, const uint8_t *dropped, float scale, const float *in, float *out,
                  bool add);
} lki_vector_dropout;

/* pool.c: one image, NHWC. Windows count rows, then columns. */
typedef struct lki_pool_shape {
    int64_t in_rows, in_columns, channels, out_rows, out_columns;
    int64_t kernel[2], stride[2], padding[2];
    bool exclude_padding; /* means: divide by the number of pixels in the image */
} lki_pool_shape;

typedef struct lki_vector_pool {
    /* `where`: the place in its window of each output's maximum; the first of equals. */
    void (*max_forward)(const lki_pool_shape *shape, const float *in, float *out, uint16_t *where);
    /* `add`: d_in has what is added to. */
    void (*max_backward)(const lki_pool_shape *shape, const uint16_t *where, const float *d_out,
                         float *d_in, bool add);
    void (*mean_forward)(const lki_pool_shape *shape, const float *in, float *out);
    void (*mean_backward)(const lki_pool_shape *shape, const float *d_out, float *d_in, bool add);
} lki_vector_pool;

/* norm.c: a matrix [rows][columns], statistics by column. Sums are added to what is there. */
typedef struct lki_norm_moments {
    const float *pivot;   /* the replica's first value of each column: the first row may be it */
    double *sum, *square; /* of x - pivot; of its squares */
} lki_norm_moments;

typedef struct lki_norm_apply {
    const float *x, *mean, *scale, *shift;
    const float *side; /* added; NULL: none */
    bool relu;
    float most; /* of relu's output: 6 for relu6; 0: it has no limit */
    float *out;
} lki_norm_apply;

/* Behind relu, d counts as d_out where relu's output is positive and below `most`, else as 0. What that is follows
 * from `out`, or, where nothing stands between, from x, scale and shift. All of them NULL: no relu. */
typedef struct lki_norm_products {
    const float *x, *mean, *d_out;
    const float *out, *scale, *shift;
    float most;
    double *sum_d, *sum_dx;
    float *d_side; /* the gradient of `side`, written or added to; NULL: not wanted */
    bool add;
} lki_norm_products;

typedef struct lki_norm_backward {
    const float *x, *d_out, *mean, *scale, *level, *slope;
    const float *out, *shift; /* of relu, as above */
    float most;
    float *d_in;
} lki_norm_backward;

typedef struct lki_vector_norm {
    /* Rows lie `stride` apart. */
    void (*moments)(int64_t rows, int64_t columns, int64_t stride, const float *x,
                    const lki_norm_moments *operands);
    /* out = relu((x - mean) * scale + shift + side) */
    void (*apply)(int64_t rows, int64_t columns, const lki_norm_apply *operands);
    /* sums of d and of d * (x - mean) */
    void (*products)(int64_t rows, int64_t columns, const lki_norm_products *operands);
    /* d_in = scale * (d - level - (x - mean) * slope), or += . */
    void (*backward)(int64_t rows, int64_t columns, const lki_norm_backward *operands, bool add);
} lki_vector_norm;

/* layer_norm.c: one row of `count` values. Moments are its mean and 1 / sqrt(variance + epsilon);
 * z = (x - mean) * inverse. A weight of NULL counts as ones, with no bias. */
typedef struct lki_layer_norm_row {
    const float *x, *d_out, *weight, *moments;
    bool about_zero; /* the mean is 0 whatever x is: rms norm */
} lki_layer_norm_row;

typedef struct lki_vector_layer_norm {
    void (*measure)(int64_t count, const float *x, double epsilon, float *moments);
    /* The mean is 0, and the variance the mean of squares. */
    void (*root)(int64_t count, const float *x, double epsilon, float *moments);
    /* out = z * weight + bias, whose bias may be NULL */
    void (*forward)(int64_t count, const float *x, const float *moments, const float *weight,
                    const float *bias, float *out);
    /* With g = d_out * weight: d_in = (g - mean of g - z * mean of g z) * inverse, or += ; about zero without the former mean. */
    void (*backward)(int64_t count, const lki_layer_norm_row *row, float *d_in, bool add);
    /* weight += d_out * z, bias += d_out */
    void (*products)(int64_t count, const lki_layer_norm_row *row, double *weight, double *bias);
} lki_vector_layer_norm;

/* recurrent.c: a row of `hidden` units, gates one behind the other. */
typedef struct lki_recurrent_row {
    const float *gates; /* behind their functions */
    const float *kept;  /* tanh of the cell; of gru: q of n */
    const float *past;  /* the cell of the position before; of gru: the state */
    const float *d_h;
    float *
        carried; /* gradient of the cell: this one's, then that of the one before. Of gru, written: what of the gradient
                       of the state before does not go through q */
} lki_recurrent_row;

typedef struct lki_vector_recurrent {
    /* cell = f past + i g */
    void (*lstm_cell)(int64_t hidden, const float *gates, const float *past, float *cell);
    void (*lstm_backward)(int64_t hidden, const lki_recurrent_row *row, float *d_p);
    /* p += r q, of n; and h = n + z (past - n) */
    void (*gru_new)(int64_t hidden, const float *r, const float *q, float *p);
    void (*gru_state)(int64_t hidden, const float *gates, const float *past, float *h);
    void (*gru_backward)(int64_t hidden, const lki_recurrent_row *row, float *d_p, float *d_q);
} lki_vector_recurrent;

/* attention/: a head of a sample. Rows of q, k and v, [width] each, lie `row` floats apart. */
typedef struct lki_attention_head {
    const float *q, *k, *v;
    void *
        cache; /* of cache_bytes, where keys and values stay from call to call; NULL: in the workspace */
    int64_t row;
    int64_t positions, width;
    float scale;
    bool causal;
    /* Of each key, up to a whole block: its number in its block of 64, or 64, where it takes no part. NULL: those below
     * `positions` do. */
    const float *number;
    const float *cosine,
        *sine; /* of rotary positions, [positions][width / 2]; NULL: they are not turned */
    /* Dropout of weights: NULL: none. Element (row i, key j) has the number first + i positions + j. */
    const lki_bernoulli *drop;
    uint64_t key, step;
    uint32_t position;
    int64_t first;
    float keep; /* what is left is multiplied by this; 1 without dropout */
} lki_attention_head;

typedef struct lki_vector_attention {
    size_t (*forward_bytes)(int64_t positions, int64_t width);
    size_t (*backward_bytes)(int64_t positions, int64_t width);
    size_t (*cache_bytes)(int64_t positions, int64_t width);
    /* The keys and values of a head, which several heads may have in common: rows [first, last), behind those that are
     * there. head->k and v begin with row `first`. */
    void (*forward_begin)(const lki_attention_head *head, int64_t first, int64_t last,
                          void *workspace);
    /* Rows [first, last) of a head: head->q, out, most and inverse begin with row `first`. Of each: y, the largest score,
     * 0 of a row that sees no key, and the inverse of the sum of exponentials (0); most and inverse may be NULL. */
    void (*forward)(const lki_attention_head *head, int64_t first, int64_t last, float *out,
                    int64_t out_row, float *most, float *inverse, void *workspace);
    /* Backward of a kv head: begin, each of its heads, end. out, most and inverse are what forward wrote. */
    void (*backward_begin)(const lki_attention_head *head, void *workspace);
    void (*backward)(const lki_attention_head *head, const float *out, const float *d_out,
                     int64_t out_row, const float *most, const float *inverse, float *d_q, bool add,
                     void *workspace);
    void (*backward_end)(const lki_attention_head *head, float *d_k, float *d_v, bool add,
                         void *workspace);
} lki_vector_attention;

/* What multiplies numbers that are bfloat16: multiply-adds of f32, AVX-512's products of pairs, or AMX. */
typedef enum lki_bf16_unit { LKI_BF16_VECTORS, LKI_BF16_PAIRS, LKI_BF16_MATRIX } lki_bf16_unit;

/* dense.c, masks.c, rows.c */
typedef struct lki_dense_shape {
    int64_t inputs, units;
    bool bias;
    bool masks;        /* most of x is exact zeros, where no gradient matters: masks.h */
    bool forward_only; /* f32 without masks: the weight is packed for forward alone */
    int part, parts;   /* forward forms one of so many parts of y; 0, 0: all of it */
    /* f32 without masks, not narrow: sums are in runs of so many terms, each numbered from 0 (tile.h); 0: in one. */
    int64_t run[2];
    const int32_t *added; /* by rows: lists of places in lki_rows.added (dense.c) */
    int64_t positions;    /* of a sample: rows of x and d_y, for gradients by rows; 0: 1 */
    bool bf16;            /* factors are rounded to bfloat16; without masks */
    lki_bf16_unit unit;   /* by this */
} lki_dense_shape;

typedef struct lki_vector_dense {
    size_t (*packed_bytes)(const lki_dense_shape *shape);
    /* Units [first, first + count) of the weight for both passes, cut as lki_kernel.pack says. `packed` is aligned to 64. */
    void (*pack)(const lki_dense_shape *shape, const float *weight, void *packed, int64_t first,
                 int64_t count);
    /* Of forward and backward, for calls of at most so many rows. */
    size_t (*workspace_bytes)(const lki_dense_shape *shape, int64_t rows);
    /* bias may be NULL */
    void (*forward)(const lki_dense_shape *shape, int64_t rows, const float *x, const void *packed,
                    const float *bias, float *y, void *workspace);
    /* With masks, d_x is 0 where x is; else x is not read. */
    void (*backward)(const lki_dense_shape *shape, int64_t rows, const float *x, const float *d_y,
                     const void *packed, float *d_x, bool add, void *workspace);
    /* lki_kernel.rows; its workspace has rows_bytes. */
    size_t (*rows_bytes)(void);
    void (*rows)(const lki_dense_shape *shape, const lki_rows *rows);
} lki_vector_dense;

/* conv.c, conv_weight.c */
/* A convolution of one sample, NHWC; weights are [filters][channels / groups][kernel]. */
typedef struct lki_conv_shape {
    int64_t groups, channels, filters;
    int64_t in[2], out[2]; /* rows, columns */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    /* Taps of the weight in front of and behind the kernel's along each axis that never meet the image and are left
     * out: `kernel` and `padding` are without them. For `conv` alone, 0 elsewhere. */
    int64_t before[2], behind[2];
    bool bias;
    /* F(2 x 2, 3 x 3), F(4 x 4, 3 x 3) or F(2 x 2, 5 x 5): 2 or 4, of 3 x 3 and 5 x 5 kernels with stride 1, one
     * group and no dilation; 0: direct. */
    int winograd;
    /* NULL: x is floats. Else bytes, and table[c][b] is the number for byte b in channel c: for `first`. */
    const float (*table)[256];
    int64_t
        share; /* the most samples of a replica, which says what its sums wait in; 0: any number */
    bool frugal; /* large weights are not packed where they can be formed when a pass wants them */
    int part, parts; /* forward forms one of so many parts of y; 0, 0: all of it */
    int64_t run
        [2]; /* terms that sums of forward, backward are in runs of, each numbered from 0: tile.h; 0: one */
    bool bf16;          /* factors are rounded to bfloat16; of one group */
    lki_bf16_unit unit; /* by this */
} lki_conv_shape;

/* A piece of a replica's samples, for the gradient of the weight. */
typedef struct lki_conv_gradient {
    const float *x, *d_y;
    const float
        *y; /* behind relu, where it is not positive d_y counts as 0; NULL: no relu; for Winograd's
                       and depthwise ones always */
    int64_t sample;           /* number of the first in the replica */
    bool last;                /* the gradient is complete, and written */
    void *sums;               /* of all pieces, undefined at the first */
    float *d_weight, *d_bias; /* d_bias may be NULL, for all pieces */
    void *workspace;
} lki_conv_gradient;

/* Where the sum of a convolution has more terms, channels are cut into blocks of nearly equal size, whose panels stay in
 * the second-level cache: a rule of the shape. Of how many of `depth` channels under so many taps. */
enum { LKI_CONV_BLOCK_TERMS = 2560 };
static inline int64_t lki_conv_block(int64_t taps, int64_t depth)
{
    const int64_t most = LKI_CONV_BLOCK_TERMS / taps < 8 ? 8 : LKI_CONV_BLOCK_TERMS / taps;
    const int64_t blocks = (depth + most - 1) / most;
    return blocks == 1 ? depth : (depth + blocks - 1) / blocks;
}

/* A weight and what `pack` has made of it for both passes, aligned to 64: all of it, or what is not formed in the caches
 * from the weight itself when a pass wants it. */
typedef struct lki_conv_weight {
    const float *plain;
    const void *packed;
} lki_conv_weight;

typedef struct lki_vector_conv {
    /* Part `part` of `parts`. */
    size_t (*packed_bytes)(const lki_conv_shape *shape);
    void (*pack)(const lki_conv_shape *shape, const float *weight, void *packed, int part,
                 int parts);
    /* For calls of at most `count` samples; enough for every function here. */
    size_t (*workspace_bytes)(const lki_conv_shape *shape, int64_t count);
    size_t (*sums_bytes)(const lki_conv_shape *shape);
    /* bias may be NULL; relu is applied to y. */
    void (*forward)(const lki_conv_shape *shape, int64_t count, const float *x,
                    lki_conv_weight weight, const float *bias, bool relu, float *y,
                    void *workspace);
    /* The same without relu, and the moments of y's columns (norm.c). */
    void (*forward_moments)(const lki_conv_shape *shape, int64_t count, const float *x,
                            lki_conv_weight weight, const float *bias, float *y,
                            const lki_norm_moments *moments, void *workspace);
    void (*backward)(const lki_conv_shape *shape, int64_t count, const float *d_y,
                     lki_conv_weight weight, float *d_x, bool add, void *workspace);
    void (*backward_weight)(const lki_conv_shape *shape, int64_t count,
                            const lki_conv_gradient *operands);
} lki_vector_conv;

/* block.c: convolution (stride 1, no dilation, one group) + bias + activation + max-pooling of one image with its border.
 * Pooled values are [rows][columns][filters]. Behind the image are lki_block_slack() floats, any but denormals. */
typedef struct lki_block_shape {
    int64_t in_rows, in_columns, channels;
    int64_t kernel[2];
    int64_t filters;
    int64_t rows, columns; /* pooled */
    int64_t window, step;  /* of the pool: 2, 2; 3, 2; 3, 3 */
    int winograd;          /* forward, as in lki_conv_shape */
    int part, parts;       /* likewise */
} lki_block_shape;

enum { LKI_BLOCK_OFF = 16 }; /* in `where`, a bit: this unit passes no gradient on */

/* Bytes of `where` for a pooled pixel: as are read at once. */
static inline int64_t lki_block_where_of(int64_t filters)
{
    return (filters + 31) / 32 * 32;
}
static inline int64_t lki_block_where(const lki_block_shape *s)
{
    return lki_block_where_of(s->filters);
}
static inline int64_t lki_block_slack(const lki_block_shape *s)
{
    const bool whole = s->channels % 16 == 0 && ((s->columns - 1) * s->step + s->window) % 2 == 0;
    return whole ? 0 : s->channels + 16;
}

typedef struct lki_block_backward {
    const float *x;
    const uint8_t *where; /* [rows][columns][lki_block_where()] */
    const float *d_out;
    float scale; /* times d_out: the gradient of a pooled value */
    const void *packed;
    int64_t sample; /* number of the image in the replica */
    void *sums;     /* of all images, undefined at the first; NULL: no gradients of parameters */
    float *d_x;     /* added to, with slack as x; NULL: not wanted */
    void *workspace;
} lki_block_backward;

typedef struct lki_vector_block {
    size_t (*packed_bytes)(const lki_block_shape *shape);
    /* Both packings of the weight; part `part` of `parts`. */
    void (*pack)(const lki_block_shape *shape, const float *weight, void *packed, int part,
                 int parts);
    size_t (*workspace_bytes)(const lki_block_shape *shape);
    size_t (*sums_bytes)(const lki_block_shape *shape);
    /* `where`: the place of the maximum in its window, row by row, the first of equals, or LKI_BLOCK_OFF where relu is 0.
     * bias may be NULL. `least` NULL: relu; else no activation: also the least values, their places times 16 in `where`. */
    void (*forward)(const lki_block_shape *shape, const float *x, const void *packed,
                    const float *bias, float *out, float *least, uint8_t *where, void *workspace);
    /* Then of filters [begin, end): the larger stays in `out`, where an activation made it of `in`, the largest values,
     * and `other` of the least; what it was made of stays in `in`, its place in `where`. */
    void (*choose)(const lki_block_shape *shape, int64_t begin, int64_t end, float *out,
                   const float *other, float *in, const float *least, uint8_t *where);
    void (*backward)(const lki_block_shape *shape, const lki_block_backward *operands);
    /* Gradients of a replica of so many images: of the weight, [filters][kernel rows][kernel columns][channels],
     * and behind it of the bias; they lie in `sums`. */
    const float *(*gradient)(const lki_block_shape *shape, int64_t samples, void *sums);
} lki_vector_block;

typedef struct lki_vector {
    const char *name; /* "avx2" */
    int lanes;
    const lki_vector_element *element;
    const lki_vector_activation *activation; /* by lki_activation */
    const lki_vector_product *product;
    const lki_vector_dropout *dropout;
    const lki_vector_pool *pool;
    const lki_vector_norm *norm;
    const lki_vector_layer_norm *layer_norm;
    const lki_vector_recurrent *recurrent;
    const lki_vector_attention *attention;
    const lki_vector_dense *dense;
    const lki_vector_dense *dense_bf16; /* of shapes that name it */
    const lki_vector_block *block;
    const lki_vector_conv *conv;
    const lki_vector_conv *first;     /* of one group, with few channels: lki_conv_is_first() */
    const lki_vector_conv *depthwise; /* of groups == channels == filters */
    const lki_vector_conv *winograd;  /* of shapes that name it, */
    const lki_vector_conv *bf16;      /* likewise */
    lki_bf16_unit unit;               /* for products of bfloat16 */
} lki_vector;

#endif
