/* Predictions from several threads, and what is refused instead of a crash. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 13, BATCH = 5, CLASSES = 5, THREADS = 4, PIXELS = 12 * 10 * 3 };

typedef struct fixture {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lkt_images images;
    lks_batch batch;
} fixture;

static fixture open_model(const char *device, lkt_net net, lks_model_opts opts)
{
    fixture f = {.images = lkt_images_make(SAMPLES)};
    LKT_OK(lks_context_create(&f.context, &(lks_context_opts){.device = device, .seed = 11}));
    LKT_OK(lks_graph_create(&f.graph, f.context));
    opts.loss = net(f.graph);
    opts.global_batch = BATCH;
    LKT_OK(lks_model_compile(&f.model, f.graph, &opts));
    f.batch = (lks_batch){.x = f.images.x, .y = f.images.y, .count = BATCH};
    return f;
}

static void close_model(fixture *f)
{
    lks_model_destroy(f->model);
    lks_graph_destroy(f->graph);
    lks_context_destroy(f->context);
    lkt_images_free(&f->images);
}

/* Also after steps, with averages, without fusion, and for counts that fill no batch. */
static void bits_are_those_of_the_model(void **state)
{
    static const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual, lkt_net_gated,
                                   lkt_net_joined};
    static const int64_t counts[] = {SAMPLES, 1, 0, BATCH, 7};
    const lks_model_opts opts[] = {{.replicas = 4, .workers = 3},
                                   {.replicas = 5, .workers = 1, .ema_decay = 0.5f},
                                   /* in groups of 2 and 1 */
                                   {.replicas = 3, .workers = 2, .kernels.single = true}};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t k = 0; k < 3 * sizeof nets / sizeof *nets; k++) {
            fixture f = open_model(lkt_backends()[b]->name, nets[k / 3], opts[k % 3]);
            lks_predictor *predictor;
            LKT_OK(lks_predictor_create(&predictor, f.model));
            for (int step = 0; step < 5; step++) {
                float expected[SAMPLES * CLASSES] = {0}, found[SAMPLES * CLASSES] = {0};
                if (opts[k % 3].ema_decay > 0)
                    LKT_OK(lks_model_use_averages(f.model, step % 2 == 1));
                /* Either may be the one that finds old packed parameters. */
                for (int turn = 0; turn < 2; turn++)
                    if ((turn + step) % 2 == 0)
                        LKT_OK(lks_model_predict(f.model, f.images.x, counts[step], expected));
                    else
                        LKT_OK(lks_predictor_predict(predictor, f.images.x, counts[step], found));
                assert_memory_equal(found, expected, sizeof found);
                LKT_OK(lks_model_step(f.model, &f.batch, 0.05, NULL));
            }
            lks_predictor_destroy(predictor);
            close_model(&f);
        }
}

/* What kernels have packed is what was asked for: parameters or averages, whatever was there before.
 * A model that has only the one, as its parameters, says what is right. */
static void averages_are_packed(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const char *device = lkt_backends()[b]->name;
        fixture f = open_model(device, lkt_net_conv, (lks_model_opts){.ema_decay = 0.5});
        fixture plain = open_model(device, lkt_net_conv, (lks_model_opts){0});
        float expected[2][SAMPLES * CLASSES], found[SAMPLES * CLASSES];
        for (int i = 0; i < 3; i++) LKT_OK(lks_model_step(f.model, &f.batch, 0.05, NULL));
        for (int averages = 0; averages < 2; averages++) {
            for (int i = 0; i < lks_model_state_count(f.model); i++) {
                const lks_state_info info = lks_model_state_info(f.model, i);
                if (info.kind != (averages ? LKS_AVERAGE : LKS_PARAMETER)) continue;
                void *values = malloc(info.bytes);
                assert_non_null(values);
                LKT_OK(lks_model_state_read(f.model, i, values, info.bytes));
                const int to = lks_model_state_find(plain.model, info.name + 4 * averages);
                LKT_OK(lks_model_state_write(plain.model, to, values, info.bytes));
                free(values);
            }
            LKT_OK(lks_model_predict(plain.model, f.images.x, SAMPLES, expected[averages]));
        }
        assert_memory_not_equal(expected[0], expected[1], sizeof found);
        for (int turn = 0; turn < 4; turn++) {
            LKT_OK(lks_model_use_averages(f.model, turn % 2 == 0));
            LKT_OK(lks_model_predict(f.model, f.images.x, SAMPLES, found));
            assert_memory_equal(found, expected[turn % 2 == 0], sizeof found);
        }
        close_model(&plain);
        close_model(&f);
    }
}

typedef struct task {
    fixture *f;
    const float *expected;
    lks_predictor *predictor; /* NULL: the model itself */
    int rounds;               /* predictions that succeed */
    int done, refused, wrong;
    pthread_t thread;
} task;

static void *predict_again_and_again(void *user)
{
    task *t = user;
    float found[SAMPLES * CLASSES];
    while (t->done < t->rounds) {
        const lks_status status = t->predictor != NULL
                                      ? lks_predictor_predict(t->predictor, t->f->images.x, SAMPLES,
                                                              found)
                                      : lks_model_predict(t->f->model, t->f->images.x, SAMPLES,
                                                          found);
        if (status == LKS_OK) {
            t->done++;
            t->wrong += memcmp(found, t->expected, sizeof found) != 0;
        } else {
            t->refused++;
            if (status != LKS_E_STATE) t->wrong++;
            sched_yield();
        }
    }
    return NULL;
}

static void start(task *t)
{
    assert_int_equal(pthread_create(&t->thread, NULL, predict_again_and_again, t), 0);
}

static void end(task *t)
{
    pthread_join(t->thread, NULL);
    assert_int_equal(t->wrong, 0);
}

static void each_thread_has_its_own(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        fixture f = open_model(lkt_backends()[b]->name, lkt_net_conv,
                               (lks_model_opts){.replicas = 4, .workers = 2, .ema_decay = 0.9f});
        float expected[SAMPLES * CLASSES];
        task tasks[THREADS];
        for (int i = 0; i < 3; i++) /* the first average is the parameters */
            LKT_OK(lks_model_step(f.model, &f.batch, 0.05, NULL));
        LKT_OK(lks_model_use_averages(f.model, true));
        LKT_OK(lks_model_predict(f.model, f.images.x, SAMPLES, expected));
        LKT_OK(lks_model_use_averages(f.model, false));
        LKT_OK(lks_model_predict(f.model, f.images.x, 1, (float[CLASSES]){0}));
        LKT_OK(lks_model_use_averages(f.model, true)); /* the packed parameters are old now */
        for (int i = 0; i < THREADS; i++) {
            tasks[i] = (task){.f = &f, .expected = expected, .rounds = 20};
            LKT_OK(lks_predictor_create(&tasks[i].predictor, f.model));
        }
        for (int i = 0; i < THREADS; i++) start(&tasks[i]);
        for (int i = 0; i < THREADS; i++) {
            end(&tasks[i]);
            assert_int_equal(tasks[i].refused, 0);
            lks_predictor_destroy(tasks[i].predictor);
        }
        close_model(&f);
    }
}

/* Steps with learning rate 0 change no bit, so every prediction that is not refused has one answer;
 * but they write all parameters and pack them anew. */
static void steps_and_predictions_do_not_meet(void **state)
{
    (void)state;
    fixture f = open_model(NULL, lkt_net_conv, (lks_model_opts){.replicas = 4, .workers = 2});
    float expected[SAMPLES * CLASSES];
    task tasks[2];
    int steps = 0;
    LKT_OK(lks_model_predict(f.model, f.images.x, SAMPLES, expected));
    for (int i = 0; i < 2; i++) {
        tasks[i] = (task){.f = &f, .expected = expected, .rounds = 20};
        LKT_OK(lks_predictor_create(&tasks[i].predictor, f.model));
        start(&tasks[i]);
    }
    while (steps < 20) {
        const lks_status status = lks_model_step(f.model, &f.batch, 0, NULL);
        if (status == LKS_OK)
            steps++;
        else
            assert_int_equal(status, LKS_E_STATE);
        sched_yield();
    }
    for (int i = 0; i < 2; i++) {
        end(&tasks[i]);
        lks_predictor_destroy(tasks[i].predictor);
    }
    close_model(&f);
}

/* Four threads in one model, and four in one predictor: an answer or a refusal, no crash. */
static void what_is_in_use_is_refused(void **state)
{
    (void)state;
    fixture f = open_model(NULL, lkt_net_mlp, (lks_model_opts){.replicas = 4, .workers = 2});
    lks_predictor *predictor;
    float expected[SAMPLES * CLASSES];
    LKT_OK(lks_predictor_create(&predictor, f.model));
    LKT_OK(lks_model_predict(f.model, f.images.x, SAMPLES, expected));
    for (int k = 0; k < 2; k++) {
        task tasks[THREADS];
        for (int i = 0; i < THREADS; i++) {
            tasks[i] = (task){.f = &f, .expected = expected, .rounds = 20};
            tasks[i].predictor = k == 0 ? NULL : predictor;
            start(&tasks[i]);
        }
        for (int i = 0; i < THREADS; i++) end(&tasks[i]);
    }
    lks_predictor_destroy(predictor);
    close_model(&f);
}

/* What a call of each kind answers while another is inside. */
static void whoever_comes_second_is_told(void **state)
{
    (void)state;
    fixture f = open_model(NULL, lkt_net_mlp, (lks_model_opts){.replicas = 4, .workers = 2});
    lks_predictor *predictor;
    lks_metrics sum = {0};
    float out[CLASSES], value[5];
    uint64_t hash;
    const int bias = lks_model_state_find(f.model, "dense_2.bias");
    LKT_OK(lks_predictor_create(&predictor, f.model));

    LKT_OK(lki_model_enter(f.model, "another"));
    const char *part = "another thread is using the model";
    LKT_FAILS(LKS_E_STATE, part, lks_model_step(f.model, &f.batch, 0.1, NULL));
    LKT_FAILS(LKS_E_STATE, part, lks_model_gradient(f.model, &f.batch, NULL));
    LKT_FAILS(LKS_E_STATE, part, lks_model_evaluate(f.model, &f.batch, &sum));
    LKT_FAILS(LKS_E_STATE, part, lks_model_predict(f.model, f.images.x, 1, out));
    LKT_FAILS(LKS_E_STATE, part, lks_model_hash(f.model, &hash));
    LKT_FAILS(LKS_E_STATE, part, lks_model_use_averages(f.model, false));
    LKT_FAILS(LKS_E_STATE, part, lks_model_state_write(f.model, bias, out, sizeof out));
    LKT_FAILS(LKS_E_STATE, part, lks_profile_start(f.model));
    part = "in a call that runs or changes the model";
    LKT_FAILS(LKS_E_STATE, part, lks_model_state_read(f.model, bias, value, sizeof value));
    LKT_FAILS(LKS_E_STATE, part, lks_predictor_predict(predictor, f.images.x, 1, out));
    assert_int_equal(lki_model_leave(f.model, LKS_E_IO), LKS_E_IO);

    LKT_OK(lki_model_enter_shared(f.model, "one"));
    LKT_OK(lki_model_enter_shared(f.model, "another"));
    assert_int_equal(lki_model_leave_shared(f.model, LKS_OK), LKS_OK); /* one stays */
    part = "lks_model_step(): 1 other thread is reading the model or predicting";
    LKT_FAILS(LKS_E_STATE, part, lks_model_step(f.model, &f.batch, 0.1, NULL));
    LKT_FAILS(LKS_E_STATE, "predicting", lks_model_predict(f.model, f.images.x, 1, out));
    LKT_OK(lks_model_state_read(f.model, bias, value, sizeof value));
    LKT_OK(lks_predictor_predict(predictor, f.images.x, 1, out));
    assert_int_equal(lki_model_leave_shared(f.model, LKS_OK), LKS_OK);

    LKT_OK(lks_model_step(f.model, &f.batch, 0.1, NULL));
    LKT_OK(lks_predictor_predict(predictor, f.images.x, 1, out));
    /* A refusal leaves nobody inside. */
    LKT_FAILS(LKS_E_INVALID, "predict got -1", lks_predictor_predict(predictor, out, -1, out));
    LKT_FAILS(LKS_E_INVALID, "learning rate", lks_model_step(f.model, &f.batch, -1, NULL));
    LKT_OK(lks_model_step(f.model, &f.batch, 0.1, NULL));
    lks_predictor_destroy(predictor);
    close_model(&f);
}

/* ---------------------------------------------------------------- kernels that fail */

static int64_t fails_from; /* position in the batch */
static bool in_backward;

static lks_status fail_forward(const lki_plan *plan, const lki_args *args)
{
    if (in_backward || args->position + args->count <= fails_from) return LKS_OK;
    return lks_fail(LKS_E_IO, "'%s' failed in the piece at %lld", plan->cluster.node[0]->name,
                    (long long)args->position);
}

static lks_status fail_backward(const lki_plan *plan, const lki_args *args)
{
    if (!in_backward || args->position + args->count <= fails_from) return LKS_OK;
    return lks_fail(LKS_E_IO, "'%s' failed in the piece at %lld", plan->cluster.node[0]->name,
                    (long long)args->position);
}

/* Of several workers that fail, the first in order of replicas has the word; nothing is updated, and no
 * metrics are counted. */
static void the_first_failure_is_told(void **state)
{
    (void)state;
    for (int k = 0; k < 8; k++) {
        fixture f = open_model(lkt_device("ref"), lkt_net_mlp,
                               (lks_model_opts){.replicas = 4, .workers = 2, .by_replica = true});
        const lks_batch batch = f.batch;
        char expected[100];
        float out[CLASSES * SAMPLES];
        lki_stage *stage = &f.model->program.stage[0];
        lki_kernel failing = *stage->kernel;
        lks_metrics sum = {0};
        failing.forward = fail_forward;
        failing.backward = fail_backward;
        stage->kernel = &failing;
        stage->backward = true;
        fails_from = k / 2; /* shares begin at 0, 1, 2, 3 */
        in_backward = k % 2 == 1;
        snprintf(expected, sizeof expected, "failed in the piece at %lld", (long long)fails_from);
        LKT_FAILS(LKS_E_IO, expected, lks_model_step(f.model, &batch, 0.1, NULL));
        assert_int_equal(lks_model_progress(f.model).step, 0);
        if (!in_backward) {
            LKT_FAILS(LKS_E_IO, expected, lks_model_evaluate(f.model, &batch, &sum));
            assert_int_equal(sum.samples, 0);
            LKT_FAILS(LKS_E_IO, expected, lks_model_predict(f.model, f.images.x, batch.count, out));
        }
        close_model(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_model),
        cmocka_unit_test(averages_are_packed),
        cmocka_unit_test(each_thread_has_its_own),
        cmocka_unit_test(steps_and_predictions_do_not_meet),
        cmocka_unit_test(what_is_in_use_is_refused),
        cmocka_unit_test(whoever_comes_second_is_told),
        cmocka_unit_test(the_first_failure_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
