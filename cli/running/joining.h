/*
 * Ranks that do not join. An MPI waits for all processes that its launcher was to start, however long, and cannot be
 * interrupted; so a thread watches over it, and ends the process with a sentence that names who is not there.
 */
#ifndef CLI_JOINING_H
#define CLI_JOINING_H

/* From here on, for so many seconds, until joining_end(). Of a process that is alone it does nothing. */
void joining_begin(double seconds);
void joining_end(void);

#endif
