/* Sums that decide an update, of parts that ranks have. */
#include <string.h>

#include "model/model.h"

/* The sums of a rank's strips, between where the model has them and one array that travels. */
static void copy_sums(const lks_model *model, int rank, bool rows, double *array, bool out)
{
    const lki_spread *spread = model->across->spread;
    for (int s = spread->strip_of[rank]; s < spread->strip_of[rank + 1]; s++) {
        const lki_strip *strip = &spread->strip[s];
        const lki_weight *weight = &model->weight[strip->weight];
        const int64_t size = rows ? weight->count / lki_adamp_rows(weight) : LKI_UPDATE_BLOCK;
        const int64_t first = (rows ? weight->row : weight->block) + strip->first / size;
        const int64_t count = (strip->count + size - 1) / size;
        for (int i = 0; i < (rows ? LKI_ROW_SUMS : 1); i++, array += count) {
            double *sums = (rows ? model->row_sum[i] : model->square) + first;
            memcpy(out ? array : sums, out ? sums : array, (size_t)count * sizeof *sums);
        }
    }
}

static lks_status gather_sums(lks_model *model, bool rows)
{
    lki_across *across = model->across;
    const lki_spread *spread = across->spread;
    const size_t bytes = (size_t)spread->told * sizeof(double);
    copy_sums(model, across->rank, rows, spread->own, true);
    const lks_status status = lki_comm_gather(across->comm, spread->own, bytes, spread->all,
                                              "sums of squares");
    for (int r = 0; r < across->ranks && status == LKS_OK; r++)
        copy_sums(model, r, rows, spread->all + r * spread->told, false);
    across->sums.bytes += (across->ranks - 1) * (int64_t)bytes;
    return status;
}

bool lki_spread_sums(lks_model *model, int worker, bool rows)
{
    if (!lki_spreads(model)) return lki_model_meet(model, worker);
    lki_workers_barrier(model->threads, worker);
    return lki_across_led(model, worker, worker == 0 ? gather_sums(model, rows) : LKS_OK);
}
