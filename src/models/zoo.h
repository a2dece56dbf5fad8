/* What a network is beside its function: a line in lockstep/models.h, and a constant in the file of its
 * family. */
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
    lks_tensor *(*build)(const struct lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                         const void *opts);
    const void *variant; /* what its family makes of it */
    const char *what;    /* a few words */
    lks_shape image;     /* what it was published for, */
    int64_t vocabulary;  /* of tokens, whose positions `image` has; 0: floats */
    int64_t classes;     /* and with how many outputs, */
    bool by_position;    /* at each position */
} lki_zoo_network;

/* Published image sizes. */
#define LKI_ZOO_IMAGENET                                                                           \
    {                                                                                              \
        .ndim = 3, .dim = { 224, 224, 3 }                                                          \
    }
#define LKI_ZOO_CIFAR                                                                              \
    {                                                                                              \
        .ndim = 3, .dim = { 32, 32, 3 }                                                            \
    }
#define LKI_ZOO_MNIST                                                                              \
    {                                                                                              \
        .ndim = 3, .dim = { 28, 28, 1 }                                                            \
    }

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
enum { LKI_ZOO_NAMES_SIZE = 400 };
const char *lki_zoo_names(char *out, size_t size);

#endif
