/* Bytes that may be the beginning of an end are held back until it is seen whether they are. They need no memory: they are
 * the first bytes of that end, of which the most are met (Knuth, Morris, Pratt). */
#include "cli/sample/ends.h"

#include <string.h>

static sample_end end_of(cli_pool *pool, const char *text)
{
    sample_end end = {.text = text, .bytes = strlen(text)};
    end.shorter = pool_alloc(pool, end.bytes * sizeof *end.shorter);
    end.shorter[0] = 0;
    for (size_t i = 1; i < end.bytes; i++) {
        size_t met = end.shorter[i - 1];
        while (met > 0 && text[met] != text[i]) met = end.shorter[met - 1];
        end.shorter[i] = met + (text[met] == text[i]);
    }
    return end;
}

sample_ends sample_ends_of(const cli_args *cli)
{
    sample_ends ends = {.count = 0};
    ends.each = pool_alloc(cli->pool, (size_t)cli->settings * sizeof *ends.each + 1);
    for (int i = 0; i < cli->settings; i++)
        if (cli->setting[i].option->local == LOCAL_STOP)
            ends.each[ends.count++] = end_of(cli->pool, cli->setting[i].text);
    return ends;
}

/* The one whose first bytes are held back; NULL: none are. */
static const sample_end *held(const sample_ends *ends)
{
    const sample_end *most = NULL;
    for (int i = 0; i < ends->count; i++)
        if (ends->each[i].met > (most != NULL ? most->met : 0)) most = &ends->each[i];
    return most;
}

bool sample_ends_take(sample_ends *ends, char byte, sample_put *put, void *user)
{
    const sample_end *before = held(ends);
    const char *text = before != NULL ? before->text : "";
    const size_t all = (before != NULL ? before->met : 0) + 1; /* held, and this byte */
    size_t most = 0, made = 0;
    for (int i = 0; i < ends->count; i++) {
        sample_end *end = &ends->each[i];
        while (end->met > 0 && end->text[end->met] != byte) end->met = end->shorter[end->met - 1];
        end->met += end->text[end->met] == byte;
        if (end->met > most) most = end->met;
        if (end->met == end->bytes && end->bytes > made) made = end->bytes;
    }
    const size_t kept = made > 0 ? made : most;
    for (size_t i = 0; i < all - kept; i++) put(user, i + 1 < all ? text[i] : byte);
    if (made > 0)
        for (int i = 0; i < ends->count; i++) ends->each[i].met = 0;
    return made > 0;
}

void sample_ends_release(sample_ends *ends, sample_put *put, void *user)
{
    const sample_end *end = held(ends);
    for (size_t i = 0; end != NULL && i < end->met; i++) put(user, end->text[i]);
    for (int i = 0; i < ends->count; i++) ends->each[i].met = 0;
}
