/* Stopping a run by signal. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

/* From here on the first SIGINT or SIGTERM is only noted, and the next ends the program at once. */
void stop_watch(void);

/* The signal that was noted, or 0. */
int stop_asked(void);

#endif
