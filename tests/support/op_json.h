/* Golden files, and operations as they describe them: {"op":"conv2d","in":[6,5,3],"filters":4, ...}. */
#ifndef LKT_OP_JSON_H
#define LKT_OP_JSON_H

#include <jansson.h>

#include "support/ops.h"

/* A golden file of the sources, "tests/op/golden/ops.json"; a failure of the test if there is none. */
json_t *lkt_json_load(const char *path);

int64_t lkt_json_integer(const json_t *object, const char *key); /* 0 where there is none */
double lkt_json_number(const json_t *object, const char *key);   /* likewise */

/* 32 bits for each i: the numbers that golden files leave out, as tools/goldens/accuracy.py has them. */
uint32_t lkt_hashed(uint32_t i, uint32_t stream);

/* Adds an input of the shape "in" and the operation to the graph; returns its output. */
lks_tensor *lkt_json_op(lks_graph *graph, const json_t *test);

#endif
