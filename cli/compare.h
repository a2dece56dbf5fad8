/* Comparing two runs by what they left. Differences are printed; *equal tells whether there are. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include <stdbool.h>

#include <lockstep/checkpoint.h>

/* Two safetensors files: the first tensor and element that differ, and the largest difference. */
LKS_MUSTUSE lks_status compare_tensors(bool *equal, lks_context *context, const char *path_a,
                                       const char *path_b);

/* Two records: configuration, the first link and the first epoch that differ, the hash. */
LKS_MUSTUSE lks_status compare_records(bool *equal, const char *path_a, const char *path_b);

#endif
