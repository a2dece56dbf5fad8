/*
 * What only tools want, such as the verbs of the program `lockstep`. Nothing here belongs to what a
 * version number promises: with any version functions may change, or go (docs/compatibility.md).
 */
#ifndef LOCKSTEP_TOOLS_H
#define LOCKSTEP_TOOLS_H

#include <lockstep/recipe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The steps of lks_recipe_train(), for who talks in between: takes the folder of checkpoints, which
 * lks_recipe_start() does too; trains alone. *complete (may be NULL): the run has its hash, by its end,
 * a stop, or where but the last checkpoint could not be saved. Then weights and record are written. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_lock(lks_recipe *recipe);
LKS_API LKS_MUSTUSE lks_status lks_recipe_run(lks_recipe *recipe, const lks_train_events *events,
                                              const lks_run **run, bool *complete);

#ifdef __cplusplus
}
#endif
#endif
