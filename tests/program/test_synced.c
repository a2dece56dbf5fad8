/*
 * Batch norm over the whole batch: what it computes does not depend on the number of replicas, but for the
 * rounding of sums; with one replica it is batch norm as it was; its gradient is that of the mean loss of the
 * whole batch. That bits depend on no worker and no rank is in test_theorem.c and tests/ranks.
 */
#include <math.h>
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/far.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

enum { WIDTH = 4, CLASSES = 3, MOST = 32, MOST_VALUES = 64 };

typedef struct values {
    float x[MOST][WIDTH];
    int32_t y[MOST];
} values;

/* Samples that differ in mean from replica to replica, so that statistics of the batch are others than theirs:
 * multiples of `unit` up to about 4 from 0. */
static values make_values(float unit)
{
    values v;
    for (int s = 0; s < MOST; s++) {
        for (int i = 0; i < WIDTH; i++)
            v.x[s][i] = unit *
                        (float)((int)(lkt_hashed((uint32_t)(s * WIDTH + i), 1) % 1024) +
                                128 * (s % 8) - 1024) *
                        (1.0f / 256);
        v.y[s] = (int32_t)(lkt_hashed((uint32_t)s, 2) % CLASSES);
    }
    return v;
}

static lks_batch batch_of(const values *v, int64_t count)
{
    return (lks_batch){.x = v->x, .y = v->y, .count = count};
}

static lks_tensor *units(lks_graph *g, lks_tensor *x, const char *name, int64_t count)
{
    return lks_dense(g, x, &(lks_dense_opts){.name = name, .units = count});
}

static lks_tensor *norm(lks_graph *g, lks_tensor *x, const char *name, bool sync)
{
    return lks_batch_norm(g, x, &(lks_batch_norm_opts){.name = name, .sync = sync});
}

/* The first batch norm reads the samples themselves. */
static lks_tensor *smooth(lks_graph *g, bool sync)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = CLASSES});
    x = norm(g, x, "bn1", sync);
    x = lks_tanh(g, norm(g, units(g, x, "fc1", 5), "bn2", sync));
    x = lks_add(g, norm(g, units(g, x, "fc2", 6), "bn3", sync), units(g, x, "side", 6));
    return lks_cross_entropy(g, units(g, lks_silu(g, x), "fc3", CLASSES), y, NULL);
}

static lkt_model make(const char *device, bool sync, int64_t batch, int replicas, int workers)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 3});
    lkt_compile(&m, &(lks_model_opts){.loss = smooth(m.graph, sync),
                                      .global_batch = batch,
                                      .replicas = replicas,
                                      .workers = workers,
                                      .optim = lks_sgd(0)});
    return m;
}

static int entry(const lkt_model *m, const char *name)
{
    const int index = lks_model_state_find(m->model, name);
    if (index < 0) fail_msg("no state entry '%s'", name);
    return index;
}

/* Returns how many there are. */
static int read_entry(const lkt_model *m, const char *name, float out[MOST_VALUES])
{
    const int index = entry(m, name);
    const size_t bytes = lks_model_state_info(m->model, index).bytes;
    assert_true(bytes <= MOST_VALUES * sizeof *out);
    LKT_OK(lks_model_state_read(m->model, index, out, bytes));
    return (int)(bytes / sizeof *out);
}

static void write_entry(const lkt_model *m, const char *name, const float *from, int count)
{
    LKT_OK(lks_model_state_write(m->model, entry(m, name), from, (size_t)count * sizeof *from));
}

static const char *const PARAMETERS[] = {"bn1.weight", "bn1.bias", "fc1.weight",  "fc1.bias",
                                         "bn2.weight", "bn2.bias", "fc2.weight",  "fc2.bias",
                                         "bn3.weight", "bn3.bias", "side.weight", "side.bias",
                                         "fc3.weight", "fc3.bias"};
enum { PARAMETER_COUNT = sizeof PARAMETERS / sizeof *PARAMETERS };

/* A network as synced is that of `unsynced` with every batch norm synced, and one replica for all. */
static uint64_t run_one(const char *device, lkt_net net, int replicas, bool plain)
{
    const lkt_run run = {
        .device = device,
        .net = net,
        .samples = 97,
        .batch = 61,
        .steps = 4,
        .opts = {
            .replicas = replicas, .workers = 1, .kernels.single = plain, .optim = lks_sgd(.9f)}};
    return lkt_run_hash(&run, NULL);
}

static lks_tensor *all_synced(lks_graph *graph)
{
    lks_tensor *loss = lkt_net_residual(graph);
    int count = 0;
    LKT_OK(lks_graph_sync_batch_norm(graph, &count));
    assert_int_equal(count, 4);
    return loss;
}

static void one_replica_is_as_without(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const char *device = lkt_backends()[b]->name;
        for (int plain = 0; plain < 2; plain++) {
            const uint64_t expected = run_one(device, lkt_net_residual, 1, plain);
            assert_int_equal(run_one(device, all_synced, 1, plain), expected);
            assert_int_not_equal(run_one(device, all_synced, 4, plain),
                                 run_one(device, lkt_net_residual, 4, plain));
        }
    }
}

/* A convolution with batch norm, a sum and an activation behind it as one kernel, and as four. */
static void fused_is_as_plain(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int replicas = 6; replicas <= 8; replicas += 2) {
            const char *device = lkt_backends()[b]->name;
            assert_int_equal(run_one(device, all_synced, replicas, false),
                             run_one(device, all_synced, replicas, true));
        }
}

static void memory_of_a_device(void **state)
{
    (void)state;
    lki_backend_lend(lkt_far(true));
    assert_int_equal(run_one("far", lkt_net_synced, 5, false),
                     run_one(lkt_device("ref"), lkt_net_synced, 5, false));
}

/*
 * The samples are multiples of 2^-8 below 8, 24 in shares of 6: sums and means of 6 and of 24 are rounded, but
 * in double, 29 bits behind what a float keeps: the first batch norm's output, a float, is that of one replica
 * but where it lies within 2^-29 of the middle between two floats, which none of these values does; so the
 * running statistics, and all that stands before the second batch norm, are the same bits.
 */
static void forward_is_that_of_one_replica(void **state)
{
    static const char *const buffers[] = {"bn1.running_mean", "bn1.running_var"};
    const values v = make_values(1);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int replicas = 2; replicas <= 8; replicas += 3) {
            lkt_model one = make(lkt_backends()[b]->name, false, 24, 1, 1);
            lkt_model some = make(lkt_backends()[b]->name, true, 24, replicas, 2);
            const lks_batch batch = batch_of(&v, 24);
            LKT_OK(lks_model_step(one.model, &batch, 0.1, NULL));
            LKT_OK(lks_model_step(some.model, &batch, 0.1, NULL));
            for (int i = 0; i < 2; i++) {
                float expected[MOST_VALUES], found[MOST_VALUES];
                const int count = read_entry(&one, buffers[i], expected);
                assert_int_equal(read_entry(&some, buffers[i], found), count);
                assert_memory_equal(found, expected, (size_t)count * sizeof *found);
            }
            int64_t batches[2];
            LKT_OK(lks_model_state_read(some.model, entry(&some, "bn1.num_batches_tracked"),
                                        &batches[0], sizeof batches[0]));
            assert_int_equal(batches[0], 1);
            lkt_end(&one);
            lkt_end(&some);
        }
}

/* The mean loss of the batch, in training, with one element of a parameter moved by h. */
static double loss_at(const lkt_model *m, const char *name, const float *at, int count, int element,
                      float h, const lks_batch *batch)
{
    float moved[MOST_VALUES];
    lks_metrics metrics;
    memcpy(moved, at, (size_t)count * sizeof *moved);
    moved[element] += h;
    write_entry(m, name, moved, count);
    LKT_OK(lks_model_gradient(m->model, batch, &metrics));
    return lks_metrics_loss(&metrics);
}

/* A central difference; h is rounded as what is added to a float is. */
static double slope(const lkt_model *m, const char *name, const float *at, int count, int element,
                    float h, const lks_batch *batch)
{
    const float up = at[element] + h, down = at[element] - h;
    return (loss_at(m, name, at, count, element, up - at[element], batch) -
            loss_at(m, name, at, count, element, down - at[element], batch)) /
           ((double)up - (double)down);
}

/*
 * Differences of the mean loss over the whole batch, in which every sample's loss depends on all others'. The
 * mean over n losses near 1 is right to 2^-22 at least (a few roundings of f32 each, which do not add up
 * over samples); over 2 h = 2^-4 that is 2^-18 in a slope, and 3 times that in (4 s(h/2) - s(h)) / 3, whose own
 * error is of order h^4: 10^-6 times a fifth derivative.
 */
static void gradient_is_that_of_the_whole_batch(void **state)
{
    const values v = make_values(1);
    const lks_batch batch = batch_of(&v, 23); /* shares of 5 and 6 */
    const double bound = 0x1p-15;
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_model m = make(lkt_backends()[b]->name, true, 24, 4, 2);
        for (int p = 0; p < PARAMETER_COUNT; p++) {
            char name[80];
            float at[MOST_VALUES], gradient[MOST_VALUES];
            const int count = read_entry(&m, PARAMETERS[p], at);
            LKT_OK(lks_model_gradient(m.model, &batch, NULL));
            snprintf(name, sizeof name, "gradient.%s", PARAMETERS[p]);
            assert_int_equal(read_entry(&m, name, gradient), count);
            for (int i = 0; i < count; i += lkt_in_part() ? 4 : 1) {
                const double wide = slope(&m, PARAMETERS[p], at, count, i, 0x1p-5f, &batch);
                const double narrow = slope(&m, PARAMETERS[p], at, count, i, 0x1p-6f, &batch);
                const double error = fabs((4 * narrow - wide) / 3 - (double)gradient[i]);
                if (error > bound)
                    fail_msg("%s, %s, element %d: %g, %.3g from the differences",
                             lkt_backends()[b]->name, name, i, (double)gradient[i], error);
            }
            write_entry(&m, PARAMETERS[p], at, count);
        }
        lkt_end(&m);
    }
}

static void copy_state(const lkt_model *from, const lkt_model *to)
{
    for (int i = 0; i < lks_model_state_count(from->model); i++) {
        const lks_state_info info = lks_model_state_info(from->model, i);
        char bytes[MOST_VALUES * sizeof(double)];
        if (info.kind == LKS_GRADIENT) continue;
        assert_true(info.bytes <= sizeof bytes);
        LKT_OK(lks_model_state_read(from->model, i, bytes, info.bytes));
        LKT_OK(lks_model_state_write(to->model, lks_model_state_find(to->model, info.name), bytes,
                                     info.bytes));
    }
}

/* Evaluation and prediction know no difference: replicas of a worker pass leg by leg, nobody meets. */
static void inference_is_as_without(void **state)
{
    const values v = make_values(1);
    const lks_batch batch = batch_of(&v, 23), all = batch_of(&v, MOST);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_model plain = make(lkt_backends()[b]->name, false, 24, 5, 2);
        lkt_model synced = make(lkt_backends()[b]->name, true, 24, 5, 2);
        float expected[MOST * CLASSES], found[MOST * CLASSES];
        lks_metrics metrics[2] = {{0}, {0}};
        lks_predictor *predictor;
        LKT_OK(lks_model_step(synced.model, &batch, 0.1, NULL));
        copy_state(&synced, &plain);
        LKT_OK(lks_model_predict(plain.model, v.x, MOST, expected));
        LKT_OK(lks_model_predict(synced.model, v.x, MOST, found));
        assert_memory_equal(found, expected, sizeof found);
        memset(found, 0, sizeof found);
        LKT_OK(lks_predictor_create(&predictor, synced.model));
        LKT_OK(lks_predictor_predict(predictor, v.x, MOST, found));
        assert_memory_equal(found, expected, sizeof found);
        lks_predictor_destroy(predictor);
        LKT_OK(lks_model_evaluate(plain.model, &all, &metrics[0]));
        LKT_OK(lks_model_evaluate(synced.model, &all, &metrics[1]));
        assert_memory_equal(&metrics[0], &metrics[1], sizeof metrics[0]);
        lkt_end(&plain);
        lkt_end(&synced);
    }
}

/* One value says nothing about a variance: the running one stays, as with one sample in a replica. */
static void one_sample(void **state)
{
    const values v = make_values(1);
    const lks_batch batch = batch_of(&v, 1);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_model m = make(lkt_backends()[b]->name, true, 24, 5, 2);
        float mean[MOST_VALUES], variance[MOST_VALUES];
        LKT_OK(lks_model_step(m.model, &batch, 0.1, NULL));
        assert_int_equal(read_entry(&m, "bn1.running_mean", mean), WIDTH);
        assert_int_equal(read_entry(&m, "bn1.running_var", variance), WIDTH);
        for (int i = 0; i < WIDTH; i++) {
            assert_true(fabsf(mean[i] - .1f * v.x[0][i]) <= 0x1p-23f * fabsf(v.x[0][i]));
            assert_true(variance[i] == 1);
        }
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_replica_is_as_without),
        cmocka_unit_test(fused_is_as_plain),
        cmocka_unit_test(memory_of_a_device),
        cmocka_unit_test(forward_is_that_of_one_replica),
        cmocka_unit_test(gradient_is_that_of_the_whole_batch),
        cmocka_unit_test(inference_is_as_without),
        cmocka_unit_test(one_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
