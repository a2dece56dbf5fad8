/* doctor of several processes: what each tells, what is wrong with all of it, how it is printed. */
#ifndef CLI_DOCTOR_ACROSS_H
#define CLI_DOCTOR_ACROSS_H

#include <lockstep/tools.h>

#include "cli/cli.h"
#include "cli/crowd.h"
#include "cli/doctor/doctor.h"

enum { ACROSS_LINKS = 64 }; /* of each rank, at most */

/* What a rank tells. */
typedef struct across_rank {
    crowd_rank crowd;
    int64_t process;
    double memory,
        shared;   /* bytes that are free, of the machine and in /dev/shm; below 0: not known */
    double flops; /* of its workers, while those of all others compute */
    double ahead, error;   /* its time of day, against rank 0's, and how wrong that may be */
    int32_t local;         /* its number on its host */
    int32_t watched;       /* or not */
    char library[64];      /* "Open MPI 4.1.4" */
    char instructions[24]; /* "avx2" */
    char address[48];      /* of its host's name, where that is the loopback device's */
} across_rank;

typedef struct across {
    cli_pool *pool;
    int size;
    across_rank *rank;
    lks_link *link; /* [size][ACROSS_LINKS]; a rank below 0: none */
} across;

/* One link of each two ranks; returns how many there are. */
typedef struct across_pair {
    int a, b;
    lks_link link;
    bool near; /* on one machine */
} across_pair;
int across_pairs(const across *all, across_pair **out);
/* Of links on one machine (or not): how many, and in order of time and of rate; NULL: none. */
typedef struct across_class {
    int count;
    double *latency, *bandwidth; /* ascending */
} across_class;
across_class across_class_of(const across *all, const across_pair *pair, int pairs, bool near);

/* The address of this rank's host's name, if it is none that other hosts reach. */
void across_find_address(across_rank *mine);

/* Adds what is wrong. */
void across_look(cli_doctor *doctor, const across *all);
/* What hosts have said of themselves, as JSON lists of findings (one for each rank, "" for most). */
void across_hosts(cli_doctor *doctor, const across *all, const char *const *notes);

void across_print(const cli_doctor *doctor, const across *all);
void across_print_json(const cli_doctor *doctor, const across *all);

/* The verb where several processes were started. */
LKS_MUSTUSE lks_status doctor_across(const cli_args *cli, int *code);
/* --launch: starts itself as the ranks. And refuses launch's options without it. */
LKS_MUSTUSE lks_status doctor_launch(const cli_args *cli, int *code);
LKS_MUSTUSE lks_status doctor_no_launch(const cli_args *cli);

#endif
