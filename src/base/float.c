/* The floating-point state in which everything is computed. */
#include "base/float.h"

#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* All exceptions masked, round to nearest, denormals as the standard says; no flag is set. Memory is
 * not read before, nor written behind: what is computed from memory, into memory, is computed here. */
unsigned lki_float_enter(void)
{
#if defined(__x86_64__)
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(0x1F80);
    __asm__ volatile("" ::: "memory");
    return saved;
#elif defined(__aarch64__)
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, xzr");
    __asm__ volatile("msr fpsr, xzr" ::: "memory");
    return (unsigned)saved;
#else
    return 0;
#endif
}

void lki_float_leave(unsigned saved)
{
    __asm__ volatile("" ::: "memory");
#if defined(__x86_64__)
    _mm_setcsr(saved);
#elif defined(__aarch64__)
    const uint64_t state = saved;
    __asm__ volatile("msr fpcr, %0" : : "r"(state));
#else
    (void)saved;
#endif
}

unsigned lki_float_met(void)
{
#if defined(__x86_64__)
    const unsigned flags = _mm_getcsr();
    return (flags & 2 ? LKI_FLOAT_OPERAND : 0) | (flags & 16 ? LKI_FLOAT_UNDERFLOW : 0);
#elif defined(__aarch64__)
    uint64_t flags;
    __asm__ volatile("mrs %0, fpsr" : "=r"(flags));
    return flags & 8 ? LKI_FLOAT_UNDERFLOW : 0;
#else
    return 0;
#endif
}
