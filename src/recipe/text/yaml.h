/*
 * A YAML document as a tree: scalars, lists and maps, with the line of each. Anchors, aliases and
 * merges ("<<", a map or a list of maps; keys of the map itself win, then the earliest merged) are
 * resolved while reading, so a node may be reached by several paths.
 */
#ifndef LKI_RECIPE_TEXT_YAML_H
#define LKI_RECIPE_TEXT_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstep/status.h>

#include "recipe/text/heap.h"

/* Far above what a configuration needs, so that hostile files end in a sentence. */
enum {
    LKI_YAML_MAX_DEPTH = 32,
    LKI_YAML_MAX_NODES = 10000,
    LKI_YAML_MAX_BYTES = 1 << 20,
    LKI_YAML_MAX_KEY = 128
};

typedef enum lki_yaml_kind { LKI_YAML_SCALAR, LKI_YAML_LIST, LKI_YAML_MAP } lki_yaml_kind;

typedef struct lki_yaml {
    lki_yaml_kind kind;
    int line;
    bool plain;       /* scalar without quotes: may be a number, a truth value or nothing */
    const char *text; /* of a scalar */
    struct lki_yaml_entry *first;
    int count; /* entries */
    /* Of all that is in it, each alias counted as what it stands for: */
    int weight;   /* nodes */
    int height;   /* lists and maps within each other; of a scalar 0 */
    size_t bytes; /* that it takes to print, at most; no more when what is printed is read */
} lki_yaml;

typedef struct lki_yaml_entry {
    struct lki_yaml_entry *next;
    const lki_yaml *key; /* a scalar; NULL in a list */
    const lki_yaml *value;
    int merged; /* by "<<": 0: no; entries with a smaller number win over those with a larger one, also where
                   one is "train.epochs" and the other "train: {epochs: 3}" */
} lki_yaml_entry;

/* Reads a file, or text that was given as `name`. Errors are sentences that begin with the path and
 * the line, or with the name. The tree lives in the heap. */
LKS_MUSTUSE lks_status lki_yaml_read_file(const lki_yaml **out, lki_heap *heap, const char *path);
LKS_MUSTUSE lks_status lki_yaml_read_text(const lki_yaml **out, lki_heap *heap, const char *name,
                                          const char *text);

/* The same of text whose lines mean something to who wrote it: errors name them. */
LKS_MUSTUSE lks_status lki_yaml_read_lines(const lki_yaml **out, lki_heap *heap, const char *name,
                                           const char *text);

/* A scalar; where there is no memory, which lki_heap_status() tells, one that says nothing. */
const lki_yaml *lki_yaml_scalar(lki_heap *heap, const char *text, bool plain);

/* The value of a key; NULL where there is none, or `node` is NULL or no map. */
const lki_yaml *lki_yaml_find(const lki_yaml *node, const char *key);

/* Plain and empty, ~, null or None (as Python programs write it). */
bool lki_yaml_is_null(const lki_yaml *node);

#endif
