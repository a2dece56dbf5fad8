#include "data/table/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "data/table/record.h"

size_t lki_table_bytes(const lki_table *table)
{
    return lki_times(lki_times((size_t)table->rows, (size_t)table->columns), sizeof(lki_cell));
}

void lki_table_close(lki_table *table)
{
    if (table->cell != NULL) lki_free(table->context, table->cell, lki_table_bytes(table));
    lki_arena_release(&table->names);
    lki_file_close(&table->file);
    *table = (lki_table){0};
}

lks_status lki_table_find(int *out, const lki_table *table, const char *name)
{
    char *end;
    int found = 0;
    *out = -1;
    for (int i = 0; i < table->columns; i++) {
        if (strcmp(table->column[i].name, name) != 0) continue;
        *out = i;
        found++;
    }
    if (found == 1) return LKS_OK;
    if (found > 1)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s' has %d columns '%.60s'; give the column's number, from 0",
                        table->path, found, name);
    const long number = strtol(name, &end, 10);
    if (*name == '\0' || *end != '\0' || number < -table->columns || number >= table->columns)
        return LKI_FAIL(
            LKS_E_INVALID,
            "'%s' has no column '%.60s', expected the name of one, such as '%.60s', or a "
            "number from 0 to %d",
            table->path, name, table->column[0].name, table->columns - 1);
    *out = (int)(number < 0 ? number + table->columns : number);
    return LKS_OK;
}

const char *lki_table_text(const lki_table *table, lki_cell cell, size_t *bytes)
{
    *bytes = (size_t)(cell.text & LKI_TEXT_BYTES);
    return (const char *)table->file.data + (cell.text >> LKI_TEXT_BITS);
}

const char *lki_table_place(const lki_table *table, int64_t row, char out[LKI_TABLE_PLACE])
{
    if (table->file.data == NULL) { /* arrays, which are closed once they are read */
        snprintf(out, LKI_TABLE_PLACE, "%.250s, row %" PRId64, table->path, row);
        return out;
    }
    const uint8_t *data = table->file.data, *end = data + table->file.bytes, *at = data;
    const lki_csv csv = {.end = end, .quotes = memchr(data, '"', table->file.bytes) != NULL};
    int64_t line = 1;
    for (row += table->header; at < end; at++) {
        const uint8_t *stop = lki_csv_record_end(&csv, at, false);
        if (!lki_csv_record_is_empty(at, stop) && row-- == 0) break;
        for (; at < stop; at++) line += *at == '\n';
        line++;
    }
    snprintf(out, LKI_TABLE_PLACE, "%.250s, line %" PRId64, table->path, line);
    return out;
}
