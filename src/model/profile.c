/* Profiles of steps: collecting workers' laps and saying what was computed in them. */
#include <lockstep/tools.h>

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "model/model.h"
#include "program/cost.h"

/* Of a model that is, or was, profiled. */
struct lki_profile {
    bool on;
    int64_t begin; /* of the step under way */
    int64_t steps, samples, links, sent, nanoseconds;
    size_t laps_bytes; /* of a worker: lki_laps and its sums */
    lki_laps *laps[];
};

static int lap_count(const lks_model *model)
{
    return lki_lap_of(model->program.stages, 0);
}

static size_t profile_bytes(const lks_model *model)
{
    return sizeof(lki_profile) + (size_t)model->workers * sizeof(lki_laps *);
}

/* Workers write at the same time: each has memory of its own. */
static lks_status make(lks_model *model)
{
    void *memory;
    LKI_TRY(lki_alloc(model->context, &memory, profile_bytes(model), "the profile"));
    lki_profile *profile = model->profile = memory;
    const size_t head = lki_align(sizeof(lki_laps));
    profile->laps_bytes = head + lki_align((size_t)lap_count(model) * sizeof(lki_lap_sum));
    for (int w = 0; w < model->workers; w++) {
        LKI_TRY(lki_alloc(model->context, &memory, profile->laps_bytes, "the profile"));
        profile->laps[w] = memory;
        profile->laps[w]->sum = (lki_lap_sum *)(void *)((char *)memory + head);
    }
    return LKS_OK;
}

void lki_profile_release(lks_model *model)
{
    lki_profile *profile = model->profile;
    if (profile == NULL) return;
    for (int w = 0; w < model->workers; w++)
        lki_free(model->context, profile->laps[w], profile->laps_bytes);
    lki_free(model->context, profile, profile_bytes(model));
    model->profile = NULL;
}

lks_status lks_profile_start(lks_model *model)
{
    LKI_TRY(lki_model_enter(model, __func__));
    lki_profile_release(model);
    const lks_status status = make(model);
    if (status != LKS_OK)
        lki_profile_release(model);
    else
        model->profile->on = true;
    return lki_model_leave(model, status);
}

void lks_profile_stop(lks_model *model)
{
    if (model != NULL && model->profile != NULL) model->profile->on = false;
}

void lki_profile_begin(lks_model *model)
{
    lki_profile *profile = model->profile;
    if (profile == NULL || !profile->on) return;
    profile->begin = lki_laps_clock();
    for (int w = 0; w < model->workers; w++) {
        profile->laps[w]->last = profile->begin;
        model->worker[w].local.laps = profile->laps[w];
    }
}

void lki_profile_end(lks_model *model, bool stepped)
{
    lki_profile *profile = model->profile;
    if (profile == NULL || !profile->on) return;
    const int64_t now = lki_laps_clock();
    for (int w = 0; w < model->workers; w++) {
        lki_lap_sum *end = &profile->laps[w]->sum[LKI_LAP_END];
        end->nanoseconds += now - profile->laps[w]->last;
        end->calls++;
        model->worker[w].local.laps = NULL;
    }
    profile->nanoseconds += now - profile->begin;
    if (!stepped) return;
    profile->steps++;
    profile->samples += lki_own_samples(model, &model->pass);
    profile->sent += model->across != NULL ? lki_ranks_sent(&model->across->sums) : 0;
    profile->links += model->link_after;
}

lks_profile lks_profile_total(const lks_model *model)
{
    const lki_profile *profile = model != NULL ? model->profile : NULL;
    if (profile == NULL) return (lks_profile){0};
    return (lks_profile){.steps = profile->steps,
                         .samples = profile->samples,
                         .seconds = 1e-9 * (double)profile->nanoseconds,
                         .rows = lap_count(model)};
}

/* The gradient is read, the parameter and each state read and written. */
static double update_bytes(const lks_model *model, const lki_stage *stage)
{
    int states = 0;
    bool trained = false;
    for (int p = 0; p < stage->cluster->param_count; p++)
        trained |= model->weight[stage->weight[p]].trained;
    if (!trained) return 0;
    for (int i = 0; i < LKI_MAX_STATES; i++)
        states += model->weight[stage->weight[0]].state[i] != NULL;
    return (3.0 + 2.0 * states) * lki_cost_parameter_bytes(stage->cluster);
}

static lki_cost stage_cost(const lks_model *model, const lki_stage *stage, lki_phase pass,
                           int64_t calls)
{
    const lki_profile *profile = model->profile;
    lki_cost cost = lki_cost_of(stage->plan, pass, profile->samples, calls);
    if (pass == LKI_PHASE_UPDATE) cost.bytes = update_bytes(model, stage);
    if (pass == LKI_PHASE_UPDATE || pass == LKI_PHASE_PREPARE) cost.bytes *= (double)profile->steps;
    return cost;
}

/* Bytes of what belongs to no stage. */
static double other_bytes(const lks_model *model, int id)
{
    const lki_profile *profile = model->profile;
    double state = 0;
    if (id == LKI_LAP_RANKS) return (double)profile->sent;
    if (id == LKI_LAP_TREE) /* each of V - 1 additions reads two arrays and writes one */
        return 3.0 * sizeof(float) * (double)model->gradient_count *
               (double)(model->program.replicas - 1) * (double)profile->steps;
    for (int i = 0; id == LKI_LAP_HASH && i < model->hashed_states; i++)
        state += (double)model->state[i].info.bytes;
    return state * (double)profile->links;
}

lks_profile_row lks_profile_get(const lks_model *model, int row)
{
    static const char *const names[LKI_LAP_STAGES] = {
        [LKI_LAP_START] = "start",
        [LKI_LAP_TREE] = "tree",
        [LKI_LAP_METRICS] = "metrics",
        [LKI_LAP_WAIT_GRADIENTS] = "wait gradients",
        [LKI_LAP_RANKS] = "wait processes",
        [LKI_LAP_WAIT_PARAMETERS] = "wait parameters",
        [LKI_LAP_HASH] = "hash",
        [LKI_LAP_END] = "end",
    };
    static const char *const passes[LKI_PHASES] = {"forward", "backward", "rows", "update",
                                                   "prepare"};
    const lki_profile *profile = model != NULL ? model->profile : NULL;
    lks_profile_row out = {.stage = -1};
    if (profile == NULL || row < 0 || row >= lap_count(model)) return out;
    int64_t nanoseconds = 0;
    for (int w = 0; w < model->workers; w++) {
        nanoseconds += profile->laps[w]->sum[row].nanoseconds;
        out.calls += profile->laps[w]->sum[row].calls;
    }
    out.seconds = 1e-9 * (double)nanoseconds / (double)model->workers;
    if (row < LKI_LAP_STAGES) {
        out.pass = names[row];
        out.bytes = other_bytes(model, row);
        return out;
    }
    const lki_phase pass = (lki_phase)((row - LKI_LAP_STAGES) % LKI_PHASES);
    out.stage = (row - LKI_LAP_STAGES) / LKI_PHASES;
    out.pass = passes[pass];
    if (out.calls == 0) return out;
    const lki_cost cost = stage_cost(model, &model->program.stage[out.stage], pass, out.calls);
    out.flops = cost.flops;
    out.bytes = cost.bytes;
    return out;
}

int lks_model_stages(const lks_model *model)
{
    return model != NULL ? model->program.stages : 0;
}

const lks_tensor *lks_model_stage_layer(const lks_model *model, int stage, int index)
{
    if (stage < 0 || stage >= lks_model_stages(model)) return NULL;
    const lki_cluster *cluster = model->program.stage[stage].cluster;
    return index >= 0 && index < cluster->count ? &cluster->node[index]->out : NULL;
}
