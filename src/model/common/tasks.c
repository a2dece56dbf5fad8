/*
 * What workers of ranks with parameters in common do between the words of two steps, in parts:
 *
 *   rank 0, worker 0   parts 0 1 2 5 6 | all are done: goes on           | packs  | next replicas ...
 *   rank 1, worker 0   parts 3 4       | something else has its core                | finds all done, next replicas ...
 *
 * A worker takes its own parts first, which are the same in each step as they are in its cache, then those of others.
 * How many are taken, and how many are done, is counted in memory in common; who comes late, because its core is held,
 * finds nothing left and keeps nobody waiting but for a part that it has begun. Which one takes a part changes no bit.
 */
#include "base/check.h"
#include "model/model.h"

static _Atomic int64_t *line(const lki_common *common, int number)
{
    return (_Atomic int64_t *)(void *)(common->tasks[common->turn] + (size_t)number * LKI_ALIGN);
}

/* How many of a worker's parts are taken. */
static _Atomic int64_t *taken(const lks_model *model, int part, lki_task task)
{
    const lki_common *common = model->common;
    return common != NULL ? line(common, 1 + part) + task : &model->worker[part].taken;
}

static _Atomic int64_t *done(const lki_common *common, lki_task task)
{
    return line(common, 0) + task;
}

void lki_tasks_take(lks_model *model, int worker, lki_task task, int64_t all,
                    void (*take)(lks_model *model, int worker, int64_t number))
{
    lki_common *common = model->common;
    for (int i = 0; i < model->parts; i++) {
        const int of = (model->first_part + worker + i) % model->parts;
        const int64_t first = lki_share(of, model->parts, all);
        const int64_t end = lki_share(of + 1, model->parts, all);
        for (int64_t next;
             (next = first + atomic_fetch_add_explicit(taken(model, of, task), 1,
                                                       memory_order_relaxed)) < end;) {
            take(model, worker, next);
            if (common != NULL && atomic_fetch_add(done(common, task), 1) + 1 == all)
                lki_comm_meet_wake(&common->meeting);
        }
    }
}

bool lki_tasks_done(lks_model *model, int worker, lki_task task, int64_t all)
{
    lki_common *common = model->common;
    lki_workers_barrier(model->threads, worker);
    return lki_across_led(model, worker,
                          worker == 0 ? lki_comm_await(model->across->comm, &common->meeting,
                                                       done(common, task), all, "new parameters")
                                      : LKS_OK);
}
