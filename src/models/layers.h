/* What networks of the zoo are written with, in few words. */
#ifndef LKI_MODELS_LAYERS_H
#define LKI_MODELS_LAYERS_H

#include "models/zoo.h"

/* Options that networks on lks_network_opts have in a configuration. */
#define LKI_ZOO_STEM(words) LKI_ATTRIBUTE(WORD, lks_network_opts, stem, .range = words)
#define LKI_ZOO_DROP_PATH                                                                          \
    LKI_ATTRIBUTE(FLOAT, lks_network_opts, drop_path, .range = "[0,1)", .fallback = "0")
#define LKI_ZOO_DROPOUT(help_)                                                                     \
    {                                                                                              \
        .name = "dropout", .type = LKI_NOT, .offset = offsetof(lks_network_opts, no_dropout),      \
        .size = sizeof(bool), .help = help_                                                        \
    }

/* A name of a layer, "layer1.0.conv1", in `out`. */
enum { LKI_ZOO_NAME = 64 };
const char *lki_zoo_name(char out[LKI_ZOO_NAME], const char *format, ...) LKS_PRINTF(2, 3);

/* How a family starts convolutions and dense layers. */
typedef struct lki_zoo_style {
    lks_init conv, conv_bias, dense, dense_bias;
} lki_zoo_style;
extern const lki_zoo_style lki_zoo_plain;              /* all as PyTorch's layers */
extern const lki_zoo_style lki_zoo_kaiming;            /* convolutions: normal, by fan_out */
extern const lki_zoo_style lki_zoo_kaiming_small_head; /* and dense layers normal with 0.01 */

typedef struct lki_zoo_net {
    lks_graph *graph;
    const char *name; /* for messages */
    const lki_zoo_style *style;
} lki_zoo_net;

/* A square convolution. stride, groups: default 1. */
typedef struct lki_zoo_window {
    int64_t filters, kernel, stride, padding, groups;
} lki_zoo_window;
lks_tensor *lki_zoo_conv(const lki_zoo_net *net, lks_tensor *x, const char *name,
                         lki_zoo_window window, bool bias);
lks_tensor *lki_zoo_norm(const lki_zoo_net *net, lks_tensor *x, const char *name);
lks_tensor *lki_zoo_dense(const lki_zoo_net *net, lks_tensor *x, const char *name, int64_t units);
lks_tensor *lki_zoo_dropout(const lki_zoo_net *net, lks_tensor *x, const lks_network_opts *opts,
                            float probability);
/* Before block number `block`, from 1, of `blocks` is added to its input: lks_network_opts.drop_path. */
lks_tensor *lki_zoo_drop_path(const lki_zoo_net *net, lks_tensor *x, const lks_network_opts *opts,
                              int block, int blocks);
lks_tensor *lki_zoo_max_pool(const lki_zoo_net *net, lks_tensor *x, int64_t kernel, int64_t stride,
                             int64_t padding);
/* To side x side, as PyTorch's AdaptiveAvgPool2d where that has equal windows; refused where not. */
lks_tensor *lki_zoo_pool_to(const lki_zoo_net *net, lks_tensor *x, int64_t side);

/* Whether it is the network for small images; x may be NULL. */
bool lki_zoo_small(const lks_tensor *x, const lks_network_opts *opts);
/* x; or NULL, with a sentence, where it is no image. */
lks_tensor *lki_zoo_image(const lki_zoo_net *net, lks_tensor *x);

#endif
