/* The table of one instruction set. */
#include "backend/cpu/vector/local.h"

#define TABLE(its_name, its_unit)                                                                  \
    {                                                                                              \
        .name = its_name, .lanes = LANES, .element = &LKI_ISA_NAME(lki_vector_element),            \
        .activation = LKI_ISA_NAME(lki_vector_activation),                                         \
        .product = &LKI_ISA_NAME(lki_vector_product),                                              \
        .dropout = &LKI_ISA_NAME(lki_vector_dropout), .pool = &LKI_ISA_NAME(lki_vector_pool),      \
        .norm = &LKI_ISA_NAME(lki_vector_norm),                                                    \
        .layer_norm = &LKI_ISA_NAME(lki_vector_layer_norm),                                        \
        .recurrent = &LKI_ISA_NAME(lki_vector_recurrent),                                          \
        .attention = &LKI_ISA_NAME(lki_vector_attention),                                          \
        .dense = &LKI_ISA_NAME(lki_vector_dense),                                                  \
        .dense_bf16 = &LKI_ISA_NAME(lki_vector_dense_bf16),                                        \
        .block = &LKI_ISA_NAME(lki_vector_block), .conv = &LKI_ISA_NAME(lki_vector_conv),          \
        .first = &LKI_ISA_NAME(lki_vector_first),                                                  \
        .depthwise = &LKI_ISA_NAME(lki_vector_depthwise),                                          \
        .winograd = &LKI_ISA_NAME(lki_vector_winograd), .bf16 = &LKI_ISA_NAME(lki_vector_bf16),    \
        .unit = its_unit,                                                                          \
    }

const lki_vector LKI_ISA_NAME(lki_vector) = TABLE(LKI_ISA_TEXT, LKI_BF16_VECTORS);
#if defined(__AVX512F__)
/* The same loops, but products of bfloat16. */
const lki_vector lki_vector_avx512_bf16 = TABLE("avx512_bf16", LKI_BF16_PAIRS);
const lki_vector lki_vector_amx = TABLE("amx", LKI_BF16_MATRIX);
#endif
