/* The caller's floating-point state: whatever its rounding and its treatment of denormals are, a run has
 * the same bits, and the caller finds its state as it was, behind every call. */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <lockstep/lockstep.h>

#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 29, BATCH = 13, CLASSES = 5, STEPS = 7 };

/* A state that a caller may have; flags that operations set are not part of it. */
typedef struct mode {
    int rounding;
    unsigned flushing; /* of MXCSR: FTZ, DAZ */
} mode;

static mode mode_now(void)
{
    mode now = {.rounding = fegetround()};
#if defined(__x86_64__)
    now.flushing = _mm_getcsr() & 0xffc0;
#endif
    return now;
}

static void set_mode(mode m)
{
    fesetround(m.rounding);
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x8040u) | m.flushing);
#endif
}

static mode wanted;

/* A call leaves the state as it was. */
#define CALL(call)                                                                                 \
    do {                                                                                           \
        const lks_status status_ = (call);                                                         \
        const mode now_ = mode_now();                                                              \
        if (now_.rounding != wanted.rounding || now_.flushing != wanted.flushing)                  \
            fail_msg("%s changed the caller's state", #call);                                      \
        if (status_ != LKS_OK) fail_msg("%s: %s", #call, lks_last_error()->message);               \
    } while (0)

/* All that a caller can see of a run. */
typedef struct outcome {
    uint64_t hash, data;
    double rates[40], plateau, loss, step_loss[STEPS], norm;
    float out[2][SAMPLES * CLASSES];
    lks_metrics metrics;
    uint8_t digits[2][1024];
} outcome;

static void learn(outcome *o, lks_model *model, lks_loader *loader)
{
    const lks_schedule schedule = {
        .kind = LKS_ONE_CYCLE, .lr = 0.05, .length = 37, .per_step = true};
    const lks_schedule plateau = {.kind = LKS_PLATEAU, .lr = 0.1, .factor = 0.3, .patience = -1};
    lks_plateau state = lks_plateau_begin(&plateau);
    for (int i = 0; i < 40; i++) o->rates[i] = lks_schedule_at(&schedule, i, 0);
    for (int i = 0; i < STEPS; i++) {
        lks_metrics metrics;
        lks_batch batch;
        CALL(lks_loader_next(loader, &batch));
        CALL(lks_model_step(model, &batch, o->rates[i], &metrics));
        o->step_loss[i] = lks_metrics_loss(&metrics);
        lks_plateau_observe(&plateau, &state, o->step_loss[i]);
    }
    o->plateau = state.lr;
    o->norm = lks_model_last_step(model).gradient_norm;
}

static void run(outcome *o, const char *device, lkt_net net, lks_optim optim)
{
    lkt_images images = lkt_images_make(SAMPLES);
    lks_context *context;
    lks_dataset *data, *digits;
    lks_loader *loader;
    lks_graph *graph;
    lks_model *model;
    lks_predictor *predictor;
    int32_t label;
    CALL(lks_context_create(&context, &(lks_context_opts){.device = device, .seed = 3}));
    CALL(lks_dataset_from_arrays(
        &data, context,
        &(lks_dataset_info){
            .samples = SAMPLES, .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8, .classes = CLASSES},
        images.x, images.y));
    CALL(lks_loader_create(&loader, context, data, &(lks_loader_opts){.global_batch = BATCH}));
    CALL(lks_graph_create(&graph, context));
    const lks_model_opts opts = {.loss = net(graph),
                                 .global_batch = BATCH,
                                 .workers = 2,
                                 .optim = optim,
                                 .ema_decay = 0.9,
                                 .clip_norm = 0.7};
    CALL(lks_model_compile(&model, graph, &opts));
    learn(o, model, loader);
    const lks_batch all = {.x = images.x, .y = images.y, .count = SAMPLES};
    CALL(lks_model_evaluate(model, &all, &o->metrics));
    o->loss = lks_metrics_loss(&o->metrics);
    CALL(lks_model_predict(model, images.x, SAMPLES, o->out[0]));
    CALL(lks_predictor_create(&predictor, model));
    CALL(lks_predictor_predict(predictor, images.x, SAMPLES, o->out[1]));
    CALL(lks_model_gradient(model, &(lks_batch){.x = images.x, .y = images.y, .count = BATCH},
                            NULL));
    CALL(lks_model_hash(model, &o->hash));
    CALL(lks_dataset_open_digits(&digits, context, &(lks_digits_opts){.samples = 50}));
    for (int i = 0; i < 2; i++) CALL(lks_dataset_read(digits, 7 * i, o->digits[i], &label));
    CALL(lks_dataset_hash(digits, &o->data));
    lks_dataset_destroy(digits);
    lks_predictor_destroy(predictor);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_loader_destroy(loader);
    lks_dataset_destroy(data);
    lks_context_destroy(context);
    lkt_images_free(&images);
}

static void no_state_of_the_caller_reaches_a_bit(void **state)
{
    static const lkt_net nets[] = {lkt_net_conv, lkt_net_gated, lkt_net_residual};
    static const mode modes[] = {
        {FE_TONEAREST, 0},
        {FE_UPWARD, 0},
        {FE_DOWNWARD, 0},
        {FE_TOWARDZERO, 0},
#if defined(__x86_64__)
        {FE_TONEAREST, 0x8040},
        {FE_UPWARD, 0x8040},
#endif
    };
    const lks_optim optims[] = {lks_adamw(), lks_adadelta(), lks_adamp()};
    static outcome expected, found;
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < 3; n++)
            for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
                outcome *o = m == 0 ? &expected : &found;
                memset(o, 0, sizeof *o);
                set_mode(modes[m]);
                wanted = mode_now();
                run(o, lkt_backends()[b]->name, nets[n], optims[n]);
                set_mode(modes[0]);
                if (memcmp(&expected, o, sizeof expected) != 0)
                    fail_msg("%s, network %d: the caller's state %d reaches the run: %016llx, "
                             "expected %016llx",
                             lkt_backends()[b]->name, n, (int)m, (unsigned long long)o->hash,
                             (unsigned long long)expected.hash);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_state_of_the_caller_reaches_a_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
