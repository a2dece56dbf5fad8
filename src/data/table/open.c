/* A table in any of its forms. */
#include "data/table/table.h"

#include <string.h>

static bool ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path), own = strlen(end);
    return length > own && strcmp(path + length - own, end) == 0;
}

lks_status lki_table_open(lki_table *out, lks_context *context, const char *path,
                          const lki_csv_opts *opts)
{
    const bool arrays = ends_with(path, ".npy") || ends_with(path, ".npz");
    return (arrays ? lki_array_table_open : lki_csv_open)(out, context, path, opts);
}
