#include "data/table/kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "numeric/decimal.h"

/* A field as it can be shown. */
static const char *shown(const lki_field *field, char out[48])
{
    size_t n = field->bytes < 40 ? field->bytes : 40;
    for (size_t i = 0; i < n; i++)
        out[i] = field->text[i] < ' ' || field->text[i] == 127 ? '?' : (char)field->text[i];
    snprintf(out + n, 48 - n, "%s", field->bytes > n ? "..." : "");
    return out;
}

const char *lki_csv_place(const lki_table *table, const uint8_t *at, char out[LKI_TABLE_PLACE])
{
    int64_t line = 1;
    for (const uint8_t *p = table->file.data; (p = memchr(p, '\n', (size_t)(at - p))) != NULL; p++)
        line++;
    snprintf(out, LKI_TABLE_PLACE, "%.250s, line %" PRId64, table->path, line);
    return out;
}

lks_status lki_csv_fail_field(const lki_table *table, const uint8_t *record, int column,
                              const lki_field *field, const char *says)
{
    char place[LKI_TABLE_PLACE], text[48];
    return LKI_FAIL(LKS_E_FORMAT, "%s: column '%.60s' has '%s', which %s",
                    lki_csv_place(table, record, place), table->column[column].name,
                    shown(field, text), says);
}

/* What is known of a column's kind: of texts first, whether numbers alone come below. */
typedef struct kind {
    bool settled;
    const uint8_t *record; /* the first text's; NULL: no value so far */
    lki_field field;
    int numbers; /* below it */
} kind;

/* So many numbers make a text above them a mistake; where no more values follow. */
enum { NUMBERS_BELOW = 8, FEW_NUMBERS = 3 };

static lks_status fail_kind(const lki_table *table, int column, const kind *k)
{
    return lki_csv_fail_field(
        table, k->record, column, &k->field,
        "is no number, but the values below it are; correct it, leave it empty if it is missing, "
        "or list the column in data.texts");
}

/* The column's next value. `lenient`: who asks for a number will find no text. */
static lks_status settle_kind(lki_table *table, const uint8_t *record, int column,
                              const lki_field *field, kind *k, bool lenient)
{
    double number;
    const bool is_number = lki_decimal_read((const char *)field->text, field->bytes, &number);
    if (k->record != NULL) {
        k->settled = !is_number;
        k->numbers += is_number;
        return k->numbers < NUMBERS_BELOW ? LKS_OK : fail_kind(table, column, k);
    }
    k->settled = is_number || lenient;
    k->record = record;
    k->field = *field;
    if (!is_number) table->column[column].kind = LKI_COLUMN_TEXTS;
    if (!lenient && lki_csv_field_has_comma(field))
        return lki_csv_fail_field(table, record, column, field,
                                  "has a comma where a number has none, expected one such as "
                                  "1234.5; or list the column in data.texts");
    return LKS_OK;
}

/* By the first value of each that is not missing, and of texts by those below it. */
static lks_status settle_kinds(lki_table *table, const lki_csv *csv, const uint8_t *body,
                               kind *kinds, bool lenient)
{
    int open = 0;
    for (int i = 0; i < table->columns; i++) open += !kinds[i].settled;
    for (const uint8_t *at = body, *end; open > 0 && at < csv->end; at = lki_csv_next(csv, end)) {
        lki_field field;
        const uint8_t *record = at;
        end = lki_csv_record_end(csv, at, false);
        for (int i = 0; i < table->columns; i++, at++) {
            at = lki_csv_field(csv, at, end, &field);
            if (!kinds[i].settled && !lki_csv_field_is_missing(&field)) {
                LKI_TRY(settle_kind(table, record, i, &field, &kinds[i], lenient));
                open -= kinds[i].settled;
            }
            if (at == end) break;
        }
    }
    for (int i = 0; i < table->columns; i++)
        if (!kinds[i].settled && kinds[i].numbers >= FEW_NUMBERS)
            return fail_kind(table, i, &kinds[i]);
    return LKS_OK;
}

lks_status lki_csv_kinds(lki_table *table, const lki_csv *csv, const uint8_t *body,
                         const lki_csv_opts *opts)
{
    void *memory;
    int column;
    LKI_TRY(
        lki_arena_alloc(&table->names, &memory, (size_t)table->columns * sizeof(kind), "columns"));
    kind *kinds = memory;
    for (int k = 0; k < opts->text_count + opts->skip_count; k++) {
        const bool text = k < opts->text_count;
        const char *name = text ? opts->texts[k] : opts->skips[k - opts->text_count];
        const lks_status status = lki_table_find(&column, table, name);
        if (status != LKS_OK && opts->lenient) continue;
        LKI_TRY(status);
        table->column[column].kind = text ? LKI_COLUMN_TEXTS : LKI_COLUMN_SKIPPED;
        kinds[column].settled = true;
    }
    return settle_kinds(table, csv, body, kinds, opts->lenient);
}
