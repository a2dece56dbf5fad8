/* Records of trainings, the JSON files that `train --record` writes. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include <jansson.h>

#include <lockstep/status.h>

/* Reads a file and checks what every reader relies on: "hash" is a text, "epochs" a list of objects
 * and "config" an object of objects. The rest may be missing or of any type. json_decref() it. */
LKS_MUSTUSE lks_status record_read(json_t **out, const char *path);

#endif
