/* The block that transformers of the zoo and lists of layers are built of. */
#ifndef LKI_MODELS_TRANSFORMER_H
#define LKI_MODELS_TRANSFORMER_H

#include "models/layers.h"

/* What names of its layers are, behind that of the block and a point. */
typedef struct lki_transformer_names {
    const char *norm[2], *qkv, *out, *up, *gate, *down;
} lki_transformer_names;

/* What its blocks have in common. */
typedef struct lki_transformer {
    lks_graph *graph;
    lks_transformer_opts opts; /* with defaults filled in by lki_transformer_fill() */
    const lki_transformer_names *names;
    lks_tensor *tokens; /* among which padding is looked for; NULL: nothing is masked */
} lki_transformer;

/* Those of lks_encoder(), lks_vit() and lks_transformer_block(). */
extern const lki_transformer_names lki_transformer_own_names;

/* Replaces zeros by defaults; the width is known. */
void lki_transformer_fill(lks_transformer_opts *opts);

/* One block behind x, whose channels are the width; "blocks.0" is its name. */
lks_tensor *lki_transformer_block(const lki_transformer *t, lks_tensor *x, const char *name);

/* What stands in front of blocks and behind them, too. A weight starts with `scale` as deviation. */
lks_tensor *lki_transformer_norm(const lki_transformer *t, lks_tensor *x, const char *name);
lks_tensor *lki_transformer_dense(const lki_transformer *t, lks_tensor *x, const char *name,
                                  int64_t units, double scale);
lks_tensor *lki_transformer_drop(const lki_transformer *t, lks_tensor *x);

/* The deviation of all weights but those of what is added: GPT-2's. */
#define LKI_TRANSFORMER_SCALE 0.02

#endif
