/* doctor of several processes: what is wrong with what they told. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cli/doctor/doctor_across.h"
#include "cli/out/text.h"
#include "cli/sort.h"

int across_pairs(const across *all, across_pair **out)
{
    int count = 0;
    across_pair *pair = pool_alloc(all->pool, (size_t)all->size * ACROSS_LINKS * sizeof *pair);
    for (int r = 0; r < all->size; r++)
        for (int i = 0; i < ACROSS_LINKS; i++) {
            const lks_link *link = &all->link[r * ACROSS_LINKS + i];
            if (link->rank <= r) continue; /* none, or known from the other side */
            pair[count++] = (across_pair){
                .a = r,
                .b = link->rank,
                .link = *link,
                .near = crowd_same_machine(&all->rank[r].crowd, &all->rank[link->rank].crowd)};
        }
    *out = pair;
    return count;
}

across_class across_class_of(const across *all, const across_pair *pair, int pairs, bool near)
{
    across_class found = {.latency = pool_alloc(all->pool, (size_t)pairs * sizeof(double) + 1),
                          .bandwidth = pool_alloc(all->pool, (size_t)pairs * sizeof(double) + 1)};
    for (int i = 0; i < pairs; i++) {
        if (pair[i].near != near) continue;
        found.latency[found.count] = pair[i].link.latency;
        found.bandwidth[found.count++] = pair[i].link.bandwidth;
    }
    sort_ascending(found.latency, (size_t)found.count);
    sort_ascending(found.bandwidth, (size_t)found.count);
    return found;
}

static const char *host_of(const across *all, int rank)
{
    return all->rank[rank].crowd.host;
}

/* Whether it is the first rank of its machine, which talks for it. */
static bool is_first(const across *all, int rank)
{
    for (int r = 0; r < rank; r++)
        if (crowd_same_machine(&all->rank[r].crowd, &all->rank[rank].crowd)) return false;
    return true;
}

static bool look_at_cores(cli_doctor *d, const across *all)
{
    enum { MOST = 4 };
    crowd_finding found[MOST];
    crowd_rank *crowd = pool_alloc(all->pool, (size_t)all->size * sizeof *crowd);
    for (int r = 0; r < all->size; r++) crowd[r] = all->rank[r].crowd;
    const int count = crowd_look(found, MOST, all->pool, crowd, all->size);
    for (int i = 0; i < count && i < MOST; i++)
        doctor_raise(d, doctor_add(d, found[i].name, "%s", found[i].found), LEVEL_WARNING, "%s",
                     found[i].advice);
    if (count > MOST)
        doctor_raise(d, doctor_add(d, "cores", "%d more hosts and ranks like these", count - MOST),
                     LEVEL_WARNING, "the same");
    return count > 0;
}

/* Ranks whose text is another than that of most. */
static int others(const across *all, size_t offset, bool *chosen, const char **usual)
{
    int best = 0, count = 0;
    for (int r = 0; r < all->size && r < 64; r++) { /* most is seen in a few */
        int same = 0;
        const char *text = (const char *)&all->rank[r] + offset;
        for (int i = 0; i < all->size; i++)
            same += strcmp((const char *)&all->rank[i] + offset, text) == 0;
        if (same > best) *usual = text;
        if (same > best) best = same;
    }
    for (int r = 0; r < all->size; r++) {
        chosen[r] = strcmp((const char *)&all->rank[r] + offset, *usual) != 0;
        count += chosen[r];
    }
    return count;
}

/* A text at this place of an across_rank, which is to be the same on all. */
static void look_at_text(cli_doctor *d, const across *all, size_t offset, const char *name,
                         doctor_level level, const char *advice)
{
    bool *chosen = pool_alloc(all->pool, (size_t)all->size);
    const char *usual = "";
    int first = 0;
    if (others(all, offset, chosen, &usual) == 0) return;
    while (!chosen[first]) first++;
    doctor_finding *f = doctor_add(d, name, "%s: %s; the others: %s",
                                   crowd_ranks(all->pool, chosen, all->size),
                                   (const char *)&all->rank[first] + offset, usual);
    doctor_raise(d, f, level, "%s", advice);
}

static void look_at_programs(cli_doctor *d, const across *all)
{
    look_at_text(d, all, offsetof(across_rank, library), "MPI", LEVEL_WARNING,
                 "an MPI promises nothing between its versions; install one on all hosts");
    look_at_text(d, all, offsetof(across_rank, instructions), "instructions", LEVEL_NOTE,
                 "the bits are the same, and all wait for the slowest; train.balance gives it "
                 "less");
}

static void look_at_speed(cli_doctor *d, const across *all)
{
    static const double SLOW = 0.6;
    int slowest = 0;
    double *speed = pool_alloc(all->pool, 2 * (size_t)all->size * sizeof *speed);
    double *sorted = speed + all->size;
    for (int r = 0; r < all->size; r++) {
        speed[r] = sorted[r] = all->rank[r].flops / all->rank[r].crowd.workers;
        if (speed[r] < speed[slowest]) slowest = r;
    }
    sort_ascending(sorted, (size_t)all->size);
    const double usual = sorted[all->size / 2];
    if (!(speed[slowest] < SLOW * usual)) return;
    doctor_finding *f = doctor_add(
        d, "speed", "a worker of rank %d (host %s) computes at %.0f%% of the speed of others",
        slowest, host_of(all, slowest), 100 * speed[slowest] / usual);
    doctor_raise(d, f, LEVEL_WARNING,
                 "every step waits for it: see what else computes there or limits it (a quota, "
                 "heat), or give it less by train.balance");
}

static void look_at_clocks(cli_doctor *d, const across *all)
{
    static const double WRONG = 1, ODD = 0.1;
    int worst = 0;
    double most = 0;
    for (int r = 0; r < all->size; r++) {
        const double apart = fabs(all->rank[r].ahead) - all->rank[r].error;
        if (apart > most) worst = r;
        if (apart > most) most = apart;
    }
    if (most < ODD) return;
    const across_rank *rank = &all->rank[worst];
    doctor_finding *f = doctor_add(d, "clocks", "the clock of host %s is %.3g s %s that of host %s",
                                   host_of(all, worst), fabs(rank->ahead),
                                   rank->ahead > 0 ? "ahead of" : "behind", host_of(all, 0));
    doctor_raise(d, f, most < WRONG ? LEVEL_NOTE : LEVEL_WARNING,
                 "times in logs and of files do not fit, and Slurm's keys may be refused; set the "
                 "clocks of all hosts by NTP");
}

static void look_at_memory(cli_doctor *d, const across *all, const across_pair *pair, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        const across_rank *rank = &all->rank[pair[i].a];
        int ranks = 0;
        if (!pair[i].near || pair[i].link.common || !is_first(all, pair[i].a)) continue;
        for (int r = 0; r < all->size; r++)
            ranks += crowd_same_machine(&rank->crowd, &all->rank[r].crowd);
        const bool small = rank->shared >= 0 && rank->shared < (double)LKS_LINK_MEMORY * ranks;
        doctor_finding *f = doctor_add(
            d, "common memory", "ranks %d and %d of host %s have none%s%s%s", pair[i].a, pair[i].b,
            rank->crowd.host, small ? ": /dev/shm has " : "",
            small ? doctor_size(d, rank->shared) : "", small ? " free" : "");
        doctor_raise(d, f, small ? LEVEL_WARNING : LEVEL_NOTE,
                     small ? "sums travel as messages, which is slower: make it larger (Docker: "
                             "--shm-size=1g), or remove what lies there"
                           : "sums travel as messages, which is slower: MPI takes them for ranks "
                             "of several hosts, as nodes of one machine are");
        return;
    }
}

static bool is_slow(const lks_link *link, const across_class *usual)
{
    const int middle = usual->count / 2;
    return usual->count >= 3 && (link->bandwidth < usual->bandwidth[middle] / 4 ||
                                 link->latency > 4 * usual->latency[middle] + 50e-6);
}

static void look_at_links(cli_doctor *d, const across *all, const across_pair *pair, int pairs,
                          bool near)
{
    const across_class usual = across_class_of(all, pair, pairs, near);
    const across_pair *worst = NULL;
    int slow = 0;
    for (int i = 0; i < pairs; i++) {
        if (pair[i].near != near || !is_slow(&pair[i].link, &usual)) continue;
        slow++;
        if (worst == NULL || pair[i].link.bandwidth < worst->link.bandwidth) worst = &pair[i];
    }
    if (worst == NULL) return;
    const int middle = usual.count / 2;
    doctor_finding *f = doctor_add(
        d, "link",
        "that of ranks %d (host %s) and %d (host %s) is slow: %.3g GB/s and %.3g us, where the "
        "middle is %.3g GB/s and %.3g us%s",
        worst->a, host_of(all, worst->a), worst->b, host_of(all, worst->b),
        1e-9 * worst->link.bandwidth, 1e6 * worst->link.latency, 1e-9 * usual.bandwidth[middle],
        1e6 * usual.latency[middle],
        slow > 1 ? pool_format(all->pool, "; so %s %d more", slow > 2 ? "are" : "is", slow - 1)
                 : "");
    doctor_raise(d, f, near ? LEVEL_NOTE : LEVEL_WARNING,
                 near
                     ? "these ranks may be on two sockets; a step waits for its slowest link"
                     : "a step waits for its slowest link: look at cable, switch and load of these "
                       "hosts, or leave them out");
}

static void look_at_names(cli_doctor *d, const across *all)
{
    for (int r = 0; r < all->size; r++) {
        if (*all->rank[r].address == '\0') continue;
        doctor_finding *f = doctor_add(d, "host names", "that of host %s means %s there",
                                       host_of(all, r), all->rank[r].address);
        doctor_raise(
            d, f, LEVEL_NOTE,
            "other hosts do not reach it by that, though they have found it otherwise; give "
            "the name its address of the network in /etc/hosts");
        return;
    }
}

static void look_at_watch(cli_doctor *d, const across *all)
{
    bool *chosen = pool_alloc(all->pool, (size_t)all->size);
    int count = 0;
    for (int r = 1; r < all->size; r++) count += chosen[r] = !all->rank[r].watched;
    if (count == 0) return;
    if (!all->rank[0].watched) {
        doctor_raise(d, doctor_add(d, "watch", "ranks are not watched, as LKS_WATCH says"),
                     LEVEL_NOTE,
                     "one that ends or freezes is noticed after --comm-timeout; unset LKS_WATCH");
        return;
    }
    doctor_finding *f = doctor_add(d, "watch", "%s cannot reach rank 0 on host %s by TCP",
                                   crowd_ranks(all->pool, chosen, all->size), host_of(all, 0));
    doctor_raise(
        d, f, LEVEL_WARNING,
        "when one of them ends or freezes the others notice after --comm-timeout only; let "
        "hosts connect to each other's ports, which the system chooses");
}

void across_look(cli_doctor *d, const across *all)
{
    across_pair *pair;
    const int pairs = across_pairs(all, &pair);
    const bool crowded = look_at_cores(d, all);
    look_at_programs(d, all);
    look_at_watch(d, all);
    look_at_memory(d, all, pair, pairs);
    if (!crowded) { /* then all of it varies */
        look_at_speed(d, all);
        look_at_links(d, all, pair, pairs, false);
        look_at_links(d, all, pair, pairs, true);
    }
    look_at_clocks(d, all);
    look_at_names(d, all);
}

/* Of one host alone; for ranks these are looked at above, or follow from their binding. */
static bool is_of_ranks(const char *name)
{
    static const char *const names[] = {"CPUs", "cores", "CPU quota", "NUMA"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static const char *text_of(const json_t *check, const char *key)
{
    const char *text = json_string_value(json_object_get(check, key));
    return text != NULL ? text : "";
}

static doctor_level level_of(const json_t *check)
{
    doctor_level level = LEVEL_ERROR;
    while (level > LEVEL_OK && strcmp(doctor_level_name(level), text_of(check, "level")) != 0)
        level--;
    return level;
}

/* How many other hosts say the same. */
static int others_that_say(const json_t *check, json_t *const *lists, int count, bool before)
{
    int found = 0;
    for (int r = 0; r < count; r++) {
        size_t i;
        json_t *other;
        bool same = false;
        json_array_foreach(lists[r], i, other)
            same |= strcmp(text_of(other, "name"), text_of(check, "name")) == 0 &&
                    strcmp(text_of(other, "advice"), text_of(check, "advice")) == 0;
        found += same;
        if (same && before) return found;
    }
    return found;
}

void across_hosts(cli_doctor *d, const across *all, const char *const *notes)
{
    json_t **lists = pool_alloc(all->pool, (size_t)all->size * sizeof *lists);
    for (int r = 0; r < all->size; r++)
        lists[r] = *notes[r] != '\0' ? json_loads(notes[r], 0, NULL) : NULL;
    for (int r = 0; r < all->size; r++) {
        size_t i;
        json_t *check;
        json_array_foreach(lists[r], i, check)
        {
            if (is_of_ranks(text_of(check, "name")) || others_that_say(check, lists, r, true) > 0)
                continue;
            const int more = others_that_say(check, lists, all->size, false) - 1;
            const char *and_more = more > 0 ? pool_format(all->pool, " and %d more", more) : "";
            doctor_finding *f = doctor_add(d, pool_format(&d->pool, "%s", text_of(check, "name")),
                                           "host %s%s: %s", host_of(all, r), and_more,
                                           text_of(check, "found"));
            doctor_raise(d, f, level_of(check), "%s", text_of(check, "advice"));
        }
    }
    for (int r = 0; r < all->size; r++) json_decref(lists[r]);
}
