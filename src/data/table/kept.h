/*
 * What a training made of its table's columns, as a file beside its checkpoints: with it another table becomes samples
 * without the first. Lines of fields between tabs; a tab, line end or backslash in a text stands behind a backslash.
 * Means and deviations are their bits in hexadecimal. The last line has the hash of all before.
 *
 *     lockstep columns 1
 *     fill     0
 *     number   input   column  mean  deviation  standardised  name
 *     texts    input   column  count  name                          then a line for each:  text  word; of sentences there is none
 *     number   target  ...
 *     classes  target  column  count  name                          likewise, of integers: integer  word
 *     end      hash
 */
#ifndef LKI_DATA_TABLE_KEPT_H
#define LKI_DATA_TABLE_KEPT_H

#include "data/table/encode.h"

#define LKI_KEPT_FILE "columns.txt"

lks_status lki_encoding_write(const lki_encoding *encoding, const char *path);
/* Released by lki_encoding_release(), also after a failure. */
lks_status lki_encoding_read(lki_encoding *out, lks_context *context, const char *path);

/* LKS_E_MISMATCH names the first column that is another in `found`, the columns of `path`, than in the training's. */
lks_status lki_encoding_same(const lki_encoding *training, const lki_encoding *found,
                             const char *path);

#endif
