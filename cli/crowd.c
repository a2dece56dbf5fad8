#include "cli/crowd.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/out/text.h"

void crowd_read(crowd_rank *out, int workers)
{
    cpu_set_t set;
    *out = (crowd_rank){.workers = workers,
                        .online = (int32_t)sysconf(_SC_NPROCESSORS_ONLN),
                        .quota = lks_machine_get(NULL).quota};
    if (gethostname(out->host, sizeof out->host - 1) != 0) strcpy(out->host, "?");
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL && fgets(out->boot, sizeof out->boot, file) == NULL) *out->boot = '\0';
    if (file != NULL) fclose(file);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    for (int cpu = 0; cpu < CROWD_CPUS; cpu++)
        if (CPU_ISSET((size_t)cpu, &set)) out->cpus[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

lks_status crowd_gather(crowd_rank **out, cli_pool *pool, lks_comm *comm, int workers)
{
    crowd_rank mine;
    crowd_read(&mine, workers);
    *out = pool_alloc(pool, (size_t)lks_comm_size(comm) * sizeof **out);
    return lks_comm_all_gather(comm, &mine, sizeof mine, *out);
}

bool crowd_same_machine(const crowd_rank *a, const crowd_rank *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->boot, b->boot) == 0;
}

static bool has_cpu(const uint64_t cpus[CROWD_WORDS], int cpu)
{
    return cpu < CROWD_CPUS && (cpus[cpu / 64] >> cpu % 64 & 1) != 0;
}

const char *crowd_list(cli_pool *pool, const uint64_t cpus[CROWD_WORDS])
{
    const char *text = "", *gap = "";
    for (int cpu = 0; cpu < CROWD_CPUS; cpu++) {
        if (!has_cpu(cpus, cpu)) continue;
        int last = cpu;
        while (has_cpu(cpus, last + 1)) last++;
        text = last > cpu ? pool_format(pool, "%s%s%d-%d", text, gap, cpu, last)
                          : pool_format(pool, "%s%s%d", text, gap, cpu);
        gap = ",";
        cpu = last;
    }
    return text;
}

int crowd_count(const uint64_t cpus[CROWD_WORDS])
{
    int count = 0;
    for (int i = 0; i < CROWD_WORDS; i++) count += __builtin_popcountll(cpus[i]);
    return count;
}

const char *crowd_ranks(cli_pool *pool, const bool *chosen, int count)
{
    enum { SHOWN = 4 };
    int all = 0, first = -1, last = -1, shown = 0;
    for (int r = 0; r < count; r++) {
        if (!chosen[r]) continue;
        if (all++ == 0) first = r;
        last = r;
    }
    if (all == 1) return pool_format(pool, "rank %d", first);
    if (all > 2 && last - first + 1 == all) return pool_format(pool, "ranks %d to %d", first, last);
    const char *text = "ranks ";
    for (int r = first; r <= last && shown < SHOWN; r++) {
        if (!chosen[r]) continue;
        shown++;
        const char *gap = shown == 1 ? "" : shown == all ? " and " : ", ";
        text = pool_format(pool, "%s%s%d", text, gap, r);
    }
    return shown == all ? text : pool_format(pool, "%s and %d more", text, all - shown);
}

/* Ranks of a machine that have CPUs in common, or each with one of the others. */
typedef struct group {
    bool *member; /* [count] */
    int members, first;
    uint64_t cpus[CROWD_WORDS]; /* of all */
    int64_t workers;
    bool equal; /* all have the same CPUs */
} group;

static bool overlap(const uint64_t *a, const uint64_t *b)
{
    for (int i = 0; i < CROWD_WORDS; i++)
        if ((a[i] & b[i]) != 0) return true;
    return false;
}

static void join(group *g, const crowd_rank *rank, int number)
{
    g->equal = g->members == 0 || (g->equal && memcmp(g->cpus, rank->cpus, sizeof g->cpus) == 0);
    if (g->members++ == 0) g->first = number;
    g->member[number] = true;
    g->workers += rank->workers;
    for (int i = 0; i < CROWD_WORDS; i++) g->cpus[i] |= rank->cpus[i];
}

/* The group of the first rank that is in none so far; false: all are. */
static bool next_group(group *g, bool *taken, const crowd_rank *ranks, int count)
{
    int first = 0;
    while (first < count && taken[first]) first++;
    if (first == count) return false;
    *g = (group){.member = g->member};
    memset(g->member, 0, (size_t)count);
    join(g, &ranks[first], first);
    for (bool more = true; more;) {
        more = false;
        for (int r = first + 1; r < count; r++) {
            if (taken[r] || g->member[r] || !crowd_same_machine(&ranks[first], &ranks[r]) ||
                !overlap(g->cpus, ranks[r].cpus))
                continue;
            join(g, &ranks[r], r);
            more = true;
        }
    }
    for (int r = first; r < count; r++) taken[r] |= g->member[r];
    return true;
}

/* All ranks of the machine of one of them. */
static void next_machine(group *g, int first, const crowd_rank *ranks, int count)
{
    *g = (group){.member = g->member};
    memset(g->member, 0, (size_t)count);
    for (int r = first; r < count; r++)
        if (crowd_same_machine(&ranks[first], &ranks[r])) join(g, &ranks[r], r);
}

typedef struct list {
    crowd_finding *finding;
    int most, count;
    cli_pool *pool;
    const crowd_rank *ranks;
    int size;
} list;

static void add(list *l, const char *name, const char *found, const char *advice)
{
    if (l->count < l->most) l->finding[l->count] = (crowd_finding){name, found, advice};
    l->count++;
}

/* "ranks 0 and 1 of host a share CPUs 0-1, where their 4 workers wait for each other" */
static const char *too_many(const list *l, const group *g)
{
    const char *who = crowd_ranks(l->pool, g->member, l->size);
    const char *cpus = crowd_list(l->pool, g->cpus), *host = l->ranks[g->first].host;
    const int count = crowd_count(g->cpus);
    const long long workers = (long long)g->workers;
    return g->members == 1
               ? pool_format(
                     l->pool,
                     "%s of host %s has CPU%s %s for %lld workers, which wait for each other", who,
                     host, TEXT_S(count), cpus, workers)
               : pool_format(l->pool,
                             "%s of host %s share CPU%s %s, where their %lld workers wait for each "
                             "other",
                             who, host, TEXT_S(count), cpus, workers);
}

/* The CPUs of all ranks of the machine would do for their workers. */
static void look_at_group(list *l, const group *g)
{
    const crowd_rank *rank = &l->ranks[g->first];
    if (g->workers > crowd_count(g->cpus))
        add(l, "binding", too_many(l, g),
            pool_format(
                l->pool,
                "give each rank cores of its own: --map-by slot:PE=%d --bind-to core (Open "
                "MPI), -bind-to core:%d (MPICH), --cpus-per-task=%d --cpu-bind=cores (srun)",
                rank->workers, rank->workers, rank->workers));
    else if (!g->equal)
        add(l, "binding",
            pool_format(l->pool,
                        "%s of host %s have some of the CPUs %s in common, and others not, so that "
                        "workers of several may be bound to one",
                        crowd_ranks(l->pool, g->member, l->size), rank->host,
                        crowd_list(l->pool, g->cpus)),
            "give each rank cores of its own, or all the same");
}

/* All ranks of one: what is wrong with its CPUs for all of them. */
static void look_at_machine(list *l, const group *g, bool *crowded)
{
    int quota = 0;
    for (int r = g->first; r < l->size; r++) {
        const int own = g->member[r] ? l->ranks[r].quota : 0;
        if (own > 0 && (quota == 0 || own < quota)) quota = own;
    }
    const int cpus = crowd_count(g->cpus), online = l->ranks[g->first].online;
    const bool many = g->workers > cpus;
    for (int r = g->first; r < l->size && many; r++) crowded[r] |= g->member[r];
    if (many)
        add(l, "cores", too_many(l, g),
            g->workers > online ? "give fewer ranks or workers"
                                : "give fewer ranks or workers, or more of its CPUs");
    if (quota == 0 || quota >= cpus || g->workers <= quota) return;
    add(l, "CPU quota",
        pool_format(l->pool,
                    "%s of host %s %s %lld workers, but a CPU quota of %d core%s, so that they are "
                    "stopped for a part of every period",
                    crowd_ranks(l->pool, g->member, l->size), l->ranks[g->first].host,
                    g->members == 1 ? "has" : "have", (long long)g->workers, quota, TEXT_S(quota)),
        "give fewer ranks or workers, or ask for more cores");
}

int crowd_look(crowd_finding *out, int most, cli_pool *pool, const crowd_rank *ranks, int count)
{
    list l = {.finding = out, .most = most, .pool = pool, .ranks = ranks, .size = count};
    bool *taken = pool_alloc(pool, 3 * (size_t)count), *crowded = taken + count;
    group g = {.member = crowded + count};
    for (int r = 0; r < count; r++) {
        if (taken[r]) continue;
        next_machine(&g, r, ranks, count);
        look_at_machine(&l, &g, crowded);
        for (int i = r; i < count; i++) taken[i] |= g.member[i];
    }
    while (next_group(&g, crowded, ranks, count)) look_at_group(&l, &g);
    return l.count;
}

int crowd_cores(const crowd_rank *ranks, int count)
{
    int cores = 0;
    cli_pool pool = {0};
    bool *taken = pool_alloc(&pool, 2 * (size_t)count);
    group g = {.member = taken + count};
    for (int r = 0; r < count; r++) {
        if (taken[r]) continue;
        next_machine(&g, r, ranks, count);
        const int cpus = crowd_count(g.cpus), quota = ranks[r].quota;
        cores += quota > 0 && quota < cpus ? quota : cpus;
        for (int i = r; i < count; i++) taken[i] |= g.member[i];
    }
    pool_clear(&pool);
    return cores;
}
