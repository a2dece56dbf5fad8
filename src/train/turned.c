#include "train/turned.h"

#include <string.h>

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), own = strlen(end);
    return length >= own && strcmp(name + length - own, end) == 0;
}

/* Queries, keys and values are more outputs than there are inputs. */
static bool is_turned(const lks_tensor_file *file)
{
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        if (ends_with(entry.name, ".attn.c_attn.weight") && entry.shape.ndim == 2)
            return entry.shape.dim[0] < entry.shape.dim[1];
    }
    return false;
}

bool lki_turned(const lks_tensor_file *file, const char *name)
{
    return (ends_with(name, ".c_attn.weight") || ends_with(name, ".c_proj.weight") ||
            ends_with(name, ".c_fc.weight")) &&
           is_turned(file);
}

void lki_turn(const lks_shape *shape, const float *given, float *out)
{
    const int64_t rows = shape->dim[0], columns = shape->dim[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) out[r * columns + c] = given[c * rows + r];
}
