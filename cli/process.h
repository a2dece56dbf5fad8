/* Time and memory of this process. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <stdint.h>

void process_begin(void); /* at the start of main() */

/* Seconds since some moment in the past; never goes back. */
double process_clock(void);

/* Seconds since the process was started, as the kernel keeps it (to 10 ms); *from says
 * "process start", or "main" where that is not known. */
double process_seconds(const char **from);

int64_t process_peak_bytes(void); /* the most memory that was resident */

#endif
