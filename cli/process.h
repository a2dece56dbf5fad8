/* This process: its time, and the loss of a file that it reads. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <stddef.h>

/* At the start of main(). From here on a mapped file that another program truncates ends this one
 * with a sentence and the exit code of a file that could not be read, and a limit of file sizes
 * (ulimit -f) is an error of the write. */
void process_begin(void);

/* Seconds since some moment in the past; never goes back. */
double process_clock(void);

/* Writes all of it; what nobody takes is lost. */
void process_write(int file, const char *bytes, size_t count);

/* Seconds since the process was started, as the kernel keeps it (to 10 ms); *from says
 * "process start", or "main" where that is not known. */
double process_seconds(const char **from);

#endif
