/*
 * The module over MPI with faults put in front of it: of what one rank starts or shares, number n fails, or a bit of
 * message n of its exchanges changes on its way.
 *   LKT_FAIL_RANK=1 LKT_FAIL_AT=17    number 17 fails (start, gather, sum, common memory; from 1)
 *   LKT_FAIL_RANK=1 LKT_FLIP_AT=17    message 17 changes
 *   LKT_COUNT=FILE                    when it ends the rank writes there how many of both there were
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"

/* What the module's own files call theirs. */
#undef lki_transport_mpi
const lki_transport *lkt_real_transport(void);
__attribute__((visibility("default"))) const lki_transport *lki_transport_mpi(void);

static lki_transport real;
static struct {
    long rank, fail_at, flip_at; /* what is asked for */
    long calls, messages;        /* so far */
    void *flipped;               /* what goes instead; kept, as a process has one */
} failing;

static long number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atol(text) : 0;
}

static bool fails(const void *link, lki_fault *fault)
{
    const int rank = real.rank(link);
    failing.calls++;
    if (rank != failing.rank || failing.calls != failing.fail_at) return false;
    fault->rank = rank;
    snprintf(fault->text, sizeof fault->text, "failed as it was told to");
    return true;
}

static int failing_start(void *link, int flight, const lki_piece *send, int sends,
                         const lki_piece *receive, int receives, lki_fault *fault)
{
    if (fails(link, fault)) return -1;
    lki_piece *pieces = NULL;
    for (int i = 0; i < sends && real.rank(link) == failing.rank; i++) {
        if (send[i].bytes < 4 || ++failing.messages != failing.flip_at) continue;
        pieces = malloc((size_t)sends * sizeof *pieces);
        failing.flipped = malloc(send[i].bytes);
        if (pieces == NULL || failing.flipped == NULL) abort();
        memcpy(pieces, send, (size_t)sends * sizeof *pieces);
        memcpy(failing.flipped, send[i].data, send[i].bytes);
        ((char *)failing.flipped)[2] ^= 4;
        pieces[i].data = failing.flipped;
    }
    const int result = real.start(link, flight, pieces != NULL ? pieces : send, sends, receive,
                                  receives, fault);
    free(pieces);
    return result;
}

static int failing_gather(void *link, int flight, const void *mine, size_t bytes, void *all,
                          lki_fault *fault)
{
    return fails(link, fault) ? -1 : real.gather(link, flight, mine, bytes, all, fault);
}

static int failing_all_reduce(void *link, int flight, float *values, size_t count, lki_fault *fault)
{
    return fails(link, fault) ? -1 : real.all_reduce(link, flight, values, count, fault);
}

/* Behind it: the others are in a call of MPI, and what fails in that fails on all of them. */
static int failing_share(void *link, size_t bytes, void **base, lki_fault *fault)
{
    const int result = real.share(link, bytes, base, fault);
    return fails(link, fault) ? -1 : result;
}

static void failing_close(void *link)
{
    const char *path = getenv("LKT_COUNT");
    if (path != NULL && link != NULL && real.rank(link) == failing.rank) {
        FILE *file = fopen(path, "w");
        if (file == NULL) abort();
        fprintf(file, "%ld %ld\n", failing.calls, failing.messages);
        fclose(file);
    }
    real.close(link);
}

const lki_transport *lki_transport_mpi(void)
{
    static lki_transport mine;
    real = *lkt_real_transport();
    mine = real;
    mine.copies = false; /* but as a wire does it */
    mine.start = failing_start;
    mine.gather = failing_gather;
    mine.all_reduce = failing_all_reduce;
    mine.share = failing_share;
    mine.close = failing_close;
    failing.rank = number("LKT_FAIL_RANK");
    failing.fail_at = number("LKT_FAIL_AT");
    failing.flip_at = number("LKT_FLIP_AT");
    return &mine;
}
