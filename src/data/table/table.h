/*
 * A table of numbers and texts in memory, and its reader for CSV files: RFC 4180 and what people have besides. A
 * record is a row; its fields are parted by commas, semicolons or tabs; a field may stand in quotes, and has then
 * separators, line ends and doubled quotes inside. Lines end with LF or CRLF; empty ones are left out. Spaces around a
 * field are no part of it. A UTF-8 byte order mark is passed over, and gzip is inflated.
 *
 * Or a NumPy file: of .npy the columns of its one array, called by their numbers; of .npz those of all its members in
 * their order, each with as many rows: one dimension is a column of the member's name, two are its columns x.0, x.1, ...
 *
 * A column has numbers or texts, as its first value says that is not missing. A missing value is an empty field,
 * or NA, N/A, NaN, null or None in any case.
 */
#ifndef LKI_DATA_TABLE_TABLE_H
#define LKI_DATA_TABLE_TABLE_H

#include "base/file.h"
#include "base/memory.h"

typedef enum lki_column_kind {
    LKI_COLUMN_NUMBERS,
    LKI_COLUMN_TEXTS,
    LKI_COLUMN_SKIPPED
} lki_column_kind;

typedef struct lki_column {
    const char *name; /* of the header; its number from 0 where there is none */
    lki_column_kind kind;
} lki_column;

/* A number (NaN: missing), or where a text stands in the file: offset * 2^16 + bytes, without the quotes around it,
 * and with those inside still doubled (0: missing). */
typedef union lki_cell {
    double number;
    uint64_t text;
} lki_cell;

typedef struct lki_table {
    lks_context *context;
    lki_file file;
    const char *path; /* for messages */
    lki_arena names;
    int columns;
    lki_column *column; /* [columns] */
    int64_t rows;
    lki_cell *cell; /* [rows][columns]; those of columns that are skipped are 0 */
    char separator;
    bool header;
} lki_table;

typedef enum lki_header { LKI_HEADER_AUTO, LKI_HEADER_YES, LKI_HEADER_NO } lki_header;

typedef struct lki_csv_opts {
    char separator;    /* 0: of comma, semicolon and tab that which the first record has most of */
    lki_header header; /* AUTO: the first record is one unless a field of it is a number */
    const char *const
        *texts; /* columns that have texts even where these look like numbers: by name or number */
    int text_count;
    const char *const *skips; /* columns that are not looked at */
    int skip_count;
    bool lenient;       /* columns of these lists may be missing */
    int threads;        /* 0: as many as this process has cores; never changes a bit, or an error */
    size_t chunk_bytes; /* what a thread takes at a time; 0: the usual; likewise */
} lki_csv_opts;

enum { LKI_TABLE_COLUMNS = 65536, LKI_TEXT_BITS = 16, LKI_TEXT_BYTES = (1 << LKI_TEXT_BITS) - 1 };

/* Reads all of a file, one of NumPy's where it ends with .npy or .npz. Errors name file, line and column. Closed by
 * lki_table_close(), also after a failure. */
lks_status lki_table_open(lki_table *out, lks_context *context, const char *path,
                          const lki_csv_opts *opts);
lks_status lki_csv_open(lki_table *out, lks_context *context, const char *path,
                        const lki_csv_opts *opts);
void lki_table_close(lki_table *table);         /* zeroed is fine */
size_t lki_table_bytes(const lki_table *table); /* of its cells */

lks_status lki_array_table_open(lki_table *out, lks_context *context, const char *path,
                                const lki_csv_opts *opts);

/* The column of that name, or else number: from 0, or -1 for the last and so on. LKS_E_INVALID where there is none, or
 * more than one of that name. */
lks_status lki_table_find(int *out, const lki_table *table, const char *name);

static inline lki_cell lki_table_cell(const lki_table *table, int64_t row, int column)
{
    return table->cell[row * table->columns + column];
}

/* The text of a cell, with quotes inside doubled still. */
const char *lki_table_text(const lki_table *table, lki_cell cell, size_t *bytes);

/* "the.csv, line 7", where row `row` begins, for messages, or "the.npy, row 6" from 0; returns `out`. Walks through a
 * CSV file. */
enum { LKI_TABLE_PLACE = 320 };
const char *lki_table_place(const lki_table *table, int64_t row, char out[LKI_TABLE_PLACE]);

#endif
