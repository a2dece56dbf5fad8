/* Memory that the ranks of a host have in common, by MPI-3's shared windows. */
#include "comm/mpi/mpi_link.h"

#include <sys/statvfs.h>

enum { SHARE_ALIGN = 64 }; /* as of all memory of the library */

static int share_host(mpi_link *link, lki_fault *fault)
{
    if (link->host != MPI_COMM_NULL) return 0;
    const int code = MPI_Comm_split_type(link->comm, MPI_COMM_TYPE_SHARED, link->rank,
                                         MPI_INFO_NULL, &link->host);
    if (code != MPI_SUCCESS)
        return mpi_link_fault(link, fault, -1, code, "the ranks of one host cannot be found");
    MPI_Comm_set_errhandler(link->host, MPI_ERRORS_RETURN);
    return 0;
}

/* Memory is mapped in whole pages, so that this is the same place for all who map it. */
static void *share_align(void *place)
{
    return (char *)place + (-(uintptr_t)place & (SHARE_ALIGN - 1));
}

/* Where each rank of this host has its part; NULL for the ranks of others. */
static int share_places(const mpi_link *link, MPI_Win window, void **base)
{
    MPI_Group here = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    int count = 0, code = MPI_Comm_size(link->host, &count);
    for (int rank = 0; rank < link->size; rank++) base[rank] = NULL;
    if (code == MPI_SUCCESS) code = MPI_Comm_group(link->host, &here);
    if (code == MPI_SUCCESS) code = MPI_Comm_group(link->comm, &all);
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) {
        int rank = 0, unit;
        MPI_Aint bytes;
        void *place = NULL;
        code = MPI_Group_translate_ranks(here, 1, &i, all, &rank);
        if (code == MPI_SUCCESS) code = MPI_Win_shared_query(window, i, &bytes, &unit, &place);
        if (code == MPI_SUCCESS) base[rank] = share_align(place);
    }
    if (here != MPI_GROUP_NULL) MPI_Group_free(&here);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    return code;
}

/* Each part on pages of its own, so that they are near to the rank that writes them first. */
static int share_allocate(const mpi_link *link, size_t bytes, MPI_Win *window)
{
    MPI_Info info;
    void *mine;
    int code = MPI_Info_create(&info);
    if (code != MPI_SUCCESS) return code;
    code = MPI_Info_set(info, "alloc_shared_noncontig", "true");
    if (code == MPI_SUCCESS)
        code = MPI_Win_allocate_shared((MPI_Aint)(bytes + SHARE_ALIGN), 1, info, link->host, &mine,
                                       window);
    MPI_Info_free(&info);
    return code;
}

static mpi_window *share_find(mpi_link *link, const void *mine)
{
    for (int i = 0; i < MPI_LINK_WINDOWS; i++)
        if (link->window[i].mine == mine) return &link->window[i];
    return NULL;
}

/* An MPI may promise memory that its file system does not have; who touches it then is killed. */
static bool share_has_room(size_t bytes)
{
    struct statvfs room;
    if (statvfs("/dev/shm", &room) != 0) return true;
    return bytes / room.f_bsize < room.f_bavail;
}

/* What all ranks of the host together ask for, and whether any of them has failed so far. */
static int share_agree(const mpi_link *link, size_t *bytes, bool *well)
{
    double sum[2] = {(double)*bytes, *well ? 0 : 1};
    const int code = MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_DOUBLE, MPI_SUM, link->host);
    *bytes = sum[0] < (double)(SIZE_MAX / 2) ? (size_t)sum[0] : SIZE_MAX / 2;
    *well = sum[1] == 0;
    return code;
}

int mpi_link_share(void *to, size_t bytes, void **base, lki_fault *fault)
{
    mpi_link *link = to;
    MPI_Win window = MPI_WIN_NULL;
    size_t all = bytes;
    mpi_window *place = share_find(link, NULL);
    if (share_host(link, fault) != 0) return -1;
    bool well = place != NULL, promised = true;
    int agreed = share_agree(link, &all, &well);
    well = well && share_has_room(all);
    if (agreed == MPI_SUCCESS) agreed = share_agree(link, &all, &well);
    if (agreed == MPI_SUCCESS && well) {
        int code = share_allocate(link, bytes, &window);
        if (code == MPI_SUCCESS) code = share_places(link, window, base);
        /* Open for loads and stores until it is freed; what orders them is the messages between ranks. */
        if (code == MPI_SUCCESS) code = MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
        promised = code == MPI_SUCCESS;
        agreed = share_agree(link, &all, &promised);
    }
    if (agreed != MPI_SUCCESS)
        return mpi_link_fault(link, fault, -1, agreed, "the ranks of one host cannot agree");
    if (well && promised)
        *place = (mpi_window){.window = window, .mine = base[link->rank]};
    else /* what an MPI has given to some of them only, stays until the end */
        for (int rank = 0; rank < link->size; rank++) base[rank] = NULL;
    return 0;
}

void mpi_link_unshare(void *to, void *own)
{
    mpi_link *link = to;
    mpi_window *place = own != NULL ? share_find(link, own) : NULL;
    if (place == NULL) return;
    place->mine = NULL;
    if (link->broken) return; /* the others may not come to free it */
    MPI_Win_unlock_all(place->window);
    MPI_Win_free(&place->window);
}
