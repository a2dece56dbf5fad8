/* Typed values: what a key of the configuration or an option of a layer may be, and its parser. */
#ifndef CLI_VALUE_H
#define CLI_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "cli/recipe/tree.h"

typedef enum value_type {
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_BOOL,
    VALUE_STRING,
    VALUE_CHOICE, /* one of the words in `range` */
    VALUE_PAIR,   /* height and width: one integer for both, or a list of two */
    VALUE_INTS,   /* a list; one number is a list of one */
    VALUE_FLOATS,
    VALUE_TREE, /* any node, for whoever knows more */
} value_type;

enum { VALUE_MAX_LIST = 64 };

/* `range` is an interval for each number, "[0,1)", "[1,)"; the words of a choice, "sgd adam"; or
 * NULL. It is what the parser checks and what messages and help print. */
typedef struct cli_spec {
    const char *name;
    value_type type;
    const char *range;
} cli_spec;

typedef struct cli_value {
    bool set; /* false: absent, or null */
    int count;
    int64_t i[VALUE_MAX_LIST]; /* INT (the first), PAIR, INTS */
    double f[VALUE_MAX_LIST];  /* FLOAT, FLOATS */
    bool b;
    const char *s;        /* STRING, CHOICE: borrowed from the tree */
    const cli_node *tree; /* TREE: borrowed */
    const char *where;    /* where it comes from, for messages: "mnist.yaml:7" */
} cli_value;

/* Fills in *out; null leaves it not set. LKS_E_INVALID with where, name, found and expected. */
LKS_MUSTUSE lks_status value_parse(cli_value *out, const cli_spec *spec, const cli_node *node,
                                   const char *where);

/* "an integer of at least 1", "sgd, adam or adadelta" */
void spec_describe(const cli_spec *spec, char *text, size_t size);

/* The value, as JSON; null when it is not set. */
json_t *value_json(const cli_value *value, value_type type);
/* A node as JSON: plain scalars become numbers, truth values or null where they look like it. */
json_t *node_json(const cli_node *node);

/* Whether plain text is a decimal number, and its value. 1e3 is no integer; inf and nan are no
 * numbers. */
bool text_is_int(const char *text, int64_t *out);
bool text_is_float(const char *text, double *out);
bool text_is_bool(const char *text, bool *out);

/* Finds the candidate that is most like a word, by Damerau-Levenshtein distance. */
typedef struct cli_nearest {
    const char *word;
    const char *best; /* NULL while nothing is near enough to be meant */
    int distance;
} cli_nearest;
void nearest_offer(cli_nearest *nearest, const char *candidate);
int edit_distance(const char *a, const char *b);

#endif
