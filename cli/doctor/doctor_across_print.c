/* doctor of several processes: how it is printed; what is wrong comes first. */
#include <string.h>

#include "cli/doctor/doctor_across.h"
#include "cli/out/table.h"
#include "cli/out/text.h"

enum { MOST_ROWS = 32, MOST_COLUMNS = 10 };

/* A table that is filled row by row. */
typedef struct sheet {
    cli_table table;
    cli_pool *pool;
    int used;
} sheet;

static sheet make_sheet(cli_pool *pool, const char **titles, const bool *right, int columns,
                        int rows)
{
    const size_t cells = (size_t)columns * (size_t)rows;
    return (sheet){.table = {.columns = columns,
                             .title = titles,
                             .right = right,
                             .cell = pool_alloc(pool, (cells + 1) * sizeof(const char *))},
                   .pool = pool};
}

static void put(sheet *s, const char *text)
{
    s->table.cell[s->used++] = text_clean(s->pool, text);
}

static void put_int(sheet *s, int64_t number)
{
    put(s, pool_format(s->pool, "%lld", (long long)number));
}

static void print_sheet(sheet *s, const char *title, int width)
{
    s->table.rows = s->used / s->table.columns;
    say("\n%s", title);
    table_print(&s->table, width);
}

static const char *cut(cli_pool *pool, const char *text, int most)
{
    return (int)strlen(text) <= most ? text : pool_format(pool, "%.*s..", most - 2, text);
}

/* The ranks of the machine of rank `first`, without the word; NULL: an earlier one has it, too. */
static const char *ranks_of_host(const across *all, int first, uint64_t cpus[CROWD_WORDS])
{
    bool *chosen = pool_alloc(all->pool, (size_t)all->size);
    memset(cpus, 0, CROWD_WORDS * sizeof *cpus);
    for (int r = 0; r < all->size; r++) {
        chosen[r] = crowd_same_machine(&all->rank[first].crowd, &all->rank[r].crowd);
        if (chosen[r] && r < first) return NULL;
        for (int i = 0; i < CROWD_WORDS && chosen[r]; i++) cpus[i] |= all->rank[r].crowd.cpus[i];
    }
    return strchr(crowd_ranks(all->pool, chosen, all->size), ' ') + 1;
}

static const char *size_text(cli_doctor *scratch, double bytes)
{
    return bytes >= 0 ? doctor_size(scratch, bytes) : "not known";
}

static int print_hosts(const across *all, cli_doctor *scratch, int width)
{
    static const char *titles[] = {"host", "ranks", "CPUs", "quota", "memory", "/dev/shm", "clock"};
    static const bool right[] = {false, false, false, true, true, true, true};
    uint64_t cpus[CROWD_WORDS];
    int hosts = 0;
    sheet s = make_sheet(all->pool, titles, right, 7, MOST_ROWS);
    for (int r = 0; r < all->size; r++) {
        const across_rank *rank = &all->rank[r];
        const char *ranks = ranks_of_host(all, r, cpus);
        if (ranks == NULL || hosts++ >= MOST_ROWS) continue;
        put(&s, cut(all->pool, rank->crowd.host, 16));
        put(&s, cut(all->pool, ranks, 14));
        put(&s, cut(all->pool, crowd_list(all->pool, cpus), 12));
        if (rank->crowd.quota > 0)
            put_int(&s, rank->crowd.quota);
        else
            put(&s, "none");
        put(&s, size_text(scratch, rank->memory));
        put(&s, size_text(scratch, rank->shared));
        put(&s, pool_format(all->pool, "%+.3f ms", 1e3 * rank->ahead));
    }
    print_sheet(&s, "Hosts (memory: free; clock: ahead of rank 0's)", width);
    if (hosts > MOST_ROWS) say("%d more: --format json has them", hosts - MOST_ROWS);
    return hosts;
}

static void print_ranks(const across *all, int width)
{
    static const char *titles[] = {"rank",    "host",         "process", "CPUs",
                                   "workers", "instructions", "GFLOP/s", "watched"};
    static const bool right[] = {true, false, true, false, true, false, true, false};
    sheet s = make_sheet(all->pool, titles, right, 8, MOST_ROWS);
    const int rows = all->size < MOST_ROWS ? all->size : MOST_ROWS;
    for (int r = 0; r < rows; r++) {
        const across_rank *rank = &all->rank[r];
        put_int(&s, r);
        put(&s, cut(all->pool, rank->crowd.host, 16));
        put_int(&s, rank->process);
        put(&s, cut(all->pool, crowd_list(all->pool, rank->crowd.cpus), 12));
        put_int(&s, rank->crowd.workers);
        put(&s, rank->instructions);
        put(&s, pool_format(all->pool, "%.1f", 1e-9 * rank->flops));
        put(&s, rank->watched ? "yes" : "no");
    }
    print_sheet(&s, "Ranks (GFLOP/s: of the workers, all ranks at once)", width);
    if (all->size > rows) say("%d more: --format json has them", all->size - rows);
}

static const char *three_digits(cli_pool *pool, double number)
{
    return pool_format(pool, number < 10 ? "%.2f" : number < 100 ? "%.1f" : "%.0f", number);
}

static const lks_link *link_of(const across *all, int rank, int other)
{
    for (int i = 0; i < ACROSS_LINKS; i++) {
        const lks_link *link = &all->link[rank * ACROSS_LINKS + i];
        if (link->rank == other) return link;
    }
    return NULL;
}

/* A row and a column for each rank. */
static void print_matrix(const across *all, const char *title, bool rates, int width)
{
    const char *titles[MOST_COLUMNS + 1] = {"rank"};
    bool right[MOST_COLUMNS + 1];
    for (int r = 0; r <= all->size; r++) right[r] = true;
    for (int r = 0; r < all->size; r++) titles[r + 1] = pool_format(all->pool, "%d", r);
    sheet s = make_sheet(all->pool, titles, right, all->size + 1, all->size);
    for (int r = 0; r < all->size; r++) {
        put_int(&s, r);
        for (int other = 0; other < all->size; other++) {
            const lks_link *link = link_of(all, r, other);
            put(&s, link == NULL ? "-"
                    : rates      ? three_digits(all->pool, 1e-9 * link->bandwidth)
                                 : three_digits(all->pool, 1e6 * link->latency));
        }
    }
    print_sheet(&s, title, width);
}

/* Of so many ranks: the best, the middle and the worst. */
static void print_summary(const across *all, int width)
{
    static const char *titles[] = {"links", "number",     "us: best", "middle",
                                   "worst", "GB/s: best", "middle",   "worst"};
    static const bool right[] = {false, true, true, true, true, true, true, true};
    across_pair *pair;
    const int pairs = across_pairs(all, &pair);
    sheet s = make_sheet(all->pool, titles, right, 8, 2);
    for (int near = 1; near >= 0; near--) {
        const across_class c = across_class_of(all, pair, pairs, near == 1);
        if (c.count == 0) continue;
        const int places[] = {0, c.count / 2, c.count - 1};
        put(&s, near == 1 ? "within hosts" : "between hosts");
        put_int(&s, c.count);
        for (int i = 0; i < 3; i++) put(&s, three_digits(all->pool, 1e6 * c.latency[places[i]]));
        for (int i = 2; i >= 0; i--)
            put(&s, three_digits(all->pool, 1e-9 * c.bandwidth[places[i]]));
    }
    print_sheet(&s, "Links (one way: 8 bytes, a mebibyte)", width);
}

static void print_links(const across *all, int width)
{
    across_pair *pair;
    const int pairs = across_pairs(all, &pair);
    int near = 0, common = 0;
    for (int i = 0; i < pairs; i++) {
        near += pair[i].near;
        common += pair[i].near && pair[i].link.common;
    }
    if (all->size <= MOST_COLUMNS) {
        print_matrix(all, "Latency in microseconds (8 bytes one way)", false, width);
        print_matrix(all, "Bandwidth in GB/s (a mebibyte one way)", true, width);
    } else {
        print_summary(all, width);
    }
    if (near > 0) say("\nmemory in common: %d of %d pairs on one host", common, near);
}

void across_print(const cli_doctor *doctor, const across *all)
{
    const int columns = say_columns(), width = columns > 0 ? columns : HELP_WIDTH;
    const lks_launch launch = lks_launch_get();
    cli_doctor *scratch = pool_alloc(all->pool, sizeof *scratch);
    bool any = false;
    const char *head = pool_format(
        all->pool, "%d processes, started by %s; %s; Lockstep %s, version %d of the numerics",
        all->size, launch.launcher != NULL ? launch.launcher : "an unknown launcher",
        all->rank[0].library, lks_version(), lks_numerics());
    text_print_line(stdout, head, width);
    for (doctor_level level = LEVEL_ERROR; level > LEVEL_OK; level--)
        for (int i = 0; i < doctor->count; i++) {
            if (doctor->finding[i].level != level) continue;
            if (!any) say("\nWhat is wrong");
            any = true;
            doctor_print_finding(&doctor->finding[i], doctor->finding[i].name, width);
        }
    print_hosts(all, scratch, width);
    print_ranks(all, width);
    print_links(all, width);
    doctor_print_counts(doctor);
    pool_clear(&scratch->pool);
}

static json_t *rank_json(const across *all, int r)
{
    const across_rank *rank = &all->rank[r];
    json_t *clock = json_pack("{s:f, s:f}", "ahead", rank->ahead, "error", rank->error);
    return json_pack("{s:i, s:s, s:I, s:i, s:s, s:i, s:i, s:f, s:f, s:f, s:s, s:s, s:b, s:o}",
                     "rank", r, "host", text_clean(all->pool, rank->crowd.host), "process",
                     (json_int_t)rank->process, "local_rank", rank->local, "cpus",
                     crowd_list(all->pool, rank->crowd.cpus), "workers", rank->crowd.workers,
                     "quota", rank->crowd.quota, "memory", rank->memory, "dev_shm", rank->shared,
                     "flops", rank->flops, "library", text_clean(all->pool, rank->library),
                     "instructions", text_clean(all->pool, rank->instructions), "watched",
                     rank->watched, "clock", clock);
}

void across_print_json(const cli_doctor *doctor, const across *all)
{
    int counts[4] = {0};
    across_pair *pair;
    const int pairs = across_pairs(all, &pair);
    json_t *checks = json_array(), *ranks = json_array(), *links = json_array();
    for (doctor_level level = LEVEL_ERROR; level > LEVEL_OK; level--)
        for (int i = 0; i < doctor->count; i++)
            if (doctor->finding[i].level == level)
                json_array_append_new(checks, doctor_finding_json(&doctor->finding[i]));
    for (int r = 0; r < all->size; r++) json_array_append_new(ranks, rank_json(all, r));
    for (int i = 0; i < pairs; i++)
        json_array_append_new(links,
                              json_pack("{s:[i, i], s:f, s:f, s:b}", "ranks", pair[i].a, pair[i].b,
                                        "latency", pair[i].link.latency, "bandwidth",
                                        pair[i].link.bandwidth, "common", pair[i].link.common));
    json_t *whole = json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "version", lks_version(),
                              "numerics", lks_numerics(), "worst",
                              doctor_level_name(doctor_worst(doctor, counts)), "checks", checks,
                              "ranks", ranks, "links", links);
    text_say_json(whole, 2);
    json_decref(whole);
}
