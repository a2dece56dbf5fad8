/*
 * Formats of data sets that lie in a folder. A format is a constant in a file of its own, and a line in
 * list.h.
 */
#ifndef LKI_DATA_FORMAT_H
#define LKI_DATA_FORMAT_H

#include <lockstep/data.h>

#include "data/list.h"

typedef struct lki_data_format {
    /* Of the training and the test split, for messages: "a and b", and where they are looked for. */
    const char *files[2];
    /* Whether anything of the split is in the folder, be it complete or not. */
    bool (*has)(const char *folder, bool test_split);
    /* Called where it has. `classes` 0: as many as the training labels say. */
    lks_status (*open)(lks_dataset **out, lks_context *context, const char *folder, bool test_split,
                       int64_t classes);
} lki_data_format;

#define LKI_DATA_FORMAT_DECLARE(id) extern const lki_data_format lki_##id##_format;
LKI_DATA_FORMAT_LIST(LKI_DATA_FORMAT_DECLARE)

#endif
