#include "cli/running/row.h"

#include <math.h>
#include <string.h>

#include "cli/out/text.h"

double row_waited(const running_note *note)
{
    const int64_t waited = atomic_load(&note->waited);
    return waited >= 0 && waited <= 1000 ? (double)waited / 1e3 : (double)NAN;
}

json_t *row_write(cli_pool *pool, const running_rank *r)
{
    const running_note *n = &r->note;
    return json_pack(
        "{s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:s, s:s, s:s}", "run",
        (json_int_t)n->run, "rank", (json_int_t)n->rank, "size", (json_int_t)n->size, "host",
        text_clean(pool, n->host), "first_host", text_clean(pool, n->lead), "pid",
        (json_int_t)n->process, "start_ticks", (json_int_t)n->start, "step",
        (json_int_t)atomic_load(&n->step), "steps", (json_int_t)n->steps, "samples_per_second",
        (json_int_t)atomic_load(&n->rate), "waited", text_json_real(row_waited(n)), "rss_bytes",
        r->resident >= 0 ? json_integer(r->resident) : json_null(), "device",
        text_clean(pool, n->device), "folder", text_clean(pool, n->folder), "config",
        text_clean(pool, n->config), "other_hosts", text_clean(pool, n->others));
}

static bool take_text(char *out, size_t size, const char *text)
{
    if (strlen(text) >= size) return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

/* One line of the answer: everything that ps prints has to be there, and to fit into a note. */
static bool read_rank(running_rank *out, const char *line, size_t bytes)
{
    json_t *json = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL), *waited, *resident;
    running_note *n = &out->note;
    json_int_t run, rank, size, process, start, step, steps, rate;
    const char *host, *lead, *device, *directory, *config, *others;
    bool good = json_unpack(json,
                            "{s:I,s:I,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:s,s:s,s:s,s:s}",
                            "run", &run, "rank", &rank, "size", &size, "host", &host, "first_host",
                            &lead, "pid", &process, "start_ticks", &start, "step", &step, "steps",
                            &steps, "samples_per_second", &rate, "waited", &waited, "rss_bytes",
                            &resident, "device", &device, "folder", &directory, "config", &config,
                            "other_hosts", &others) == 0 &&
                run > 0 && rank >= 0 && rank < size && process > 0 && start >= 0 && step >= 0 &&
                steps >= 0 && rate >= 0 && (json_is_null(waited) || json_is_number(waited)) &&
                (json_is_null(resident) || json_is_integer(resident)) &&
                json_integer_value(resident) <= INT64_MAX / 2;
    if (good) {
        *n = (running_note){.run = run,
                            .rank = rank,
                            .size = size,
                            .process = process,
                            .start = start,
                            .steps = steps,
                            .step = step,
                            .rate = rate,
                            .waited = -1};
        const double share = json_number_value(waited);
        if (json_is_number(waited) && share >= 0 && share <= 1) n->waited = lrint(1e3 * share);
        out->resident = json_is_null(resident) ? -1 : json_integer_value(resident);
        good = take_text(n->host, sizeof n->host, host) &&
               take_text(n->lead, sizeof n->lead, lead) &&
               take_text(n->others, sizeof n->others, others) &&
               take_text(n->folder, sizeof n->folder, directory) &&
               take_text(n->config, sizeof n->config, config) &&
               take_text(n->device, sizeof n->device, device);
    }
    json_decref(json);
    return good;
}

bool row_read(running_ranks *list, const char *answer, size_t bytes, const char *from,
              cli_pool *pool)
{
    const int before = list->count;
    for (const char *line = answer, *end; line < answer + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(answer + bytes - line));
        running_rank *rank = running_next(list, pool);
        if (end == NULL || !read_rank(rank, line, (size_t)(end - line))) {
            list->count = before;
            return false;
        }
        rank->from = from;
        list->count++;
    }
    return true;
}
