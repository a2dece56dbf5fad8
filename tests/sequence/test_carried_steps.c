/* State that recurrent layers carry: steps that are not taken, a run that goes on in the middle of an epoch, what is refused. */
#include <math.h>

#include <lockstep/checkpoint.h>
#include <lockstep/trainer.h>

#include "support/ranks/carried.h"

/* ---------------------------------------------------------------- steps that are not taken */

static void a_failed_step_can_be_repeated(void **state)
{
    static float bad[CARRIED_COLUMNS * CARRIED_POSITIONS * CARRIED_WIDTH];
    const lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 2});
    lkt_small m = {.model = NULL};
    lks_metrics sum = {0};
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 2}));
    for (int i = 0; i < CARRIED_END; i++) {
        lks_batch batch = lkt_carried_batch(i);
        memcpy(bad, batch.x, sizeof bad);
        bad[CARRIED_POSITIONS * CARRIED_WIDTH * 7 + 4] = NAN;
        batch.x = bad;
        LKT_FAILS(LKS_E_NUMERIC,
                  "first bad tensor: output of input 'input_1', element 4 of sample 7",
                  lks_model_step(m.model, &batch, .3, NULL));
        LKT_OK(lkt_carried_train(&m, i, i + 1, &sum));
    }
    const lkt_carried_outcome found = lkt_carried_look(&m, &sum);
    lkt_carried_same(&found, &expected);
    lkt_small_end(&m);
}

/* One that is skipped leaves what is carried as it was: nothing, if it was to begin. */
static void a_skipped_step_leaves_it_alone(void **state)
{
    static float bad[CARRIED_COLUMNS * CARRIED_POSITIONS * CARRIED_WIDTH];
    static float carried[CARRIED_COLUMNS * 14];
    lkt_small m = {.model = NULL};
    uint64_t before, behind;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) bad[i] = NAN;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.skip_not_finite = true}));
    LKT_OK(lkt_carried_train(&m, 0, 3, NULL));
    lks_batch batch = lkt_carried_batch(3);
    batch.x = bad;
    LKT_OK(lkt_carried_hash(&m, &before));
    LKT_OK(lks_model_step(m.model, &batch, .3, NULL));
    assert_true(lks_model_last_step(m.model).skipped);
    LKT_OK(lkt_carried_hash(&m, &behind));
    assert_true(before == behind);
    LKT_OK(lkt_carried_train(&m, 4, 6, NULL));
    batch.continues = false;
    LKT_OK(lks_model_step(m.model, &batch, .3, NULL));
    const int index = lks_model_state_find(m.model, "r.l1.carried");
    assert_int_equal(lks_model_state_info(m.model, index).bytes, sizeof carried);
    LKT_OK(lks_model_state_read(m.model, index, carried, sizeof carried));
    for (size_t i = 0; i < sizeof carried / sizeof *carried; i++) assert_true(carried[i] == 0);
    lkt_small_end(&m);
}

enum {
    STATES = 14
}; /* of a sample, in two layers of lstm; the second one's begin behind CARRIED_COLUMNS of the first */

/* One that is bad while parameters and samples are good is found in the layer that reads it, and nothing was taken. */
static void what_is_carried_may_be_what_is_bad(void **state)
{
    static float carried[CARRIED_COLUMNS * STATES], again[CARRIED_COLUMNS * STATES];
    static const struct {
        const char *name, *says;
    } list[] = {
        {"r.carried", "first bad tensor: output of lstm 'r', element 0 of sample 7; nothing was"},
        {"r.l1.carried", "first bad tensor: output of lstm 'r.l1', element 0 of sample 7; nothing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lkt_small m = {.model = NULL};
        LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 2}));
        LKT_OK(lkt_carried_train(&m, 0, 3, NULL));
        const int index = lks_model_state_find(m.model, list[i].name);
        assert_int_equal(lks_model_state_info(m.model, index).bytes, sizeof carried);
        LKT_OK(lks_model_state_read(m.model, index, carried, sizeof carried));
        carried[7 * STATES + 2] = NAN;
        LKT_OK(lks_model_state_write(m.model, index, carried, sizeof carried));
        const lks_batch batch = lkt_carried_batch(3);
        LKT_FAILS(LKS_E_NUMERIC, list[i].says, lks_model_step(m.model, &batch, .3, NULL));
        LKT_OK(lks_model_state_read(m.model, index, again, sizeof again));
        assert_memory_equal(carried, again, sizeof again);
        lkt_small_end(&m);
    }
}

/* ---------------------------------------------------------------- a checkpoint */

static lks_run run_of(const lkt_small *m)
{
    const lks_model_info info = lks_model_get_info(m->model);
    return (lks_run){.best_step = -1,
                     .progress = lks_model_progress(m->model),
                     .seed = 3,
                     .global_batch = info.global_batch,
                     .replicas = info.replicas,
                     .hash_every = info.hash_every};
}

static void what_is_bad_is_not_saved(void **state)
{
    static float carried[CARRIED_COLUMNS * STATES];
    const char *folder = lkt_make_folder();
    lkt_small m = {.model = NULL};
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 1}));
    LKT_OK(lkt_carried_train(&m, 0, 2, NULL));
    carried[5] = INFINITY;
    LKT_OK(lks_model_state_write(m.model, lks_model_state_find(m.model, "r.carried"), carried,
                                 sizeof carried));
    const lks_run run = run_of(&m);
    LKT_FAILS(LKS_E_NUMERIC,
              "carried state 'r.carried' is not finite after step 2: element 5 is inf",
              lks_checkpoint_save(m.model, &run, folder, 1));
    lkt_small_end(&m);
    lkt_remove_folder();
}

static void build_frames(lkt_small *m, bool carries)
{
    LKT_OK(lks_context_create(&m->context, &(lks_context_opts){.seed = 3}));
    LKT_OK(lks_graph_create(&m->graph, m->context));
    lks_tensor *x = lks_input(
        m->graph, &(lks_input_opts){.shape = LKS_SHAPE(CARRIED_POSITIONS, CARRIED_WIDTH)});
    x = lks_gru(
        m->graph, x,
        &(lks_recurrent_opts){.name = "r", .hidden = CARRIED_CLASSES, .carry_state = carries});
    const lks_target_opts wanted = {.classes = CARRIED_CLASSES,
                                    .shape = LKS_SHAPE(CARRIED_POSITIONS)};
    const lks_model_opts opts = {
        .loss = lks_cross_entropy(m->graph, x, lks_target(m->graph, &wanted), NULL),
        .global_batch = CARRIED_COLUMNS,
        .workers = 1};
    LKT_OK(lks_model_compile(&m->model, m->graph, &opts));
}

/* A run that carried nothing has nothing to go on from; memory for it is counted: now, next and an evaluation's. */
static void what_was_not_carried_is_missed(void **state)
{
    const char *folder = lkt_make_folder();
    lkt_small m = {.model = NULL}, n = {.model = NULL};
    (void)state;
    build_frames(&m, false);
    build_frames(&n, true);
    LKT_OK(lkt_carried_train(&m, 0, 2, NULL));
    lks_run run = run_of(&m);
    LKT_OK(lks_checkpoint_save(m.model, &run, folder, 1));
    LKT_FAILS(LKS_E_MISMATCH,
              "has no 'r.carried': it was made without carry_state, so nothing was carried from "
              "batch to batch",
              lks_checkpoint_load(n.context, n.model, &run, folder, 2));
    const size_t array = (sizeof(float) * CARRIED_COLUMNS * CARRIED_CLASSES + 63) / 64 * 64;
    assert_int_equal(lks_model_get_info(n.model).memory_bytes,
                     lks_model_get_info(m.model).memory_bytes + 3 * array);
    lkt_small_end(&m);
    lkt_small_end(&n);
    lkt_remove_folder();
}

static void a_run_goes_on_in_the_middle_of_an_epoch(void **state)
{
    const lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 1});
    const char *folder = lkt_make_folder();
    (void)state;
    for (int stop = CARRIED_LONG; stop < CARRIED_END; stop++) {
        lkt_small m = {.model = NULL};
        lks_run run;
        lks_metrics sum = {0};
        LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 2}));
        LKT_OK(lkt_carried_train(&m, 0, stop, &sum));
        assert_int_equal(lks_model_get_info(m.model).carried, 2 * 14 + 6 + 5);
        run = run_of(&m);
        LKT_OK(lks_checkpoint_save(m.model, &run, folder, 1));
        lkt_small_end(&m);
        m = (lkt_small){.model = NULL};
        LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 3}));
        LKT_OK(lks_checkpoint_load(m.context, m.model, &run, folder, stop));
        lks_run_clear(&run);
        LKT_OK(lkt_carried_train(&m, stop, CARRIED_END, &sum));
        const lkt_carried_outcome found = lkt_carried_look(&m, &sum);
        lkt_carried_same(&found, &expected);
        lkt_small_end(&m);
    }
    lkt_remove_folder();
}

/* ---------------------------------------------------------------- what is refused */

static void directions(void **state)
{
    lks_context *context;
    lks_graph *g;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    for (int both = 0; both < 2; both++) {
        LKT_OK(lks_graph_create(&g, context));
        lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(5, 3)});
        (void)lks_lstm(g, x,
                       &(lks_recurrent_opts){.hidden = 4,
                                             .carry_state = true,
                                             .reverse = both == 0,
                                             .bidirectional = both == 1});
        LKT_FAILS(LKS_E_INVALID,
                  both ? "with bidirectional a layer begins at the end of its window"
                       : "with reverse a layer begins at the end of its window",
                  lks_graph_status(g));
        lks_graph_destroy(g);
    }
    lks_context_destroy(context);
}

static void other_batches(void **state)
{
    lkt_small m = {.model = NULL};
    lks_metrics sum = {0};
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 1}));
    lks_batch batch = lkt_carried_batch(1);
    batch.count--;
    LKT_FAILS(
        LKS_E_INVALID,
        "the batch has 11 samples, but the network carries the state of 12 from batch to batch",
        lks_model_step(m.model, &batch, .3, NULL));
    batch.count++;
    batch.first = 1;
    batch.whole = 13;
    LKT_FAILS(LKS_E_INVALID,
              "the batch continues 13 samples, but the network carries the state of 12",
              lks_model_evaluate(m.model, &batch, &sum));
    batch.continues = false; /* then it is a batch as any other */
    LKT_OK(lks_model_evaluate(m.model, &batch, &sum));
    lkt_small_end(&m);
}

static lks_status read_frames(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    const lks_batch batch = lkt_carried_batch((int)(index / CARRIED_COLUMNS));
    const int64_t c = index % CARRIED_COLUMNS;
    memcpy(x, (const float *)batch.x + c * CARRIED_POSITIONS * CARRIED_WIDTH,
           sizeof(float) * CARRIED_POSITIONS * CARRIED_WIDTH);
    memcpy(y, (const int32_t *)batch.y + c * CARRIED_POSITIONS,
           sizeof(int32_t) * CARRIED_POSITIONS);
    return LKS_OK;
}

static lks_status open_frames(lks_dataset **out, lks_context *context, int64_t columns)
{
    const lks_dataset_ops ops = {.info = {.samples = CARRIED_WINDOWS * CARRIED_COLUMNS,
                                          .shape = LKS_SHAPE(CARRIED_POSITIONS, CARRIED_WIDTH),
                                          .dtype = LKS_F32,
                                          .classes = CARRIED_CLASSES,
                                          .target_shape = LKS_SHAPE(CARRIED_POSITIONS),
                                          .columns = columns},
                                 .read = read_frames};
    return lks_dataset_create(out, context, "frames", &ops, NULL);
}

/* A trainer knows by its loader whether windows go on; then it does as lkt_carried_train(). */
static void a_trainer_needs_columns(void **state)
{
    static const struct {
        int64_t columns, batch;
        bool shuffled;
        const char *says;
    } list[] = {
        {0, CARRIED_COLUMNS, false,
         "but 'frames' has no columns whose windows go on, and a batch has 12 samples"},
        {6, CARRIED_COLUMNS, false, "'frames' has 6 columns whose windows go on"},
        {24, CARRIED_COLUMNS, false, "'frames' has 24 columns whose windows go on"},
        {CARRIED_COLUMNS, CARRIED_COLUMNS, true, "does not go on where a batch ended"},
        {CARRIED_COLUMNS, 6, false, "does not go on where a batch ended"},
        {CARRIED_COLUMNS, CARRIED_COLUMNS, false, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lkt_small m = {.model = NULL}, other = {.model = NULL};
        lks_dataset *data;
        lks_loader *loader;
        lks_run run;
        uint64_t found, expected;
        LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 1}));
        LKT_OK(open_frames(&data, m.context, list[i].columns));
        const lks_loader_opts opts = {.global_batch = list[i].batch, .in_order = !list[i].shuffled};
        LKT_OK(lks_loader_create(&loader, m.context, data, &opts));
        assert_int_equal(lks_loader_continues(loader), list[i].says == NULL);
        const lks_train_opts training = {
            .model = m.model, .train = loader, .epochs = 2, .schedule = {.lr = .3}};
        const lks_status status = lks_train(m.context, &training, &run);
        if (list[i].says != NULL) {
            assert_true(status == LKS_E_INVALID || status == LKS_E_MISMATCH);
            LKT_FAILS(status, list[i].says, status);
        } else {
            LKT_OK(status);
            LKT_OK(lkt_carried_build(&other, NULL, (lks_model_opts){.workers = 1}));
            LKT_OK(lkt_carried_train(&other, 0, 2 * CARRIED_WINDOWS, NULL));
            LKT_OK(lks_model_hash(m.model, &found));
            LKT_OK(lks_model_hash(other.model, &expected));
            assert_true(found == expected);
            lkt_small_end(&other);
        }
        lks_run_clear(&run);
        lks_loader_destroy(loader);
        lks_dataset_destroy(data);
        lkt_small_end(&m);
    }
    lks_context *context;
    lks_dataset *data;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_FAILS(LKS_E_INVALID,
              "info.columns is 7, expected 0, or a number that divides the 72 samples",
              open_frames(&data, context, 7));
    LKT_FAILS(LKS_E_INVALID, "info.columns is -1", open_frames(&data, context, -1));
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_step_can_be_repeated),
        cmocka_unit_test(a_skipped_step_leaves_it_alone),
        cmocka_unit_test(what_is_carried_may_be_what_is_bad),
        cmocka_unit_test(what_is_bad_is_not_saved),
        cmocka_unit_test(what_was_not_carried_is_missed),
        cmocka_unit_test(a_run_goes_on_in_the_middle_of_an_epoch),
        cmocka_unit_test(directions),
        cmocka_unit_test(other_batches),
        cmocka_unit_test(a_trainer_needs_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
