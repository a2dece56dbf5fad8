/* Means and deviations of shards. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "data/shards/shards.h"
#include "machine/thread.h"

/* Ranks exchange the sums of so many shards at a time, at least one and at most MOST_EACH of each. */
enum { MOST_THREADS = 256, TOGETHER = 8, ROUND = 256, MOST_EACH = 32 };

typedef struct measuring {
    const lki_shards *shards;
    const uint8_t *used;
    int64_t columns, end; /* shards behind `end` are not measured now */
    double *
        sums; /* of several ranks: [shards][1 + 3 columns], rows and hand.origin of those from `first` on; or NULL */
    int64_t first;
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
    float *row; /* [TOGETHER][columns of the wider array] */
    /* [columns] each, behind each other, of a shard: about its first row that is used */
    double *origin, *sum, *squares;
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

/* Adds a shard to those before it: what hand.origin points to. */
static void merge_shard(measuring *m, const double *origin, int64_t rows)
{
    const double n = (double)rows, before = (double)m->rows, all = before + n;
    const double *sum = origin + m->columns, *sum_of_squares = sum + m->columns;
    if (m->rows == 0) memcpy(m->origin, origin, (size_t)m->columns * sizeof(double));
    for (int64_t c = 0; c < m->columns && rows > 0; c++) {
        const double mean = (origin[c] - m->origin[c]) + sum[c] / n;
        const double squares = sum_of_squares[c] - sum[c] * (sum[c] / n);
        const double off = m->rows > 0 ? mean - m->mean[c] : 0;
        m->mean[c] = m->rows > 0 ? m->mean[c] + off * (n / all) : mean;
        m->squares[c] += (squares > 0 ? squares : 0) + off * off * (before * (n / all));
    }
    m->rows += rows;
}

/* Of several ranks all add the shards when they have those of the others. */
static void keep(measuring *m, const hand *h, int64_t rows, int64_t index)
{
    const size_t columns = (size_t)m->columns;
    double *to = m->sums + (size_t)(index - m->first) * (1 + 3 * columns);
    to[0] = (double)rows;
    memcpy(to + 1, h->origin, 3 * columns * sizeof *to);
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
        if (index >= m->end) break;
        memset(h->sum, 0, (size_t)m->columns * sizeof(double));
        memset(h->squares, 0, (size_t)m->columns * sizeof(double));
        for (int array = 0; array < 2 && status == LKS_OK; array++)
            status = sum_array(h, index, array, &rows);
        pthread_mutex_lock(&m->lock);
        while (m->next != index) pthread_cond_wait(&m->merged, &m->lock);
        if (m->failure.status == LKS_OK && status != LKS_OK) {
            m->failure = *lks_last_error();
            atomic_store(&m->taken, m->end);
        }
        if (m->failure.status == LKS_OK && m->sums != NULL) keep(m, h, rows, index);
        if (m->failure.status == LKS_OK && m->sums == NULL) merge_shard(m, h->origin, rows);
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

/* Shards [first, end). */
static lks_status run_hands(measuring *m, int threads, int64_t first, int64_t end)
{
    hand hands[MOST_THREADS];
    int started = 0;
    lks_status status = LKS_OK;
    if (first >= end) return LKS_OK;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > end - first) threads = (int)(end - first);
    m->first = m->next = first;
    m->end = end;
    atomic_store(&m->taken, first);
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

/* Round by round each rank measures some shards that are next to each other, and all add those of all in their order. */
static lks_status run_ranks(measuring *m, lks_comm *comm, int threads, int64_t most, double *all)
{
    const int64_t ranks = lks_comm_size(comm), shards = m->shards->plan.shards;
    const int64_t numbers = 1 + 3 * m->columns;
    for (int64_t begin = 0, each; begin < shards; begin += each * ranks) {
        each = (shards - begin - 1) / ranks + 1;
        if (each > most) each = most;
        const int64_t first = begin + each * lks_comm_rank(comm);
        const int64_t end = first + each < shards ? first + each : shards;
        LKI_TRY(lks_comm_agree(comm, run_hands(m, threads, first, end)));
        LKI_TRY(lks_comm_all_gather(comm, m->sums, (size_t)(each * numbers) * sizeof *all, all));
        const unsigned saved = lki_float_enter();
        for (int64_t i = 0; i < each * ranks && begin + i < shards; i++)
            merge_shard(m, all + i * numbers + 1, (int64_t)all[i * numbers]);
        lki_float_leave(saved);
    }
    return LKS_OK;
}

/* `status`: of this rank, before. */
static lks_status measure_together(measuring *m, lks_comm *comm, int threads, lks_status status)
{
    const int64_t ranks = lks_comm_size(comm), each = ROUND / ranks;
    const int64_t most = each < 1 ? 1 : each < MOST_EACH ? each : MOST_EACH;
    const size_t bytes = (size_t)(most * (1 + 3 * m->columns)) * sizeof(double);
    const size_t all_bytes = lki_times(bytes, (size_t)ranks);
    void *mine = NULL, *all = NULL;
    if (status == LKS_OK) status = lki_alloc(m->shards->context, &mine, bytes, "sums of shards");
    if (status == LKS_OK)
        status = lki_alloc(m->shards->context, &all, all_bytes, "sums of all ranks' shards");
    status = lks_comm_agree(comm, status);
    m->sums = mine;
    if (status == LKS_OK) status = run_ranks(m, comm, threads, most, all);
    lki_free(m->shards->context, all, all_bytes);
    lki_free(m->shards->context, mine, bytes);
    return status;
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

lks_status lki_shards_measure(const lki_shards *shards, const uint8_t *used, lks_comm *comm,
                              int threads, double *mean, double *deviation, int64_t *constant)
{
    const int64_t columns = shards->plan.width[0] + shards->plan.width[1];
    const size_t bytes = (size_t)columns * sizeof *mean;
    void *origin = NULL;
    lks_status status = lki_alloc(shards->context, &origin, bytes, "the origin of sums");
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
    if (threads < 1) threads = lks_comm_cores(comm);
    if (lks_comm_size(comm) > 1)
        status = measure_together(&m, comm, threads, status);
    else if (status == LKS_OK)
        status = run_hands(&m, threads, 0, shards->plan.shards);
    if (status == LKS_OK) finish(&m, constant);
    lki_free(shards->context, origin, bytes);
    return status;
}
