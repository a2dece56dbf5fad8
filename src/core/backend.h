/*
 * What a device must provide. A backend is one constant of type lki_backend and a list of
 * implementations; nothing outside its folder includes its headers.
 *
 * A kernel computes a cluster of nodes (usually one). It is called by workers, each on replicas of
 * its own, so nothing it does may depend on which worker calls it or on how many there are.
 *
 *   compile   plan (once) ........................................ release
 *   step      [ forward pieces ... backward pieces ] per replica | barrier | rows, update | barrier
 *             | prepare       (or pack of rows that have just been updated)
 *
 * A kernel in halves needs sums over a replica's samples before it can write its output (batch norm). Its
 * second half starts another run through the replica, so that each half is taken piece by piece, with
 * what stands before and behind it:
 *
 *   forward   forward of the pieces, finish, apply of the pieces
 *   backward  gather of the pieces, finish_backward, backward of the pieces
 *
 * Where sums are those of all replicas (lki_node.meets) these meet, in training, between the halves:
 *
 *   forward   forward of the pieces, give | all meet | finish, apply of the pieces
 *   backward  gather of the pieces, give_backward | all meet | finish_backward, backward of the pieces
 *
 * What a device owes, in the order of this file:
 *
 *   lki_impl, lki_kernel   how operations are computed: as many as there are yet
 *   lki_memory             where arrays lie; lki_host_memory for whatever computes in the host's memory
 *   lki_backend            its name, and the arithmetic of updates: update and add, to train at all;
 *                          approach, dot and direction for averages, norms and AdamP
 *
 * In the host's memory no pass behind forward may fail: gradients by rows are formed, and parameters updated, while other
 * workers are still in the backward pass.
 *
 * No function but plan, and lki_memory's alloc and free, may allocate or lock, nor make a system call where
 * the memory is the host's.
 */
#ifndef LKI_CORE_BACKEND_H
#define LKI_CORE_BACKEND_H

#include <lockstep/model.h>
#include <lockstep/optim.h>

#include "core/op.h"
#include "core/rows.h"
#include "numeric/tree.h"

enum {
    LKI_MAX_CLUSTER = 6,     /* nodes of a cluster, */
    LKI_MAX_CLUSTER_IN = 4,  /* tensors that it reads, */
    LKI_MAX_SLOTS = 4,       /* and parameters */
    LKI_UPDATE_BLOCK = 4096, /* elements; ranges of parameters are cut at its multiples */
    LKI_MAX_STATES = 3,      /* arrays that an optimizer keeps per parameter */
    LKI_BLOCK_TERMS = 64,    /* a sum of products: so many in one f32 accumulator, */
    LKI_GROUP_TERMS = 1024,  /* blocks of so many added in f32, such groups in double; but */
    LKI_NARROW = 16,         /* all in double where the result has fewer columns */
};

/*
 * A value that a kernel stores counts as +0 where it is smaller than LKI_TINY: outputs, gradients,
 * parameters, what optimizers keep. So products of what is stored are never denormal, and processors
 * that are slow with denormals never meet one, although none is told to flush them: that is done in
 * different ways by different processors. A mean of squares may be as small as LKI_TINY_SQUARE.
 * NaN stays. Operations that only copy or select need not look.
 */
#define LKI_TINY        0x1p-63f
#define LKI_TINY_SQUARE 0x1p-110f
#define LKI_TINY_ROOT   0x1p-50f /* where an optimizer squares a gradient, it is 0 below this */

static inline float lki_flush(float x)
{
    return x < LKI_TINY && x > -LKI_TINY ? 0.0f : x;
}
static inline float lki_flush_square(float x)
{
    return x < LKI_TINY_SQUARE && x > -LKI_TINY_SQUARE ? 0.0f : x;
}
/* A double as what is stored for it. It is made 0 by arithmetic before it is converted: where there is a
 * choice of two values instead, compilers convert first and choose behind that, and the conversion of
 * what is too small is denormal. */
static inline float lki_round(double x)
{
    return (float)(x * (double)!(__builtin_fabs(x) < (double)LKI_TINY) + 0.0); /* 0.0: no -0 */
}

/*
 * Nodes that one kernel computes, usually one: a small graph whose last node's output is its own. The
 * output of every other node has one reader, inside. What the nodes of a residual block's end are:
 *
 *     node    conv2d, batch_norm, add, relu
 *     in      what conv2d reads, what else add reads
 *     param   weight of conv2d (bias of conv2d, where it has one), weight and bias of batch_norm
 */
typedef struct lki_cluster {
    const lki_node *node[LKI_MAX_CLUSTER]; /* in graph order */
    int count;
    const lks_tensor *in[LKI_MAX_CLUSTER_IN]; /* read from outside, in order of the nodes' inputs */
    int in_count;
    struct {
        const lki_node *owner;
        int index;          /* owner->param[index] */
    } param[LKI_MAX_SLOTS]; /* in order of nodes */
    int param_count;
    const lki_node *counted; /* the one node with buffers or stats, or NULL */
} lki_cluster;

/* Which kernels the configuration leaves: part of the question, as shapes are. */
typedef lks_kernel_opts lki_switches;

/* How a kernel takes the samples of a replica. */
typedef enum lki_span {
    LKI_SPAN_EITHER, /* any piece; joins the segment of the stage before */
    LKI_SPAN_SLICE,  /* piece by piece: a power of two of samples, at most plan->slice */
    LKI_SPAN_SHARE,  /* all samples of the replica in one call */
    LKI_SPAN_JOINT,  /* all samples of the replica in one call, or of several: a sample's results
                        depend on no other, and gradients of parameters are formed by rows */
} lki_span;

/* Whether all samples of a replica have to be in one call. */
static inline bool lki_span_whole(lki_span span)
{
    return span == LKI_SPAN_SHARE || span == LKI_SPAN_JOINT;
}

enum { LKI_READS_IN = 1, LKI_READS_OUT = 2 };

/* Filled by plan: what the model must provide. */
typedef struct lki_needs {
    unsigned reads;         /* what backward reads: LKI_READS_*. (d_out always, param always) */
    size_t workspace_bytes; /* scratch of a worker, undefined between calls, for forward,
                                 backward and rows */
    size_t packed_bytes;    /* what prepare, or pack, writes, one for the process */
    unsigned packs;         /* bit i: pack takes rows of the parameter in slot i */
    size_t saved_bytes;     /* per sample, kept from forward for backward */
    bool saved_floats;      /* which is f32 numbers, and may come back rounded to bfloat16 */
    size_t replica_bytes;   /* per replica, kept from forward for backward, between halves too */
    size_t sums_bytes; /* of a worker, kept from a replica's first piece to its last in backward:
                                 sums over samples that are not complete */
    /* Of a kernel in halves, bit i of each: apply reads in[i]; and the second half alone has to do with
     * it, so that forward and backward do not read it and gather forms its gradient (which, where it is
     * written and not added to, stays as it is until backward has had the same samples); and backward may
     * read it, but gather does not. */
    unsigned apply_in, side_in, late_in;
    int64_t
        columns; /* of rows: workers are better given so many elements of all rows than some rows; 0: not */
    /* Of a plan by rows, of a sample: what backward leaves for rows in the place of d_out. 0: nothing. */
    size_t factor_bytes[LKI_MAX_FACTORS];
    size_t
        state_bytes; /* of a kernel that follows: of a sample, what positions leave for those behind them */
    char algorithm[48]; /* for people */
} lki_needs;

/* A kernel's plan; each kernel embeds it first. The model allocates kernel->plan_bytes of zeroed
 * memory, fills in this part but `needs`, and calls plan. */
typedef struct lki_plan {
    const struct lki_kernel *kernel;
    lks_context *context;
    lki_cluster cluster;
    lki_switches switches;
    int64_t slice; /* largest piece: slice, slice/2, ... 1; for SHARE and JOINT kernels the most
                      samples of a call */
    int64_t batch; /* the most samples of all replicas together, which rows has in one call, */
    int64_t share; /* and of one replica */
    bool frugal;   /* memory before time: what can be formed again is not kept */
    bool by_rows;  /* gradients of parameters are formed by the kernel's rows */
    /* Of an embedding: by rows of the layer that has its weight, too; its factors are sum and row of lki_rows_added. */
    bool tied;
    bool d_in_wanted[LKI_MAX_CLUSTER_IN];
    uint64_t random_key; /* of the cluster's node that draws, if it has one */
    lki_needs needs;
} lki_plan;

/* The working set of a call: one piece of one replica. Pointers are at the piece's first sample,
 * aligned to the element at least; packed, replica, sums and workspace are aligned to 64 bytes, and
 * saved where saved_bytes is a multiple of 64. Pointers that make no sense for a kernel are NULL.
 * Class targets, also those of `mix`, are below the number of classes: the model has checked the batch. */
typedef struct lki_args {
    int64_t count;    /* samples */
    int64_t position; /* of the first sample in the global batch */
    int64_t
        sample; /* number of the first sample in its replica (JOINT: of several, in the first) */
    bool last;  /* no piece of the replica follows */
    uint64_t step;
    bool training;
    int part, parts; /* of a PARTED kernel: which part of the output; 0, 0: all of it */
    const void *in[LKI_MAX_CLUSTER_IN];
    const lks_mix
        *mix; /* for losses over classes: of each sample; NULL: each has the class in in[1] alone */
    void *out;
    const float *d_out;
    float *d_in[LKI_MAX_CLUSTER_IN]; /* NULL: not wanted */
    /* Bit i: add to d_in[i] instead of writing it. Two may be one gradient, of a tensor that is read twice:
     * the later node's is formed first, of a node in order of its inputs. */
    unsigned add_in;
    const float *param[LKI_MAX_SLOTS];
    /* NULL: formed by rows, later; or of a frozen node. Written with the replica's last piece, or by finish_backward: until
     * then it is another stage's. */
    float *d_param[LKI_MAX_SLOTS];
    float *factor
        [LKI_MAX_FACTORS]; /* in backward, of a plan by rows: needs.factor_bytes of each sample */
    bool
        add_param; /* of an embedding: add to d_param[0], which a tied layer behind it has written */
    void *const *buffer; /* running statistics of cluster.counted: read only */
    double *stats;       /* its, written by forward in training */
    /* Of cluster.counted, where replicas meet in training: what this one gives, in the two that give; what
     * came of all, in the two that finish. NULL: they do not meet. */
    double *met;
    /* Of a node that carries: what each sample begins with, [count][carries], NULL: zeros; and where what
     * it leaves goes, NULL: nowhere. Without backward both may be one. */
    const float *begins;
    float *leaves;
    /* Of a graph of one position (core/one.h): the number of the first sample's, and what the positions before it have
     * left, undefined in front of number 0; it is updated in place. */
    int64_t at;
    void *state;
    const void *packed;
    void *saved;
    void *replica;
    void *sums; /* in backward; undefined at the replica's first piece */
    void *workspace;
} lki_args;

typedef struct lki_kernel {
    size_t plan_bytes; /* of the struct that embeds lki_plan */
    lki_span span;
    /* Without training, forward and apply form a part of the output where args say so: workers who share a sample call
     * them at the same time with memory in common, but for replica and workspace. Finish, then, is called by each. */
    bool parted;
    /* Of an operation that is LKI_ALONG_PAST: where node->whole is there, samples are positions of one sequence, one behind
     * the other, which get the bits that the whole sequence has there. */
    bool follows;
    /* Choose the algorithm, build vendor descriptors, fill needs. LKS_E_UNSUPPORTED with a sentence
     * where it cannot. */
    lks_status (*plan)(lki_plan *plan);
    /* May be NULL. Frees what plan made, also after a plan that failed half-way. */
    void (*release)(lki_plan *plan);
    /* At most one of these two, which pack parameters after every change: part `part` of `parts`, each by another worker at the
     * same time; or rows [first, first + count) of the first dimension of the parameter in a slot of needs.packs, cut at
     * multiples of LKI_PACKED_ROWS, of which whoever has just updated them packs them while they are in its cache. */
    void (*prepare)(lki_plan *plan, const float *const param[], void *packed, int part, int parts);
    void (*pack)(const lki_plan *plan, int slot, const float *param, void *packed, int64_t first,
                 int64_t count);
    lks_status (*forward)(const lki_plan *plan, const lki_args *args);
    /* NULL: there is no gradient to form (input, target, normalize). */
    lks_status (*backward)(const lki_plan *plan, const lki_args *args);
    /* NULL, all four: the kernel has no halves. The two that finish are called once behind the last
     * piece, with the whole share: its samples, and pointers at its first, NULL where a value has a place
     * for one piece only (`out`, and inputs that apply does not read). What pieces leave for them is in
     * args->replica, undefined at the replica's first piece, and in args->saved; both are kept until the
     * last piece of backward, and so are d_out, and out where needs.reads says so. Where there is no
     * training, all but gather and finish_backward are called, too. */
    lks_status (*finish)(const lki_plan *plan, const lki_args *args);
    lks_status (*apply)(const lki_plan *plan, const lki_args *args);
    lks_status (*gather)(const lki_plan *plan, const lki_args *args);
    lks_status (*finish_backward)(const lki_plan *plan, const lki_args *args);
    /* NULL, both: replicas cannot meet in it, and it is not taken where they do. Called as those that finish,
     * before them, in training; they write args->met. */
    lks_status (*give)(const lki_plan *plan, const lki_args *args);
    lks_status (*give_backward)(const lki_plan *plan, const lki_args *args);
    /* NULL: gradients of parameters are formed by replica. Otherwise backward leaves d_param alone
     * where it is NULL, and rows needs in[0], and d_out or its factors, of all replicas kept. */
    void (*rows)(const lki_plan *plan, const lki_rows *rows);
    /* Why a plan, which is not made yet, is not by rows, for people; its result NULL: it may be. A rule of shapes and switches.
     * NULL: every plan may be. */
    const char *(*no_rows)(const lki_plan *plan);
    /* Rows take lki_rows.added. */
    bool adds;
    /* in[0] are tokens: rows that none of them names have the gradient 0, and rows takes lists of rows. */
    bool lists;
} lki_kernel;

/* A node of a pattern. */
typedef struct lki_pattern_node {
    uint64_t ops; /* any of these: LKI_OPS(RELU), LKI_OPS(RELU) | LKI_OPS(GELU) */
    /* Where each input comes from: the node of the pattern so many places before, or 0: from outside of
     * it. Operands of add and mul of one shape in either order. */
    signed char from[LKI_MAX_IN];
    bool optional; /* may be missing: whoever reads it reads what it would read */
} lki_pattern_node;

#define LKI_OPS(ID) (UINT64_C(1) << LKI_OP_##ID)
_Static_assert((int)LKI_OP_COUNT <= 64, "a bit for every operation");

/* How one operation, or several, may be computed. */
typedef struct lki_impl {
    const char *name; /* for people: "conv2d_relu" */
    lki_pattern_node pattern[LKI_MAX_CLUSTER];
    int count; /* 1: of one operation */
    /* NULL: takes every cluster of this pattern. Its result NULL: takes this one; else why not, for
     * people: "stride 2", or "kernels.winograd: off" where a switch is why. A rule of shapes, attributes and
     * switches alone, never of the machine or a timing: bits may follow from it. */
    const char *(*refuses)(const lki_cluster *cluster, const lki_switches *switches);
    const lki_kernel *kernel;
} lki_impl;

/* The address of one of one operation, which takes whatever comes. */
#define LKI_ALONE(ID, its_name, its_kernel)                                                        \
    &(const lki_impl)                                                                              \
    {                                                                                              \
        .name = its_name, .pattern = {{.ops = LKI_OPS(ID)}}, .count = 1, .kernel = its_kernel      \
    }

/* Of `count` things those that a part has, from `begin` to `end`; without parts all. */
static inline void lki_part_of(int part, int parts, int64_t count, int64_t *begin, int64_t *end)
{
    *begin = parts > 0 ? lki_share(part, parts, count) : 0;
    *end = parts > 0 ? lki_share(part + 1, parts, count) : count;
}

static inline bool lki_in_halves(const lki_kernel *kernel)
{
    return kernel->apply != NULL;
}

/* The update of a range of parameters; optim.h has the formulas. The gradient is sums[i] * scale in
 * f32; ADAMP and LAMB take p in its place, without scale, and LARS and LAMB have the tensor's factor in lr. Other numbers, and what is computed from them (lr /
 * correction1), are doubles, and are rounded to f32 once, where they meet an array. State arrays: SGD: momentum; ADAM, ADAMW, ADAMP: exp_avg, exp_avg_sq; ADADELTA: square_avg,
 * acc_delta; RMSPROP: square_avg, grad_avg (if centered), momentum. A momentum is NULL where
 * optim.momentum is 0. Elementwise: an element's bits do not depend on the range. */
typedef struct lki_update {
    lks_optim optim;
    double lr;
    float scale;                     /* the float nearest to 1 / samples of this step */
    int64_t step;                    /* this update's number, from 1 */
    double correction1, correction2; /* ADAM, ADAMW, ADAMP, LAMB: 1 - beta1^step, 1 - beta2^step */
    float along;                     /* ADAMP: p loses this times the parameter */
    bool projected;                  /* ADAMP: weight decay times wd_ratio */
} lki_update;

/* What optimizers by rows are told of a row: squares of the gradient, before it is scaled (LAMB: of p), and of the parameter,
 * their product (LAMB's is not used), and that of the parameter and p. */
typedef enum lki_row_sum {
    LKI_ROW_GRADIENT,
    LKI_ROW_PARAMETER,
    LKI_ROW_BOTH,
    LKI_ROW_DIRECTION,
    LKI_ROW_SUMS
} lki_row_sum;

/*
 * The memory of a device, and what is done there beside kernels and updates. Every array that a kernel
 * is given lies in it. The model keeps pointers into it and counts on from them; what they point to is
 * read and written by these functions, by kernels and by those of lki_backend alone. Whatever a function
 * does is done when it returns. Lists and structs (lki_args, lki_rows.start, `state` and `buffer` below)
 * are the host's.
 */
typedef struct lki_memory {
    bool
        host; /* it is the host's own, who reads and writes it: batches and results are not copied */
    /* Zeroed, aligned to LKI_ALIGN, never NULL on success, also of 0 bytes; LKS_E_NOMEM names `what`.
     * Freed with the same `bytes`; NULL is fine. */
    lks_status (*alloc)(lks_context *context, void **out, size_t bytes, const char *what);
    void (*free)(lks_context *context, void *memory, size_t bytes);
    void (*copy_in)(void *to, const void *host, size_t bytes);
    void (*copy_out)(void *host, const void *from, size_t bytes);
    /* How many of these rows, but for those of LKS_NO_CLASS, have the first of the largest of `width` outputs at their label;
     * adds to *top5, the host's, those of which fewer than five outputs come before that of the label: larger ones, and equal ones in front
     * of it. One that is no number comes behind all. */
    int64_t (*count_correct)(int64_t rows, int64_t width, const float *output, const int32_t *label,
                             int64_t *top5);
    /* The rest may be NULL where the device only predicts. */
    void (*copy)(void *to, const void *from, size_t bytes); /* within it; they do not overlap */
    /* gradient[i] = lki_flush(sums[i] * scale), but at most `most` from 0; a NaN stays one. Both may be one. */
    void (*mean)(int64_t count, float scale, float most, const float *sums, float *gradient);
    /* left[i] += right[i]: a merge of statistics in the tree. */
    void (*add_stats)(int64_t count, double *left, const double *right);
    /* lki_op.merge of the node's operation. NULL: replicas cannot meet. */
    void (*merge)(const lki_node *node, double *left, const double *right);
    /* lki_op.update_buffers of the node's operation. */
    void (*update_buffers)(const lki_node *node, const double *sums, void *const buffer[]);
} lki_memory;

/* Of devices that compute in the host's memory: the context's allocator, plain loops. */
extern const lki_memory lki_host_memory;

/* What lies at `from`, for the host: itself where it can read it, else a copy in `room`. */
static inline const void *lki_to_host(const lki_memory *memory, const void *from, void *room,
                                      size_t bytes)
{
    if (memory->host) return from;
    memory->copy_out(room, from, bytes);
    return room;
}
/* The host's bytes at `from`, for the device: themselves, or a copy in `room`, which is the device's. */
static inline const void *lki_to_device(const lki_memory *memory, const void *from, void *room,
                                        size_t bytes)
{
    if (memory->host) return from;
    memory->copy_in(room, from, bytes);
    return room;
}
void lki_fill(const lki_memory *memory, float *to, int64_t count, float value);

typedef struct lki_backend {
    const char *name;
    const lki_memory *memory;
    /* Adds what people want to know of it ("avx2"). Fails where the environment asks for what the
     * machine does not have. */
    lks_status (*fingerprint)(char *out, size_t size);
    /* In this order, the first that occurs in the graph and does not refuse is taken, from the graph's
     * last node to its first; ends with NULL. An operation without any is reported at compile; input and
     * target have none, as nothing is computed there. */
    const lki_impl *const *impl;
    /* NULL, as add: the device only predicts. */
    void (*update)(const lki_update *update, int64_t count, float *w,
                   float *const state[LKI_MAX_STATES], const float *sums);
    /* left[i] += right[i]: a merge in the tree. Small sums stay: two values that are LKI_TINY at least
     * have a sum of at least 2^-86, or 0. */
    void (*add)(int64_t count, float *left, const float *right);
    /* The rest may be NULL, which is reported at compile where they are needed.
     * left[i] += part * (right[i] - left[i]) */
    void (*approach)(int64_t count, float part, float *left, const float *right);
    /* The sum of a[i] * b[i] in double: element i goes to lane i mod 8, lanes are added pairwise. At
     * most LKI_UPDATE_BLOCK elements, so that who sums them does not change the order. */
    double (*dot)(int64_t count, const float *a, const float *b);
    /* To the nearest numbers of half precision, in place: lks_kernel_opts.f16. */
    void (*narrow)(int64_t count, float *values);
    /* To the nearest bfloat16 (numeric/bf16.h), and back: lks_kernel_opts.bf16_storage. */
    void (*pack)(int64_t count, const float *from, uint16_t *to);
    void (*unpack)(int64_t count, const uint16_t *from, float *to);
    /* ADAMP, LAMB: the state arrays take in the gradient, which becomes p. Sums by lki_row_sum, each as that of dot, of
     * as many elements at most. */
    void (*direction)(const lki_update *update, int64_t count, const float *w,
                      float *const state[LKI_MAX_STATES], float *gradient,
                      double sum[LKI_ROW_SUMS]);
} lki_backend;

/* The registry: backends that were built in, the fastest first, ending with NULL. */
extern const lki_backend *const lki_backends[];
/* NULL when there is none of that name. */
const lki_backend *lki_backend_find(const char *name);
/* For tests: one more, found by its name, but in no list. */
void lki_backend_lend(const lki_backend *backend);

#endif
