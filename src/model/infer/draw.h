/* A token by outputs of a network: docs/numerics.md, "Drawing tokens". */
#ifndef LKI_MODEL_INFER_DRAW_H
#define LKI_MODEL_INFER_DRAW_H

#include <lockstep/generator.h>

typedef struct lki_candidate {
    float output;
    int32_t token;
} lki_candidate;

typedef struct lki_draw {
    bool most_probable;
    double temperature, top_p;
    int64_t top_k;
    uint32_t stream;
    uint64_t key;
    int64_t size;             /* of the vocabulary */
    lki_candidate *candidate; /* [size] */
    double *weight;           /* [size]: of candidates */
} lki_draw;

/* Token `number` of those that are drawn, from 0. */
lks_status lki_draw_token(int32_t *token, lki_draw *draw, const float *outputs, int64_t number);

#endif
