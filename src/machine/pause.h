/* What a loop that waits for another processor does. */
#ifndef LKI_MACHINE_PAUSE_H
#define LKI_MACHINE_PAUSE_H

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* 10 to 40 ns. */
static inline void lki_pause(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

#endif
