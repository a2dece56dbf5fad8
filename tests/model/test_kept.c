/* A device without what clipping, AdamP or averages call says so when the model is compiled. */
#include <string.h>

#include <lockstep/lockstep.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/test.h"

/* The device that lacks it is ref without one function; the linker puts this file in the place of
 * lki_backend_find() (tests.cmake). */
enum { NOTHING, APPROACH, DOT, DIRECTION };
static int lacks;

const lki_backend *__real_lki_backend_find(const char *name);
const lki_backend *__wrap_lki_backend_find(const char *name);
const lki_backend *__wrap_lki_backend_find(const char *name)
{
    static lki_backend without;
    const lki_backend *found = __real_lki_backend_find(name);
    if (found == NULL) return NULL;
    without = *found;
    if (lacks == APPROACH) without.approach = NULL;
    if (lacks == DOT) without.dot = NULL;
    if (lacks == DIRECTION) without.direction = NULL;
    return &without;
}

static lks_status compile(lks_model_opts opts, bool trains)
{
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device("ref")}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(4)});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = 3});
    x = lks_dense(graph, x, &(lks_dense_opts){.units = 3});
    if (trains) opts.loss = lks_cross_entropy(graph, x, y, NULL);
    opts.output = x;
    opts.global_batch = 4;
    const lks_status status = lks_model_compile(&model, graph, &opts);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return status;
}

static void what_is_lacking_is_said(void **state)
{
    (void)state;
    static const char norm[] = "has no kernel yet for the norm of gradients (clip_norm, "
                               "skip_not_finite, loss_scale_steps, an optimizer by rows)",
                      adamp[] = "has no kernel yet for directions (AdamP, LAMB)",
                      averages[] = "has no kernel yet for averages of parameters (ema_decay)";
    const struct row {
        lks_model_opts opts;
        const char *without[4]; /* NULL: nothing is said */
    } rows[] = {
        {{.clip_norm = 1}, {[DOT] = norm}},
        {{.skip_not_finite = true}, {[DOT] = norm}},
        {{.ema_decay = 0.5}, {[APPROACH] = averages}},
        {{.optim = lks_adamp()}, {[DOT] = norm, [DIRECTION] = adamp}},
        {{.optim = lks_adam(), .clip_value = 1}, {NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = NOTHING; k <= DIRECTION; k++) {
            const char *sentence = rows[i].without[k];
            lacks = k;
            if (sentence == NULL) {
                LKT_OK(compile(rows[i].opts, true));
            } else {
                char whole[200];
                snprintf(whole, sizeof whole, "device '%s' %s", lkt_device("ref"), sentence);
                LKT_FAILS(LKS_E_UNSUPPORTED, whole, compile(rows[i].opts, true));
                LKT_OK(compile(rows[i].opts, false)); /* it only predicts */
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lacking_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
