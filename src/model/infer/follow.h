/* Predictions of one position behind the other: docs/program.md, "One position at a time". */
#ifndef LKI_MODEL_FOLLOW_H
#define LKI_MODEL_FOLLOW_H

#include "model/model.h"

typedef struct lki_follow {
    lks_model *model;
    lks_graph *graph; /* of one position; NULL: the model predicts whole windows alone */
    lki_program program;
    char *state; /* of all its stages */
    size_t bytes;
    bool endless;    /* no node knows the number of a position, or how many there are */
    int64_t changes; /* model->changes, and */
    int64_t step;    /* the step, */
    bool averages;   /* and whose parameters, when the state was left */
} lki_follow;

/* Of a network whose positions depend on none behind them. Where it cannot be it is no error: graph is NULL. */
lks_status lki_follow_make(lki_follow *follow, lks_model *model);
void lki_follow_release(lki_follow *follow); /* also after a failure, or zeroed */
/* Whether the state is of parameters that are no longer those to predict with. */
bool lki_follow_is_old(const lki_follow *follow);
/* The outputs of the position behind those of 0 .. at - 1, which have been given since 0 was; or of 0, in front of which
 * nothing is. */
lks_status lki_follow_predict(lki_follow *follow, int32_t token, int64_t at, float *out);

#endif
