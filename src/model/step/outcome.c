/* What a step came to on all ranks: the same status and sentence on each. */
#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "model/model.h"

lks_status lki_across_stay(lks_model *model, lks_status status)
{
    lki_across *across = model->across;
    const lks_error error = *lks_last_error();
    across->status = lki_meet_stay(model);
    if (across->status == LKS_OK) across->status = lki_across_speak(model, status);
    if (across->status != LKS_OK)
        across->error = *lks_last_error();
    else
        lki_error_restore(&error);
    return status;
}

lks_status lki_across_outcome(lks_model *model, lks_status status)
{
    lki_across *across = model->across;
    if (across->status != LKS_OK) {
        lki_error_restore(&across->error);
        return across->status;
    }
    if (across->well) return LKS_OK;
    if (model->opts.exchange == LKS_EXCHANGE_NONE) return status;
    for (int r = 0; r < across->ranks; r++)
        if (across->word[r].status != LKS_OK) return lks_comm_agree(across->comm, status);
    return LKS_OK; /* losses are not finite: what that means is the caller's */
}

lks_status lki_across_diagnose(lks_model *model, const lks_batch *batch)
{
    lki_across *across = model->across;
    char message[sizeof((lks_error *)NULL)->message] = "";
    void *array = message;
    const size_t bytes = sizeof message;
    int rank = 0;
    if (model->opts.exchange == LKS_EXCHANGE_NONE)
        return lki_diagnose(model, batch, across->word[across->rank].bad_position, NULL);
    while (across->word[rank].bad_count == 0) rank++;
    if (rank == across->rank || lki_meets_others(model)) {
        int place = INT_MAX;
        if (across->word[across->rank].bad_count > 0) {
            (void)!lki_diagnose(model, batch, across->word[across->rank].bad_position, &place);
            memcpy(message, lks_last_error()->message, sizeof message);
        }
        if (lki_meets_others(model)) LKI_TRY(lki_meet_first(model, place, &rank));
    }
    LKI_TRY(lks_comm_broadcast(across->comm, rank, &array, &bytes, 1));
    return LKI_FAIL(LKS_E_NUMERIC, "%s", message);
}
