/* See onednn.h. Differences between 2.x and 3.x of the library end in the first part. */
#include "onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

/* Of an operation; the same for all passes. */
typedef struct question {
    onednn_pass pass;
    onednn_kind kind;
    dnnl_dims_t stride, dilation, before, after;
} question;

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
    dnnl_memory_desc_destroy(*desc);
}

/* md: x, weight, bias, y. `hint` is the forward pass's, NULL for itself. */
static dnnl_status_t describe(dnnl_primitive_desc_t *out, const question *q, dnnl_engine_t engine,
                              const owned_desc md[4], dnnl_primitive_desc_t hint)
{
    const dnnl_prop_kind_t way = dnnl_forward_training;
    const dnnl_alg_kind_t algorithm = q->kind == ONEDNN_WINOGRAD ? dnnl_convolution_winograd
                                                                 : dnnl_convolution_direct;
    if (q->kind == ONEDNN_DENSE && q->pass == ONEDNN_FORWARD)
        return dnnl_inner_product_forward_primitive_desc_create(out, engine, way, md[0], md[1],
                                                                md[2], md[3], NULL);
    if (q->kind == ONEDNN_DENSE && q->pass == ONEDNN_DATA)
        return dnnl_inner_product_backward_data_primitive_desc_create(out, engine, md[0], md[1],
                                                                      md[3], hint, NULL);
    if (q->kind == ONEDNN_DENSE)
        return dnnl_inner_product_backward_weights_primitive_desc_create(out, engine, md[0], md[1],
                                                                         md[2], md[3], hint, NULL);
    if (q->pass == ONEDNN_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(
            out, engine, way, algorithm, md[0], md[1], md[2], md[3], q->stride, q->dilation,
            q->before, q->after, NULL);
    if (q->pass == ONEDNN_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, algorithm, md[0], md[1], md[3], q->stride, q->dilation, q->before,
            q->after, hint, NULL);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, algorithm, md[0], md[1], md[2], md[3], q->stride, q->dilation, q->before,
        q->after, hint, NULL);
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

static dnnl_status_t describe_dense(dnnl_primitive_desc_t *out, const question *q,
                                    dnnl_engine_t engine, const owned_desc md[4],
                                    dnnl_primitive_desc_t hint)
{
    dnnl_inner_product_desc_t dense;
    const dnnl_status_t status =
        q->pass == ONEDNN_FORWARD
            ? dnnl_inner_product_forward_desc_init(&dense, dnnl_forward_training, &md[0], &md[1],
                                                   &md[2], &md[3])
        : q->pass == ONEDNN_DATA
            ? dnnl_inner_product_backward_data_desc_init(&dense, &md[0], &md[1], &md[3])
            : dnnl_inner_product_backward_weights_desc_init(&dense, &md[0], &md[1], &md[2], &md[3]);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(out, &dense, NULL, engine, hint);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, const question *q, dnnl_engine_t engine,
                              const owned_desc md[4], dnnl_primitive_desc_t hint)
{
    const dnnl_alg_kind_t algorithm = q->kind == ONEDNN_WINOGRAD ? dnnl_convolution_winograd
                                                                 : dnnl_convolution_direct;
    dnnl_convolution_desc_t conv;
    if (q->kind == ONEDNN_DENSE) return describe_dense(out, q, engine, md, hint);
    const dnnl_status_t status =
        q->pass == ONEDNN_FORWARD
            ? dnnl_dilated_convolution_forward_desc_init(&conv, dnnl_forward_training, algorithm,
                                                         &md[0], &md[1], &md[2], &md[3], q->stride,
                                                         q->dilation, q->before, q->after)
        : q->pass == ONEDNN_DATA
            ? dnnl_dilated_convolution_backward_data_desc_init(&conv, algorithm, &md[0], &md[1],
                                                               &md[3], q->stride, q->dilation,
                                                               q->before, q->after)
            : dnnl_dilated_convolution_backward_weights_desc_init(&conv, algorithm, &md[0], &md[1],
                                                                  &md[2], &md[3], q->stride,
                                                                  q->dilation, q->before, q->after);
    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(out, &conv, NULL, engine, hint);
}
#endif

/* From here on the versions agree. */

/* The OpenMP runtime that the library may be built on, whichever it is; NULL where it is not. */
extern void omp_set_num_threads(int count) __attribute__((weak));

struct onednn_layer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t desc, hint;
    dnnl_primitive_t run, unpack;
    dnnl_memory_t memory[4], plain;
    dnnl_exec_arg_t list[4], change[2];
    int count; /* of list */
    const char *name;
};

const char *onednn_version(void)
{
    static char text[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

static question question_of(const lki_conv_shape *s, onednn_pass pass, onednn_kind kind)
{
    question q = {.pass = pass, .kind = kind};
    for (int i = 0; i < 2; i++) {
        q.stride[i] = s->stride[i];
        q.dilation[i] = s->dilation[i] - 1;
        q.before[i] = s->padding[i];
        q.after[i] = (s->out[i] - 1) * s->stride[i] + s->dilation[i] * (s->kernel[i] - 1) + 1 -
                     s->in[i] - s->padding[i];
    }
    return q;
}

static void describe_operands(const lki_conv_shape *s, int64_t count, onednn_kind kind,
                              owned_desc md[4], owned_desc *plain)
{
    const bool dense = kind == ONEDNN_DENSE, grouped = s->groups > 1;
    const dnnl_format_tag_t any = dnnl_format_tag_any;
    const dnnl_format_tag_t tag = kind == ONEDNN_WINOGRAD ? any : dense ? dnnl_ab : dnnl_nhwc;
    const int axes = dense ? 2 : grouped ? 5 : 4;
    const dnnl_dims_t x = {count, s->channels, s->in[0], s->in[1]};
    const dnnl_dims_t y = {count, s->filters, s->out[0], s->out[1]}, bias = {s->filters};
    dnnl_dims_t weight = {s->groups};
    const int at = grouped;
    weight[at] = s->filters / s->groups;
    weight[at + 1] = s->channels / s->groups;
    weight[at + 2] = s->kernel[0];
    weight[at + 3] = s->kernel[1];
    const dnnl_status_t made[] = {
        desc_make(&md[0], dense ? 2 : 4, x, tag), desc_make(&md[1], axes, weight, any),
        desc_make(&md[2], 1, bias, dnnl_a), desc_make(&md[3], dense ? 2 : 4, y, tag),
        desc_make(plain, axes, weight,
                  dense     ? dnnl_ab
                  : grouped ? dnnl_goihw
                            : dnnl_oihw)};
    for (int i = 0; i < 5; i++)
        if (made[i] != dnnl_success) abort();
}

/* Memory of the library's own, with numbers in it. */
static dnnl_memory_t fill(onednn_layer *l, desc_ref desc)
{
    dnnl_memory_t memory;
    void *data;
    if (dnnl_memory_create(&memory, desc, l->engine, DNNL_MEMORY_ALLOCATE) != dnnl_success ||
        dnnl_memory_map_data(memory, &data) != dnnl_success)
        abort();
    float *values = data;
    for (size_t i = 0; i < dnnl_memory_desc_get_size(desc) / sizeof(float); i++)
        values[i] = (float)((i * 2654435761u >> 7) % 1000) * 1e-3f;
    if (dnnl_memory_unmap_data(memory, data) != dnnl_success) abort();
    return memory;
}

static void attach(onednn_layer *l, int argument, dnnl_query_t what, int index)
{
    const int at = l->count++;
    l->memory[at] = fill(l, dnnl_primitive_desc_query_md(l->desc, what, index));
    l->list[at] = (dnnl_exec_arg_t){.arg = argument, .memory = l->memory[at]};
}

/* The gradient of the weight into the order of parameters. */
static void make_unpack(onednn_layer *l, desc_ref plain)
{
    const desc_ref own = dnnl_primitive_desc_query_md(l->desc, dnnl_query_diff_weights_md, 0);
    dnnl_primitive_desc_t desc;
    l->plain = fill(l, plain);
    if (dnnl_reorder_primitive_desc_create(&desc, own, l->engine, plain, l->engine, NULL) !=
            dnnl_success ||
        dnnl_primitive_create(&l->unpack, desc) != dnnl_success)
        abort();
    dnnl_primitive_desc_destroy(desc);
    l->change[0] = (dnnl_exec_arg_t){.arg = DNNL_ARG_FROM, .memory = l->memory[1]};
    l->change[1] = (dnnl_exec_arg_t){.arg = DNNL_ARG_TO, .memory = l->plain};
}

static void attach_all(onednn_layer *l, onednn_pass pass)
{
    if (pass != ONEDNN_DATA) attach(l, DNNL_ARG_SRC, dnnl_query_src_md, 0);
    if (pass == ONEDNN_WEIGHT) {
        attach(l, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0);
        attach(l, DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1);
    } else {
        attach(l, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0);
    }
    if (pass == ONEDNN_FORWARD) {
        attach(l, DNNL_ARG_BIAS, dnnl_query_weights_md, 1);
        attach(l, DNNL_ARG_DST, dnnl_query_dst_md, 0);
    } else {
        attach(l, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0);
    }
    if (pass == ONEDNN_DATA) attach(l, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0);
}

onednn_layer *onednn_layer_create(const lki_conv_shape *s, int64_t count, onednn_pass pass,
                                  onednn_kind kind)
{
    if (omp_set_num_threads != NULL) omp_set_num_threads(1);
    onednn_layer *l = calloc(1, sizeof *l);
    question q = question_of(s, pass, kind);
    owned_desc md[4], plain;
    if (l == NULL || dnnl_engine_create(&l->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&l->stream, l->engine, dnnl_stream_default_flags) != dnnl_success)
        abort();
    describe_operands(s, count, kind, md, &plain);
    q.pass = ONEDNN_FORWARD;
    dnnl_status_t status = describe(&l->hint, &q, l->engine, md, NULL);
    q.pass = pass;
    if (status == dnnl_success) status = describe(&l->desc, &q, l->engine, md, l->hint);
    if (status == dnnl_success) status = dnnl_primitive_create(&l->run, l->desc);
    if (status == dnnl_success) {
        attach_all(l, pass);
        if (pass == ONEDNN_WEIGHT) make_unpack(l, DESC_REF(plain));
        dnnl_primitive_desc_query(l->desc, dnnl_query_impl_info_str, 0, (void *)&l->name);
    }
    for (int i = 0; i < 4; i++) desc_drop(&md[i]);
    desc_drop(&plain);
    if (status == dnnl_success) return l;
    onednn_layer_destroy(l);
    return NULL;
}

void onednn_layer_run(onednn_layer *l)
{
    if (dnnl_primitive_execute(l->run, l->stream, l->count, l->list) != dnnl_success ||
        (l->unpack != NULL &&
         dnnl_primitive_execute(l->unpack, l->stream, 2, l->change) != dnnl_success) ||
        dnnl_stream_wait(l->stream) != dnnl_success)
        abort();
}

void onednn_layer_destroy(onednn_layer *l)
{
    if (l == NULL) return;
    for (int i = 0; i < l->count; i++) dnnl_memory_destroy(l->memory[i]);
    if (l->plain != NULL) dnnl_memory_destroy(l->plain);
    if (l->unpack != NULL) dnnl_primitive_destroy(l->unpack);
    if (l->run != NULL) dnnl_primitive_destroy(l->run);
    if (l->desc != NULL) dnnl_primitive_desc_destroy(l->desc);
    if (l->hint != NULL) dnnl_primitive_desc_destroy(l->hint);
    dnnl_stream_destroy(l->stream);
    dnnl_engine_destroy(l->engine);
    free(l);
}

const char *onednn_layer_name(const onednn_layer *l)
{
    return l->name;
}
