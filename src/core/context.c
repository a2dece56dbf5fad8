/* The context is made here because only this layer may see the registry of backends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "core/backend.h"

/* All contexts. A fork takes their locks, so that none stays with a thread that the child does not have. */
static struct {
    pthread_mutex_t lock;
    lks_context *first;
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void context_before_fork(void)
{
    pthread_mutex_lock(&contexts.lock);
    for (lks_context *c = contexts.first; c != NULL; c = c->next) pthread_mutex_lock(&c->lock);
}

static void context_after_fork(void)
{
    for (lks_context *c = contexts.first; c != NULL; c = c->next) pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&contexts.lock);
}

static void context_watch_forks(void)
{
    pthread_atfork(context_before_fork, context_after_fork, context_after_fork);
}

static void context_add(lks_context *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, context_watch_forks);
    pthread_mutex_lock(&contexts.lock);
    context->next = contexts.first;
    contexts.first = context;
    pthread_mutex_unlock(&contexts.lock);
}

static void context_remove(const lks_context *context)
{
    pthread_mutex_lock(&contexts.lock);
    lks_context **at = &contexts.first;
    while (*at != context) at = &(*at)->next;
    *at = context->next;
    pthread_mutex_unlock(&contexts.lock);
}

static lks_status unknown_device(const char *device)
{
    char names[64] = "";
    size_t used = 0;
    for (int i = 0; lki_backends[i] != NULL && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 lki_backends[i]->name);
    return LKI_FAIL(LKS_E_INVALID, "device '%s' is not in this build, which has: %s", device,
                    names);
}

/* LKS_LOG in the environment asks for lines that the program did not ask for. */
static lks_status raise_log_level(lks_log_level *level)
{
    static const char *const names[] = {
        [LKS_LOG_WARN] = "warn", [LKS_LOG_INFO] = "info", [LKS_LOG_DEBUG] = "debug"};
    const char *asked = getenv("LKS_LOG");
    if (asked == NULL) return LKS_OK;
    for (lks_log_level i = LKS_LOG_WARN; i <= LKS_LOG_DEBUG; i++) {
        if (strcmp(asked, names[i]) != 0) continue;
        if (i > *level) *level = i;
        return LKS_OK;
    }
    return LKI_FAIL(LKS_E_INVALID,
                    "LKS_LOG is '%.60s', expected warn, info or debug; unset it for warnings only",
                    asked);
}

lks_status lks_context_create(lks_context **out, const lks_context_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    lks_context_opts filled = opts != NULL ? *opts : (lks_context_opts){0};
    if ((filled.allocator.alloc == NULL) != (filled.allocator.release == NULL))
        return LKI_FAIL(LKS_E_INVALID,
                        "the allocator has only one of alloc and release; give both or none");
    if (filled.allocator.alloc == NULL) filled.allocator = lki_system_allocator;
    if (filled.log != NULL) LKI_TRY(raise_log_level(&filled.log_level));
    const lki_backend *backend = filled.device != NULL ? lki_backend_find(filled.device)
                                                       : lki_backends[0];
    if (backend == NULL) return unknown_device(filled.device);

    char base[256] = "", library[160] = "";
    lki_fingerprint_base(base, sizeof base);
    LKI_TRY(backend->fingerprint(library, sizeof library));
    lks_context *context = filled.allocator.alloc(filled.allocator.user, sizeof *context,
                                                  LKI_ALIGN);
    if (context == NULL) return LKI_FAIL(LKS_E_NOMEM, "no memory for the context");
    memset(context, 0, sizeof *context);
    context->opts = filled;
    snprintf(context->device, sizeof context->device, "%s", backend->name);
    context->opts.device = context->device;
    if (pthread_mutex_init(&context->lock, NULL) != 0) {
        filled.allocator.release(filled.allocator.user, context, sizeof *context);
        return LKI_FAIL(LKS_E_NOMEM, "no resources for the context's lock");
    }
    context_add(context);
    snprintf(context->fingerprint, sizeof context->fingerprint, "%s; %s%s%s", base, backend->name,
             library[0] != '\0' ? ": " : "", library);
    lki_log_line(context, LKS_LOG_DEBUG, "Lockstep %s, device %s; %s", lks_version(),
                 context->device, context->fingerprint);
    *out = context;
    return LKS_OK;
}

void lks_context_destroy(lks_context *context)
{
    if (context == NULL) return;
    const lks_allocator allocator = context->opts.allocator;
    context_remove(context);
    pthread_mutex_destroy(&context->lock);
    allocator.release(allocator.user, context, sizeof *context);
}

const char *lks_context_device(const lks_context *context)
{
    return context != NULL ? context->device : "";
}

uint64_t lks_context_seed(const lks_context *context)
{
    return context != NULL ? context->opts.seed : 0;
}

const char *lks_context_fingerprint(const lks_context *context)
{
    return context != NULL ? context->fingerprint : "";
}
