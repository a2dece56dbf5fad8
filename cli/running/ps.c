/* lockstep ps: this user's ranks on this host, or on others. */
#include <inttypes.h>
#include <string.h>

#include "cli/launch/launch.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/running/across.h"
#include "cli/running/row.h"

enum { RUN, RANK, HOST, PROCESS, STEP, RATE, WAITING, MEMORY, DEVICE, WHAT, COLUMNS };
static const char *titles[COLUMNS] = {
    "run",       "rank",    "host", "pid",    "step",
    "samples/s", "waiting", "RSS",  "device", "folder or configuration"};
static const bool right[COLUMNS] = {
    [RUN] = true,  [RANK] = true,    [PROCESS] = true, [STEP] = true,
    [RATE] = true, [WAITING] = true, [MEMORY] = true};

static void put_row(const char **cell, cli_pool *pool, const running_rank *r)
{
    const running_note *n = &r->note;
    char rate[TEXT_NUMBER_SIZE];
    const int64_t step = atomic_load(&n->step), speed = atomic_load(&n->rate);
    cell[RUN] = pool_format(pool, "%" PRId64, n->run);
    cell[RANK] = pool_format(pool, "%" PRId64 "/%" PRId64, n->rank, n->size);
    cell[HOST] = text_clean(pool, n->host);
    cell[PROCESS] = pool_format(pool, "%" PRId64, n->process);
    cell[STEP] = n->steps > 0 ? pool_format(pool, "%" PRId64 "/%" PRId64, step, n->steps)
                              : pool_format(pool, "%" PRId64, step);
    cell[RATE] = speed > 0 ? pool_format(pool, "%s", lks_text_count(rate, speed)) : "-";
    cell[WAITING] = text_share(pool, row_waited(n));
    cell[MEMORY] = r->resident >= 0
                       ? pool_format(pool, "%" PRId64 " MB", (r->resident + 500000) / 1000000)
                       : "-";
    cell[DEVICE] = text_clean(pool, n->device);
    cell[WHAT] = text_clean(pool, running_what(n));
}

/* Whether a host is among "a,b:2". */
static bool names(const char *list, const char *host)
{
    const size_t length = strlen(host);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, host, length) == 0 && strchr(",:", at[length]) != NULL) return true;
    return false;
}

/* The list with one host more, unless that is there, or is no name that one could type. */
static char *with_host(cli_pool *pool, char *list, const char *host)
{
    if (!launch_is_host(host) || names(list, host)) return list;
    return pool_format(pool, "%s%s%s", list, *list != '\0' ? "," : "", host);
}

/* Where a run has ranks that are not looked at. */
static void say_elsewhere(const cli_args *cli, const running_ranks *list)
{
    const char *asked = cli->local[LOCAL_HOSTS] != NULL ? cli->local[LOCAL_HOSTS] : "";
    for (int i = 0; i < list->count;) {
        const running_note *n = &list->rank[i].note;
        char *seen = pool_format(cli->pool, "%s", ""), *missed = seen, *rest;
        do seen = with_host(cli->pool, seen, list->rank[i++].note.host);
        while (i < list->count && running_goes_on(list, i));
        rest = pool_copy(cli->pool, n->others, strlen(n->others));
        for (char *host; (host = strsep(&rest, ", ")) != NULL;)
            if (!names(seen, host) && !names(asked, host))
                missed = with_host(cli->pool, missed, host);
        if (*missed == '\0') continue;
        say_command(pool_format(cli->pool, "lockstep ps --hosts %s%s%s", seen,
                                *seen != '\0' ? "," : "", missed),
                    "run %" PRId64 " has ranks on %s too, where nobody has looked; look there by",
                    n->run, missed);
    }
}

lks_status verb_ps(const cli_args *cli, int *code)
{
    running_ranks list = {0};
    int lost;
    const char *format = cli->local[LOCAL_FORMAT];
    const bool as_json = format != NULL && strcmp(format, "json") == 0;
    if (format != NULL && !as_json && strcmp(format, "text") != 0)
        return lks_fail(LKS_E_INVALID, "--format is '%.60s', expected text or json", format);
    const lks_status status = across_list(&list, &lost, cli, false);
    if (status != LKS_OK) return status;
    if (lost > 0) *code = exit_code_of(LKS_E_COMM);
    if (list.count == 0 && !as_json) {
        say("No training of yours runs on %s.", lost > 0 ? "the hosts that have answered"
                                                : cli->local[LOCAL_HOSTS] != NULL ? "these hosts"
                                                                                  : "this host");
        return LKS_OK;
    }
    const char **cell = pool_alloc(cli->pool, (size_t)(list.count + 1) * COLUMNS * sizeof *cell);
    for (int i = 0; i < list.count; i++) {
        put_row(cell + i * COLUMNS, cli->pool, &list.rank[i]);
        if (!as_json) continue;
        json_t *json = row_write(cli->pool, &list.rank[i]);
        text_say_json(json, 0);
        json_decref(json);
    }
    if (!as_json)
        table_print(&(cli_table){list.count, COLUMNS, titles, cell, right}, say_columns());
    say_elsewhere(cli, &list);
    return LKS_OK;
}
