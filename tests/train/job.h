/* A training of the tiny network: data, loaders, and events that are written down. */
#ifndef LKT_TRAIN_JOB_H
#define LKT_TRAIN_JOB_H

#include "train/tiny.h"

#include <math.h>

enum { JOB_HELD = 11, JOB_BATCHES = 7 }; /* 53 samples, 8 in a batch: the last has 5 */

typedef struct job {
    tiny net;
    float x[TINY_SAMPLES + JOB_HELD][TINY_FEATURES];
    int32_t y[TINY_SAMPLES + JOB_HELD];
    lks_dataset *all, *data, *held;
    lks_loader *train, *valid;
    /* What happened. */
    int64_t stop_step, stop_epoch; /* these events return LKS_E_STOPPED; 0: none */
    int64_t steps, epochs, saves, last_save, resumed_at; /* resumed_at -1: on_resume(NULL) */
    double rates[64];
} job;

static inline lks_status job_on_step(void *user, const lks_step_event *event)
{
    job *j = user;
    assert_int_equal(event->epoch, (event->step - 1) / event->batches + 1);
    assert_int_equal(event->batch, (event->step - 1) % event->batches);
    if (event->step < 64) j->rates[event->step] = event->learning_rate;
    j->steps++;
    return event->step == j->stop_step ? LKS_E_STOPPED : LKS_OK;
}

static inline lks_status job_on_epoch(void *user, const lks_epoch *epoch)
{
    job *j = user;
    j->epochs++;
    return epoch->epoch == j->stop_epoch ? LKS_E_STOPPED : LKS_OK;
}

static inline void job_on_resume(void *user, const lks_run *run)
{
    ((job *)user)->resumed_at = run ? run->progress.step : -1;
}

static inline void job_on_save(void *user, int64_t step)
{
    job *j = user;
    j->saves++;
    j->last_save = step;
}

/* The data, which may be changed before job_load(). */
static inline job *job_make(void)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    for (int64_t i = 0; i < TINY_SAMPLES + JOB_HELD; i++) tiny_sample(i, j->x[i], &j->y[i]);
    return j;
}

static inline void job_load(job *j, const tiny_opts *opts, int threads)
{
    const lks_dataset_info info = {.samples = TINY_SAMPLES + JOB_HELD,
                                   .shape = LKS_SHAPE(TINY_FEATURES),
                                   .classes = TINY_CLASSES};
    j->net = tiny_open(opts);
    lks_context *context = j->net.context;
    LKT_OK(lks_dataset_from_arrays(&j->all, context, &info, j->x, j->y));
    LKT_OK(lks_dataset_slice(&j->data, j->all, 0, TINY_SAMPLES));
    LKT_OK(lks_dataset_slice(&j->held, j->all, TINY_SAMPLES, JOB_HELD));
    const int64_t batch = opts->batch ? opts->batch : TINY_BATCH;
    LKT_OK(lks_loader_create(&j->train, context, j->data,
                             &(lks_loader_opts){.global_batch = batch, .threads = threads}));
    LKT_OK(lks_loader_create(&j->valid, context, j->held,
                             &(lks_loader_opts){.global_batch = 4, .in_order = true}));
}

static inline job *job_open(const tiny_opts *opts, int threads)
{
    job *j = job_make();
    job_load(j, opts, threads);
    return j;
}

static inline void job_close(job *j)
{
    lks_loader_destroy(j->valid);
    lks_loader_destroy(j->train);
    lks_dataset_destroy(j->held);
    lks_dataset_destroy(j->data);
    lks_dataset_destroy(j->all);
    tiny_close(&j->net);
    free(j);
}

/* Three epochs, with the job's data and events. */
static inline lks_train_opts job_opts(job *j, const char *path)
{
    return (lks_train_opts){.model = j->net.model,
                            .train = j->train,
                            .valid = j->valid,
                            .schedule = {.kind = LKS_STEP, .lr = 0.2, .gamma = 0.5},
                            .epochs = 3,
                            .folder = path,
                            .events = {.on_step = job_on_step,
                                       .on_epoch = job_on_epoch,
                                       .on_resume = job_on_resume,
                                       .on_save = job_on_save,
                                       .user = j}};
}

/* Two records are the same but for seconds. */
static inline void job_assert_same(const lks_run *a, const lks_run *b)
{
    assert_int_equal(a->progress.step, b->progress.step);
    assert_int_equal(a->progress.link, b->progress.link);
    assert_memory_equal(&a->so_far, &b->so_far, sizeof a->so_far);
    assert_true(a->best_loss == b->best_loss || (isnan(a->best_loss) && isnan(b->best_loss)));
    assert_int_equal(a->best_step, b->best_step);
    assert_int_equal(a->bad_epochs, b->bad_epochs);
    assert_true(a->plateau.lr == b->plateau.lr && a->plateau.bad == b->plateau.bad);
    assert_true(a->plateau.best == b->plateau.best ||
                (isnan(a->plateau.best) && isnan(b->plateau.best)));
    assert_int_equal(a->finished, b->finished);
    assert_int_equal(a->epochs, b->epochs);
    for (int64_t i = 0; i < a->epochs; i++) {
        const lks_epoch *x = &a->history[i], *y = &b->history[i];
        assert_int_equal(x->epoch, y->epoch);
        assert_memory_equal(&x->train, &y->train, sizeof x->train);
        assert_memory_equal(&x->valid, &y->valid, sizeof x->valid);
        assert_memory_equal(&x->test, &y->test, sizeof x->test);
        assert_true(x->learning_rate == y->learning_rate);
        const double *rates[] = {&x->valid_rates.precision, &y->valid_rates.precision,
                                 &x->test_rates.precision, &y->test_rates.precision};
        for (int r = 0; r < 4; r += 2)
            for (int k = 0; k < 3; k++)
                assert_true(rates[r][k] == rates[r + 1][k] ||
                            (isnan(rates[r][k]) && isnan(rates[r + 1][k])));
    }
}

#endif
