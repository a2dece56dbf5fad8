/* Which trainings a sweep consists of. */
#include <string.h>
#include <sys/stat.h>

#include "cli/out/text.h"
#include "cli/report/runs.h"
#include "cli/sweep/sweep.h"
#include "cli/verbs/record.h"

enum { NAME_MOST = 150, MOST_JOBS = 1024 };

/* Where the value that begins here ends: at a comma that is in no quotes and no brackets. */
static size_t value_length(const char *text)
{
    int depth = 0;
    char quote = 0;
    size_t i;
    for (i = 0; text[i] != '\0'; i++) {
        const char c = text[i];
        if (quote != 0)
            quote = c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            depth--;
        else if (c == ',' && depth <= 0)
            break;
    }
    return i;
}

/* "optimizer.lr=0.1,0.01" */
static lks_status read_axis(sweep_axis *out, cli_pool *pool, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals[1] == '\0')
        return lks_fail(
            LKS_E_INVALID,
            "--grid is '%.100s', expected KEY=VALUE,VALUE such as optimizer.lr=0.1,0.01", text);
    out->key = pool_copy(pool, text, (size_t)(equals - text));
    out->value = pool_alloc(pool, strlen(equals) * sizeof *out->value);
    for (const char *at = equals; *at != '\0';) {
        const size_t length = value_length(++at);
        if (length == 0)
            return lks_fail(LKS_E_INVALID, "--grid %.100s has an empty value; drop a comma", text);
        const char *value = pool_copy(pool, at, length);
        for (int i = 0; i < out->values; i++)
            if (strcmp(out->value[i], value) == 0)
                return lks_fail(LKS_E_INVALID, "--grid %.100s has the value %.40s twice", text,
                                value);
        out->value[out->values++] = value;
        at += length;
    }
    return LKS_OK;
}

/* What the sweep sets itself; where records and folders go does not change a training. */
static bool is_own_key(const char *key)
{
    return strncmp(key, "checkpoint.", 11) == 0 || strncmp(key, "log.", 4) == 0;
}

static lks_status read_grid(sweep_plan *plan, const cli_args *cli)
{
    plan->count = 1;
    plan->axis = pool_alloc(cli->pool, ((size_t)cli->settings + 1) * sizeof *plan->axis);
    for (int i = 0; i < cli->settings; i++) {
        if (cli->setting[i].option->local != LOCAL_GRID) continue;
        sweep_axis *axis = &plan->axis[plan->axes];
        const lks_status status = read_axis(axis, cli->pool, cli->setting[i].text);
        if (status != LKS_OK) return status;
        for (int a = 0; a < plan->axes; a++)
            if (strcmp(plan->axis[a].key, axis->key) == 0)
                return lks_fail(LKS_E_INVALID, "--grid has %.60s twice; give all values in one",
                                axis->key);
        if (is_own_key(axis->key))
            return lks_fail(LKS_E_INVALID,
                            "--grid has %.60s, which the sweep sets for each run itself",
                            axis->key);
        plan->axes++;
        plan->count *= axis->values;
        if (plan->count > RUNS_MOST)
            return lks_fail(LKS_E_INVALID,
                            "the grid has %d trainings or more, expected at most %d; give some of "
                            "the values to a sweep of their own, with the same --out",
                            plan->count, RUNS_MOST);
    }
    if (plan->axes > 0) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "there is no grid; give one, such as --grid optimizer.lr=0.1,0.01");
}

/* The last part of a key, where no other axis has the same. */
static const char *short_key(const sweep_plan *plan, int axis)
{
    const char *key = plan->axis[axis].key, *dot = strrchr(key, '.');
    for (int a = 0; a < plan->axes && dot != NULL; a++) {
        const char *other = strrchr(plan->axis[a].key, '.');
        if (a != axis && other != NULL && strcmp(other, dot) == 0) return key;
    }
    return dot != NULL ? dot + 1 : key;
}

/* A folder's name; values have anything in them. */
static const char *run_name(const sweep_plan *plan, int number)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_.=,+";
    cli_pool *pool = plan->cli->pool;
    const sweep_run *run = &plan->run[number];
    char *name = pool_format(pool, "%s", "");
    for (int a = 0; a < plan->axes; a++)
        name = pool_format(pool, "%s%s%s=%s", name, a > 0 ? "," : "", short_key(plan, a),
                           run->value[a]);
    char *end = name;
    for (const char *c = name; *c != '\0'; c++)
        if (strchr("[]{}'\" ", *c) == NULL) *end++ = strchr(plain, *c) != NULL ? *c : '_';
    *end = '\0';
    bool taken = strlen(name) > NAME_MOST;
    for (int r = 0; r < number; r++) taken |= strcmp(plan->run[r].name, name) == 0;
    return taken ? pool_format(pool, "%.*s,%d", NAME_MOST, name, number + 1) : name;
}

static void name_run(sweep_plan *plan, int number)
{
    cli_pool *pool = plan->cli->pool;
    sweep_run *run = &plan->run[number];
    run->value = pool_alloc(pool, (size_t)plan->axes * sizeof *run->value);
    int rest = number; /* the last axis varies fastest */
    for (int a = plan->axes - 1; a >= 0; rest /= plan->axis[a--].values)
        run->value[a] = plan->axis[a].value[rest % plan->axis[a].values];
    run->name = run_name(plan, number);
    run->folder = pool_format(pool, "%s/%s", plan->folder, run->name);
    run->record = pool_format(pool, "%s/run.json", run->folder);
    run->log = pool_format(pool, "%s/log.txt", run->folder);
}

static lks_status configure(sweep_plan *plan, sweep_run *run)
{
    const cli_args *cli = plan->cli;
    lks_recipe *recipe;
    const char **setting = pool_alloc(cli->pool, (size_t)plan->axes * sizeof *setting);
    for (int a = 0; a < plan->axes; a++)
        setting[a] = pool_format(cli->pool, "%s=%s", plan->axis[a].key, run->value[a]);
    const cli_args with = cli_with_settings(cli, plan->axes, setting);
    const lks_status status = cli_configure(&recipe, &with, cli->operand[0]);
    if (status != LKS_OK) return status;
    const bool given = lks_recipe_has(recipe, "train.workers");
    run->config = cli_recipe_json(recipe);
    run->workers = given ? 0 : (int)lks_recipe_int(recipe, "train.replicas");
    const int threads = given ? (int)lks_recipe_int(recipe, "train.workers") : 1;
    const int jobs = lks_cores() / threads > 0 ? lks_cores() / threads : 1;
    if (plan->jobs == 0 || jobs < plan->jobs) plan->jobs = jobs;
    lks_recipe_close(recipe);
    return run->config != NULL ? LKS_OK : text_memory();
}

/* Says which setting of a run that is there is another one, if any is. */
static lks_status compare(const sweep_run *run, cli_pool *pool, const json_t *was)
{
    const char *section, *key;
    json_t *keys, *value;
    json_object_foreach((json_t *)run->config, section, keys)
    {
        json_object_foreach(keys, key, value)
        {
            const char *name = pool_format(pool, "%s.%s", section, key);
            const json_t *there = json_object_get(json_object_get(was, section), key);
            if (is_own_key(name) || strcmp(name, "train.workers") == 0) continue;
            if (there == NULL || json_equal(there, value)) continue;
            return lks_fail(LKS_E_MISMATCH,
                            "%.200s has a run with another configuration: %s was %.60s, is %.60s; "
                            "give another --out, or move the folder away",
                            run->folder, name, text_clean(pool, text_yaml(pool, there)),
                            text_clean(pool, text_yaml(pool, value)));
        }
    }
    return LKS_OK;
}

/* What has finished is not run again. */
static lks_status look_at(sweep_run *run, cli_pool *pool)
{
    struct stat there;
    json_t *record;
    if (stat(run->record, &there) != 0) return LKS_OK;
    lks_status status = record_read(&record, run->record);
    if (status != LKS_OK) return status;
    status = compare(run, pool, json_object_get(record, "config"));
    if (json_is_true(json_object_get(record, "finished"))) run->state = SWEEP_FINISHED;
    json_decref(record);
    return status;
}

/* "digits-sweep" for "configs/digits.yaml#small" */
static const char *usual_folder(const cli_args *cli)
{
    const char *slash = strrchr(cli->operand[0], '/');
    const char *base = slash != NULL ? slash + 1 : cli->operand[0];
    return pool_format(cli->pool, "%.*s-sweep", (int)strcspn(base, ".#"), base);
}

static lks_status read_jobs(sweep_plan *plan)
{
    int64_t jobs = plan->jobs;
    const lks_status status = cli_count(&jobs, plan->cli, LOCAL_JOBS, "--jobs", MOST_JOBS);
    plan->jobs = (int)jobs;
    return status;
}

/* The cores that are there for each, unless the configuration says how many workers it has. */
static void share_cores(sweep_plan *plan)
{
    const int waiting = sweep_count(plan, SWEEP_WAITS);
    if (plan->jobs > waiting && waiting > 0) plan->jobs = waiting;
    const int each = lks_cores() / plan->jobs > 0 ? lks_cores() / plan->jobs : 1;
    for (int r = 0; r < plan->count; r++)
        if (plan->run[r].workers > each) plan->run[r].workers = each;
}

lks_status sweep_plan_make(sweep_plan *out, const cli_args *cli)
{
    const char *folder = cli->local[LOCAL_OUT];
    *out = (sweep_plan){.cli = cli, .folder = folder != NULL ? folder : usual_folder(cli)};
    lks_status status = read_grid(out, cli);
    if (status != LKS_OK) {
        out->count = 0;
        return status;
    }
    out->run = pool_alloc(cli->pool, (size_t)out->count * sizeof *out->run);
    for (int r = 0; r < out->count && status == LKS_OK; r++) {
        name_run(out, r);
        status = configure(out, &out->run[r]);
        if (status == LKS_OK) status = look_at(&out->run[r], cli->pool);
    }
    if (status == LKS_OK) status = read_jobs(out);
    if (status == LKS_OK) share_cores(out);
    return status;
}

void sweep_clear(sweep_plan *plan)
{
    for (int r = 0; r < plan->count && plan->run != NULL; r++) json_decref(plan->run[r].config);
}

int sweep_count(const sweep_plan *plan, sweep_state state)
{
    int count = 0;
    for (int r = 0; r < plan->count; r++) count += plan->run[r].state == state;
    return count;
}
