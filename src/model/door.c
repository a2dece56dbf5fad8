/* Who may be inside a model now. A call that comes at the wrong time is refused, it does not wait:
 * waiting would hide that two threads use one model, and a step takes no lock. */
#include "base/check.h"
#include "base/float.h"
#include "model/model.h"

enum { ALONE = -1 };

static lks_status door_check(const lks_model *model, const char *call)
{
    if (model == NULL) return LKI_FAIL(LKS_E_INVALID, "%s() got NULL as model", call);
    if (model->forks == lki_forks()) return LKS_OK;
    return LKI_FAIL(LKS_E_STATE,
                    "%s(): the model was compiled before this process was forked, and its threads "
                    "are those of the parent; compile it in this process",
                    call);
}

lks_status lki_model_enter(lks_model *model, const char *call)
{
    LKI_TRY(door_check(model, call));
    int inside = 0;
    if (atomic_compare_exchange_strong_explicit(&model->inside, &inside, ALONE,
                                                memory_order_acquire, memory_order_relaxed)) {
        model->caller = lki_float_enter();
        return LKS_OK;
    }
    if (inside == ALONE)
        return LKI_FAIL(LKS_E_STATE,
                        "%s(): another thread is using the model, which takes one call at a time; "
                        "to predict from several threads, give each an lks_predictor",
                        call);
    return LKI_FAIL(LKS_E_STATE,
                    "%s(): %d other thread%s reading the model or predicting with it; wait until "
                    "%s returned",
                    call, inside, inside == 1 ? " is" : "s are",
                    inside == 1 ? "it has" : "they have");
}

lks_status lki_model_leave(lks_model *model, lks_status status)
{
    lki_float_leave(model->caller);
    atomic_store_explicit(&model->inside, 0, memory_order_release);
    return status;
}

lks_status lki_model_enter_shared(lks_model *model, const char *call)
{
    LKI_TRY(door_check(model, call));
    int inside = atomic_load_explicit(&model->inside, memory_order_relaxed);
    while (inside != ALONE)
        if (atomic_compare_exchange_weak_explicit(&model->inside, &inside, inside + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return LKS_OK;
    return LKI_FAIL(LKS_E_STATE,
                    "%s(): another thread is in a call that runs or changes the model; wait until "
                    "it has returned",
                    call);
}

lks_status lki_model_leave_shared(lks_model *model, lks_status status)
{
    atomic_fetch_sub_explicit(&model->inside, 1, memory_order_release);
    return status;
}
