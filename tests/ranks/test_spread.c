/* What the optimizer keeps, spread over ranks that exchange messages: how much there is of it, and that files and
 * whoever reads them notice nothing. That bits are those of one process is in ranks/theorem. */
#include <math.h>

#include <lockstep/checkpoint.h>

#include "base/check.h"
#include "model/model.h"
#include "support/ranks/small.h"

enum { MOST_RANKS = 5, STEPS = 3 };

/* Wide enough that blocks of 4,096 count; a layer that nothing trains. */
static lks_status wide(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    static const lks_context_opts how = {.seed = 3};
    LKI_TRY(lks_context_create(&m->context, &how));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_tensor *in = lks_input(m->graph, &(lks_input_opts){.shape = {1, {SMALL_WIDTH}}});
    lks_tensor *h = lks_dense(m->graph, in, &(lks_dense_opts){.name = "fc1", .units = 300});
    h = lks_tanh(m->graph, h);
    h = lks_dense(m->graph, h, &(lks_dense_opts){.name = "fc2", .units = 64});
    lks_tensor *out = lks_dense(m->graph, h,
                                &(lks_dense_opts){.name = "fc3", .units = SMALL_CLASSES});
    opts.output = lks_dense(m->graph, h,
                            &(lks_dense_opts){.name = "aside", .units = SMALL_CLASSES});
    lks_tensor *target = lks_target(m->graph, &(lks_target_opts){.classes = SMALL_CLASSES});
    m->loss = lks_cross_entropy(m->graph, out, target, NULL);
    LKI_TRY(lks_graph_status(m->graph));
    return lkt_small_compile(m, comm, opts);
}

static void tell(int ranks, lks_model_opts opts, lkt_small_builder build,
                 int (*body)(lkt_small *m, int rank, void *user), void *user)
{
    opts.shard = LKS_SHARD_ON;
    lkt_small_tell(
        ranks,
        &(lkt_story){.build = build, .opts = opts, .body = body, .user = user, .apart = true});
}

/* Of 1 + 2 arrays, the parameters and two states, each rank has 1 + 2 / ranks. */
static int has_its_part(lkt_small *m, int rank, void *user)
{
    lkt_small all = {.model = NULL};
    lks_model_opts opts = m->model->opts;
    const double ranks = lks_comm_size(opts.comm);
    (void)rank, (void)user;
    opts.shard = LKS_SHARD_AUTO;
    LKT_CHECK(wide(&all, opts.comm, opts) == LKS_OK);
    const double parameters = (double)all.model->parameter_bytes / 3;
    const double own = (double)m->model->parameter_bytes;
    LKT_CHECK(lki_spreads(m->model) && !lki_spreads(all.model));
    /* A strip of each of 8 weights begins at a cache line; slices differ by some blocks at most. */
    LKT_CHECK(own < parameters * (1 + 2 / ranks) + 2 * (8 * LKI_ALIGN + 2 * 4096 * sizeof(float)));
    LKT_CHECK(own > parameters);
    const lks_model_info info = lks_model_get_info(m->model), whole = lks_model_get_info(all.model);
    LKT_CHECK(info.memory_bytes + all.model->parameter_bytes + all.model->gradient_bytes ==
              whole.memory_bytes + m->model->parameter_bytes + lki_across_bytes(m->model) -
                  lki_across_bytes(all.model));
    LKT_CHECK(m->model->gradient_bytes == 0 &&
              (all.model->gradient_bytes > 0) == (opts.clip_norm > 0));
    lkt_small_end(&all);
    return 0;
}

static void each_has_its_part(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        tell(ranks, (lks_model_opts){.optim = lks_adam()}, wide, has_its_part, NULL);
        tell(ranks, (lks_model_opts){.optim = lks_adam(), .clip_norm = 1, .bucket_bytes = 999},
             wide, has_its_part, NULL);
    }
}

/* A training that is saved, goes on elsewhere, and where it comes to. */
typedef struct saved {
    char folder[4096], again[4200];
    uint64_t hash;
} saved;

static lks_run run_of(const lks_model *model)
{
    return (lks_run){.progress = lks_model_progress(model),
                     .seed = 3,
                     .global_batch = SMALL_SAMPLES,
                     .replicas = 6,
                     .hash_every = 2,
                     .best_step = -1};
}

static int trains_and_saves(lkt_small *m, int rank, void *user)
{
    const saved *s = user;
    (void)rank;
    for (int i = 0; i < STEPS; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    const lks_run run = run_of(m->model);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, s->folder, 1) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    return 0;
}

static int goes_on(lkt_small *m, int rank, void *user)
{
    saved *s = user;
    uint64_t hash;
    lks_run run;
    (void)rank;
    LKT_CHECK(lks_checkpoint_load(m->context, m->model, &run, s->folder, STEPS) == LKS_OK);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, s->again, 1) == LKS_OK);
    lks_run_clear(&run);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK);
    if (s->hash == 0) s->hash = hash; /* of one process */
    LKT_CHECK(hash == s->hash);
    return 0;
}

static size_t read_file(const char *folder, char *out, size_t size)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/step-%08d.safetensors", folder, STEPS);
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s cannot be read", path);
    const size_t count = fread(out, 1, size, file);
    fclose(file);
    return count;
}

/* One process saves what any ranks do, and those go on from what others have saved. */
static void save_and_go_on(const lks_model_opts *opts, lkt_small_builder build)
{
    enum { MOST = 1 << 20 };
    static char expected[MOST], now[MOST];
    saved s = {.hash = 0};
    size_t bytes = 0;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks += ranks == 1 ? 2 : 1) {
        snprintf(s.folder, sizeof s.folder, "%s", lkt_make_folder());
        snprintf(s.again, sizeof s.again, "%s/again", s.folder);
        tell(ranks, *opts, build, trains_and_saves, &s);
        if (ranks == 1) bytes = read_file(s.folder, expected, MOST);
        assert_int_equal(read_file(s.folder, now, MOST), bytes);
        assert_memory_equal(now, expected, bytes);
        for (int others = 1; others <= MOST_RANKS; others += 2) {
            tell(others, *opts, build, goes_on, &s);
            assert_int_equal(read_file(s.again, now, MOST), bytes);
            assert_memory_equal(now, expected, bytes);
        }
        lkt_remove_folder();
    }
    assert_true(bytes > sizeof(lks_run) && bytes < MOST);
}

static void any_ranks_go_on(void **state)
{
    static const struct {
        lks_model_opts opts;
        lkt_small_builder build;
    } list[] = {
        {{.ema_decay = .9, .bucket_bytes = 64, .workers = 1}, lkt_small_build},
        {{.clip_norm = .05, .by_replica = true, .bucket_bytes = 20000}, wide},
        {{.clip_norm = .05, .bucket_bytes = 20000}, wide},
        {{.bucket_bytes = 20000}, wide},
        {{.clip_norm = .05, .ema_decay = .9, .bucket_bytes = 20000}, wide},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i += lkt_in_part() ? 2 : 1) {
        lks_model_opts opts = list[i].opts;
        opts.optim = i > 2 ? lks_adamp() : lks_adam();
        save_and_go_on(&opts, list[i].build);
    }
}

/* Who cannot read, write or save says so to all, and all go on. */
static int one_cannot(lkt_small *m, int rank, void *user)
{
    const saved *s = user;
    enum { COUNT = SMALL_WIDTH * 8 };
    float values[COUNT] = {1}, found[COUNT], bad[COUNT] = {(float)NAN};
    const int state = lks_model_state_find(m->model, "optimizer.exp_avg.fc1.weight");
    const int weight = lks_model_state_find(m->model, "fc1.weight");
    LKT_CHECK(lks_model_state_info(m->model, state).spread);
    LKT_CHECK(!lks_model_state_info(m->model, weight).spread);
    LKT_CHECK(lks_model_state_read(m->model, state, found, rank == 1 ? 3 : sizeof found) ==
              LKS_E_INVALID);
    LKT_SAYS("fc1.weight' has 192 bytes, the buffer 3");
    for (int i = 0; i < COUNT; i++) values[i] = (float)i;
    LKT_CHECK(lks_model_state_write(m->model, state, values, sizeof values) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, state, found, sizeof found) == LKS_OK);
    LKT_CHECK(memcmp(values, found, sizeof values) == 0);

    lks_run run = run_of(m->model);
    LKT_CHECK(lks_model_state_read(m->model, weight, values, sizeof values) == LKS_OK);
    LKT_CHECK(lks_model_state_write(m->model, weight, bad, sizeof bad) == LKS_OK);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, s->folder, 1) == LKS_E_NUMERIC);
    LKT_SAYS("parameter 'fc1.weight' is not finite");
    LKT_CHECK(lks_model_state_write(m->model, weight, values, sizeof values) == LKS_OK);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, "/dev/null/run", 1) == LKS_E_IO);
    LKT_SAYS("/dev/null/run");
    run.global_batch = rank == 0 ? 7 : run.global_batch;
    LKT_CHECK(lks_checkpoint_save(m->model, &run, s->folder, 1) == LKS_E_INVALID);
    LKT_SAYS("batch 7");
    run = run_of(m->model);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, s->folder, 1) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    return 0;
}

static void who_cannot_says_so(void **state)
{
    saved s = {.hash = 0};
    (void)state;
    snprintf(s.folder, sizeof s.folder, "%s", lkt_make_folder());
    tell(SMALL_RANKS, (lks_model_opts){.optim = lks_adam()}, NULL, one_cannot, &s);
    lkt_remove_folder();
}

/* Gradients are formed as without, between steps. */
static int forms_gradients(lkt_small *m, int rank, void *user)
{
    float *expected = user, own[SMALL_WIDTH * 8];
    const int at = lks_model_state_find(m->model, "gradient.fc1.weight");
    (void)rank;
    for (int i = 0; i < 2; i++) {
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
        LKT_CHECK(lks_model_gradient(m->model, lkt_small_batch(), NULL) == LKS_OK);
    }
    LKT_CHECK(lks_model_state_read(m->model, at, own, sizeof own) == LKS_OK);
    if (expected[0] == 0) memcpy(expected, own, sizeof own); /* one process */
    LKT_CHECK(memcmp(expected, own, sizeof own) == 0);
    return 0;
}

static void gradients_are_whole(void **state)
{
    float expected[SMALL_WIDTH * 8];
    (void)state;
    for (int clips = 0; clips < 3; clips++) {
        memset(expected, 0, sizeof expected);
        const lks_model_opts opts = {.optim = lks_sgd(.9f),
                                     .clip_norm = clips == 1 ? .01 : 0,
                                     .clip_value = clips == 2 ? .01 : 0};
        for (int ranks = 1; ranks <= SMALL_RANKS; ranks++)
            tell(ranks, opts, NULL, forms_gradients, expected);
    }
}

static int refused(lks_comm *comm, int rank, void *user)
{
    static const struct {
        lks_model_opts opts;
        const char *what;
    } list[] = {{{.average_every = 2}, "average_every"},
                {{.exchange = LKS_EXCHANGE_NONE}, "comm: none"},
                {{.reduction = LKS_REDUCTION_LIBRARY}, "reduction: library"}};
    (void)rank, (void)user;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lkt_small m = {.model = NULL};
        lks_model_opts opts = list[i].opts;
        opts.shard = LKS_SHARD_ON;
        LKT_CHECK(lkt_small_build(&m, comm, opts) == LKS_E_INVALID);
        LKT_SAYS("the optimizer cannot be sharded with ");
        LKT_SAYS(list[i].what);
        lkt_small_end(&m);
    }
    return 0;
}

static void refusals(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, refused, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_part),  cmocka_unit_test(any_ranks_go_on),
        cmocka_unit_test(who_cannot_says_so), cmocka_unit_test(gradients_are_whole),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
