/* What rank 0 has read reaches the others. */
#include "train/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "train/run.h"

static bool alone(const lks_model *model)
{
    return lks_comm_size(lks_model_comm(model)) == 1;
}

lks_status lki_check_together(const lks_model *model)
{
    const int64_t steps = lks_model_alone(model);
    if (steps == 0) return LKS_OK;
    return LKI_FAIL(LKS_E_STATE,
                    "%lld step%s ago the processes had one model, and each has its own now "
                    "(average_every); call lks_model_average() before saving",
                    (long long)steps, LKI_S(steps));
}

static lks_status spread(const lks_model *model, void *data, size_t bytes)
{
    return lks_comm_broadcast(lks_model_comm(model), 0, &data, &bytes, 1);
}

lks_status lki_spread_entry(lks_model *model, int index, void *values, size_t bytes)
{
    if (!alone(model)) LKI_TRY(spread(model, values, bytes));
    return lks_model_state_write(model, index, values, bytes);
}

/* As text, the way it stands in a checkpoint. */
static lks_status print_run(const lks_run *run, char **text)
{
    const lki_identity none = {0};
    return lki_run_print(run, "", &none, text);
}

lks_status lki_spread_run(const lks_model *model, lks_run *run)
{
    const bool leads = lki_leads(model);
    char *text = NULL;
    lki_identity none;
    if (alone(model)) return LKS_OK;
    LKI_TRY(lki_agree(model, leads ? print_run(run, &text) : LKS_OK));
    int64_t bytes = leads ? (int64_t)strlen(text) : 0;
    lks_status status = spread(model, &bytes, sizeof bytes);
    if (status == LKS_OK && !leads) text = malloc((size_t)bytes);
    if (status == LKS_OK)
        status = lki_agree(model, text != NULL
                                      ? LKS_OK
                                      : LKI_FAIL(LKS_E_NOMEM, "no memory for the record of "
                                                              "a run"));
    if (status == LKS_OK) status = spread(model, text, (size_t)bytes);
    if (status == LKS_OK && !leads)
        status = lki_run_parse("the run of rank 0", text, (size_t)bytes, run, &none);
    free(text);
    return lki_agree(model, status);
}
