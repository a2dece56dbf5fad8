/* Stopping a run by signal. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

/* From here on the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is only noted, as is SIGPIPE, that nobody
 * reads what is printed; the second that is SIGINT or SIGTERM, and comes 0.2 s later or more, ends the
 * program at once. Signals that are ignored stay so. */
void stop_watch(void);

/* The signal that was noted first, or 0. */
int stop_asked(void);

#endif
