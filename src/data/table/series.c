/* Windows over the rows of a table. */
#include "data/table/series.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/float.h"
#include "data/dataset.h"
#include "numeric/hash.h"

/* What all parts of a series share. */
typedef struct series {
    lki_arena arena;
    int64_t rows;
    int columns, targets;
    int *column;              /* [columns]: in the table */
    int *target;              /* [targets]: in `column` */
    float *x;                 /* [rows][columns] */
    double *mean, *deviation; /* [columns] */
    lks_unit *unit;           /* [horizon][targets] */
    uint64_t hash;            /* of x */
} series;

typedef struct series_set {
    lks_context *memory;
    series *own; /* NULL in a part */
    const series *all;
    int64_t context, horizon, stride;
    int64_t first; /* row of the first target of sample 0 */
} series_set;

static lks_status read_series(void *user, int64_t index, void *x, void *y)
{
    const series_set *set = user;
    const series *all = set->all;
    const size_t columns = (size_t)all->columns;
    const int64_t row = set->first + index * set->stride;
    const float *behind = all->x + (size_t)row * columns;
    float *to = y;
    memcpy(x, behind - (size_t)set->context * columns,
           (size_t)set->context * columns * sizeof *behind);
    for (int64_t h = 0; h < set->horizon; h++, behind += columns)
        for (int t = 0; t < all->targets; t++) memcpy(to++, &behind[all->target[t]], sizeof *to);
    return LKS_OK;
}

static void close_series(void *user)
{
    series_set *set = user;
    if (set->own != NULL) {
        lki_arena_release(&set->own->arena);
        lki_free(set->memory, set->own, sizeof *set->own);
    }
    lki_free(set->memory, set, sizeof *set);
}

/* The windows whose targets lie in rows [first, last). Takes `set` over, but not when it fails. */
static lks_status make_series(lks_dataset **out, series_set *set, const char *name, int64_t first,
                              int64_t last)
{
    const series *all = set->all;
    set->first = first > set->context ? first : set->context;
    const int64_t room = last - set->horizon - set->first;
    if (room < 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s' has no window: its rows %" PRId64 " to %" PRId64
                        " are fewer than the %" PRId64 " of a target behind %" PRId64
                        " of a sample; choose a smaller data.context or data.horizon",
                        name, first, last - 1, set->horizon, set->context);
    const lks_dataset_ops ops = {.info = {.samples = room / set->stride + 1,
                                          .shape = {2, {set->context, all->columns}},
                                          .dtype = LKS_F32,
                                          .target_shape = {1, {set->horizon * all->targets}}},
                                 .read = read_series,
                                 .close = close_series};
    LKI_TRY(lks_dataset_create(out, set->memory, name, &ops, set));
    (*out)->unit = all->unit;
    const uint64_t place = lki_hash_link(all->hash, set->first, (uint64_t)set->stride);
    (*out)->content = lki_hash_link(place, set->context, (uint64_t)set->horizon);
    return LKS_OK;
}

/* ---------------------------------------------------------------- columns */

static lks_status choose_columns(series *all, const lki_table *table, const lki_series_opts *opts)
{
    void *memory;
    const size_t most = (size_t)table->columns;
    LKI_TRY(lki_arena_alloc(&all->arena, &memory, most * sizeof *all->column, "columns"));
    all->column = memory;
    LKI_TRY(lki_arena_alloc(&all->arena, &memory, most * sizeof *all->target, "columns"));
    all->target = memory;
    for (int c = 0; c < table->columns; c++)
        if (table->column[c].kind == LKI_COLUMN_NUMBERS) all->column[all->columns++] = c;
    if (all->columns == 0)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no column of numbers", table->path);
    if (opts->target_count == 0)
        for (; all->targets < all->columns; all->targets++)
            all->target[all->targets] = all->targets;
    for (int t = 0; t < opts->target_count; t++) {
        int column, k = 0;
        LKI_TRY(lki_table_find(&column, table, opts->targets[t]));
        while (k < all->columns && all->column[k] != column) k++;
        if (k == all->columns)
            return LKI_FAIL(LKS_E_INVALID,
                            "'%s': column '%.60s' is a target, but has texts or is ignored; "
                            "expected numbers",
                            table->path, table->column[column].name);
        if (all->targets == all->columns)
            return LKI_FAIL(LKS_E_INVALID, "'%s': more targets than columns", table->path);
        all->target[all->targets++] = k;
    }
    return LKS_OK;
}

/* Mean and deviation of a column over the rows of the training, in double, in the order of the file. */
static void measure_column(series *all, int c, const lki_table *table, int64_t train)
{
    double sum = 0, squares = 0;
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t r = 0; r < train; r++) {
            const double value = table->cell[r * table->columns + all->column[c]].number;
            if (isnan(value)) continue;
            count += pass == 0;
            if (pass == 0)
                sum += value;
            else
                squares += (value - all->mean[c]) * (value - all->mean[c]);
        }
        if (pass == 0) all->mean[c] = count > 0 ? sum / (double)count : 0;
    }
    all->deviation[c] = count > 0 && squares > 0 ? sqrt(squares / (double)count) : 1;
}

static lks_status copy_column(series *all, int c, const lki_table *table,
                              const lki_series_opts *opts)
{
    const char *name = table->column[all->column[c]].name;
    for (int64_t r = 0; r < all->rows; r++) {
        double value = table->cell[r * table->columns + all->column[c]].number;
        if (isnan(value) && !opts->fill) {
            char place[LKI_TABLE_PLACE];
            return LKI_FAIL(LKS_E_FORMAT,
                            "%s: column '%.60s' has no value, expected one at every time; "
                            "data.missing: mean fills it with the mean of the training's rows",
                            lki_table_place(table, r, place), name);
        }
        if (isnan(value)) value = all->mean[c];
        if (opts->standardize) value = (value - all->mean[c]) / all->deviation[c];
        all->x[r * all->columns + c] = (float)value;
    }
    return LKS_OK;
}

static lks_status name_units(series *all, const lki_table *table, const lki_series_opts *opts)
{
    void *memory;
    LKI_TRY(
        lki_arena_alloc(&all->arena, &memory,
                        lki_times((size_t)opts->horizon, (size_t)all->targets * sizeof *all->unit),
                        "units of targets"));
    all->unit = memory;
    for (int64_t h = 0; h < opts->horizon; h++)
        for (int t = 0; t < all->targets; t++) {
            char name[120];
            const int c = all->target[t];
            lks_unit *unit = &all->unit[h * all->targets + t];
            snprintf(name, sizeof name, "%.80s +%" PRId64, table->column[all->column[c]].name,
                     h + 1);
            *unit = (lks_unit){.mean = all->mean[c],
                               .deviation = all->deviation[c],
                               .standardised = opts->standardize};
            LKI_TRY(lki_arena_string(&all->arena, &unit->name, name));
        }
    return LKS_OK;
}

static lks_status fill_series(series *all, const lki_table *table, const lki_series_opts *opts)
{
    void *memory;
    all->rows = table->rows;
    LKI_TRY(choose_columns(all, table, opts));
    const size_t columns = (size_t)all->columns;
    const size_t bytes = lki_times((size_t)all->rows, columns * sizeof *all->x);
    LKI_TRY(lki_arena_alloc(&all->arena, &memory, bytes, "a series"));
    all->x = memory;
    LKI_TRY(lki_arena_alloc(&all->arena, &memory, columns * sizeof(double), "means"));
    all->mean = memory;
    LKI_TRY(lki_arena_alloc(&all->arena, &memory, columns * sizeof(double), "deviations"));
    all->deviation = memory;
    const unsigned saved = lki_float_enter();
    lks_status status = LKS_OK;
    for (int c = 0; c < all->columns && status == LKS_OK; c++) {
        measure_column(all, c, table, opts->train);
        status = copy_column(all, c, table, opts);
    }
    lki_float_leave(saved);
    LKI_TRY(status);
    LKI_TRY(name_units(all, table, opts));
    all->hash = lki_hash_link(lki_hash(all->target, (size_t)all->targets * sizeof(int)), all->rows,
                              lki_hash(all->x, bytes));
    return LKS_OK;
}

/* ---------------------------------------------------------------- data sets */

lks_status lki_series_open(lks_dataset **out, lks_context *context, const lki_table *table,
                           const lki_series_opts *opts)
{
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, sizeof(series_set), "a data set of a series"));
    series_set *set = memory;
    *set = (series_set){.memory = context,
                        .context = opts->context,
                        .horizon = opts->horizon,
                        .stride = opts->stride};
    lks_status status = lki_alloc(context, &memory, sizeof(series), "a series");
    set->own = memory;
    set->all = memory;
    if (status == LKS_OK) {
        set->own->arena.context = context;
        status = fill_series(set->own, table, opts);
    }
    if (status == LKS_OK)
        status = make_series(out, set, table->path, opts->first, opts->first + opts->count);
    if (status != LKS_OK) close_series(set);
    return status;
}

int64_t lki_series_rows(const lks_dataset *whole)
{
    return ((const series_set *)whole->user)->all->rows;
}

lks_status lki_series_part(lks_dataset **out, const lks_dataset *whole, int64_t first,
                           int64_t count)
{
    const series_set *from = whole->user;
    char name[sizeof whole->name];
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(from->memory, &memory, sizeof(series_set), "a part of a series"));
    series_set *set = memory;
    *set = *from;
    set->own = NULL;
    snprintf(name, sizeof name, "%.200s[rows %" PRId64 ":%" PRId64 "]", whole->name, first,
             first + count);
    const lks_status status = make_series(out, set, name, first, first + count);
    if (status != LKS_OK) close_series(set);
    return status;
}
