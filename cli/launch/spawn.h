/* Child processes that end with their parent. */
#ifndef CLI_LAUNCH_SPAWN_H
#define CLI_LAUNCH_SPAWN_H

#include <sys/types.h>

#include <lockstep/status.h>

/* Blocks the signals that stop a program (but those that are ignored) and SIGCHLD; returns a descriptor
 * that they are read from, the same each time, or -1. */
int spawn_watch_signals(void);
/* One of those that stop a program and that nobody has read yet; 0: none. */
int spawn_pending_signal(void);

/* A standard stream of the child, and where the parent reads it; or, above 0, what it goes to instead. */
typedef struct spawn_file {
    int stream, read, into;
} spawn_file;

/* Starts a program in a process group of its own with these streams as pipes (or into files), nothing to read, and
 * signals as usual; it gets `number` when this process ends. */
LKS_MUSTUSE lks_status spawn(pid_t *child, char **argv, spawn_file *files, int count, int number);

#endif
