/* lks_pack_pictures(): pictures into one file, by threads that take one after the other. */
#include "data/pictures/pack.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "base/file.h"
#include "data/pictures/picture.h"
#include "machine/thread.h"

enum { MOST_THREADS = 256, TELL_MS = 100 };

typedef struct bad {
    int64_t slot;
    const char *reason;
} bad;

typedef struct packing {
    const lks_pack_opts *opts;
    lks_context *context;
    lki_pictures pictures;
    lki_part part;
    atomic_int_fast64_t next, done, kept;
    atomic_bool stop;
    pthread_mutex_t lock; /* around what follows */
    pthread_cond_t change;
    int running;
    lks_error failure; /* of the first thread that could not go on */
    lki_arena arena;   /* of the bad ones */
    bad *bad;          /* [count of pictures] */
    int64_t bad_count;
} packing;

/* What a thread keeps from picture to picture. */
typedef struct hand {
    packing *packing;
    lki_picture_reader reader;
    uint8_t *slot; /* what goes into the file */
    pthread_t thread;
} hand;

/* ---------------------------------------------------------------- one picture */

static lks_status note_bad(packing *p, int64_t i)
{
    const char *reason;
    LKI_TRY(lki_arena_string(&p->arena, &reason, lks_last_error()->message));
    p->bad[p->bad_count++] = (bad){.slot = i, .reason = reason};
    return LKS_OK;
}

static lks_status pack_one(hand *h, int64_t i)
{
    packing *p = h->packing;
    bool there;
    LKI_TRY(lki_part_has(&there, &p->part, i, h->slot));
    if (there) {
        atomic_fetch_add(&p->kept, 1);
        return LKS_OK;
    }
    const lks_status status = lki_picture_load(h->slot, &h->reader, p->pictures.picture[i].path);
    if (status == LKS_OK) return lki_part_put(&p->part, i, h->slot);
    if (status != LKS_E_FORMAT) return status;
    pthread_mutex_lock(&p->lock);
    const lks_status noted = note_bad(p, i);
    pthread_mutex_unlock(&p->lock);
    return noted;
}

/* ---------------------------------------------------------------- threads */

static lks_status open_hand(hand *h)
{
    void *memory;
    packing *p = h->packing;
    h->reader.resize = (lki_resize){
        .context = p->context, .height = p->opts->height, .width = p->opts->width};
    LKI_TRY(lki_alloc(p->context, &memory, p->part.at.slot_bytes, "a packed picture"));
    h->slot = memory;
    return LKS_OK;
}

static void *pack_some(void *user)
{
    hand *h = user;
    packing *p = h->packing;
    lks_status status = open_hand(h);
    while (status == LKS_OK && !atomic_load(&p->stop)) {
        const int64_t i = atomic_fetch_add(&p->next, 1);
        if (i >= p->pictures.count) break;
        status = pack_one(h, i);
        if (status == LKS_OK) atomic_fetch_add(&p->done, 1);
    }
    lki_picture_reader_free(&h->reader);
    lki_free(p->context, h->slot, p->part.at.slot_bytes);
    pthread_mutex_lock(&p->lock);
    if (status != LKS_OK) {
        if (p->failure.status == LKS_OK) p->failure = *lks_last_error();
        atomic_store(&p->stop, true);
    }
    p->running--;
    pthread_cond_signal(&p->change);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Tells how far it is until all threads have ended; false: the caller wants no more. */
static bool watch(packing *p)
{
    bool wanted = true;
    pthread_mutex_lock(&p->lock);
    while (p->running > 0) {
        struct timespec until;
        if (p->opts->progress != NULL && wanted) {
            pthread_mutex_unlock(&p->lock);
            wanted = p->opts->progress(p->opts->user, atomic_load(&p->done), p->pictures.count);
            if (!wanted) atomic_store(&p->stop, true);
            pthread_mutex_lock(&p->lock);
            if (p->running == 0) break;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TELL_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&p->change, &p->lock, &until);
    }
    pthread_mutex_unlock(&p->lock);
    return wanted;
}

static lks_status run_threads(packing *p)
{
    int threads = p->opts->threads > 0 ? p->opts->threads : lks_machine_get(NULL).cpus;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > p->pictures.count) threads = (int)p->pictures.count;
    hand hands[MOST_THREADS];
    int started = 0;
    p->running = threads;
    for (; started < threads; started++) {
        hands[started] = (hand){.packing = p};
        if (lki_thread_start(&hands[started].thread, pack_some, &hands[started]) != 0) break;
    }
    pthread_mutex_lock(&p->lock);
    p->running -= threads - started;
    pthread_mutex_unlock(&p->lock);
    const bool wanted = watch(p);
    for (int i = 0; i < started; i++) pthread_join(hands[i].thread, NULL);
    if (started == 0) return LKI_FAIL(LKS_E_NOMEM, "the system starts no thread");
    if (p->failure.status != LKS_OK) {
        lki_error_restore(&p->failure);
        return p->failure.status;
    }
    if (wanted) return LKS_OK;
    return LKI_FAIL(LKS_E_STOPPED,
                    "stopped: %" PRId64 " of %" PRId64
                    " pictures are packed; the same command goes on from there",
                    (int64_t)atomic_load(&p->done) - p->bad_count, p->pictures.count);
}

/* ---------------------------------------------------------------- all of it */

static int by_slot(const void *a, const void *b)
{
    const int64_t x = ((const bad *)a)->slot, y = ((const bad *)b)->slot;
    return x < y ? -1 : x > y;
}

/* Names the bad ones, in their order; what is left must be something. */
static lks_status judge(lks_pack_result *out, packing *p)
{
    const lki_picture *picture = p->pictures.picture;
    qsort(p->bad, (size_t)p->bad_count, sizeof *p->bad, by_slot);
    for (int64_t i = 0; i < p->bad_count; i++) {
        const int64_t slot = p->bad[i].slot;
        out->samples[picture[slot].test]--;
        if (p->opts->bad) p->opts->bad(p->opts->user, picture[slot].path, p->bad[i].reason);
    }
    if (p->bad_count > 0 && !p->opts->skip_bad)
        return LKI_FAIL(LKS_E_FORMAT,
                        "%" PRId64 " of %" PRId64
                        " pictures cannot be read, as said above, so nothing is finished; run it "
                        "again with --skip-bad to leave them out (which goes on from here), or put "
                        "them right",
                        p->bad_count, p->pictures.count);
    if (out->samples[0] == 0 || (p->pictures.split[1] > 0 && out->samples[1] == 0))
        return LKI_FAIL(LKS_E_FORMAT, "no picture for %s can be read, so nothing is packed",
                        out->samples[0] == 0 ? "training" : "testing");
    return LKS_OK;
}

static lks_status pack(lks_pack_result *out, packing *p, const char *what)
{
    void *memory;
    const lks_status found = lki_pictures_find(&p->pictures, what, p->opts->split, p->opts->seed);
    for (const lki_empty *e = p->pictures.empty; p->opts->bad && e != NULL; e = e->next)
        p->opts->bad(p->opts->user, e->path, "the folder has no picture and is no class");
    if (found != LKS_OK) return found;
    LKI_TRY(lki_arena_alloc(&p->arena, &memory, (size_t)p->pictures.count * sizeof(bad),
                            "the list of bad pictures"));
    p->bad = memory;
    LKI_TRY(lki_part_open(&p->part, p->context, p->opts->out, &p->pictures, p->opts->height,
                          p->opts->width));
    out->samples[0] = p->pictures.split[0];
    out->samples[1] = p->pictures.split[1];
    out->classes = p->pictures.classes;
    out->others = p->pictures.others;
    out->bytes = (int64_t)p->part.at.end;
    snprintf(out->how, sizeof out->how, "%s", p->pictures.what);
    LKI_TRY(run_threads(p));
    out->kept = atomic_load(&p->kept);
    out->bad = p->bad_count;
    LKI_TRY(judge(out, p));
    return lki_part_finish(&p->part);
}

static lks_status check_options(const lks_pack_opts *opts)
{
    if (opts->width < 1 || opts->width > LKI_PACKED_SIDE || opts->height < 1 ||
        opts->height > LKI_PACKED_SIDE)
        return LKI_FAIL(LKS_E_INVALID,
                        "pictures of %d x %d pixels were asked for, expected sides of 1 to %d",
                        opts->width, opts->height, LKI_PACKED_SIDE);
    if (!(opts->split >= 0 && opts->split < 1))
        return LKI_FAIL(LKS_E_INVALID,
                        "a share of %g is to be held back, expected 0 to less than 1", opts->split);
    return LKS_OK;
}

lks_status lks_pack_pictures(lks_pack_result *out, lks_context *context, const char *what,
                             const lks_pack_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_pack_result){.samples = {0}};
    if (what == NULL) return LKI_FAIL_NULL(what);
    if (opts == NULL) return LKI_FAIL_NULL(opts);
    if (opts->out == NULL) return LKI_FAIL_NULL(opts->out);
    LKI_TRY(check_options(opts));
    packing p = {.opts = opts,
                 .context = context,
                 .pictures.arena.context = context,
                 .arena.context = context,
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .change = PTHREAD_COND_INITIALIZER};
    const lks_status status = pack(out, &p, what);
    lki_part_leave(&p.part);
    lki_arena_release(&p.pictures.arena);
    lki_arena_release(&p.arena);
    return status;
}
