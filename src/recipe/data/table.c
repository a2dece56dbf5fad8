#include "recipe/data/table.h"

#include <string.h>

#include "base/check.h"
#include "data/dataset.h"
#include "data/table/encode.h"
#include "recipe/data/split.h"

/* ---------------------------------------------------------------- what the keys say */

/* A list of columns, by name or number. */
static lks_status read_columns(const char *const **out, int *count, lki_config *config, lki_key key)
{
    const lki_yaml *list = config->value[key].tree;
    *out = NULL;
    *count = 0;
    if (!lki_config_has(config, key)) return LKS_OK;
    const char **names = lki_heap_alloc(&config->heap, (size_t)list->count * sizeof *names + 1);
    if (names == NULL) return lki_heap_status(&config->heap, LKS_OK);
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next) {
        if (e->value->kind != LKI_YAML_SCALAR)
            return lki_config_fail(config, key,
                                   "has a list or a section in it, expected names or "
                                   "numbers of columns");
        names[(*count)++] = e->value->text;
    }
    *out = names;
    return LKS_OK;
}

static lks_status read_csv_opts(lki_csv_opts *out, lki_config *config)
{
    const char *separator = lki_config_text(config, LKI_KEY_DATA_SEPARATOR);
    const char *header = lki_config_text(config, LKI_KEY_DATA_HEADER);
    *out = (lki_csv_opts){.separator = strcmp(separator, "comma") == 0       ? ','
                                       : strcmp(separator, "semicolon") == 0 ? ';'
                                       : strcmp(separator, "tab") == 0       ? '\t'
                                                                             : '\0',
                          .header = strcmp(header, "true") == 0    ? LKI_HEADER_YES
                                    : strcmp(header, "false") == 0 ? LKI_HEADER_NO
                                                                   : LKI_HEADER_AUTO};
    LKI_TRY(read_columns(&out->texts, &out->text_count, config, LKI_KEY_DATA_TEXTS));
    return read_columns(&out->skips, &out->skip_count, config, LKI_KEY_DATA_IGNORE);
}

static lks_status read_encoding_opts(lki_encoding_opts *out, lki_config *config)
{
    const char *task = lki_config_text(config, LKI_KEY_DATA_TASK);
    *out = (lki_encoding_opts){
        .task = strcmp(task, "regression") == 0       ? LKI_TASK_REGRESSION
                : strcmp(task, "classification") == 0 ? LKI_TASK_CLASSIFICATION
                                                      : LKI_TASK_AUTO,
        .standardize = lki_config_bool(config, LKI_KEY_DATA_STANDARDIZE),
        .fill = strcmp(lki_config_text(config, LKI_KEY_DATA_MISSING), "mean") == 0};
    return read_columns(&out->targets, &out->target_count, config, LKI_KEY_DATA_TARGETS);
}

/* ---------------------------------------------------------------- what the rows of the training say */

/* Marks the rows that are trained with: neither the test's nor the validation's. */
static lks_status mark_training(uint8_t *used, const lki_config *config, lks_context *context,
                                const lki_table *table)
{
    const lks_dataset_ops ops = {
        .info = {
            .samples = table->rows, .shape = {1, {1}}, .dtype = LKS_F32, .target_shape = {1, {1}}}};
    lks_dataset *whole; /* nobody reads a sample of it */
    LKI_TRY(
        lki_dataset_in_memory(&whole, context, table->path, &ops, NULL, table->cell, table->cell));
    const lks_status status = lki_split_mark(used, config, whole);
    lks_dataset_destroy(whole);
    return status;
}

static lks_status fit(lki_encoding *out, lki_config *config, lks_context *context,
                      const lki_table *table)
{
    lki_encoding_opts opts;
    void *used;
    LKI_TRY(read_encoding_opts(&opts, config));
    LKI_TRY(lki_alloc(context, &used, (size_t)table->rows, "marks of rows"));
    lks_status status = mark_training(used, config, context, table);
    if (status == LKS_OK) status = lki_encoding_fit(out, context, table, used, &opts);
    lki_free(context, used, (size_t)table->rows);
    return status;
}

/* ---------------------------------------------------------------- a data set of encoded rows */

typedef struct table_set {
    lks_context *context;
    lki_encoding encoding;
    void *x, *y;
    size_t x_bytes, y_bytes;
} table_set;

static void close_set(void *user)
{
    table_set *set = user;
    lki_free(set->context, set->x, set->x_bytes);
    lki_free(set->context, set->y, set->y_bytes);
    lki_encoding_release(&set->encoding);
    lki_free(set->context, set, sizeof *set);
}

static lks_status encode(lks_dataset **out, table_set *set, const lki_table *table)
{
    const lki_encoding *e = &set->encoding;
    const size_t rows = (size_t)table->rows;
    const lks_dataset_ops ops = {.close = close_set,
                                 .info = {.samples = table->rows,
                                          .shape = {1, {e->width}},
                                          .dtype = LKS_F32,
                                          .classes = e->classes,
                                          .target_shape = {e->classes == 0, {e->targets}}}};
    set->x_bytes = lki_times(rows, (size_t)e->width * sizeof(float));
    set->y_bytes = lki_times(rows,
                             e->classes > 0 ? sizeof(int32_t) : (size_t)e->targets * sizeof(float));
    LKI_TRY(lki_alloc(set->context, &set->x, set->x_bytes, "samples of a table"));
    LKI_TRY(lki_alloc(set->context, &set->y, set->y_bytes, "targets of a table"));
    LKI_TRY(lki_encoding_apply(e, table, set->x, set->y));
    LKI_TRY(lki_dataset_in_memory(out, set->context, table->path, &ops, set, set->x, set->y));
    if (e->classes > 0) lki_dataset_name_classes(*out, e->class_name, e->classes);
    (*out)->unit = e->unit;
    return LKS_OK;
}

/* Takes the encoding over, also when it fails. */
static lks_status make_whole(lks_dataset **out, lks_context *context, lki_encoding *encoding,
                             const lki_table *table)
{
    void *memory;
    lks_status status = lki_alloc(context, &memory, sizeof(table_set), "a data set of a table");
    if (status != LKS_OK) {
        lki_encoding_release(encoding);
        return status;
    }
    table_set *set = memory;
    *set = (table_set){.context = context, .encoding = *encoding};
    status = encode(out, set, table);
    if (status != LKS_OK) close_set(set);
    return status;
}

static lks_status make_split(lks_dataset **out, lki_config *config, lks_context *context,
                             const lki_table *training, const lki_table *table, bool test)
{
    lki_encoding encoding = {0};
    lks_dataset *whole;
    const lks_status status = fit(&encoding, config, context, training);
    if (status != LKS_OK) {
        lki_encoding_release(&encoding);
        return status;
    }
    LKI_TRY(make_whole(&whole, context, &encoding, table));
    if (table == training) return lki_split_take(out, config, whole, test);
    *out = whole;
    return LKS_OK;
}

lks_status lki_table_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                 bool test)
{
    const char *other = lki_config_text(config, LKI_KEY_DATA_TEST_TABLE);
    lki_table table = {0}, tested = {0};
    lki_csv_opts opts;
    *out = NULL;
    LKI_TRY(read_csv_opts(&opts, config));
    lks_status status = lki_csv_open(&table, context, lki_config_text(config, LKI_KEY_DATA_TABLE),
                                     &opts);
    if (status == LKS_OK && test && other != NULL)
        status = lki_csv_open(&tested, context, other, &opts);
    if (status == LKS_OK)
        status = make_split(out, config, context, &table, tested.cell != NULL ? &tested : &table,
                            test);
    lki_table_close(&tested);
    lki_table_close(&table);
    return status;
}

bool lki_table_source_has_test(const lki_config *config)
{
    return lki_config_has(config, LKI_KEY_DATA_TEST_TABLE) ||
           lki_config_has(config, LKI_KEY_DATA_TEST_FRACTION);
}
