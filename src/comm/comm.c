/* Communicators: which transport, who is there, and their end. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "comm/launcher.h"
#include "machine/machine.h"
#include "machine/thread.h"
#include "numeric/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LKI_WAY_POINTER(id) &lki_##id##_way,
static const lki_way *const ways[] = {LKI_WAY_LIST(LKI_WAY_POINTER)};
enum { WAYS = sizeof ways / sizeof *ways };

/* Two machines may have one name, and namespaces of one machine several: cores and memory belong to
 * the kernel that has booted once, files and addresses to the name. */
static uint64_t machine_of(const char *host)
{
    char text[LKI_HOST_SIZE + 64] = "";
    snprintf(text, LKI_HOST_SIZE, "%s", host);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    const size_t count = file != NULL ? fread(text + LKI_HOST_SIZE, 1, 36, file) : 0;
    if (file != NULL) fclose(file);
    return lki_hash(text, LKI_HOST_SIZE + count);
}

static void introduce_myself(lki_peer *mine, bool verify)
{
    snprintf(mine->version, sizeof mine->version, "%s", lks_version());
    if (gethostname(mine->host, sizeof mine->host - 1) != 0) strcpy(mine->host, "?");
    mine->machine = machine_of(mine->host);
    mine->verify = verify;
    mine->pid = (int64_t)getpid();
    enum { MOST = 1024 };
    lki_cpu cpus[MOST];
    const int found = lki_allowed_cpus(cpus, MOST);
    mine->cpus = lki_cpus_mark(cpus, found < MOST ? found : MOST);
    mine->cpu_count = found;
}

static lks_status meet(lks_comm *comm)
{
    lki_peer mine = {.pid = 0}, *peers = NULL;
    introduce_myself(&mine, comm->verify);
    const size_t bytes = (size_t)comm->size * sizeof *peers;
    lks_status status = lki_alloc(NULL, (void **)&peers, bytes, "who the ranks are");
    if (status != LKS_OK) return lki_comm_refuse(comm, status);
    comm->verify = false; /* until it is known who wants it */
    status = lki_comm_gather(comm, &mine, sizeof mine, peers, "joining");
    if (status != LKS_OK) {
        lki_free(NULL, peers, bytes);
        return status;
    }
    comm->peers = peers;
    for (int r = 0; r < comm->size; r++) {
        char who[LKI_WHO_SIZE], first[LKI_WHO_SIZE];
        if (strcmp(peers[r].version, peers[0].version) != 0) {
            return LKI_FAIL(LKS_E_MISMATCH,
                            "%s runs Lockstep %s, %s runs %s; all ranks need the same build",
                            lki_comm_who(comm, r, who), peers[r].version,
                            lki_comm_who(comm, 0, first), peers[0].version);
        }
        comm->verify = comm->verify || peers[r].verify;
        if (peers[r].machine != mine.machine) continue;
        comm->local_size++;
        comm->sharing += peers[r].cpus == mine.cpus;
        comm->local_rank += r < comm->rank;
    }
    return LKS_OK;
}

/* All ranks come, whoever wants to be watched. */
static lks_status join_watch(lks_comm *comm)
{
    if (comm->size == 1) return LKS_OK;
    const lki_launcher launcher = lki_launcher_find();
    const lki_watch_opts opts = {.rank = comm->rank,
                                 .size = comm->size,
                                 .period_s = comm->watch_s,
                                 .near = comm->local_size == comm->size,
                                 .child = lki_launcher_several(&launcher),
                                 .spot = &comm->spot,
                                 .tell = lki_comm_tell,
                                 .user = comm};
    lki_door door, *doors = NULL;
    lks_status status = lki_watch_open(&comm->watch, &door, &opts);
    if (status != LKS_OK) return lki_comm_refuse(comm, status);
    LKI_TRY(lki_comm_scratch(comm, (size_t)comm->size * sizeof door, (void **)&doors));
    LKI_TRY(lki_flight_gather(comm, &door, sizeof door, doors, "joining the watch"));
    if (comm->rank == 0) return LKS_OK;
    status = lki_watch_join(&comm->watch, &doors[0], &opts);
    return status == LKS_OK ? LKS_OK : lki_comm_refuse(comm, status);
}

lks_status lki_comm_open(lks_comm **out, const lki_transport *transport, const void *how,
                         const lks_comm_opts *opts)
{
    *out = NULL;
    if (transport->abi != LKI_TRANSPORT_ABI) {
        return LKI_FAIL(LKS_E_COMM,
                        "transport '%s' belongs to another build of Lockstep (contract %d, this is "
                        "%d); install both from one build",
                        transport->name, transport->abi, LKI_TRANSPORT_ABI);
    }
    lks_comm *comm = NULL;
    lki_fault fault = {.rank = -1};
    LKI_TRY(lki_alloc(NULL, (void **)&comm, sizeof *comm, "a communicator"));
    if (transport->open(&comm->link, how, &fault) != 0) {
        lki_free(NULL, comm, sizeof *comm);
        const lks_status why = fault.code != 0 ? (lks_status)fault.code : LKS_E_COMM;
        return LKI_FAIL(why, "transport '%s': %s", transport->name, fault.text);
    }
    comm->transport = transport;
    comm->rank = transport->rank(comm->link);
    comm->size = transport->size(comm->link);
    comm->forks = lki_forks();
    comm->timeout_s = opts != NULL && opts->timeout_s > 0 ? opts->timeout_s : 600;
    comm->verify = opts != NULL && opts->verify;
    comm->watch_s = opts != NULL && opts->watch_s != 0 ? opts->watch_s : 2;
    comm->on_lost = opts != NULL ? opts->on_lost : NULL;
    comm->user = opts != NULL ? opts->user : NULL;
    lks_status status = lki_alloc(NULL, (void **)&comm->tally,
                                  (size_t)comm->size * sizeof *comm->tally, "checksums");
    if (status != LKS_OK) lki_comm_refuse(comm, status);
    if (status == LKS_OK) status = meet(comm);
    if (status == LKS_OK) status = join_watch(comm);
    if (status != LKS_OK) {
        lks_comm_destroy(comm);
        return status;
    }
    *out = comm;
    return LKS_OK;
}

static lks_status choose(const lki_way **out, const char *name)
{
    char names[128] = "";
    for (int i = 0; i < WAYS; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", ways[i]->name);
        const bool meant = name != NULL ? strcmp(ways[i]->name, name) == 0
                                        : ways[i]->launched != NULL && ways[i]->launched();
        if (meant) *out = ways[i];
        if (meant) return LKS_OK;
    }
    *out = &lki_self_way;
    if (name == NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "there is no transport '%s', but these: %s", name, names);
}

/* What is given for one way to join the ranks is not left aside by another. */
static lks_status choose_for(const lki_way **out, const lks_comm_opts *opts)
{
    const char *name = opts->transport;
    if (name == NULL && opts->id != NULL) name = lki_socket_way.name;
    if (name == NULL && opts->mpi_comm != NULL) name = lki_mpi_way.name;
    LKI_TRY(choose(out, name));
    if (opts->id != NULL && *out != &lki_socket_way)
        return LKI_FAIL(LKS_E_INVALID, "an id was given to transport '%s'; it is for 'socket'",
                        (*out)->name);
    if (opts->mpi_comm != NULL && *out != &lki_mpi_way)
        return LKI_FAIL(LKS_E_INVALID,
                        "an MPI communicator was given to transport '%s'; it is for 'mpi'",
                        (*out)->name);
    if (opts->id == NULL && (opts->rank != 0 || opts->size != 0))
        return LKI_FAIL(LKS_E_INVALID,
                        "rank %d of %d is to be joined without an id; rank 0 makes it by "
                        "lks_comm_make_id(), and a launcher says rank and size itself",
                        opts->rank, opts->size);
    return LKS_OK;
}

lks_status lks_comm_create(lks_comm **out, const lks_comm_opts *opts)
{
    static const lks_comm_opts defaults = {.transport = NULL};
    const lki_transport *transport = NULL;
    const lki_way *way = NULL;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (opts == NULL) opts = &defaults;
    if (!(opts->timeout_s >= 0) || isinf(opts->timeout_s)) {
        return LKI_FAIL(LKS_E_INVALID, "timeout_s is %g, not a number of seconds", opts->timeout_s);
    }
    if (!isfinite(opts->watch_s)) {
        return LKI_FAIL(LKS_E_INVALID, "watch_s is %g, not a number of seconds", opts->watch_s);
    }
    LKI_TRY(choose_for(&way, opts));
    const void *how = opts->id != NULL ? (const void *)opts : opts->mpi_comm;
    LKI_TRY(way->find(&transport, how));
    return lki_comm_open(out, transport, how, opts);
}

void lks_comm_destroy(lks_comm *comm)
{
    if (comm == NULL) return;
    if (comm->forks == lki_forks()) comm->transport->close(comm->link);
    lki_watch_end(comm->watch,
                  comm->forks != lki_forks()); /* who is stuck in the line above needs it */
    lki_free(NULL, comm->scratch, comm->scratch_bytes);
    lki_free(NULL, comm->tally, (size_t)comm->size * sizeof *comm->tally);
    if (comm->peers != NULL) {
        lki_free(NULL, comm->peers, (size_t)comm->size * sizeof *comm->peers);
    }
    lki_free(NULL, comm, sizeof *comm);
}

void lks_comm_abort(lks_comm *comm, int code)
{
    if (lki_comm_alone(comm) || comm->forks != lki_forks()) return;
    comm->transport->abort(comm->link, code);
    if (comm->failure.status != LKS_OK) return;
    (void)LKI_FAIL(LKS_E_COMM, "rank %d has called lks_comm_abort()", comm->rank);
    comm->failure = *lks_last_error();
}

int lks_comm_rank(const lks_comm *comm)
{
    return comm != NULL ? comm->rank : 0;
}

int lks_comm_size(const lks_comm *comm)
{
    return comm != NULL ? comm->size : 1;
}

int lks_comm_local_rank(const lks_comm *comm)
{
    return comm != NULL ? comm->local_rank : 0;
}

int lki_comm_host(const lks_comm *comm, int rank)
{
    int first = 0;
    while (comm->peers != NULL && comm->peers[first].machine != comm->peers[rank].machine) first++;
    return first;
}

int lks_comm_local_size(const lks_comm *comm)
{
    return comm != NULL ? comm->local_size : 1;
}

/* Whoever started the ranks may have given each CPUs of its own, or all the same, or, as srun does where its
 * plugins bind nothing, said how many and given all of the machine; a quota is of them all. */
int lki_comm_cores(const lks_comm *comm)
{
    if (lki_comm_alone(comm)) return lks_cores();
    const int quota = lki_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    const int given = lki_launcher_cores();
    int cores = (int)comm->peers[comm->rank].cpu_count / comm->sharing;
    if (given > 0 && given < cores) cores = given;
    if (quota > 0 && quota / comm->local_size < cores) cores = quota / comm->local_size;
    return cores > 0 ? cores : 1;
}

const char *lks_comm_host(const lks_comm *comm, int rank)
{
    return comm != NULL && rank >= 0 && rank < comm->size ? comm->peers[rank].host : "";
}

const char *lks_comm_library(const lks_comm *comm)
{
    return comm != NULL && comm->transport->library != NULL ? comm->transport->library : "";
}
