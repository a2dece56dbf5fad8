/*
 * Weighted means over ranks. Arrays are one after the other, cut in chunks, and of a chunk rank s forms
 * the means of slice s, which all then gather:
 *
 *   rank 0   [ a0 | a1 | a2 ]  --a1 to 1, a2 to 2-->  [ mean of 0 |    ?      |    ?      ]  --> all
 *   rank 1   [ b0 | b1 | b2 ]  --b0 to 0, b2 to 2-->  [     ?     | mean of 1 |    ?      ]  --> all
 *
 * so every mean is formed once, in one order, and has the same bits everywhere.
 */
#include "comm/flight.h"

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 20 }; /* numbers: large for any network, small for any memory */

/* What a rank brings. */
typedef struct share {
    double weight;
    int64_t numbers, arrays;
} share;

typedef struct averaging {
    lks_comm *comm;
    float *const *arrays;
    const int64_t *counts;
    int count;
    int array; /* where the chunk begins: the array, and the number in it */
    int64_t number;

    share *shares; /* [size] */
    double sum;    /* of the weights */
    lki_piece *send, *receive;
    float *chunk;    /* [length] */
    float *received; /* [size][slice] of the others; a rank's own stays in `chunk` */
} averaging;

static lks_status check(lks_comm *comm, float *const *arrays, const int64_t *counts, int count,
                        double weight)
{
    if (count < 0) return LKI_COMM_REFUSE(comm, "lks_comm_average() got count %d", count);
    if (arrays == NULL && count > 0) return LKI_COMM_REFUSE_NULL(comm, arrays);
    if (counts == NULL && count > 0) return LKI_COMM_REFUSE_NULL(comm, counts);
    for (int i = 0; i < count; i++) {
        if (counts[i] < 0 || (arrays[i] == NULL && counts[i] > 0)) {
            return LKI_COMM_REFUSE(
                comm, "lks_comm_average() got %s as arrays[%d], with %" PRId64 " numbers",
                arrays[i] == NULL ? "NULL" : "an array", i, counts[i]);
        }
    }
    /* So far from the ends of what a double holds that no product of a weight and a number leaves it. */
    if (weight == 0 || (weight >= 1e-100 && weight <= 1e100)) return LKS_OK;
    return LKI_COMM_REFUSE(comm, "lks_comm_average() got weight %g, expected 0, or 1e-100 to 1e100",
                           weight);
}

/* What is wrong with all shares together; all ranks see it. */
static lks_status check_shares(averaging *a)
{
    char who[LKI_WHO_SIZE], first[LKI_WHO_SIZE];
    const share *all = a->shares;
    a->sum = 0;
    for (int r = 0; r < a->comm->size; r++) {
        a->sum += all[r].weight;
        if (all[r].numbers == all[0].numbers && all[r].arrays == all[0].arrays) continue;
        return LKI_FAIL(LKS_E_SHAPE,
                        "lks_comm_average(): %s has %" PRId64 " numbers in %" PRId64
                        " arrays, %s %" PRId64 " in %" PRId64,
                        lki_comm_who(a->comm, r, who), all[r].numbers, all[r].arrays,
                        lki_comm_who(a->comm, 0, first), all[0].numbers, all[0].arrays);
    }
    if (a->sum > 0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "lks_comm_average() got weight 0 from all %d ranks",
                    a->comm->size);
}

/* Packs the next `length` numbers of the arrays into the chunk, or unpacks them: then it moves on. */
static void copy(averaging *a, int64_t length, bool pack)
{
    int array = a->array;
    int64_t number = a->number;
    for (int64_t done = 0; done < length;) {
        const int64_t here = a->counts[array] - number, wanted = length - done;
        const int64_t now = here < wanted ? here : wanted;
        float *values = now > 0 ? a->arrays[array] + number : NULL;
        if (now > 0 && pack) memcpy(a->chunk + done, values, (size_t)now * sizeof *values);
        if (now > 0 && !pack) memcpy(values, a->chunk + done, (size_t)now * sizeof *values);
        done += now;
        number += now;
        if (number < a->counts[array]) continue;
        array++;
        number = 0;
    }
    if (!pack) a->array = array, a->number = number;
}

static int64_t border(const averaging *a, int64_t length, int rank)
{
    return length / a->comm->size * rank + length % a->comm->size * rank / a->comm->size;
}

static void combine(averaging *a, float *own, int64_t count)
{
    const unsigned saved = lki_float_enter();
    for (int64_t i = 0; i < count; i++) {
        double sum = -0.0; /* to which a sum of -0 belongs */
        for (int r = 0; r < a->comm->size; r++) {
            const float *from = r == a->comm->rank ? own : a->received + r * count;
            if (a->shares[r].weight > 0) sum += a->shares[r].weight * (double)from[i];
        }
        own[i] = (float)(sum / a->sum);
    }
    lki_float_leave(saved);
}

static lks_status exchange(averaging *a, int sends, int receives)
{
    int flight = 0;
    LKI_TRY(lki_comm_start(a->comm, &flight, a->send, sends, a->receive, receives, "average"));
    return lki_comm_wait(a->comm, flight);
}

/* Pieces without bytes are left out on both sides. */
static void add(lki_piece *pieces, int *count, int rank, float *from, int64_t numbers)
{
    if (numbers > 0) pieces[(*count)++] = (lki_piece){rank, from, (size_t)numbers * sizeof *from};
}

static lks_status average_chunk(averaging *a, int64_t length)
{
    const int rank = a->comm->rank, size = a->comm->size;
    const int64_t first = border(a, length, rank), own = border(a, length, rank + 1) - first;
    int sends = 0, receives = 0;
    copy(a, length, true);
    for (int r = 0; r < size; r++) {
        const int64_t begin = border(a, length, r);
        if (r == rank) continue;
        add(a->send, &sends, r, a->chunk + begin, border(a, length, r + 1) - begin);
        add(a->receive, &receives, r, a->received + r * own, own);
    }
    LKI_TRY(exchange(a, sends, receives));
    combine(a, a->chunk + first, own);
    sends = receives = 0;
    for (int r = 0; r < size; r++) {
        const int64_t begin = border(a, length, r);
        if (r == rank) continue;
        add(a->send, &sends, r, a->chunk + first, own);
        add(a->receive, &receives, r, a->chunk + begin, border(a, length, r + 1) - begin);
    }
    LKI_TRY(exchange(a, sends, receives));
    copy(a, length, false);
    return LKS_OK;
}

/* All that it needs, out of the communicator's scratch. */
static lks_status prepare(averaging *a, int64_t numbers)
{
    const size_t size = (size_t)a->comm->size;
    const size_t chunk = numbers < CHUNK ? (size_t)numbers : CHUNK;
    const size_t pieces = size * sizeof(lki_piece), shares = size * sizeof(share);
    char *at = NULL;
    LKI_TRY(lki_comm_scratch(a->comm, shares + 2 * pieces + (2 * chunk + size) * sizeof(float),
                             (void **)&at));
    a->shares = (share *)(void *)at;
    a->send = (lki_piece *)(void *)(at + shares);
    a->receive = a->send + size;
    a->chunk = (float *)(void *)(at + shares + 2 * pieces);
    a->received = a->chunk + chunk;
    return LKS_OK;
}

lks_status lks_comm_average(lks_comm *comm, float *const *arrays, const int64_t *counts, int count,
                            double weight)
{
    averaging a = {.comm = comm, .arrays = arrays, .counts = counts, .count = count};
    LKI_COMM_ENTER(comm);
    LKI_TRY(check(comm, arrays, counts, count, weight));
    if (lki_comm_alone(comm)) {
        return weight > 0 ? LKS_OK : LKI_FAIL(LKS_E_INVALID, "lks_comm_average() got weight 0");
    }
    share mine = {.weight = weight, .arrays = count};
    for (int i = 0; i < count; i++) mine.numbers += counts[i];
    LKI_TRY(prepare(&a, mine.numbers));
    LKI_TRY(lki_comm_gather(comm, &mine, sizeof mine, a.shares, "average"));
    LKI_TRY(check_shares(&a));
    for (int64_t left = mine.numbers; left > 0;) {
        const int64_t length = left < CHUNK ? left : CHUNK;
        LKI_TRY(average_chunk(&a, length));
        left -= length;
    }
    return LKS_OK;
}
