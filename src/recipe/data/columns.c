#include "recipe/data/columns.h"

#include <string.h>

#include "base/check.h"

lks_status lki_table_columns(const char *const **out, int *count, lki_config *config, lki_key key)
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

/* data.text_column has texts, whatever these look like. */
static lks_status add_text_column(lki_csv_opts *opts, lki_config *config)
{
    const char *column = lki_config_text(config, LKI_KEY_DATA_TEXT_COLUMN);
    if (column == NULL) return LKS_OK;
    const char **names = lki_heap_alloc(&config->heap,
                                        ((size_t)opts->text_count + 1) * sizeof *names);
    if (names == NULL) return lki_heap_status(&config->heap, LKS_OK);
    for (int i = 0; i < opts->text_count; i++) names[i] = opts->texts[i];
    names[opts->text_count++] = column;
    opts->texts = names;
    return LKS_OK;
}

lks_status lki_table_csv_opts(lki_csv_opts *out, lki_config *config)
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
    LKI_TRY(lki_table_columns(&out->texts, &out->text_count, config, LKI_KEY_DATA_TEXTS));
    LKI_TRY(add_text_column(out, config));
    return lki_table_columns(&out->skips, &out->skip_count, config, LKI_KEY_DATA_IGNORE);
}

static lki_task task_of(const lki_config *config)
{
    const char *task = lki_config_text(config, LKI_KEY_DATA_TASK);
    if (lki_config_has(config, LKI_KEY_DATA_SERIES) || strcmp(task, "regression") == 0)
        return LKI_TASK_REGRESSION;
    return strcmp(task, "classification") == 0 ? LKI_TASK_CLASSIFICATION : LKI_TASK_AUTO;
}

bool lki_table_fills(const lki_config *config)
{
    return strcmp(lki_config_text(config, LKI_KEY_DATA_MISSING), "mean") == 0;
}

static lks_status read_encoding_opts(lki_encoding_opts *out, lki_config *config)
{
    *out = (lki_encoding_opts){.series = lki_config_has(config, LKI_KEY_DATA_SERIES),
                               .sentences = lki_config_text(config, LKI_KEY_DATA_TEXT_COLUMN),
                               .task = task_of(config),
                               .standardize = lki_config_bool(config, LKI_KEY_DATA_STANDARDIZE),
                               .fill = lki_table_fills(config)};
    return lki_table_columns(&out->targets, &out->target_count, config, LKI_KEY_DATA_TARGETS);
}

lks_status lki_table_fit(lki_encoding *out, lki_config *config, lks_context *context,
                         const lki_table *table, lki_mark_rows *mark)
{
    lki_encoding_opts opts;
    void *used;
    LKI_TRY(read_encoding_opts(&opts, config));
    LKI_TRY(lki_alloc(context, &used, (size_t)table->rows, "marks of rows"));
    lks_status status = mark(used, config, context, table);
    if (status == LKS_OK) status = lki_encoding_fit(out, context, table, used, &opts);
    lki_free(context, used, (size_t)table->rows);
    return status;
}
