/* What is kept between the calls of lockstep/layers.h. */
#ifndef LKI_MODEL_LAYERS_LAYERS_H
#define LKI_MODEL_LAYERS_LAYERS_H

#include <lockstep/layers.h>

#include "model/model.h"

typedef struct lki_layer_value {
    const char *name;
    const lki_node *node;
    int number; /* of the layer */
    lks_value_kind kind;
    lks_shape shape;
    int place;   /* program->value[place], or model->weight[place] */
    double sum;  /* of a parameter, at its last dump, */
    bool dumped; /* which there was */
} lki_layer_value;

struct lki_layers {
    lki_pass pass; /* the last forward, */
    lki_cohort cohort;
    bool activations; /* which are still there, */
    bool follows;     /* and backward may follow; */
    bool gradients;   /* behind backward_input: those of activations */
    bool from_output; /* backward may begin at the output */
    bool taking;      /* lks_model_update() runs a step */
    bool bad;         /* one of the losses below is not finite */
    int64_t counted;  /* losses of which gradients of parameters are sums; 0: there are none */
    float *more;      /* those of one more backward; NULL: not needed yet */
    float *read;      /* the host's, of a value; NULL: not needed yet */
    size_t read_bytes;
    lki_layer_value *value;
    int values;
};

/* Gradients of parameters, as positions in stage->d_param say. */
float *lki_layers_sums(const lks_model *model);
/* values.c: at compile. */
lks_status lki_layers_list(lks_model *model);
/* LKS_E_STATE: the model was compiled without. */
lks_status lki_layers_enter(lks_model *model, const char *call);
/* Reads a value; the caller is inside. */
lks_status lki_layers_read(lks_model *model, int index, float *out, size_t bytes);

#endif
