/* Element types and shapes. */
#include <lockstep/tensor.h>

size_t lks_dtype_size(lks_dtype dtype)
{
    switch (dtype) {
    case LKS_F32:
        return 4;
    case LKS_U8:
        return 1;
    case LKS_I32:
        return 4;
    case LKS_I64:
        return 8;
    }
    return 0;
}

const char *lks_dtype_name(lks_dtype dtype)
{
    switch (dtype) {
    case LKS_F32:
        return "F32";
    case LKS_U8:
        return "U8";
    case LKS_I32:
        return "I32";
    case LKS_I64:
        return "I64";
    }
    return "?";
}

int64_t lks_shape_elements(const lks_shape *shape)
{
    int64_t elements = 1;
    if (shape == NULL) return 0;
    for (int i = 0; i < shape->ndim; i++) elements *= shape->dim[i];
    return elements;
}
