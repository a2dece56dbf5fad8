/* Which CPUs a process uses where several of one host may run on the same. */
#include <sched.h>
#include <stdlib.h>

#include "machine/machine.h"

static int by_core(const void *left, const void *right)
{
    const lki_cpu *a = left, *b = right;
    if (a->core != b->core) return a->core < b->core ? -1 : 1;
    return a->turn < b->turn ? -1 : a->turn > b->turn;
}

int lki_share_cpus(lki_cpu *cpus, int count, int part, int parts)
{
    if (count < 1 || parts < 1 || part < 0 || part >= parts) return 0;
    qsort(cpus, (size_t)count, sizeof *cpus, by_core);
    const int64_t first = (int64_t)part * count / parts;
    const int64_t last = ((int64_t)part + 1) * count / parts;
    const int mine = count >= parts ? (int)(last - first) : 1;
    for (int i = 0; i < mine; i++) cpus[i] = cpus[first + i];
    lki_sort_cpus(cpus, mine);
    return mine;
}

uint64_t lki_cpus_mark(const lki_cpu *cpus, int count)
{
    /* FNV-1a over the numbers: it only has to tell one set from another. */
    uint64_t mark = 0xcbf29ce484222325u;
    for (int i = 0; i < count; i++) {
        mark ^= (uint64_t)cpus[i].number + 1;
        mark *= 0x100000001b3u;
    }
    return mark;
}

bool lki_keep_to_cpus(const lki_cpu *cpus, int count)
{
    int most = 0;
    for (int i = 0; i < count; i++)
        if (cpus[i].number > most) most = cpus[i].number;
    cpu_set_t *set = CPU_ALLOC((size_t)most + 1);
    if (!set) return false;
    const size_t bytes = CPU_ALLOC_SIZE((size_t)most + 1);
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < count; i++) CPU_SET_S((size_t)cpus[i].number, bytes, set);
    const bool done = sched_setaffinity(0, bytes, set) == 0;
    CPU_FREE(set);
    return done;
}
