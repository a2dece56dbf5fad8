/* The data of a configuration, and what is known of the published data sets. */
#ifndef CLI_DATASET_H
#define CLI_DATASET_H

#include "cli/recipe/config.h"
#include <lockstep/data.h>

/* Opens the training or the test split whole; digits are drawn only as many as asked for. */
LKS_MUSTUSE lks_status dataset_open(lks_dataset **out, cli_config *config, lks_context *context,
                                    bool test);

/* Whether there is a test split to open: a folder of one's own may be for training alone. */
bool dataset_has_test(cli_config *config);

/* Compares dimensions one by one: what lies behind the last is not defined. */
bool dataset_same_shape(const lks_shape *a, const lks_shape *b);

/* Where the data is looked for when data.path is not set; NULL where there is no home folder. */
const char *dataset_folder(cli_config *config);

/* The folder and its parents where missing. */
LKS_MUSTUSE lks_status dataset_make_folder(const char *path);

enum { DATASET_MIRRORS = 3, DATASET_IDX_FILES = 4 };

/* The names of IDX files, unpacked: images and labels for training, images and labels for testing. */
extern const char *const dataset_idx_names[DATASET_IDX_FILES];

/* A file as it is published, packed by gzip. */
typedef struct dataset_file {
    const char *name; /* without .gz */
    int64_t bytes;
    const char *sha256;       /* of the .gz */
    const char *sha256_plain; /* of what is in it; NULL: not known */
} dataset_file;

/* What is known of a data set without its files. */
typedef struct dataset_known {
    const char *name;                     /* as data.name has it */
    const char *alias;                    /* short name on the command line; may be NULL */
    const char *mirrors[DATASET_MIRRORS]; /* folders of its files, best first, then NULL; the first
                                             is NULL where none are needed */
    int file_count;
    const dataset_file *files;  /* [file_count] */
    lks_dataset_info info;      /* of the training split */
    const char *const *classes; /* [info.classes]; NULL: they are numbers */
} dataset_known;
const dataset_known *dataset_find(const char *name);      /* by name; NULL: nothing is known */
const dataset_known *dataset_find_word(const char *word); /* by name or alias */
extern const dataset_known dataset_table[];
extern const int dataset_table_count;

#endif
