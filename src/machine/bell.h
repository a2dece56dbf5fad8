/*
 * What threads of several processes sleep at, in memory that they have in common: somebody makes what they wait for
 * true, then rings. All zeros is a bell.
 *
 *   heard = lki_bell_heard(bell);            what the others wait for becomes true;
 *   if (! what it waits for)                 lki_bell_ring(bell);
 *       lki_bell_sleep(bell, heard, 1e-2);
 *
 * Whoever sleeps leaves its core to others and has it again when the bell rings; whoever only yields has it again when
 * these have used up their slice of time.
 */
#ifndef LKI_MACHINE_BELL_H
#define LKI_MACHINE_BELL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct lki_bell {
    _Atomic uint32_t rung; /* how often */
    atomic_int sleepers;   /* there may be some */
} lki_bell;

static inline uint32_t lki_bell_heard(lki_bell *bell)
{
    return atomic_load(&bell->rung);
}
void lki_bell_ring(lki_bell *bell);
/* Until it rings, if it has not since `heard`, or for so many seconds; or for no reason. */
void lki_bell_sleep(lki_bell *bell, uint32_t heard, double seconds);

#endif
