/* What a model is given, and what of it is this rank's. */
#ifndef LKI_MODEL_BATCH_H
#define LKI_MODEL_BATCH_H

#include "model/model.h"

/* A batch that the model can take, or a sentence. */
lks_status lki_check_batch(const lks_model *model, const lks_batch *batch);
lks_status lki_check_tokens(const lks_model *model, const void *x,
                            int64_t count); /* if it takes them */
/* The same of a step, which finds model->counted. */
lks_status lki_check_train_batch(lks_model *model, const lks_batch *batch);
/* What of a batch of so many samples is this rank's; where its samples are is to be filled in. */
lki_pass lki_own_pass(const lks_model *model, int64_t whole);
/* Of a model with a loss: positions of a sample's target, of which each has a class or none; 0: a sample has one class,
 * or floats. */
int64_t lki_positions_of(const lks_model *model);

static inline int64_t lki_whole_of(const lks_batch *batch)
{
    return batch->whole != 0 ? batch->whole : batch->count;
}

/* The number of the sample at this place of the whole batch, of which it is in this part. */
static inline int64_t lki_sample_id(const lks_batch *batch, int64_t position)
{
    return batch->ids != NULL ? batch->ids[position - batch->first] : position;
}

#endif
