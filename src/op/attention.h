/* What kernels of attention share: its sizes. */
#ifndef LKI_OP_ATTENTION_H
#define LKI_OP_ATTENTION_H

#include "core/op.h"

typedef struct lki_attention {
    int64_t positions, width; /* of an element of the input: (heads + 2 kv_heads) head_width */
    int64_t heads, kv_heads, group, head_width; /* group: heads of a kv head */
    float scale;                                /* the float nearest to 1 / sqrt(head_width) */
    bool causal, masked;
    int32_t padding;
    float dropout, rotary;
} lki_attention;

lki_attention lki_attention_of(const lki_node *node);

#endif
