/* Reading JSON where memory may run out. */
#ifndef LKI_BASE_JSON_H
#define LKI_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* As json_loadb() without duplicates. Where its memory ran out, *no_memory, whatever it returns: it may say nothing of
 * that, and lose letters of names and texts. `error` may be NULL. */
json_t *lki_json_load(const void *text, size_t bytes, json_error_t *error, bool *no_memory);

#endif
