#include "recipe/data/shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/shards/shards.h"
#include "data/shards/stats.h"
#include "recipe/data/split.h"
#include "recipe/text/yaml.h"

/* ---------------------------------------------------------------- metadata.json and config.yaml */

static lks_status fail_metadata(const char *path, const char *what)
{
    return LKI_FAIL(LKS_E_FORMAT, "'%s' %s", path, what);
}

static lks_status read_integer(int64_t *out, const lki_yaml *node, const char *key,
                               const char *path)
{
    if (node != NULL && node->kind == LKI_YAML_SCALAR && lki_text_is_int(node->text, out))
        return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT, "'%s' has no %s that is an integer", path, key);
}

/* "x_shape": [320, 4128] */
static lks_status read_shape(int64_t out[2], const lki_yaml *flattened, const char *key,
                             const char *path)
{
    const lki_yaml *shape = lki_yaml_find(flattened, key);
    if (shape == NULL || shape->kind != LKI_YAML_LIST || shape->count != 2)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no %s that is a list of rows and columns", path,
                        key);
    LKI_TRY(read_integer(&out[0], shape->first->value, key, path));
    return read_integer(&out[1], shape->first->next->value, key, path);
}

static lks_status read_type(const char **out, const lki_yaml *node, const char *path)
{
    static const char *const types[] = {"float32", "float64", "float16"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (node == NULL || node->kind != LKI_YAML_SCALAR || strcmp(node->text, types[i]) != 0)
            continue;
        *out = types[i];
        return LKS_OK;
    }
    return fail_metadata(path, "has no dtype that is float32, float64 or float16");
}

/* What config.yaml says, which need not be there: the step, and how files are read. */
static lks_status read_settings(const char **step, bool *mapped, lki_config *config,
                                const char *folder)
{
    const char *path = lki_heap_format(&config->heap, "%s/config.yaml", folder);
    const lki_yaml *tree;
    *step = NULL;
    *mapped = true;
    LKI_TRY(lki_heap_status(&config->heap, LKS_OK));
    if (access(path, F_OK) != 0) return LKS_OK;
    LKI_TRY(lki_yaml_read_file(&tree, &config->heap, path));
    const lki_yaml *timestep = lki_yaml_find(tree, "timestep"),
                   *mode = lki_yaml_find(tree, "loading_mode");
    if (timestep != NULL && timestep->kind == LKI_YAML_SCALAR) *step = timestep->text;
    if (mode == NULL) return LKS_OK;
    *mapped = mode->kind == LKI_YAML_SCALAR && strcmp(mode->text, "efficient") == 0;
    if (*mapped || (mode->kind == LKI_YAML_SCALAR && strcmp(mode->text, "controlled") == 0))
        return LKS_OK;
    return fail_metadata(path, "has a loading_mode that is neither efficient (files are mapped) "
                               "nor controlled (rows are read)");
}

static lks_status read_plan(lki_shards_plan *out, bool *mapped, lki_config *config,
                            const char *folder)
{
    const char *path = lki_heap_format(&config->heap, "%s/metadata.json", folder);
    const lki_yaml *tree;
    int64_t x[2], y[2];
    LKI_TRY(lki_heap_status(&config->heap, LKS_OK));
    LKI_TRY(read_settings(&out->step, mapped, config, folder));
    LKI_TRY(lki_yaml_read_file(&tree, &config->heap, path));
    if (tree == NULL || tree->kind != LKI_YAML_MAP || tree->count < 1)
        return fail_metadata(path, "has no timesteps");
    if (out->step == NULL && tree->count > 1)
        return fail_metadata(path, "has several timesteps; config.yaml beside it says which is "
                                   "meant, such as timestep: 1000");
    if (out->step == NULL) out->step = tree->first->key->text;
    const lki_yaml *flattened = lki_yaml_find(lki_yaml_find(tree, out->step), "flattened");
    if (flattened == NULL || strchr(out->step, '/') != NULL)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no \"%s\": {\"flattened\": ...}", path, out->step);
    LKI_TRY(read_type(&out->type, lki_yaml_find(flattened, "dtype"), path));
    LKI_TRY(read_integer(&out->rows, lki_yaml_find(flattened, "dataset_len"), "dataset_len", path));
    LKI_TRY(read_integer(&out->shards, lki_yaml_find(flattened, "num_shards"), "num_shards", path));
    LKI_TRY(read_shape(x, flattened, "x_shape", path));
    LKI_TRY(read_shape(y, flattened, "y_shape", path));
    if (x[0] != y[0])
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has shards of %" PRId64 " samples, but of %" PRId64 " targets", path,
                        x[0], y[0]);
    out->rows_each = x[0];
    out->width[0] = x[1];
    out->width[1] = y[1];
    return lki_shards_check(out, path);
}

/* ---------------------------------------------------------------- a data set */

/* What the splits of the rows share; the last data set that is closed frees it. */
typedef struct shards_set {
    lki_shards shards;
    lki_arena arena;
    int users;
    lks_unit *unit; /* [columns of targets]; NULL: they are as they are */
} shards_set;

static lks_status read_shards_row(void *user, int64_t index, void *x, void *y)
{
    const shards_set *set = user;
    return lki_shards_read(&set->shards, index, x, y);
}

static void close_shards(void *user)
{
    shards_set *set = user;
    lks_context *context = set->arena.context;
    if (--set->users > 0) return;
    lki_shards_close(&set->shards);
    lki_arena_release(&set->arena);
    lki_free(context, set, sizeof *set);
}

/* That of a data set which was made here; NULL: it was not. */
static shards_set *shards_set_of(const lks_dataset *dataset)
{
    return dataset != NULL && dataset->close == close_shards ? dataset->user : NULL;
}

static lks_status alloc_columns(double **out, const lki_shards *shards)
{
    void *memory;
    LKI_TRY(lki_alloc(shards->context, &memory,
                      (size_t)(shards->plan.width[0] + shards->plan.width[1]) * sizeof(double),
                      "means and deviations"));
    *out = memory;
    return LKS_OK;
}

/* `standardize`: with memory for means and deviations. */
static lks_status open_files(shards_set *set, lki_config *config, bool standardize)
{
    lki_shards_plan plan = {.rows = 0};
    const char *folder;
    bool mapped;
    LKI_TRY(lki_arena_string(&set->arena, &folder, lki_config_text(config, LKI_KEY_DATA_SHARDS)));
    LKI_TRY(read_plan(&plan, &mapped, config, folder));
    LKI_TRY(lki_arena_string(&set->arena, &plan.step, plan.step));
    LKI_TRY(lki_shards_open(&set->shards, set->arena.context, folder, &plan, mapped));
    if (!standardize) return LKS_OK;
    LKI_TRY(alloc_columns(&set->shards.mean, &set->shards));
    return alloc_columns(&set->shards.inverse, &set->shards);
}

/* All rows. Takes a user of the set over, also when it fails. */
static lks_status make_all_rows(lks_dataset **out, shards_set *set)
{
    const lks_dataset_ops ops = {.read = read_shards_row,
                                 .close = close_shards,
                                 .info = {.samples = set->shards.plan.rows,
                                          .shape = {1, {set->shards.plan.width[0]}},
                                          .dtype = LKS_F32,
                                          .target_shape = {1, {set->shards.plan.width[1]}}}};
    const lks_status status = lks_dataset_create(out, set->arena.context, set->shards.folder, &ops,
                                                 set);
    if (status == LKS_OK)
        (*out)->unit = set->unit;
    else
        close_shards(set);
    return status;
}

static lks_status open_whole(lks_dataset **out, lki_config *config, lks_context *context,
                             bool standardize)
{
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, sizeof(shards_set), "a data set of shards"));
    shards_set *set = memory;
    *set = (shards_set){.arena.context = context, .users = 1};
    const lks_status status = open_files(set, config, standardize);
    if (status == LKS_OK) return make_all_rows(out, set);
    close_shards(set);
    return status;
}

/* Those of an earlier `lockstep data stats`, if the first rank finds them. */
static lks_status take_kept(bool *there, const lki_shards *shards, const char *path, lks_comm *comm)
{
    const size_t columns = (size_t)(shards->plan.width[0] + shards->plan.width[1]);
    const size_t bytes[] = {sizeof *there, columns * sizeof(double), columns * sizeof(double)};
    void *const arrays[] = {there, shards->mean, shards->inverse};
    *there = lks_comm_rank(comm) == 0 &&
             lki_shards_stats_read(shards->mean, shards->inverse, shards, path);
    LKI_TRY(lks_comm_broadcast(comm, 0, arrays, bytes, 1));
    return *there ? lks_comm_broadcast(comm, 0, arrays + 1, bytes + 1, 2) : LKS_OK;
}

/* Means and deviations of the rows of the training, as shards.mean and inverse: kept ones, unless `anew`, or measured now,
 * by all ranks. told->path is where they are, or belong. What fails does so on all. */
static lks_status measure_training(lks_dataset *whole, lki_config *config, lks_shards_stats *told,
                                   lks_comm *comm, int threads, bool anew)
{
    const lki_shards *shards = &shards_set_of(whole)->shards;
    void *used;
    bool there = false;
    const size_t rows = (size_t)shards->plan.rows;
    lks_status status = lki_alloc(shards->context, &used, rows, "marks of rows");
    if (status == LKS_OK) status = lki_split_mark(used, config, whole);
    if (status == LKS_OK) status = lki_shards_stats_path(told->path, shards, used);
    status = lks_comm_agree(comm, status);
    if (status == LKS_OK && !anew) status = take_kept(&there, shards, told->path, comm);
    if (status == LKS_OK && !there) {
        const double begin = lki_seconds();
        status = lki_shards_measure(shards, used, comm, threads, shards->mean, shards->inverse,
                                    &told->constant);
        told->seconds = lki_seconds() - begin;
    }
    for (size_t i = 0; i < rows && status == LKS_OK; i++) told->rows += ((const uint8_t *)used)[i];
    lki_free(shards->context, used, rows);
    return status;
}

/* What was measured because no file has it. */
static void tell(const lki_shards *shards, const lks_shards_stats *told)
{
    if (told->seconds == 0) return;
    lki_log_line(shards->context, LKS_LOG_INFO,
                 "means and deviations of %" PRId64
                 " rows were measured in %.1f s; 'lockstep data stats' with this configuration "
                 "keeps them",
                 told->rows, told->seconds);
    if (told->constant > 0)
        lki_log_line(shards->context, LKS_LOG_WARN,
                     "'%s': %" PRId64 " of %" PRId64
                     " columns have one value in all rows of the training, and tell nothing; "
                     "their deviation is taken as 1",
                     shards->folder, told->constant, shards->plan.width[0] + shards->plan.width[1]);
}

static lks_status name_targets(shards_set *set)
{
    const int64_t *width = set->shards.plan.width;
    const double *mean = set->shards.mean, *deviation = set->shards.inverse;
    void *memory;
    LKI_TRY(lki_arena_alloc(&set->arena, &memory, (size_t)width[1] * sizeof *set->unit, "units"));
    set->unit = memory;
    for (int64_t i = 0; i < width[1]; i++) {
        char name[LKI_NUMBER_SIZE];
        snprintf(name, sizeof name, "%" PRId64, i);
        set->unit[i] = (lks_unit){
            .mean = mean[width[0] + i], .deviation = deviation[width[0] + i], .standardised = true};
        LKI_TRY(lki_arena_string(&set->arena, &set->unit[i].name, name));
    }
    return LKS_OK;
}

static lks_status standardise(lks_dataset *whole, lki_config *config, lks_comm *comm, bool test)
{
    shards_set *set = shards_set_of(whole);
    const lki_shards *shards = &set->shards;
    const int64_t columns = shards->plan.width[0] + shards->plan.width[1];
    lks_shards_stats told = {.rows = 0};
    LKI_TRY(measure_training(whole, config, &told, comm, 0, false));
    LKI_TRY(name_targets(set));
    whole->unit = set->unit;
    if (!test) tell(shards, &told);
    for (int64_t i = 0; i < columns; i++) shards->inverse[i] = 1 / shards->inverse[i];
    return LKS_OK;
}

lks_status lki_shards_source_open(lks_dataset **out, lki_config *config, lks_context *context,
                                  bool test, const lks_dataset *training, lks_comm *comm)
{
    const bool standardize = lki_config_bool(config, LKI_KEY_DATA_STANDARDIZE);
    shards_set *set = shards_set_of(training);
    lks_dataset *whole;
    lks_status status;
    *out = NULL;
    if (set != NULL) {
        set->users++;
        status = make_all_rows(&whole, set);
    } else {
        status = lks_comm_agree(comm, open_whole(&whole, config, context, standardize));
        if (status == LKS_OK && standardize) status = standardise(whole, config, comm, test);
    }
    if (status == LKS_OK) return lki_split_take(out, config, whole, test);
    lks_dataset_destroy(whole);
    return status;
}

/* ---------------------------------------------------------------- lockstep data stats */

static lks_status write_stats(const lki_shards *shards, const char *path)
{
    return lki_shards_stats_write(path, shards, shards->mean, shards->inverse);
}

lks_status lki_shards_source_measure(lks_shards_stats *out, lki_config *config,
                                     lks_context *context, lks_comm *comm, int threads)
{
    lks_dataset *whole;
    const bool leads = lks_comm_rank(comm) == 0;
    lks_status status = lks_comm_agree(comm, open_whole(&whole, config, context, true));
    if (status == LKS_OK) status = measure_training(whole, config, out, comm, threads, true);
    if (status == LKS_OK)
        status = lks_comm_agree(comm, leads ? write_stats(&shards_set_of(whole)->shards, out->path)
                                            : LKS_OK);
    if (status == LKS_OK) {
        const lki_shards_plan *plan = &shards_set_of(whole)->shards.plan;
        out->all_rows = plan->rows;
        out->columns[0] = plan->width[0];
        out->columns[1] = plan->width[1];
    }
    lks_dataset_destroy(whole);
    return status;
}
