/* Steps allocate nothing; and when allocation n fails, for every n, there is a clean error. */
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 20, BATCH = 9 };

typedef struct session {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lks_dataset *data;
    lks_loader *loader;
} session;

static void close_session(session *s)
{
    lks_model_destroy(s->model);
    lks_graph_destroy(s->graph);
    lks_loader_destroy(s->loader);
    lks_dataset_destroy(s->data);
    lks_context_destroy(s->context);
}

static lks_status step(session *s)
{
    lks_batch batch;
    lks_status status = lks_loader_next(s->loader, &batch);
    return status != LKS_OK ? status : lks_model_step(s->model, &batch, 0.1, NULL);
}

/* As they come, and with everything for which a step needs memory of its own. */
static lks_model_opts make_opts(bool full)
{
    static lks_group half;
    half = lks_group_of("*");
    half.lr_factor = 0.5f;
    if (!full) return (lks_model_opts){.optim = lks_adadelta()};
    return (lks_model_opts){.optim = lks_adamp(),
                            .groups = &half,
                            .group_count = 1,
                            .clip_norm = 0.5f,
                            .ema_decay = 0.9f,
                            .skip_not_finite = true};
}

static lks_status open_session(session *s, const char *device, lkt_heap *heap, lkt_net net,
                               bool full, const lkt_images *images)
{
    lks_status status;
    memset(s, 0, sizeof *s);
    const lks_context_opts opts = {.device = device, .allocator = lkt_heap_allocator(heap)};
    if ((status = lks_context_create(&s->context, &opts))) return status;
    if ((status = lks_dataset_from_arrays(
             &s->data, s->context,
             &(lks_dataset_info){
                 .samples = SAMPLES, .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8, .classes = 5},
             images->x, images->y)))
        return status;
    if ((status = lks_loader_create(&s->loader, s->context, s->data,
                                    &(lks_loader_opts){.global_batch = BATCH})))
        return status;
    if ((status = lks_graph_create(&s->graph, s->context))) return status;
    lks_model_opts model = make_opts(full);
    model.loss = net(s->graph);
    model.global_batch = BATCH;
    model.replicas = 4;
    model.workers = 3;
    model.hash_every = 2;
    status = lks_model_compile(&s->model, s->graph, &model);
    return status == LKS_OK && full ? lks_model_use_averages(s->model, true) : status;
}

static void steps_allocate_nothing(void **state)
{
    (void)state;
    const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual};
    lkt_images images = lkt_images_make(SAMPLES);
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t n = 0; n < 2 * sizeof nets / sizeof nets[0]; n++) {
            lkt_heap heap = {0};
            session s;
            LKT_OK(open_session(&s, lkt_backends()[b]->name, &heap, nets[n / 2], n % 2, &images));
            const int64_t before = heap.allocations;
            for (int i = 0; i < 7; i++) LKT_OK(step(&s));
            lks_metrics sum = {0};
            const lks_batch all = {.x = images.x, .y = images.y, .count = SAMPLES};
            LKT_OK(lks_model_evaluate(s.model, &all, &sum));
            assert_int_equal(sum.samples, SAMPLES);
            assert_int_equal(heap.allocations, before);
            close_session(&s);
            assert_int_equal(heap.live, 0);
            assert_int_equal(heap.errors, 0);
        }
    lkt_images_free(&images);
}

/* Returns false when no allocation failed any more. */
static bool fail_at(int64_t n, bool full, const lkt_images *images)
{
    lkt_heap heap = {.fail_at = n};
    session s;
    lks_status status = open_session(&s, lkt_device("ref"), &heap, lkt_net_residual, full, images);
    if (status == LKS_OK) status = step(&s);
    const bool failed = heap.allocations >= n;
    if (failed) {
        assert_int_equal(status, LKS_E_NOMEM);
        assert_true(strlen(lks_last_error()->message) > 10);
    } else {
        LKT_OK(status);
    }
    close_session(&s);
    assert_int_equal(heap.live, 0);
    assert_int_equal(heap.errors, 0);
    return failed;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    lkt_images images = lkt_images_make(SAMPLES);
    for (int full = 0; full < 2; full++) {
        int64_t n = 1;
        while (fail_at(n, full, &images)) n++;
        assert_true(n > 20);
    }
    lkt_images_free(&images);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
