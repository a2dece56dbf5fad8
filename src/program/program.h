/*
 * A program: a graph compiled for a batch, without parameters and without workers.
 *
 * Stages (an implementation and the cluster of nodes that it computes) stand in segments, each where its
 * last node stands, and every value has a place in memory.
 *
 *   node    conv1  relu1 | conv2  relu2  pool  drop | flatten | fc1 ...
 *   stage   [ conv1 ][rl] [    one fused kernel    ] [flatten] [fc1] ...
 *   segment [--------- slice by slice -----------------------] [- share -] ...
 *
 * A segment is run depth-first: all its stages for one piece of samples, then for the next, so that
 * what lives inside a segment stays in the worker's cache. A share segment has one piece. A stage whose
 * kernel is in halves has two parts, the first at the end of one segment, the second at the beginning of
 * the next:
 *
 *   part    [conv | norm 1st half] finish [norm 2nd half | relu | conv | norm 1st half] finish ...
 *   segment [----------- 0 ------]        [----------------- 1 ----------------------]
 *
 * A worker runs its replicas in groups. Where the last segment's kernels are JOINT it has one piece
 * for the whole cohort, so that large weights pass through the caches once and not once a replica:
 *
 *   cohort of replicas 0, 1   forward  head of 0, head of 1, joint segment of both
 *                            backward joint segment of both, head of 0, head of 1
 *
 * Which replicas stand in a cohort changes no bit.
 *
 * Where activations are formed again (`recompute`) the stages of the head stand in blocks. Of all but the last one only
 * what later blocks read is kept; what its backward reads is formed once more in front of that:
 *
 *   block    0 | 1 | 2                  forward  0, 1, 2
 *                                       backward 2, forward 1, 1, forward 0, 0
 *
 * Where all replicas of the batch meet (lki_node.meets) the head is cut into legs. Each is run for all
 * replicas of a worker, who are one cohort; then whoever runs the program merges what all have given:
 *
 *   forward  leg 0 of 0, of 1 | all meet | leg 1 of 0, of 1 | all meet | leg 2 of 0, of 1, joint segment
 *   backward joint segment, leg 2 of 0, of 1 | all meet | leg 1 of 0, of 1 | all meet | leg 0 of 0, of 1
 *
 * Where there are fewer samples than workers, and no training, workers share a cohort: each calls the kernel of every
 * stage for a part of its output (a panel of filters, some units), and all meet behind it. A kernel that is not PARTED
 * is the first one's:
 *
 *   first    [conv 0 of 2] | [conv 0 of 2] | [pool] [flatten] | [dense 0 of 2] | [softmax]
 *   second   [conv 1 of 2] | [conv 1 of 2] |                  | [dense 1 of 2] |
 */
#ifndef LKI_PROGRAM_PROGRAM_H
#define LKI_PROGRAM_PROGRAM_H

#include <lockstep/model.h>

#include "base/memory.h"
#include "core/cluster.h"
#include "core/graph.h"
#include "program/laps.h"

/*
 * Where a value lives. Times are ticks, counted from 0 in the order in which a cohort of one replica runs parts: forward
 * of part j is tick j; then come the parts' backward and, before a block's, forward of it once more.
 *
 *   BATCH_X, _Y  the caller's samples and targets, [sample of the pass]
 *   KEPT         memory of the process, [sample of the pass]: what gradients by rows read
 *   COHORT       a worker's memory, [sample of the cohort]; planned by liveness, as all that follow
 *   SLICE        a worker's memory, [sample of the piece]; lives inside one segment
 *   REPLICA      a worker's memory, one for each replica of the cohort
 *   SUMS         a worker's memory, one, for all pieces of a replica in one segment's backward
 */
typedef enum lki_place {
    LKI_AT_BATCH_X,
    LKI_AT_BATCH_Y,
    LKI_AT_KEPT,
    LKI_AT_COHORT,
    LKI_AT_SLICE,
    LKI_AT_REPLICA,
    LKI_AT_SUMS,
} lki_place;

/* Arrays of what nodes carry from batch to batch, [samples of the global batch][lki_node.carries]. */
typedef enum lki_carried {
    LKI_CARRIED_NOTHING,
    LKI_CARRIED_NOW,  /* what a step begins with, */
    LKI_CARRIED_NEXT, /* and leaves: now, when the step is done; so one that fails can be repeated */
    LKI_CARRIED_EVALUATION, /* of an evaluation, which begins with what it has left */
    LKI_CARRIED_ARRAYS
} lki_carried;

typedef struct lki_value {
    lki_place place;
    const char *node, *role; /* for the memory map: "conv1", "out" */
    lks_dtype type;          /* of the elements as they are stored: x, y, out and d_out */
    size_t bytes;            /* of one sample; REPLICA, SUMS: of one replica */
    size_t room;             /* bytes taken in its arena */
    size_t offset;
    size_t all_offset; /* KEPT: in the samples of all processes */
    int first, last;   /* the ticks between which it must not be overwritten, */
    int again, until;  /* and those of what is formed again in backward; -1: nothing is */
    bool rounded;      /* in between it is not there: it comes of a copy in bfloat16 (storage.c), */
    bool renewed;      /* or is written once more, piece by piece (lki_segment) */
    int original;      /* of such a copy: the value that it is of, else LKI_NO_VALUE; */
    int packed,
        unpacked; /* behind forward of which part it is made, and in front of whose backward it is read */
} lki_value;

enum { LKI_NO_VALUE = -1, LKI_NO_STAGE = -1 };

/* An implementation that was not taken although its pattern occurs. */
typedef struct lki_refusal {
    const lki_impl *impl;
    int place; /* in the backend's list */
    const char *why;
    struct lki_refusal *next;
} lki_refusal;

typedef struct lki_stage {
    lki_plan *plan;
    const lki_cluster *cluster; /* the plan's */
    const lki_impl *impl;
    const lki_kernel *kernel;
    const lki_refusal *refused; /* of clusters that begin with its first node, by place */
    int first, second;          /* its parts: one, or two of a kernel in halves */
    int in[LKI_MAX_CLUSTER_IN]; /* values */
    int d_in[LKI_MAX_CLUSTER_IN];
    unsigned add_in;
    int out, d_out, saved, replica, sums, factor[LKI_MAX_FACTORS];
    bool backward; /* takes part in backward */
    bool tied; /* an embedding whose weight a later stage has: adds its gradient to that one's */
    int front; /* whose weight a stage by rows has: an embedding, tied; LKI_NO_STAGE: none's */
    bool needs_target; /* left out of predictions */
    bool opens;        /* a block */
    bool again;        /* is run once more in front of its block's backward */

    /* Filled in by the model. */
    int weight[LKI_MAX_SLOTS];       /* indices of weights; of slots, as the next two */
    float *param[LKI_MAX_SLOTS];     /* values, shared by all workers */
    int64_t d_param[LKI_MAX_SLOTS];  /* by replica: place in a gradient array; -1: none is formed */
    int64_t d_joined[LKI_MAX_SLOTS]; /* and in a scratch of what is joined to one (joined.c) */
    void *buffer[LKI_MAX_BUFFER];    /* of cluster->counted */
    float *carried[LKI_CARRIED_ARRAYS]; /* of a node that carries; NULL: none */
    void *state;                        /* lki_args.state; NULL: none */
    size_t packed_offset;               /* in program->packed */
    size_t stats_offset;                /* in program->stats, doubles: [replicas][stats] */
    size_t met_offset;                  /* in program->met, doubles: [2][replicas + 1][meets] */
} lki_stage;

/* What is run at once: a stage, or a half of it. */
typedef struct lki_part {
    int stage, segment;
    bool second;         /* half */
    int back, forwarded; /* the ticks of its backward, and of its forward again; -1: not run */
} lki_part;

typedef struct lki_segment {
    int first, count; /* parts */
    int64_t slice;    /* largest piece; 0: the whole share is the piece */
    bool joint;       /* every kernel is JOINT or computes sample by sample */
    int renews; /* in front of which part's backward the first part runs forward once more, piece by piece; -1: of none */
    int again; /* the last of a block: segments from this to itself run forward once more; others: the next, so none do */
} lki_segment;

typedef struct lki_program {
    /* The question. */
    lks_context *context;
    const lki_backend *backend;
    const lks_graph *graph;
    const lks_tensor *loss; /* NULL: only predictions */
    const lks_tensor *output;
    int64_t global_batch;
    int64_t replicas;
    int64_t most_replicas; /* of a worker; 0: 1 */
    int64_t pass_replicas; /* of a pass, at most; 0: all */
    lki_switches switches;
    bool by_replica;
    bool recompute; /* what backward reads of a block of stages is formed again, not kept */
    bool layers;    /* every activation and gradient has memory of its own to the end of the pass */
    /* Parameters whose names ("conv1.weight") match one of these patterns are frozen. */
    const char *const *freeze;
    int freeze_count;
    /* How the elements of a tensor are stored, or those of its gradient. Tensors are f32 logically, whatever
     * this says; a type of two bytes (bf16) enters here, with kernels that read and write it. NULL: as the
     * tensor is, gradients as it. */
    lks_dtype (*stored)(const lks_tensor *tensor, bool gradient);

    /* The answer. */
    int64_t max_share;     /* samples of the largest replica */
    int64_t cohort;        /* most replicas that are run together */
    int64_t max_cohort;    /* samples of the largest cohort, */
    int64_t max_pass;      /* and of the largest pass */
    lki_arena arena;       /* all arrays below, and the plans */
    unsigned char *frozen; /* [graph->count]: bit i: param[i] of the node is frozen */
    lki_stage *stage;
    int stages;
    lki_part *part;
    int parts;
    lki_segment *segment;
    int segments;
    int ticks;
    int *meeting; /* stages in which all replicas meet, one behind each leg but the last */
    int meetings;
    lki_value *value;
    int values;
    int first_copy;         /* copies in bfloat16 are values from this one on */
    int *activation;        /* [graph->count]: value of a node's output */
    int *gradient;          /* and of its gradient */
    size_t local_bytes;     /* of a worker: values, */
    size_t workspace_bytes; /* and behind them scratch */
    size_t kept_bytes, packed_bytes;
    int64_t stats_count, met_count;
    int64_t joined_count; /* floats of lki_local.gradient where that is joined */

    /* Memory of the device. */
    char *kept, *packed;
    char *all; /* kept of all processes' samples, which have that in common; NULL: there is none */
    size_t all_bytes;
    double *stats, *met;
    float *ones; /* [lki_program_losses()]: the gradient of the sum of losses, all of them `seed` */
    float seed;
} lki_program;

/* Of a sample: one, or as many as the target has positions. */
static inline int64_t lki_program_positions(const lki_program *program)
{
    return program->loss != NULL ? lks_shape_elements(&program->loss->shape) : 1;
}

/* Of the largest cohort. */
static inline int64_t lki_program_losses(const lki_program *program)
{
    return program->max_cohort * lki_program_positions(program);
}

static inline bool lki_program_freezes(const lki_program *program, const lki_node *node, int param)
{
    return program->frozen[node->index] >> param & 1;
}

/* Whether gradients of the node's parameters are formed: of all, if one of them is trained. */
static inline bool lki_program_forms(const lki_program *program, const lki_node *node)
{
    return program->frozen[node->index] != (1 << node->param_count) - 1;
}

static inline bool lki_program_forms_any(const lki_program *program, const lki_cluster *cluster)
{
    for (int i = 0; i < cluster->count; i++)
        if (cluster->node[i]->param_count > 0 && lki_program_forms(program, cluster->node[i]))
            return true;
    return false;
}

/* Floats of a sample that the stage carries from batch to batch; 0: none. */
static inline int64_t lki_stage_carries(const lki_stage *stage)
{
    return lki_cluster_tail(stage->cluster)->carries;
}

/* Of one sample. */
static inline size_t lki_tensor_bytes(const lks_tensor *tensor)
{
    return (size_t)lks_shape_elements(&tensor->shape) * lks_dtype_size(tensor->dtype);
}

/* Fill in the question in a zeroed struct first. Compiled, a program knows its memory, and has it when
 * it is allocated: all that is not there yet. */
lks_status lki_program_compile(lki_program *program);
lks_status lki_program_allocate(lki_program *program);
/* Sizes program->all, which the caller has. */
void lki_program_place_all(lki_program *program);
void lki_program_release(lki_program *program); /* also after a failure, or zeroed */

/* What a program keeps of a pass, for passes of another size: memory for them, or what a program had before.
 * Everything else of it stays. */
typedef struct lki_kept {
    char *memory; /* NULL: none */
    int64_t replicas;
} lki_kept;
lks_status lki_program_keep(const lki_program *program, int64_t replicas, lki_kept *out);
void lki_program_exchange(lki_program *program, lki_kept *kept);
void lki_program_forget(const lki_program *program, lki_kept *kept);

/* The first segment that is run for a whole cohort; the number of segments where there is none. */
static inline int lki_program_first_joint(const lki_program *program)
{
    const int last = program->segments - 1;
    return program->cohort > 1 && program->segment[last].joint ? last : program->segments;
}

/* The first segment of a leg; of the one behind the last: the first joint one. */
static inline int lki_program_leg(const lki_program *program, int leg)
{
    return leg == 0 ? 0
           : leg > program->meetings
               ? lki_program_first_joint(program)
               : program->part[program->stage[program->meeting[leg - 1]].second].segment;
}

/* What this replica gives where all meet in the stage, in forward or in backward; of the number of replicas:
 * what came of all, for which the caller merges them. */
static inline double *lki_program_met(const lki_program *program, const lki_stage *stage,
                                      bool backward, int64_t replica)
{
    const int64_t row = (backward ? program->replicas + 1 : 0) + replica;
    return program->met + stage->met_offset + row * stage->cluster->counted->meets;
}

/* The part of a stage that forms the gradient of its input i. */
static inline int lki_gradient_part(const lki_stage *stage, int i)
{
    return stage->plan->needs.side_in >> i & 1u ? stage->second : stage->first;
}

/* The largest piece of a slice segment whose largest stage has inputs and output of so many bytes a
 * sample. */
int64_t lki_slice_of(size_t bytes);

/* Calls the kernel's plan; LKS_E_SHAPE where it needs more than can be addressed. */
lks_status lki_plan_make(lki_plan *plan);

/* The parts of compile: freeze.c, choose.c, stages.c, blocks.c, times.c, storage.c, kept.c and memory.c. */
lks_status lki_program_freeze(lki_program *program);
lks_status lki_program_choose(lki_program *program); /* stages, not planned yet */
lks_status lki_program_make_stages(lki_program *program);
/* How a stage's samples are taken: a JOINT kernel's gradients may be by replica on request, and so may those of a
 * kernel that takes any piece. */
lki_span lki_program_span(const lki_program *program, const lki_stage *stage);
lks_status lki_program_make_blocks(lki_program *program); /* sets `opens` of stages */
void lki_program_set_times(lki_program *program);         /* of all values, before their places */
/* Of a value that is written and read within pieces of one segment: the largest piece; 0: it is not. */
int64_t lki_program_slice(const lki_program *program, const lki_value *value);
/* A value that has its place is there as long as what it is in runs for other replicas and pieces. */
void lki_program_widen(const lki_program *program, lki_value *value);
void lki_program_choose_rounded(lki_program *program); /* before their times */
void lki_program_make_copies(lki_program *program);    /* behind them */
lks_status lki_program_place_values(lki_program *program);
void lki_program_set_pass(lki_program *program);   /* max_pass, from pass_replicas */
void lki_program_place_kept(lki_program *program); /* for max_pass samples */

/* Which gradients a backward pass forms. Those of activations come first: those of parameters read them. */
typedef enum lki_wanted {
    LKI_WANT_ALL,
    LKI_WANT_INPUTS, /* of activations */
    LKI_WANT_PARAMS, /* of parameters: a program of `layers` */
} lki_wanted;

/* One pass over a global batch, or over those replicas of it whose samples this process has. */
typedef struct lki_pass {
    const void *x, *y;   /* where kernels read them; y NULL: stages that need it are left out */
    const lks_mix *mix;  /* NULL: nothing is mixed */
    int64_t count;       /* samples of the whole batch, at most global_batch */
    int64_t first, last; /* x and y are those of replicas first .. last-1, */
    int64_t begin;       /* and begin with this sample of the whole batch */
    uint64_t step;
    bool training, backward;
    lki_carried begins, leaves; /* of what is carried, */
    int64_t column;             /* from that of the sample `begin` on */
    int64_t at;                 /* of a graph of one position: the number of the first sample's */
    int end;                    /* forward leaves out stages from this one on; 0: none */
    lki_wanted wanted;          /* of backward, */
    bool from_output; /* it begins with the output's gradient, in its place, not with the loss */
    char *all;        /* what is kept goes here, as in program->all; NULL: to local->kept */
    const float *
        mirrored; /* outputs of the same samples as in a mirror, the host's: the output becomes the mean
                              of both before anything reads it; NULL: it stays. Not with a team */
} lki_pass;

/* Called after every stage of a traced forward pass, when its output is there; anything but LKS_OK ends it. */
typedef lks_status (*lki_trace)(void *user, const lki_program *program, const lki_stage *stage,
                                const lki_args *args);

/* Workers who share the samples of a cohort without training, each with a part of every stage. */
typedef struct lki_team {
    char *memory; /* where the values are of which all have a part: those of one of them */
    int part, parts;
    void (*meet)(void *user,
                 int part); /* all come here; what each wrote before is visible to all after */
    void *user;
    lks_status status; /* of this one's parts */
} lki_team;

/* mirror.c: where a stage has written the output, and pass->mirrored is there, each element becomes (itself + that of the
 * mirrored image) / 2, in f32. */
/* The gradient of every loss from here on, as of lks_model_opts.loss_scale; 1 at first. */
void lki_program_seed(lki_program *program, float gradient);
/* narrow.c: what a stage has written, forward or backward, to half precision, where kernels.f16 says so. */
void lki_program_narrow(const lki_program *program, const lki_stage *stage, const lki_args *args,
                        bool backward);
void lki_program_mirror(const lki_program *program, const lki_pass *pass, const lki_stage *stage,
                        const lki_args *args);

/* What a worker needs to run replicas of a program; the device's memory. */
typedef struct lki_local {
    char *memory;    /* local_bytes + workspace_bytes */
    char *kept;      /* kept_bytes: the program's, where gradients are formed from it */
    float *gradient; /* of the parameters of this replica, by replica; NULL: no backward */
    float *joins;    /* the gradient array that it is joined to, stage by stage; NULL: it is one */
    lki_team *team;  /* NULL: it runs the cohort alone */
    lki_laps *laps;  /* NULL: nobody asks where time goes */
    lki_trace trace; /* NULL: none */
    void *trace_user;
    /* Backward of this segment and of those behind it is done for the replica, and no meeting is to come.
     * NULL: nobody asks. */
    void (*formed)(void *user, int segment);
    void *formed_user;
} lki_local;

/* joined.c: places in a scratch, from those in arrays; what a stage has formed there, into the array. */
void lki_program_place_joined(lki_program *program);
void lki_program_join(const lki_program *program, const lki_local *local, const lki_stage *stage);

/* freeze.c: whether the stage forms any gradient in this backward pass. */
bool lki_program_takes_part(const lki_program *program, const lki_pass *pass,
                            const lki_stage *stage);

/* Of replicas [first, last) of a batch of `count` samples; the rest is to be filled in. */
lki_pass lki_program_pass(const lki_program *program, int64_t first, int64_t last, int64_t count);

/* Consecutive replicas that are run together, at most program->cohort. */
typedef struct lki_cohort {
    int64_t first, last;  /* replicas first .. last-1 */
    int64_t begin, count; /* their samples in the whole batch */
} lki_cohort;
lki_cohort lki_program_cohort(const lki_program *program, const lki_pass *pass, int64_t first,
                              int64_t last);

/* The three parts of a pass over a cohort, on the calling thread, in this order; the last is called
 * for each replica, with its array of gradients in `local`. Forward of a program with meetings, in training,
 * takes what came of them from where it is. */
lks_status lki_program_forward(const lki_program *program, const lki_pass *pass,
                               const lki_cohort *cohort, const lki_local *local);
lks_status lki_program_backward_joint(const lki_program *program, const lki_pass *pass,
                                      const lki_cohort *cohort, const lki_local *local);
lks_status lki_program_backward(const lki_program *program, const lki_pass *pass,
                                const lki_cohort *cohort, int64_t replica, const lki_local *local);
/* One leg of the head: forward of all replicas of the cohort, in order of legs; backward of one replica, in
 * the opposite order. The joint segment has its forward between. Of a program without meetings there is one,
 * and lki_program_backward() is it. */
lks_status lki_program_forward_leg(const lki_program *program, const lki_pass *pass,
                                   const lki_cohort *cohort, const lki_local *local, int leg);
lks_status lki_program_forward_joint(const lki_program *program, const lki_pass *pass,
                                     const lki_cohort *cohort, const lki_local *local);
lks_status lki_program_backward_leg(const lki_program *program, const lki_pass *pass,
                                    const lki_cohort *cohort, int64_t replica,
                                    const lki_local *local, int leg);
/* output.c: the cohort's part of the output of the pass `out`, which is the host's. */
void lki_program_copy_output(const lki_program *program, const lki_pass *pass,
                             const lki_cohort *cohort, const lki_local *local, float *out);
/* Where the cohort's first sample is in the loss or the output, after all this: the device's. */
const void *lki_program_result(const lki_program *program, const lki_pass *pass,
                               const lki_cohort *cohort, const lki_local *local,
                               const lks_tensor *tensor);

#endif
