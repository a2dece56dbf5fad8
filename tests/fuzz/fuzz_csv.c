/*
 * Tables in CSV files. Input: how a chunk is cut and what the options are (one byte), and a file, which is parsed by one
 * thread in one piece, and once more by two in chunks: cells or errors must be the same.
 */
#include <math.h>
#include <string.h>

#include "data/table/table.h"
#include "fuzz/fuzz.h"

static void check_cells(const lki_table *table)
{
    size_t bytes;
    for (int64_t i = 0; i < table->rows; i++)
        for (int c = 0; c < table->columns; c++) {
            const lki_cell cell = table->cell[i * table->columns + c];
            const lki_column_kind kind = table->column[c].kind;
            if (kind == LKI_COLUMN_NUMBERS) FUZZ_CHECK(!isinf(cell.number));
            if (kind != LKI_COLUMN_TEXTS) continue;
            const char *text = lki_table_text(table, cell, &bytes);
            FUZZ_CHECK(text >= (const char *)table->file.data);
            FUZZ_CHECK(text + bytes <= (const char *)table->file.data + table->file.bytes);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    const char *path = fuzz_file(0, data + 1, bytes - 1);
    const char *const first[] = {"0"};
    const lki_csv_opts whole = {.header = (lki_header)(data[0] % 3),
                                .texts = first,
                                .text_count = data[0] / 4 % 2,
                                .threads = 1};
    lki_csv_opts cut = whole;
    cut.threads = 2;
    cut.chunk_bytes = 1 + data[0] / 8;
    lki_table a, b;
    lks_error error = {0};
    char place[LKI_TABLE_PLACE];
    const lks_status status = lki_csv_open(&a, NULL, path, &whole);
    if (status != LKS_OK) {
        fuzz_check_failure(status);
        error = *lks_last_error();
    }
    FUZZ_CHECK(lki_csv_open(&b, NULL, path, &cut) == status);
    if (status == LKS_OK) {
        FUZZ_CHECK(a.rows > 0 && a.rows == b.rows && a.columns == b.columns);
        FUZZ_CHECK(memcmp(a.cell, b.cell, lki_table_bytes(&a)) == 0);
        check_cells(&a);
        FUZZ_CHECK(strstr(lki_table_place(&a, a.rows - 1, place), "line ") != NULL);
    } else {
        FUZZ_CHECK(strcmp(error.message, lks_last_error()->message) == 0);
    }
    lki_table_close(&a);
    lki_table_close(&b);
    return 0;
}
