/* Host memory through the context's allocator, and arenas: one per lifetime. */
#ifndef LKI_BASE_MEMORY_H
#define LKI_BASE_MEMORY_H

#include <lockstep/context.h>

enum { LKI_ALIGN = 64 }; /* of every allocation: a cache line, an AVX-512 vector */

/* The allocator of contexts that are given none. */
extern const lks_allocator lki_system_allocator;

/* Zeroed memory, never NULL on success, also of 0 bytes; LKS_E_NOMEM names `what`. Freed with the
 * same `bytes`. A NULL context means the system's allocator. Callable from any thread. */
lks_status lki_alloc(lks_context *context, void **out, size_t bytes, const char *what);
void lki_free(lks_context *context, void *memory, size_t bytes); /* NULL is fine */

/*
 * Sizes that follow from what a caller chose are summed and multiplied with these: what size_t cannot
 * hold is SIZE_MAX, and stays it, so that a whole formula is looked at once, at its end.
 */
static inline size_t lki_plus(size_t a, size_t b)
{
    return a <= SIZE_MAX - b ? a + b : SIZE_MAX;
}
static inline size_t lki_times(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}
/* Rounds up to LKI_ALIGN. */
size_t lki_align(size_t bytes);

/*
 * A growing arena for many small objects of one lifetime:
 *
 *   head -> [chunk: next, size | object | object | free ...] -> [chunk ...] -> NULL
 *
 * Objects never move. Zero the struct and set `context` to start.
 */
typedef struct lki_arena {
    lks_context *context;
    struct lki_arena_chunk *head;
} lki_arena;

/* Zeroed, aligned to 16 bytes (LKI_ALIGN for 64 bytes and more). */
lks_status lki_arena_alloc(lki_arena *arena, void **out, size_t bytes, const char *what);
lks_status lki_arena_string(lki_arena *arena, const char **out, const char *text);
void lki_arena_release(lki_arena *arena);

#endif
