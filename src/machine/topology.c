/* Which CPUs share a core. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(LKI_HAVE_HWLOC)
#include <hwloc.h>
#endif

#include "machine/machine.h"

/* Asking hwloc takes 3 to 26 ms, reading a file 20 us: a small machine is read from its files. */
enum { FEW = 16 };

void lki_cores_by_sysfs(lki_cpu *cpus, int count, const char *root)
{
    for (int i = 0; i < count; i++) {
        cpus[i].core = cpus[i].number;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 root, cpus[i].number);
        FILE *file = fopen(path, "re");
        if (!file) continue;
        int first;
        if (fscanf(file, "%d", &first) == 1) cpus[i].core = first;
        fclose(file);
    }
}

bool lki_cores_by_hwloc(lki_cpu *cpus, int count)
{
#if defined(LKI_HAVE_HWLOC)
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return false;
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    bool done = hwloc_topology_load(topology) == 0;
    for (int i = 0; done && i < count; i++) {
        const hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(topology, (unsigned)cpus[i].number);
        const hwloc_obj_t core = unit ? hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE,
                                                                       unit)
                                      : NULL;
        if (core) {
            cpus[i].core = (int)core->logical_index;
        } else {
            done = false;
        }
    }
    hwloc_topology_destroy(topology);
    return done;
#else
    (void)cpus, (void)count;
    return false;
#endif
}

static int topology_compare(const void *left, const void *right)
{
    const lki_cpu *a = left, *b = right;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    if (a->core != b->core) return a->core < b->core ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void lki_sort_cpus(lki_cpu *cpus, int count)
{
    for (int i = 0; i < count; i++) cpus[i].turn = 0;
    qsort(cpus, (size_t)count, sizeof *cpus, topology_compare); /* by core */
    for (int i = 1; i < count; i++) {
        if (cpus[i].core == cpus[i - 1].core) cpus[i].turn = cpus[i - 1].turn + 1;
    }
    qsort(cpus, (size_t)count, sizeof *cpus, topology_compare);
}

void lki_order_cpus(lki_cpu *cpus, int count)
{
    if (count <= FEW || !lki_cores_by_hwloc(cpus, count)) lki_cores_by_sysfs(cpus, count, "");
    lki_sort_cpus(cpus, count);
}

void lki_hwloc_version(char *out, size_t size)
{
#if defined(LKI_HAVE_HWLOC)
    const unsigned version = hwloc_get_api_version();
    snprintf(out, size, "hwloc API %u.%u.%u", version >> 16, version >> 8 & 255, version & 255);
#else
    snprintf(out, size, "%s", "");
#endif
}
