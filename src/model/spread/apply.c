/* From sums of the own slices to new parameters. */
#include "model/update.h"

float *lki_spread_given(const lks_model *model, int b)
{
    const lki_across *across = model->across;
    if (!lki_spreads_now(model)) return NULL;
    return model->parameters + (across->array_of[b] == 0 ? 0 : model->gradient_count) +
           across->at[b];
}

/* Sums of a weight's float 0, and means once these are there. */
static float *sums_of(const lks_model *model, int weight)
{
    return lki_across_array(model, model->weight[weight].offset >= 0 ? 0 : 1, 0) +
           lki_spread_place(model, weight);
}

int lki_stretches(const lks_model *model)
{
    const lki_spread *spread = lki_spreads(model) ? model->across->spread : NULL;
    return spread == NULL
               ? model->weights
               : spread->strip_of[model->across->rank + 1] - spread->strip_of[model->across->rank];
}

lki_stretch lki_stretch_at(const lks_model *model, int number)
{
    if (!lki_spreads(model)) {
        lki_weight *weight = &model->weight[number];
        return (lki_stretch){.weight = weight,
                             .count = weight->trained ? weight->count : 0,
                             .mean = lki_update_gradient(model, weight)};
    }
    const lki_spread *spread = model->across->spread;
    const lki_strip *strip = &spread->strip[spread->strip_of[model->across->rank] + number];
    return (lki_stretch){.weight = &model->weight[strip->weight],
                         .first = strip->first,
                         .count = strip->count,
                         .mean = sums_of(model, strip->weight),
                         .kept = strip->kept - strip->first};
}

/* Floats [first, first + count) of a strip's weight. */
static void apply_sums(lks_model *model, const lki_strip *strip, int64_t first, int64_t count)
{
    lki_weight *weight = &model->weight[strip->weight];
    lki_update update = weight->rule->update;
    float *sums = sums_of(model, strip->weight) + first;
    if (model->forms_whole) {
        lki_update_mean(model, count, sums, sums);
        update.scale = 1;
    }
    if (lki_spread_later(model)) return;
    lki_update_values(model, weight, &update, first, strip->kept + first - strip->first, count,
                      sums);
}

void lki_spread_combined(lks_model *model, int worker, int b)
{
    const lki_across *across = model->across;
    const lki_spread *spread = across->spread;
    lki_laps *laps = model->worker[worker].local.laps;
    int64_t begin, count;
    lki_ranks_part(&across->sums, b, worker, model->workers, &begin, &count);
    begin += across->at[b] + spread->cut[b * (across->ranks + 1) + across->rank];
    for (int s = spread->own_of[b]; s < spread->own_of[b + 1]; s++) {
        const lki_strip *strip = &spread->strip[s];
        const int64_t place = lki_spread_place(model, strip->weight);
        const int64_t last = strip->first + strip->count, end = begin + count - place;
        const int64_t first = begin - place > strip->first ? begin - place : strip->first;
        const int64_t behind = end < last ? end : last;
        if (first >= behind) continue;
        apply_sums(model, strip, first, behind - first);
        lki_lap(laps, lki_lap_of(model->weight[strip->weight].stage, LKI_PHASE_UPDATE));
    }
}
