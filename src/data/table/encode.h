/*
 * What becomes of a table's columns: the samples of a network, and its targets.
 *
 *   numbers  one element: as they are, or standardised, (value - mean) / deviation
 *   texts    one element for each text that rows of the training have, in the order of the texts' bytes: 1 for the one
 *            that the row has, else 0; all are 0 for a text that no row of the training has
 *   targets  as many floats, numbers as above; or a class, of a column of texts or integers
 *
 * Or the one input is a column of sentences: it has no element of its own, and no texts are kept of it; sentences.h makes tokens
 * of each.
 *
 * Mean, deviation (of all rows, not n - 1) and texts are those of the rows of the training alone. Sums run through them in
 * the order of the file, in double. Classes are those of the whole table, in the order of texts, or of integers.
 */
#ifndef LKI_DATA_TABLE_ENCODE_H
#define LKI_DATA_TABLE_ENCODE_H

#include <lockstep/data.h>

#include "data/table/table.h"

typedef enum lki_task { LKI_TASK_AUTO, LKI_TASK_REGRESSION, LKI_TASK_CLASSIFICATION } lki_task;

typedef struct lki_encoding_opts {
    const char *const *targets; /* columns by name or number */
    int target_count;           /* 0: the last column */
    const char *sentences;      /* the column that is the one input; NULL: none is */
    lki_task task;              /* AUTO: classification where the only target has texts */
    bool
        series; /* inputs are all columns of numbers, and targets of them, without any all; texts are left out */
    bool standardize;
    bool
        fill; /* missing inputs get the mean, or no text; else they are an error, as missing targets always are */
} lki_encoding_opts;

typedef struct lki_word {
    const char *text;
    size_t bytes;
    double number; /* of a class that is an integer */
} lki_word;

typedef struct lki_feature {
    const char *name;
    int column; /* in the table that it was made from */
    bool text;
    int64_t at; /* of its first element */
    lks_unit unit;
    lki_word *word; /* [words] */
    int64_t words;
} lki_feature;

/* The most different texts of a column, and the most elements of a sample. */
enum { LKI_TABLE_WORDS = 1000, LKI_TABLE_WIDTH = 1 << 20 };

typedef struct lki_encoding {
    lks_context *context;
    lki_arena arena;
    bool fill;
    bool tells;         /* of texts that it does not know, in a table that it is applied to */
    lki_feature *input; /* [inputs] */
    int inputs;
    int64_t width;       /* elements of a sample; 0: the input is sentences */
    lki_feature *target; /* [targets] */
    int targets;
    int64_t classes; /* 0: targets are floats */
    const char **class_name;
    lks_unit *unit; /* [targets] */
} lki_encoding;

/* From the rows of which `used` has a 1. Released by lki_encoding_release(), also after a failure. */
lks_status lki_encoding_fit(lki_encoding *out, lks_context *context, const lki_table *table,
                            const uint8_t *used, const lki_encoding_opts *opts);
void lki_encoding_release(lki_encoding *encoding); /* zeroed is fine */

/* Of one that has been made or read: whether its one input is sentences. */
static inline bool lki_encoding_has_sentences(const lki_encoding *encoding)
{
    return encoding->width == 0;
}
/* A class is called as the table has it, with doubled quotes made single. */
lks_status lki_encoding_call_class(lki_encoding *encoding, int64_t class, const char *text);
/* Where a table has the column of a feature, of the kind that it was made from. */
lks_status lki_feature_find(int *out, const lki_table *table, const lki_feature *feature);

/* All rows of that table, or of another with the same columns: x[rows][width] (not looked at where that is 0), and y:
 * int32_t[rows], or float[rows][targets]; NULL: it has no targets, or nobody asks. */
lks_status lki_encoding_apply(const lki_encoding *encoding, const lki_table *table, float *x,
                              void *y);

#endif
