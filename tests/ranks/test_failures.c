/* Several ranks that train one model, and something is wrong on one of them: all are told the same, nobody
 * waits for ever, and nothing is half done. */
#include <math.h>

#include "support/far.h"
#include "support/ranks/small.h"

static void run(int ranks, lkt_rank_body body, void *user)
{
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 5, .delay = 2}, NULL, body, user);
}

static int too_many(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.workers = rank == 1 ? 5 : 1}) ==
              LKS_E_INVALID);
    LKT_SAYS("7 workers of 3 ranks cannot share 6 replicas");
    LKT_SAYS("replicas: 7");
    lkt_small_end(&m);
    return 0;
}

static int others(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.global_batch = rank == 2 ? 12 : 24}) ==
              LKS_E_MISMATCH);
    LKT_SAYS("rank 2 (host ");
    LKT_SAYS("compiles a model with global_batch 12, rank 0 with 24; all ranks must");
    lkt_small_end(&m);
    m = (lkt_small){.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.by_replica = rank == 1}) ==
              LKS_E_MISMATCH);
    LKT_SAYS("gradients by ");
    lkt_small_end(&m);
    m = (lkt_small){.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.bucket_bytes = rank == 1 ? 64 : 0}) ==
              LKS_E_MISMATCH);
    LKT_SAYS("bucket_bytes 64, rank 0 with 0");
    lkt_small_end(&m);
    return 0;
}

/* One rank has another switch of kernels than the others. */
static int other_kernels(lks_comm *comm, int rank, void *user)
{
    static const struct {
        lks_kernel_opts kernels;
        const char *says;
    } of[] = {{{.winograd = LKS_WINOGRAD_F2}, "kernels.winograd 2, rank 0 with 0"},
              {{.single = true}, "kernels.single 1, rank 0 with 0"},
              {{.all_terms = true}, "kernels.all_terms 1, rank 0 with 0"},
              {{.bf16 = true}, "kernels.bf16 1, rank 0 with 0"},
              {{.bf16_storage = true}, "kernels.bf16_storage 1, rank 0 with 0"}};
    (void)user;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        lkt_small m = {.model = NULL};
        lks_model_opts opts = {0};
        if (rank == 1) opts.kernels = of[i].kernels;
        LKT_CHECK(lkt_small_build(&m, comm, opts) == LKS_E_MISMATCH);
        LKT_SAYS(of[i].says);
        lkt_small_end(&m);
    }
    return 0;
}

/* Who takes what: 6 replicas by weights, at least one for each worker. */
typedef struct cut {
    double weight[SMALL_RANKS];
    int64_t border[SMALL_RANKS + 1];
} cut;

static int cuts(lks_comm *comm, int rank, void *user)
{
    const cut *c = user;
    lkt_small m = {.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.weight = c->weight[rank]}) == LKS_OK);
    const lks_model_info info = lks_model_get_info(m.model);
    LKT_CHECK(info.first_share == c->border[rank] && info.last_share == c->border[rank + 1]);
    lkt_small_end(&m);
    return 0;
}

static void replicas_follow_weights(void **state)
{
    static const cut list[] = {{{0, 0, 0}, {0, 2, 4, 6}},         {{1, 1, 2}, {0, 1, 3, 6}},
                               {{3, 2, 1}, {0, 3, 5, 6}},         {{1000, 1, 1}, {0, 4, 5, 6}},
                               {{1e-3, 1e-3, 1e3}, {0, 1, 2, 6}}, {{.5, .5, .5}, {0, 2, 4, 6}}};
    lkt_small m = {.model = NULL};
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        run(SMALL_RANKS, cuts, (void *)(uintptr_t)&list[i]);
    LKT_FAILS(LKS_E_INVALID, "weight is -1, expected 1e-06 to 1e+06",
              lkt_small_build(&m, NULL, (lks_model_opts){.weight = -1}));
    lkt_small_end(&m);
}

/* One rank alone cannot begin, or not end. */
static int one_cannot(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.ema_decay = rank == 1 ? 2 : 0}) ==
              LKS_E_INVALID);
    if (rank != 1) LKT_SAYS("rank 1 (host ");
    LKT_SAYS("ema_decay is 2");
    LKT_CHECK(m.model == NULL);
    lkt_small_end(&m);
    m = (lkt_small){.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.clip_norm = rank == 2 ? -1 : 0}) ==
              LKS_E_INVALID);
    if (rank != 2) LKT_SAYS("rank 2 (host ");
    LKT_SAYS("clip_norm is -1");
    lkt_small_end(&m);
    return 0;
}

/* Memory that the host cannot read is not sent. */
static int no_host_memory(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)rank, (void)user;
    LKT_CHECK(lkt_small_begin(&m, &(lks_context_opts){.device = "far"}) == LKS_OK);
    LKT_CHECK(lkt_small_compile(&m, comm, (lks_model_opts){0}) == LKS_E_UNSUPPORTED);
    LKT_SAYS("device 'far' cannot train in several processes");
    lkt_small_end(&m);
    return 0;
}

static void refusals(void **state)
{
    (void)state;
    lki_backend_lend(lkt_far(true));
    run(SMALL_RANKS, no_host_memory, NULL);
    run(SMALL_RANKS, too_many, NULL);
    run(SMALL_RANKS, others, NULL);
    run(SMALL_RANKS, other_kernels, NULL);
    run(SMALL_RANKS, one_cannot, NULL);
}

/* Allocation number n fails on one rank, for every n of a compile: all are told, and none has a model. */
typedef struct shortage {
    int at;
    lks_shard shard;
} shortage;

static int no_memory(lks_comm *comm, int rank, void *user)
{
    const shortage *s = user;
    lkt_heap heap = {.fail_at = 0};
    const lks_allocator allocator = lkt_heap_allocator(&heap);
    const lks_context_opts how = {.device = "cpu", .allocator = allocator};
    lkt_small m = {.model = NULL};
    LKT_CHECK(lkt_small_begin(&m, &how) == LKS_OK);
    if (rank == 1) heap.fail_at = heap.allocations + s->at;
    const lks_status status = lkt_small_compile(
        &m, comm, (lks_model_opts){.workers = 2, .optim = lks_adamp(), .shard = s->shard});
    LKT_CHECK((status == LKS_OK) == (m.model != NULL));
    if (status != LKS_OK) {
        LKT_CHECK(status == LKS_E_NOMEM);
        if (rank != 1) LKT_SAYS("rank 1 (host ");
    }
    lkt_small_end(&m);
    LKT_CHECK(heap.live == 0 && heap.errors == 0);
    return status == LKS_OK ? 0 : 2;
}

static void one_lacks_memory(lks_shard shard)
{
    int results[LKT_MOST_RANKS] = {2}, failures = 0;
    for (int at = 1; results[0] == 2; at++, failures++) {
        shortage s = {.at = at, .shard = shard};
        lkt_ranks_run(&(lkt_hub_opts){.size = SMALL_RANKS, .share = at % 2 == 0}, NULL, no_memory,
                      &s, results);
        for (int r = 0; r < SMALL_RANKS; r++)
            if (results[r] != results[0] || results[r] == 1)
                fail_msg("allocation %d: rank %d has %d, rank 0 %d", at, r, results[r], results[0]);
    }
    assert_true(failures > 10);
}

static void one_has_no_memory(void **state)
{
    (void)state;
    one_lacks_memory(LKS_SHARD_AUTO);
    one_lacks_memory(LKS_SHARD_ON);
}

static int bad_label(lkt_small *m, int rank, void *user)
{
    int32_t labels[SMALL_SAMPLES];
    lks_batch batch;
    (void)user;
    LKT_CHECK(lkt_small_bad_label(m, rank, &batch, labels) == 0);
    LKT_CHECK(lks_model_progress(m->model).step == 0);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK); /* and all go on */
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    return 0;
}

static int other_counts(lkt_small *m, int rank, void *user)
{
    lks_batch batch = *lkt_small_batch();
    (void)user;
    if (rank == 2) batch.count = 20;
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_E_INVALID);
    if (rank != 2) LKT_SAYS("rank 2 (host ");
    LKT_SAYS("takes step 1 with a batch of 20 samples, rank 0 step 1 with 24");
    return 0;
}

static int wrong_part(lkt_small *m, int rank, void *user)
{
    const lks_model_info info = lks_model_get_info(m->model);
    lks_batch batch = *lkt_small_batch();
    (void)user;
    LKT_CHECK(info.shares == 6 && info.first_share == 2 * rank && info.last_share == 2 * rank + 2);
    batch.whole = SMALL_SAMPLES;
    batch.count = 8;
    batch.first = rank == 0 ? 8 : 8 * rank;
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_E_INVALID);
    LKT_SAYS("samples 8 to 16 of 24, and the replicas of this rank take 0 to 8");
    return 0;
}

static void bad_batches(void **state)
{
    (void)state;
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = bad_label});
    /* In common memory samples of different batches would lie one over the other, before the step is refused:
     * nobody uses them, but the thread sanitizer tells. */
    const lks_model_opts apart = {.shard = lkt_in_part() ? LKS_SHARD_OFF : LKS_SHARD_AUTO};
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.opts = apart, .body = other_counts});
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = wrong_part});
}

/* What one process says of a batch in which samples 9 and 20 have no finite loss. */
typedef struct broken {
    float x[SMALL_SAMPLES * SMALL_WIDTH];
    lks_batch batch;
    char message[sizeof((lks_error *)NULL)->message];
    uint64_t hash;
} broken;

static void break_samples(broken *b)
{
    memcpy(b->x, lkt_small_batch()->x, sizeof b->x);
    b->x[9 * SMALL_WIDTH + 2] = b->x[20 * SMALL_WIDTH] = (float)NAN;
    b->batch = *lkt_small_batch();
    b->batch.x = b->x;
}

static int same_sentence(lkt_small *m, int rank, void *user)
{
    const broken *b = user;
    lks_metrics metrics;
    uint64_t hash;
    (void)rank;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, &metrics) == LKS_OK);
    LKT_CHECK(metrics.samples == SMALL_SAMPLES);
    LKT_CHECK(lks_model_step(m->model, &b->batch, .1, NULL) == LKS_E_NUMERIC);
    LKT_SAYS(b->message);
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK && hash == b->hash);
    return 0;
}

static void a_loss_that_is_not_finite(void **state)
{
    broken b;
    lkt_small m = {.model = NULL};
    (void)state;
    break_samples(&b);
    LKT_OK(lkt_small_build(&m, NULL, (lks_model_opts){.workers = 3}));
    LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    LKT_FAILS(LKS_E_NUMERIC, "sample 1009, 1020; first bad tensor",
              lks_model_step(m.model, &b.batch, .1, NULL));
    memcpy(b.message, lks_last_error()->message, sizeof b.message);
    LKT_OK(lks_model_hash(m.model, &b.hash));
    lkt_small_end(&m);
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = same_sentence, .user = &b});
}

static int skips(lkt_small *m, int rank, void *user)
{
    const broken *b = user;
    uint64_t hash;
    (void)rank;
    for (int i = 0; i < 4; i++) {
        LKT_CHECK(lks_model_step(m->model, i == 1 ? &b->batch : lkt_small_batch(), .1, NULL) ==
                  LKS_OK);
        LKT_CHECK(lks_model_last_step(m->model).skipped == (i == 1));
    }
    LKT_CHECK(lks_model_progress(m->model).skipped == 1);
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK);
    LKT_CHECK(b->hash == 0 || hash == b->hash);
    if (b->hash == 0) ((broken *)user)->hash = hash; /* one rank */
    return 0;
}

static void a_step_is_skipped_on_all(void **state)
{
    broken b = {.hash = 0};
    (void)state;
    break_samples(&b);
    lkt_small_tell(1, &(lkt_story){.opts = {.skip_not_finite = true}, .body = skips, .user = &b});
    assert_int_not_equal(b.hash, 0);
    lkt_small_tell(SMALL_RANKS,
                   &(lkt_story){.opts = {.skip_not_finite = true}, .body = skips, .user = &b});
    lkt_small_tell(SMALL_RANKS,
                   &(lkt_story){.opts = {.skip_not_finite = true, .shard = LKS_SHARD_ON},
                                .body = skips,
                                .user = &b,
                                .apart = true});
}

/* Each exchange in turn, by messages and with memory in common. */
static void of_rank_1(lkt_hub_opts *hub, int n)
{
    hub->fail_rank = 1;
    hub->fail_at = (n + 1) / 2;
}

static void of_rank_1_apart(lkt_hub_opts *hub, int n)
{
    hub->fail_rank = 1;
    hub->fail_at = n;
    hub->share = false;
}

static lks_status spread(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    opts.shard = LKS_SHARD_ON;
    opts.optim = lks_adam();
    opts.clip_norm = .1;
    opts.bucket_bytes = 64;
    return lkt_small_build(m, comm, opts);
}

static void any_exchange_may_fail(void **state)
{
    (void)state;
    lkt_small_endure(lkt_small_build, 3, of_rank_1);
    lkt_small_endure(spread, 2, of_rank_1_apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(replicas_follow_weights),
        cmocka_unit_test(one_has_no_memory),
        cmocka_unit_test(bad_batches),
        cmocka_unit_test(a_loss_that_is_not_finite),
        cmocka_unit_test(a_step_is_skipped_on_all),
        cmocka_unit_test(any_exchange_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
