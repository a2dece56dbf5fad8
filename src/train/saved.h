/* A model's state as a safetensors file: what weights and checkpoints share. */
#ifndef LKI_TRAIN_SAVED_H
#define LKI_TRAIN_SAVED_H

#include <lockstep/checkpoint.h>

#include "base/file.h"

/* What a file is known to be: its size and XXH3-64. */
typedef struct lki_identity {
    size_t bytes;
    uint64_t checksum;
} lki_identity;

/* As lks_tensor_file_open(); where `expected` is not NULL, the file is that one or LKS_E_FORMAT. */
lks_status lki_tensor_file_open(lks_tensor_file **out, lks_context *context, const char *path,
                                const lki_identity *expected);

/* "64x784 F32"; "F32" for one number. Returns buffer. */
enum { LKI_TENSOR_TEXT = 128 };
const char *lki_tensor_print(lks_dtype dtype, const lks_shape *shape, char buffer[LKI_TENSOR_TEXT]);

/* A name out of a file, fit for a message: at most 80 bytes, no control characters. */
enum { LKI_NAME_TEXT = 84 };
const char *lki_name_print(const char *name, char buffer[LKI_NAME_TEXT]);

/* Which of a model's state a file holds. */
typedef enum lki_state_set {
    LKI_STATE_WEIGHTS, /* parameters and buffers; the file may hold other tensors too */
    LKI_STATE_ALL,     /* and what the optimizer keeps; nothing else */
} lki_state_set;

/*
 * Writes the set to an open writer, as one safetensors file: wider types first, so that every
 * tensor is aligned to its elements; in graph order within a type. A parameter or buffer that is
 * not finite is LKS_E_NUMERIC. `identity` may be NULL.
 */
lks_status lki_state_write(lks_model *model, lki_state_set set, lki_writer *writer,
                           lki_identity *identity);

/*
 * Collective, before rank 0 alone calls lki_state_write() with LKI_STATE_ALL, and then all lki_agree(): the others
 * take part in what it reads, where entries are spread over ranks. They come back when it has read the last one, or
 * with the failure that it has said in lki_agree(), behind which nothing is left to agree on.
 */
lks_status lki_state_attend(lks_model *model);

/* LKS_OK if the file has all of the model's set with types and shapes; else LKS_E_MISMATCH with a
 * sentence that begins with `what` ("checkpoint 'out/step-1'") and names the first that differs. */
lks_status lki_state_check(const lks_model *model, lki_state_set set, const lks_tensor_file *file,
                           const char *what);
/* Collective: the tensors of rank 0's file, others have none, become the model's; after lki_state_check(). Weights
 * that the file has not, or not with their shape, stay as rank 0 has them. */
lks_status lki_state_put(lks_model *model, lki_state_set set, const lks_tensor_file *file);

#endif
