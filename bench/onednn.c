/* See onednn.h. Differences between 2.x and 3.x of the library end in the first part. */
#include "onednn.h"

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

#include "base/memory.h"

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t owned_desc;
typedef const_dnnl_memory_desc_t desc_ref;
#define DESC_REF(owned) (owned)

static dnnl_status_t desc_make(owned_desc *out, int ndims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(out, ndims, dims, dnnl_f32, tag);
}

static void desc_drop(owned_desc *desc)
{
    if (*desc != NULL) dnnl_memory_desc_destroy(*desc);
}
#else
typedef dnnl_memory_desc_t owned_desc;
typedef const dnnl_memory_desc_t *desc_ref;
#define DESC_REF(owned) (&(owned))

static dnnl_status_t desc_make(owned_desc *out, int ndims, const dnnl_dims_t dims,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(out, ndims, dims, dnnl_f32, tag);
}

static void desc_drop(owned_desc *desc)
{
    (void)desc;
}
#endif

typedef enum direction { FORWARD, DATA, WEIGHT, PASSES } direction;

typedef struct geometry {
    dnnl_dims_t stride, dilation, before, after;
} geometry;

/* The descriptions of a convolution's operands; bias NULL: none. */
typedef struct operands {
    desc_ref x, weight, bias, y;
} operands;

/* `hint` is the forward pass's, NULL for itself. */
static dnnl_status_t describe(dnnl_primitive_desc_t *out, direction pass, dnnl_engine_t engine,
                              const operands *o, const geometry *g, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t hint)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
    if (pass == FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(
            out, engine, dnnl_forward_training, direct, o->x, o->weight, o->bias, o->y, g->stride,
            g->dilation, g->before, g->after, attr);
    if (pass == DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, direct, o->x, o->weight, o->y, g->stride, g->dilation, g->before, g->after,
            hint, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, direct, o->x, o->weight, o->bias, o->y, g->stride, g->dilation, g->before,
        g->after, hint, attr);
#else
    dnnl_convolution_desc_t conv;
    dnnl_status_t status;
    if (pass == FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(
            &conv, dnnl_forward_training, direct, o->x, o->weight, o->bias, o->y, g->stride,
            g->dilation, g->before, g->after);
    else if (pass == DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &conv, direct, o->x, o->weight, o->y, g->stride, g->dilation, g->before, g->after);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &conv, direct, o->x, o->weight, o->bias, o->y, g->stride, g->dilation, g->before,
            g->after);
    if (status != dnnl_success) return status;
    return dnnl_primitive_desc_create(out, &conv, attr, engine, hint);
#endif
}

/* From here on the versions agree. */

/* The OpenMP runtime that the library may be built on, whichever it is; NULL where it is not. */
extern void omp_set_num_threads(int count) __attribute__((weak));

/* The number of OpenMP threads belongs to the calling thread, and the library looks at it whenever
 * it makes or runs something: in every thread of ours it must be one. */
static void be_single(void)
{
    static _Thread_local bool single;
    if (!single && omp_set_num_threads != NULL) omp_set_num_threads(1);
    single = true;
}

static lks_status failed(const char *what, dnnl_status_t status)
{
    return LKI_FAIL(status == dnnl_out_of_memory ? LKS_E_NOMEM : LKS_E_DEVICE,
                    "oneDNN could not %s (its status is %d)", what, (int)status);
}

#define DNNL_TRY(what, expression)                                                                 \
    do {                                                                                           \
        const dnnl_status_t dnnl_status_ = (expression);                                           \
        if (dnnl_status_ != dnnl_success) return failed(what, dnnl_status_);                       \
    } while (0)

enum { MAX_LEVELS = 24 }; /* of pieces: 1, 2, 4, ... */

typedef struct primitive {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t run;
} primitive;

struct onednn_conv {
    lks_context *context;
    lki_conv_shape shape;
    int levels;
    int passes; /* FORWARD, WEIGHT always; DATA as asked */
    dnnl_engine_t engine;
    owned_desc plain; /* the weight as parameters have it */
    primitive pass[PASSES][MAX_LEVELS];
    primitive pack[PASSES]; /* FORWARD, DATA: from plain; WEIGHT: to plain */
    size_t packed_bytes[2]; /* FORWARD, DATA */
    size_t scratch_bytes;
    size_t weight_bytes; /* of a weight gradient in the library's layout */
    char algorithm[40];
};

/* Run with up to 5 arguments; memory objects are the calling thread's own. */
typedef struct argument {
    int id;
    desc_ref desc;
    const void *data;
} argument;

static lks_status execute(const onednn_conv *conv, const primitive *operation,
                          const argument *arguments, int count)
{
    be_single();
    dnnl_exec_arg_t list[5];
    dnnl_stream_t stream = NULL;
    int made = 0;
    dnnl_status_t status = dnnl_stream_create(&stream, conv->engine, dnnl_stream_default_flags);
    for (; made < count && status == dnnl_success; made++) {
        const argument *a = &arguments[made];
        void *data;
        memcpy(&data, &a->data, sizeof data); /* the library takes no const */
        list[made].arg = a->id;
        status = dnnl_memory_create(&list[made].memory, a->desc, conv->engine, data);
        if (status != dnnl_success) break;
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(operation->run, stream, count, list);
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    while (made-- > 0) dnnl_memory_destroy(list[made].memory);
    if (stream != NULL) dnnl_stream_destroy(stream);
    return status == dnnl_success ? LKS_OK : failed("run a convolution", status);
}

static desc_ref md(const primitive *operation, dnnl_query_t what, int index)
{
    return dnnl_primitive_desc_query_md(operation->desc, what, index);
}

static int level_of(int64_t count)
{
    int level = 0;
    while ((int64_t)1 << level < count) level++;
    return level;
}

static const dnnl_query_t weight_query[PASSES] = {dnnl_query_weights_md, dnnl_query_weights_md,
                                                  dnnl_query_diff_weights_md};

/* One direction for one piece. The largest piece, made first, chooses the weight's layout. */
static dnnl_status_t make_operation(onednn_conv *conv, direction pass, int level,
                                    dnnl_primitive_attr_t attr, const operands *o,
                                    const geometry *g)
{
    primitive *to = &conv->pass[pass][level];
    operands mine = *o;
    if (level != conv->levels - 1)
        mine.weight = md(&conv->pass[pass][conv->levels - 1], weight_query[pass], 0);
    const dnnl_status_t status = describe(&to->desc, pass, conv->engine, &mine, g, attr,
                                          pass == FORWARD ? NULL : conv->pass[FORWARD][level].desc);
    if (status != dnnl_success) return status;
    const size_t scratch = dnnl_memory_desc_get_size(md(to, dnnl_query_scratchpad_md, 0));
    if (scratch > conv->scratch_bytes) conv->scratch_bytes = scratch;
    return dnnl_primitive_create(&to->run, to->desc);
}

static void weight_dims(const lki_conv_shape *s, dnnl_dims_t dims, int *ndims)
{
    int n = 0;
    if (s->groups > 1) dims[n++] = s->groups;
    dims[n++] = s->filters / s->groups;
    dims[n++] = s->channels / s->groups;
    dims[n++] = s->kernel[0];
    dims[n++] = s->kernel[1];
    *ndims = n;
}

static geometry geometry_of(const lki_conv_shape *s)
{
    geometry g;
    for (int i = 0; i < 2; i++) {
        g.stride[i] = s->stride[i];
        g.dilation[i] = s->dilation[i] - 1;
        g.before[i] = s->padding[i];
        g.after[i] = (s->out[i] - 1) * s->stride[i] + s->dilation[i] * (s->kernel[i] - 1) + 1 -
                     s->in[i] - s->padding[i];
    }
    return g;
}

/* All passes for pieces of 2^level samples. */
static lks_status make_level(onednn_conv *conv, int level, dnnl_primitive_attr_t attr)
{
    const lki_conv_shape *s = &conv->shape;
    const int64_t count = (int64_t)1 << level;
    const dnnl_dims_t x_dims = {count, s->channels, s->in[0], s->in[1]};
    const dnnl_dims_t y_dims = {count, s->filters, s->out[0], s->out[1]};
    const dnnl_dims_t bias_dims = {s->filters};
    const geometry g = geometry_of(s);
    dnnl_dims_t dims;
    int ndims;
    owned_desc x, y, bias, weight;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    memset(&bias, 0, sizeof bias);
    memset(&weight, 0, sizeof weight);
    weight_dims(s, dims, &ndims);
    dnnl_status_t status = desc_make(&x, 4, x_dims, dnnl_nhwc);
    if (status == dnnl_success) status = desc_make(&y, 4, y_dims, dnnl_nhwc);
    if (status == dnnl_success) status = desc_make(&bias, 1, bias_dims, dnnl_a);
    if (status == dnnl_success) status = desc_make(&weight, ndims, dims, dnnl_format_tag_any);
    const operands o = {.x = DESC_REF(x),
                        .y = DESC_REF(y),
                        .weight = DESC_REF(weight),
                        .bias = s->bias ? DESC_REF(bias) : NULL};
    for (int pass = 0; pass < PASSES && status == dnnl_success; pass++)
        if (conv->passes >> pass & 1)
            status = make_operation(conv, (direction)pass, level, attr, &o, &g);
    desc_drop(&x);
    desc_drop(&y);
    desc_drop(&bias);
    desc_drop(&weight);
    return status == dnnl_success ? LKS_OK : failed("make a convolution", status);
}

/* The change of layout between parameters and one pass. */
static lks_status make_pack(onednn_conv *conv, direction pass, dnnl_primitive_attr_t attr)
{
    const desc_ref layout = md(&conv->pass[pass][conv->levels - 1], weight_query[pass], 0);
    const desc_ref plain = DESC_REF(conv->plain);
    const bool to_plain = pass == WEIGHT;
    primitive *to = &conv->pack[pass];
    DNNL_TRY("describe a change of layout",
             dnnl_reorder_primitive_desc_create(&to->desc, to_plain ? layout : plain, conv->engine,
                                                to_plain ? plain : layout, conv->engine, attr));
    DNNL_TRY("make a change of layout", dnnl_primitive_create(&to->run, to->desc));
    const size_t bytes = lki_align(dnnl_memory_desc_get_size(layout));
    if (to_plain)
        conv->weight_bytes = bytes;
    else
        conv->packed_bytes[pass] = bytes;
    const size_t scratch = dnnl_memory_desc_get_size(md(to, dnnl_query_scratchpad_md, 0));
    if (scratch > conv->scratch_bytes) conv->scratch_bytes = scratch;
    return LKS_OK;
}

static lks_status build(onednn_conv *conv, dnnl_primitive_attr_t attr)
{
    dnnl_dims_t dims;
    int ndims;
    weight_dims(&conv->shape, dims, &ndims);
    DNNL_TRY("use the processor", dnnl_engine_create(&conv->engine, dnnl_cpu, 0));
    DNNL_TRY("describe a weight",
             desc_make(&conv->plain, ndims, dims, ndims == 5 ? dnnl_goihw : dnnl_oihw));
    for (int level = conv->levels - 1; level >= 0; level--) LKI_TRY(make_level(conv, level, attr));
    for (int pass = 0; pass < PASSES; pass++)
        if (conv->passes >> pass & 1) LKI_TRY(make_pack(conv, (direction)pass, attr));
    const char *name = NULL;
    DNNL_TRY("name a convolution",
             dnnl_primitive_desc_query(conv->pass[FORWARD][conv->levels - 1].desc,
                                       dnnl_query_impl_info_str, 0, &name));
    snprintf(conv->algorithm, sizeof conv->algorithm, "oneDNN %s", name);
    conv->scratch_bytes = lki_align(conv->scratch_bytes);
    return LKS_OK;
}

lks_status onednn_conv_create(onednn_conv **out, lks_context *context, const lki_conv_shape *shape,
                              int64_t slice, bool data)
{
    *out = NULL;
    be_single();
    const int levels = level_of(slice) + 1;
    if (levels > MAX_LEVELS)
        return LKI_FAIL(LKS_E_UNSUPPORTED, "a piece has %lld samples, expected at most %lld",
                        (long long)slice, 1LL << (MAX_LEVELS - 1));
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(onednn_conv), "a convolution"));
    onednn_conv *conv = memory;
    *conv = (onednn_conv){.context = context, .shape = *shape, .levels = levels};
    conv->passes = 1 << FORWARD | 1 << WEIGHT | (data ? 1 << DATA : 0);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t made = dnnl_primitive_attr_create(&attr);
    if (made == dnnl_success)
        made = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    lks_status status = made == dnnl_success ? build(conv, attr) : failed("make attributes", made);
    if (attr != NULL) dnnl_primitive_attr_destroy(attr);
    if (status != LKS_OK) {
        const lks_error error = *lks_last_error();
        onednn_conv_destroy(conv);
        lki_error_restore(&error);
        return status;
    }
    *out = conv;
    return LKS_OK;
}

static void drop(primitive *operation)
{
    if (operation->run != NULL) dnnl_primitive_destroy(operation->run);
    if (operation->desc != NULL) dnnl_primitive_desc_destroy(operation->desc);
}

void onednn_conv_destroy(onednn_conv *conv)
{
    if (conv == NULL) return;
    for (int pass = 0; pass < PASSES; pass++) {
        drop(&conv->pack[pass]);
        for (int level = 0; level < conv->levels; level++) drop(&conv->pass[pass][level]);
    }
    desc_drop(&conv->plain);
    if (conv->engine != NULL) dnnl_engine_destroy(conv->engine);
    lki_free(conv->context, conv, sizeof *conv);
}

size_t onednn_conv_packed_bytes(const onednn_conv *conv)
{
    return conv->packed_bytes[FORWARD] + conv->packed_bytes[DATA];
}

/* The scratchpad, then a weight gradient in the library's layout. */
size_t onednn_conv_workspace_bytes(const onednn_conv *conv)
{
    return conv->scratch_bytes + conv->weight_bytes;
}

const char *onednn_conv_algorithm(const onednn_conv *conv)
{
    return conv->algorithm;
}

void onednn_conv_pack(const onednn_conv *conv, const float *weight, void *packed, int part,
                      int parts)
{
    char *to = packed;
    for (int pass = FORWARD; pass <= DATA; to += conv->packed_bytes[pass], pass++) {
        const primitive *pack = &conv->pack[pass];
        if (pack->run == NULL || pass % parts != part) continue;
        const argument list[] = {
            {DNNL_ARG_FROM, DESC_REF(conv->plain), weight},
            {DNNL_ARG_TO, md(pack, dnnl_query_dst_md, 0), to},
        };
        /* Nobody hears of an error here; weights that are NaN stop the run at the next loss. */
        if (execute(conv, pack, list, 2) != LKS_OK) memset(to, 0xff, conv->packed_bytes[pass]);
    }
}

lks_status onednn_conv_forward(const onednn_conv *conv, int64_t count, const float *x,
                               const void *packed, const float *bias, float *y, void *workspace)
{
    const primitive *run = &conv->pass[FORWARD][level_of(count)];
    const argument list[] = {
        {DNNL_ARG_SRC, md(run, dnnl_query_src_md, 0), x},
        {DNNL_ARG_WEIGHTS, md(run, dnnl_query_weights_md, 0), packed},
        {DNNL_ARG_DST, md(run, dnnl_query_dst_md, 0), y},
        {DNNL_ARG_SCRATCHPAD, md(run, dnnl_query_scratchpad_md, 0), workspace},
        {DNNL_ARG_BIAS, bias != NULL ? md(run, dnnl_query_weights_md, 1) : NULL, bias},
    };
    return execute(conv, run, list, bias != NULL ? 5 : 4);
}

lks_status onednn_conv_backward_data(const onednn_conv *conv, int64_t count, const float *d_y,
                                     const void *packed, float *d_x, void *workspace)
{
    const primitive *run = &conv->pass[DATA][level_of(count)];
    const argument list[] = {
        {DNNL_ARG_DIFF_DST, md(run, dnnl_query_diff_dst_md, 0), d_y},
        {DNNL_ARG_WEIGHTS, md(run, dnnl_query_weights_md, 0),
         (const char *)packed + conv->packed_bytes[FORWARD]},
        {DNNL_ARG_DIFF_SRC, md(run, dnnl_query_diff_src_md, 0), d_x},
        {DNNL_ARG_SCRATCHPAD, md(run, dnnl_query_scratchpad_md, 0), workspace},
    };
    return execute(conv, run, list, 4);
}

lks_status onednn_conv_backward_weight(const onednn_conv *conv, int64_t count, const float *x,
                                       const float *d_y, float *d_weight, float *d_bias,
                                       void *workspace)
{
    const primitive *run = &conv->pass[WEIGHT][level_of(count)];
    char *own = (char *)workspace + conv->scratch_bytes;
    const argument list[] = {
        {DNNL_ARG_SRC, md(run, dnnl_query_src_md, 0), x},
        {DNNL_ARG_DIFF_DST, md(run, dnnl_query_diff_dst_md, 0), d_y},
        {DNNL_ARG_DIFF_WEIGHTS, md(run, dnnl_query_diff_weights_md, 0), own},
        {DNNL_ARG_SCRATCHPAD, md(run, dnnl_query_scratchpad_md, 0), workspace},
        {DNNL_ARG_DIFF_BIAS, d_bias != NULL ? md(run, dnnl_query_diff_weights_md, 1) : NULL,
         d_bias},
    };
    LKI_TRY(execute(conv, run, list, d_bias != NULL ? 5 : 4));
    const primitive *unpack = &conv->pack[WEIGHT];
    const argument change[] = {
        {DNNL_ARG_FROM, md(unpack, dnnl_query_src_md, 0), own},
        {DNNL_ARG_TO, DESC_REF(conv->plain), d_weight},
        {DNNL_ARG_SCRATCHPAD, md(unpack, dnnl_query_scratchpad_md, 0), workspace},
    };
    return execute(conv, unpack, change, 3);
}
