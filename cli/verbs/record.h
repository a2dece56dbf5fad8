/* Records of trainings, the JSON files that train writes: --record, or record.json in the folder of --out. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <jansson.h>

#include <lockstep/status.h>

#include "cli/pool.h"

/* Where it is, if the path may be that of a run's folder; and the path without what all have: "sweep/a" of sweep/a.json and of
 * sweep/a/record.json. Both may be the path itself, or are in the pool. */
char *record_place(cli_pool *pool, char *path);
const char *record_stem(cli_pool *pool, const char *path);

/* Reads a file and checks what every reader relies on: "hash" is a text, "epochs" a list of objects
 * and "config" an object of objects. The rest may be missing or of any type. json_decref() it. */
LKS_MUSTUSE lks_status record_read(json_t **out, const char *path);

#endif
