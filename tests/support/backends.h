/* Which devices are tested. */
#ifndef LKT_BACKENDS_H
#define LKT_BACKENDS_H

#include "core/cluster.h"

/* The registered backends that have a kernel for every operation, ending with NULL: a beginning is
 * tested kernel by kernel only. */
const lki_backend *const *lkt_backends(void);

/* The first kernel of this operation alone; NULL: none. */
const lki_kernel *lkt_kernel(const lki_backend *backend, lki_op_id op);

#endif
