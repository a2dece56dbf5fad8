/* Whether gradients may be formed by rows, whoever forms them. */
#ifndef LKI_PROGRAM_ROWS_H
#define LKI_PROGRAM_ROWS_H

#include "core/backend.h"

static inline bool lki_may_form_rows(const lki_plan *plan)
{
    const lki_kernel *kernel = plan->kernel;
    return kernel->rows != NULL && (kernel->no_rows == NULL || kernel->no_rows(plan) == NULL);
}

#endif
