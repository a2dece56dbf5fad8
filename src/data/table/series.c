/* Windows over the rows of a table. */
#include "data/table/series.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "data/dataset.h"
#include "data/table/times.h"
#include "numeric/hash.h"

/* What all parts of a series share; the last that is closed frees it. */
typedef struct series {
    int users;
    lki_encoding encoding; /* its arena has all of this */
    int64_t rows;
    int *target;             /* [targets]: in a row of x */
    float *x;                /* [rows][width] */
    lks_unit *unit;          /* [horizon][targets] */
    const char *const *time; /* [rows + 1], of the file; NULL: it has none */
    uint64_t hash;           /* of x */
} series;

typedef struct series_set {
    lks_context *memory;
    series *all;
    int64_t context, horizon, stride;
    int64_t first; /* row of the first target of sample 0 */
} series_set;

static lks_status read_series(void *user, int64_t index, void *x, void *y)
{
    const series_set *set = user;
    const series *all = set->all;
    const size_t columns = (size_t)all->encoding.width;
    const int targets = all->encoding.targets;
    const int64_t row = set->first + index * set->stride;
    const float *behind = all->x + (size_t)row * columns;
    float *to = y;
    memcpy(x, behind - (size_t)set->context * columns,
           (size_t)set->context * columns * sizeof *behind);
    if (row == all->rows) { /* nothing is known of it */
        memset(y, 0, (size_t)(set->horizon * targets) * sizeof *to);
        return LKS_OK;
    }
    for (int64_t h = 0; h < set->horizon; h++, behind += columns)
        for (int t = 0; t < targets; t++) memcpy(to++, &behind[all->target[t]], sizeof *to);
    return LKS_OK;
}

static void close_series(void *user)
{
    series_set *set = user;
    if (set->all != NULL && --set->all->users == 0) {
        lki_encoding_release(&set->all->encoding);
        lki_free(set->memory, set->all, sizeof *set->all);
    }
    lki_free(set->memory, set, sizeof *set);
}

/* As many windows, the first target at row `first`. Takes `set` over, but not when it fails. */
static lks_status windows_from(lks_dataset **out, series_set *set, const char *name, int64_t first,
                               int64_t count)
{
    const series *all = set->all;
    const lks_dataset_ops ops = {
        .info = {.samples = count,
                 .shape = {2, {set->context, all->encoding.width}},
                 .dtype = LKS_F32,
                 .target_shape = {1, {set->horizon * all->encoding.targets}}},
        .read = read_series,
        .close = close_series};
    set->first = first;
    LKI_TRY(lks_dataset_create(out, set->memory, name, &ops, set));
    (*out)->unit = all->unit;
    lki_dataset_name_samples(*out, all->time);
    (*out)->row = first;
    (*out)->stride = set->stride;
    const uint64_t place = lki_hash_link(all->hash, first, (uint64_t)set->stride);
    (*out)->content = lki_hash_link(place, set->context, (uint64_t)set->horizon);
    return LKS_OK;
}

/* The windows whose targets lie in rows [first, last). */
static lks_status make_part(lks_dataset **out, series_set *set, const char *name, int64_t first,
                            int64_t last)
{
    const int64_t begin = first > set->context ? first : set->context;
    const int64_t room = last - set->horizon - begin;
    if (room >= 0) return windows_from(out, set, name, begin, room / set->stride + 1);
    return LKI_FAIL(LKS_E_INVALID,
                    "'%s' has no window: its rows %" PRId64 " to %" PRId64
                    " are fewer than the %" PRId64 " of a target behind %" PRId64
                    " of a sample; choose a smaller data.context or data.horizon",
                    name, first, last - 1, set->horizon, set->context);
}

/* The window that ends with the last row. */
static lks_status make_last(lks_dataset **out, series_set *set, const char *name)
{
    if (set->all->rows >= set->context) return windows_from(out, set, name, set->all->rows, 1);
    return LKI_FAIL(LKS_E_INVALID,
                    "'%s' has %" PRId64 " row%s, expected at least the %" PRId64
                    " that a sample sees (data.context)",
                    name, set->all->rows, LKI_S(set->all->rows), set->context);
}

/* ---------------------------------------------------------------- rows */

static lks_status find_targets(series *all, const char *name)
{
    const lki_encoding *e = &all->encoding;
    void *memory;
    LKI_TRY(lki_arena_alloc(&all->encoding.arena, &memory, (size_t)e->targets * sizeof *all->target,
                            "targets"));
    all->target = memory;
    for (int t = 0; t < e->targets; t++) {
        int k = 0;
        while (k < e->inputs && e->input[k].column != e->target[t].column) k++;
        if (k == e->inputs)
            return LKI_FAIL(
                LKS_E_MISMATCH,
                "'%s' cannot be forecast by a training whose columns were a table's; give "
                "the folder of one with data.series",
                name);
        all->target[t] = (int)e->input[k].at;
    }
    return LKS_OK;
}

static lks_status name_units(series *all, int64_t horizon)
{
    lki_encoding *e = &all->encoding;
    void *memory;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory,
                            lki_times((size_t)horizon, (size_t)e->targets * sizeof *all->unit),
                            "units of targets"));
    all->unit = memory;
    for (int64_t h = 0; h < horizon; h++)
        for (int t = 0; t < e->targets; t++) {
            char name[120];
            lks_unit *unit = &all->unit[h * e->targets + t];
            snprintf(name, sizeof name, "%.80s +%" PRId64, e->target[t].name, h + 1);
            *unit = e->target[t].unit;
            LKI_TRY(lki_arena_string(&e->arena, &unit->name, name));
        }
    return LKS_OK;
}

static lks_status fill_series(series *all, const lki_table *table, int64_t horizon,
                              const char *time)
{
    void *memory;
    lki_encoding *e = &all->encoding;
    all->rows = table->rows;
    LKI_TRY(find_targets(all, table->path));
    const size_t bytes = lki_times((size_t)all->rows, (size_t)e->width * sizeof *all->x);
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, bytes, "a series"));
    all->x = memory;
    LKI_TRY(lki_encoding_apply(e, table, all->x, NULL));
    LKI_TRY(name_units(all, horizon));
    LKI_TRY(lki_times_of(&all->time, &e->arena, table, time));
    all->hash = lki_hash_link(lki_hash(all->target, (size_t)e->targets * sizeof(int)), all->rows,
                              lki_hash(all->x, bytes));
    return LKS_OK;
}

/* ---------------------------------------------------------------- data sets */

lks_status lki_series_open(lks_dataset **out, const lki_table *table, lki_encoding *encoding,
                           const lki_series_opts *opts)
{
    lks_context *context = encoding->context;
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, sizeof(series_set), "a data set of a series"));
    series_set *set = memory;
    *set = (series_set){.memory = context,
                        .context = opts->context,
                        .horizon = opts->horizon,
                        .stride = opts->stride};
    lks_status status = lki_alloc(context, &memory, sizeof(series), "a series");
    set->all = memory;
    if (status == LKS_OK) {
        *set->all = (series){.users = 1, .encoding = *encoding};
        *encoding = (lki_encoding){0};
        status = fill_series(set->all, table, opts->horizon, opts->time);
    }
    if (status == LKS_OK)
        status = opts->last
                     ? make_last(out, set, table->path)
                     : make_part(out, set, table->path, opts->first, opts->first + opts->count);
    if (status != LKS_OK) close_series(set);
    return status;
}

static const series_set *series_of(const lks_dataset *dataset)
{
    return dataset != NULL && dataset->close == close_series ? dataset->user : NULL;
}

const lki_encoding *lki_series_encoding(const lks_dataset *dataset)
{
    const series_set *set = series_of(dataset);
    return set != NULL ? &set->all->encoding : NULL;
}

int64_t lki_series_rows(const lks_dataset *whole)
{
    return series_of(whole)->all->rows;
}

lks_status lki_series_part(lks_dataset **out, const lks_dataset *whole, int64_t first,
                           int64_t count)
{
    const series_set *from = series_of(whole);
    char name[sizeof whole->name];
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(from->memory, &memory, sizeof(series_set), "a part of a series"));
    series_set *set = memory;
    *set = *from;
    set->all->users++;
    snprintf(name, sizeof name, "%.200s[rows %" PRId64 ":%" PRId64 "]", whole->name, first,
             first + count);
    const lks_status status = make_part(out, set, name, first, first + count);
    if (status != LKS_OK) close_series(set);
    return status;
}
