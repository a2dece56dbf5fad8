/* Measuring workers, and deciding whether their ranges should be others: balance.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "model/model.h"

enum { NOW, BEFORE, MEAN }; /* of costs */
static const double WINDOW_SECONDS = 1.0 / 3, MOST_SECONDS = 60, WORTH = 0.9;
enum { BACK_WINDOWS = 20 };

static void *list(lks_model *model, lks_status *status, size_t count, size_t size)
{
    void *memory = NULL;
    if (*status == LKS_OK)
        *status = lki_arena_alloc(&model->arena, &memory, count * size, "the balance of workers");
    return memory;
}

/* Which of all workers are those of a rank: each has a replica at least. */
static int workers_before(const lki_across *across, int rank)
{
    int w = 0;
    while (w < across->workers && across->border[w] < across->start[rank]) w++;
    return w;
}

static void find_workers(lks_model *model, lki_balance *balance)
{
    const lki_across *across = model->across;
    balance->workers = balance->own = balance->most = model->opts.workers;
    if (across == NULL) return;
    balance->workers = across->workers;
    balance->first = across->first;
    for (int r = 0; r < across->ranks; r++) {
        const int own = workers_before(across, r + 1) - workers_before(across, r);
        balance->most = own > balance->most ? own : balance->most;
    }
}

static lks_status make_lists(lks_model *model, lki_balance *balance)
{
    const size_t workers = (size_t)balance->workers, own = (size_t)balance->own;
    const size_t ranks = model->across != NULL ? (size_t)model->across->ranks : 1;
    lks_status status = LKS_OK;
    balance->count = list(model, &status, workers, sizeof(int64_t));
    balance->wanted = list(model, &status, workers, sizeof(int64_t));
    balance->left = list(model, &status, workers, sizeof(int64_t));
    balance->spent = list(model, &status, own * LKI_BALANCE_PARTS, sizeof(int64_t));
    balance->stepped = list(model, &status, LKI_BALANCE_PARTS, sizeof(int64_t));
    balance->steps = list(model, &status, LKI_BALANCE_PARTS, sizeof(int64_t));
    balance->told = list(model, &status, (ranks + 1) * (LKI_TOLD_WORKERS + (size_t)balance->most),
                         sizeof(double));
    balance->cost = list(model, &status, 3 * workers, sizeof(double));
    balance->border = model->across != NULL ? model->across->border
                                            : list(model, &status, workers + 1, sizeof(int64_t));
    return status;
}

/* Where bits depend on who has which replicas, nobody's speed may decide that. */
static lks_status check_bits(const lks_model *model)
{
    const lks_model_opts *o = &model->opts;
    const char *other = o->reduction != LKS_REDUCTION_STRICT ? "reduction: library"
                        : o->average_every > 0               ? "average_every"
                                                             : NULL;
    if (o->balance != LKS_BALANCE_AUTO || model->across == NULL || other == NULL) return LKS_OK;
    return LKI_FAIL(
        LKS_E_INVALID,
        "balance: auto would change bits with %s, with which they depend on who runs which "
        "replicas; leave one of the two out",
        other);
}

lks_status lki_balance_make(lks_model *model)
{
    const lks_model_opts *o = &model->opts;
    const int64_t replicas = (int64_t)o->replicas * o->accumulate;
    lki_balance own = {.least = WINDOW_SECONDS};
    void *memory;
    LKI_TRY(check_bits(model));
    find_workers(model, &own);
    if (o->balance != LKS_BALANCE_AUTO || o->loss == NULL || o->exchange == LKS_EXCHANGE_NONE ||
        own.workers == 1 || own.workers == replicas)
        return LKS_OK;
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, sizeof own, "the balance of workers"));
    LKI_TRY(make_lists(model, &own));
    for (int w = 0; w <= own.workers && model->across == NULL; w++)
        own.border[w] = lki_share(w, own.workers, replicas);
    for (int w = 0; w < own.workers; w++) own.count[w] = own.border[w + 1] - own.border[w];
    model->balance = memory;
    *model->balance = own;
    return LKS_OK;
}

/* Likewise of all ranks; the first one's clock counts. */
static lks_status learn(lks_model *model, double *seconds)
{
    lki_balance *balance = model->balance;
    const lki_across *across = model->across;
    const int row = LKI_TOLD_WORKERS + balance->most;
    const double *told = balance->told;
    double *cost = balance->cost;
    lki_balance_measure(balance, balance->told);
    if (across != NULL) {
        told += row;
        LKI_TRY(lki_comm_gather(across->comm, balance->told, (size_t)row * sizeof *told,
                                balance->told + row, "seconds of workers"));
    }
    for (int r = 0; r < (across != NULL ? across->ranks : 1); r++) {
        const int workers = across != NULL
                                ? workers_before(across, r + 1) - workers_before(across, r)
                                : balance->own;
        memcpy(cost, told + r * row + LKI_TOLD_WORKERS, (size_t)workers * sizeof *cost);
        cost += workers;
    }
    const double rest = told[LKI_TOLD_STEP] -
                        lki_balance_predict(balance->count, balance->cost, balance->workers, 0);
    balance->rest[NOW] = rest > 0 ? rest : 0;
    *seconds = told[LKI_TOLD_SECONDS];
    if (balance->pretend != NULL)
        balance->pretend(balance->pretend_user, model->progress.step, balance->cost,
                         &balance->rest[NOW]);
    return LKS_OK;
}

/* The step in this window, or in what is said of it, with ranges as they are or as they should be. */
static double predict(const lki_balance *balance, int window, const int64_t *count)
{
    return lki_balance_predict(count, balance->cost + window * balance->workers, balance->workers,
                               balance->rest[window]);
}

/* "5 + 3"; of many the first ones. */
static const char *print_counts(char *text, size_t size, const int64_t *count, int workers)
{
    enum { SHOWN = 16 };
    size_t used = 0;
    *text = '\0';
    for (int w = 0; w < workers && w < SHOWN && used < size; w++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", w > 0 ? " + " : "",
                                 (long long)count[w]);
    if (workers > SHOWN && used < size) snprintf(text + used, size - used, " + ...");
    return text;
}

static void say_cut(const lks_model *model, double gain)
{
    const lki_balance *balance = model->balance;
    char wanted[256], count[256];
    lki_log_line(model->context, LKS_LOG_INFO,
                 "balance: after step %lld the workers take %s replicas, not %s: a step should be "
                 "%.0f%% shorter",
                 (long long)model->progress.step,
                 print_counts(wanted, sizeof wanted, balance->wanted, balance->workers),
                 print_counts(count, sizeof count, balance->count, balance->workers), 100 * gain);
}

/* Other ranges; where there is no memory for them these stay, for good. */
static lks_status cut(lks_model *model)
{
    lki_balance *balance = model->balance;
    const lks_status status = lki_ranges_cut(model, balance->wanted);
    if (status == LKS_E_NOMEM) {
        balance->off = true;
        lki_log_line(model->context, LKS_LOG_WARN,
                     "balance: the workers keep their replicas from here on: %s",
                     lks_last_error()->message);
        return LKS_OK;
    }
    LKI_TRY(status);
    const double gain = 1 - predict(balance, MEAN, balance->wanted) /
                                predict(balance, MEAN, balance->count);
    say_cut(model, gain);
    balance->left_step = predict(balance, MEAN, balance->count);
    memcpy(balance->left, balance->count, (size_t)balance->workers * sizeof *balance->left);
    memcpy(balance->count, balance->wanted, (size_t)balance->workers * sizeof *balance->count);
    balance->since_left = 0;
    balance->cuts++;
    balance->least = fmin(2 * balance->least, MOST_SECONDS);
    balance->before = false;
    balance->settled = model->progress.step;
    return LKS_OK;
}

static bool gains(const lki_balance *balance, int window)
{
    return predict(balance, window, balance->wanted) <
           WORTH * predict(balance, window, balance->count);
}

static int64_t distance(const int64_t *a, const int64_t *b, int workers)
{
    int64_t sum = 0;
    for (int w = 0; w < workers; w++) sum += a[w] > b[w] ? a[w] - b[w] : b[w] - a[w];
    return sum;
}

/* What is wanted was tried not long ago, or nearly, and steps were longer. */
static bool was_worse(const lki_balance *balance)
{
    return balance->cuts > 0 && balance->left_step > predict(balance, MEAN, balance->count) &&
           balance->since_left < BACK_WINDOWS * balance->least &&
           distance(balance->wanted, balance->left, balance->workers) <
               distance(balance->wanted, balance->count, balance->workers);
}

/* A window of so many seconds has ended. */
static lks_status consider(lks_model *model, double seconds)
{
    lki_balance *balance = model->balance;
    double *cost = balance->cost;
    const int workers = balance->workers;
    balance->since_left += seconds;
    if (balance->before) {
        for (int w = 0; w < workers; w++)
            cost[MEAN * workers + w] = (cost[w] + cost[BEFORE * workers + w]) / 2;
        balance->rest[MEAN] = (balance->rest[NOW] + balance->rest[BEFORE]) / 2;
        lki_balance_share(balance->wanted, cost + MEAN * workers, workers, model->program.replicas);
        if (gains(balance, NOW) && gains(balance, BEFORE) && !was_worse(balance)) return cut(model);
    }
    memcpy(cost + BEFORE * workers, cost, (size_t)workers * sizeof *cost);
    balance->rest[BEFORE] = balance->rest[NOW];
    balance->before = true;
    return LKS_OK;
}

/* Ranks also look this many steps behind a change: links may be far apart. */
static bool is_early(int64_t steps)
{
    enum { LEAST = 8 };
    return steps >= LEAST && (steps & (steps - 1)) == 0;
}

lks_status lki_balance_step(lks_model *model, int64_t begin)
{
    lki_balance *balance = model->balance;
    const int64_t step = model->progress.step;
    double seconds;
    if (balance == NULL || balance->off) return LKS_OK;
    const int part = lki_balance_part(step - 1);
    const int64_t spent = lki_laps_clock() - begin;
    if (step == balance->settled + 1) {
        lki_balance_forget(balance);
    } else {
        balance->stepped[part] += spent;
        balance->steps[part]++;
        balance->seconds += 1e-9 * (double)spent;
    }
    if (!model->link_after && !is_early(step - balance->settled)) return LKS_OK;
    LKI_TRY(learn(model, &seconds));
    if (seconds < balance->least) return LKS_OK;
    lki_balance_forget(balance);
    return consider(model, seconds);
}
