/* Which devices are tested. */
#ifndef LKT_BACKENDS_H
#define LKT_BACKENDS_H

#include "core/backend.h"

/* The registered backends that have a kernel for every operation, ending with NULL: a beginning is
 * tested kernel by kernel only. */
const lki_backend *const *lkt_backends(void);

#endif
