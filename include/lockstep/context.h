/* The context: device, seed, memory and log of one program. */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_context lks_context;

/*
 * Host memory. All zero means the system allocator. `align` is a power of two of at least 16.
 * `alloc` returns NULL when there is no memory; `release` gets the same `bytes` back. Both may be
 * called from any thread, one call at a time per context.
 */
typedef struct lks_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} lks_allocator;

typedef enum lks_log_level { LKS_LOG_WARN, LKS_LOG_INFO, LKS_LOG_DEBUG } lks_log_level;

/* `line` has no newline and is valid during the call. */
typedef void (*lks_log_fn)(void *user, lks_log_level level, const char *line);

/*
 * In every *_opts struct a zeroed field means its documented default, and a NULL pointer to the
 * struct means all defaults.
 *
 * A NULL that has no meaning is LKS_E_INVALID with a sentence. Of a NULL object a getter tells
 * nothing: 0, NaN, NULL, "", a zeroed struct, -1 for what is searched. Destroying NULL is fine. Where
 * data sets, loaders, files and checkpoints take a context it may be NULL: memory is the system's then,
 * the seed 0.
 *
 * Threads: calls on different objects may run at once. A context, a data set, a graph that is built and
 * a tensor file may be read by many threads; to build a graph, and a loader, belong to one at a time;
 * models have rules of their own (model.h). The error record is the thread's. Destroying an object
 * belongs behind every other call on it.
 */
typedef struct lks_context_opts {
    const char *device; /* "cpu" or "ref"; default: the fastest that was built in */
    uint64_t seed;      /* default 0; everything random follows from it */
    lks_allocator allocator;
    lks_log_fn log; /* default: silent */
    void *log_user;
    /* Lines above this level are not made; default: warnings only. LKS_LOG in the environment (warn,
     * info or debug) may ask for more; where there is no `log` it means nothing. */
    lks_log_level log_level;
} lks_context_opts;

/* Options are copied. */
LKS_API LKS_MUSTUSE lks_status lks_context_create(lks_context **out, const lks_context_opts *opts);
LKS_API void lks_context_destroy(lks_context *context); /* NULL is fine; destroy all else first */

LKS_API const char *lks_context_device(const lks_context *context);
LKS_API uint64_t lks_context_seed(const lks_context *context);

/*
 * What computes, for people who compare speed: instruction set, cache sizes, libc, the device. No bit
 * depends on it. Owned by the context.
 */
LKS_API const char *lks_context_fingerprint(const lks_context *context);

/* Cores that this process may use: affinity mask and cgroup quota respected. At least 1. */
LKS_API int lks_cores(void);

/*
 * Writes a file whole or not at all, as the library writes its own: under a temporary name, synced,
 * then renamed. Where `path` is a symbolic link, what it points to is replaced; into a device or a
 * pipe, and into what standard output or error go to, it is written as it is.
 */
LKS_API LKS_MUSTUSE lks_status lks_file_write(const char *path, const void *data, size_t bytes);
/* The same for what is written again and again, without the time that a disk takes to sync: whole
 * whatever becomes of the process, but perhaps empty when the machine crashes. */
LKS_API LKS_MUSTUSE lks_status lks_file_update(const char *path, const void *data, size_t bytes);
/* Fails where these would fail before their first byte. What is there stays as it is. */
LKS_API LKS_MUSTUSE lks_status lks_file_try(const char *path);

#ifdef __cplusplus
}
#endif
#endif
