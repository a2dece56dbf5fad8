/* A generator whose call is refused, or fails on its way, goes on when it is called again. */
#include "backend/ref/kernels.h"
#include "model/model.h"
#include "sample/nets.h"

enum { LONG = 5 * POSITIONS };

/* A dense layer of `ref` fails once, behind so many calls. */
static int calls_left = -1;

static lks_status fail_once(const lki_plan *plan, const lki_args *args)
{
    if (calls_left-- == 0) return lks_fail(LKS_E_IO, "the device is gone");
    return lki_ref_dense.forward(plan, args);
}

static const lki_backend *failing_device(void)
{
    static const lki_impl *impls[LKI_OP_COUNT + 1];
    static lki_impl dense;
    static lki_kernel kernel;
    static lki_backend backend;
    backend = *lki_backend_find("ref");
    kernel = lki_ref_dense;
    kernel.forward = fail_once;
    for (int i = 0; backend.impl[i] != NULL; i++) {
        impls[i] = backend.impl[i];
        if (impls[i]->kernel != &lki_ref_dense) continue;
        dense = *impls[i];
        dense.kernel = &kernel;
        impls[i] = &dense;
    }
    backend.name = "failing";
    backend.impl = impls;
    return &backend;
}

/* What the positions have left is lost, and they are computed again. */
static void a_failure_is_overcome(void **state)
{
    (void)state;
    static float out[POSITIONS][WORDS];
    enum { PROMPT = 3 };
    lki_backend_lend(failing_device());
    lkt_model m = open_net_on("failing", lstm_net, 1);
    lks_generator *g;
    int32_t x[POSITIONS] = {4, 1, 7}, next = -1;
    LKT_OK(lks_generator_create(&g, m.model, &(lks_generator_opts){.most_probable = true}));
    LKT_OK(lks_generator_feed(g, x, PROMPT));
    for (int i = PROMPT; i < POSITIONS; i++) {
        int32_t best = 0;
        calls_left = 0;
        LKT_FAILS(LKS_E_IO, "the device is gone", lks_generator_next(g, &next));
        LKT_OK(lks_generator_next(g, &next));
        LKT_OK(lks_model_predict(m.model, x, 1, &out[0][0]));
        for (int32_t k = 1; k < WORDS; k++) best = out[i - 1][k] > out[i - 1][best] ? k : best;
        assert_int_equal(next, best);
        x[i] = best;
    }
    lks_generator_destroy(g);
    lkt_end(&m);
    lki_backend_lend(NULL);
}

/* States of a text that is longer than the window are not lost by a call that is refused. */
static void a_refused_call_loses_nothing(void **state)
{
    (void)state;
    lkt_model m = open_net(lstm_net, 1);
    lks_generator *g[2];
    int32_t x[LONG];
    for (int i = 0; i < LONG; i++) x[i] = (i * i + 2) % WORDS;
    for (int i = 0; i < 2; i++) {
        LKT_OK(lks_generator_create(&g[i], m.model, NULL));
        LKT_OK(lks_generator_feed(g[i], x, LONG));
    }
    for (int i = 0; i < LONG; i++) {
        int32_t next[2] = {-1, -1};
        LKT_OK(lks_generator_next(g[0], &next[0]));
        LKT_OK(lki_model_enter(m.model, "the test"));
        LKT_FAILS(LKS_E_STATE, "another thread is using the model",
                  lks_generator_next(g[1], &next[1]));
        LKT_OK(lki_model_leave(m.model, LKS_OK));
        LKT_OK(lks_generator_next(g[1], &next[1]));
        assert_int_equal(next[0], next[1]);
    }
    for (int i = 0; i < 2; i++) lks_generator_destroy(g[i]);
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_overcome),
        cmocka_unit_test(a_refused_call_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
