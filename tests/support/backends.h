/* Which devices are tested. */
#ifndef LKT_BACKENDS_H
#define LKT_BACKENDS_H

#include "core/cluster.h"

/*
 * The registered backends that have a kernel for every operation, ending with NULL: a beginning is
 * tested kernel by kernel only. LKT_DEVICE from the environment is the only one instead, which may also
 * be `far` (far.h).
 */
const lki_backend *const *lkt_backends(void);

/* The first kernel of this operation alone; NULL: none. */
const lki_kernel *lkt_kernel(const lki_backend *backend, lki_op_id op);

/* All of them, with what is a beginning. */
const lki_backend *const *lkt_registered(void);

/* The device of a test that is about none: LKT_DEVICE, else `usual` (NULL: the library's choice). */
const char *lkt_device(const char *usual);

#endif
