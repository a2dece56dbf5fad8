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

enum { MOST_THREADS = 256, TOGETHER = 8 };

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

/* Adds `count` rows. In the order of the rows, however many are added at once, and however many columns: the instruction set
 * makes no difference to a bit. */
static inline __attribute__((always_inline)) void
add_rows_by(double *restrict sum, double *restrict squares, const double *restrict origin,
            const float *const row[TOGETHER], int64_t columns, int count)
{
    if (count == TOGETHER) {
        const float *const r0 = row[0], *const r1 = row[1], *const r2 = row[2], *const r3 = row[3];
        const float *const r4 = row[4], *const r5 = row[5], *const r6 = row[6], *const r7 = row[7];
        for (int64_t c = 0; c < columns; c++) {
            const double o = origin[c];
            const double a = (double)r0[c] - o, b = (double)r1[c] - o, d = (double)r2[c] - o;
            const double e = (double)r3[c] - o, f = (double)r4[c] - o, g = (double)r5[c] - o;
            const double h = (double)r6[c] - o, i = (double)r7[c] - o;
            sum[c] = (((((((sum[c] + a) + b) + d) + e) + f) + g) + h) + i;
            squares[c] = (((((((squares[c] + a * a) + b * b) + d * d) + e * e) + f * f) + g * g) +
                          h * h) +
                         i * i;
        }
        return;
    }
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < columns; c++) {
            const double a = (double)row[r][c] - origin[c];
            sum[c] += a;
            squares[c] += a * a;
        }
}

#if defined __x86_64__
__attribute__((target("avx2"))) static void
add_rows_avx2(double *restrict sum, double *restrict squares, const double *restrict origin,
              const float *const row[TOGETHER], int64_t columns, int count)
{
    add_rows_by(sum, squares, origin, row, columns, count);
}
#endif

static void add_rows(double *sum, double *squares, const double *origin,
                     const float *const row[TOGETHER], int64_t columns, int count)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        add_rows_avx2(sum, squares, origin, row, columns, count);
        return;
    }
#endif
    add_rows_by(sum, squares, origin, row, columns, count);
}

/* Adds the rows of an open shard that are used, by pointers into the file where that has floats as they are. */
static lks_status add_shard(hand *h, const lki_shard *shard, int64_t index, int array,
                            int64_t *rows)
{
    const lki_shards *shards = h->all->shards;
    const int64_t columns = shards->plan.width[array];
    const int64_t first = array == 0 ? 0 : shards->plan.width[0];
    const int64_t count = lki_shards_rows(&shards->plan, index);
    const uint8_t *used = h->all->used + index * shards->plan.rows_each;
    const float *plain = lki_shard_floats(shard), *row[TOGETHER];
    double *origin = h->origin + first, *sum = h->sum + first, *squares = h->squares + first;
    int waiting = 0;
    for (int64_t r = 0; r < count; r++) {
        if (!used[r]) continue;
        row[waiting] = plain != NULL ? plain + r * columns : h->row + waiting * columns;
        if (plain == NULL)
            LKI_TRY(lki_shard_row(h->row + waiting * columns, shards, shard, array, index, r));
        for (int64_t c = 0; c < columns && *rows == 0; c++) origin[c] = (double)row[0][c];
        ++*rows;
        if (++waiting < TOGETHER) continue;
        add_rows(sum, squares, origin, row, columns, waiting);
        waiting = 0;
    }
    add_rows(sum, squares, origin, row, columns, waiting);
    bool finite = true;
    for (int64_t c = 0; c < columns; c++) finite &= (bool)isfinite(squares[c]);
    for (int64_t r = 0; r < count && !finite; r++) /* which is it? */
        if (used[r]) LKI_TRY(lki_shard_row(h->row, shards, shard, array, index, r));
    return LKS_OK;
}

static lks_status sum_array(hand *h, int64_t index, int array, int64_t *rows)
{
    lki_shard shard;
    *rows = 0;
    LKI_TRY(lki_shard_open(&shard, h->all->shards, array, index));
    const lks_status status = add_shard(h, &shard, index, array, rows);
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
