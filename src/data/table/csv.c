/*
 * Chunks of the file are parsed by threads. A chunk has the records that begin in it:
 *
 *   bytes    |......................|......................|......................|
 *   records  ---------- ------- ---------------- ----- ---------- ------------ ----
 *   chunk     0          0       0                1     1          2            2
 *
 * Where there are quotes, whether a line feed ends a record depends on all that stand before it: they are counted by
 * chunk first. Then the records of each chunk are counted, which says where its cells go, and then they are
 * parsed. Of all that is wrong the first in the file is said: chunks are taken in order, and each that was taken is
 * brought to its end.
 */
#include "data/table/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "data/table/kinds.h"
#include "machine/machine.h"
#include "machine/thread.h"
#include "numeric/decimal.h"

enum { CHUNK = 1 << 20, MOST_THREADS = 64 };

typedef struct chunk {
    const uint8_t *begin; /* its first record; first its first byte */
    bool inside; /* its first byte is between quotes; first whether its own quotes are odd */
    int64_t first, rows;
    lks_status status;
    lks_error error;
} chunk;

typedef struct reader {
    lki_csv csv;
    lki_table *table;
    const uint8_t *body; /* behind the header */
    chunk *chunk;        /* [chunks + 1]; the last one begins at the end */
    int64_t chunks;
    void (*work)(struct reader *, chunk *);
    atomic_int_fast64_t next;
    atomic_bool failed;
    lki_workers *workers; /* NULL: the calling thread alone */
} reader;

/* ---------------------------------------------------------------- messages */

static lks_status fail_count(const reader *r, const uint8_t *record, int64_t found)
{
    char place[LKI_TABLE_PLACE];
    return LKI_FAIL(LKS_E_FORMAT,
                    "%s: has %" PRId64
                    " field%s, expected %d as in the first line; is one missing, "
                    "or has one a '%s' that is not between quotes?",
                    lki_csv_place(r->table, record, place), found, LKI_S(found), r->table->columns,
                    r->csv.separator == '\t' ? "tab" : (char[]){(char)r->csv.separator, 0});
}

/* ---------------------------------------------------------------- cells */

static lks_status read_cell(const reader *r, const uint8_t *record, int column,
                            const lki_field *field, lki_cell *out)
{
    const lki_column_kind kind = r->table->column[column].kind;
    if (kind == LKI_COLUMN_SKIPPED) return LKS_OK;
    if (kind == LKI_COLUMN_NUMBERS) {
        if (lki_decimal_read((const char *)field->text, field->bytes, &out->number)) return LKS_OK;
        out->number = NAN;
        if (lki_csv_field_is_missing(field)) return LKS_OK;
        return lki_csv_fail_field(
            r->table, record, column, field,
            "is no number, expected one as before it; or list the column in data.texts");
    }
    if (lki_csv_field_is_missing(field)) return LKS_OK;
    if (field->bytes > LKI_TEXT_BYTES)
        return lki_csv_fail_field(r->table, record, column, field, "is longer than 65,535 bytes");
    out->text = (uint64_t)(field->text - r->table->file.data) << LKI_TEXT_BITS | field->bytes;
    return LKS_OK;
}

/*
 * A number that fills its field, as most do: where the field ends, or NULL. No number goes beyond `end`, behind which is the end of
 * a line; but that the scan may look there lets it take the record's last numbers in one go, too.
 */
static const uint8_t *read_plain(const reader *r, const uint8_t *at, const uint8_t *end,
                                 lki_cell *out)
{
    const uint8_t *stop = (const uint8_t *)lki_decimal_scan((const char *)at,
                                                            (const char *)r->csv.end, &out->number);
    return stop != NULL && (stop == end || *stop == r->csv.separator) ? stop : NULL;
}

/* The field at *at, which then is where it ends. */
static lks_status read_field(const reader *r, const uint8_t *record, const uint8_t **at,
                             const uint8_t *end, int column, lki_cell *out)
{
    lki_field field;
    if (r->table->column[column].kind == LKI_COLUMN_NUMBERS) {
        const uint8_t *stop = read_plain(r, *at, end, out);
        if (stop != NULL) {
            *at = stop;
            return LKS_OK;
        }
    }
    *at = lki_csv_field(&r->csv, *at, end, &field);
    if (field.wrong != NULL)
        return lki_csv_fail_field(r->table, record, column, &field, field.wrong);
    return read_cell(r, record, column, &field, out);
}

static lks_status read_record(const reader *r, const uint8_t *record, const uint8_t *end,
                              lki_cell *cells)
{
    const int columns = r->table->columns;
    const uint8_t *at = record;
    for (int i = 0; i < columns; i++, at++) {
        LKI_TRY(read_field(r, record, &at, end, i, &cells[i]));
        if (at == end) return i + 1 == columns ? LKS_OK : fail_count(r, record, i + 1);
    }
    return fail_count(r, record, columns + lki_csv_field_count(&r->csv, at, end));
}

/* ---------------------------------------------------------------- chunks */

static void count_quotes(reader *r, chunk *c)
{
    (void)r;
    bool odd = false; /* not the chunk's own, which bytes might be a part of */
    for (const uint8_t *p = c->begin; p < c[1].begin; p++) odd ^= *p == '"';
    c->inside = odd;
}

static void count_rows(reader *r, chunk *c)
{
    for (const uint8_t *at = c->begin, *end; at < c[1].begin; at = lki_csv_next(&r->csv, end)) {
        end = lki_csv_record_end(&r->csv, at, false);
        c->rows += !lki_csv_record_is_empty(at, end);
    }
}

static void read_rows(reader *r, chunk *c)
{
    lki_cell *cells = r->table->cell + c->first * r->table->columns;
    for (const uint8_t *at = c->begin, *end; at < c[1].begin; at = lki_csv_next(&r->csv, end)) {
        end = lki_csv_record_end(&r->csv, at, false);
        if (lki_csv_record_is_empty(at, end)) continue;
        c->status = read_record(r, at, end - (end[-1] == '\r'), cells);
        if (c->status != LKS_OK) {
            c->error = *lks_last_error();
            atomic_store(&r->failed, true);
            return;
        }
        cells += r->table->columns;
    }
}

static void work_on_chunks(void *user, int worker)
{
    reader *r = user;
    (void)worker;
    while (!atomic_load(&r->failed)) {
        const int64_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->chunks) return;
        r->work(r, &r->chunk[i]);
    }
}

static void for_chunks(reader *r, void (*work)(reader *, chunk *))
{
    r->work = work;
    atomic_store(&r->next, 0);
    if (r->workers != NULL)
        lki_workers_run(r->workers, work_on_chunks, r);
    else
        work_on_chunks(r, 0);
}

/* Where a chunk's first record begins, from where its bytes do. */
static const uint8_t *find_record(const reader *r, const chunk *c)
{
    if (c->begin == r->body || (c->begin[-1] == '\n' && !c->inside)) return c->begin;
    return lki_csv_next(&r->csv, lki_csv_record_end(&r->csv, c->begin, c->inside));
}

static void place_chunks(reader *r, size_t bytes)
{
    bool inside = false;
    for (int64_t i = 0; i <= r->chunks; i++)
        r->chunk[i].begin = i < r->chunks ? r->body + (size_t)i * bytes : r->csv.end;
    if (r->csv.quotes) for_chunks(r, count_quotes);
    for (int64_t i = 0; i < r->chunks; i++) {
        const bool odd = r->chunk[i].inside;
        r->chunk[i].inside = inside;
        inside ^= odd;
    }
    for (int64_t i = 0; i < r->chunks; i++) r->chunk[i].begin = find_record(r, &r->chunk[i]);
}

static lks_status parse_chunks(reader *r, size_t bytes)
{
    lki_table *table = r->table;
    void *memory;
    place_chunks(r, bytes);
    for_chunks(r, count_rows);
    for (int64_t i = 0; i < r->chunks; i++) {
        r->chunk[i].first = table->rows;
        table->rows += r->chunk[i].rows;
    }
    if (table->rows == 0)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no rows%s", table->path,
                        table->header ? " behind its header" : "");
    LKI_TRY(lki_alloc(table->context, &memory, lki_table_bytes(table), "the cells of a table"));
    table->cell = memory;
    for_chunks(r, read_rows);
    for (int64_t i = 0; i < r->chunks; i++) {
        if (r->chunk[i].status == LKS_OK) continue;
        lki_error_restore(&r->chunk[i].error);
        return r->chunk[i].status;
    }
    return LKS_OK;
}

static lks_status parse_body(reader *r, const lki_csv_opts *opts)
{
    const size_t bytes = opts->chunk_bytes > 0 ? opts->chunk_bytes : CHUNK;
    lks_context *context = r->table->context;
    void *memory;
    r->chunks = (int64_t)((size_t)(r->csv.end - r->body + (ptrdiff_t)bytes - 1) / bytes);
    const size_t size = lki_times((size_t)r->chunks + 1, sizeof *r->chunk);
    int threads = opts->threads > 0 ? opts->threads : lki_allowed_cpus(NULL, 0);
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > r->chunks) threads = (int)r->chunks;
    if (threads > 1) LKI_TRY(lki_workers_create(&r->workers, context, threads));
    lks_status status = lki_alloc(context, &memory, size, "chunks of a table");
    if (status == LKS_OK) {
        r->chunk = memory;
        status = parse_chunks(r, bytes);
        lki_free(context, memory, size);
    }
    lki_workers_destroy(r->workers);
    return status;
}

/* ---------------------------------------------------------------- header and columns */

/* That of which the first record has most, outside of quotes; a comma where it has none. */
static uint8_t find_separator(const lki_csv *csv, const uint8_t *end)
{
    static const uint8_t all[] = {',', ';', '\t'};
    int64_t count[3] = {0};
    bool inside = false;
    int best = 0;
    for (const uint8_t *p = csv->data; p < end; p++) {
        inside ^= *p == '"';
        for (int i = 0; i < 3; i++) count[i] += !inside && *p == all[i];
    }
    for (int i = 1; i < 3; i++)
        if (count[i] > count[best]) best = i;
    return all[best];
}

static bool has_number(const lki_csv *csv, const uint8_t *at, const uint8_t *end)
{
    lki_field field;
    double number;
    for (;; at++) {
        at = lki_csv_field(csv, at, end, &field);
        if (lki_decimal_read((const char *)field.text, field.bytes, &number)) return true;
        if (at == end) return false;
    }
}

/* A field with its doubled quotes made single, or the column's number where that says nothing. */
static lks_status name_column(lki_table *table, int column, const lki_field *field)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&table->names, &memory, field->bytes + 16, "the name of a column"));
    if (lki_csv_unquote(memory, field->text, field->bytes) == memory)
        snprintf(memory, 16, "%d", column);
    table->column[column].name = memory;
    return LKS_OK;
}

static lks_status name_columns(reader *r, const uint8_t *at, const uint8_t *end)
{
    lki_table *table = r->table;
    const lki_field none = {.text = at};
    const int64_t count = lki_csv_field_count(&r->csv, at, end);
    void *memory;
    if (count < 0 || count > LKI_TABLE_COLUMNS)
        return LKI_FAIL(LKS_E_FORMAT, "'%s': its first line %s", table->path,
                        count < 0 ? "has quotes that do not enclose a field"
                                  : "has more than 65,536 fields");
    LKI_TRY(lki_arena_alloc(&table->names, &memory, (size_t)count * sizeof(lki_column), "columns"));
    table->column = memory;
    table->columns = (int)count;
    for (int i = 0; i < table->columns; i++, at++) {
        lki_field field;
        at = lki_csv_field(&r->csv, at, end, &field);
        LKI_TRY(name_column(table, i, table->header ? &field : &none));
    }
    return LKS_OK;
}

/* ---------------------------------------------------------------- opening */

static lks_status read_all(reader *r, const lki_csv_opts *opts)
{
    static const uint8_t mark[] = {0xEF, 0xBB, 0xBF};
    lki_table *table = r->table;
    const uint8_t *data = table->file.data;
    const size_t bytes = table->file.bytes;
    if (bytes == 0) return LKI_FAIL(LKS_E_FORMAT, "'%s' is empty", table->path);
    if (bytes >= 2 && (data[0] ^ data[1]) == (0xFE ^ 0xFF) && (data[0] == 0xFF || data[0] == 0xFE))
        return LKI_FAIL(LKS_E_FORMAT, "'%s' is text of 16 bits; save it as UTF-8", table->path);
    if (memchr(data, '\n', bytes) == NULL && memchr(data, '\r', bytes) != NULL)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s' has carriage returns in the place of line feeds; save it with the line "
            "ends of Unix or Windows",
            table->path);
    const size_t skipped = bytes >= 3 && memcmp(data, mark, 3) == 0 ? 3 : 0;
    r->csv = (lki_csv){
        .data = data + skipped, .end = data + bytes, .quotes = memchr(data, '"', bytes) != NULL};
    const uint8_t *at = r->csv.data, *end = at;
    while (at < r->csv.end &&
           lki_csv_record_is_empty(at, end = lki_csv_record_end(&r->csv, at, false)))
        at = lki_csv_next(&r->csv, end);
    if (at == r->csv.end) return LKI_FAIL(LKS_E_FORMAT, "'%s' is empty", table->path);
    r->csv.data = at;
    r->csv.separator = opts->separator != 0 ? (uint8_t)opts->separator
                                            : find_separator(&r->csv, end);
    table->separator = (char)r->csv.separator;
    table->header = opts->header == LKI_HEADER_YES ||
                    (opts->header == LKI_HEADER_AUTO && !has_number(&r->csv, at, end));
    r->body = table->header ? lki_csv_next(&r->csv, end) : at;
    LKI_TRY(name_columns(r, at, end));
    LKI_TRY(lki_csv_kinds(table, &r->csv, r->body, opts));
    return parse_body(r, opts);
}

lks_status lki_csv_open(lki_table *out, lks_context *context, const char *path,
                        const lki_csv_opts *opts)
{
    *out = (lki_table){.context = context, .names.context = context};
    reader r = {.table = out};
    LKI_TRY(lki_arena_string(&out->names, &out->path, path));
    LKI_TRY(lki_file_open(&out->file, context, path));
    const unsigned saved = lki_float_enter();
    const lks_status status = read_all(&r, opts);
    lki_float_leave(saved);
    return status;
}
