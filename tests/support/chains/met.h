/* Which kernels tests have met: so that a new one that no test has is noticed. */
#ifndef LKT_MET_H
#define LKT_MET_H

#include "core/cluster.h"

/* The implementations with a rule of all devices, and how many models had each. */
enum { LKT_MOST_IMPLS = 64 };
typedef struct lkt_met {
    const lki_impl *impl[LKT_MOST_IMPLS];
    int times[LKT_MOST_IMPLS], count;
} lkt_met;
lkt_met lkt_met_none(void);
/* Whether the model has one that was met less than `wanted` times; its own are counted. */
bool lkt_met_others(lkt_met *met, const lks_model *model, int wanted);
/* The first that was; NULL: none. */
const char *lkt_met_fewer(const lkt_met *met, int wanted);

#endif
