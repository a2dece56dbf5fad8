#include "models/layers.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    SMALL = 64
}; /* rows and columns: tiny-imagenet's images are the largest that are called small */

const lki_zoo_style lki_zoo_plain = {0};
const lki_zoo_style lki_zoo_kaiming = {
    .conv = {.kind = LKS_INIT_KAIMING_NORMAL, .fan_out = true},
    .conv_bias = {.kind = LKS_INIT_ZEROS},
};
const lki_zoo_style lki_zoo_kaiming_small_head = {
    .conv = {.kind = LKS_INIT_KAIMING_NORMAL, .fan_out = true},
    .conv_bias = {.kind = LKS_INIT_ZEROS},
    .dense = {.kind = LKS_INIT_NORMAL, .scale = 0.01f},
    .dense_bias = {.kind = LKS_INIT_ZEROS},
};

const char *lki_zoo_name(char out[LKI_ZOO_NAME], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(out, LKI_ZOO_NAME, format, list);
    va_end(list);
    return out;
}

lks_tensor *lki_zoo_conv(const lki_zoo_net *net, lks_tensor *x, const char *name,
                         lki_zoo_window window, bool bias)
{
    return lks_conv2d(net->graph, x,
                      &(lks_conv2d_opts){.name = name,
                                         .filters = window.filters,
                                         .kernel = {window.kernel, window.kernel},
                                         .stride = {window.stride, window.stride},
                                         .padding = {window.padding, window.padding},
                                         .groups = window.groups,
                                         .no_bias = !bias,
                                         .weight_init = net->style->conv,
                                         .bias_init = net->style->conv_bias});
}

lks_tensor *lki_zoo_norm(const lki_zoo_net *net, lks_tensor *x, const char *name)
{
    return lks_batch_norm(net->graph, x, &(lks_batch_norm_opts){.name = name});
}

lks_tensor *lki_zoo_dense(const lki_zoo_net *net, lks_tensor *x, const char *name, int64_t units)
{
    return lks_dense(net->graph, x,
                     &(lks_dense_opts){.name = name,
                                       .units = units,
                                       .weight_init = net->style->dense,
                                       .bias_init = net->style->dense_bias});
}

lks_tensor *lki_zoo_dropout(const lki_zoo_net *net, lks_tensor *x, const lks_network_opts *opts,
                            float probability)
{
    if (opts->no_dropout) return x;
    return lks_dropout(net->graph, x, &(lks_dropout_opts){.probability = probability});
}

lks_tensor *lki_zoo_drop_path(const lki_zoo_net *net, lks_tensor *x, const lks_network_opts *opts,
                              int block, int blocks)
{
    if (opts->drop_path == 0) return x;
    const float probability = (float)((double)opts->drop_path * block / blocks);
    return lks_dropout(net->graph, x,
                       &(lks_dropout_opts){.probability = probability, .by_sample = true});
}

lks_tensor *lki_zoo_max_pool(const lki_zoo_net *net, lks_tensor *x, int64_t kernel, int64_t stride,
                             int64_t padding)
{
    return lks_max_pool(net->graph, x,
                        &(lks_pool_opts){.kernel = {kernel, kernel},
                                         .stride = {stride, stride},
                                         .padding = {padding, padding}});
}

lks_tensor *lki_zoo_pool_to(const lki_zoo_net *net, lks_tensor *x, int64_t side)
{
    if (!x) return NULL;
    const lks_shape shape = lks_tensor_shape(x);
    const int64_t height = shape.dim[0] / side, width = shape.dim[1] / side;
    if (height * side != shape.dim[0] || width * side != shape.dim[1])
        return lks_graph_fail(net->graph,
                              "%s: its classifier takes %lldx%lld, but %lldx%lld come out of the "
                              "convolutions; expected images of 224x224, or of another size that "
                              "gives a multiple",
                              net->name, (long long)side, (long long)side, (long long)shape.dim[0],
                              (long long)shape.dim[1]);
    if (height == 1 && width == 1) return x;
    return lks_avg_pool(net->graph, x, &(lks_pool_opts){.kernel = {height, width}});
}

bool lki_zoo_small(const lks_tensor *x, const lks_network_opts *opts)
{
    if (opts->stem != LKS_STEM_AUTO || x == NULL) return opts->stem == LKS_STEM_CIFAR;
    const lks_shape shape = lks_tensor_shape(x);
    return shape.dim[0] <= SMALL && shape.dim[1] <= SMALL;
}

lks_tensor *lki_zoo_image(const lki_zoo_net *net, lks_tensor *x)
{
    if (x == NULL || lks_tensor_shape(x).ndim == 3) return x;
    return lks_graph_fail(net->graph,
                          "%s: the input has %d dimension%s, expected an image: height, width, "
                          "channels",
                          net->name, lks_tensor_shape(x).ndim,
                          lks_tensor_shape(x).ndim == 1 ? "" : "s");
}
