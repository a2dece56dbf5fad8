/* average_every: its own law (docs/numerics.md 9), held to models that are trained apart and averaged by hand. */
#include <math.h>
#include <stdlib.h>

#include "support/ranks/small.h"
#include "support/runs.h"

enum { MOST_RANKS = 4, STEPS = 7, EVERY = 3, PIXELS = 12 * 10 * 3 };

/* ---- the law, by an oracle */

/* Ranks whose ranges are nodes of the tree, and batches that replicas share evenly: then a rank is a model of
 * its own with as many replicas as its range has. */
typedef struct law {
    const char *name;
    lkt_net net;
    int ranks, own[MOST_RANKS]; /* replicas */
    lks_model_opts opts;
    lkt_images images;
    uint64_t expected[STEPS][MOST_RANKS]; /* hashes of all state, */
    uint64_t link[STEPS];                 /* and the last link */
} law;

/* Without dropout, whose bits follow from a sample's place in the batch of all ranks. */
static lks_tensor *synced(lks_graph *graph)
{
    lks_tensor *loss = lkt_net_residual(graph);
    LKT_OK(lks_graph_sync_batch_norm(graph, NULL));
    return loss;
}

static const int SHARE[STEPS] = {6, 6, 2, 6, 1, 6, 6}; /* samples of a replica in a step */

static int replicas_of(const law *l)
{
    int all = 0;
    for (int r = 0; r < l->ranks; r++) all += l->own[r];
    return all;
}

static lks_batch batch_of(const law *l, int step, int first, int replicas)
{
    const int64_t at = (int64_t)first * SHARE[step] + step;
    return (lks_batch){.x = l->images.x + at * PIXELS,
                       .y = l->images.y + at,
                       .count = (int64_t)replicas * SHARE[step]};
}

static bool is_square(const char *name)
{
    return strstr(name, "_sq.") != NULL || strstr(name, "square_avg.") != NULL ||
           strstr(name, "acc_delta.") != NULL;
}

static void put_mean(const law *l, lkt_model *models, int entry, const double *weight)
{
    const lks_state_info info = lks_model_state_info(models[0].model, entry);
    const size_t count = info.bytes / sizeof(float);
    float *all = malloc((size_t)l->ranks * info.bytes), *mean = malloc(info.bytes);
    assert_true(all != NULL && mean != NULL);
    for (int r = 0; r < l->ranks; r++)
        LKT_OK(lks_model_state_read(models[r].model, entry, all + (size_t)r * count, info.bytes));
    for (size_t i = 0; i < count; i++) {
        double sum = 0, weights = 0;
        for (int r = 0; r < l->ranks; r++) {
            sum += weight[r] * (double)all[(size_t)r * count + i];
            weights += weight[r];
        }
        mean[i] = (float)(sum / weights);
        if (fabsf(mean[i]) < (is_square(info.name) ? 0x1p-110f : 0x1p-63f)) mean[i] = 0;
    }
    for (int r = 0; r < l->ranks; r++)
        LKT_OK(lks_model_state_write(models[r].model, entry, mean, info.bytes));
    free(all);
    free(mean);
}

static void average(const law *l, lkt_model *models, double *weight)
{
    for (int i = 0; i < lks_model_state_count(models[0].model); i++) {
        const lks_state_info info = lks_model_state_info(models[0].model, i);
        if (info.kind != LKS_GRADIENT && info.dtype == LKS_F32) put_mean(l, models, i, weight);
    }
    memset(weight, 0, MOST_RANKS * sizeof *weight);
}

/* hash_every is out of reach but where it averages, too. */
static bool is_point(const law *l, int step)
{
    return (step + 1) % EVERY == 0 || (step + 1) % l->opts.hash_every == 0;
}

/* The link behind a step, whose model is one again. */
static uint64_t link_behind(lks_model *model, int64_t step, uint64_t before)
{
    const lks_progress progress = lks_model_progress(model);
    uint64_t link;
    lks_model_set_progress(model, (lks_progress){.step = step, .link = before});
    LKT_OK(lks_model_hash(model, &link));
    lks_model_set_progress(model, progress);
    return link;
}

static void find_expected(law *l)
{
    uint64_t link = 0;
    lkt_model models[MOST_RANKS];
    double weight[MOST_RANKS] = {0};
    for (int r = 0; r < l->ranks; r++) {
        models[r] = lkt_begin(&(lks_context_opts){.seed = 7});
        lks_model_opts opts = l->opts;
        opts.loss = l->net(models[r].graph);
        opts.replicas = l->own[r];
        opts.global_batch = SHARE[0] * l->own[r];
        opts.workers = 1;
        opts.average_every = 0;
        opts.hash_every = 1000;
        lkt_compile(&models[r], &opts);
    }
    for (int s = 0; s < STEPS; s++) {
        for (int r = 0, first = 0; r < l->ranks; first += l->own[r++]) {
            const lks_batch batch = batch_of(l, s, first, l->own[r]);
            LKT_OK(lks_model_step(models[r].model, &batch, .05, NULL));
            weight[r] += (double)batch.count;
        }
        if (is_point(l, s)) average(l, models, weight);
        if (s == 0) link = lks_model_progress(models[0].model).link;
        if ((s + 1) % l->opts.hash_every == 0) link = link_behind(models[0].model, s + 1, link);
        l->link[s] = link;
        for (int r = 0; r < l->ranks; r++) l->expected[s][r] = lkt_state_hash(models[r].model);
    }
    for (int r = 0; r < l->ranks; r++) lkt_end(&models[r]);
}

static int steps_as_expected(lks_comm *comm, int rank, void *user)
{
    const law *l = user;
    const int replicas = replicas_of(l);
    lkt_model m = {.model = NULL};
    LKT_CHECK(lks_context_create(&m.context, &(lks_context_opts){.seed = 7}) == LKS_OK);
    LKT_CHECK(lks_graph_create(&m.graph, m.context) == LKS_OK);
    lks_model_opts opts = l->opts;
    opts.loss = l->net(m.graph);
    opts.replicas = replicas;
    opts.global_batch = SHARE[0] * replicas;
    opts.workers = l->own[rank] > 1 ? 1 + rank % 2 : 1;
    opts.weight = (double)l->own[rank] / opts.workers;
    opts.comm = comm;
    LKT_CHECK(lks_model_compile(&m.model, m.graph, &opts) == LKS_OK);
    const lks_model_info info = lks_model_get_info(m.model);
    LKT_CHECK(info.last_share - info.first_share == l->own[rank]);
    for (int s = 0; s < STEPS; s++) {
        const lks_batch batch = batch_of(l, s, 0, replicas);
        lks_metrics metrics;
        LKT_CHECK(lks_model_step(m.model, &batch, .05, &metrics) == LKS_OK);
        LKT_CHECK(metrics.samples == batch.count);
        LKT_CHECK(lkt_state_hash(m.model) == l->expected[s][rank]);
        LKT_CHECK(lks_model_progress(m.model).link == l->link[s]);
        LKT_CHECK((lks_model_alone(m.model) == 0) == is_point(l, s));
    }
    lkt_end(&m);
    return 0;
}

static void ranks_are_models_that_step_alone(void **state)
{
    law laws[] = {
        {.name = "sgd",
         .net = lkt_net_residual,
         .ranks = 2,
         .own = {4, 4},
         .opts = {.optim = lks_sgd(.9f), .hash_every = 100}},
        {.name = "a link between",
         .net = lkt_net_residual,
         .ranks = 2,
         .own = {4, 2},
         .opts = {.optim = lks_sgd(0), .hash_every = 5}},
        {.name = "adam",
         .net = lkt_net_residual,
         .ranks = 3,
         .own = {4, 2, 2},
         .opts = {.optim = lks_adam(), .ema_decay = .9, .clip_norm = .1, .hash_every = 7}},
        {.name = "synced: over a rank's samples",
         .net = synced,
         .ranks = 3,
         .own = {4, 2, 2},
         .opts = {.optim = lks_adam(), .hash_every = 100}},
        {.name = "adadelta, by replica",
         .net = lkt_net_residual,
         .ranks = 2,
         .own = {4, 1},
         .opts = {.optim = lks_adadelta(), .by_replica = true, .hash_every = 100}},
        {.name = "adamp",
         .net = lkt_net_residual,
         .ranks = 2,
         .own = {2, 2},
         .opts = {.optim = lks_adamp(), .hash_every = 6}},
        {.name = "layer norms",
         .net = lkt_net_joined,
         .ranks = 4,
         .own = {2, 2, 2, 2},
         .opts = {.optim = lks_rmsprop(), .skip_not_finite = true, .hash_every = 3}},
        {.name = "gates",
         .net = lkt_net_gated,
         .ranks = 3,
         .own = {2, 2, 1},
         .opts = {.optim = lks_adamw(), .hash_every = 100}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        law *l = &laws[i];
        if (lkt_in_part() && i % 3 != 2) continue;
        l->images = lkt_images_make(8 * SHARE[0] + STEPS);
        l->opts.average_every = EVERY;
        find_expected(l);
        int results[LKT_MOST_RANKS];
        const lkt_hub_opts hub = {.size = l->ranks, .seed = i, .delay = 2, .share = i % 2 == 0};
        lkt_ranks_run(&hub, NULL, steps_as_expected, l, results);
        for (int r = 0; r < l->ranks; r++)
            if (results[r] != 0) fail_msg("%s: rank %d of %d", l->name, r, l->ranks);
        lkt_images_free(&l->images);
    }
}

/* ---- equal ranges, whatever the workers; odd numbers of samples, absent replicas and ranks, dropout */

typedef struct layout {
    int workers[MOST_RANKS];
    double weight[MOST_RANKS];
    bool whole_batches, by_replica;
} layout;

typedef struct equality {
    lkt_run run;
    const layout *who;
    uint64_t hash;
    lks_metrics metrics[2];
    bool known;
} equality;

static int ends_alike(lks_comm *comm, int rank, void *user)
{
    equality *q = user;
    lkt_run run = q->run;
    uint64_t hash;
    lks_metrics metrics[2];
    run.opts.comm = comm;
    run.opts.workers = q->who->workers[rank];
    run.opts.weight = q->who->weight[rank];
    run.opts.by_replica = q->who->by_replica; /* the same sums on another way */
    run.whole_batches = q->who->whole_batches;
    LKT_CHECK(lkt_run_try(&run, &hash, metrics) == LKS_OK);
    uint64_t all[MOST_RANKS];
    LKT_CHECK(lks_comm_all_gather(comm, &hash, sizeof hash, all) == LKS_OK);
    for (int r = 0; r < lks_comm_size(comm); r++) LKT_CHECK(all[r] == hash);
    LKT_CHECK(!q->known || hash == q->hash);
    LKT_CHECK(!q->known || memcmp(metrics, q->metrics, sizeof metrics) == 0);
    LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
    if (rank == 0) {
        q->hash = hash;
        memcpy(q->metrics, metrics, sizeof metrics);
    }
    return 0;
}

static void equal_ranges_have_equal_bits(void **state)
{
    static const struct {
        int ranks, replicas;
        layout who[4];
    } groups[] = {
        {2,
         6,
         {{{1, 1}, {0}, false, false}, {{3, 3}, {0}, true, true}, {{1, 3}, {3, 1}, false, false}}},
        {3,
         7,
         {{{1, 1, 1}, {1, 2, 4}, false, true},
          {{1, 2, 4}, {0}, true, false},
          {{1, 1, 2}, {1, 2, 2}, false, false}}},
    };
    const struct {
        lkt_net net;
        int64_t samples, batch;
        lks_model_opts opts;
    } nets[] = {
        {lkt_net_mlp, 97, 61, {.optim = lks_adadelta(), .ema_decay = .9}},
        {lkt_net_mlp, 97, 61, {.optim = lks_adamp()}},
        {lkt_net_residual, 7, 3, {.optim = lks_sgd(.9f), .ema_decay = .9}}, /* absent, and of 1 */
        {lkt_net_residual, 7, 3, {.optim = lks_adam(), .clip_norm = .1, .ema_decay = .9}},
        {lkt_net_synced, 7, 3, {.optim = lks_sgd(.9f), .clip_norm = .1}},
    };
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
        for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
            equality q = {.run = {.net = nets[n].net,
                                  .samples = nets[n].samples,
                                  .batch = nets[n].batch,
                                  .steps = 8,
                                  .opts = nets[n].opts}};
            if (lkt_in_part() && (g + n) % 2 == 0) continue;
            q.run.opts.replicas = groups[g].replicas;
            q.run.opts.average_every = 4;
            q.run.opts.hash_every = 3; /* step 8 is no link */
            for (int i = 0; i < 3; i++) {
                const lkt_hub_opts hub = {.size = groups[g].ranks, .seed = n, .delay = i};
                q.who = &groups[g].who[i];
                lkt_ranks(&hub, NULL, ends_alike, &q);
                q.known = !lkt_ranks_are_processes();
            }
        }
}

/* Another partition is another run; one process is the run without. */
static void ranges_are_part_of_the_law(void **state)
{
    const layout even = {.workers = {1, 1}, .weight = {1, 1}},
                 uneven = {.workers = {1, 1}, .weight = {2, 1}};
    equality q = {.run = {.net = lkt_net_mlp,
                          .samples = 97,
                          .batch = 61,
                          .steps = 4,
                          .opts = {.replicas = 6, .average_every = 4, .hash_every = 100}}},
             other = q;
    (void)state;
    q.who = &even;
    other.who = &uneven;
    lkt_ranks(&(lkt_hub_opts){.size = 2}, NULL, ends_alike, &q);
    lkt_ranks(&(lkt_hub_opts){.size = 2}, NULL, ends_alike, &other);
    lkt_run alone = q.run;
    alone.opts.workers = 2;
    lks_metrics metrics[2];
    const uint64_t with = lkt_run_hash(&alone, metrics);
    alone.opts.average_every = 0;
    assert_int_equal(lkt_run_hash(&alone, NULL), with);
    if (lkt_ranks_are_processes()) return;
    assert_int_not_equal(q.hash, other.hash);
    assert_int_not_equal(q.hash, with);
    assert_int_equal(q.metrics[0].samples, metrics[0].samples);
}

/* A network with norms, of which each rank has its replicas. */
static lks_status open_residual(lkt_model *m, lks_model_opts opts)
{
    *m = (lkt_model){.model = NULL};
    lks_status status = lks_context_create(&m->context, NULL);
    if (status == LKS_OK) status = lks_graph_create(&m->graph, m->context);
    if (status != LKS_OK) return status;
    opts.loss = lkt_net_residual(m->graph);
    opts.workers = 1;
    opts.global_batch = 12;
    opts.hash_every = 100;
    return lks_model_compile(&m->model, m->graph, &opts);
}

/* Every batch counts once, whoever has samples of it. */
static int counts_batches(lks_comm *comm, int rank, void *user)
{
    const lkt_images *images = user;
    const lks_model_opts opts = {.replicas = 6, .average_every = 5, .comm = comm};
    lkt_model m;
    int entries = 0;
    (void)rank;
    LKT_CHECK(open_residual(&m, opts) == LKS_OK);
    for (int s = 0; s < 5; s++) {
        const lks_batch batch = {.x = images->x, .y = images->y, .count = s % 2 == 0 ? 12 : 1};
        LKT_CHECK(lks_model_step(m.model, &batch, .05, NULL) == LKS_OK);
    }
    for (int i = 0; i < lks_model_state_count(m.model); i++) {
        const lks_state_info info = lks_model_state_info(m.model, i);
        int64_t count = 0;
        if (info.dtype != LKS_I64) continue;
        LKT_CHECK(lks_model_state_read(m.model, i, &count, sizeof count) == LKS_OK);
        LKT_CHECK(count == 5);
        entries++;
    }
    LKT_CHECK(entries > 0);
    lkt_end(&m);
    return 0;
}

static void batches_are_counted_once(void **state)
{
    lkt_images images = lkt_images_make(12);
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++)
        lkt_ranks(&(lkt_hub_opts){.size = ranks}, NULL, counts_batches, &images);
    lkt_images_free(&images);
}

/* At the border of what is flushed, which is another one for means of squares; both sides of it in turn. */
static float small_of(const lks_state_info *info, size_t i)
{
    if (is_square(info->name)) return i % 2 == 0 ? 0x1p-110f : 0x1.fffffep-111f;
    return i % 2 == 0 ? 0x1p-63f : -0x1.fffffep-64f;
}

static int flushes_means(lks_comm *comm, int rank, void *user)
{
    enum { MOST = 10000 };
    const lkt_images *images = user;
    const lks_model_opts opts = {
        .optim = lks_adam(), .replicas = 4, .average_every = 50, .comm = comm};
    lkt_model m;
    int squares = 0;
    float values[MOST];
    (void)rank;
    LKT_CHECK(open_residual(&m, opts) == LKS_OK);
    const lks_batch batch = {.x = images->x, .y = images->y, .count = 12};
    LKT_CHECK(lks_model_step(m.model, &batch, .05, NULL) == LKS_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < lks_model_state_count(m.model); i++) {
            const lks_state_info info = lks_model_state_info(m.model, i);
            const size_t bytes = info.bytes, count = bytes / sizeof *values;
            if (info.kind != LKS_OPTIMIZER) continue;
            LKT_CHECK(count <= MOST);
            for (size_t k = 0; k < count; k++) values[k] = small_of(&info, k);
            if (pass == 0) LKT_CHECK(lks_model_state_write(m.model, i, values, bytes) == LKS_OK);
            if (pass == 1) LKT_CHECK(lks_model_state_read(m.model, i, values, bytes) == LKS_OK);
            for (size_t k = 0; k < count && pass == 1; k++)
                LKT_CHECK(values[k] == (k % 2 == 0 ? small_of(&info, k) : 0));
            squares += is_square(info.name);
        }
        if (pass == 0) LKT_CHECK(lks_model_average(m.model) == LKS_OK);
    }
    LKT_CHECK(squares > 0);
    lkt_end(&m);
    return 0;
}

static void means_are_flushed(void **state)
{
    lkt_images images = lkt_images_make(12);
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 2}, NULL, flushes_means, &images);
    lkt_images_free(&images);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_models_that_step_alone),
        cmocka_unit_test(equal_ranges_have_equal_bits),
        cmocka_unit_test(ranges_are_part_of_the_law),
        cmocka_unit_test(batches_are_counted_once),
        cmocka_unit_test(means_are_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
