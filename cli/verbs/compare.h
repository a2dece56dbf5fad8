/* Comparing two runs by what they left. Differences are printed; *equal tells whether there are. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include <stdbool.h>

#include <lockstep/checkpoint.h>

#include "cli/verbs/checkpoint_path.h"

/* Two safetensors files: the first tensor and element that differ, and the largest difference. */
LKS_MUSTUSE lks_status compare_tensors(bool *equal, lks_context *context, const char *path_a,
                                       const char *path_b);

/* Two checkpoints: their tensors as above, and the first key in which their records differ, but for what
 * a record says of the time that was needed and of the machine. */
LKS_MUSTUSE lks_status compare_checkpoints(bool *equal, lks_context *context,
                                           const checkpoint_path *path_a,
                                           const checkpoint_path *path_b);

/* Two records of trainings: configuration, the first link and the first epoch that differ, the hash. */
LKS_MUSTUSE lks_status compare_records(bool *equal, const char *path_a, const char *path_b);

#endif
