/* The table of one instruction set. */
#include "backend/cpu/vector/local.h"

#define TABLE(its_name, has_matrix)                                                                \
    {                                                                                              \
        .name = its_name, .lanes = LANES, .element = &LKI_ISA_NAME(lki_vector_element),            \
        .activation = LKI_ISA_NAME(lki_vector_activation),                                         \
        .product = &LKI_ISA_NAME(lki_vector_product),                                              \
        .dropout = &LKI_ISA_NAME(lki_vector_dropout), .pool = &LKI_ISA_NAME(lki_vector_pool),      \
        .norm = &LKI_ISA_NAME(lki_vector_norm),                                                    \
        .layer_norm = &LKI_ISA_NAME(lki_vector_layer_norm),                                        \
        .dense = &LKI_ISA_NAME(lki_vector_dense),                                                  \
        .dense_bf16 = &LKI_ISA_NAME(lki_vector_dense_bf16),                                        \
        .block = &LKI_ISA_NAME(lki_vector_block), .conv = &LKI_ISA_NAME(lki_vector_conv),          \
        .first = &LKI_ISA_NAME(lki_vector_first),                                                  \
        .depthwise = &LKI_ISA_NAME(lki_vector_depthwise),                                          \
        .winograd = &LKI_ISA_NAME(lki_vector_winograd), .bf16 = &LKI_ISA_NAME(lki_vector_bf16),    \
        .matrix = has_matrix,                                                                      \
    }

const lki_vector LKI_ISA_NAME(lki_vector) = TABLE(LKI_ISA_TEXT, false);
#if defined(__AVX512F__)
const lki_vector lki_vector_amx = TABLE("amx", true); /* the same loops, but products of bfloat16 */
#endif
