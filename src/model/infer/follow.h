/* Predictions of positions behind others: docs/program.md, "Text, a position at a time". */
#ifndef LKI_MODEL_FOLLOW_H
#define LKI_MODEL_FOLLOW_H

#include "model/model.h"

typedef struct lki_follow {
    lks_model *model;
    lks_graph *graph;    /* of one position; NULL: the model predicts whole windows alone */
    lki_program program; /* whose samples are successive positions */
    int stateful;        /* stages up to the last one that leaves something for positions behind */
    char *state;         /* of all its stages */
    size_t bytes;
    bool endless;    /* no node knows the number of a position, or how many there are */
    int64_t changes; /* model->changes (-1: a pass has failed, and the state is of no use), and */
    int64_t step;    /* the step, */
    bool averages;   /* and whose parameters, when the state was left */
} lki_follow;

/* Of a network whose positions depend on none behind them. Where it cannot be it is no error: graph is NULL. */
lks_status lki_follow_make(lki_follow *follow, lks_model *model);
void lki_follow_release(lki_follow *follow); /* also after a failure, or zeroed */
/* Whether the state is of parameters that are no longer those to predict with, or not whole. */
bool lki_follow_is_old(const lki_follow *follow);
/* The outputs of the last of `count` positions, at least one, from number `at` on, behind 0 .. at - 1, which have been given
 * since 0 was. Many are read in one pass, whatever their number. */
lks_status lki_follow_predict(lki_follow *follow, const int32_t *tokens, int64_t count, int64_t at,
                              float *out);

#endif
