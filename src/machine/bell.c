/* Bells are futexes that are not private to a process. */
#include "machine/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void lki_bell_ring(lki_bell *bell)
{
    atomic_fetch_add(&bell->rung, 1);
    if (atomic_exchange(&bell->sleepers, 0))
        syscall(SYS_futex, &bell->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void lki_bell_sleep(lki_bell *bell, uint32_t heard, double seconds)
{
    const struct timespec most = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    atomic_store(&bell->sleepers, 1);
    syscall(SYS_futex, &bell->rung, FUTEX_WAIT, heard, &most, NULL, 0);
}
