/* The theorem: the bits of a run do not depend on the number of workers, on how gradients are
 * formed, nor on how replicas are named. Every backend, every kind of network. */
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

static const int WORKERS[] = {2, 3, 5, 6, 8};

static const lkt_net NETS[] = {lkt_net_mlp,    lkt_net_conv,  lkt_net_residual,
                               lkt_net_joined, lkt_net_gated, lkt_net_synced};
enum { NET_COUNT = sizeof NETS / sizeof NETS[0] };

typedef struct outcome {
    uint64_t hash;
    lks_metrics metrics[2];
} outcome;

static outcome outcome_of(const lkt_run *run)
{
    outcome it;
    it.hash = lkt_run_hash(run, it.metrics);
    return it;
}

static void check_outcome(const lkt_run *run, const outcome *expected, const char *what)
{
    const outcome found = outcome_of(run);
    if (expected->hash != found.hash)
        fail_msg("%s, %s: hash %016llx, expected %016llx", run->device, what,
                 (unsigned long long)found.hash, (unsigned long long)expected->hash);
    assert_memory_equal(expected->metrics, found.metrics, sizeof found.metrics);
}

static void check_equal(const lkt_run *one, const lkt_run *other, const char *what)
{
    const outcome expected = outcome_of(one);
    check_outcome(other, &expected, what);
}

/* Batch 61 of 97 samples: shares differ, the second batch of an epoch has 36. */
static void check_workers(lkt_run run)
{
    run.opts.workers = 1;
    const outcome alone = outcome_of(&run);
    for (size_t i = 0; i < sizeof WORKERS / sizeof WORKERS[0]; i++) {
        lkt_run other = run;
        char what[64];
        other.opts.workers = WORKERS[i];
        if (WORKERS[i] > run.opts.replicas) continue;
        /* Shares of one size, of two, and of one replica each do there. */
        if (lkt_in_part() && WORKERS[i] != 2 && WORKERS[i] != 3 && WORKERS[i] != 8) continue;
        snprintf(what, sizeof what, "%d replicas, %d workers", run.opts.replicas, WORKERS[i]);
        check_outcome(&other, &alone, what);
    }
}

/* With a sanitizer a network is tried on one device with two of these questions, on the other with the others. */
static bool wanted(int b, int n, int other)
{
    return !lkt_in_part() || lkt_backends()[1] == NULL || (b + n) % 2 == other;
}

static void any_number_of_workers(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++)
            for (int replicas = lkt_in_part() ? 8 : 6; replicas <= 8; replicas += 2)
                if (wanted(b, n, 0))
                    check_workers((lkt_run){
                        .device = lkt_backends()[b]->name,
                        .net = NETS[n],
                        .samples = 97,
                        .batch = 61,
                        .steps = lkt_in_part() ? 3 : 5,
                        .opts = {.replicas = replicas, .hash_every = 2, .optim = lks_adadelta()}});
}

/* Five samples for eight replicas: three are absent, and others at P = 2 than at P = 3. */
static void absent_replicas(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++)
            if (wanted(b, n, 1))
                check_workers((lkt_run){.device = lkt_backends()[b]->name,
                                        .net = NETS[n],
                                        .samples = 11,
                                        .batch = 5,
                                        .steps = lkt_in_part() ? 3 : 6,
                                        .opts = {.replicas = 8, .optim = lks_sgd(.9f)}});
}

static void mixed_batches(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++) {
            lkt_run run = {.device = lkt_backends()[b]->name,
                           .net = NETS[n],
                           .samples = 97,
                           .batch = 61,
                           .steps = 3,
                           .mixup = 0.4,
                           .opts = {.replicas = 8, .workers = 1, .optim = lks_adam()}};
            if (!wanted(b, n, 1)) continue;
            check_workers(run);
            const uint64_t mixed = lkt_run_hash(&run, NULL);
            run.mixup = 0;
            assert_int_not_equal(lkt_run_hash(&run, NULL), mixed);
        }
}

static void by_rows_equals_by_replica(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++) {
            if (!wanted(b, n, 1)) continue;
            const lkt_run rows = {.device = lkt_backends()[b]->name,
                                  .net = NETS[n],
                                  .samples = 97,
                                  .batch = 61,
                                  .steps = 3,
                                  .opts = {.replicas = 7, .workers = 2, .optim = lks_adam()}};
            lkt_run replica = rows;
            replica.opts.by_replica = true;
            replica.opts.workers = 3;
            check_equal(&rows, &replica, "by replica");
        }
}

static void accumulation_is_replicas(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++) {
            if (!wanted(b, n, 0)) continue;
            const lkt_run eight = {.device = lkt_backends()[b]->name,
                                   .net = NETS[n],
                                   .samples = 97,
                                   .batch = 61,
                                   .steps = 3,
                                   .opts = {.replicas = 8, .workers = 2, .optim = lks_adam()}};
            lkt_run twice = eight;
            twice.opts.replicas = 4;
            twice.opts.accumulate = 2;
            twice.opts.workers = 3;
            check_equal(&eight, &twice, "replicas 4, accumulate 2");
        }
}

/* Forward of a sample, its dropout included, is the same in any replica (no batch norm): the first
 * step's losses are, to the last bit. On ref; library kernels may follow the size of a piece. */
static void a_sample_is_the_same_in_any_replica(void **state)
{
    (void)state;
    for (int n = 0; n < NET_COUNT; n++) {
        if (NETS[n] == lkt_net_residual || NETS[n] == lkt_net_synced) continue;
        lkt_run run = {.device = lkt_device("ref"),
                       .net = NETS[n],
                       .samples = 61,
                       .batch = 61,
                       .steps = 1,
                       .opts = {.replicas = 1, .optim = lks_sgd(0)}};
        lks_metrics one[2], other[2];
        (void)lkt_run_hash(&run, one);
        for (run.opts.replicas = 2; run.opts.replicas <= 7; run.opts.replicas++) {
            (void)lkt_run_hash(&run, other);
            assert_memory_equal(&one[0], &other[0], sizeof one[0]);
        }
    }
}

/* What must change the hash does: otherwise the tests above could not fail. */
static void other_questions_have_other_hashes(void **state)
{
    (void)state;
    const lkt_run run = {.device = lkt_device("ref"),
                         .net = lkt_net_conv,
                         .samples = 97,
                         .batch = 61,
                         .steps = 3,
                         .opts = {.replicas = 8, .workers = 2, .optim = lks_adam()}};
    const uint64_t hash = lkt_run_hash(&run, NULL);
    lkt_run other = run;
    other.opts.replicas = 4;
    assert_int_not_equal(hash, lkt_run_hash(&other, NULL));
    other = run;
    other.steps = 4;
    assert_int_not_equal(hash, lkt_run_hash(&other, NULL));
    other = run;
    other.opts.optim.beta1 = .8f;
    assert_int_not_equal(hash, lkt_run_hash(&other, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_workers),
        cmocka_unit_test(absent_replicas),
        cmocka_unit_test(mixed_batches),
        cmocka_unit_test(by_rows_equals_by_replica),
        cmocka_unit_test(accumulation_is_replicas),
        cmocka_unit_test(a_sample_is_the_same_in_any_replica),
        cmocka_unit_test(other_questions_have_other_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
