/* The parts of training data: what is used of it, and what of that is held back for validation. */
#ifndef LKI_RECIPE_DATA_PARTS_H
#define LKI_RECIPE_DATA_PARTS_H

#include "recipe/config.h"
#include <lockstep/data.h>

typedef struct lki_parts {
    lks_dataset *train,
        *valid; /* those to use: the whole, or parts of it; valid NULL: none is held back */
    lks_dataset *limited; /* the part of the whole that both share */
    lks_dataset *slice[2];
} lki_parts;

/* As data.samples and the keys of validation say. The whole must outlive its parts. Closed also after a failure. */
LKS_MUSTUSE lks_status lki_parts_cut(lki_parts *out, const lki_config *config, lks_dataset *whole);
void lki_parts_close(lki_parts *parts);

/* The first `key` samples of a split, where the configuration limits them; *slice is what it opened for that. */
LKS_MUSTUSE lks_status lki_parts_limit(lks_dataset **used, lks_dataset **slice,
                                       const lki_config *config, lks_dataset *whole, lki_key key);

#endif
