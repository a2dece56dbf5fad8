/* Optimizers, groups of parameters, learning-rate schedules: plain values, nothing to free. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What there is, once: X(KIND, name) for the constant LKS_KIND and its name in a configuration, in the order
 * of help. */
#define LKS_OPTIMIZERS(X)                                                                          \
    X(SGD, sgd)                                                                                    \
    X(ADAM, adam)                                                                                  \
    X(ADAMW, adamw)                                                                                \
    X(ADAMP, adamp)                                                                                \
    X(ADADELTA, adadelta)                                                                          \
    X(RMSPROP, rmsprop)                                                                            \
    X(LARS, lars)                                                                                  \
    X(LAMB, lamb)
#define LKS_SCHEDULES(X)                                                                           \
    X(CONSTANT, constant)                                                                          \
    X(STEP, step)                                                                                  \
    X(COSINE, cosine)                                                                              \
    X(MULTI_STEP, multi_step)                                                                      \
    X(EXPONENTIAL, exponential)                                                                    \
    X(LINEAR, linear)                                                                              \
    X(POLYNOMIAL, polynomial)                                                                      \
    X(ONE_CYCLE, one_cycle)                                                                        \
    X(PLATEAU, reduce_on_plateau)

#define LKS_KIND(KIND, name) LKS_##KIND,
typedef enum lks_optim_kind { LKS_OPTIMIZERS(LKS_KIND) } lks_optim_kind;
typedef enum lks_schedule_kind { LKS_SCHEDULES(LKS_KIND) } lks_schedule_kind;
#undef LKS_KIND

/*
 * PyTorch's semantics. Start from a constructor, which fills in PyTorch's defaults, then change
 * fields. The learning rate comes with every step, from a schedule.
 *   SGD       g += wd*w; m = mu*m + (1-dampening)*g (first step: m = g); nesterov: g += mu*m, else
 *             g = m; w -= lr*g
 *   ADAM      g += wd*w; m, v moments; w -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps)
 *   ADADELTA  g += wd*w; v = rho*v + (1-rho)*g^2; d = sqrt(u+eps)/sqrt(v+eps)*g;
 *             u = rho*u + (1-rho)*d^2; w -= lr*d
 *   ADAMW     w -= lr*wd*w; then as ADAM with the gradient alone
 *   RMSPROP   g += wd*w; v = alpha*v + (1-alpha)*g^2; centered: a = alpha*a + (1-alpha)*g, else
 *             a = 0; d = g/(sqrt(max(v - a^2, 0)) + eps); momentum: d = m = mu*m + d; w -= lr*d
 *   ADAMP     m, v as ADAM; p = m / (sqrt(v)/sqrt(1-b2^t) + eps), or with nesterov b1*m + (1-b1)*g in
 *             m's place. For a tensor of several dimensions: if |cos(g, w)| < delta / sqrt(size) for
 *             every row (the elements of an output), p -= w * (w.p) / (|w| + eps)^2 row by row, else
 *             the same of the whole tensor; where one holds, wd *= wd_ratio. w -= lr*wd*w;
 *             w -= lr/(1-b1^t) * p. (B. Heo et al.: "AdamP", ICLR 2021, and their program)
 *   LARS      r = trust*|w| / (|g| + wd*|w| + eps); m = mu*m + lr*r*(g + wd*w); w -= m. (Y. You et al.: "Large
 *             batch training of convolutional networks", 2017)
 *   LAMB      m, v as ADAM; p = m/(1-b1^t) / (sqrt(v)/sqrt(1-b2^t) + eps) + wd*w; r = |w| / |p|;
 *             w -= lr*r*p. (Y. You et al.: "Large batch optimization for deep learning", 2019)
 * Norms of both are of the whole tensor; r is 1 where one is 0, and for tensors of one dimension.
 */
typedef struct lks_optim {
    lks_optim_kind kind;
    double weight_decay;
    double momentum;     /* SGD, RMSPROP, LARS */
    double dampening;    /* SGD */
    bool nesterov;       /* SGD: needs momentum and no dampening; ADAMP */
    double beta1, beta2; /* ADAM, ADAMW, ADAMP, LAMB */
    double rho;          /* ADADELTA */
    double epsilon;      /* all but SGD */
    double alpha;        /* RMSPROP */
    bool centered;       /* RMSPROP */
    double delta;        /* ADAMP */
    double wd_ratio;     /* ADAMP */
    double trust;        /* LARS */
} lks_optim;

LKS_API lks_optim lks_sgd(double momentum);
LKS_API lks_optim lks_adam(void);     /* betas 0.9, 0.999, epsilon 1e-8 */
LKS_API lks_optim lks_adadelta(void); /* rho 0.9, epsilon 1e-6 */
LKS_API lks_optim lks_adamw(void);    /* as Adam, weight decay 0.01 */
LKS_API lks_optim lks_rmsprop(void);  /* alpha 0.99, epsilon 1e-8 */
LKS_API lks_optim lks_adamp(void);    /* as Adam, delta 0.1, wd_ratio 0.1 */
LKS_API lks_optim lks_lars(void);     /* trust 0.001, epsilon 1e-8 */
LKS_API lks_optim lks_lamb(void);     /* as Adam, epsilon 1e-6 */

/*
 * What is different for the parameters whose name ("conv1.bias") matches a pattern, as
 * file names match one in a shell (*, ?, [...]). Every group that matches applies, in order: where
 * two set the same thing the later one wins. Start from lks_group_of(), which sets nothing.
 */
typedef struct lks_group {
    const char *match;
    double weight_decay; /* NaN: the optimizer's */
    double lr_factor;    /* of the step's learning rate; NaN: 1, or an earlier group's; 0: frozen */
} lks_group;
LKS_API lks_group lks_group_of(const char *match);

enum { LKS_MAX_MILESTONES = 32 };

/*
 * The learning rate as a function of the epoch, or of the step. PyTorch's closed forms, in units of
 * `t`: the number of finished epochs (or, with per_step, of finished steps) behind the first `begin`. With
 * s = min(t, length) / length:
 *   CONSTANT     lr
 *   STEP         lr * gamma^floor(t / step_size)
 *   COSINE       final + (lr - final) * (1 + cos(pi * s)) / 2
 *   MULTI_STEP   lr * gamma^(number of milestones <= t)
 *   EXPONENTIAL  lr * gamma^t
 *   LINEAR       lr + (final - lr) * s
 *   POLYNOMIAL   final + (lr - final) * (1 - s)^power
 *   ONE_CYCLE    from lr / start_div up to lr at t = rise * length - 1, then down to lr / start_div /
 *                final_div at t = length - 1, both by half a cosine. (PyTorch's also moves the
 *                momentum, unless told not to; this does not.)
 *   PLATEAU      lr until lks_plateau_observe() lowers it
 * The first warmup_steps steps of any kind multiply it by (step + 1) / (warmup_steps + 1); lks_train() has PLATEAU
 * observe what is measured behind them. With `begin` as many, warm-up comes first, as in PyTorch's SequentialLR.
 */
typedef struct lks_schedule {
    lks_schedule_kind kind;
    double lr; /* required, positive or 0 */
    bool per_step;
    int64_t warmup_steps; /* default 0 */
    int64_t begin;        /* default 0; t is 0 up to there */
    int64_t step_size;    /* STEP: default 1 */
    double gamma;         /* STEP, MULTI_STEP: default 0.1; EXPONENTIAL: required */
    int64_t length;       /* COSINE, LINEAR, POLYNOMIAL, ONE_CYCLE: required */
    double final_lr;      /* COSINE, LINEAR, POLYNOMIAL: default 0 */
    int64_t milestones[LKS_MAX_MILESTONES]; /* MULTI_STEP: ascending, at least one */
    int milestone_count;
    double power;                /* POLYNOMIAL: default 1 */
    double rise;                 /* ONE_CYCLE: share of the length, default 0.3 */
    double start_div, final_div; /* ONE_CYCLE: default 25, 10000 */
    double factor;               /* PLATEAU: default 0.1 */
    int patience;                /* PLATEAU: evaluations, default 10; -1: none */
    double threshold;            /* PLATEAU: default 0.0001; negative: none */
    double min_lr;               /* PLATEAU: default 0 */
} lks_schedule;

/* A pure function of its arguments: resuming needs no schedule state. `step` and `epoch` count
 * finished ones, from 0. */
LKS_API double lks_schedule_at(const lks_schedule *schedule, int64_t step, int64_t epoch);

/* What PLATEAU remembers; lks_train() keeps it in checkpoints. Use `lr` as the schedule's from then
 * on. */
typedef struct lks_plateau {
    double lr;   /* before warm-up */
    double best; /* the smallest loss; NaN: none yet */
    int bad;     /* losses since that were not better */
} lks_plateau;
LKS_API lks_plateau lks_plateau_begin(const lks_schedule *schedule);
/* A loss was measured. It is better if below best * (1 - threshold); one that is not a number is
 * not. After more than `patience` that are not, lr becomes max(lr * factor, min_lr), unless that is
 * less than 1e-8 below it, and counting starts again. */
LKS_API void lks_plateau_observe(const lks_schedule *schedule, lks_plateau *plateau, double loss);

LKS_API LKS_MUSTUSE lks_status lks_schedule_check(const lks_schedule *schedule);
LKS_API LKS_MUSTUSE lks_status lks_optim_check(const lks_optim *optim);

#ifdef __cplusplus
}
#endif
#endif
