/*
 * Status codes and the error record.
 *
 * Every function that can fail returns lks_status; results come back through
 * pointers. The code says what kind of thing went wrong, for programs; the
 * record from lks_last_error() says exactly what, for people.
 */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LKS_API                 __attribute__((visibility("default")))
#define LKS_MUSTUSE             __attribute__((warn_unused_result))
#define LKS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define LKS_API
#define LKS_MUSTUSE
#define LKS_PRINTF(text, first)
#endif

/* One list; the enum, lks_status_name() and lks_status_text() expand it. */
#define LKS_STATUS_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(E_INVALID, 1, "an argument is not valid")                                                    \
    X(E_SHAPE, 2, "tensor shapes do not fit together")                                             \
    X(E_UNSUPPORTED, 3, "this device has no kernel for the operation")                             \
    X(E_STATE, 4, "the call came at the wrong time")                                               \
    X(E_NOMEM, 5, "out of memory")                                                                 \
    X(E_IO, 6, "a file could not be read or written")                                              \
    X(E_FORMAT, 7, "a file is not what it claims to be")                                           \
    X(E_MISMATCH, 8, "a file belongs to another model, configuration or data set")                 \
    X(E_DEVICE, 9, "the compute library failed")                                                   \
    X(E_NUMERIC, 10, "a loss or parameter is not finite")                                          \
    X(E_STOPPED, 11, "a callback asked to stop")                                                   \
    X(E_BUG, 12, "an invariant of the library was broken")                                         \
    X(E_COMM, 13, "another process failed or cannot be reached")                                   \
    X(E_TIMEOUT, 14, "another process did not come in time")

typedef enum lks_status {
#define X(name, value, text) LKS_##name = value,
    LKS_STATUS_LIST(X)
#undef X
} lks_status;

typedef struct lks_error {
    lks_status status;
    const char *file; /* where in the library */
    int line;
    char message[600]; /* fixed size: reporting never allocates */
} lks_error;

LKS_API const char *lks_status_name(lks_status status); /* "LKS_E_SHAPE" */
LKS_API const char *lks_status_text(lks_status status);

/* The last failure on this thread; never NULL. Valid until the next failure. */
LKS_API const lks_error *lks_last_error(void);

/* For callbacks and loops of your own: fills in the record with a sentence and returns `status`. */
LKS_API lks_status lks_fail(lks_status status, const char *format, ...) LKS_PRINTF(2, 3);

/* The library's version, "0.1.0", and a line about how it was built (compiler, libraries). */
LKS_API const char *lks_version(void);
LKS_API const char *lks_build_info(void);

/* The version of the numerics (docs/numerics.md): libraries that say the same number give the same bits,
 * on any machine. The macro is that of the headers, the function that of the library. */
#define LKS_NUMERICS 4
LKS_API int lks_numerics(void);

#ifdef __cplusplus
}
#endif
#endif
