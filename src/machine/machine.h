/* What the machine gives this process. */
#ifndef LKI_MACHINE_MACHINE_H
#define LKI_MACHINE_MACHINE_H

#include <lockstep/context.h>

/*
 * The CPU quota of the process's control group and those above it, rounded up to whole cores; 0
 * where there is none. `self` is /proc/self/cgroup and `mount` /sys/fs/cgroup (tests give others);
 * versions 1 and 2.
 */
int lki_quota_cores(const char *self, const char *mount);

/* Their least limit of memory, in bytes; 0 where there is none. */
int64_t lki_memory_limit(const char *self, const char *mount);

/* The most memory that this process can have, by what allows the least: its control groups, ulimit -v,
 * or what the machine has available, swap included. `root` is as for lks_machine_get(). */
typedef struct lki_room {
    int64_t bytes; /* 0: nothing tells */
    char why[96];  /* "ulimit -v allows 512 MB" */
} lki_room;
lki_room lki_memory_room(const char *root);

typedef struct lki_cpu {
    int number; /* the kernel's */
    int core;   /* equal for CPUs that share a physical core */
    int turn;   /* 0 for the first of its core, 1 for the second, ... */
} lki_cpu;

/* The CPUs that this process may run on, ascending: returns how many there are, and fills in the
 * numbers of up to `most`. */
int lki_allowed_cpus(lki_cpu *cpus, int most);

/* Fills in core and turn and sorts into the order in which to use them: one of each physical core,
 * then the second of each, ... */
void lki_order_cpus(lki_cpu *cpus, int count);

/* Its parts: the core of each CPU by the kernel's files below `root` (""), or by hwloc (false, and
 * `core` undefined, where it is not built in or does not know them); turn and order by core. */
void lki_cores_by_sysfs(lki_cpu *cpus, int count, const char *root);
bool lki_cores_by_hwloc(lki_cpu *cpus, int count);
void lki_sort_cpus(lki_cpu *cpus, int count);

/*
 * Processes of one host that may run on the same CPUs divide them. `cpus` are those CPUs in the order of
 * lki_order_cpus(); afterwards its first ones, which are counted in the result, are those of part `part`
 * of `parts`, in such an order again: CPUs beside each other, whole physical cores where they divide so;
 * one each, of which some are the same, where there are fewer CPUs than parts.
 */
int lki_share_cpus(lki_cpu *cpus, int count, int part, int parts);

/* A number that is equal for equal sets of CPUs (ascending), by which processes see that they share theirs. */
uint64_t lki_cpus_mark(const lki_cpu *cpus, int count);

/* The calling thread, and those that it starts from now on, run on these CPUs only. */
bool lki_keep_to_cpus(const lki_cpu *cpus, int count);

/* The version of hwloc; empty where it is not built in. */
void lki_hwloc_version(char *out, size_t size);

#endif
