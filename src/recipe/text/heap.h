/* Memory that lives as long as a recipe: strings and trees, freed together. */
#ifndef LKI_RECIPE_HEAP_H
#define LKI_RECIPE_HEAP_H

#include "base/memory.h"

/*
 * Where there is no memory, an object is NULL and a text is "", and the heap keeps that in mind:
 * whoever has used texts asks lki_heap_status() before what he made is looked at.
 */
typedef struct lki_heap {
    lki_arena arena; /* all zero is an empty heap */
    bool failed;
} lki_heap;

void *lki_heap_alloc(lki_heap *heap, size_t bytes); /* zeroed, aligned for any type */
const char *lki_heap_copy(lki_heap *heap, const char *text, size_t bytes); /* adds the final 0 */
const char *lki_heap_format(lki_heap *heap, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* `status`, or LKS_E_NOMEM where memory has lacked, whatever has become of it. */
lks_status lki_heap_status(const lki_heap *heap, lks_status status);
void lki_heap_clear(lki_heap *heap);

#endif
