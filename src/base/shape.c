#include "base/shape.h"

#include <stdio.h>

const char *lki_shape_print(const lks_shape *shape, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "%s", shape->ndim == 0 ? "one number" : "");
    for (int i = 0; i < shape->ndim && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i > 0 ? "x" : "",
                                 (long long)shape->dim[i]);
    return buffer;
}

bool lki_shape_equal(const lks_shape *a, const lks_shape *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i] != b->dim[i]) return false;
    }
    return true;
}
