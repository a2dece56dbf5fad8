/* Before a collective: are all ranks about to do the same? Over any transport, as it only gathers. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct print {
    uint64_t number, bytes, element;
    int64_t step;
    char what[64];
} print;

static const char *describe(const print *p, char out[160])
{
    snprintf(out, 160,
             "'%s' (number %" PRIu64 ", step %lld, %" PRIu64 " bytes in elements of %" PRIu64 ")",
             p->what, p->number, (long long)p->step, p->bytes, p->element);
    return out;
}

/* In memory of its own: the caller may have something in the scratch. */
static lks_status everybodys(lks_comm *comm, const void *mine, size_t bytes, void **out)
{
    const lks_status status = lki_alloc(NULL, out, lki_times((size_t)comm->size, bytes),
                                        "fingerprints of a collective");
    if (status != LKS_OK) return lki_comm_refuse(comm, status);
    return lki_flight_gather(comm, mine, bytes, *out, "fingerprints");
}

static lks_status compare(const lks_comm *comm, const print *all)
{
    char who[LKI_WHO_SIZE], first[LKI_WHO_SIZE], theirs[160], its[160];
    for (int r = 1; r < comm->size; r++) {
        if (memcmp(&all[r], &all[0], sizeof *all) == 0) continue;
        return LKI_FAIL(LKS_E_STATE,
                        "%s comes to %s, %s to %s; all ranks call the same collectives in the same "
                        "order",
                        lki_comm_who(comm, r, who), describe(&all[r], theirs),
                        lki_comm_who(comm, 0, first), describe(&all[0], its));
    }
    return LKS_OK;
}

lks_status lki_verify(lks_comm *comm, const char *what, size_t bytes, size_t element)
{
    print mine, *all = NULL;
    memset(&mine, 0, sizeof mine); /* what is compared has no holes */
    mine.number = comm->verified++;
    mine.bytes = bytes;
    mine.element = element;
    mine.step = atomic_load(&comm->spot.step);
    snprintf(mine.what, sizeof mine.what, "%s", what);
    lks_status status = everybodys(comm, &mine, sizeof mine, (void **)&all);
    if (status == LKS_OK) status = compare(comm, all);
    lki_free(NULL, all, (size_t)comm->size * sizeof mine);
    return status;
}

/* What goes from one rank to another, as either of them sees it. */
typedef struct traffic {
    uint64_t bytes, pieces, cut; /* `cut` is made of the sizes in their order */
} traffic;

static void count(traffic *to, const lki_piece *pieces, int number)
{
    for (int i = 0; i < number; i++) {
        traffic *t = &to[pieces[i].rank];
        t->bytes += pieces[i].bytes;
        t->pieces++;
        t->cut = t->cut * UINT64_C(0x100000001b3) + pieces[i].bytes + 1;
    }
}

/* all[rank][0: sends, 1: receives][other rank] */
static lks_status match(const lks_comm *comm, const char *what, const traffic *all)
{
    const size_t size = (size_t)comm->size;
    char who[LKI_WHO_SIZE], other[LKI_WHO_SIZE];
    for (size_t from = 0; from < size; from++) {
        for (size_t to = 0; to < size; to++) {
            const traffic *sends = &all[(2 * from) * size + to];
            const traffic *receives = &all[(2 * to + 1) * size + from];
            if (memcmp(sends, receives, sizeof *sends) == 0) continue;
            return LKI_FAIL(LKS_E_STATE,
                            "%s: %s sends %" PRIu64 " bytes in %" PRIu64
                            " pieces to %s, which expects %" PRIu64 " in %" PRIu64 "%s",
                            what, lki_comm_who(comm, (int)from, who), sends->bytes, sends->pieces,
                            lki_comm_who(comm, (int)to, other), receives->bytes, receives->pieces,
                            sends->bytes == receives->bytes ? ", cut in another way" : "");
        }
    }
    return LKS_OK;
}

lks_status lki_verify_exchange(lks_comm *comm, const char *what, const lki_piece *send, int sends,
                               const lki_piece *receive, int receives)
{
    LKI_TRY(lki_verify(comm, what, 0, 1));
    const size_t size = (size_t)comm->size, bytes = 2 * size * sizeof(traffic);
    traffic *mine = NULL, *all = NULL;
    lks_status status = lki_alloc(NULL, (void **)&mine, bytes, "the fingerprint of an exchange");
    if (status != LKS_OK) return lki_comm_refuse(comm, status);
    count(mine, send, sends);
    count(mine + size, receive, receives);
    status = everybodys(comm, mine, bytes, (void **)&all);
    if (status == LKS_OK) status = match(comm, what, all);
    lki_free(NULL, all, size * bytes);
    lki_free(NULL, mine, bytes);
    return status;
}
