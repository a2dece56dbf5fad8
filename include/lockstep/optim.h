/* Optimizers and learning-rate schedules: plain values, nothing to free. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lks_optim_kind { LKS_SGD, LKS_ADAM, LKS_ADADELTA } lks_optim_kind;

/*
 * PyTorch's semantics. Start from a constructor, which fills in PyTorch's defaults, then change
 * fields. The learning rate comes with every step, from a schedule.
 *   SGD       g += wd*w; m = mu*m + (1-dampening)*g (first step: m = g); nesterov: g += mu*m, else
 *             g = m; w -= lr*g
 *   ADAM      g += wd*w; m, v moments; w -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps)
 *   ADADELTA  g += wd*w; v = rho*v + (1-rho)*g^2; d = sqrt(u+eps)/sqrt(v+eps)*g;
 *             u = rho*u + (1-rho)*d^2; w -= lr*d
 */
typedef struct lks_optim {
    lks_optim_kind kind;
    float weight_decay;
    float momentum, dampening; /* SGD */
    bool nesterov;             /* SGD; needs momentum and no dampening */
    float beta1, beta2;        /* ADAM */
    float rho;                 /* ADADELTA */
    float epsilon;             /* ADAM, ADADELTA */
} lks_optim;

LKS_API lks_optim lks_sgd(float momentum);
LKS_API lks_optim lks_adam(void);     /* betas 0.9, 0.999, epsilon 1e-8 */
LKS_API lks_optim lks_adadelta(void); /* rho 0.9, epsilon 1e-6 */

typedef enum lks_schedule_kind { LKS_CONSTANT, LKS_STEP, LKS_COSINE } lks_schedule_kind;

/*
 * The learning rate as a function of the epoch, or of the step. PyTorch's closed forms, in units of
 * `t`: the number of finished epochs (or, with per_step, of finished steps).
 *   CONSTANT  lr
 *   STEP      lr * gamma^floor(t / step_size)
 *   COSINE    final + (lr - final) * (1 + cos(pi * min(t, length) / length)) / 2
 * The first warmup_steps steps multiply it by (step + 1) / (warmup_steps + 1).
 */
typedef struct lks_schedule {
    lks_schedule_kind kind;
    double lr; /* required, positive or 0 */
    bool per_step;
    int64_t warmup_steps; /* default 0 */
    int64_t step_size;    /* STEP: default 1 */
    double gamma;         /* STEP: default 0.1 */
    int64_t length;       /* COSINE: required */
    double final_lr;      /* COSINE: default 0 */
} lks_schedule;

/* A pure function of its arguments: resuming needs no schedule state. `step` and `epoch` count
 * finished ones, from 0. */
LKS_API double lks_schedule_at(const lks_schedule *schedule, int64_t step, int64_t epoch);
LKS_API LKS_MUSTUSE lks_status lks_schedule_check(const lks_schedule *schedule);
LKS_API LKS_MUSTUSE lks_status lks_optim_check(const lks_optim *optim);

#ifdef __cplusplus
}
#endif
#endif
