/* lockstep ps: this user's ranks on this host. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/running/running.h"

enum { RUN, RANK, HOST, PROCESS, STEP, RATE, WAITING, MEMORY, DEVICE, WHAT, COLUMNS };
static const char *titles[COLUMNS] = {
    "run",       "rank",    "host", "pid",    "step",
    "samples/s", "waiting", "RSS",  "device", "folder or configuration"};
static const bool right[COLUMNS] = {
    [RUN] = true,  [RANK] = true,    [PROCESS] = true, [STEP] = true,
    [RATE] = true, [WAITING] = true, [MEMORY] = true};

static int64_t load(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* The share of its steps in which it waits for other ranks; NaN: not known. */
static double waited_of(const running_note *note)
{
    const int64_t waited = load(&note->waited);
    return waited >= 0 && waited <= 1000 ? (double)waited / 1e3 : (double)NAN;
}

static const char *what_of(const running_note *note)
{
    return note->folder[0] != '\0' ? note->folder : note->config;
}

static void put_row(const char **cell, cli_pool *pool, const running_rank *r)
{
    const running_note *n = &r->note;
    char rate[TEXT_NUMBER_SIZE];
    const int64_t step = load(&n->step), speed = load(&n->rate);
    cell[RUN] = pool_format(pool, "%" PRId64, n->run);
    cell[RANK] = pool_format(pool, "%" PRId64 "/%" PRId64, n->rank, n->size);
    cell[HOST] = text_clean(pool, n->host);
    cell[PROCESS] = pool_format(pool, "%" PRId64, n->process);
    cell[STEP] = n->steps > 0 ? pool_format(pool, "%" PRId64 "/%" PRId64, step, n->steps)
                              : pool_format(pool, "%" PRId64, step);
    cell[RATE] = speed > 0 ? pool_format(pool, "%s", lks_text_count(rate, speed)) : "-";
    cell[WAITING] = text_share(pool, waited_of(n));
    cell[MEMORY] = r->resident >= 0
                       ? pool_format(pool, "%" PRId64 " MB", (r->resident + 500000) / 1000000)
                       : "-";
    cell[DEVICE] = text_clean(pool, n->device);
    cell[WHAT] = text_clean(pool, what_of(n));
}

static json_t *rank_json(cli_pool *pool, const running_rank *r)
{
    const running_note *n = &r->note;
    return json_pack("{s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:s, s:s, s:s}",
                     "run", (json_int_t)n->run, "rank", (json_int_t)n->rank, "size",
                     (json_int_t)n->size, "host", text_clean(pool, n->host), "pid",
                     (json_int_t)n->process, "step", (json_int_t)load(&n->step), "steps",
                     (json_int_t)n->steps, "samples_per_second", (json_int_t)load(&n->rate),
                     "waited", text_json_real(waited_of(n)), "rss_bytes",
                     r->resident >= 0 ? json_integer(r->resident) : json_null(), "device",
                     text_clean(pool, n->device), "folder", text_clean(pool, n->folder), "config",
                     text_clean(pool, n->config), "other_hosts", text_clean(pool, n->others));
}

/* Where a run has ranks that are not looked at. */
static void say_elsewhere(cli_pool *pool, const running_rank *rank, int count)
{
    for (int i = 0; i < count; i++) {
        const running_note *n = &rank[i].note;
        const bool first = i == 0 || rank[i - 1].note.run != n->run;
        if (first && n->others[0] != '\0')
            say_error("run %" PRId64 " has ranks on %s too, where nobody has looked; run "
                      "lockstep ps there",
                      n->run, text_clean(pool, n->others));
    }
}

lks_status verb_ps(const cli_args *cli, int *code)
{
    running_rank *rank;
    int count;
    const char *format = cli->local[LOCAL_FORMAT];
    const bool as_json = format != NULL && strcmp(format, "json") == 0;
    (void)code;
    if (format != NULL && !as_json && strcmp(format, "text") != 0)
        return lks_fail(LKS_E_INVALID, "--format is '%.60s', expected text or json", format);
    const lks_status status = running_list(&rank, &count, cli->pool);
    if (status != LKS_OK) return status;
    if (count == 0 && !as_json) {
        say("No training of yours runs on this host.");
        return LKS_OK;
    }
    const char **cell = pool_alloc(cli->pool, (size_t)(count + 1) * COLUMNS * sizeof *cell);
    for (int i = 0; i < count; i++) {
        put_row(cell + i * COLUMNS, cli->pool, &rank[i]);
        if (!as_json) continue;
        json_t *json = rank_json(cli->pool, &rank[i]);
        text_say_json(json, 0);
        json_decref(json);
    }
    if (!as_json) table_print(&(cli_table){count, COLUMNS, titles, cell, right}, say_columns());
    say_elsewhere(cli->pool, rank, count);
    return LKS_OK;
}
