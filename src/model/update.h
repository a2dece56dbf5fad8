/* From sums of gradients to new parameters and buffers (update.c). */
#ifndef LKI_MODEL_UPDATE_H
#define LKI_MODEL_UPDATE_H

#include "model/model.h"

/* bands.c: what one of several parts does with parameters, piece by piece. */
typedef struct lki_tour {
    int64_t part, parts;
    /* Of weights whose sums over the batch come in one array, else of what this rank updates (lki_stretch). */
    bool in_array;
    bool by_rows; /* pieces are whole rows, as lki_adamp_rows() has them, else blocks, */
    bool renews; /* or bands of rows, if their values are new then and they can be packed at once */
    /* Elements [first, first + count) of the stretch's weight. */
    void (*visit)(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                  int64_t count, void *user);
    void *user;
} lki_tour;
/* The worker's part of all workers' who update parameters. */
static inline lki_tour lki_tour_own(const lks_model *model, int worker)
{
    return (lki_tour){.part = model->first_part + worker, .parts = model->parts};
}
void lki_tour_take(lks_model *model, int worker, const lki_tour *tour);
/* Sums gradients by replica, and updates parameters at once; or leaves the means, where the model forms them whole. */
void lki_update_gradients(lks_model *model, int worker, int64_t part, int64_t parts);

/* That of a piece of a parameter, as lki_tour.visit. */
void lki_update_sums(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                     int64_t count, void *user);
/* Of rows [first, first + count) of a stage, or of those that are there in such places, the worker's part of the sums of
 * this rank's nodes. */
void lki_update_rows(lks_model *model, int worker, int stage, int64_t first, int64_t count);
/* A value of the program that is kept for all replicas of this rank, or of all ranks that have parameters in common; NULL: one
 * that is not. */
static inline const float *lki_update_kept(const lks_model *model, int value)
{
    if (value == LKI_NO_VALUE) return NULL;
    const lki_value *v = &model->program.value[value];
    if (v->place == LKI_AT_BATCH_X)
        return model->common != NULL ? (const void *)model->common->x : model->pass.x;
    if (v->place != LKI_AT_KEPT) return NULL;
    return (const float *)(const void *)(model->common != NULL ? model->pass.all + v->all_offset
                                                               : model->program.kept + v->offset);
}
/* The rows and columns of `part`, whose other members are filled in. */
void lki_update_part(lks_model *model, int worker, int stage, lki_rows *part);
/* New values for elements [first, first + count) of a weight; the optimizer keeps what it does for them at `kept`. */
void lki_update_values(const lks_model *model, const lki_weight *weight, const lki_update *update,
                       int64_t first, int64_t kept, int64_t count, const float *sums);
/* Likewise, and their average, unless the optimizer is spread: then averages follow when all have all values. */
void lki_update_range(const lks_model *model, const lki_weight *weight, const lki_update *update,
                      int64_t first, int64_t kept, int64_t count, const float *sums);
void lki_update_averages(const lks_model *model, int worker);
/* The mean of sums, in their place if it is that; clipped where a step asks for it. */
void lki_update_mean(const lks_model *model, int64_t count, const float *sums, float *mean);
/* Whether the mean of a weight's gradient stays where its sum was formed, in arrays of replicas: in a step that forms whole
 * gradients in one process. Where it is, there or in memory of its own. */
bool lki_update_stays(const lks_model *model, const lki_weight *weight);
float *lki_update_gradient(const lks_model *model, const lki_weight *weight);
/* Of the mean in an update block from float `first` on: its square, where the norm is asked for. */
void lki_update_square(lks_model *model, const lki_weight *weight, int64_t first, int64_t count,
                       const float *mean);
void lki_update_buffers(lks_model *model, int worker, int64_t part, int64_t parts);

#endif
