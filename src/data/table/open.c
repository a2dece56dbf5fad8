/* A table in any of its forms. */
#include "data/table/table.h"

#include "base/text.h"

lks_status lki_table_open(lki_table *out, lks_context *context, const char *path,
                          const lki_csv_opts *opts)
{
    const bool arrays = lki_text_ends(path, ".npy") || lki_text_ends(path, ".npz");
    return (arrays ? lki_array_table_open : lki_csv_open)(out, context, path, opts);
}
