#include "base/json.h"

#include <errno.h>

typedef struct feed {
    const char *at, *end;
    bool no_memory;
} feed;

/* Byte by byte, as a number behind a text that has lost a letter forgets the error. */
static size_t json_next(void *buffer, size_t room, void *user)
{
    feed *from = user;
    from->no_memory = from->no_memory || errno == ENOMEM;
    if (from->at == from->end || room == 0) return 0;
    *(char *)buffer = *from->at++;
    return 1;
}

json_t *lki_json_load(const void *text, size_t bytes, json_error_t *error, bool *no_memory)
{
    feed from = {.at = text, .end = (const char *)text + bytes};
    errno = 0;
    json_t *json = json_load_callback(json_next, &from, JSON_REJECT_DUPLICATES, error);
    *no_memory = from.no_memory || errno == ENOMEM;
    return json;
}
