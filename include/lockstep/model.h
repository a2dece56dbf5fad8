/* A graph made runnable: kernels chosen, memory planned, workers started. */
#ifndef LOCKSTEP_MODEL_H
#define LOCKSTEP_MODEL_H

#include <lockstep/comm.h>
#include <lockstep/data.h>
#include <lockstep/graph.h>
#include <lockstep/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A model takes one call at a time. A call that runs or changes it while another thread is in one, or
 * that comes behind a fork, is refused with LKS_E_STATE; nothing waits. Calls that run or change it:
 * step, gradient, evaluate, predict, use_averages, state_write, hash, lks_profile_start(), and what is
 * made of these (lks_train(), loading). state_read, what saves, and predictors may run together with
 * each other. What was fixed at compile (context, state_count, state_info, state_find, describe,
 * stages) any thread may read at any time; all else belongs to the thread that calls step.
 */
typedef struct lks_model lks_model;

/*
 * With several ranks (lks_model_opts.comm) compile, step and gradient are collective: all ranks call them,
 * in the same order, and they end with the same status and sentence on all; destroy waits for the others,
 * and comes before that of the communicator. All else is a rank's own affair and waits for nobody: what is
 * written to the state is to be written on all ranks, and an evaluation is of the samples that this rank
 * gives (lks_comm_metrics() sums them).
 */

/* To what the optimizer's weight decay applies where no group says otherwise. */
typedef enum lks_decay {
    LKS_DECAY_ALL,
    LKS_DECAY_WEIGHTS, /* not to biases, nor to parameters of normalisations */
} lks_decay;

/* When sums of several processes travel. For measuring: the default is the fastest, and the first two give
 * the same bits. */
typedef enum lks_exchange {
    LKS_EXCHANGE_OVERLAPPED, /* bucket by bucket, while others are formed */
    LKS_EXCHANGE_AFTER,      /* behind all of them */
    LKS_EXCHANGE_NONE, /* not at all: each process steps alone, with other bits than the others */
} lks_exchange;

/* Who adds sums of several processes. */
typedef enum lks_reduction {
    LKS_REDUCTION_STRICT,  /* the tree of docs/numerics.md 4 */
    LKS_REDUCTION_LIBRARY, /* what joins them, such as MPI: bits may depend on the processes */
} lks_reduction;

/* Which worker takes which replicas: these never change a bit. */
typedef enum lks_balance {
    LKS_BALANCE_EVEN, /* as `weight` says, for good */
    LKS_BALANCE_AUTO, /* as fast as each is: behind a step other replicas may be its, and those of a rank its
                         loader's to give (lks_loader_share()) */
} lks_balance;

/* Whether parameters are updated by one process each, which alone keeps what the optimizer keeps for them: the
 * same bits in less time and memory. */
typedef enum lks_shard {
    LKS_SHARD_AUTO, /* where all processes have memory in common, as on one host: there parameters and all else
                       that does not differ between them exist once, too */
    LKS_SHARD_ON, /* elsewhere, too, but there each has all parameters; behind LKS_E_COMM they may be of two
                     steps, and nobody compares what the optimizer keeps */
    LKS_SHARD_OFF, /* every process updates all, so that a faulty one is found by comparing hashes */
} lks_shard;

/* Convolutions of 3x3 in fewer products, with other roundings (docs/numerics.md 3). */
typedef enum lks_winograd {
    LKS_WINOGRAD_AUTO, /* a rule of shapes alone */
    LKS_WINOGRAD_OFF,
    LKS_WINOGRAD_F2, /* wherever there is such a kernel for the shape: 2x2 outputs at a time, */
    LKS_WINOGRAD_F4, /* or 4x4 */
} lks_winograd;

/* Which kernels may be taken: a part of the arithmetic, never a matter of the machine (docs/kernels.md). */
typedef struct lks_kernel_opts {
    lks_winograd winograd;
    bool single;    /* every operation by its own kernel */
    bool all_terms; /* zeros that are known are multiplied like other numbers, not skipped */
    bool
        bf16; /* convolutions of one group, dense layers: factors rounded to bfloat16; all else is f32 */
    bool
        f16; /* device ref alone: what layers write, but losses, and the gradients of that are rounded to half
                 precision, as a device of such numbers has it: to try loss_scale */
    bool
        bf16_storage; /* activations are kept for backward in bfloat16, half of their memory; everything is computed
                         in f32, forward from what was not rounded. Not with recompute, nor with layers */
} lks_kernel_opts;

typedef struct lks_model_opts {
    lks_tensor *loss;     /* default: none; the model can only predict */
    lks_tensor *output;   /* what predict returns and accuracy is taken from; default: the
                                 loss's first input. Parameters that only the output needs are
                                 not trained: no step, decay or average touches them */
    int64_t global_batch; /* required: the most samples of a step */
    int replicas;         /* V, default 8: part of the arithmetic, see docs/numerics.md */
    int accumulate;       /* a, default 1: a*V replicas over the whole batch */
    int workers;          /* P, default min(cores, a*V), fewer for small steps; the same bits */
    int hash_every;       /* steps between links of the hash chain, default 100 */
    lks_optim optim;      /* default: SGD without momentum */
    lks_decay decay_of;
    const lks_group *groups; /* copied; a pattern that matches no parameter is LKS_E_INVALID */
    int group_count;
    /* Parameters with such names, patterns as groups have, are frozen: no gradient of them is formed, nor anything
     * that leads to no other parameter, no step, decay or average touches them, and the optimizer keeps nothing
     * for them. (Of a layer that has others, too, all gradients are formed.) Running statistics go on. */
    const char *const *freeze;
    int freeze_count;
    double clip_value; /* first every element of the mean gradient to [-clip_value, clip_value]; */
    double clip_norm;  /* then all of them times min(1, clip_norm / (norm + 1e-6)), with the norm of
                         all gradients together; default: neither. With one of these two or
                         skip_not_finite, or AdamP, gradients take memory of their own */
    double ema_decay;  /* keep an average of every parameter: it starts as the parameter after the
                         first update, then a += (1 - ema_decay) * (w - a); default: none */
    bool skip_not_finite; /* a step whose loss or gradient is not finite updates nothing, and counts
                             in lks_progress.skipped, instead of failing */
    double
        loss_scale; /* a power of two, 1 to 2^60: the loss' gradient is so many times as large while it passes
                          through the network, and means are what they are: for numbers of a small range; where
                          nothing is rounded off its ends it changes no bit; default 1 */
    int loss_scale_steps; /* dynamic: a gradient that is not finite, of finite losses, halves the scale and updates
                             nothing (lks_progress.skipped); so many steps without one double it; default 0: never */
    lks_comm *comm; /* several processes train this model, and compile it with equal options but
                             workers, whose sum is P; default: one does. Borrowed */
    double
        weight; /* of this rank: its workers take so many replicas for each one that a worker of a rank
                      of weight 1 takes; default 1. Never changes a bit */
    lks_balance balance;
    lks_exchange exchange;
    lks_reduction reduction;
    int average_every; /* with several ranks each steps alone, by the mean gradient of its own samples, and behind
                          every so many steps all get the mean of their models (lks_model_average());
                          another algorithm, with bits of its own (docs/numerics.md 9); default 0: no */
    lks_shard shard;
    size_t bucket_bytes; /* of sums that travel together, about; default 1 MiB, or a 20th of all */
    lks_kernel_opts kernels;
    bool
        recompute; /* what backward reads is formed again, block by block of layers, instead of kept: less memory
                        and, as nearly all of forward runs twice, more time. Never changes a bit */
    bool by_replica; /* never form gradients by rows; same bits, for tests */
    bool
        layers; /* one worker and one replica, the whole batch; every operation by its own kernel, activations and
                   gradients in memory of their own: for the calls of layers.h */
    bool
        mirror; /* images: evaluate, predict and predictors take the mean of the outputs of each and of its mirror image,
                    left and right, (a + b) / 2 in f32, and the loss of that, as far as it is formed from the output */
} lks_model_opts;

/*
 * All allocation happens here; steps allocate nothing. Initial parameters follow from the seed.
 * Borrows the graph: destroy the model first.
 */
LKS_API LKS_MUSTUSE lks_status lks_model_compile(lks_model **out, lks_graph *graph,
                                                 const lks_model_opts *opts);
LKS_API void lks_model_destroy(lks_model *model);
LKS_API lks_context *lks_model_context(const lks_model *model); /* of its graph */
LKS_API lks_comm *lks_model_comm(const lks_model *model); /* as it was compiled with; NULL: none */

/* Whether samples and targets of a data set are what the network's input and target are: LKS_E_SHAPE,
 * with a sentence, where a batch of it would be read as something that it is not. */
LKS_API LKS_MUSTUSE lks_status lks_model_check_data(const lks_model *model,
                                                    const lks_dataset *dataset);

/* Exact sums over samples: adding parts in any order gives the same digits. Zero it to start. */
typedef struct lks_metrics {
    int64_t samples;
    int64_t correct;    /* of counted: the (first) largest output is the target; classes only */
    int64_t not_finite; /* of counted: the loss is not a finite number; not in the sum */
    int64_t loss_high;  /* sum of losses, 128-bit fixed point in units of 2^-32: high 64 bits */
    uint64_t loss_low;  /* and low 64 bits */
    int64_t top5; /* of counted: fewer than five outputs come before the target's; classes only */
    int64_t counted; /* losses: one of every sample, or of every position that has a class */
} lks_metrics;

LKS_API void lks_metrics_add(lks_metrics *sum, const lks_metrics *part);
LKS_API double lks_metrics_loss(const lks_metrics *metrics); /* mean over finite ones */
/* e to that, of the cross entropy of tokens: of how many a network that knows no more would choose. */
LKS_API double lks_metrics_perplexity(const lks_metrics *metrics);
/* Collective: the sum over all ranks, on all of them. */
LKS_API LKS_MUSTUSE lks_status lks_comm_metrics(lks_comm *comm, lks_metrics *sum);

/*
 * One step of training: forward, backward, update with learning rate `lr`. On LKS_E_NUMERIC (a loss
 * is not finite, or a norm to clip by) nothing was updated; the message names step, samples and the
 * first bad tensor. With skip_not_finite that is a step all the same, which leaves parameters,
 * buffers and the optimizer as they were.
 * With several ranks all give the whole batch, or each what its loader has of it (lks_model_info.shares).
 * `metrics` (may be NULL) receives the sums of the whole batch.
 */
LKS_API LKS_MUSTUSE lks_status lks_model_step(lks_model *model, const lks_batch *batch, double lr,
                                              lks_metrics *metrics);

/* In the place of a step: this rank has no batch for it, because of `status` (its loader's, with the sentence in
 * the error record), and the step of all ranks ends with that. Returns it, or what another failed with. */
LKS_API LKS_MUSTUSE lks_status lks_model_fail(lks_model *model, lks_status status);

/* So that all ranks stop behind the same step: what one has raised (any thread, a handler of signals
 * too) its next step tells to all, and behind that step it is what raised() says on all of them. */
LKS_API void lks_model_raise(lks_model *model, lks_status status);
LKS_API lks_status lks_model_raised(const lks_model *model);

/*
 * With average_every: ranks that have stepped alone get one model again, the mean by the samples of each since they
 * had one: of parameters, buffers, averages and what the optimizer keeps. Collective, and nothing where they have one. lks_model_step() does it
 * behind steps whose number average_every or hash_every divides. It is the caller's at the end of an epoch, and
 * before anything that is of all ranks: an evaluation whose parts are summed, a save (which is refused else).
 * lks_model_alone(): steps since then that have changed anything; 0: one model, and always without average_every.
 */
LKS_API LKS_MUSTUSE lks_status lks_model_average(lks_model *model);
LKS_API int64_t lks_model_alone(const lks_model *model);

typedef struct lks_step_info {
    double
        gradient_norm; /* of the mean gradient (with average_every this rank's), before it was clipped by its norm; NaN: not
                             measured, as neither clip_norm nor skip_not_finite asks for it */
    bool skipped;      /* nothing was updated */
} lks_step_info;
LKS_API lks_step_info lks_model_last_step(const lks_model *model);

/* Forward and backward without update; gradients (means over the batch) are then read with
 * lks_model_state_read(). */
LKS_API LKS_MUSTUSE lks_status lks_model_gradient(lks_model *model, const lks_batch *batch,
                                                  lks_metrics *metrics);

/* Evaluate, predict and lks_weights_save() use the averages of ema_decay from here on, or the
 * parameters again. LKS_E_STATE where there are none. Before the first update they are the
 * parameters; of a parameter that only the output needs they always are. */
LKS_API LKS_MUSTUSE lks_status lks_model_use_averages(lks_model *model, bool use);

/* Loss and accuracy as in inference (no dropout, running statistics), added to `sum`. Any count. */
LKS_API LKS_MUSTUSE lks_status lks_model_evaluate(lks_model *model, const lks_batch *batch,
                                                  lks_metrics *sum);
/* The same, and the output of each sample of the batch here: out is [batch->count][elements of the output]. */
LKS_API LKS_MUSTUSE lks_status lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch,
                                                          lks_metrics *sum, float *out);

/* The output for `count` samples, any number: out is [count][elements of the output]. */
LKS_API LKS_MUSTUSE lks_status lks_model_predict(lks_model *model, const void *x, int64_t count,
                                                 float *out);

/*
 * For predictions from several threads at once: a predictor has memory of its own, computes in the
 * calling thread, and uses the model's parameters as they are at each call (or their averages, as
 * lks_model_use_averages() said last). One predictor for one thread; destroy it before the model.
 * Its bits are those of lks_model_predict(). A prediction while the model is in a call that runs or
 * changes it is LKS_E_STATE, and so is such a call while a prediction runs: a step sees no
 * prediction, and a prediction sees the parameters of one step.
 */
typedef struct lks_predictor lks_predictor;
LKS_API LKS_MUSTUSE lks_status lks_predictor_create(lks_predictor **out, lks_model *model);
LKS_API void lks_predictor_destroy(lks_predictor *predictor);
LKS_API LKS_MUSTUSE lks_status lks_predictor_predict(lks_predictor *predictor, const void *x,
                                                     int64_t count, float *out);

/* Everything a checkpoint holds, by name. Graph order; parameters and buffers together, then averages
 * ("ema.conv1.weight"), then what the optimizer keeps ("optimizer.square_avg.conv1.weight"), then what is
 * carried from batch to batch ("lstm.carried"), then gradients. The hash is of parameters, buffers and averages. */
typedef enum lks_state_kind {
    LKS_PARAMETER, /* trained */
    LKS_BUFFER,    /* running statistics */
    LKS_OPTIMIZER,
    LKS_GRADIENT, /* of the last lks_model_gradient(), until the next step; read only */
    LKS_AVERAGE,
    LKS_CARRIED, /* what the next batch goes on from, of each place in it (lks_batch.continues) */
} lks_state_kind;

typedef struct lks_state_info {
    const char *name;
    lks_state_kind kind;
    lks_dtype dtype;
    lks_shape shape;
    size_t bytes;
    bool
        spread; /* over processes, as lks_model_opts.shard says, or as each has its samples: to read it is
                    collective */
} lks_state_info;

LKS_API int lks_model_state_count(const lks_model *model);
LKS_API lks_state_info lks_model_state_info(const lks_model *model, int index);
LKS_API int lks_model_state_find(const lks_model *model, const char *name); /* or -1 */
/* `bytes`: the entry's; little-endian values in logical order. With several processes write is collective,
 * and all give the same; where they have parameters in common, those of rank 0 count. To read an entry that is
 * spread is collective and begins as lks_comm_agree() does: a rank that gives up calls that in its place. */
LKS_API LKS_MUSTUSE lks_status lks_model_state_read(lks_model *model, int index, void *out,
                                                    size_t bytes);
LKS_API LKS_MUSTUSE lks_status lks_model_state_write(lks_model *model, int index, const void *in,
                                                     size_t bytes);

/* LKS_E_NUMERIC, with a sentence that names the first, where a parameter, buffer or average is not a
 * finite number. Reads all of them. */
LKS_API LKS_MUSTUSE lks_status lks_model_check_finite(lks_model *model);
/* LKS_E_COMM, with a sentence that names them, where the state of ranks differs or a message between them has
 * changed on its way. Collective; steps that make a link do most of it, checkpoints all of it. */
LKS_API LKS_MUSTUSE lks_status lks_model_check_ranks(lks_model *model);

/* Where the run is: what a checkpoint keeps beside the state. */
typedef struct lks_progress {
    int64_t step;                   /* finished steps */
    uint64_t link;                  /* last link of the hash chain */
    int64_t skipped;                /* of the steps, those that updated nothing */
    double loss_scale;              /* 0: that of the options */
    int64_t scale_good;             /* steps since it has changed, where it does; */
    int64_t scale_ups, scale_downs; /* how often it was doubled, and halved */
} lks_progress;
LKS_API lks_progress lks_model_progress(const lks_model *model);
/* After writing all state: continue from there. */
LKS_API void lks_model_set_progress(lks_model *model, lks_progress progress);

/* The hash of the run so far, as docs/numerics.md defines it. */
LKS_API LKS_MUSTUSE lks_status lks_model_hash(lks_model *model, uint64_t *out);

typedef struct lks_model_info {
    int workers, replicas; /* of this process; a*V */
    int all_workers;       /* P, of all processes */
    int hash_every;
    int64_t global_batch;
    int64_t parameters, frozen; /* numbers of them; of these frozen ones */
    int64_t multiply_adds;      /* of one sample's forward pass */
    int64_t classes;            /* of the target, an output each; 0: there are none */
    int64_t positions;          /* of the target, of which each has a class; 0: a sample has one */
    int64_t carried; /* floats that layers with carry_state carry for a sample of a batch: a loader
                                   should be one that lks_loader_continues(); 0: none do */
    size_t memory_bytes;                     /* all arenas */
    int64_t shares, first_share, last_share; /* of a batch, that are this rank's: its loader's */
    int64_t cuts;                            /* how often LKS_BALANCE_AUTO has changed these */
    bool averages; /* evaluate, predict and lks_weights_save() use averages now */
    bool own_bits; /* they may depend on how many processes train, as the options ask for that */
    int average_every; /* of several processes; 0: they take every step together */
    const char
        *law; /* of average_every, and what the bits depend on: "average_every 8, replicas 4 + 4" */
    int64_t inputs, targets, outputs; /* elements of each, of a sample; targets 0: no loss */
} lks_model_info;
LKS_API lks_model_info lks_model_get_info(const lks_model *model);
/* The first replica of a worker, 0 to all_workers - 1; of all_workers: how many there are. */
LKS_API int64_t lks_model_border(const lks_model *model, int worker);

/* Prints, line by line, through `write`: the layers with their sizes; or the memory map; or the
 * stages: which implementation computes which layers, in which segments and pieces, and why those that
 * computed more at once or come first were not taken. Lines have 80 columns where names are short. */
typedef enum lks_describe {
    LKS_DESCRIBE_LAYERS,
    LKS_DESCRIBE_MEMORY,
    LKS_DESCRIBE_PLAN,
} lks_describe;
LKS_API LKS_MUSTUSE lks_status lks_model_describe(const lks_model *model, lks_describe what,
                                                  void (*write)(void *user, const char *line),
                                                  void *user);

#ifdef __cplusplus
}
#endif
#endif
