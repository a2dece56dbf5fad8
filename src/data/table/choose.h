/* Which columns of a table are inputs and targets. */
#ifndef LKI_DATA_TABLE_CHOOSE_H
#define LKI_DATA_TABLE_CHOOSE_H

#include "data/table/encode.h"

/* Fills in e->input and e->target, whose names are the table's; LKS_E_INVALID says which column cannot be what. */
lks_status lki_encoding_choose(lki_encoding *e, const lki_table *table,
                               const lki_encoding_opts *opts);

#endif
