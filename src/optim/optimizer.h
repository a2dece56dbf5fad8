/* What an optimizer is, apart from its loop: one file for each, a line in lockstep/optim.h, which has the formulas. */
#ifndef LKI_OPTIM_OPTIMIZER_H
#define LKI_OPTIM_OPTIMIZER_H

#include <lockstep/optim.h>

#include "core/backend.h"

typedef struct lki_optimizer {
    const char *name;
    const char *what; /* it does, in a few words for help */
    lks_optim_kind kind;
    const char *lr;                     /* default of a configuration, as typed */
    lki_attributes attributes;          /* of lks_optim */
    const char *states[LKI_MAX_STATES]; /* PyTorch's names of what it keeps per parameter */
    bool squares[LKI_MAX_STATES];       /* they are means of squares (LKI_TINY_SQUARE) */
    /* NULL: all that have names. Whether an array is needed with these attributes. */
    bool (*keeps)(const lks_optim *optim, int array);
    /* NULL: the table says it all. What depends on several attributes. */
    lks_status (*check)(const lks_optim *optim);
    /* Its step needs norms of the rows and of the whole of each parameter, of gradient and weight: the
     * gradient is kept, becomes a direction (lki_backend.direction), and is updated row by row. */
    bool by_rows;
} lki_optimizer;

#define X(KIND, name) extern const lki_optimizer lki_optimizer_##name;
LKS_OPTIMIZERS(X)
#undef X

#define LKI_OPTIMIZER_WORD(KIND, name) " " #name
/* "sgd adam ...": what a configuration may say. */
#define LKI_OPTIMIZER_NAMES (&(LKS_OPTIMIZERS(LKI_OPTIMIZER_WORD))[1])

/* NULL: there is none of that kind, number (from 0, in the order of the list), or name. */
const lki_optimizer *lki_optimizer_of(lks_optim_kind kind);
const lki_optimizer *lki_optimizer_at(int number);
const lki_optimizer *lki_optimizer_find(const char *name);

/* Whether it keeps the array `array` of each parameter. */
bool lki_optimizer_keeps(const lks_optim *optim, int array);
/* Whether it steps by rows (lki_optimizer.by_rows). */
bool lki_optimizer_by_rows(const lks_optim *optim);
/* With the defaults of its table. */
lks_optim lki_optimizer_make(const lki_optimizer *optimizer);

/* Lines of tables. */
#define LKI_OPTIM_DECAY                                                                            \
    LKI_ATTRIBUTE(DOUBLE, lks_optim, weight_decay, .range = "[0,)", .fallback = "0")
#define LKI_OPTIM_EPSILON(standard)                                                                \
    LKI_ATTRIBUTE(DOUBLE, lks_optim, epsilon, .range = "[0,)", .fallback = (standard), .key = "eps")
#define LKI_OPTIM_MOMENTS                                                                          \
    LKI_ATTRIBUTE(DOUBLE, lks_optim, beta1, .range = "[0,1)", .fallback = "0.9", .key = "betas"),  \
        LKI_ATTRIBUTE(DOUBLE, lks_optim, beta2, .range = "[0,1)", .fallback = "0.999",             \
                      .key = "betas", .place = 1)

#endif
