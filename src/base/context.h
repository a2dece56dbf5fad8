/* The inside of a context. */
#ifndef LKI_BASE_CONTEXT_H
#define LKI_BASE_CONTEXT_H

#include <pthread.h>

#include <lockstep/context.h>

struct lks_context {
    lks_context_opts opts; /* with defaults filled in */
    pthread_mutex_t lock;  /* around the allocator */
    lks_context *next;     /* of all that there are */
    char device[16];
    char fingerprint[512];
};

/* The part of the fingerprint that base knows: instruction set, cache sizes, libc. */
void lki_fingerprint_base(char *out, size_t size);

/* Whether somebody reads lines of this level; for what takes work to say. */
bool lki_log_wanted(const lks_context *context, lks_log_level level);
/* Seconds since some moment in the past, for lines that say how long something took. */
double lki_seconds(void);
void lki_log_line(lks_context *context, lks_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
