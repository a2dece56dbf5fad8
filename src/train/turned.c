#include "train/turned.h"

#include "base/text.h"

/* Queries, keys and values are more outputs than there are inputs. */
static bool is_turned(const lks_tensor_file *file)
{
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        if (lki_text_ends(entry.name, ".attn.c_attn.weight") && entry.shape.ndim == 2)
            return entry.shape.dim[0] < entry.shape.dim[1];
    }
    return false;
}

bool lki_turned(const lks_tensor_file *file, const char *name)
{
    return (lki_text_ends(name, ".c_attn.weight") || lki_text_ends(name, ".c_proj.weight") ||
            lki_text_ends(name, ".c_fc.weight")) &&
           is_turned(file);
}

void lki_turn(const lks_shape *shape, const float *given, float *out)
{
    const int64_t rows = shape->dim[0], columns = shape->dim[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) out[r * columns + c] = given[c * rows + r];
}
