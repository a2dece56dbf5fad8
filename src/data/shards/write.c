#include "data/shards/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "machine/thread.h"

/* A rank makes so many shards until it hears of the others: of one that has failed it does soon, and what an earlier run has left
 * is spread over all. */
enum { MOST_THREADS = 256, EACH = 320, TEXT = 512, ROUND = 64 };

static const char *const step = "1000", *const type = "float32";

typedef struct writing {
    lks_context *context;
    const lki_shards_source *source;
    const lks_shards_opts *opts;
    lki_shards_plan plan;
    lks_comm *comm;
    int lock; /* the folder; a lock of rank 0 alone */
    atomic_int_least64_t taken, done, kept;
    int64_t end; /* of the shards of this rank in this round */
    atomic_bool stop;
    bool wanted; /* the caller's progress() still wants it */
    pthread_mutex_t failing;
    lks_error failure;
} writing;

typedef struct hand {
    pthread_t thread;
    writing *all;
    uint8_t *file[2]; /* head and elements */
    size_t head[2], bytes[2];
} hand;

/* ---------------------------------------------------------------- a shard */

static size_t bytes_of(const lki_shards_plan *plan, int array, int64_t rows)
{
    return lki_times(lki_times((size_t)rows, (size_t)plan->width[array]), sizeof(float));
}

static lks_status alloc_files(hand *h, writing *all)
{
    void *memory;
    *h = (hand){.all = all};
    for (int k = 0; k < 2; k++) {
        const size_t bytes = lki_plus(LKI_NPY_HEAD, bytes_of(&all->plan, k, all->plan.rows_each));
        LKI_TRY(lki_alloc(all->context, &memory, bytes, "a shard"));
        h->file[k] = memory;
        h->bytes[k] = bytes;
    }
    return LKS_OK;
}

static void free_files(hand *h)
{
    for (int k = 0; k < 2; k++) lki_free(h->all->context, h->file[k], h->bytes[k]);
}

static bool is_there(lks_context *context, const char *path, const uint8_t *data, size_t bytes)
{
    lki_file file;
    if (access(path, F_OK) != 0 || lki_file_open(&file, context, path) != LKS_OK) return false;
    const bool same = file.bytes == bytes && memcmp(file.data, data, bytes) == 0;
    lki_file_close(&file);
    return same;
}

static lks_status write_one(hand *h, int64_t index)
{
    writing *w = h->all;
    const int64_t rows = lki_shards_rows(&w->plan, index);
    char path[LKI_SHARDS_PATH];
    int kept = 0;
    for (int k = 0; k < 2; k++) {
        const lki_npy npy = {.kind = LKI_NPY_FLOAT,
                             .size = sizeof(float),
                             .big = LKI_NPY_OWN_BIG,
                             .ndim = 2,
                             .dim = {rows, w->plan.width[k]}};
        h->head[k] = lki_npy_write_head(h->file[k], &npy, 1);
    }
    LKI_TRY(w->source->fill(w->source->user, index * w->plan.rows_each, rows,
                            (float *)(void *)(h->file[0] + h->head[0]),
                            (float *)(void *)(h->file[1] + h->head[1])));
    for (int k = 0; k < 2; k++) {
        const size_t bytes = h->head[k] + bytes_of(&w->plan, k, rows);
        if (!lki_shards_path(path, w->opts->out, step, k, index))
            return lki_fail_io("write", w->opts->out, ENAMETOOLONG);
        if (is_there(w->context, path, h->file[k], bytes))
            kept++;
        else
            LKI_TRY(lks_file_update(path, h->file[k], bytes));
    }
    atomic_fetch_add(&w->done, 1);
    if (kept == 2) atomic_fetch_add(&w->kept, 1);
    return LKS_OK;
}

/* ---------------------------------------------------------------- all shards */

/* `tells`: this thread tells how far it is. */
static void write_some(hand *h, bool tells)
{
    writing *w = h->all;
    while (!atomic_load(&w->stop)) {
        const int64_t index = atomic_fetch_add(&w->taken, 1);
        if (index >= w->end) return;
        const lks_status status = write_one(h, index);
        if (tells && w->opts->progress != NULL &&
            !w->opts->progress(w->opts->user, atomic_load(&w->done), w->plan.shards)) {
            w->wanted = false;
            atomic_store(&w->stop, true);
        }
        if (status == LKS_OK) continue;
        pthread_mutex_lock(&w->failing);
        if (w->failure.status == LKS_OK) w->failure = *lks_last_error();
        pthread_mutex_unlock(&w->failing);
        atomic_store(&w->stop, true);
    }
}

static void *write_beside(void *user)
{
    write_some(user, false);
    return NULL;
}

/* Shards [first, w->end). The caller is one of the threads. */
static lks_status run_hands(writing *w, int64_t first)
{
    hand hands[MOST_THREADS];
    int threads = w->opts->threads > 0 ? w->opts->threads : lks_comm_cores(w->comm), started = 0;
    if (first >= w->end) return LKS_OK;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > w->end - first) threads = (int)(w->end - first);
    atomic_store(&w->taken, first);
    lks_status status = alloc_files(&hands[0], w);
    for (started = 1; started < threads && status == LKS_OK; started++) {
        hand *h = &hands[started];
        if (alloc_files(h, w) == LKS_OK && lki_thread_start(&h->thread, write_beside, h) == 0)
            continue;
        free_files(h); /* fewer do all the same */
        break;
    }
    if (status == LKS_OK) write_some(&hands[0], true);
    for (int i = 1; i < started; i++) {
        pthread_join(hands[i].thread, NULL);
        free_files(&hands[i]);
    }
    free_files(&hands[0]);
    if (status != LKS_OK) return status;
    if (w->failure.status != LKS_OK) {
        lki_error_restore(&w->failure);
        return w->failure.status;
    }
    if (w->wanted) return LKS_OK;
    return LKI_FAIL(LKS_E_STOPPED,
                    "stopped: %" PRId64 " of %" PRId64
                    " shards are written; the same command goes on from there",
                    (int64_t)atomic_load(&w->done), w->plan.shards);
}

/* Round by round each rank makes some that are next to each other, and all end where one fails. */
static lks_status run_ranks(writing *w)
{
    const int64_t ranks = lks_comm_size(w->comm), shards = w->plan.shards;
    for (int64_t begin = 0, each; begin < shards; begin += each * ranks) {
        each = (shards - begin - 1) / ranks + 1;
        if (ranks > 1 && each > ROUND) each = ROUND;
        const int64_t first = begin + each * lks_comm_rank(w->comm);
        w->end = first + each < shards ? first + each : shards;
        atomic_store(&w->done, begin);
        LKI_TRY(lks_comm_agree(w->comm, run_hands(w, first)));
    }
    return LKS_OK;
}

/* The shards that were kept, of all ranks. */
static lks_status sum_kept(int64_t *out, const writing *w)
{
    const int64_t mine = atomic_load(&w->kept);
    const size_t bytes = (size_t)lks_comm_size(w->comm) * sizeof mine;
    void *memory;
    LKI_TRY(lki_alloc(w->context, &memory, bytes, "counts of shards"));
    const lks_status status = lks_comm_all_gather(w->comm, &mine, sizeof mine, memory);
    for (int r = 0; r < lks_comm_size(w->comm) && status == LKS_OK; r++)
        *out += ((const int64_t *)memory)[r];
    lki_free(w->context, memory, bytes);
    return status;
}

/* ---------------------------------------------------------------- the folder */

static lks_status open_folder(writing *w)
{
    w->lock = open(w->opts->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return w->lock < 0 ? lki_fail_io("open", w->opts->out, errno) : LKS_OK;
}

/* Of rank 0. */
static lks_status take_folder(writing *w)
{
    char path[LKI_SHARDS_PATH];
    const char *out = w->opts->out;
    for (int k = 0; k < 2; k++) {
        if (!lki_shards_path(path, out, step, k, 0)) return lki_fail_io("write", out, ENAMETOOLONG);
        *strrchr(path, '/') = '\0';
        LKI_TRY(lki_folder_make(path));
    }
    LKI_TRY(open_folder(w));
    const int error = lki_lock(w->lock);
    if (error == EWOULDBLOCK)
        return LKI_FAIL(LKS_E_IO,
                        "'%.300s' is being written by another process that makes shards; wait for "
                        "its end, or give another folder",
                        out);
    if (error != 0)
        lki_log_line(
            w->context, LKS_LOG_WARN,
            "'%.300s' cannot be locked on its file system (%s): see that nobody else makes "
            "shards there",
            out, strerror(error));
    return LKS_OK;
}

/* What the metadata will say; an earlier one says the same, or its shards are others'. */
static lks_status make_metadata(const writing *w, char path[LKI_SHARDS_PATH], char text[TEXT])
{
    const lki_shards_plan *p = &w->plan;
    const int length = snprintf(path, LKI_SHARDS_PATH, "%s/metadata.json", w->opts->out);
    if (length >= LKI_SHARDS_PATH) return lki_fail_io("write", w->opts->out, ENAMETOOLONG);
    snprintf(text, TEXT,
             "{\"%s\": {\"flattened\": {\"dtype\": \"%s\", \"dataset_len\": %" PRId64
             ", \"num_shards\": %" PRId64 ", \"x_shape\": [%" PRId64 ", %" PRId64
             "], \"y_shape\": [%" PRId64 ", %" PRId64 "]}}}\n",
             step, type, p->rows, p->shards, p->rows_each, p->width[0], p->rows_each, p->width[1]);
    if (access(path, F_OK) != 0 || is_there(w->context, path, (const uint8_t *)text, strlen(text)))
        return LKS_OK;
    return LKI_FAIL(LKS_E_IO,
                    "'%.300s' is of other shards than those to be written; remove that folder, or "
                    "give another one",
                    path);
}

/* The metadata stands for all shards: it must not be on a disk before they are. */
static lks_status sync_folder(const writing *w)
{
    return syncfs(w->lock) == 0 ? LKS_OK : lki_fail_io("sync the folder", w->opts->out, errno);
}

static lks_status write_metadata(const writing *w, const char *metadata, const char *text)
{
    static const char config[] = "timestep: 1000\nloading_mode: efficient\n";
    char path[LKI_SHARDS_PATH + 16];
    snprintf(path, sizeof path, "%s/config.yaml", w->opts->out);
    if (access(path, F_OK) != 0) LKI_TRY(lks_file_write(path, config, sizeof config - 1));
    LKI_TRY(sync_folder(w));
    return lks_file_write(metadata, text, strlen(text));
}

static lks_status write_all(writing *w, lks_status status)
{
    char metadata[LKI_SHARDS_PATH], text[TEXT];
    const bool leads = lks_comm_rank(w->comm) == 0;
    if (status == LKS_OK && leads) status = take_folder(w);
    LKI_TRY(lks_comm_agree(w->comm, status));
    if (!leads) status = open_folder(w);
    if (status == LKS_OK) status = make_metadata(w, metadata, text);
    LKI_TRY(lks_comm_agree(w->comm, status));
    LKI_TRY(lks_comm_same(w->comm, "what the shards are of", text));
    LKI_TRY(run_ranks(w));
    /* The first does it behind config.yaml. */
    LKI_TRY(lks_comm_agree(w->comm, leads ? LKS_OK : sync_folder(w)));
    return lks_comm_agree(w->comm, leads ? write_metadata(w, metadata, text) : LKS_OK);
}

lks_status lki_shards_write(lks_shards_result *out, lks_context *context,
                            const lki_shards_source *source, const lks_shards_opts *opts,
                            lks_status status)
{
    const int64_t each = opts->rows > 0 ? opts->rows : EACH;
    writing w = {.context = context,
                 .source = source,
                 .opts = opts,
                 .plan = {.step = step,
                          .type = type,
                          .rows = source->rows,
                          .rows_each = each,
                          .shards = (source->rows - 1) / each + 1,
                          .width = {source->width[0], source->width[1]}},
                 .comm = opts->comm,
                 .lock = -1,
                 .wanted = true,
                 .failing = PTHREAD_MUTEX_INITIALIZER};
    if (status == LKS_OK && opts->rows < 0)
        status = LKI_FAIL(LKS_E_INVALID,
                          "shards of %" PRId64
                          " rows were asked for, expected at least 1, or 0 for "
                          "%d",
                          opts->rows, EACH);
    if (status == LKS_OK) status = lki_shards_check(&w.plan, opts->out);
    status = write_all(&w, status);
    *out = (lks_shards_result){.rows = source->rows,
                               .columns = {source->width[0], source->width[1]},
                               .shards = w.plan.shards};
    if (status == LKS_OK) status = sum_kept(&out->kept, &w);
    if (w.lock >= 0) close(w.lock);
    for (int k = 0; k < 2; k++) out->bytes += (int64_t)bytes_of(&w.plan, k, source->rows);
    return status;
}
