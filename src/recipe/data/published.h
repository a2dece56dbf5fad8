/* What is known of the data sets that are published. */
#ifndef LKI_RECIPE_DATA_PUBLISHED_H
#define LKI_RECIPE_DATA_PUBLISHED_H

#include <lockstep/data.h>

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
    const lki_published_file *files;   /* [file_count] */
    const lki_published_file *pickled; /* the same as Python has it, which is read, but not
                                             downloaded; NULL: it is published in one form */
    lks_dataset_info info;             /* of the training split */
    const char *const *classes;        /* [info.classes]; NULL: they are numbers */
    const char *keys; /* of a configuration's "data", its alone: "seed"; NULL: none */
} lki_published;
const lki_published *lki_published_find(const char *name); /* by name; NULL: nothing is known */
const lki_published *lki_published_find_word(const char *word); /* by name or alias */
extern const lki_published lki_published_table[];
extern const int lki_published_count;

#endif
