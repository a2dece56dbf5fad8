/* Which gradients may be formed by rows, and which are. */
#ifndef LKI_PROGRAM_ROWS_H
#define LKI_PROGRAM_ROWS_H

#include "program/program.h"

static inline bool lki_may_form_rows(const lki_plan *plan)
{
    const lki_kernel *kernel = plan->kernel;
    return kernel->rows != NULL && (kernel->no_rows == NULL || kernel->no_rows(plan) == NULL);
}

/* Whether rows of the stage's kernel form its gradients: not where those of a tied layer do. */
static inline bool lki_stage_forms_rows(const lki_stage *stage)
{
    return stage->plan->by_rows && !stage->plan->tied;
}

#endif
