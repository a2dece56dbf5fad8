/* What the optimizer keeps, as entries of the state, of which each rank has some strips. */
#include <string.h>

#include "base/check.h"
#include "model/model.h"

/* The weight that an entry is of, and the rank's array that it has its part of. */
static int weight_of(const lks_model *model, int index, float **array)
{
    const void *memory = model->state[index].memory;
    *array = *model->state[index].memory;
    for (int w = 0; w < model->weights; w++)
        for (int i = 0; i < LKI_MAX_STATES; i++)
            if ((void **)&model->weight[w].state[i] == memory) return w;
    return -1;
}

lks_status lki_spread_read(const lks_model *model, int index, void *out, size_t bytes,
                           lks_status status)
{
    const lki_across *across = model->across;
    const lki_spread *spread = across->spread;
    int sends = 0, receives = 0, flight;
    float *array, *values = out;
    LKI_TRY(lks_comm_agree(across->comm, status));
    const int weight = weight_of(model, index, &array);
    memset(out, 0, bytes); /* of what nothing trains no rank has any */
    for (int s = 0, r = 0; s < spread->strip_of[across->ranks]; s++) {
        const lki_strip *strip = &spread->strip[s];
        while (s >= spread->strip_of[r + 1]) r++;
        if (strip->weight != weight) continue;
        const size_t size = (size_t)strip->count * sizeof *values;
        float *at = values + strip->first;
        if (r != across->rank) {
            spread->incoming[receives++] = (lki_piece){.rank = r, .data = at, .bytes = size};
            continue;
        }
        memcpy(at, array + strip->kept, size);
        for (int to = 0; to < across->ranks; to++)
            if (to != r)
                spread->outgoing[sends++] = (lki_piece){.rank = to, .data = at, .bytes = size};
    }
    LKI_TRY(lki_comm_start(across->comm, &flight, spread->outgoing, sends, spread->incoming,
                           receives, "the optimizer's state"));
    LKI_TRY(lki_comm_wait(across->comm, flight));
    /* Nobody else has what has come; and who has sent it tells whether it came so. */
    return lks_comm_agree(across->comm, lki_comm_check(across->comm));
}

void lki_spread_write(lks_model *model, int index, const void *in)
{
    const lki_spread *spread = model->across->spread;
    const float *values = in;
    float *array;
    const int weight = weight_of(model, index, &array), rank = model->across->rank;
    for (int s = spread->strip_of[rank]; s < spread->strip_of[rank + 1]; s++) {
        const lki_strip *strip = &spread->strip[s];
        if (strip->weight != weight) continue;
        memcpy(array + strip->kept, values + strip->first, (size_t)strip->count * sizeof *values);
    }
}
