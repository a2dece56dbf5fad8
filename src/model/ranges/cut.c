/* Other ranges for a model that has some: what follows from them is made beside what there is, which goes only
 * when all ranks have theirs. */
#include "base/check.h"
#include "model/model.h"

/* What follows from ranges, but for borders. */
typedef struct made {
    lki_arena arena;
    lki_reduce reduce;
    lki_meeting *meeting;
    lki_across across; /* and with it what does not */
} made;

static void exchange(lks_model *model, made *other)
{
    const made own = {.arena = model->ranges, .reduce = model->reduce, .meeting = model->meeting};
    model->ranges = other->arena;
    model->reduce = other->reduce;
    model->meeting = other->meeting;
    other->arena = own.arena;
    other->reduce = own.reduce;
    other->meeting = own.meeting;
    if (model->across == NULL) return;
    const lki_across across = *model->across;
    *model->across = other->across;
    other->across = across;
}

/* Nothing is made of it yet. */
static made nothing(const lks_model *model)
{
    made none = {.arena.context = model->context};
    if (model->across == NULL) return none;
    none.across = *model->across;
    none.across.sums = (lki_ranks){0};
    none.across.values = NULL;
    none.across.rows = NULL;
    none.across.stats = NULL;
    none.across.memory = NULL;
    none.across.memory_bytes = 0;
    none.across.base = NULL;
    return none;
}

static void set_borders(lks_model *model, const int64_t *count)
{
    const lki_balance *balance = model->balance;
    const lki_across *across = model->across;
    int64_t replica = 0;
    for (int w = 0, r = 0; w < balance->workers; w++) {
        for (; across != NULL && r < across->ranks && balance->border[w] >= across->start[r]; r++)
            across->start[r] = replica; /* its first worker is this one */
        balance->border[w] = replica;
        replica += count[w];
    }
}

static int64_t own_replicas(const lks_model *model)
{
    return lki_across_first(model, model->workers) - lki_across_first(model, 0);
}

/* What this rank makes alone. */
static lks_status make(lks_model *model, lki_kept *kept)
{
    LKI_TRY(lki_ranges_plan(model));
    LKI_TRY(lki_ranges_make(model));
    return model->across != NULL ? lki_program_keep(&model->program, own_replicas(model), kept)
                                 : LKS_OK;
}

static lks_status make_all(lks_model *model, lki_kept *kept)
{
    LKI_TRY(lki_across_agree(model->opts.comm, make(model, kept)));
    return lki_across_agree(model->opts.comm, lki_across_allocate(model));
}

static void back(lks_model *model, made *old, lki_kept *kept)
{
    const lks_error error = *lks_last_error();
    lki_ranges_release(model);
    lki_program_forget(&model->program, kept);
    exchange(model, old);
    set_borders(model, model->balance->count);
    for (int w = 0; w < model->workers; w++) {
        model->worker[w].first = lki_across_first(model, w);
        model->worker[w].last = lki_across_first(model, w + 1);
    }
    lki_error_restore(&error);
}

lks_status lki_ranges_cut(lks_model *model, const int64_t *count)
{
    lki_kept kept = {.memory = NULL};
    if (model->across != NULL) LKI_TRY(lki_ranks_reuse(&model->across->sums)); /* it lands there */
    if (model->across != NULL) LKI_TRY(lki_carried_gather_all(model));
    made old = nothing(model);
    exchange(model, &old);
    set_borders(model, count);
    const lks_status status = make_all(model, &kept);
    if (status != LKS_OK) {
        back(model, &old, &kept);
        return status;
    }
    exchange(model, &old);
    lki_ranges_release(model);
    exchange(model, &old);
    if (model->across == NULL) return LKS_OK;
    lki_program_exchange(&model->program, &kept);
    lki_program_forget(&model->program, &kept);
    for (int w = 0; w < model->workers; w++) model->worker[w].local.kept = model->program.kept;
    return LKS_OK;
}
