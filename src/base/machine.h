/* What the machine gives this process. */
#ifndef LKI_BASE_MACHINE_H
#define LKI_BASE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The CPU quota of the process's control group and those above it, rounded up to whole cores; 0
 * where there is none. `self` is /proc/self/cgroup and `mount` /sys/fs/cgroup (tests give others);
 * versions 1 and 2.
 */
int lki_quota_cores(const char *self, const char *mount);

/* The CPUs that this process may run on, ascending: returns how many, and writes up to `most`. */
int lki_allowed_cpus(int *cpus, int most);

#endif
