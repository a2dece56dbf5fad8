/* Which pictures there are, of which class and split: by folders, or by a table of file and label. */
#ifndef LKI_DATA_PICTURES_LAYOUT_H
#define LKI_DATA_PICTURES_LAYOUT_H

#include "base/memory.h"

typedef struct lki_picture {
    const char *path;  /* as it is opened */
    const char *class; /* its name */
    int32_t label;     /* the number of that name */
    bool test;
} lki_picture;

/* A folder where those of classes are, but without a picture. */
typedef struct lki_empty {
    const char *path;
    struct lki_empty *next; /* by their paths */
} lki_empty;

/* All that was found. Zero it, set arena.context; release the arena, also after a failure. */
typedef struct lki_pictures {
    lki_arena arena;
    lki_picture *picture; /* those for training first */
    int64_t split[2];     /* how many for training, for testing */
    const char **name;    /* of classes; numbers in their order, else by bytes */
    int64_t classes;
    int64_t others;   /* files whose names are not those of pictures */
    lki_empty *empty; /* folders that are no class of the training */
    char what[256];   /* how classes and splits were found, for people */
    int64_t count, room;
} lki_pictures;

/*
 * `what` is a folder with a folder for each class, below which pictures lie at any depth; a folder with such ones named
 * train, and val, valid, validation or test, of which the first is taken; such a one of tiny-imagenet, whose val has
 * images and val_annotations.txt; or a CSV file. Pictures are in the order of classes, then of paths, or of the table.
 * `share` (below 1) holds so much of every class back as the test split, by a permutation keyed by seed and class;
 * LKS_E_INVALID: that is not one picture.
 */
lks_status lki_pictures_find(lki_pictures *out, const char *what, double share, uint64_t seed);

/* Without classes and splits: this file, or all pictures in a folder and those below it, in the order of their paths. */
lks_status lki_pictures_list(lki_pictures *out, const char *what);

/* layout_list.c: adds a picture of the class of this name. */
lks_status lki_pictures_add(lki_pictures *out, const char *path, const char *class,
                            size_t class_bytes, bool test);
/* And when all are there: numbers classes, holds pictures back, and orders them, with `sorted` by class and path. */
lks_status lki_pictures_settle(lki_pictures *out, const char *what, bool sorted, double share,
                               uint64_t seed);

/* layout_table.c: a picture for each row of a file, whose first two columns between `separator`s are its file, relative
 * to `folder`, and its class. 0: commas, semicolons or tabs, as the first line has them, and quotes around fields. With
 * `titles` the first row may have titles: it does where its file is not there. */
lks_status lki_pictures_read_table(lki_pictures *out, const char *path, const char *folder,
                                   char separator, bool titles, bool test);

#endif
