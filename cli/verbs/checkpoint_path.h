/* What a path on the command line is: a folder of checkpoints, a file of one, other tensors. */
#ifndef CLI_CHECKPOINT_PATH_H
#define CLI_CHECKPOINT_PATH_H

#include <stdint.h>

#include <lockstep/status.h>

#include "cli/pool.h"

typedef enum checkpoint_kind {
    PATH_FOLDER,  /* of checkpoints */
    PATH_STEP,    /* step-<n>.json, or step-<n>.safetensors beside one */
    PATH_TENSORS, /* another .safetensors file */
    PATH_OTHER,
} checkpoint_kind;
checkpoint_kind checkpoint_kind_of(const char *path);

typedef struct checkpoint_path {
    const char *folder;
    int64_t step;
    const char *tensors; /* the safetensors file */
} checkpoint_path;

/* A PATH_FOLDER (its newest) or a PATH_STEP. */
LKS_MUSTUSE lks_status checkpoint_resolve(checkpoint_path *out, cli_pool *pool, const char *path);

/* The steps of a folder's checkpoints, ascending. */
LKS_MUSTUSE lks_status checkpoint_steps(int64_t **steps, int *count, cli_pool *pool,
                                        const char *folder);
/* The two files of a checkpoint. */
const char *checkpoint_record(cli_pool *pool, const char *folder, int64_t step);
const char *checkpoint_tensors(cli_pool *pool, const char *folder, int64_t step);

#endif
