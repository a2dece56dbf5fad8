/* What records and lines for programs say of an epoch. */
#ifndef LKI_RECIPE_RUN_RECORD_H
#define LKI_RECIPE_RUN_RECORD_H

#include <lockstep/checkpoint.h>

#include "recipe/text/emit.h"

/* Its keys and values, into a map that is open; what was not evaluated is left out. */
void lki_emit_epoch(lki_emit *emit, const lks_epoch *epoch);

#endif
