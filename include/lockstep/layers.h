/*
 * A model layer by layer, for whoever learns how it works or embeds it: forward, backward and update called one by
 * one, in the calling thread, and every number between them to be read. Compiled with lks_model_opts.layers;
 * otherwise LKS_E_STATE. These calls have the model alone, as lks_model_step() has.
 *
 *     lks_model_zero_gradients(model);
 *     lks_model_forward(model, &batch, true, &metrics);
 *     lks_model_backward_input(model, NULL);
 *     lks_model_backward_params(model);
 *     lks_model_update(model, lr);                      the same bits as lks_model_step(model, &batch, lr, &metrics)
 */
#ifndef LOCKSTEP_LAYERS_H
#define LOCKSTEP_LAYERS_H

#include <lockstep/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From the samples to the loss of each; as in training (dropout, statistics of the batch), behind which backward may
 * follow, or as in inference. The batch is borrowed until the last backward behind it. A loss that is not finite
 * counts in `metrics` (may be NULL), and no update follows. */
LKS_API LKS_MUSTUSE lks_status lks_model_forward(lks_model *model, const lks_batch *batch,
                                                 bool training, lks_metrics *metrics);

/* Gradients of activations alone: of the sum over samples of the loss; or, where `output_gradient` is not NULL, of the
 * sum of output[i] * output_gradient[i], [samples][elements of the output]: all ones is the gradient of the sum of the
 * outputs. For that all that is trained has to lead to the output, and only the loss may read what comes behind. */
LKS_API LKS_MUSTUSE lks_status lks_model_backward_input(lks_model *model,
                                                        const float *output_gradient);

/* Gradients of parameters alone, from those of activations; added to what there is since zero_gradients. */
LKS_API LKS_MUSTUSE lks_status lks_model_backward_params(lks_model *model);

/* A model begins so; an update leaves gradients as they are. */
LKS_API LKS_MUSTUSE lks_status lks_model_zero_gradients(lks_model *model);

/* A step with the gradients that there are, divided by the number of samples that they are sums over. All that the
 * options say of steps: clipping, averages, the hash chain; running statistics go on by those of the last forward. */
LKS_API LKS_MUSTUSE lks_status lks_model_update(lks_model *model, double lr);

typedef enum lks_value_kind {
    LKS_VALUE_ACTIVATION,          /* "conv1" */
    LKS_VALUE_ACTIVATION_GRADIENT, /* "conv1.gradient" */
    LKS_VALUE_PARAMETER,           /* "conv1.weight" */
    LKS_VALUE_PARAMETER_GRADIENT,  /* "conv1.weight.gradient": sums over samples */
} lks_value_kind;

typedef struct lks_value_info {
    const char *name;  /* as above, */
    const char *layer; /* of "conv1"; the model's, both */
    int number;        /* of the layer, from 0 in the order of the network */
    lks_value_kind kind;
    lks_shape shape; /* of a parameter, or of a sample: images are height, width, channels */
    int64_t samples; /* of the last forward; 0: it is a parameter, or its gradient */
    size_t bytes;    /* of all, f32 */
} lks_value_info;

/* Layer by layer in the order of the network: activation and gradient, then parameters and gradients. */
LKS_API int lks_model_value_count(const lks_model *model);
LKS_API lks_value_info lks_model_value_info(const lks_model *model, int index);
LKS_API int lks_model_value_find(const lks_model *model, const char *name); /* or -1 */
/* LKS_E_STATE where no pass has formed it yet; gradients of parameters are 0 then. */
LKS_API LKS_MUSTUSE lks_status lks_model_value_read(lks_model *model, int index, float *out,
                                                    size_t bytes);

/* Prints a value, or all (`name` NULL) that are there, line by line: shape, strides in elements, the first ten
 * numbers; behind a parameter "Layer i - Weight sum: x (change: y)", where the change is that since its last dump. */
LKS_API LKS_MUSTUSE lks_status lks_dump(lks_model *model, const char *name,
                                        void (*write)(void *user, const char *line), void *user);

#ifdef __cplusplus
}
#endif
#endif
