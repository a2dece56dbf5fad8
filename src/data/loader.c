/*
 * The loader: batches in the keyed order, read ahead by threads.
 *
 *   batch number   ... 6 | 7 | 8 | 9 | 10 ...          slots: ahead + 1, batch b lives in b % slots
 *                      |   |   |
 *                 lent to  |   next ticket: (batch 8, part 1)
 *                 caller   |
 *                          complete, waits for lks_loader_next()
 *
 * A ticket is one part of one batch: batches are cut into as many parts as there are threads, so
 * that all of them help with the batch that is needed first. Tickets are handed out in order under
 * the lock and worked on outside it; a batch is complete when its last part is. Which thread takes
 * which ticket changes nothing in the bytes. Without threads lks_loader_next() does all parts.
 */
#include <lockstep/data.h>

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "augment/augment.h"
#include "augment/mixup.h"
#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/loader_opts.h"
#include "machine/thread.h"
#include "numeric/permutation.h"
#include "numeric/tree.h"

static const int64_t MAX_BATCH = INT64_C(1) << 62;

typedef struct slot {
    uint8_t *x, *y;
    int64_t *ids;
    lks_mix *mix;
    int64_t batch;   /* number since the beginning; -1: nothing yet */
    int64_t counted; /* lks_batch.counted */
    int parts_left;
    lks_status status; /* of the first sample, in order, that could not be read */
    int64_t failed_at; /* its position among those that are read */
    lks_error error;
} slot;

struct lks_loader {
    lks_context *context;
    const lks_dataset *dataset;
    lks_loader_opts opts; /* with defaults filled in */
    lki_augment *augment; /* with a space for each part of each slot; NULL: none */
    lki_mixer *mixer;     /* the same */
    uint64_t seed;
    int64_t batches; /* in an epoch */
    int parts;       /* of a batch */
    int slots;
    slot *slot;      /* [slots] */
    uint8_t *memory; /* of all slots */
    size_t memory_bytes;

    pthread_mutex_t lock; /* around everything below, and a slot's batch, parts_left and error */
    pthread_cond_t work;  /* threads wait: a ticket, or the end */
    pthread_cond_t done;  /* the caller waits: a batch is complete, or no part is being read */
    int64_t next_batch;   /* what lks_loader_next() returns next */
    bool lent;            /* batch next_batch - 1 is with the caller */
    int64_t ticket_batch; /* the next ticket */
    int ticket_part;
    int busy; /* parts being read now */
    bool stop;
    int running;    /* threads started, */
    unsigned forks; /* and lki_forks() then */
    pthread_t *thread;
};

/* ---------------------------------------------------------------- one part of one batch */

/* A sample as an epoch sees it, before it is mixed; `space` is this part's. */
static lks_status read_sample(const lks_loader *loader, int64_t epoch, int64_t id, int space,
                              void *x, void *y)
{
    const lks_dataset *set = loader->dataset;
    LKI_TRY(lki_dataset_fetch(set, epoch, id, x, y));
    if (loader->augment != NULL)
        lki_augment_run(loader->augment, epoch, lks_dataset_position(set, id), x, space);
    return LKS_OK;
}

/* Mixes sample i of the slot with another one. */
static lks_status mix_sample(const lks_loader *loader, slot *s, int64_t epoch, int64_t i, int space)
{
    const lks_dataset *set = loader->dataset;
    const lki_mixup mixup = lki_mixer_draw(loader->mixer, epoch,
                                           lks_dataset_position(set, s->ids[i]), s->ids[i]);
    uint8_t *other = lki_mixer_space(loader->mixer, space);
    int32_t label;
    LKI_TRY(read_sample(loader, epoch, mixup.other, space, other, &label));
    int32_t *y = (int32_t *)(void *)(s->y + (size_t)i * set->y_bytes);
    s->mix[i] = lki_mixer_mix(loader->mixer, mixup.share, s->x + (size_t)i * set->x_bytes, y, other,
                              label);
    return LKS_OK;
}

/* Reads a part of what the slot takes of its batch; returns the position in it that failed, or -1. */
static int64_t read_part(const lks_loader *loader, slot *s, int64_t batch, int part,
                         lks_status *status)
{
    const lks_dataset *set = loader->dataset;
    const int64_t epoch = batch / loader->batches, index = batch % loader->batches;
    const lki_loader_window own = lki_loader_window_of(&loader->opts, set->info.samples, index);
    const int space = (int)(s - loader->slot) * loader->parts + part;
    const int64_t first = index * loader->opts.global_batch + own.first;
    const int64_t to = lki_share(part + 1, loader->parts, own.count);
    const lki_permutation order = lki_permutation_make(loader->seed, epoch, set->info.samples);

    for (int64_t i = lki_share(part, loader->parts, own.count); i < to; i++) {
        const int64_t id = lki_loader_sample(&loader->opts, &order, first + i);
        s->ids[i] = id;
        *status = read_sample(loader, epoch, id, space, s->x + (size_t)i * set->x_bytes,
                              s->y + (size_t)i * set->y_bytes);
        if (*status == LKS_OK && loader->mixer != NULL)
            *status = mix_sample(loader, s, epoch, i, space);
        if (*status != LKS_OK) return i;
    }
    *status = LKS_OK;
    return -1;
}

/* With the lock held: takes the next ticket, works on it without the lock, and reports. */
static void do_ticket(lks_loader *loader)
{
    const int64_t batch = loader->ticket_batch;
    const int part = loader->ticket_part;
    slot *s = &loader->slot[batch % loader->slots];
    lks_status status;

    if (part == 0) {
        s->batch = batch;
        s->parts_left = loader->parts;
        s->status = LKS_OK;
    }
    if (++loader->ticket_part == loader->parts) {
        loader->ticket_part = 0;
        loader->ticket_batch++;
    }
    loader->busy++;
    pthread_mutex_unlock(&loader->lock);
    if (part == 0)
        s->counted = lki_loader_counted(loader->dataset, &loader->opts, loader->seed,
                                        batch / loader->batches, batch % loader->batches);
    const int64_t failed_at = read_part(loader, s, batch, part, &status);
    pthread_mutex_lock(&loader->lock);
    loader->busy--;
    if (status != LKS_OK && (s->status == LKS_OK || failed_at < s->failed_at)) {
        s->status = status;
        s->failed_at = failed_at;
        s->error = *lks_last_error();
    }
    if (--s->parts_left == 0 || loader->busy == 0) pthread_cond_signal(&loader->done);
}

/* The first batch that has no free slot. */
static int64_t loader_limit(const lks_loader *loader)
{
    return loader->next_batch - (loader->lent ? 1 : 0) + loader->slots;
}

static void *thread_main(void *user)
{
    lks_loader *loader = user;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (loader->ticket_batch < loader_limit(loader))
            do_ticket(loader);
        else
            pthread_cond_wait(&loader->work, &loader->lock);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---------------------------------------------------------------- create, destroy */

/* Memory for every slot: x, y, ids, mix, each aligned for vectors. What they had goes when there is other. */
static lks_status make_batches(lks_loader *loader)
{
    const lks_dataset *set = loader->dataset;
    const int64_t most = lki_loader_most(&loader->opts, set->info.samples);
    const size_t slots = (size_t)loader->slots;
    const size_t a_mix = loader->opts.mixup > 0 ? sizeof(lks_mix) : 0;
    const size_t a_sample = set->x_bytes + set->y_bytes + sizeof(int64_t) + a_mix;
    void *memory = NULL;
    if ((size_t)most > (PTRDIFF_MAX / slots - 4 * LKI_ALIGN) / a_sample)
        return LKI_FAIL(LKS_E_NOMEM,
                        "loader of '%s': %d batches of %" PRId64
                        " sample%s do not fit in memory; read smaller batches, or fewer ahead",
                        set->name, loader->slots, most, LKI_S(most));
    const size_t x_bytes = lki_align((size_t)most * set->x_bytes);
    const size_t y_bytes = lki_align((size_t)most * set->y_bytes);
    const size_t id_bytes = lki_align((size_t)most * sizeof(int64_t));
    const size_t bytes = x_bytes + y_bytes + id_bytes + lki_align((size_t)most * a_mix);
    LKI_TRY(lki_alloc(loader->context, &memory, slots * bytes, "the loader's batches"));
    lki_free(loader->context, loader->memory, loader->memory_bytes);
    loader->memory = memory;
    loader->memory_bytes = slots * bytes;
    for (size_t i = 0; i < slots; i++) {
        slot *s = &loader->slot[i];
        s->batch = -1;
        s->x = loader->memory + i * bytes;
        s->y = s->x + x_bytes;
        s->ids = (int64_t *)(void *)(s->y + y_bytes);
        s->mix = a_mix > 0 ? (lks_mix *)(void *)(s->y + y_bytes + id_bytes) : NULL;
    }
    return LKS_OK;
}

static lks_status make_slots(lks_loader *loader)
{
    void *memory = NULL;
    LKI_TRY(lki_alloc(loader->context, &memory, (size_t)loader->slots * sizeof(slot),
                      "the loader's slots"));
    loader->slot = memory;
    return make_batches(loader);
}

static lks_status loader_start_threads(lks_loader *loader)
{
    const int threads = loader->opts.threads;
    void *memory = NULL;
    int error = 0;
    LKI_TRY(lki_alloc(loader->context, &memory, (size_t)threads * sizeof(pthread_t),
                      "the loader's threads"));
    loader->thread = memory;
    while (loader->running < threads && error == 0) {
        error = lki_thread_start(&loader->thread[loader->running], thread_main, loader);
        if (error == 0) loader->running++;
    }
    if (error != 0)
        return LKI_FAIL(LKS_E_NOMEM,
                        "loader of '%s': reading thread %d of %d could not be started: %s; ask for "
                        "fewer threads",
                        loader->dataset->name, loader->running + 1, threads, strerror(error));
    return LKS_OK;
}

lks_status lks_loader_create(lks_loader **out, lks_context *context, lks_dataset *dataset,
                             const lks_loader_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    lks_loader_opts filled = opts ? *opts : (lks_loader_opts){0};
    void *memory = NULL;
    lks_status status;

    *out = NULL;
    if (dataset == NULL) return LKI_FAIL_NULL(dataset);
    LKI_TRY(lki_loader_check(dataset, &filled));
    LKI_TRY(lki_alloc(context, &memory, sizeof(lks_loader), "a loader"));
    lks_loader *loader = memory;
    const int64_t samples = dataset->info.samples;
    const int64_t full = samples / filled.global_batch;
    loader->context = context;
    loader->forks = lki_forks();
    loader->dataset = dataset;
    loader->opts = filled;
    loader->seed = lks_context_seed(context);
    loader->batches = filled.drop_last || samples % filled.global_batch == 0 ? full : full + 1;
    loader->parts = filled.threads < 0 ? 1 : filled.threads;
    loader->slots = filled.threads < 0 ? 1 : filled.ahead + 1;
    pthread_mutex_init(&loader->lock, NULL); /* without attributes these do not fail on Linux */
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->done, NULL);
    LKI_TRY_OR(status, fail, make_slots(loader));
    LKI_TRY_OR(status, fail,
               lki_augment_create(&loader->augment, context, filled.augment, filled.augmentations,
                                  &dataset->info, loader->slots * loader->parts));
    LKI_TRY_OR(status, fail,
               lki_mixer_create(&loader->mixer, context, filled.mixup, &dataset->info,
                                loader->slots * loader->parts));
    if (filled.threads > 0) LKI_TRY_OR(status, fail, loader_start_threads(loader));
    lki_log_line(
        context, LKS_LOG_DEBUG,
        "loader of '%.100s': %lld batch%s of %lld from %lld sample%s, %d thread%s, %d batch%s "
        "ahead, %s order",
        dataset->name, (long long)loader->batches, loader->batches == 1 ? "" : "es",
        (long long)filled.global_batch, (long long)samples, LKI_S(samples),
        filled.threads < 0 ? 0 : filled.threads, LKI_S(filled.threads), loader->slots - 1,
        loader->slots == 2 ? "" : "es", filled.in_order ? "their" : "a random");
    *out = loader;
    return LKS_OK;
fail:
    lks_loader_destroy(loader);
    return status;
}

/* Threads that read are those of the process that made the loader. */
static bool lost_threads(const lks_loader *loader)
{
    return loader->running > 0 && loader->forks != lki_forks();
}

static void stop_threads(lks_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->running; i++) pthread_join(loader->thread[i], NULL);
    pthread_cond_destroy(&loader->done);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->lock);
}

void lks_loader_destroy(lks_loader *loader)
{
    if (!loader) return;
    if (!lost_threads(loader)) stop_threads(loader);
    if (loader->thread)
        lki_free(loader->context, loader->thread, (size_t)loader->opts.threads * sizeof(pthread_t));
    lki_augment_destroy(loader->augment);
    lki_mixer_destroy(loader->mixer);
    lki_free(loader->context, loader->memory, loader->memory_bytes);
    lki_free(loader->context, loader->slot, (size_t)loader->slots * sizeof(slot));
    lki_free(loader->context, loader, sizeof *loader);
}

int64_t lks_loader_batches(const lks_loader *loader)
{
    return loader != NULL ? loader->batches : 0;
}

const lks_dataset *lks_loader_dataset(const lks_loader *loader)
{
    return loader != NULL ? loader->dataset : NULL;
}

bool lks_loader_continues(const lks_loader *loader)
{
    return loader != NULL && loader->opts.in_order &&
           loader->opts.global_batch == loader->dataset->info.columns;
}

static bool loader_complete(const lks_loader *loader)
{
    const slot *s = &loader->slot[loader->next_batch % loader->slots];
    return s->batch == loader->next_batch && s->parts_left == 0;
}

static lks_status check_use(const lks_loader *loader)
{
    if (!lost_threads(loader)) return LKS_OK;
    return LKI_FAIL(
        LKS_E_STATE,
        "loader of '%s': it was made before this process was forked, and its threads are "
        "those of the parent; make it in this process",
        loader->dataset->name);
}

lks_status lks_loader_next(lks_loader *loader, lks_batch *out)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_batch){0};
    if (loader == NULL) return LKI_FAIL_NULL(loader);
    LKI_TRY(check_use(loader));
    pthread_mutex_lock(&loader->lock);
    loader->lent = false;
    pthread_cond_broadcast(&loader->work);
    while (!loader_complete(loader)) {
        if (loader->running == 0)
            do_ticket(loader);
        else
            pthread_cond_wait(&loader->done, &loader->lock);
    }
    const slot *s = &loader->slot[loader->next_batch % loader->slots];
    if (s->status == LKS_OK) {
        loader->next_batch++;
        loader->lent = true;
    }
    pthread_mutex_unlock(&loader->lock);
    if (s->status != LKS_OK) {
        lki_error_restore(&s->error);
        return s->status;
    }
    const int64_t index = s->batch % loader->batches;
    const lki_loader_window own = lki_loader_window_of(&loader->opts, loader->dataset->info.samples,
                                                       index);
    *out = (lks_batch){.x = s->x,
                       .y = s->y,
                       .ids = s->ids,
                       .count = own.count,
                       .epoch = s->batch / loader->batches,
                       .index = index,
                       .first = own.first,
                       .whole = own.whole,
                       .mix = s->mix,
                       .counted = s->counted,
                       .continues = index > 0 && lks_loader_continues(loader)};
    return LKS_OK;
}

/* Until nobody reads; leaves with the lock. */
static void hold(lks_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->ticket_batch = INT64_MAX; /* beyond every limit: no thread takes a ticket */
    while (loader->busy > 0) pthread_cond_wait(&loader->done, &loader->lock);
}

/* Behind that, from a batch that is read anew, with all that come behind it. */
static void go_on(lks_loader *loader, int64_t batch)
{
    for (int i = 0; i < loader->slots; i++) loader->slot[i].batch = -1;
    loader->next_batch = batch;
    loader->lent = false;
    loader->ticket_batch = batch;
    loader->ticket_part = 0;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

lks_status lks_loader_seek(lks_loader *loader, int64_t batch)
{
    if (loader == NULL) return LKI_FAIL_NULL(loader);
    LKI_TRY(check_use(loader));
    if (batch < 0 || batch > MAX_BATCH)
        return LKI_FAIL(LKS_E_INVALID,
                        "loader of '%s': a seek to batch %" PRId64 ", expected 0 to %" PRId64,
                        loader->dataset->name, batch, MAX_BATCH);
    hold(loader);
    go_on(loader, batch);
    return LKS_OK;
}

lks_status lks_loader_share(lks_loader *loader, int64_t shares, int64_t first_share,
                            int64_t last_share)
{
    if (loader == NULL) return LKI_FAIL_NULL(loader);
    LKI_TRY(check_use(loader));
    const lks_loader_opts before = loader->opts;
    lks_loader_opts opts = before;
    opts.first_share = first_share;
    opts.last_share = last_share;
    if (opts.shares != shares) return LKS_OK;
    LKI_TRY(lki_loader_check_shares(loader->dataset, &opts));
    if (before.first_share == first_share && before.last_share == last_share) return LKS_OK;
    hold(loader);
    loader->opts = opts;
    const lks_status status = make_batches(loader);
    if (status != LKS_OK) loader->opts = before;
    go_on(loader, loader->next_batch);
    return status;
}
