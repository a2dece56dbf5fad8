/* The peak of several threads at once. */
#include <lockstep/tools.h>

#include "base/check.h"
#include "base/memory.h"
#include "machine/peak.h"
#include "machine/thread.h"

typedef struct peak_task {
    lki_workers *workers;
    double seconds;
    double *rate; /* [threads] */
} peak_task;

static void peak_measure_peak(void *user, int worker)
{
    const peak_task *task = user;
    lki_peak(0.01); /* lets the clock settle */
    lki_workers_barrier(task->workers, worker);
    task->rate[worker] = lki_peak(task->seconds);
}

lks_status lks_peak(double *flops, lks_context *context, int threads, double seconds)
{
    if (flops == NULL) return LKI_FAIL_NULL(flops);
    peak_task task = {.seconds = seconds};
    void *memory;
    *flops = 0;
    LKI_TRY(lki_workers_create(&task.workers, context, threads));
    const size_t bytes = (size_t)threads * sizeof(double);
    const lks_status status = lki_alloc(context, &memory, bytes, "the threads' rates");
    if (status == LKS_OK) {
        task.rate = memory;
        lki_workers_run(task.workers, peak_measure_peak, &task);
        for (int t = 0; t < threads; t++) *flops += task.rate[t];
        lki_free(context, memory, bytes);
    }
    lki_workers_destroy(task.workers);
    return status;
}
