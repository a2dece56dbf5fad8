/* What a network is beside its function: one file for each, a line in lockstep/models.h, which has both. */
#ifndef LKI_MODELS_ZOO_H
#define LKI_MODELS_ZOO_H

#include <lockstep/models.h>

#include "core/attribute.h"

typedef struct lki_zoo_network {
    const char *name;
    size_t bytes;   /* of its options; */
    size_t outputs; /* where in them the number of outputs is, an int64_t, which the data says; */
    lki_attributes
        attributes; /* of all others: a configuration's "model" has keys of their names */
    /* Its output for x. */
    lks_tensor *(*build)(lks_graph *graph, lks_tensor *x, const void *opts);
} lki_zoo_network;

#define X(name) extern const lki_zoo_network lki_zoo_##name;
LKS_NETWORKS(X)
#undef X

#define LKI_ZOO_WORD(name) ", " #name
/* "mnist_cnn, mlp", and a text behind it. */
#define LKI_ZOO_WORDS(text) (&(LKS_NETWORKS(LKI_ZOO_WORD) text)[2])

/* NULL: there is none of that number, from 0, or of that name, or the name is NULL. */
const lki_zoo_network *lki_zoo_at(int number);
const lki_zoo_network *lki_zoo_find(const char *name);
/* "mnist_cnn or mlp": what may be expected. */
const char *lki_zoo_names(char *out, size_t size);

#endif
