/* What keys of a recipe hold back of data. */
#ifndef LKI_RECIPE_DATA_HELD_H
#define LKI_RECIPE_DATA_HELD_H

#include "recipe/config.h"

/* Of so many rows those that this key, a share, holds back: at least one, or 0 where it is not set. */
LKS_MUSTUSE lks_status lki_held_rows(int64_t *out, const lki_config *config, lki_key key,
                                     int64_t rows);

/* Refuses keys of validation that hold samples back one by one; of data such as "a text" the end is held back. */
LKS_MUSTUSE lks_status lki_held_at_end(const lki_config *config, const char *of);

#endif
