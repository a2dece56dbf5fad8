/* Which columns of CSV text are numbers, and which are texts; and how a field that is wrong is told. */
#ifndef LKI_DATA_TABLE_KINDS_H
#define LKI_DATA_TABLE_KINDS_H

#include "data/table/record.h"
#include "data/table/table.h"

/* "table.csv, line 3", of the record at `at`. */
const char *lki_csv_place(const lki_table *table, const uint8_t *at, char out[LKI_TABLE_PLACE]);
/* "table.csv, line 3: column 'x' has 'y', which ..." */
lks_status lki_csv_fail_field(const lki_table *table, const uint8_t *record, int column,
                              const lki_field *field, const char *says);

/* Of all columns, by what is in the records from `body` on, and what the options say. */
lks_status lki_csv_kinds(lki_table *table, const lki_csv *csv, const uint8_t *body,
                         const lki_csv_opts *opts);

#endif
