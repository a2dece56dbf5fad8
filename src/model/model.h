/*
 * The inside of a model: a program, its parameters, an optimizer, and the workers.
 *
 *   step      worker 0                     worker 1                      (V = 5, P = 2)
 *   forward,  replica 0, 1                 replica 2, 3, 4
 *   backward  holds [0,2)                  holds [2,4), [4,5)
 *   rows      parts 0, 1, 3, 4, 5          part 2: whoever has time takes the next (ranges/rows.c)
 *   --------- barrier: every gradient is there ----------------------------------------
 *   update    its blocks:                  its blocks:
 *             (([0,2) + [2,4)) + [4,5))    the same sums for other ranges
 *             packs rows that are new, as kernels say that they can (bands.c)
 *   --------- barrier: every parameter is new -----------------------------------------
 *   prepare   packs its part of the rest   packs its part
 */
#ifndef LKI_MODEL_MODEL_H
#define LKI_MODEL_MODEL_H

#include <pthread.h>
#include <stdatomic.h>

#include <lockstep/model.h>

#include "base/context.h"
#include "machine/thread.h"
#include "model/across/across.h"
#include "model/common/common.h"
#include "model/ranges/balance.h"
#include "model/step/carried.h"
#include "program/program.h"
#include "numeric/tree.h"
#include "reduce/reduce.h"

enum {
    LKI_MOST_LOSS_SCALE = 60, /* a power of two */
};

/* How a parameter is updated: one for each weight decay and learning rate that groups make. */
typedef struct lki_rule {
    lki_update update; /* of this step */
    double lr_factor;
} lki_rule;

typedef struct lki_weight { /* a parameter of the model */
    const char *name;       /* "conv1.weight" */
    lks_shape shape;
    int64_t count;
    lks_init init;
    int64_t fan_in, fan_out, groups, blank; /* as in lki_param */
    int stage, slot;                        /* program->stage[stage].param[slot] */
    int64_t offset; /* by replica: first float in a gradient array; by rows: -1 */
    bool frozen;    /* as lks_model_opts.freeze asks */
    bool trained;   /* the loss depends on it and it is not frozen; otherwise no step touches it */
    bool packed;    /* kernels take rows of it packed (lki_needs.packs) */
    float *value;
    float *state[LKI_MAX_STATES];
    float *average; /* NULL: none, or it is the parameter, which nothing trains */
    lki_rule *rule;
    float *gradient; /* where they are formed whole, or after lks_model_gradient(); else NULL */
    int64_t block;   /* its first block among those of all weights, */
    int64_t row;     /* and its first row */
} lki_weight;

typedef struct lki_state { /* an entry of the public list of state */
    lks_state_info info;
    void **memory; /* where its values are on the device; *memory NULL: not there yet */
} lki_state;

typedef struct lki_worker {
    int64_t first, last; /* replicas first .. last-1 */
    lki_local local;
    char *block; /* the host's, LKI_HASH_BLOCK bytes; NULL: it reads the device's memory itself */
    lks_metrics metrics;
    int64_t bad_position[LKI_MAX_BAD]; /* of the first samples with a loss that is not finite */
    int bad_count;
    lks_status status;
    lks_error error;
    lks_model *model;
    _Atomic int64_t taken; /* of its parts of gradients by rows, by whomever */
    bool told;             /* that they are, or will not be, */
    uint32_t heard;        /* and what lki_workers_hear() waits for */
    int64_t unformed;      /* replicas whose part of gradients by rows is not there yet */
    char apart[64];        /* keep workers in cache lines of their own */
} lki_worker;

typedef enum lki_mode {
    LKI_TRAIN,
    LKI_GRADIENT,
    LKI_EVALUATE,
    LKI_PREDICT,
    LKI_PREPARE,
    LKI_HASH
} lki_mode;

typedef struct lki_profile lki_profile;
typedef struct lki_layers lki_layers;

typedef struct lki_meeting {
    bool well;  /* on all workers of all ranks, as the last one says */
    bool empty; /* nobody has a sample: of a rank that steps alone */
    /* Of several ranks: what this one gives, and what all give: [ranks][1 + nodes * doubles]. */
    double *own, *all;
    int nodes; /* of the rank that has most */
} lki_meeting;

typedef struct lki_mirror {
    char *x;    /* images as in a mirror, */
    float *out; /* and their outputs */
} lki_mirror;

struct lks_model {
    lks_context *context;
    lks_model_opts opts; /* with defaults filled in */
    lki_program program;
    lki_arena arena; /* the arrays below and strings */
    lki_workers *threads;
    lki_worker *worker;
    int workers;
    int first_part,
        parts; /* updates are divided in parts, one for each worker from first_part on */

    lki_weight *weight;
    int weights;
    int64_t gradient_count; /* floats of an array of gradients by replica, */
    int64_t *border;        /* cut into buckets, one where there is one rank: as in lki_reduce */
    int buckets;

    /* What follows from who runs which replicas, beside workers' ranges and what ranks have: ranges/. */
    lki_arena ranges;
    lki_reduce reduce;    /* sums of gradients by replica: a holder is a worker */
    lki_meeting *meeting; /* NULL: replicas do not meet */

    float *parameters; /* all values, then all optimizer state */
    size_t parameter_bytes;
    char *buffers;
    size_t buffer_bytes;
    char *batch_x, *batch_y,
        *batch_mix;         /* copies of batches; NULL: kernels read them where they are */
    size_t batch_bytes;     /* of both */
    float *gradient_memory; /* of lks_model_gradient(), or whole */
    size_t gradient_bytes;
    lki_mirror mirror; /* NULL: opts.mirror does not ask for one */
    lki_state *state;
    int states, hashed_states; /* the first ones are parameters and buffers */
    uint64_t *digest;          /* of every header and block of the hashed states */
    int64_t digests;

    lki_profile *profile; /* NULL: nobody ever asked for one */
    lki_layers *layers;   /* NULL: opts.layers does not ask for them */
    lki_across *across;   /* NULL: one rank */
    lki_balance *balance; /* NULL: ranges stay as they are */
    lki_common *common;   /* NULL: ranks have no parameters in common; as with one */

    /* average_every: since all ranks had one model. */
    struct {
        int64_t steps, samples; /* of this rank */
        bool idle;              /* it has no sample in this step */
        bool ends;              /* behind it all have one again */
        const char *law;        /* lks_model_info */
        void **array;           /* [states]: what is averaged now, */
        int64_t *count;         /* and how much of it there is */
    } alone;

    /* Who is here: door.c. */
    atomic_int inside;         /* calls that share the model; -1: one that has it alone */
    unsigned caller;           /* the floating-point state of the one that has it alone */
    unsigned forks;            /* lki_forks() when it was compiled */
    pthread_mutex_t preparing; /* of predictors: around averaged, prepared and what these say */

    /* Gradients that a step forms as a whole, before it updates: whole.c. */
    bool forms_whole, measures;    /* and sums their squares */
    double *square;                /* of every block */
    int64_t blocks, rows;          /* of all weights */
    double *row_sum[LKI_ROW_SUMS]; /* ADAMP, LARS, LAMB: of every row */

    lks_progress progress; /* its loss_scale: 0 until the first step */
    lks_step_info last;
    atomic_int raise;  /* a status that the next step is to tell to all ranks, */
    lks_status raised; /* and what the last one told */
    bool use_averages; /* in inference */
    bool averaged;     /* stages read averages now */
    bool prepared;     /* packed parameters are those of now */
    int64_t changes;   /* of parameters and buffers, but for steps */

    /* The job that workers do now. */
    lki_mode mode;
    bool shares;            /* inference in which workers share every sample, */
    const lki_program *one; /* and this program, not the model's; else NULL */
    lki_pass pass;
    lki_rule *rule;
    int rules;
    int64_t counted;   /* samples, or positions that have a class: what a step takes the mean of */
    float scale;       /* of gradients: lki_update's */
    double lr;         /* of this step; 0: of no step */
    bool link_after;   /* hash the state after the update */
    lki_carry carried; /* from batch to batch */
    float *predictions;
    int64_t *share_start; /* [replicas + 1]: where shares begin in this batch */
    struct {
        int segment; /* behind its backward pass they can be formed; -1: behind the barrier */
        atomic_bool failed; /* a worker has not come there, or has a loss that is not finite */
    } rows_taken;           /* gradients by rows */
};

/* Several ranks step alone, and their models are averaged: none knows of sums but its own. */
static inline bool lki_averages(const lks_model *model)
{
    return model->across != NULL && model->opts.average_every > 0;
}

/* Sums of all of several ranks go from one to the other. */
static inline bool lki_sums_across(const lks_model *model)
{
    return model->across != NULL && model->opts.average_every == 0 && model->common == NULL;
}

/* What the optimizer keeps is spread over ranks: of a parameter there is nothing but this rank's strips, which begin
 * at weight->state + strip->kept. Now: in a step, as gradients alone are whole on all. */
static inline bool lki_spreads(const lks_model *model)
{
    return model->across != NULL && model->across->spread != NULL;
}
static inline bool lki_spreads_now(const lks_model *model)
{
    return lki_spreads(model) && model->mode == LKI_TRAIN;
}

/* Whoever updates rows of a parameter packs them at once, if the kernel that reads them can do that. Not where ranks send
 * each other new parameters: with a spread optimizer, or behind this step. */
static inline bool lki_updates_pack(const lks_model *model)
{
    return model->mode == LKI_TRAIN && !lki_spreads(model) && !model->alone.ends;
}
/* This does the kernel that forms gradients by rows. */
static inline bool lki_rows_pack(const lks_model *model)
{
    return lki_updates_pack(model) && !model->forms_whole && !lki_sums_across(model);
}

/* The node that has this parameter. */
static inline const lki_node *lki_weight_owner(const lks_model *model, const lki_weight *weight)
{
    return model->program.stage[weight->stage].cluster->param[weight->slot].owner;
}

/* A barrier for the workers of all ranks that have their parameters in common. False, on all of this rank: another
 * one does not come any more. */
static inline bool lki_model_meet(lks_model *model, int worker)
{
    lki_workers_barrier(model->threads, worker);
    return model->common == NULL || lki_common_meet(model, worker);
}

/* Which of `count` things a worker updates. */
static inline void lki_own_part(const lks_model *model, int worker, int64_t count, int64_t *begin,
                                int64_t *end)
{
    const int part = model->first_part + worker;
    *begin = lki_share(part, model->parts, count);
    *end = lki_share(part + 1, model->parts, count);
}

/* Of the replicas that this rank has, in a batch of so many samples. */
static inline int64_t lki_own_samples(const lks_model *model, const lki_pass *pass)
{
    return lki_share(pass->last, model->program.replicas, pass->count) - pass->begin;
}

/* The job of all workers; see the picture. */
void lki_model_job(void *model, int worker);
/* Runs it; the first worker's failure, in order of replicas, becomes this thread's. */
lks_status lki_model_run(lks_model *model, lki_mode mode);

/*
 * door.c: every public call that runs the model or changes it enters alone, and those that only read
 * what others change, and predictors, enter together. LKS_E_STATE with a sentence where another call
 * is inside that does not fit, and behind a fork; LKS_E_INVALID for NULL. `call` is __func__. To leave
 * returns `status`. Alone, a call has the floating-point state of workers until it leaves.
 */
lks_status lki_model_enter(lks_model *model, const char *call);
lks_status lki_model_leave(lks_model *model, lks_status status);
lks_status lki_model_enter_shared(lks_model *model, const char *call);
lks_status lki_model_leave_shared(lks_model *model, lks_status status);

/* common/prepare.c: evaluation uses averages now, as was asked for and there are some. */
bool lki_model_infers_averages(const lks_model *model);
/* Stages read parameters, or their averages. */
void lki_model_choose(lks_model *model, bool averages);

/* step/step.c */
/* What comes before the replicas of this rank: model->pass, of training. */
lks_status lki_begin_pass(lks_model *model, const lks_batch *batch);
lks_status lki_model_prepare(lks_model *model); /* packs parameters that are not */
/* Samples [first, first + count) of a batch, which are the host's, for a pass; its y may be NULL. */
void lki_place_samples(const lks_model *model, lki_pass *pass, const lks_batch *batch,
                       int64_t first, int64_t count);
/* The rest of a step whose gradients have been formed layer by layer, of so many losses. */
lks_status lki_take_formed(lks_model *model, double lr, int64_t counted);
void lki_gather_metrics(const lks_model *model, lks_metrics *sum); /* of this rank */

/* infer/infer.c */
/* A pass of inference over as many of `left` samples as fit; `count` receives how many. The numbers
 * of its replicas are chosen so that any count fits, and are not those of a step. */
lki_pass lki_infer_pass(const lks_model *model, int64_t left, int64_t *count);
lks_status lki_infer_begin(lks_model *model);
/* job.c: a prediction of one sample by another program, whose locals and workspace fit into those of workers. */
lks_status lki_model_run_one(lks_model *model, const lki_program *one);
/* The arguments of a prediction. */
lks_status lki_check_predict(const lks_model *model, const void *x, int64_t count,
                             const float *out);

/* infer/mirror.c: lks_model_opts.mirror. Whether samples are images; room for a pass. */
lks_status lki_mirror_check(const lks_model *model);
size_t lki_mirror_bytes(const lks_model *model); /* 0: there is no mirror */
lki_mirror lki_mirror_place(const lks_model *model, char *memory);
lks_status lki_mirror_make(lks_model *model);
/* Left and right of the samples at x change places, into mirror->x. */
void lki_mirror_images(const lks_model *model, const lki_mirror *mirror, const void *x,
                       int64_t count);

/* initialise.c: the parameter's first values, a function of seed and name alone, for the host. */
void lki_initialise(const lks_model *model, const lki_weight *weight, float *values);

/* layers/: what opts.layers asks for, with defaults that follow from it; and memory. */
lks_status lki_layers_options(lks_model_opts *opts);
lks_status lki_layers_make(lks_model *model);
void lki_layers_release(lks_model *model);
/* A job begins that writes to the memory of the pass that is kept. */
void lki_layers_forget(lks_model *model);
/* In a step whose gradients have been formed layer by layer: they are there. False: they are to be formed. */
bool lki_layers_formed(lks_model *model);

/* groups.c: gives every weight its rule. */
lks_status lki_groups_apply(lks_model *model);
int64_t lki_frozen(const lks_model *model); /* numbers of frozen parameters */
/* Each pattern of lks_model_opts.freeze matches a parameter. */
lks_status lki_freeze_check(lks_model *model);

/* ranges/meet.c: where all replicas of the batch meet in the middle of a pass, in training. */
lks_status lki_meet_plan(lks_model *model);
/* Replicas meet those of other ranks; where they only meet, the batch is what this rank has of it. */
bool lki_meets_others(const lks_model *model);
/* Behind leg `number` in forward, before it in backward, called by all workers: merges what all replicas of all
 * ranks have given. False, on all: a worker has failed, and nobody goes on. */
bool lki_meet(lks_model *model, int worker, int number, bool backward);
/* This rank cannot take part in a pass: it comes to the first meeting to say so, behind which there are no
 * others. */
lks_status lki_meet_stay(lks_model *model);
/* The rank with the smallest number, of several that train; all call it. */
lks_status lki_meet_first(lks_model *model, int number, int *rank);
/* What came of the last forward pass in a stage where they meet; NULL: nobody had a sample. */
const double *lki_meet_result(const lks_model *model, const lki_stage *stage);

/* ranges/rows.c: gradients by rows, unless sums travel: in one process, and with parameters in common. */
void lki_rows_begin(lks_model *model);                      /* of a job, */
void lki_rows_expect(lks_model *model, lki_worker *worker); /* and of a worker's replicas */
/* Behind the joint segment's backward pass. */
void lki_rows_joint(const lks_model *model, lki_worker *worker, const lki_cohort *cohort);
/* Parts that nobody has taken, until none is left: before the barrier, if all is well, and behind it. */
void lki_rows_take_early(lks_model *model, int worker);
void lki_rows_take(lks_model *model, int worker);
int64_t lki_rows_parts(const lks_model *model);
void lki_rows_part(lks_model *model, int worker, int64_t number); /* takes this one */

/* budget.c */
/* Of all arenas; known before there is any. */
size_t lki_model_bytes(const lks_model *model);
/* LKS_E_NOMEM, with both figures, where the process cannot have so much. What a device has of its own
 * it knows itself. */
lks_status lki_check_budget(const lks_model *model);

/* ranges/: workers' ranges, and tables of sums for them; memory for these; all of that is freed. */
lks_status lki_ranges_plan(lks_model *model);
lks_status lki_ranges_make(lks_model *model);
void lki_ranges_release(lks_model *model);
/* The first replica of worker `worker` of this rank. */
int64_t lki_across_first(const lks_model *model, int worker);
/* The gradients by replica of one worker, a holder in `reduce`. */
size_t lki_worker_gradient_bytes(const lks_model *model, int worker);

/* arrays.c: sizes of arrays, then the arrays with their first values; what there is of them is freed. */
void lki_arrays_measure(lks_model *model);
void lki_arrays_spread(lks_model *model); /* behind it, if the optimizer is spread */
lks_status lki_arrays_make(lks_model *model);
void lki_arrays_release(lks_model *model);
size_t lki_gradients_bytes(const lks_model *model); /* of whole gradients, */
lks_status lki_gradients_make(lks_model *model);    /* and memory for them; once */

/* whole.c */
lks_status lki_whole_choose(lks_model *model); /* at compile: what is formed whole, */
lks_status lki_whole_make(lks_model *model);   /* and memory for it */
/* From whole gradients to new parameters: clipped, measured, all as the options say. Begins with a
 * barrier. False, on every worker: not finite, and nothing was updated; or another rank is lost. */
bool lki_whole_update(lks_model *model, int worker);

/* ranges/average.c */
/* At compile, behind the list of state. */
lks_status lki_average_plan(lks_model *model);
void lki_average_begin(lks_model *model, int64_t own);
/* A step is done; and all get one model. */
void lki_average_note(lks_model *model);
lks_status lki_average(lks_model *model);
/* Whether the norm is finite, on all workers of all ranks: those that step alone do or do not do so together. */
bool lki_average_finite(lks_model *model, int worker, double norm);
/* The step of a rank that has no samples in it. */
void lki_average_idle(lks_model *model, int worker);

/* The rows of a parameter. Of one dimension they would be single numbers: it is one row, and not projected; one
 * that nothing trains has none. */
static inline int64_t lki_adamp_rows(const lki_weight *weight)
{
    if (!weight->trained) return 0;
    return weight->shape.ndim > 1 ? weight->shape.dim[0] : 1;
}
/* adamp.c: the update of ADAMP, LARS and LAMB, with a barrier in it; false as lki_model_meet(). */
bool lki_adamp_update(lks_model *model, int worker, float scale);

/* state.c */
lks_status lki_state_list(lks_model *model);
/* lks_model_hash() from inside. */
lks_status lki_state_hash(lks_model *model, uint64_t *out);
void lki_state_hash_part(lks_model *model, int worker);
uint64_t lki_state_hash_finish(lks_model *model);
/* The first of these values on the device that is not finite, and it in `found`; -1: all are. */
int64_t lki_first_not_finite(const lki_memory *memory, const float *values, int64_t count,
                             float *found);

/* metrics.c */
void lki_metrics_count(lks_model *model, lki_worker *worker, const lki_cohort *group);

/* profile.c: around a step, where somebody asks for a profile; begin and end in pairs. */
void lki_profile_begin(lks_model *model);
void lki_profile_end(lks_model *model, bool stepped);
void lki_profile_release(lks_model *model);

/* diagnose.c: why the loss of the sample at `position` of this batch is not finite. Fills in the
 * error record and returns LKS_E_NUMERIC. */
lks_status lki_diagnose(lks_model *model, const lks_batch *batch, int64_t position, int *place);

#endif
