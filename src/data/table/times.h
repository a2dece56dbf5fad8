/*
 * The times of a series: what its file has in a column of times, and the time behind its last row.
 *
 * A column of times is one of texts, each of which is a date with or without a time of day in one form: 2016-07-01 00:00:00,
 * 2016-07-01T00:00, 1990/1/1 0:00, 2020-01. The first such column of a table is meant. Steps are constant where each is as
 * many seconds (no clock is put forward or back), or as many months on the same day at the same time of day.
 *
 * Or it is named, and has such dates or numbers: seconds since 1970, hours 0, 1, 2, ... Their steps are constant where each
 * is exactly as much in decimals, and more than nothing.
 *
 * Times that go back are reported, in a warning: rows are taken in their order all the same.
 */
#ifndef LKI_DATA_TABLE_TIMES_H
#define LKI_DATA_TABLE_TIMES_H

#include "data/table/table.h"

/* [rows + 1] texts in the arena, as the file has them; the last is that of the row behind all, NULL where steps are not
 * constant. NULL: the table has no times. `name`: of their column, which was opened as one of texts, and may be missing in the
 * table; NULL: the first of dates. LKS_E_FORMAT: it has something else; LKS_E_NOMEM. */
LKS_MUSTUSE lks_status lki_times_of(const char *const **out, lki_arena *arena,
                                    const lki_table *table, const char *name);

#endif
