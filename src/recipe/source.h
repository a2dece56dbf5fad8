/* The data of a configuration, and what is known of the published data sets. */
#ifndef LKI_RECIPE_SOURCE_H
#define LKI_RECIPE_SOURCE_H

#include "recipe/config.h"
#include <lockstep/data.h>

/* Opens the training or the test split whole; digits are drawn only as many as asked for. */
LKS_MUSTUSE lks_status lki_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                       bool test);

/* Whether there is a test split to open: a folder of one's own may be for training alone. */
bool lki_source_has_test(lki_config *config);

/* Compares dimensions one by one: what lies behind the last is not defined. */
bool lki_same_shape(const lks_shape *a, const lks_shape *b);

/* Where the data is looked for when data.path is not set; NULL where there is no home folder. */
const char *lki_source_folder(lki_config *config);

enum { LKI_MIRRORS = 3, LKI_IDX_FILES = 4 };

/* The names of IDX files, unpacked: images and labels for training, images and labels for testing. */
extern const char *const lki_idx_names[LKI_IDX_FILES];

/* A file as it is published, packed by gzip. */
typedef struct lki_published_file {
    const char *name; /* without .gz */
    int64_t bytes;
    const char *sha256;       /* of the .gz */
    const char *sha256_plain; /* of what is in it; NULL: not known */
} lki_published_file;

/* What is known of a data set without its files. */
typedef struct lki_published {
    const char *name;                 /* as data.name has it */
    const char *alias;                /* short name on the command line; may be NULL */
    const char *mirrors[LKI_MIRRORS]; /* folders of its files, best first, then NULL; the first
                                             is NULL where none are needed */
    int file_count;
    const lki_published_file *files; /* [file_count] */
    lks_dataset_info info;           /* of the training split */
    const char *const *classes;      /* [info.classes]; NULL: they are numbers */
} lki_published;
const lki_published *lki_published_find(const char *name); /* by name; NULL: nothing is known */
const lki_published *lki_published_find_word(const char *word); /* by name or alias */
extern const lki_published lki_published_table[];
extern const int lki_published_count;

#endif
