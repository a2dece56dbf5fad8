/* Files of a text: which there are, and where what is made of them is kept. */
#ifndef LKI_RECIPE_DATA_TEXT_FILES_H
#define LKI_RECIPE_DATA_TEXT_FILES_H

#include "recipe/data/text.h"

enum { LKI_SPLITS = 3 };

/* Paths of the splits' texts, in the configuration's heap; NULL: there is none. That of the training is a folder where its texts are one. */
LKS_MUSTUSE lks_status lki_text_files(const char *out[LKI_SPLITS], lki_config *config);

/* The folder for tokens and vocabularies; NULL: they are not kept. */
const char *lki_text_cache(lki_config *config);

/* The path of the only file in a folder whose name begins and ends so, in the configuration's heap; NULL: there is
 * none. */
const char *lki_text_find(lki_config *config, const char *folder, const char *begin,
                          const char *end);

#endif
