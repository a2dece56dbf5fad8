/* Behind a fork a model and a loader have no threads: their calls say so, and do not wait for ever. */

#include <string.h>

#include "support/runs.h"
#include "support/backends.h"
#include "support/test.h"

enum { SAMPLES = 20, BATCH = 8, CLASSES = 5 };

typedef struct fixture {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lks_predictor *predictor;
    lks_dataset *data;
    lks_loader *loader, *plain; /* plain: without threads */
    lkt_images images;
    lks_model_opts opts;
    lks_batch batch;
} fixture;

static void set_up(fixture *f)
{
    *f = (fixture){.images = lkt_images_make(SAMPLES)};
    LKT_OK(lks_context_create(&f->context, &(lks_context_opts){.device = lkt_device(NULL)}));
    LKT_OK(lks_graph_create(&f->graph, f->context));
    f->opts = (lks_model_opts){
        .loss = lkt_net_mlp(f->graph), .global_batch = BATCH, .replicas = 4, .workers = 2};
    LKT_OK(lks_model_compile(&f->model, f->graph, &f->opts));
    LKT_OK(lks_predictor_create(&f->predictor, f->model));
    LKT_OK(lks_dataset_from_arrays(
        &f->data, f->context,
        &(lks_dataset_info){
            .samples = SAMPLES, .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8, .classes = CLASSES},
        f->images.x, f->images.y));
    LKT_OK(lks_loader_create(&f->loader, f->context, f->data,
                             &(lks_loader_opts){.global_batch = BATCH, .threads = 2}));
    LKT_OK(lks_loader_create(&f->plain, f->context, f->data,
                             &(lks_loader_opts){.global_batch = BATCH, .threads = -1}));
    f->batch = (lks_batch){.x = f->images.x, .y = f->images.y, .count = BATCH};
}

static void destroy(fixture *f)
{
    lks_loader_destroy(f->plain);
    lks_loader_destroy(f->loader);
    lks_dataset_destroy(f->data);
    lks_predictor_destroy(f->predictor);
    lks_model_destroy(f->model);
}

/* In the child. */
static int child(void *user)
{
    fixture *f = user;
    float out[CLASSES];
    uint64_t hash;
    lks_batch batch;

    LKT_CHECK(lks_model_step(f->model, &f->batch, 0.1, NULL) == LKS_E_STATE);
    LKT_CHECK(strcmp(lks_last_error()->message,
                     "lks_model_step(): the model was compiled before this process was forked, and "
                     "its threads are those of the parent; compile it in this process") == 0);
    LKT_CHECK(lks_model_predict(f->model, f->images.x, 1, out) == LKS_E_STATE);
    LKT_CHECK(lks_model_hash(f->model, &hash) == LKS_E_STATE);
    LKT_CHECK(lks_predictor_predict(f->predictor, f->images.x, 1, out) == LKS_E_STATE);
    LKT_CHECK(lks_loader_next(f->loader, &batch) == LKS_E_STATE);
    LKT_CHECK(lks_loader_seek(f->loader, 0) == LKS_E_STATE);
    LKT_CHECK(lks_loader_next(f->plain, &batch) == LKS_OK);
    destroy(f);
    f->model = NULL;
    if (!lkt_sanitized()) { /* the thread sanitizer starts no threads here */
        LKT_CHECK(lks_model_compile(&f->model, f->graph, &f->opts) == LKS_OK);
        LKT_CHECK(lks_model_step(f->model, &f->batch, 0.1, NULL) == LKS_OK);
        lks_model_destroy(f->model);
    }
    lks_graph_destroy(f->graph);
    lks_context_destroy(f->context);
    lkt_images_free(&f->images);
    return 0;
}

static void a_child_is_told(void **state)
{
    fixture f;
    lks_batch batch;
    (void)state;
    set_up(&f);
    LKT_OK(lks_model_step(f.model, &f.batch, 0.1, NULL));
    LKT_OK(lks_loader_next(f.loader, &batch));
    assert_int_equal(lkt_in_child(child, &f), 0);
    /* The parent goes on. */
    LKT_OK(lks_model_step(f.model, &f.batch, 0.1, NULL));
    LKT_OK(lks_predictor_predict(f.predictor, f.images.x, 1, (float[CLASSES]){0}));
    LKT_OK(lks_loader_next(f.loader, &batch));
    destroy(&f);
    lks_graph_destroy(f.graph);
    lks_context_destroy(f.context);
    lkt_images_free(&f.images);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
