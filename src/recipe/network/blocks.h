/* Blocks of model.blocks: lists of layers that model.layers has several times, with parameters. */
#ifndef LKI_RECIPE_NETWORK_BLOCKS_H
#define LKI_RECIPE_NETWORK_BLOCKS_H

#include "recipe/config.h"

/* `- block: basic`, with what stands beside it. */
typedef struct lki_block_use {
    const char *block, *name; /* name: NULL where none is given */
    int64_t repeat;
    const lki_yaml *body, *with; /* a list; a map or NULL */
} lki_block_use;

/* Whether an entry of a list is a block, not a layer. */
bool lki_is_block(const lki_yaml *entry);

/* Reads the entry, and finds the block and every parameter that it has. `where` is the entry's. */
LKS_MUSTUSE lks_status lki_block_read(lki_block_use *out, lki_config *config, const lki_yaml *entry,
                                      const char *where);

/* The block's layers with values in the place of parameters. `room` is how many more nodes of YAML such copies may
 * have, over all blocks. */
LKS_MUSTUSE lks_status lki_block_fill(const lki_yaml **out, lki_config *config,
                                      const lki_block_use *use, const char *where, int64_t *room);

/* The name of repetition `number`, from 0, of what is called `name`: "layer1.2" is number 2 of "layer1.0". */
const char *lki_block_name(lki_heap *heap, const char *name, int64_t number);
/* Whether a name with `repeat` beside it ends in a number to count on. */
LKS_MUSTUSE lks_status lki_block_check_name(const char *name, const char *where);

/* The list that the first layer of this one stands in: itself, or that of a block that it begins with. */
const lki_yaml *lki_block_first(const lki_config *config, const lki_yaml *list);

/* Whether each is used by a layer or another block. */
LKS_MUSTUSE lks_status lki_blocks_used(lki_config *config);

#endif
