/* Data that is text: data.text, a file or a folder, and the keys that say what its tokens and samples are. */
#ifndef LKI_RECIPE_DATA_TEXT_H
#define LKI_RECIPE_DATA_TEXT_H

#include "recipe/config.h"
#include "recipe/data/parts.h"
#include <lockstep/text.h>

/* data.name of such data, and the keys of "data" that are for it. */
#define LKI_TEXT_NAME "text"
#define LKI_TEXT_KEYS                                                                              \
    "text valid_text test_text level words dictionary tokenizer context stride windows "           \
    "columns cache"

typedef enum lki_split { LKI_SPLIT_TRAIN, LKI_SPLIT_VALID, LKI_SPLIT_TEST } lki_split;

/* A split's windows; it has its tokenizer with it. */
LKS_MUSTUSE lks_status lki_text_source_open(lks_dataset **out, lki_config *config,
                                            lks_context *context, lki_split split);
/* Whether a split has a text of its own. */
bool lki_text_source_has(lki_config *config, lki_split split);

/* Whether a path is that of a text, or of a folder with one to train with, by names. */
bool lki_text_source_is(lki_config *config, const char *path);

/* The beginning of the text, and its end for validation as validation.fraction says. */
LKS_MUSTUSE lks_status lki_text_source_cut(lki_parts *out, const lki_config *config,
                                           const lks_dataset *whole);

/* vocabulary.c, for texts of tables, too: what data.level, data.words and data.dictionary say of one that is made. */
LKS_MUSTUSE lks_status lki_vocabulary_opts(lks_vocabulary_opts *out, const lki_config *config);
/* Whether one of this level is as large as one likes, and takes some time to make. */
bool lki_vocabulary_is_counted(lks_level level);

/* That of data.tokenizer, or else of the run in the folder of checkpoints, once it has one; NULL: one is to be made. */
LKS_MUSTUSE lks_status lki_vocabulary_find(lks_tokenizer **out, lki_config *config,
                                           lks_context *context);

/* Writes that of the data into the folder of a run; of data without one nothing is done. */
LKS_MUSTUSE lks_status lki_vocabulary_keep(const lks_dataset *data, const char *folder);

#endif
