/* The layers that a list or a line may have, and how each is built from its options. */
#ifndef LKI_RECIPE_LAYER_H
#define LKI_RECIPE_LAYER_H

#include <lockstep/graph.h>

#include "recipe/config.h"

/* Every option of any layer. X(id, name, type, range) */
#define LKI_OPTION_LIST(X)                                                                         \
    X(NAME, "name", STRING, NULL)                                                                  \
    X(FILTERS, "filters", INT, "[1,)")                                                             \
    X(UNITS, "units", INT, "[1,)")                                                                 \
    X(KERNEL, "kernel", PAIR, "[1,)")                                                              \
    X(STRIDE, "stride", PAIR, "[1,)")                                                              \
    X(PADDING, "padding", PAIR, "[0,)")                                                            \
    X(DILATION, "dilation", PAIR, "[1,)")                                                          \
    X(GROUPS, "groups", INT, "[1,)")                                                               \
    X(BIAS, "bias", BOOL, NULL)                                                                    \
    X(WEIGHT_INIT, "weight_init", CHOICE, WEIGHT_INITS)                                            \
    X(WEIGHT_SCALE, "weight_scale", FLOAT, "(0,)")                                                 \
    X(WEIGHT_VALUE, "weight_value", FLOAT, NULL)                                                   \
    X(WEIGHT_GAIN, "weight_gain", FLOAT, "(0,)")                                                   \
    X(WEIGHT_SLOPE, "weight_slope", FLOAT, NULL)                                                   \
    X(WEIGHT_FAN_OUT, "weight_fan_out", BOOL, NULL)                                                \
    X(BIAS_INIT, "bias_init", CHOICE, INITS)                                                       \
    X(BIAS_SCALE, "bias_scale", FLOAT, "(0,)")                                                     \
    X(BIAS_VALUE, "bias_value", FLOAT, NULL)                                                       \
    X(DIMS, "dims", INT, "[1,5]")                                                                  \
    X(AFFINE, "affine", BOOL, NULL)                                                                \
    X(EXCLUDE_PADDING, "exclude_padding", BOOL, NULL)                                              \
    X(MOMENTUM, "momentum", FLOAT, "(0,1]")                                                        \
    X(EPSILON, "epsilon", FLOAT, "(0,)")                                                           \
    X(PROBABILITY, "probability", FLOAT, "[0,1)")                                                  \
    X(MEAN, "mean", FLOATS, NULL)                                                                  \
    X(STD, "std", FLOATS, "(0,)")                                                                  \
    X(WITH, "with", STRING, NULL)                                                                  \
    X(SLOPE, "slope", FLOAT, "(0,)")                                                               \
    X(FORM, "form", CHOICE, "erf tanh")                                                            \
    X(FACTOR, "factor", FLOAT, NULL)                                                               \
    X(FROM, "from", STRING, NULL)                                                                  \
    X(LABEL_SMOOTHING, "label_smoothing", FLOAT, "[0,1]")
#define INITS                                                                                      \
    "default zeros ones constant uniform normal kaiming_uniform kaiming_normal xavier_uniform "    \
    "xavier_normal"
#define WEIGHT_INITS INITS " identity"

typedef enum lki_option_id {
#define X(id, name, type, range) LKI_OPTION_##id,
    LKI_OPTION_LIST(X)
#undef X
        LKI_OPTION_COUNT
} lki_option_id;

extern const lki_spec lki_layer_options[LKI_OPTION_COUNT];

/* What an option's place in the list of a layer says of it. */
typedef struct lki_option_mark {
    bool required;
    char fallback[32]; /* for people; "": none */
} lki_option_mark;

/* Steps through "filters! stride=1": the next option, or LKI_OPTION_COUNT at the end. */
lki_option_id lki_option_next(const char **at, lki_option_mark *mark);

/* A layer being built. */
typedef struct lki_layer {
    lki_config *config;
    lks_graph *graph;
    lks_tensor *x;
    const char *where;
    const char *op;
    lki_setting value[LKI_OPTION_COUNT];
    const struct lki_layer_named *named;
} lki_layer;

/* Layers with a name, for `from: name` and `add: {with: name}`; the first is the list's input. */
typedef struct lki_layer_named {
    const struct lki_layer_named *next;
    const char *name;
    lks_tensor *tensor;
} lki_layer_named;

/* Options in order; the first may be given alone (`dropout: 0.5`); "!" marks the required ones,
 * "=" the default that help prints. */
typedef struct lki_layer_op {
    const char *name;
    const char *what; /* it computes */
    const char *options;
    lks_tensor *(*build)(const lki_layer *); /* NULL: the graph or the error record says why */
} lki_layer_op;

extern const lki_layer_op lki_layer_ops[];
extern const int lki_layer_op_count;
/* Losses are no layers of a list: lines have them. */
extern const lki_layer_op lki_layer_losses[];
extern const int lki_layer_loss_count;

/* The layer's own name, or NULL. */
const char *lki_layer_own_name(const lki_layer *l);
/* The layer before this one that has the name; NULL: there is none. */
lks_tensor *lki_layer_find_named(const lki_layer *l, const char *name);
/* The same, with a sentence in the graph where there is none. */
lks_tensor *lki_layer_earlier(const lki_layer *l, const char *name);

#endif
