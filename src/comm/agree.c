/* Phases that end in the same way on all ranks, and what has to be the same on them. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/memory.h"
#include "numeric/hash.h"

#include <stdio.h>
#include <string.h>

/* Who has failed first keeps its sentence, and the others get it, with its rank before it; rank 0, which
 * talks to people, is told of without. */
static lks_status pass_on(lks_comm *comm, int first, lks_status status, const lks_error *mine)
{
    enum { SIZE = sizeof mine->message };
    char who[LKI_WHO_SIZE];
    void *scratch = NULL;
    LKI_TRY(lki_comm_scratch(comm, lki_times((size_t)comm->size, SIZE), &scratch));
    LKI_TRY(lki_comm_gather(comm, mine->message, SIZE, scratch, "the sentence of a failure"));
    if (first == comm->rank) {
        lki_error_restore(mine);
        return status;
    }
    const char *sentence = (const char *)scratch + (size_t)first * SIZE;
    if (first == 0) return LKI_FAIL(status, "%s", sentence);
    return LKI_FAIL(status, "%s: %s", lki_comm_who(comm, first, who), sentence);
}

lks_status lks_comm_agree(lks_comm *comm, lks_status mine)
{
    LKI_COMM_ENTER(comm);
    const int32_t own = (int32_t)mine;
    void *all = NULL;
    if (lki_comm_alone(comm)) return mine;
    lks_error error = *lks_last_error(); /* which stays as it is where all are well */
    if (error.status != mine) {
        error = (lks_error){.status = mine, .file = ""};
        snprintf(error.message, sizeof error.message, "%s", lks_status_text(mine));
    }
    LKI_TRY(lki_comm_scratch(comm, (size_t)comm->size * sizeof own, &all));
    const int32_t *statuses = all;
    LKI_TRY(lki_comm_gather(comm, &own, sizeof own, all, "agreement"));
    for (int r = 0; r < comm->size; r++)
        if (statuses[r] != LKS_OK) return pass_on(comm, r, (lks_status)statuses[r], &error);
    return LKS_OK;
}

/* The first line of each text in which they differ. */
static void first_difference(const char **a, const char **b)
{
    for (;;) {
        const size_t length = strcspn(*a, "\n"), other = strcspn(*b, "\n");
        if (length != other || memcmp(*a, *b, length) != 0) return;
        if ((*a)[length] == '\0' || (*b)[length] == '\0') { /* one has a line more */
            *a += length + ((*a)[length] != '\0');
            *b += length + ((*b)[length] != '\0');
            return;
        }
        *a += length + 1;
        *b += length + 1;
    }
}

/* As much of a line as fits into a sentence beside another. */
static int shown(const char *line)
{
    const size_t length = strcspn(line, "\n");
    return length < 100 ? (int)length : 100;
}

/* All ranks see all texts, up to their zero, to name the line. */
static lks_status name_difference(lks_comm *comm, const char *what, const char *text, int rank,
                                  size_t most)
{
    char who[LKI_WHO_SIZE], first[LKI_WHO_SIZE];
    const size_t size = (size_t)comm->size;
    void *scratch = NULL;
    LKI_TRY(lki_comm_scratch(comm, lki_times(size + 1, most), &scratch));
    char *all = scratch, *mine = all + size * most;
    snprintf(mine, most, "%s", text);
    LKI_TRY(lki_comm_gather(comm, mine, most, all, "texts that differ"));
    const char *theirs = all + (size_t)rank * most, *its = all;
    first_difference(&theirs, &its);
    return LKI_FAIL(LKS_E_MISMATCH, "%.60s: %s has '%.*s', %s has '%.*s'", what,
                    lki_comm_who(comm, rank, who), shown(theirs), theirs,
                    lki_comm_who(comm, 0, first), shown(its), its);
}

lks_status lks_comm_same(lks_comm *comm, const char *what, const char *text)
{
    LKI_COMM_ENTER(comm);
    if (what == NULL) return LKI_COMM_REFUSE_NULL(comm, what);
    if (text == NULL) return LKI_COMM_REFUSE_NULL(comm, text);
    if (lki_comm_alone(comm)) return LKS_OK;
    const uint64_t mine[2] = {lki_hash(text, strlen(text)), strlen(text)};
    void *all = NULL;
    LKI_TRY(lki_comm_scratch(comm, (size_t)comm->size * sizeof mine, &all));
    LKI_TRY(lki_comm_gather(comm, mine, sizeof mine, all, "what has to be the same"));
    const uint64_t(*texts)[2] = all;
    int other = 0;
    uint64_t most = 0;
    for (int r = 0; r < comm->size; r++) {
        if (texts[r][1] > most) most = texts[r][1];
        if (other == 0 && memcmp(texts[r], texts[0], sizeof mine) != 0) other = r;
    }
    return other == 0 ? LKS_OK : name_difference(comm, what, text, other, (size_t)most + 1);
}
