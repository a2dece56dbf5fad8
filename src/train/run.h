/* A run's record as JSON text. */
#ifndef LKI_TRAIN_RUN_H
#define LKI_TRAIN_RUN_H

#include "train/saved.h"

/*
 * The whole of a step-<n>.json: the run, the name and identity of the tensors file, and in its last
 * line an XXH3-64 of all before it. 64-bit numbers are texts of 16 hexadecimal digits; a double
 * that is not finite is null. `text` is freed with free().
 */
lks_status lki_run_print(const lks_run *run, const char *tensors_name, const lki_identity *tensors,
                         char **text);

/* The reverse. LKS_E_FORMAT, with a sentence about `path`, for what is damaged, incomplete or of a
 * newer format. Fills in `run` (for lks_run_clear()) and `tensors` only when it succeeds. */
lks_status lki_run_parse(const char *path, const void *text, size_t bytes, lks_run *run,
                         lki_identity *tensors);

#endif
