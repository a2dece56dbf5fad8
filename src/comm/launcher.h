/* Who started this process, and with how many others: what the variables say that launchers set. */
#ifndef LKI_COMM_LAUNCHER_H
#define LKI_COMM_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

/* Which MPIs find each other under a launcher. */
typedef enum lki_kin { LKI_KIN_NONE, LKI_KIN_OPENMPI, LKI_KIN_MPICH } lki_kin;

typedef struct lki_launcher {
    const char *name;     /* "mpirun (Open MPI)"; NULL: none is known */
    const char *variable; /* that says so */
    const char *alone;    /* how to start one process by it, with all the cores */
    int64_t size, rank;   /* of the processes that were started together; -1: it does not say */
    lki_kin kin;
} lki_launcher;

/* The innermost launcher: a variable of an outer one stays where an inner one sets its own. */
lki_launcher lki_launcher_find(void);

/* Whether it started several processes. */
int lki_launcher_cores(void); /* that srun was asked to give each process; 0: it was not */
bool lki_launcher_several(const lki_launcher *launcher);

#endif
