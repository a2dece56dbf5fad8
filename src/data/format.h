/*
 * Formats of data sets that lie in a folder. A format is a constant here, a file of its own, and a
 * line in the table of folder.c.
 */
#ifndef LKI_DATA_FORMAT_H
#define LKI_DATA_FORMAT_H

#include <lockstep/data.h>

typedef struct lki_data_format {
    const char *files[2]; /* of the training and the test split, for messages */
    /* Whether anything of the split is in the folder, be it complete or not. */
    bool (*has)(const char *folder, bool test_split);
    /* Called where it has. `classes` 0: as many as the training labels say. */
    lks_status (*open)(lks_dataset **out, lks_context *context, const char *folder, bool test_split,
                       int64_t classes);
} lki_data_format;

extern const lki_data_format lki_idx_format;

#endif
