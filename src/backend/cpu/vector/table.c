/* The table of one instruction set. */
#include "backend/cpu/vector/local.h"

const lki_vector LKI_ISA_NAME(lki_vector) = {
    .name = LKI_ISA_TEXT,
    .lanes = LANES,
    .element = &LKI_ISA_NAME(lki_vector_element),
    .activation = LKI_ISA_NAME(lki_vector_activation),
    .product = &LKI_ISA_NAME(lki_vector_product),
    .dropout = &LKI_ISA_NAME(lki_vector_dropout),
    .pool = &LKI_ISA_NAME(lki_vector_pool),
    .norm = &LKI_ISA_NAME(lki_vector_norm),
    .layer_norm = &LKI_ISA_NAME(lki_vector_layer_norm),
    .dense = &LKI_ISA_NAME(lki_vector_dense),
    .block = &LKI_ISA_NAME(lki_vector_block),
    .conv = &LKI_ISA_NAME(lki_vector_conv),
    .first = &LKI_ISA_NAME(lki_vector_first),
    .depthwise = &LKI_ISA_NAME(lki_vector_depthwise),
    .winograd = &LKI_ISA_NAME(lki_vector_winograd),
};
