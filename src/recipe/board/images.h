/* What the network sees of training samples, as images in TensorBoard. */
#ifndef LKI_RECIPE_BOARD_IMAGES_H
#define LKI_RECIPE_BOARD_IMAGES_H

#include "recipe/board/events.h"
#include "recipe/recipe.h"

/* A loader of single samples, in order, augmented as the training has them; NULL where log.images is not set. */
LKS_MUSTUSE lks_status lki_images_open(lks_loader **out, const lks_recipe *recipe);

/* Adds the first log.images samples, as epoch `epoch` (from 1) had them, to the event that is open. */
LKS_MUSTUSE lks_status lki_images_add(lki_events *events, const lks_recipe *recipe,
                                      lks_loader *loader, int64_t epoch);

#endif
