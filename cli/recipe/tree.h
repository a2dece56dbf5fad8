/*
 * A YAML document as a tree: scalars, lists and maps, with the line of each. Anchors, aliases and
 * merges ("<<", a map or a list of maps; keys of the map itself win, then the earliest merged) are
 * resolved while reading, so a node may be reached by several paths.
 */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstep/status.h>

#include "cli/recipe/pool.h"

/* Far above what a configuration needs, so that hostile files end in a sentence. */
enum { TREE_MAX_DEPTH = 32, TREE_MAX_NODES = 10000, TREE_MAX_BYTES = 1 << 20, TREE_MAX_KEY = 128 };

typedef enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP } node_kind;

typedef struct cli_node {
    node_kind kind;
    int line;
    bool plain;       /* scalar without quotes: may be a number, a truth value or nothing */
    const char *text; /* of a scalar */
    struct cli_entry *first;
    int count; /* entries */
    /* Of all that is in it, each alias counted as what it stands for: */
    int weight;   /* nodes */
    int height;   /* lists and maps within each other; of a scalar 0 */
    size_t bytes; /* that it takes to print, at most; no more when what is printed is read */
} cli_node;

typedef struct cli_entry {
    struct cli_entry *next;
    const cli_node *key; /* a scalar; NULL in a list */
    const cli_node *value;
} cli_entry;

/* Reads a file, or text that was given as `name`. Errors are sentences that begin with the path and
 * the line, or with the name. The tree lives in the pool. */
LKS_MUSTUSE lks_status tree_read_file(const cli_node **out, cli_pool *pool, const char *path);
LKS_MUSTUSE lks_status tree_read_text(const cli_node **out, cli_pool *pool, const char *name,
                                      const char *text);

const cli_node *node_from_text(cli_pool *pool, const char *text, bool plain); /* a scalar */

/* Plain and empty, ~, null or None (as Python programs write it). */
bool node_is_null(const cli_node *node);

#endif
