#include "recipe/text/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

void *lki_heap_alloc(lki_heap *heap, size_t bytes)
{
    void *memory;
    if (lki_arena_alloc(&heap->arena, &memory, bytes, "a configuration") == LKS_OK) return memory;
    heap->failed = true;
    return NULL;
}

const char *lki_heap_copy(lki_heap *heap, const char *text, size_t bytes)
{
    char *copy = lki_heap_alloc(heap, bytes + 1);
    return copy != NULL ? memcpy(copy, text, bytes) : "";
}

const char *lki_heap_format(lki_heap *heap, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = lki_text_list(NULL, 0, format, args);
    va_end(args);
    char *text = lki_heap_alloc(heap, (size_t)length + 1);
    if (text == NULL) return "";
    va_start(args, format);
    lki_text_list(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

lks_status lki_heap_status(const lki_heap *heap, lks_status status)
{
    return heap->failed ? LKI_FAIL(LKS_E_NOMEM, "no memory for a configuration") : status;
}

void lki_heap_clear(lki_heap *heap)
{
    lki_arena_release(&heap->arena);
    heap->failed = false;
}
