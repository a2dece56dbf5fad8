/* lockstep watch: what each process of a run does. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/watch/watch.h"

enum { MOST_ROWS = 8 };

typedef struct rank_row {
    double rate, tokens, waited, bytes;
    const char *host;
} rank_row;

static rank_row rank_row_of(const json_t *ranks, size_t rank)
{
    const json_t *one = json_array_get(ranks, rank);
    const char *host = json_string_value(json_object_get(one, "host"));
    return (rank_row){runs_number_of(one, "samples_per_second"),
                      runs_number_of(one, "tokens_per_second"), runs_number_of(one, "waited"),
                      runs_number_of(one, "peak_rss_bytes"), host != NULL ? host : "-"};
}

double watch_waited(const json_t *record)
{
    const json_t *ranks = json_object_get(record, "ranks");
    const size_t count = json_array_size(ranks);
    double sum = 0;
    for (size_t r = 0; r < count; r++) sum += rank_row_of(ranks, r).waited;
    return count > 0 && sum >= 0 && sum <= (double)count ? sum / (double)count : (double)NAN;
}

double watch_memory(const json_t *record)
{
    const json_t *ranks = json_object_get(record, "ranks");
    const size_t count = json_array_size(ranks);
    double sum = 0;
    for (size_t r = 0; r < count; r++) sum += rank_row_of(ranks, r).bytes;
    return count > 0 ? sum : runs_number_of(record, "peak_rss_bytes");
}

static const char *rank_count(cli_pool *pool, double number, double unit, const char *name)
{
    char text[TEXT_NUMBER_SIZE];
    if (!(number >= 0 && number < 1e18)) return "-";
    return pool_format(pool, "%s%s", lks_text_count(text, (int64_t)(number / unit + 0.5)), name);
}

/* Whether that of `a` is shown before that of `b`: of many, whom all others wait for. */
static bool waits_less(const json_t *ranks, size_t a, size_t b)
{
    const double x = rank_row_of(ranks, a).waited, y = rank_row_of(ranks, b).waited;
    return x < y || (x == y && a < b);
}

/* The ranks that are shown, in order of waiting where they are not all. Returns how many. */
static size_t choose_ranks(size_t shown[MOST_ROWS], const json_t *ranks)
{
    const size_t count = json_array_size(ranks);
    size_t rows = 0;
    for (size_t r = 0; r < count; r++) {
        size_t at = rows;
        while (count > MOST_ROWS && at > 0 && waits_less(ranks, r, shown[at - 1])) at--;
        if (at == MOST_ROWS) continue;
        if (rows < MOST_ROWS) rows++;
        memmove(&shown[at + 1], &shown[at], (rows - 1 - at) * sizeof *shown);
        shown[at] = r;
    }
    return rows;
}

void watch_print_ranks(FILE *out, const json_t *record, cli_pool *pool, int width)
{
    const json_t *ranks = json_object_get(record, "ranks");
    const size_t count = json_array_size(ranks);
    const bool tokens = runs_number_of(json_array_get(ranks, 0), "tokens_per_second") >= 0;
    size_t shown[MOST_ROWS];
    if (count == 0) return;
    const size_t rows = choose_ranks(shown, ranks);
    text_print_line(out,
                    pool_format(pool, "%5s  %14s  %7s  %9s  host", "rank",
                                tokens ? "tokens/s" : "samples/s", "waiting", "memory"),
                    width);
    for (size_t i = 0; i < rows; i++) {
        const rank_row row = rank_row_of(ranks, shown[i]);
        text_print_line(out,
                        pool_format(pool, "%5zu  %14s  %7s  %9s  %s", shown[i],
                                    rank_count(pool, tokens ? row.tokens : row.rate, 1, ""),
                                    text_share(pool, row.waited),
                                    rank_count(pool, row.bytes, 1e6, " MB"),
                                    text_clean(pool, row.host)),
                        width);
    }
    if (rows < count)
        text_print_line(
            out, pool_format(pool, "of %zu ranks, those that wait the least for others", count),
            width);
}
