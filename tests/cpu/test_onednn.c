/*
 * Depthwise convolutions, which are oneDNN's: against the kernels of our own, whose bits are tested,
 * and with scratch full of other things, which may change no bit.
 */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

#include "backend/cpu/onednn.h"

/* All operands and results of one shape. */
typedef struct work {
    lki_conv_shape s;
    int64_t count, x_size, y_size, weights;
    lkt_floats x, w, bias, d_y;
} work;

typedef struct results {
    lkt_floats y, d_x, d_w, d_b;
} results;

static work work_make(lkt_random *random)
{
    const int64_t channels = 8 * lkt_random_from(random, 1, 5);
    work c = {.s = {.groups = channels, .channels = channels, .filters = channels, .bias = true}};
    c.count = (int64_t)1 << lkt_random_below(random, 4);
    for (int i = 0; i < 2; i++) {
        c.s.kernel[i] = lkt_random_from(random, 1, 4);
        c.s.stride[i] = lkt_random_from(random, 1, 3);
        c.s.dilation[i] = lkt_random_from(random, 1, 2);
        c.s.padding[i] = lkt_random_below(random, 3);
        const int64_t seen = c.s.dilation[i] * (c.s.kernel[i] - 1) + 1;
        c.s.in[i] = seen + lkt_random_below(random, 9);
        c.s.out[i] = (c.s.in[i] + 2 * c.s.padding[i] - seen) / c.s.stride[i] + 1;
    }
    c.x_size = c.s.in[0] * c.s.in[1] * channels;
    c.y_size = c.s.out[0] * c.s.out[1] * channels;
    c.weights = channels * c.s.kernel[0] * c.s.kernel[1];
    c.x = lkt_floats_make(random, c.count * c.x_size);
    c.d_y = lkt_floats_make(random, c.count * c.y_size);
    c.w = lkt_floats_make(random, c.weights);
    c.bias = lkt_floats_make(random, channels);
    return c;
}

static results results_make(const work *c, lkt_random *random)
{
    return (results){.y = lkt_floats_make(random, c->count * c->y_size),
                     .d_x = lkt_floats_make(random, c->count * c->x_size),
                     .d_w = lkt_floats_make(random, c->weights),
                     .d_b = lkt_floats_make(random, c->s.filters)};
}

static void results_free(results *r)
{
    lkt_floats_free(&r->y);
    lkt_floats_free(&r->d_x);
    lkt_floats_free(&r->d_w);
    lkt_floats_free(&r->d_b);
}

static void run_ours(const work *c, const lki_vector *v, results *r)
{
    void *packed = lkt_scratch(v->conv->packed_bytes(&c->s));
    void *space = lkt_scratch(v->conv->workspace_bytes(&c->s, c->count));
    v->conv->pack(&c->s, c->w.at, packed, 0, 1);
    v->conv->forward(&c->s, c->count, c->x.at, packed, c->bias.at, false, r->y.at, space);
    v->conv->backward(&c->s, c->count, c->d_y.at, packed, r->d_x.at, false, space);
    void *sums = lkt_scratch(v->conv->sums_bytes(&c->s));
    v->conv->backward_weight(&c->s, c->count,
                             &(lki_conv_gradient){.x = c->x.at,
                                                  .d_y = c->d_y.at,
                                                  .last = true,
                                                  .sums = sums,
                                                  .d_weight = r->d_w.at,
                                                  .d_bias = r->d_b.at,
                                                  .workspace = space});
    free(sums);
    free(packed);
    free(space);
}

/* Scratch is filled with `byte` before each call. */
static void run_library(const work *c, lks_context *context, int byte, results *r)
{
    lki_onednn_conv *conv;
    LKT_OK(lki_onednn_conv_create(&conv, context, &c->s, c->count, true));
    const size_t bytes = lki_onednn_conv_workspace_bytes(conv);
    void *packed = lkt_scratch(lki_onednn_conv_packed_bytes(conv)), *space = lkt_scratch(bytes);
    memset(packed, byte, lki_onednn_conv_packed_bytes(conv));
    for (int part = 0; part < 3; part++) lki_onednn_conv_pack(conv, c->w.at, packed, part, 3);
    memset(space, byte, bytes);
    LKT_OK(lki_onednn_conv_forward(conv, c->count, c->x.at, packed, c->bias.at, r->y.at, space));
    memset(space, byte, bytes);
    LKT_OK(lki_onednn_conv_backward_data(conv, c->count, c->d_y.at, packed, r->d_x.at, space));
    memset(space, byte, bytes);
    LKT_OK(lki_onednn_conv_backward_weight(conv, c->count, c->x.at, c->d_y.at, r->d_w.at, r->d_b.at,
                                           space));
    lki_onednn_conv_destroy(conv);
    free(packed);
    free(space);
}

/* Both are sums of n terms below 1 in absolute value, in f32 in whatever order: each is within
 * n * u * n (1 + n u) of the exact sum, u = 2^-24 (Higham, "Accuracy and Stability of Numerical
 * Algorithms", 4.2). */
static void close_to(const char *what, const lkt_floats *found, const lkt_floats *expected,
                     int64_t terms)
{
    const double n = (double)terms, bound = 2 * n * n * 0x1p-24 * (1 + n * 0x1p-24);
    for (int64_t i = 0; i < found->count; i++)
        if (!(fabs((double)found->at[i] - (double)expected->at[i]) <= bound))
            fail_msg("%s[%lld]: %.9g, ours %.9g", what, (long long)i, (double)found->at[i],
                     (double)expected->at[i]);
}

static void same_bits(const results *a, const results *b, const work *c)
{
    assert_memory_equal(a->y.at, b->y.at, sizeof(float) * (size_t)(c->count * c->y_size));
    assert_memory_equal(a->d_x.at, b->d_x.at, sizeof(float) * (size_t)(c->count * c->x_size));
    assert_memory_equal(a->d_w.at, b->d_w.at, sizeof(float) * (size_t)c->weights);
    assert_memory_equal(a->d_b.at, b->d_b.at, sizeof(float) * (size_t)c->s.filters);
}

static void depthwise(void **state)
{
    lkt_random random = lkt_random_make("depthwise", 90);
    lks_context *context;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    for (int k = 0; k < 40; k++) {
        work c = work_make(&random);
        results ours = results_make(&c, &random), first = results_make(&c, &random);
        results second = results_make(&c, &random);
        const int64_t area = c.s.kernel[0] * c.s.kernel[1];
        const int64_t pixels = c.count * c.s.out[0] * c.s.out[1];
        run_ours(&c, lki_cpu_vector(), &ours);
        run_library(&c, context, 0xff, &first);
        run_library(&c, context, 0x3f, &second);
        same_bits(&first, &second, &c);
        close_to("y", &first.y, &ours.y, area + 1);
        close_to("d_x", &first.d_x, &ours.d_x, area);
        close_to("d_w", &first.d_w, &ours.d_w, pixels);
        close_to("d_b", &first.d_b, &ours.d_b, pixels);
        results_free(&ours);
        results_free(&first);
        results_free(&second);
        lkt_floats_free(&c.x);
        lkt_floats_free(&c.d_y);
        lkt_floats_free(&c.w);
        lkt_floats_free(&c.bias);
    }
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(depthwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
