/* Networks that a configuration calls by name: how keys become the options of lockstep/models.h. */
#ifndef LKI_RECIPE_ZOO_ZOO_H
#define LKI_RECIPE_ZOO_ZOO_H

#include <lockstep/graph.h>

#include "recipe/config.h"
#include "recipe/zoo/list.h"

typedef struct lki_zoo_network {
    const char *name;
    const char *keys; /* of a configuration's "model" that become its options: "hidden dropout" */
    /* Which of model's keys it does not take as they are; NULL: it takes all. */
    lks_status (*check)(const lki_config *config);
    /* *x becomes its output, of so many elements. */
    lks_status (*build)(lks_tensor **x, const lki_config *config, lks_graph *graph,
                        int64_t outputs);
} lki_zoo_network;

#define X(id) extern const lki_zoo_network lki_zoo_##id;
LKI_ZOO_LIST(X)
#undef X

/* NULL: there is none of that number, from 0, or of that name, or the name is NULL. */
const lki_zoo_network *lki_zoo_at(int number);
const lki_zoo_network *lki_zoo_find(const char *name);
/* "mnist_cnn or mlp": what may be expected. */
const char *lki_zoo_names(char *out, size_t size);

#endif
