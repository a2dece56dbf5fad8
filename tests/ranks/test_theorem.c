/*
 * The theorem over ranks: the bits of a run, its losses and the digits of an evaluation are those of one
 * process, for any number of ranks and workers. One table of who runs, one of what is trained.
 */
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/ranks/cuts.h"
#include "support/ranks/fake.h"
#include "support/runs.h"
#include "support/test.h"

enum { MOST = 8 };

/* Who runs, and what travels when. */
typedef struct layout {
    const char *name;
    int workers[MOST + 1]; /* of every rank; 0: no rank more */
    bool whole_batches;
    size_t bucket_bytes;
    lks_exchange exchange;
    double weight; /* of rank 0 */
    bool cuts;     /* at every link other ranges */
    bool shared;   /* ranks have memory in common */
    lks_shard shard;
} layout;
static const layout LAYOUTS[] = {
    {"1x2", {2}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, false, false, LKS_SHARD_AUTO},
    {"2x1", {1, 1}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, false, false, LKS_SHARD_AUTO},
    {"2x1, buckets", {1, 1}, false, 64, LKS_EXCHANGE_OVERLAPPED, 1, false, true, LKS_SHARD_OFF},
    {"3x1", {1, 1, 1}, false, 1000, LKS_EXCHANGE_OVERLAPPED, 1, false, false, LKS_SHARD_AUTO},
    {"2x2", {2, 2}, true, 4096, LKS_EXCHANGE_OVERLAPPED, 1, false, true, LKS_SHARD_OFF},
    {"2x2, no overlap", {2, 2}, true, 4096, LKS_EXCHANGE_AFTER, 1, false, false, LKS_SHARD_AUTO},
    {"2x2, in common", {2, 2}, true, 0, LKS_EXCHANGE_OVERLAPPED, 1, false, true, LKS_SHARD_AUTO},
    {"3x2", {2, 2, 2}, false, 1, LKS_EXCHANGE_OVERLAPPED, 1, false, true, LKS_SHARD_OFF},
    {"1x8", {8}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, false, false, LKS_SHARD_AUTO},
    {"4x1", {1, 1, 1, 1}, true, 0, LKS_EXCHANGE_AFTER, 1, false, true, LKS_SHARD_OFF},
    {"4x1, in common", {1, 1, 1, 1}, false, 0, LKS_EXCHANGE_AFTER, 1, false, true, LKS_SHARD_AUTO},
    {"2 + 1 workers", {2, 1}, false, 256, LKS_EXCHANGE_OVERLAPPED, 1, false, false, LKS_SHARD_AUTO},
    {"2 + 1, in common", {2, 1}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, false, true, LKS_SHARD_AUTO},
    {"1 + 3 workers", {1, 3}, false, 0, LKS_EXCHANGE_AFTER, 1, false, true, LKS_SHARD_OFF},
    {"2x1, weights 3,1",
     {1, 1},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     3,
     false,
     false,
     LKS_SHARD_AUTO},
    {"2x1, weights 3,1, in common",
     {1, 1},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     3,
     false,
     true,
     LKS_SHARD_AUTO},
    {"2x2, weights 1,4",
     {2, 2},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     .25,
     false,
     true,
     LKS_SHARD_OFF},
    {"6x1",
     {1, 1, 1, 1, 1, 1},
     false,
     2000,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     false,
     true,
     LKS_SHARD_OFF},
    {"8x1",
     {1, 1, 1, 1, 1, 1, 1, 1},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     false,
     false,
     LKS_SHARD_AUTO},
    {"8x1, in common",
     {1, 1, 1, 1, 1, 1, 1, 1},
     true,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     false,
     true,
     LKS_SHARD_AUTO},
    {"2x1, spread", {1, 1}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, false, false, LKS_SHARD_ON},
    {"3x1, spread", {1, 1, 1}, false, 64, LKS_EXCHANGE_AFTER, 1, false, false, LKS_SHARD_ON},
    {"2 + 3, spread", {2, 3}, true, 4096, LKS_EXCHANGE_OVERLAPPED, 3, false, false, LKS_SHARD_ON},
    {"8x1, spread",
     {1, 1, 1, 1, 1, 1, 1, 1},
     false,
     1000,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     false,
     false,
     LKS_SHARD_ON},
    {"2 + 1, spread, cut anew",
     {2, 1},
     false,
     256,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     true,
     false,
     LKS_SHARD_ON},
    {"2x1, in common, or spread",
     {1, 1},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     false,
     true,
     LKS_SHARD_ON},
    {"1x3, cut anew", {3}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, true, false, LKS_SHARD_AUTO},
    {"1x5, cut anew", {5}, false, 0, LKS_EXCHANGE_OVERLAPPED, 1, true, false, LKS_SHARD_AUTO},
    {"2x1, cut anew", {1, 1}, false, 64, LKS_EXCHANGE_OVERLAPPED, 1, true, false, LKS_SHARD_AUTO},
    {"2x2, cut anew, whole batches",
     {2, 2},
     true,
     4096,
     LKS_EXCHANGE_AFTER,
     1,
     true,
     true,
     LKS_SHARD_OFF},
    {"2 + 1, cut anew, in common",
     {2, 1},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     true,
     true,
     LKS_SHARD_AUTO},
    {"2 + 1 workers, cut anew",
     {2, 1},
     false,
     256,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     true,
     false,
     LKS_SHARD_AUTO},
    {"1 + 3 workers, weights 3,1, cut anew",
     {1, 3},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     3,
     true,
     true,
     LKS_SHARD_OFF},
    {"5x1, cut anew",
     {1, 1, 1, 1, 1},
     false,
     1000,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     true,
     false,
     LKS_SHARD_AUTO},
    {"5x1, cut anew, in common",
     {1, 1, 1, 1, 1},
     false,
     0,
     LKS_EXCHANGE_OVERLAPPED,
     1,
     true,
     true,
     LKS_SHARD_AUTO},
};
enum { LAYOUT_COUNT = sizeof LAYOUTS / sizeof LAYOUTS[0] };

typedef struct net {
    const char *name;
    lkt_net loss;
    int64_t samples, batch;
    int steps;
    lks_model_opts opts;
} net;

/* 97 samples in batches of 61: the second of an epoch has 36. Five samples for eight replicas: some are
 * absent, and so are whole ranks. */
static int list_nets(net *out)
{
    /* A layer as a whole, and of others a part, by replica and by rows. */
    static const char *const frozen[] = {"conv2d_1.*", "dense_1.weight", "batch_norm_2.*",
                                         "batch_norm_4.bias"};
    const net nets[] = {
        {"dropout, by rows", lkt_net_mlp, 97, 61, 4, {.optim = lks_adadelta()}},
        {"dropout, by replica", lkt_net_mlp, 97, 61, 3, {.optim = lks_adam(), .by_replica = true}},
        {"convolutions", lkt_net_conv, 97, 61, 3, {.optim = lks_adadelta(), .ema_decay = .9}},
        {"batch norm", lkt_net_residual, 97, 61, 4, {.optim = lks_sgd(.9f)}},
        {"synced batch norm", lkt_net_synced, 97, 61, 4, {.optim = lks_sgd(.9f), .ema_decay = .9}},
        {"absent replicas, synced",
         lkt_net_synced,
         11,
         5,
         5,
         {.optim = lks_adam(), .by_replica = true, .clip_norm = .05}},
        {"clipped",
         lkt_net_conv,
         97,
         61,
         3,
         {.optim = lks_adam(), .clip_norm = .05, .clip_value = .01}},
        {"AdamP, averages", lkt_net_mlp, 97, 61, 3, {.optim = lks_adamp(), .ema_decay = .99}},
        {"LARS", lkt_net_mlp, 97, 61, 3, {.optim = lks_lars()}},
        {"LAMB", lkt_net_mlp, 97, 61, 3, {.optim = lks_lamb()}},
        {"skips", lkt_net_residual, 97, 61, 3, {.optim = lks_sgd(0), .skip_not_finite = true}},
        {"absent replicas", lkt_net_residual, 11, 5, 5, {.optim = lks_sgd(.9f)}},
        {"absent replicas, by rows", lkt_net_mlp, 11, 5, 5, {.optim = lks_adam()}},
        {"layer norms, concat", lkt_net_joined, 97, 61, 2, {.optim = lks_adamw()}},
        {"gates", lkt_net_gated, 97, 61, 2, {.optim = lks_adam()}},
        {"frozen",
         lkt_net_synced,
         97,
         61,
         3,
         {.optim = lks_adam(), .ema_decay = .9, .freeze = frozen, .freeze_count = 4}},
        {"frozen, clipped",
         lkt_net_conv,
         97,
         61,
         3,
         {.optim = lks_sgd(.9f), .clip_norm = .05, .freeze = frozen, .freeze_count = 2}},
    };
    memcpy(out, nets, sizeof nets);
    return (int)(sizeof nets / sizeof nets[0]);
}
enum { MOST_NETS = 18 };

typedef struct outcome {
    uint64_t hash;
    lks_metrics metrics[2];
} outcome;

typedef struct question {
    lkt_run run;
    const layout *who;
    outcome expected;
} question;

static void cut_often(lks_model *model, void *user)
{
    (void)user;
    lkt_cut_often(model);
}

static int body(lks_comm *comm, int rank, void *user)
{
    const question *q = user;
    lkt_run run = q->run;
    outcome found = {0};
    int64_t cuts = 0;
    LKT_CHECK(comm != NULL);
    run.cuts = &cuts;
    if (q->who->cuts) {
        run.opts.balance = LKS_BALANCE_AUTO;
        run.compiled = cut_often;
    }
    run.opts.comm = comm;
    run.opts.workers = q->who->workers[rank];
    run.opts.bucket_bytes = q->who->bucket_bytes;
    run.opts.exchange = q->who->exchange;
    run.opts.shard = q->who->shard;
    run.opts.weight = rank == 0 ? q->who->weight : 1;
    run.whole_batches = q->who->whole_batches;
    LKT_CHECK(lkt_run_try(&run, &found.hash, found.metrics) == LKS_OK);
    LKT_CHECK(found.hash == q->expected.hash);
    LKT_CHECK(memcmp(found.metrics, q->expected.metrics, sizeof found.metrics) == 0);
    LKT_CHECK(cuts == (q->who->cuts ? run.steps / run.opts.hash_every : 0));
    return 0;
}

static int ranks_of(const layout *who, int *workers)
{
    int ranks = 0;
    *workers = 0;
    for (; who->workers[ranks] > 0; ranks++) *workers += who->workers[ranks];
    return ranks;
}

/* Of the plain loops' device, which are slow, every second layout. */
static bool wanted(const question *q, int l)
{
    if (lkt_in_part())
        return l == 2 || l == 5 || l == 6 || l == 11 || l == 15 || l == 24 || l == 28 || l == 30;
    return strcmp(q->run.device, "ref") != 0 || (l + q->run.opts.replicas / 2) % 2 == 0;
}

static void check_layouts(question *q, const char *name, lkt_random *random)
{
    q->run.opts.workers = 1;
    q->expected.hash = lkt_run_hash(&q->run, q->expected.metrics);
    for (int l = 0; l < LAYOUT_COUNT; l++) {
        int workers, results[LKT_MOST_RANKS];
        const int ranks = ranks_of(q->who = &LAYOUTS[l], &workers);
        if (workers >
            q->run.opts.replicas * (q->run.opts.accumulate > 0 ? q->run.opts.accumulate : 1))
            continue;
        if (!wanted(q, l)) continue;
        const lkt_hub_opts hub = {.size = ranks,
                                  .seed = lkt_random_bits(random),
                                  .delay = l % 3,
                                  .share = LAYOUTS[l].shared};
        lkt_ranks_run(&hub, NULL, body, q, results);
        for (int r = 0; r < ranks; r++)
            if (results[r] != 0)
                fail_msg("%s, %s, %d replicas, %s: not the bits of one process on rank %d",
                         q->run.device, name, q->run.opts.replicas, LAYOUTS[l].name, r);
    }
}

static void check_nets(int backend, int replicas, int accumulate, lkt_random *random)
{
    net nets[MOST_NETS];
    const int count = list_nets(nets);
    for (int n = 0; n < count; n++) {
        if (lkt_in_part() && n % 3 != 0) continue;
        /* On one device each, in turn. */
        if (lkt_in_part() && lkt_backends()[1] != NULL && (n / 3 + backend) % 2 != 0) continue;
        if (lkt_ranks_are_processes() && n % 8 != 1) continue; /* started by tests/dist */
        question q = {.run = {.device = lkt_backends()[backend]->name,
                              .net = nets[n].loss,
                              .samples = nets[n].samples,
                              .batch = nets[n].batch,
                              .steps = nets[n].steps,
                              .mixup = n % 3 == 1 ? 0.4 : 0,
                              .opts = nets[n].opts}};
        q.run.opts.replicas = replicas;
        q.run.opts.accumulate = accumulate;
        q.run.opts.hash_every = 2;
        check_layouts(&q, nets[n].name, random);
    }
}

static void any_ranks_and_workers(void **state)
{
    lkt_random random = lkt_random_make("any_ranks_and_workers", 51);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int replicas = lkt_in_part() ? 8 : 6; replicas <= 8; replicas += 2)
            check_nets(b, replicas, 1, &random);
}

static void accumulated(void **state)
{
    lkt_random random = lkt_random_make("accumulated", 52);
    (void)state;
    if (!lkt_in_part()) check_nets(0, 3, 3, &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_and_workers),
        cmocka_unit_test(accumulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
