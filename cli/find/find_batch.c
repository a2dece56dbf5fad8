/* lockstep find batch: the batch size from which on training gets no faster, and what fits into memory. */
#include <math.h>
#include <string.h>

#include "cli/find/find.h"
#include "cli/out/output.h"
#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/sort.h"

enum { SIZES = 25, WARM_UP = 2, LEAST_STEPS = 5, MOST_STEPS = 10000, COLUMNS = 5 };
static const int64_t LARGEST = INT64_C(1) << (SIZES - 1); /* train.batch_size has no more */
static const double SECONDS = 1;
/* A size is as fast as any where it has this share of the highest speed; and larger ones are not tried where the
 * last doublings, so many, were not worth this factor. */
static const double AS_FAST = 0.95, WORTH = 1.02;
enum { PATIENCE = 2 };

typedef struct batch_size {
    int64_t batch;
    size_t memory;
    double step; /* seconds, median; 0: not measured */
} batch_size;

typedef struct sizes {
    const cli_args *cli;
    double seconds; /* to measure each */
    double budget;  /* bytes; 0: what the process may have */
    int count, measured;
    batch_size size[SIZES];
    int fastest, knee;
    const char *why; /* there are no more */
} sizes;

/* The recipe of the command with another batch. */
static lks_status open_recipe(lks_recipe **out, const sizes *s, int64_t batch)
{
    const char *setting = pool_format(s->cli->pool, "train.batch_size=%lld", (long long)batch);
    const cli_args with = cli_with_settings(s->cli, 1, &setting);
    return cli_configure(out, &with, with.operand[0]);
}

static lks_status one_step(lks_loader *loader, lks_model *model, double *seconds)
{
    lks_batch batch;
    const double begin = process_clock();
    lks_status status = lks_loader_next(loader, &batch);
    /* The rate is of no matter here, and a small one keeps the loss finite. */
    if (status == LKS_OK) status = lks_model_step(model, &batch, 1e-9, NULL);
    *seconds = process_clock() - begin;
    return status;
}

static lks_status time_steps(const sizes *s, lks_loader *loader, lks_model *model, double *median)
{
    double *seconds = pool_alloc(s->cli->pool, MOST_STEPS * sizeof *seconds), total = 0;
    int steps = 0;
    for (int i = 0; i < WARM_UP; i++) {
        const lks_status status = one_step(loader, model, seconds);
        if (status != LKS_OK) return status;
    }
    while (steps < LEAST_STEPS || (total < s->seconds && steps < MOST_STEPS)) {
        const lks_status status = one_step(loader, model, &seconds[steps]);
        if (status != LKS_OK) return status;
        total += seconds[steps++];
    }
    sort_ascending(seconds, (size_t)steps);
    *median = seconds[steps / 2];
    return LKS_OK;
}

static double speed(const batch_size *size)
{
    return (double)size->batch / size->step;
}

/* The last size, by its compiled model, unless those before it say that it is not worth it. */
static lks_status measure(sizes *s, lks_recipe *recipe)
{
    const int i = s->count - 1;
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_loader *loader = NULL;
    char head[64];
    if (i > s->fastest + PATIENCE) return LKS_OK;
    snprintf(head, sizeof head, "batch %lld", (long long)s->size[i].batch);
    say_bar(head, (double)i / SIZES, NULL, 0);
    lks_status status = lks_recipe_init_weights(recipe);
    if (status == LKS_OK) status = lks_recipe_loader(&loader, recipe, parts.train, true);
    if (status == LKS_OK) status = time_steps(s, loader, parts.model, &s->size[i].step);
    lks_loader_destroy(loader);
    if (status != LKS_OK) return status;
    s->measured++;
    if (speed(&s->size[i]) > WORTH * speed(&s->size[s->fastest])) s->fastest = i;
    return LKS_OK;
}

/* One more size, or why there is none. */
static lks_status try_size(sizes *s, lks_recipe *recipe, int64_t batch)
{
    lks_status status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_E_NOMEM && s->count > 0) {
        s->why = "the next does not fit into memory";
        return LKS_OK;
    }
    if (status != LKS_OK) return status;
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const size_t memory = lks_model_get_info(parts.model).memory_bytes;
    if (s->budget > 0 && (double)memory > s->budget) {
        s->why = "the next does not fit into --memory";
        return LKS_OK;
    }
    s->size[s->count++] = (batch_size){.batch = batch, .memory = memory};
    if (batch * 2 > parts.data.samples)
        s->why = "there are no more samples";
    else if (batch == LARGEST)
        s->why = "no batch is larger";
    return measure(s, recipe);
}

/* Powers of two, from one sample a replica on. */
static lks_status try_all(sizes *s, int64_t replicas)
{
    int64_t batch = 1;
    while (batch < replicas) batch *= 2;
    for (; s->why == NULL; batch *= 2) {
        lks_recipe *recipe;
        lks_status status = open_recipe(&recipe, s, batch);
        if (status == LKS_OK) status = try_size(s, recipe, batch);
        lks_recipe_close(recipe);
        if (status != LKS_OK) return status;
    }
    say_status(NULL);
    if (s->count == 0)
        return lks_fail(LKS_E_NOMEM, "--memory is less than %lld samples take; give it more",
                        (long long)(batch / 2));
    while (speed(&s->size[s->knee]) < AS_FAST * speed(&s->size[s->fastest])) s->knee++;
    return LKS_OK;
}

static void print_table(const sizes *s, cli_pool *pool)
{
    static const char *titles[COLUMNS] = {"batch", "memory, MB", "ms a step", "samples/s", ""};
    static const bool right[COLUMNS] = {true, true, true, true, false};
    const char **cell = pool_alloc(pool, (size_t)s->count * COLUMNS * sizeof *cell);
    for (int i = 0; i < s->count; i++) {
        const batch_size *size = &s->size[i];
        const char **row = cell + i * COLUMNS;
        char *rate = pool_alloc(pool, TEXT_NUMBER_SIZE);
        const bool known = i < s->measured;
        row[0] = pool_format(pool, "%lld", (long long)size->batch);
        row[1] = pool_format(pool, "%.1f", 1e-6 * (double)size->memory);
        row[2] = known ? pool_format(pool, "%.3f", 1e3 * size->step) : "-";
        row[3] = known ? lks_text_count(rate, llround(speed(size))) : "-";
        row[4] = i == s->knee ? "suggested" : "";
    }
    table_print(&(cli_table){s->count, COLUMNS, titles, cell, right}, say_columns());
}

static void say_json(const sizes *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->count; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:o}", "batch", (json_int_t)s->size[i].batch,
                            "memory_bytes", (json_int_t)s->size[i].memory, "samples_per_second",
                            i < s->measured ? text_json_real(speed(&s->size[i])) : json_null()));
    json_t *json = json_pack("{s:s, s:o, s:I, s:I}", "event", "find_batch", "sizes", list,
                             "suggestion", (json_int_t)s->size[s->knee].batch, "largest",
                             (json_int_t)s->size[s->count - 1].batch);
    text_say_json(json, 0);
    json_decref(json);
}

/* "4G", "512MB", "1e9": bytes, by powers of 1000 as memory is printed. */
static lks_status read_memory(double *out, const cli_args *cli)
{
    static const char units[] = "KMGT";
    const char *text = cli->local[LOCAL_MEMORY];
    char number[32] = "";
    *out = 0;
    if (text == NULL) return LKS_OK;
    const size_t length = strcspn(text, "KMGTkmgtBb");
    if (length > 0 && length < sizeof number) memcpy(number, text, length);
    const char *end = text + length;
    double factor = 1;
    for (int i = 0; units[i] != '\0' && *end != '\0'; i++)
        if ((*end & ~32) == units[i]) {
            factor = pow(1000, i + 1);
            end++;
            break;
        }
    if (*end == 'B' || *end == 'b') end++;
    if (lki_text_is_float(number, out) && *out > 0 && *end == '\0') {
        *out *= factor;
        return LKS_OK;
    }
    return lks_fail(LKS_E_INVALID, "--memory is '%.60s', expected bytes such as 800M or 4G", text);
}

static lks_status look_for_batch(const cli_args *cli, lks_recipe *recipe, int *code)
{
    sizes s = {.cli = cli, .seconds = SECONDS};
    const bool as_json = strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0;
    (void)code;
    lks_status status = cli_seconds(&s.seconds, cli);
    if (status == LKS_OK) status = read_memory(&s.budget, cli);
    if (status == LKS_OK) status = try_all(&s, lks_recipe_int(recipe, "train.replicas"));
    if (status != LKS_OK) return status;
    if (as_json) {
        say_json(&s);
        return LKS_OK;
    }
    print_table(&s, cli->pool);
    say("\nThe largest is %lld: %s.", (long long)s.size[s.count - 1].batch, s.why);
    say("suggestion  train.batch_size %lld", (long long)s.size[s.knee].batch);
    return LKS_OK;
}

lks_status find_batch(const cli_args *cli, int *code)
{
    const lks_status status = output_alone();
    return status == LKS_OK ? cli_with_recipe(cli, code, NULL, look_for_batch) : status;
}
