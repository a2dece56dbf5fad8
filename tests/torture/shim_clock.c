/*
 * Preloaded into the program: time passes ten times as fast, that of its threads too, as on a machine
 * of a tenth of the speed. What measures for a second does so for a tenth of one.
 */
#include <dlfcn.h>
#include <string.h>
#include <time.h>

enum { HASTE = 10, NANO = 1000000000 };

static int (*real)(clockid_t clock, struct timespec *now);

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (real == NULL) { /* the same for all who come at once */
        void *found = dlsym(RTLD_NEXT, "clock_gettime");
        memcpy(&real, &found, sizeof real);
    }
    const int result = real(clock, now);
    if (result == 0 && clock != CLOCK_REALTIME) {
        const long nanoseconds = now->tv_nsec * HASTE;
        now->tv_sec = now->tv_sec * HASTE + nanoseconds / NANO;
        now->tv_nsec = nanoseconds % NANO;
    }
    return result;
}
