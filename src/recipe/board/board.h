/* What a run shows in TensorBoard: curves, histograms, images of samples, its configuration. */
#ifndef LKI_RECIPE_BOARD_BOARD_H
#define LKI_RECIPE_BOARD_BOARD_H

#include "recipe/recipe.h"

/* Makes the folder where log.tensorboard asks for one. */
LKS_MUSTUSE lks_status lki_board_check(lks_recipe *recipe);
/* recipe->board is NULL where it does not. All processes call this and what follows, and rank 0 alone writes.
 * What cannot be written is said, and the run goes on. */
LKS_MUSTUSE lks_status lki_board_begin(lks_recipe *recipe);
/* The run goes on from this step: what was shown of later ones is taken back. */
void lki_board_resume(lks_recipe *recipe, int64_t step);
void lki_board_step(lks_recipe *recipe, const lks_step_event *event);
LKS_MUSTUSE lks_status lki_board_epoch(lks_recipe *recipe, const lks_epoch *epoch);
/* The run has ended with `status`; and all is freed. */
void lki_board_end(lks_recipe *recipe, lks_status status);

#endif
