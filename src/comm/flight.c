/* Flights: their numbers, waiting with a time-out, and how a communicator breaks. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "machine/thread.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A sentence about a rank: "gradients of step 12: ". Returns its length. */
static size_t introduce(const lks_comm *comm, const char *what, char *out, size_t size)
{
    const long long step = atomic_load_explicit(&comm->spot.step, memory_order_relaxed);
    const int length = step > 0 ? snprintf(out, size, "%s of step %lld: ", what, step)
                                : snprintf(out, size, "%s: ", what);
    return length < (int)size ? (size_t)length : size - 1;
}

void lki_comm_step(lks_comm *comm, int64_t step)
{
    atomic_store_explicit(&comm->spot.step, step, memory_order_relaxed);
}

lks_status lki_comm_failure(const lks_comm *comm)
{
    if (comm->failure.status != LKS_OK) lki_error_restore(&comm->failure);
    return comm->failure.status;
}

int lks_comm_lost(const lks_comm *comm)
{
    const lki_loss *loss = comm != NULL ? lki_watch_loss(comm->watch) : NULL;
    return loss != NULL ? loss->rank : -1;
}

/* Those whom this rank would still have met are told why it does not come. */
static void leave_meetings(const lks_comm *comm, const lki_fault *fault)
{
    for (lki_assembly *meeting = comm->meetings; meeting != NULL; meeting = meeting->next) {
        lki_seat *own = &meeting->seat[comm->rank];
        own->words = *fault;
        atomic_store_explicit(&own->left, 1, memory_order_release);
        lki_bell_ring(&meeting->seat[0].bell);
    }
}

lks_status lki_comm_break(lks_comm *comm, lks_status status)
{
    LKI_TRY(lki_comm_failure(comm));
    comm->failure = *lks_last_error();
    comm->failure.status = status;
    memset(comm->flights, 0, sizeof comm->flights);
    const bool all_hear = comm->size > 1 && status != LKS_E_TIMEOUT && lks_comm_lost(comm) < 0;
    lki_fault fault = {.rank = all_hear ? comm->rank : -1, .code = (int)status};
    snprintf(fault.text, sizeof fault.text, "%.*s", (int)sizeof fault.text - 1,
             comm->failure.message);
    leave_meetings(comm, &fault);
    if (comm->size > 1 && comm->transport->give_up != NULL)
        comm->transport->give_up(comm->link, &fault);
    return status;
}

double lks_comm_waited(const lks_comm *comm)
{
    return comm != NULL ? comm->waited : 0;
}

bool lki_comm_alone(const lks_comm *comm)
{
    return comm == NULL || comm->size == 1;
}

lks_status lki_comm_enter(const lks_comm *comm, const char *function)
{
    if (comm == NULL) return LKS_OK;
    LKI_TRY(lki_comm_failure(comm));
    if (comm->forks != lki_forks()) {
        return LKI_FAIL(LKS_E_STATE,
                        "%s() came behind a fork; the other ranks know the parent only", function);
    }
    return LKS_OK;
}

lks_status lki_comm_refuse(lks_comm *comm, lks_status status)
{
    char who[LKI_WHO_SIZE];
    if (lki_comm_alone(comm)) return status;
    return lki_comm_break(comm, LKI_FAIL(status, "%s: %s", lki_comm_who(comm, comm->rank, who),
                                         lks_last_error()->message));
}

lks_status lki_comm_scratch(lks_comm *comm, size_t bytes, void **out)
{
    if (comm->scratch_bytes < bytes) {
        lki_free(NULL, comm->scratch, comm->scratch_bytes);
        comm->scratch = NULL, comm->scratch_bytes = 0;
        const lks_status status = lki_alloc(NULL, &comm->scratch, bytes, "messages between ranks");
        if (status != LKS_OK) return lki_comm_refuse(comm, status);
        comm->scratch_bytes = bytes;
    }
    *out = comm->scratch;
    return LKS_OK;
}

lks_status lki_comm_lost(lks_comm *comm)
{
    char sentence[LKI_LOST_SIZE];
    const lki_loss *loss = lki_watch_loss(comm->watch);
    if (loss == NULL) return LKS_OK;
    lki_watch_said(comm->watch);
    lki_comm_loss(comm, loss, sentence);
    return lki_comm_break(comm, LKI_FAIL(LKS_E_COMM, "%s", sentence));
}

/* A transport's fault as a status: another rank's sentence is passed on as it is. */
lks_status lki_comm_faulty(lks_comm *comm, const lki_fault *fault, const char *what)
{
    char intro[256], who[LKI_WHO_SIZE];
    /* Where a process has ended, the watch knows more, and knows it by now or soon. */
    if (fault->code == 0 || fault->code == (int)LKS_E_COMM) {
        (void)lki_watch_ask(comm->watch, 0.2);
        LKI_TRY(lki_comm_lost(comm));
    }
    if (fault->code != 0) {
        return lki_comm_break(comm, LKI_FAIL((lks_status)fault->code, "%s", fault->text));
    }
    intro[introduce(comm, what, intro, sizeof intro)] = '\0';
    const int rank = fault->rank >= 0 && fault->rank < comm->size ? fault->rank : comm->rank;
    return lki_comm_break(
        comm, LKI_FAIL(LKS_E_COMM, "%s%s %s", intro, lki_comm_who(comm, rank, who), fault->text));
}

/*
 * Numbers go round, so that all ranks take the same one whatever has landed where; it must be free here
 * as well. What is waited for at once has the last number to itself: others may be under way meanwhile.
 */
enum { AT_ONCE = LKI_MAX_FLIGHTS - 1 };

static lks_status take_number(lks_comm *comm, int *flight, const char *what, bool at_once)
{
    LKI_TRY(lki_comm_failure(comm));
    LKI_TRY(lki_comm_lost(comm));
    const int next = at_once ? AT_ONCE : (int)(comm->started % AT_ONCE);
    if (comm->flights[next].state != LKI_FLIGHT_FREE) {
        return lki_comm_break(comm, LKI_FAIL(LKS_E_BUG,
                                             "%s: '%s', %d exchanges ago, was never waited for",
                                             what, comm->flights[next].what, AT_ONCE));
    }
    comm->flights[next] = (lki_flight){
        .state = LKI_FLIGHT_UP, .what = what, .number = comm->started};
    comm->started += !at_once;
    *flight = next;
    return LKS_OK;
}

lks_status lki_flight_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                            const lki_piece *receive, int receives, const char *what)
{
    lki_fault fault = {.rank = -1};
    LKI_TRY(take_number(comm, flight, what, false));
    if (comm->transport->start(comm->link, *flight, send, sends, receive, receives, &fault) != 0) {
        return lki_comm_faulty(comm, &fault, what);
    }
    return LKS_OK;
}

lks_status lki_flight_all_reduce(lks_comm *comm, int *flight, float *values, size_t count,
                                 const char *what)
{
    lki_fault fault = {.rank = -1};
    LKI_TRY(take_number(comm, flight, what, false));
    if (comm->transport->all_reduce(comm->link, *flight, values, count, &fault) != 0) {
        return lki_comm_faulty(comm, &fault, what);
    }
    return LKS_OK;
}

lks_status lki_comm_poll(lks_comm *comm, int flight, bool *landed)
{
    *landed = comm->size == 1;
    if (comm->size == 1) return LKS_OK;
    LKI_TRY(lki_comm_failure(comm));
    *landed = comm->flights[flight].state == LKI_FLIGHT_LANDED;
    if (*landed) return LKS_OK;
    LKI_TRY(lki_comm_lost(comm));
    lki_fault fault = {.rank = -1};
    if (comm->transport->poll(comm->link, flight, landed, &fault) != 0) {
        *landed = false;
        return lki_comm_faulty(comm, &fault, comm->flights[flight].what);
    }
    if (*landed) comm->flights[flight].state = LKI_FLIGHT_LANDED;
    return LKS_OK;
}

lks_status lki_comm_late(lks_comm *comm, const char *what, int missing)
{
    char intro[256], who[LKI_WHO_SIZE];
    intro[introduce(comm, what, intro, sizeof intro)] = '\0';
    if (missing >= 0) lki_comm_who(comm, missing, who);
    return lki_comm_break(
        comm, LKI_FAIL(LKS_E_TIMEOUT,
                       "%s%s has not come within %g s; see what it does there, or allow more time",
                       intro, missing >= 0 ? who : "another rank", comm->timeout_s));
}

/*
 * Between polls: at first nothing, as the other rank may be about to come; then others may run on
 * this core; in the end sleep, as whoever is that late will not mind. Seconds since the wait began.
 */
static void rest(double waited)
{
    if (waited > 2e-3) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    } else if (waited > 20e-6) {
        sched_yield();
    }
}

/* A process that was stopped for an hour has not waited for an hour, and what it waits for may be there:
 * what lies between two looks counts as a tenth of the allowed time at most. */
bool lki_comm_patient(const lks_comm *comm, lki_patience *patience)
{
    const double now = lki_seconds(), most = comm->timeout_s / 10;
    const double since = patience->last < 0 ? 0 : now - patience->last;
    patience->waited += since < most ? since : most;
    patience->last = now;
    return patience->waited <= comm->timeout_s;
}

lks_status lki_comm_wait(lks_comm *comm, int flight)
{
    bool landed = false;
    lki_patience patience = {.last = -1};
    atomic_store_explicit(&comm->spot.phase, comm->flights[flight].what, memory_order_relaxed);
    for (;;) {
        LKI_TRY(lki_comm_poll(comm, flight, &landed));
        if (landed) break;
        if (!lki_comm_patient(comm, &patience))
            return lki_comm_late(comm, comm->flights[flight].what,
                                 comm->transport->missing(comm->link, flight));
        rest(patience.waited);
    }
    if (patience.last >= 0) comm->waited += patience.waited + lki_seconds() - patience.last;
    lki_tally_received(comm, &comm->flights[flight]);
    comm->flights[flight].state = LKI_FLIGHT_FREE;
    atomic_store_explicit(&comm->spot.phase, NULL, memory_order_relaxed);
    return LKS_OK;
}

lks_status lki_flight_gather(lks_comm *comm, const void *mine, size_t bytes, void *all,
                             const char *what)
{
    int flight = 0;
    lki_fault fault = {.rank = -1};
    LKI_TRY(take_number(comm, &flight, what, true));
    if (comm->transport->gather(comm->link, flight, mine, bytes, all, &fault) != 0) {
        return lki_comm_faulty(comm, &fault, what);
    }
    LKI_TRY(lki_comm_wait(comm, flight));
    lki_tally_gather(comm, mine, bytes, all);
    return LKS_OK;
}
