/* Means and deviations of shards. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "data/shards/shards.h"
#include "machine/thread.h"

enum { MOST_THREADS = 256, TOGETHER = 4 };

typedef struct measuring {
    const lki_shards *shards;
    const uint8_t *used;
    int64_t columns;
    double *origin; /* [columns]: of the first row that is used */
    double *mean,
        *squares; /* [columns], of the `rows` rows of the shards before `next`; the mean less the origin */
    int64_t rows, next;
    atomic_int_least64_t taken;
    pthread_mutex_t lock;
    pthread_cond_t merged;
    lks_error failure; /* of the first shard, in their order, that fails */
} measuring;

typedef struct hand {
    pthread_t thread;
    measuring *all;
    float *row;                     /* [TOGETHER][columns of the wider array] */
    double *origin, *sum, *squares; /* [columns], of a shard: about its first row that is used */
    size_t bytes;
} hand;

/* Adds `count` rows. In the order of the rows, however many are added at once. */
static void add_rows(double *restrict sum, double *restrict squares, const double *restrict origin,
                     const float *restrict row, int64_t columns, int count)
{
    if (count == TOGETHER) {
        for (int64_t c = 0; c < columns; c++) {
            const double a = (double)row[c] - origin[c];
            const double b = (double)row[columns + c] - origin[c];
            const double d = (double)row[2 * columns + c] - origin[c];
            const double e = (double)row[3 * columns + c] - origin[c];
            sum[c] = (((sum[c] + a) + b) + d) + e;
            squares[c] = (((squares[c] + a * a) + b * b) + d * d) + e * e;
        }
        return;
    }
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < columns; c++) {
            const double a = (double)row[r * columns + c] - origin[c];
            sum[c] += a;
            squares[c] += a * a;
        }
}

static lks_status sum_array(hand *h, int64_t index, int array, int64_t *rows)
{
    const lki_shards *shards = h->all->shards;
    const int64_t columns = shards->plan.width[array];
    const int64_t first = array == 0 ? 0 : shards->plan.width[0];
    const int64_t count = lki_shards_rows(&shards->plan, index);
    const uint8_t *used = h->all->used + index * shards->plan.rows_each;
    double *origin = h->origin + first, *sum = h->sum + first, *squares = h->squares + first;
    lki_shard shard;
    int waiting = 0;
    lks_status status = lki_shard_open(&shard, shards, array, index);
    *rows = 0;
    for (int64_t r = 0; r < count && status == LKS_OK; r++) {
        float *row = h->row + waiting * columns;
        if (!used[r]) continue;
        status = lki_shard_row(row, shards, &shard, array, index, r);
        if (*rows == 0)
            for (int64_t c = 0; c < columns; c++) origin[c] = (double)row[c];
        ++*rows;
        if (++waiting < TOGETHER) continue;
        add_rows(sum, squares, origin, h->row, columns, waiting);
        waiting = 0;
    }
    add_rows(sum, squares, origin, h->row, columns, waiting);
    lki_file_close(&shard.file);
    return status;
}

/* Adds a shard to those before it. */
static void merge(measuring *m, const hand *h, int64_t rows)
{
    const double n = (double)rows, before = (double)m->rows, all = before + n;
    if (m->rows == 0) memcpy(m->origin, h->origin, (size_t)m->columns * sizeof(double));
    for (int64_t c = 0; c < m->columns && rows > 0; c++) {
        const double mean = (h->origin[c] - m->origin[c]) + h->sum[c] / n;
        const double squares = h->squares[c] - h->sum[c] * (h->sum[c] / n);
        const double off = m->rows > 0 ? mean - m->mean[c] : 0;
        m->mean[c] = m->rows > 0 ? m->mean[c] + off * (n / all) : mean;
        m->squares[c] += (squares > 0 ? squares : 0) + off * off * (before * (n / all));
    }
    m->rows += rows;
}

static void *measure_some(void *user)
{
    hand *h = user;
    measuring *m = h->all;
    const unsigned saved = lki_float_enter();
    for (;;) {
        const int64_t index = atomic_fetch_add(&m->taken, 1);
        int64_t rows = 0;
        lks_status status = LKS_OK;
        if (index >= m->shards->plan.shards) break;
        memset(h->sum, 0, (size_t)m->columns * sizeof(double));
        memset(h->squares, 0, (size_t)m->columns * sizeof(double));
        for (int array = 0; array < 2 && status == LKS_OK; array++)
            status = sum_array(h, index, array, &rows);
        pthread_mutex_lock(&m->lock);
        while (m->next != index) pthread_cond_wait(&m->merged, &m->lock);
        if (m->failure.status == LKS_OK && status != LKS_OK) {
            m->failure = *lks_last_error();
            atomic_store(&m->taken, m->shards->plan.shards);
        }
        if (m->failure.status == LKS_OK) merge(m, h, rows);
        m->next++;
        pthread_cond_broadcast(&m->merged);
        pthread_mutex_unlock(&m->lock);
    }
    lki_float_leave(saved);
    return NULL;
}

static lks_status start_hand(hand *h, measuring *m)
{
    const int64_t *width = m->shards->plan.width;
    const size_t wide = (size_t)(width[0] > width[1] ? width[0] : width[1]);
    const size_t columns = (size_t)m->columns;
    void *memory;
    *h = (hand){.all = m};
    h->bytes = 3 * columns * sizeof(double) + TOGETHER * wide * sizeof(float);
    LKI_TRY(lki_alloc(m->shards->context, &memory, h->bytes, "sums of columns"));
    h->origin = memory;
    h->sum = h->origin + columns;
    h->squares = h->sum + columns;
    h->row = (float *)(void *)(h->squares + columns);
    if (lki_thread_start(&h->thread, measure_some, h) == 0) return LKS_OK;
    lki_free(m->shards->context, memory, h->bytes);
    return LKI_FAIL(LKS_E_NOMEM, "the system starts no thread");
}

static lks_status run_hands(measuring *m, int threads)
{
    hand hands[MOST_THREADS];
    int started = 0;
    lks_status status = LKS_OK;
    if (threads < 1) threads = lks_cores();
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > m->shards->plan.shards) threads = (int)m->shards->plan.shards;
    while (started < threads && status == LKS_OK) {
        status = start_hand(&hands[started], m);
        started += status == LKS_OK;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(hands[i].thread, NULL);
        lki_free(m->shards->context, hands[i].origin, hands[i].bytes);
    }
    if (started == 0) return status; /* fewer than were asked for have done all the same */
    if (m->failure.status != LKS_OK) lki_error_restore(&m->failure);
    return m->failure.status;
}

static void finish(measuring *m, int64_t *constant)
{
    const unsigned saved = lki_float_enter();
    for (int64_t c = 0; c < m->columns; c++) {
        m->mean[c] += m->origin[c];
        m->squares[c] = sqrt(m->squares[c] / (double)m->rows);
        if (m->squares[c] > 0) continue;
        m->squares[c] = 1;
        ++*constant;
    }
    lki_float_leave(saved);
}

lks_status lki_shards_measure(const lki_shards *shards, const uint8_t *used, int threads,
                              double *mean, double *deviation, int64_t *constant)
{
    const int64_t columns = shards->plan.width[0] + shards->plan.width[1];
    const size_t bytes = (size_t)columns * sizeof *mean;
    void *origin;
    LKI_TRY(lki_alloc(shards->context, &origin, bytes, "the origin of sums"));
    measuring m = {.shards = shards,
                   .used = used,
                   .columns = columns,
                   .origin = origin,
                   .mean = mean,
                   .squares = deviation,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .merged = PTHREAD_COND_INITIALIZER};
    memset(mean, 0, bytes);
    memset(deviation, 0, bytes);
    *constant = 0;
    const lks_status status = run_hands(&m, threads);
    if (status == LKS_OK) finish(&m, constant);
    lki_free(shards->context, origin, bytes);
    return status;
}
