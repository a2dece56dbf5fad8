/* This process: its time, and the loss of a file that it reads; and what the kernel says of any. */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <stddef.h>
#include <stdint.h>

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

/* Reads /proc/<process>/<what>, of this process where the number is 0: as much as there is room for, and a 0 behind it.
 * Returns how many bytes; 0 where there is nothing to read. */
size_t process_read(char *out, size_t size, int64_t process, const char *what);

/* A field of its "stat", by its number in proc(5); -1: there is no such process, or it has ended. */
enum { PROCESS_PARENT = 4, PROCESS_START = 22 /* in ticks from the kernel's own start */ };
int64_t process_stat(int64_t process, int field);

#endif
