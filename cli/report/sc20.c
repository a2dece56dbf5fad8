#include "cli/report/sc20.h"

#include "cli/out/say.h"

void sc20_begin(void)
{
    say("INFO - Starting Training Loop...");
}

void sc20_step(const lks_step_event *event, double rate, const char *unit)
{
    say("INFO - Epoch: %lld, Iteration: %lld, Avg %s/sec: %.3f", (long long)event->epoch,
        (long long)event->batch, unit, rate);
}

static double share(const lks_metrics *metrics)
{
    return (double)metrics->correct / (double)metrics->counted;
}

void sc20_epoch(const lks_epoch *epoch, bool shares)
{
    const lks_metrics *train = &epoch->train;
    const lks_metrics *valid = epoch->valid.samples > 0 ? &epoch->valid : &epoch->test;
    say("INFO - Time taken for epoch %lld is %.3f sec", (long long)epoch->epoch, epoch->seconds);
    if (valid->samples == 0) {
        if (shares) say("INFO - train acc1=%.6f", share(train));
        say("INFO - train loss=%.6f", lks_metrics_loss(train));
        return;
    }
    if (shares) say("INFO - train acc1=%.6f, valid acc1=%.6f", share(train), share(valid));
    say("INFO - train loss=%.6f, valid loss=%.6f", lks_metrics_loss(train),
        lks_metrics_loss(valid));
}
