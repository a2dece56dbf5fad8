/* What the floating-point units can do at most. */
#ifndef LKI_MACHINE_PEAK_H
#define LKI_MACHINE_PEAK_H

/* Operations a second of the calling thread for about `seconds`: chains of independent
 * single-precision fused multiply-adds in registers, two operations for each, in the widest vectors
 * that the machine has; the median of short runs, so that a busy machine disturbs little. */
double lki_peak(double seconds);

#endif
