/* Typed values: what a key of the configuration or an option of a layer may be, and its parser. */
#ifndef LKI_RECIPE_TEXT_SETTING_H
#define LKI_RECIPE_TEXT_SETTING_H

#include <stdbool.h>
#include <stdint.h>

#include "recipe/text/yaml.h"

typedef enum lki_type {
    LKI_TYPE_INT,
    LKI_TYPE_FLOAT,
    LKI_TYPE_BOOL,
    LKI_TYPE_STRING,
    LKI_TYPE_CHOICE, /* one of the words in `range` */
    LKI_TYPE_PAIR,   /* height and width: one integer for both, or a list of two */
    LKI_TYPE_INTS,   /* a list; one number is a list of one */
    LKI_TYPE_FLOATS,
    LKI_TYPE_WORD_FLOATS, /* one of the words that `range` begins with, or numbers, also as "3,1" */
    LKI_TYPE_TREE,        /* a list of any nodes, for whoever knows more */
    LKI_TYPE_MAP,         /* likewise a map */
} lki_type;

/* `range` is an interval for each number, "[0,1)", "[1,)"; the words of a choice, "sgd adam"; both,
 * "even auto (0,1]"; or NULL. It is what the parser checks and what messages and help print. */
typedef struct lki_spec {
    const char *name;
    lki_type type;
    const char *range;
} lki_spec;

typedef struct lki_setting {
    bool set; /* false: absent, or null */
    int count;
    int64_t i[2]; /* INT (the first), PAIR */
    double f;     /* FLOAT */
    const int64_t
        *ints; /* INTS, FLOATS, WORD_FLOATS that have no word: [count], in the heap of whoever
                            had it parsed */
    const double *floats;
    bool b;
    const char *s;        /* STRING, CHOICE, a word of WORD_FLOATS: borrowed from the tree */
    const lki_yaml *tree; /* TREE, MAP: borrowed */
    const char *where;    /* where it comes from, for messages: "mnist.yaml:7" */
} lki_setting;

/* Fills in *out; null leaves it not set. LKS_E_INVALID with where, name, found and expected. */
LKS_MUSTUSE lks_status lki_setting_parse(lki_setting *out, lki_heap *heap, const lki_spec *spec,
                                         const lki_yaml *node, const char *where);

/* Whether both say the same, in whatever form and order of keys. */
bool lki_setting_same(const lki_setting *a, const lki_setting *b, lki_type type);

/* "an integer of at least 1", "sgd, adam or adadelta" */
void lki_spec_describe(const lki_spec *spec, char *text, size_t size);

/* Whether plain text is a decimal number, and its value. 1e3 is no integer; inf and nan are no
 * numbers. */
bool lki_text_is_int(const char *text, int64_t *out);
bool lki_text_is_float(const char *text, double *out);
bool lki_text_is_bool(const char *text, bool *out);

/* Finds the candidate that is most like a word, by Damerau-Levenshtein distance. */
typedef struct lki_nearest {
    const char *word;
    const char *best; /* NULL while nothing is near enough to be meant */
    int distance;
} lki_nearest;
void lki_nearest_offer(lki_nearest *nearest, const char *candidate);
int lki_edit_distance(const char *a, const char *b);

#endif
