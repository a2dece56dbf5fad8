/* What layers carry from batch to batch. */
#ifndef LKI_MODEL_CARRIED_H
#define LKI_MODEL_CARRIED_H

#include <lockstep/model.h>

#include "comm/comm.h"
#include "program/program.h"

typedef struct lki_carry {
    int64_t floats; /* of a sample, in all stages; 0: nothing is carried */
    float *memory;  /* all arrays of all stages */
    size_t bytes;
    lki_piece *outgoing, *incoming; /* [ranks]; of several */
} lki_carry;

/* Its size, then memory for it. */
void lki_carried_measure(lks_model *model);
lks_status lki_carried_make(lks_model *model);
void lki_carried_release(lks_model *model);
/* Whether a step can take a batch of so many samples, a training data of so many columns, an evaluation this batch. */
lks_status lki_carried_check_step(const lks_model *model, int64_t whole);
lks_status lki_carried_check_data(const lks_model *model, const char *name, int64_t columns);
lks_status lki_carried_check(const lks_model *model, const lks_batch *batch);
/* What the pass over samples of this batch begins with and leaves: of a step; or of an evaluation, from number
 * `first` of the batch on. */
void lki_carried_begin(const lks_model *model, lki_pass *pass, const lks_batch *batch);
void lki_carried_evaluate(const lks_model *model, lki_pass *pass, const lks_batch *batch,
                          int64_t first);
/* Behind a step that was taken, or skipped. */
void lki_carried_end(lks_model *model);
/* Collective: of a stage that carries, what ranks have of their samples becomes what all have of all. */
lks_status lki_carried_gather(const lks_model *model, const lki_stage *stage);
lks_status lki_carried_gather_all(const lks_model *model);
/* Of an entry of the state that is carried: its stage; NULL: it is another one. */
const lki_stage *lki_carried_stage(const lks_model *model, int index);

#endif
