/*
 * The rendezvous of `lockstep launch --nnodes`: docs/rendezvous.md. The agent that can listen at the endpoint
 * leads; it starts mpiexec, whose daemons on other nodes are started by the agents there.
 */
#ifndef CLI_MEET_H
#define CLI_MEET_H

#include "cli/launch/launch.h"
#include "cli/meet/seal.h"

enum { MEET_NODES = 1024 };

typedef struct meet_plan {
    launch_plan *launch;
    const char *id, *host, *port; /* of the endpoint */
    const char *secret_file;      /* NULL: none was named */
    int least, nodes;             /* the most of them; fewer than these need not be there */
    int ranks;                    /* of this node */
    int node;                     /* -1: not given */
    double timeout;
} meet_plan;

/* Meets, and runs plan->launch on all nodes, or serves the node that does. *code as of launch_run(). */
LKS_MUSTUSE lks_status meet_run(meet_plan *plan, int *code);

/* ---- the parts of it */

/* Where the secret comes from: the environment, the file that was named, or the file that the leader of this
 * endpoint leaves for agents of the same user. LKS_E_STATE: there is none yet. */
LKS_MUSTUSE lks_status meet_key(uint8_t key[SEAL_KEY], const meet_plan *plan);
/* The same for the leader, which draws one where there is none; *left is the file to remove at the end, or
 * NULL. */
LKS_MUSTUSE lks_status meet_make_key(uint8_t key[SEAL_KEY], const char **left,
                                     const meet_plan *plan);

/* Listens at the endpoint; -1 in *out: it is another host's, or somebody listens already. */
LKS_MUSTUSE lks_status meet_listen(int *out, const meet_plan *plan);
/* Connects to it; -1: nobody is there yet, and `why` says so. */
int meet_connect(const meet_plan *plan, char *why, size_t size);

LKS_MUSTUSE lks_status meet_lead(const meet_plan *plan, int listener, int *code);
LKS_MUSTUSE lks_status meet_follow(const meet_plan *plan, int *code);

/* What mpiexec starts in ssh's place, by the name "reach" beside the leader's socket. */
bool reach_is_called(const char *name);
int reach_main(int argc, char **argv);

/* Between the two, on a stream socket: its type (u8), its length (u32, of this host), what it has. */
enum { REACH_START, REACH_OUTPUT, REACH_ERROR, REACH_ENDED };
bool reach_write(int fd, int type, const void *bytes, size_t count);
/* 1: one has come; 0: the other side is gone. */
bool reach_read(int fd, int *type, void *bytes, size_t room, size_t *count);

/* The daemon of a command line for a shell, and its words; false: it is none that may be started. */
bool reach_parse(char *name, size_t size, char *words, size_t room, uint16_t *count,
                 const char *line);
bool reach_is_daemon(const char *name);

#endif
