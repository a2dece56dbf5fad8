/* The floating-point state in which everything is computed. */
#ifndef LKI_BASE_FLOAT_H
#define LKI_BASE_FLOAT_H

/* The floating-point state that workers compute with, for other threads that call kernels: enter
 * returns the old state, leave restores it. */
unsigned lki_float_enter(void);
void lki_float_leave(unsigned saved);

/*
 * What happened since lki_float_enter(): processors keep a flag for it, which is how tests see that
 * nothing meets denormals, with which many are slow. An underflow is a result that is denormal and not
 * exact; AArch64 says nothing of operands.
 */
enum { LKI_FLOAT_OPERAND = 1, LKI_FLOAT_UNDERFLOW = 2 };
unsigned lki_float_met(void);
#endif
