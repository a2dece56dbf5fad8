/* doctor: what bfloat16 is worth here, by training steps of a dense layer in both types. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#include "cli/doctor/doctor.h"
#include "cli/out/say.h"
#include "cli/process.h"

enum { WIDTH = 512, SAMPLES = 64, CLASSES = 16, MOST_PAIRS = 100 };
static const double SECONDS = 0.1; /* of both types, as long as that is more than one step each */

typedef struct sides { /* models by type: [0] f32, [1] bf16 */
    lks_context *context;
    lks_graph *graph[2];
    lks_model *model[2];
    double best[2];   /* seconds of the fastest step */
    uint64_t hash[2]; /* of the state behind the first step: the same on every machine */
} sides;

static lks_status make_side(sides *s, int bf16)
{
    lks_status status = lks_graph_create(&s->graph[bf16], s->context);
    if (status != LKS_OK) return status;
    lks_graph *g = s->graph[bf16];
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = CLASSES});
    for (int i = 0; i < 2; i++) x = lks_relu(g, lks_dense(g, x, &(lks_dense_opts){.units = WIDTH}));
    x = lks_dense(g, x, &(lks_dense_opts){.units = CLASSES});
    const lks_model_opts opts = {.loss = lks_cross_entropy(g, x, y, NULL),
                                 .global_batch = SAMPLES,
                                 .replicas = 1,
                                 .workers = 1,
                                 .kernels.bf16 = bf16 != 0};
    return lks_model_compile(&s->model[bf16], g, &opts);
}

/* Steps of both types in turns, so that what disturbs one disturbs the other; the first pair is not counted. */
static lks_status measure_sides(sides *s, const lks_batch *batch)
{
    double until = (double)INFINITY;
    for (int pair = 0; pair < MOST_PAIRS && (pair < 2 || process_clock() < until); pair++) {
        if (pair == 1) until = process_clock() + SECONDS;
        for (int bf16 = 0; bf16 < 2; bf16++) {
            lks_metrics ignored;
            const double began = process_clock();
            const lks_status status = lks_model_step(s->model[bf16], batch, 0.001, &ignored);
            const double took = process_clock() - began;
            if (status != LKS_OK) return status;
            if (pair > 0) s->best[bf16] = fmin(s->best[bf16], took);
            if (pair > 0) continue;
            const lks_status hashed = lks_model_hash(s->model[bf16], &s->hash[bf16]);
            if (hashed != LKS_OK) return hashed;
        }
    }
    return LKS_OK;
}

static lks_status compare_sides(sides *s)
{
    static float x[SAMPLES * WIDTH];
    static int32_t y[SAMPLES];
    static int64_t ids[SAMPLES];
    for (int i = 0; i < SAMPLES * WIDTH; i++) x[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < SAMPLES; i++) y[i] = i % CLASSES, ids[i] = i;
    const lks_batch batch = {.x = x, .y = y, .ids = ids, .count = SAMPLES};
    lks_status status = lks_context_create(&s->context, &say_logged);
    for (int bf16 = 0; bf16 < 2 && status == LKS_OK; bf16++) status = make_side(s, bf16);
    return status == LKS_OK ? measure_sides(s, &batch) : status;
}

void doctor_bf16(cli_doctor *d)
{
    sides s = {.best = {(double)INFINITY, (double)INFINITY}};
    if (compare_sides(&s) != LKS_OK) {
        doctor_add(d, "bfloat16", "not known: %s", lks_last_error()->message);
    } else {
        const double ratio = s.best[0] / s.best[1];
        doctor_finding *f = doctor_add(d, "bfloat16",
                                       "dense layers train %.2f times as fast as in f32", ratio);
        char hash[2][17];
        for (int bf16 = 0; bf16 < 2; bf16++)
            snprintf(hash[bf16], sizeof hash[bf16], "%016" PRIx64, s.hash[bf16]);
        f->values = json_pack("{s:f, s:f, s:f, s:s, s:s}", "ratio", ratio, "f32_seconds", s.best[0],
                              "bf16_seconds", s.best[1], "f32_hash", hash[0], "bf16_hash", hash[1]);
        if (ratio < 1)
            doctor_raise(
                d, f, LEVEL_NOTE,
                "train.dtype: bf16 has the same bits here as elsewhere, but f32 is faster; "
                "it is for processors with AMX or AVX-512 BF16");
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        lks_model_destroy(s.model[bf16]);
        lks_graph_destroy(s.graph[bf16]);
    }
    lks_context_destroy(s.context);
}
