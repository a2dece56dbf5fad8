/* Tables that are NumPy's arrays. What an array has becomes cells, and the file is closed again. */
#include "data/table/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "data/numpy/arrays.h"
#include "data/numpy/zip.h"

typedef struct reader {
    lki_table *table;
    int at; /* the column that comes next */
} reader;

/* Rows and columns of an array: of one dimension it is a column. */
static lks_status measure(const lki_table *table, const lki_array *array, int64_t *columns)
{
    const lki_npy *npy = &array->npy;
    *columns = npy->ndim == 2 ? npy->dim[1] : 1;
    if (npy->ndim != 1 && npy->ndim != 2)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has %d dimensions, expected rows and columns",
                        array->name, npy->ndim);
    if (table->columns > 0 && npy->dim[0] != table->rows)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %" PRId64 " rows, but what stands before it has %" PRId64
                        "; a table's columns have equally many",
                        array->name, npy->dim[0], table->rows);
    if (*columns <= LKI_TABLE_COLUMNS - table->columns) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT, "'%s' has %" PRId64 " columns, expected at most %d in a table",
                    array->name, *columns, LKI_TABLE_COLUMNS);
}

static lks_status count_array(reader *r, const lki_array *array, const char *name)
{
    int64_t columns;
    (void)name;
    LKI_TRY(measure(r->table, array, &columns));
    r->table->rows = array->npy.dim[0];
    r->table->columns += (int)columns;
    return LKS_OK;
}

/* Cells of the next columns. They are called by `name` and their numbers; NULL: by their numbers. */
static lks_status take_array(reader *r, const lki_array *array, const char *name)
{
    const lki_npy *npy = &array->npy;
    const int columns = npy->ndim == 2 ? (int)npy->dim[1] : 1;
    lki_table *table = r->table;
    int64_t stride[LKI_NPY_DIMS];
    lki_npy_strides(npy, stride);
    for (int c = 0; c < columns; c++) {
        char text[LKI_NUMPY_NAME + 16];
        if (name == NULL)
            snprintf(text, sizeof text, "%d", c);
        else if (columns == 1)
            snprintf(text, sizeof text, "%s", name);
        else
            snprintf(text, sizeof text, "%s.%d", name, c);
        table->column[r->at + c].kind = LKI_COLUMN_NUMBERS;
        LKI_TRY(lki_arena_string(&table->names, &table->column[r->at + c].name, text));
    }
    for (int64_t i = 0; i < table->rows; i++)
        for (int c = 0; c < columns; c++) {
            const int64_t element = i * stride[0] + (npy->ndim == 2 ? c * stride[1] : 0);
            table->cell[i * table->columns + r->at + c].number = lki_npy_double(
                npy, npy->data + (size_t)element * npy->size);
        }
    r->at += columns;
    return LKS_OK;
}

typedef lks_status each_array(reader *r, const lki_array *array, const char *name);

static lks_status with_array(reader *r, const char *member, const char *name, each_array *each)
{
    lki_array array;
    lks_status status = lki_array_open(&array, r->table->context, r->table->path, member);
    if (status == LKS_OK) status = each(r, &array, name);
    lki_array_close(&array);
    return status;
}

/* Every array of the file: the one, or the members of an archive. */
static lks_status with_arrays(reader *r, const lki_zip *zip, each_array *each)
{
    const char *name;
    size_t bytes;
    if (zip == NULL) return with_array(r, NULL, NULL, each);
    for (int64_t i = 0; (name = lki_zip_member(zip, i, &bytes)) != NULL; i++) {
        char member[LKI_NUMPY_PATH], column[LKI_NUMPY_PATH];
        if (bytes >= sizeof member)
            return LKI_FAIL(LKS_E_FORMAT, "'%s' has a member with a name of %zu bytes",
                            r->table->path, bytes);
        const size_t end = bytes > 4 && memcmp(name + bytes - 4, ".npy", 4) == 0 ? 4 : 0;
        snprintf(member, sizeof member, "%.*s", (int)bytes, name);
        snprintf(column, sizeof column, "%.*s", (int)(bytes - end), name);
        LKI_TRY(with_array(r, member, column, each));
    }
    return LKS_OK;
}

static lks_status read_arrays(reader *r, const lki_zip *zip, const lki_csv_opts *opts)
{
    lki_table *table = r->table;
    void *memory;
    LKI_TRY(with_arrays(r, zip, count_array));
    if (table->rows == 0 || table->columns == 0)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no %s", table->path,
                        table->columns == 0 ? "columns" : "rows");
    LKI_TRY(lki_arena_alloc(&table->names, &memory, (size_t)table->columns * sizeof *table->column,
                            "columns of a table"));
    table->column = memory;
    LKI_TRY(lki_alloc(table->context, &memory, lki_table_bytes(table), "cells of a table"));
    table->cell = memory;
    LKI_TRY(with_arrays(r, zip, take_array));
    for (int i = 0; i < opts->skip_count; i++) {
        int column;
        const lks_status status = lki_table_find(&column, table, opts->skips[i]);
        if (status != LKS_OK && opts->lenient) continue;
        LKI_TRY(status);
        table->column[column].kind = LKI_COLUMN_SKIPPED;
    }
    if (opts->text_count == 0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "'%s' is NumPy's, whose columns have numbers alone; drop data.texts",
                    table->path);
}

lks_status lki_array_table_open(lki_table *out, lks_context *context, const char *path,
                                const lki_csv_opts *opts)
{
    *out = (lki_table){.context = context, .names.context = context, .separator = ','};
    reader r = {.table = out};
    lki_file file = {0};
    lki_zip zip;
    LKI_TRY(lki_arena_string(&out->names, &out->path, path));
    LKI_TRY(lki_file_open(&file, context, path));
    const bool archive = lki_zip_is(file.data, file.bytes);
    lks_status status = archive ? lki_zip_open(&zip, file.data, file.bytes, out->path) : LKS_OK;
    const unsigned saved = lki_float_enter();
    if (status == LKS_OK) status = read_arrays(&r, archive ? &zip : NULL, opts);
    lki_float_leave(saved);
    lki_file_close(&file);
    return status;
}
