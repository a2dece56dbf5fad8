/* What a model computes, in a few numbers that ranks can compare. */
#ifndef LKI_MODEL_DIGEST_H
#define LKI_MODEL_DIGEST_H

#include <lockstep/model.h>

#include "core/op.h"

/* A node behind those of which `before` is the digest (0: none): its operation, attributes, inputs, output and names. */
uint64_t lki_digest_node(uint64_t before, const lki_node *node);
/* Behind lki_groups_apply(): the optimizer, what is done to gradients before it, and what of each parameter decays, at
 * which rate. */
uint64_t lki_digest_update(const lks_model *model);

#endif
