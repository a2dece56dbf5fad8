/* Hugging Face's GPT-2 keeps the weights of its dense layers as [inputs][outputs], under the names that nanoGPT's
 * have as [outputs][inputs]. */
#ifndef LKI_TRAIN_TURNED_H
#define LKI_TRAIN_TURNED_H

#include <lockstep/checkpoint.h>

/* The file is of that kind, and the tensor one of those weights. */
bool lki_turned(const lks_tensor_file *file, const char *name);
/* A matrix of the model's shape from one of the file. */
void lki_turn(const lks_shape *shape, const float *given, float *out);

#endif
