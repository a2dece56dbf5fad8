#include "data/table/choose.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

static lki_feature feature_of(const lki_table *table, int column)
{
    return (lki_feature){.name = table->column[column].name,
                         .column = column,
                         .text = table->column[column].kind == LKI_COLUMN_TEXTS,
                         .unit = {.name = table->column[column].name}};
}

static lks_status choose_targets(lki_encoding *e, bool *taken, const lki_table *table,
                                 const lki_encoding_opts *opts)
{
    static const char *const last[] = {"-1"};
    const char *const *wanted = opts->target_count > 0 ? opts->targets : last;
    const int count = opts->target_count > 0 ? opts->target_count : opts->series ? 0 : 1;
    for (int i = 0; i < count; i++) {
        int column;
        LKI_TRY(lki_table_find(&column, table, wanted[i]));
        if (taken[column] || table->column[column].kind == LKI_COLUMN_SKIPPED)
            return LKI_FAIL(LKS_E_INVALID, "'%s': column '%.60s' %s", table->path,
                            table->column[column].name,
                            taken[column] ? "is a target twice" : "is a target, but is left out");
        for (int t = 0; t < e->targets; t++)
            if (strcmp(e->target[t].name, table->column[column].name) == 0)
                return LKI_FAIL(LKS_E_INVALID,
                                "'%s': two targets are called '%.60s', and results are by name; "
                                "give each column a name of its own",
                                table->path, table->column[column].name);
        taken[column] = true;
        e->target[e->targets++] = feature_of(table, column);
    }
    return LKS_OK;
}

/* The column of sentences, beside which there may be targets alone. */
static lks_status choose_sentences(lki_encoding *e, const bool *taken, const lki_table *table,
                                   const char *wanted)
{
    char others[200] = "";
    int column, count = 0;
    size_t used = 0;
    LKI_TRY(lki_table_find(&column, table, wanted));
    const char *name = table->column[column].name;
    const bool skipped = table->column[column].kind == LKI_COLUMN_SKIPPED;
    if (taken[column] || skipped)
        return LKI_FAIL(LKS_E_INVALID, "'%s': column '%.60s' has the text, but is %s", table->path,
                        name, skipped ? "left out (data.ignore)" : "a target, too");
    e->input[e->inputs++] = feature_of(table, column);
    for (int i = 0; i < table->columns; i++) {
        if (i == column || taken[i] || table->column[i].kind == LKI_COLUMN_SKIPPED) continue;
        if (used + 70 < sizeof others)
            used += (size_t)snprintf(others + used, sizeof others - used, "%s%.60s",
                                     count > 0 ? ", " : "", table->column[i].name);
        else if (others[used - 1] != '.')
            used += (size_t)snprintf(others + used, sizeof others - used, ", ...");
        count++;
    }
    if (count == 0) return LKS_OK;
    return LKI_FAIL(
        LKS_E_INVALID,
        "'%s' has %d column%s beside the text '%.60s' and targets: %s; a network of texts "
        "has no other inputs, so drop %s (data.ignore: [...])",
        table->path, count, LKI_S(count), name, others, count == 1 ? "it" : "them");
}

lks_status lki_encoding_choose(lki_encoding *e, const lki_table *table,
                               const lki_encoding_opts *opts)
{
    void *memory;
    const size_t room = (size_t)table->columns;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, room * sizeof(lki_feature), "inputs"));
    e->input = memory;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, room * sizeof(lki_feature), "targets"));
    e->target = memory;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, room, "columns"));
    bool *taken = memory;
    LKI_TRY(choose_targets(e, taken, table, opts));
    if (opts->sentences != NULL) return choose_sentences(e, taken, table, opts->sentences);
    for (int i = 0; i < table->columns; i++) {
        const lki_column_kind kind = table->column[i].kind;
        if (opts->series ? kind != LKI_COLUMN_NUMBERS : taken[i] || kind == LKI_COLUMN_SKIPPED)
            continue;
        e->input[e->inputs++] = feature_of(table, i);
        if (opts->series && opts->target_count == 0) e->target[e->targets++] = feature_of(table, i);
    }
    if (e->inputs > 0) return LKS_OK;
    if (opts->series) return LKI_FAIL(LKS_E_FORMAT, "'%s' has no column of numbers", table->path);
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' has no columns beside targets and those left out; is its separator "
                    "another one than '%c'? (data.separator)",
                    table->path, table->separator);
}
