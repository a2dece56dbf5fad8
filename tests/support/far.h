/*
 * The device `far`: ref, but its memory cannot be read or written outside of its own functions. It
 * stands for devices that have memory of their own, so that whatever touches such memory from the host
 * crashes in the tests, and whatever hands it the host's memory does, too.
 *
 * Where the processor has protection keys, its memory is open to the thread that is inside a function
 * alone. Elsewhere it is open to all threads while any of them is inside one: what another thread touches
 * meanwhile is missed, unless the model has one worker.
 */
#ifndef LKT_FAR_H
#define LKT_FAR_H

#include "core/backend.h"

enum { LKT_FAR_MOST = 1 << 30 }; /* an array of so many bytes is too large for it */

/* Made at the first call, before there are threads. `keys`: use protection keys where there are any. */
const lki_backend *lkt_far(bool keys);

#endif
