/* What an operation is, apart from how any device computes it. */
#ifndef LKI_CORE_OP_H
#define LKI_CORE_OP_H

#include <lockstep/graph.h>

#include "core/attribute.h"
#include "op/list.h"

enum { LKI_MAX_IN = 2, LKI_MAX_PARAM = 4, LKI_MAX_BUFFER = 3, LKI_NAME_SIZE = 64 };

typedef enum lki_op_id {
#define X(ID, id) LKI_OP_##ID,
    LKI_OP_LIST(X)
#undef X
        LKI_OP_COUNT
} lki_op_id;

typedef struct lki_node lki_node;

struct lks_tensor { /* the one output of a node; activations are NHWC, the batch left out */
    lki_node *node;
    lks_shape shape;
    lks_dtype dtype;
};

typedef struct lki_param { /* trained, f32, PyTorch's shape and order */
    const char *suffix;    /* "weight": the parameter is "<node>.weight" */
    lks_shape shape;
    lks_init init;
    int64_t fan_in, fan_out;
    int64_t groups; /* IDENTITY: of conv2d; 0 counts as 1 */
    int64_t blank;  /* row that starts as zeros, and has the gradient 0, counted from 1; 0: none */
    bool is_weight; /* decays with LKS_DECAY_WEIGHTS too: no bias, nor of a normalisation */
    const lki_node *of; /* not NULL: it is the first parameter of this embedding in front */
} lki_param;

typedef struct lki_buffer { /* kept with the parameters, not trained */
    const char *suffix;
    lks_dtype dtype; /* F32 or I64 */
    lks_shape shape;
    float start; /* initial value of every element */
} lki_buffer;

struct lki_node {
    lki_op_id op;
    int index; /* in graph order, from 0 */
    char name[LKI_NAME_SIZE];
    const char *stem; /* what names of its parameters begin with, if that is not its own name */
    void *attr;       /* the op's own *_opts with defaults filled in; in the graph's arena */
    lks_tensor *in[LKI_MAX_IN];
    int in_count;
    lks_tensor out;
    lki_param param[LKI_MAX_PARAM];
    int param_count;
    lki_buffer buffer[LKI_MAX_BUFFER];
    int buffer_count;
    int64_t stats;         /* doubles per replica that forward writes in training, summed in
                                   the tree and given to update_buffers; 0: none. What they are
                                   is said in the op's file */
    int64_t meets;         /* in training all replicas meet in the middle of forward, and of
                                   backward, and each gives so many doubles, which are merged in the
                                   tree; 0: they do not. What they are is said in the op's file */
    int64_t carries;       /* floats that a sample may begin with, left by the one at its place in
                                   the batch before; 0: none. What they are is said in the op's file */
    int64_t multiply_adds; /* of one sample's forward pass */
    const lki_node *tied;  /* of an embedding: who has its weight, too; at most one. NULL: nobody */
    bool needs_gradient;   /* a parameter comes before it, or in it */
    const lki_node
        *whole; /* of a graph of one position (core/one.h): the node that has all; else NULL */
    lki_node *next;
};

/* What the first input must be, beside what infer checks. */
typedef enum lki_takes {
    LKI_TAKES_FLOATS,   /* F32 of any shape */
    LKI_TAKES_IMAGE,    /* F32: height, width, channels */
    LKI_TAKES_PLACES,   /* or positions, channels */
    LKI_TAKES_VECTOR,   /* F32 of one dimension, */
    LKI_TAKES_ROWS,     /* or of two: positions, channels */
    LKI_TAKES_SEQUENCE, /* or of two alone */
    LKI_TAKES_PIXELS,   /* an image or a vector of channels */
    LKI_TAKES_TOKENS,   /* I32: the graph's input */
    LKI_TAKES_ANY,      /* bytes too, but no tokens */
} lki_takes;

/* Whether the gradient matters where its output is 0: yes; no, as it has no part in that of an input; or where
 * it does for its input, which is 0 wherever a gradient passes from such an element (dropout: what it has not
 * dropped). */
typedef enum lki_at_zero { LKI_ZERO_PASSES, LKI_ZERO_STOPS, LKI_ZERO_AS_INPUT } lki_at_zero;

/* What a position of its output depends on, where input and output have as many. */
typedef enum lki_along {
    LKI_ALONG_ANY,  /* perhaps on all */
    LKI_ALONG_EACH, /* on the same of its inputs */
    LKI_ALONG_PAST, /* on those before it too, or on its number, unless it looks ahead: a kernel that follows
                       (lki_kernel) can compute one behind the other */
} lki_along;

typedef struct lki_op {
    const char *name;
    const char *what; /* it computes, in a few words for help */
    int inputs;       /* 0: a source; a loss has 2, the second of which is the target */
    lki_takes takes;
    size_t attr_size; /* of its struct of options, whose first member is `name`; 0: it has none */
    lki_attributes attributes;
    /* Traits. */
    bool is_loss;     /* out is one f32 per sample (ndim 0), or per position; in[1] is the target */
    bool per_replica; /* samples of a replica depend on each other (batch norm) */
    bool draws;       /* random numbers in training: plans have a random_key */
    bool stops_gradient; /* none passes to an input */
    lki_at_zero at_zero; /* what becomes of gradients there */
    size_t weight_of;    /* where its options have the tensor whose weight is its own; 0: nowhere */
    bool gives_logs;     /* its output are logarithms of probabilities, so that nll is the loss */
    bool of_classes;     /* a loss whose target is a class, */
    bool of_logs;        /* and whose input are such logarithms */
    lki_along along;
    /* Whether what it gives is, at some position, of what is behind it; NULL: it never is. */
    bool (*looks_ahead)(const lki_node *node);
    bool reads_tokens; /* a second input is tokens: the graph's, or a masking's */
    /* Check what the tables do not say of inputs and attributes; fill out, param, buffer, stats,
     * multiply_adds. The caller has set op, name, in and attr with its defaults, and has checked them;
     * needs_gradient is the caller's. */
    lks_status (*infer)(lki_node *node);
    /* May be NULL. After a step: `sums` are the tree sums of the replicas' stats, or, of a node where
     * replicas meet, what came out of it in forward; `buffer` the node's buffers, updated in place. */
    void (*update_buffers)(const lki_node *node, const double *sums, void *const buffer[]);
    /* May be NULL. What a list of layers makes of the attributes where that may be several nodes; else
     * lki_graph_add() is called. */
    lks_tensor *(*build)(lks_graph *graph, int op, const void *attr, lks_tensor *x);
    /* NULL where no node of it meets: left becomes that of both, of what replicas give in forward. What they
     * give in backward is added. */
    void (*merge)(const lki_node *node, double *left, const double *right);
} lki_op;

#define X(ID, id) extern const lki_op lki_op_##id;
LKI_OP_LIST(X)
#undef X

/* Never NULL. */
const lki_op *lki_op_get(lki_op_id id);
/* LKI_OP_COUNT: there is none of that name. */
lki_op_id lki_op_find(const char *name);

/* Of its input, also where it computes one of them. */
static inline int64_t lki_node_positions(const lki_node *node)
{
    return (node->whole != NULL ? node->whole : node)->in[0]->shape.dim[0];
}

/* "conv1" of "conv1.weight". */
static inline const char *lki_node_stem(const lki_node *node)
{
    return node->stem != NULL ? node->stem : node->name;
}

/* The node that has this parameter of a node: itself, unless it is tied. */
static inline const lki_node *lki_param_owner(const lki_node *node, int param)
{
    return node->param[param].of != NULL ? node->param[param].of : node;
}

/* No gradient of the tensor matters where it is 0: relu stands before it. So it has many zeros. */
bool lki_stops_at_zero(const lks_tensor *tensor);

/* The attributes as they would be typed: "filters=32 kernel=3x3"; defaults are left out. Writes at most
 * `size` bytes (at least 1), and returns how long the text is without that limit. */
size_t lki_node_print(const lki_node *node, char *buffer, size_t size);

#endif
