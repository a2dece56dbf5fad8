/* Shapes, types, and tensors of a graph. "Rank" in this library always means a process; a tensor
 * has a number of dimensions (ndim). */
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include <lockstep/context.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LKS_MAX_DIMS 5

typedef enum lks_dtype { LKS_F32, LKS_U8, LKS_I32, LKS_I64 } lks_dtype;

LKS_API size_t lks_dtype_size(lks_dtype dtype);      /* bytes of one element */
LKS_API const char *lks_dtype_name(lks_dtype dtype); /* as safetensors writes it: "F32" */

/* Dimensions without the batch. ndim 0 is one number. Images are height, width, channels. */
typedef struct lks_shape {
    int ndim;
    int64_t dim[LKS_MAX_DIMS];
} lks_shape;

/* LKS_SHAPE(28, 28, 1) */
#ifndef __cplusplus
#define LKS_SHAPE(...)                                                                             \
    ((lks_shape){.ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                \
                 .dim = {__VA_ARGS__}})
#else
extern "C++" {
template <typename... Sizes> constexpr lks_shape lks_shape_of(Sizes... sizes)
{
    static_assert(sizeof...(sizes) <= LKS_MAX_DIMS, "more dimensions than LKS_MAX_DIMS");
    return lks_shape{static_cast<int>(sizeof...(sizes)), {static_cast<int64_t>(sizes)...}};
}
}
#define LKS_SHAPE(...) (lks_shape_of(__VA_ARGS__))
#endif

LKS_API int64_t lks_shape_elements(const lks_shape *shape); /* product of the dimensions */

typedef struct lks_tensor lks_tensor; /* owned by its graph; never freed alone */

LKS_API lks_shape lks_tensor_shape(const lks_tensor *tensor);
LKS_API lks_dtype lks_tensor_dtype(const lks_tensor *tensor);
LKS_API const char *lks_tensor_name(const lks_tensor *tensor); /* of the node that makes it */

#ifdef __cplusplus
}
#endif
#endif
