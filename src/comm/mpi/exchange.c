/* What travels: messages between two ranks, gathers, and the library's own sums. */
#include "comm/mpi/mpi_link.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int exchange_grow(mpi_flight *f, int count)
{
    MPI_Request *request = realloc(f->request, (size_t)count * sizeof *request);
    if (request != NULL) f->request = request;
    int *peer = realloc(f->peer, (size_t)count * sizeof *peer);
    if (peer != NULL) f->peer = peer;
    int64_t *expected = realloc(f->expected, (size_t)count * sizeof *expected);
    if (expected != NULL) f->expected = expected;
    if (request == NULL || peer == NULL || expected == NULL) return -1;
    f->capacity = count;
    return 0;
}

/* A flight begins; it will have this many messages. */
static int exchange_begin(mpi_link *link, mpi_flight *f, size_t messages, lki_fault *fault)
{
    f->count = f->landed = 0;
    if (messages > INT_MAX / 2)
        return mpi_link_fault(link, fault, -1, MPI_SUCCESS, "%zu messages are too many", messages);
    const int count = (int)messages;
    if (count > f->capacity && exchange_grow(f, count) != 0)
        return mpi_link_fault(link, fault, -1, MPI_SUCCESS, "out of memory for %d messages", count);
    return 0;
}

static void exchange_note(mpi_flight *f, int peer, int64_t expected)
{
    f->peer[f->count] = peer;
    f->expected[f->count] = expected;
    f->count++;
}

static size_t exchange_messages(size_t bytes)
{
    return bytes / MPI_LINK_CHUNK + (bytes % MPI_LINK_CHUNK != 0);
}

static size_t exchange_count(const lki_piece *piece, int count)
{
    size_t messages = 0;
    for (int i = 0; i < count; i++) messages += exchange_messages(piece[i].bytes);
    return messages;
}

/* Messages of two flights between two ranks differ in their tag; those of one match in their order, and
 * so do those of the next flight with this number: MPI keeps the order of what one rank sends another. */
static int exchange_send(mpi_link *link, int flight, int rank, const void *data, size_t bytes,
                         lki_fault *fault)
{
    mpi_flight *f = &link->flight[flight];
    for (size_t done = 0; done < bytes; done += MPI_LINK_CHUNK) {
        const size_t part = bytes - done < MPI_LINK_CHUNK ? bytes - done : MPI_LINK_CHUNK;
        const int code = MPI_Isend((const char *)data + done, (int)part, MPI_BYTE, rank, flight,
                                   link->comm, &f->request[f->count]);
        if (code != MPI_SUCCESS)
            return mpi_link_fault(link, fault, rank, code, "cannot be sent to");
        exchange_note(f, rank, MPI_LINK_SENT);
    }
    return 0;
}

static int exchange_receive(mpi_link *link, int flight, int rank, void *data, size_t bytes,
                            lki_fault *fault)
{
    mpi_flight *f = &link->flight[flight];
    for (size_t done = 0; done < bytes; done += MPI_LINK_CHUNK) {
        const size_t part = bytes - done < MPI_LINK_CHUNK ? bytes - done : MPI_LINK_CHUNK;
        const int code = MPI_Irecv((char *)data + done, (int)part, MPI_BYTE, rank, flight,
                                   link->comm, &f->request[f->count]);
        if (code != MPI_SUCCESS)
            return mpi_link_fault(link, fault, rank, code, "cannot be received from");
        exchange_note(f, rank, (int64_t)part);
    }
    return 0;
}

int mpi_link_start(void *to, int flight, const lki_piece *send, int sends, const lki_piece *receive,
                   int receives, lki_fault *fault)
{
    mpi_link *link = to;
    const size_t messages = exchange_count(send, sends) + exchange_count(receive, receives);
    int failed = exchange_begin(link, &link->flight[flight], messages, fault);
    /* Receiving first: what comes then has its place already. */
    for (int i = 0; i < receives && !failed; i++)
        failed = exchange_receive(link, flight, receive[i].rank, receive[i].data, receive[i].bytes,
                                  fault);
    for (int i = 0; i < sends && !failed; i++)
        failed = exchange_send(link, flight, send[i].rank, send[i].data, send[i].bytes, fault);
    return failed;
}

/* Each to each: whoever waits knows for whom. */
static int exchange_gather(mpi_link *link, int flight, const void *mine, size_t bytes, char *all,
                           lki_fault *fault)
{
    char *place = all + (size_t)link->rank * bytes;
    const size_t messages = 2 * (size_t)(link->size - 1) * exchange_messages(bytes);
    int failed = exchange_begin(link, &link->flight[flight], messages, fault);
    if (place != mine) memcpy(place, mine, bytes);
    for (int i = 1; i < link->size && !failed; i++) {
        const int rank = (link->rank + link->size - i) % link->size;
        failed = exchange_receive(link, flight, rank, all + (size_t)rank * bytes, bytes, fault);
    }
    for (int i = 1; i < link->size && !failed; i++)
        failed = exchange_send(link, flight, (link->rank + i) % link->size, mine, bytes, fault);
    return failed;
}

int mpi_link_gather(void *to, int flight, const void *mine, size_t bytes, void *all,
                    lki_fault *fault)
{
    mpi_link *link = to;
    mpi_flight *f = &link->flight[flight];
    if (link->size <= MPI_LINK_DIRECT || bytes > (size_t)INT_MAX / (size_t)link->size)
        return exchange_gather(link, flight, mine, bytes, all, fault);
    if (exchange_begin(link, f, 1, fault) != 0) return -1;
    const bool placed = (const char *)mine == (char *)all + (size_t)link->rank * bytes;
    const int code = MPI_Iallgather(placed ? MPI_IN_PLACE : mine, (int)bytes, MPI_BYTE, all,
                                    (int)bytes, MPI_BYTE, link->comm, f->request);
    if (code != MPI_SUCCESS) return mpi_link_fault(link, fault, -1, code, "a gather failed");
    exchange_note(f, -1, MPI_LINK_ALL);
    return 0;
}

int mpi_link_all_reduce(void *to, int flight, float *values, size_t count, lki_fault *fault)
{
    enum { AT_ONCE = MPI_LINK_CHUNK / sizeof *values };
    mpi_link *link = to;
    mpi_flight *f = &link->flight[flight];
    if (exchange_begin(link, f, count / AT_ONCE + 1, fault) != 0) return -1;
    for (size_t done = 0; done < count; done += AT_ONCE) {
        const size_t part = count - done < AT_ONCE ? count - done : AT_ONCE;
        const int code = MPI_Iallreduce(MPI_IN_PLACE, values + done, (int)part, MPI_FLOAT, MPI_SUM,
                                        link->comm, &f->request[f->count]);
        if (code != MPI_SUCCESS) return mpi_link_fault(link, fault, -1, code, "a sum failed");
        exchange_note(f, -1, MPI_LINK_ALL);
    }
    return 0;
}

/* Whether one request is done, and with what it should have brought. */
static int exchange_test(mpi_link *link, mpi_flight *f, int i, int *done, lki_fault *fault)
{
    MPI_Status status;
    const int64_t expected = f->expected[i];
    int bytes = 0;
    const int code = MPI_Test(&f->request[i], done, &status);
    if (code != MPI_SUCCESS)
        return mpi_link_fault(link, fault, f->peer[i], code,
                              expected == MPI_LINK_ALL    ? "a collective of all ranks failed"
                              : expected == MPI_LINK_SENT ? "cannot be sent to"
                                                          : "cannot be received from");
    if (!*done || expected < 0) return 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes == expected) return 0;
    return mpi_link_fault(link, fault, f->peer[i], MPI_SUCCESS,
                          "sent %d bytes, and %lld were expected", bytes, (long long)expected);
}

int mpi_link_listen(mpi_link *link)
{
    return MPI_Irecv(&link->heard, sizeof link->heard, MPI_BYTE, MPI_ANY_SOURCE, 0, link->word,
                     &link->said);
}

/* Has somebody left? */
static int exchange_listen(mpi_link *link, lki_fault *fault)
{
    int heard = 0;
    MPI_Status status;
    int code = link->said != MPI_REQUEST_NULL ? MPI_Test(&link->said, &heard, &status)
                                              : MPI_SUCCESS;
    if (code == MPI_SUCCESS && !heard) return 0;
    if (code == MPI_SUCCESS) {
        if (!link->some_left) link->first = link->heard;
        link->some_left = link->left[status.MPI_SOURCE] = true;
        code = mpi_link_listen(link);
    }
    if (code == MPI_SUCCESS) return 0;
    return mpi_link_fault(link, fault, -1, code, "listening to the other ranks failed");
}

/*
 * One after the other: testing one makes progress with all, and the first that is not done says enough. Not
 * by MPI_Testsome(), whose failures would go to the handler of MPI_COMM_WORLD, which is not ours.
 *
 * What a rank sent before it left still lands: only who waits for it behind its farewell waits in vain.
 */
int mpi_link_poll(void *to, int flight, bool *landed, lki_fault *fault)
{
    mpi_link *link = to;
    mpi_flight *f = &link->flight[flight];
    *landed = false;
    for (int done = 0; f->landed < f->count; f->landed++) {
        if (exchange_test(link, f, f->landed, &done, fault) != 0) return -1;
        if (done) continue;
        const int peer = f->peer[f->landed];
        if (!link->some_left || (peer >= 0 && !link->left[peer]))
            return exchange_listen(link, fault);
        mpi_link_fault(link, fault, peer, MPI_SUCCESS, "%s", link->first.text);
        fault->code = link->first.code;
        return -1;
    }
    *landed = true;
    return 0;
}

int mpi_link_missing(void *to, int flight)
{
    const mpi_link *link = to;
    const mpi_flight *f = &link->flight[flight];
    return f->landed < f->count ? f->peer[f->landed] : -1;
}

bool mpi_link_stop(mpi_link *link)
{
    enum { TRIES = 16 }; /* a cancelled request is done when it has been tested once or twice */
    bool stopped = true;
    for (int flight = 0; flight < LKI_MAX_FLIGHTS; flight++) {
        mpi_flight *f = &link->flight[flight];
        for (int i = f->landed; i < f->count; i++) {
            int done = 0;
            if (f->expected[i] >= 0 && f->request[i] != MPI_REQUEST_NULL)
                MPI_Cancel(&f->request[i]);
            for (int k = 0; k < TRIES && !done; k++)
                if (MPI_Test(&f->request[i], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
            if (!done) stopped = false;
        }
        f->landed = f->count;
    }
    return stopped;
}
