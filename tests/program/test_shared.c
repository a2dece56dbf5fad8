/* Samples that workers share: a part of every stage is each one's, and predictions are those of one worker, bit for
 * bit, on every instruction set. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/vectors.h"
#include "model/model.h"
#include "support/runs.h"

#ifdef LKT_HAVE_CPU

enum { SAMPLES = 257, CLASSES = 5, MOST = 5, PIXELS = 12 * 10 * 3 };

static lks_tensor *conv(lks_graph *g, lks_tensor *x, int64_t filters, int64_t kernel,
                        int64_t stride)
{
    return lks_conv2d(g, x,
                      &(lks_conv2d_opts){.filters = filters,
                                         .kernel = {kernel, kernel},
                                         .stride = {stride, stride},
                                         .padding = {kernel / 2, kernel / 2}});
}

static lks_tensor *input(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    return lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
}

static lks_tensor *loss_of(lks_graph *g, lks_tensor *x)
{
    x = lks_dense(g, x, &(lks_dense_opts){.units = CLASSES});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = CLASSES}), NULL);
}

/* Parts of rows, of tiles and of panels, of which some are not whole and some are nobody's; batch norm with and without
 * another operand, relu and another activation; a depthwise convolution, which is not parted, between them. */
static lks_tensor *wide_net(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, lks_batch_norm(g, conv(g, input(g), 72, 3, 1), NULL));
    lks_tensor *y = lks_gelu(g, lks_batch_norm(g, conv(g, x, 72, 3, 1), NULL), NULL);
    y = lks_conv2d(
        g, y, &(lks_conv2d_opts){.filters = 72, .kernel = {3, 3}, .groups = 72, .padding = {1, 1}});
    y = lks_relu(g, lks_batch_norm(g, y, NULL));
    x = lks_relu(g, lks_add(g, lks_batch_norm(g, conv(g, y, 72, 1, 1), NULL), x));
    x = lks_relu(g, lks_batch_norm(g, conv(g, x, 200, 3, 2), NULL));
    x = lks_batch_norm(g, conv(g, x, 130, 3, 1), NULL);
    x = lks_relu(g, conv(g, x, 40, 1, 1));
    x = lks_max_pool(g, x, &(lks_pool_opts){.kernel = {3, 3}});
    return loss_of(g, lks_global_avg_pool(g, x));
}

/* Convolutions that pool, directly and by Winograd's algorithm, flattened; dense layers, with masks and without. */
static lks_tensor *pooled_net(lks_graph *g)
{
    const lks_pool_opts pool = {.kernel = {2, 2}};
    lks_tensor *x = lks_max_pool(g, lks_relu(g, conv(g, input(g), 72, 3, 1)), &pool);
    x = lks_max_pool(g, lks_relu(g, conv(g, x, 150, 3, 1)), &pool);
    x = lks_flatten(g, lks_dropout(g, x, &(lks_dropout_opts){.probability = .25f}));
    x = lks_relu(g, lks_dense(g, x, &(lks_dense_opts){.units = 112}));
    x = lks_tanh(g, lks_dense(g, x, &(lks_dense_opts){.units = 301}));
    return loss_of(g, lks_dense(g, x, &(lks_dense_opts){.units = 20}));
}

/* Behind activations whose maximum is that of one of two values. */
static lks_tensor *smooth_net(lks_graph *g)
{
    const lks_pool_opts pool = {.kernel = {2, 2}};
    lks_tensor *x = lks_max_pool(g, lks_gelu(g, conv(g, input(g), 72, 5, 1), NULL), &pool);
    x = lks_max_pool(g, lks_silu(g, conv(g, x, 150, 5, 1)), &pool);
    return loss_of(g, lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = 20}));
}

static const lkt_net NETS[] = {wide_net,     pooled_net,    smooth_net,     lkt_net_residual,
                               lkt_net_conv, lkt_net_gated, lkt_net_joined, lkt_net_mlp};
enum { NET_COUNT = sizeof NETS / sizeof NETS[0] };

typedef struct subject {
    lkt_model m;
    lkt_images images;
} subject;

/* A step behind the first parameters, so that running statistics are not those of the start. */
static subject subject_make(lkt_net net, int replicas, int workers, int64_t batch)
{
    subject s = {.m = lkt_begin(&(lks_context_opts){.device = "cpu", .seed = 5}),
                 .images = lkt_images_make(SAMPLES)};
    lkt_compile(&s.m, &(lks_model_opts){.loss = net(s.m.graph),
                                        .global_batch = batch,
                                        .replicas = replicas,
                                        .workers = workers});
    const lks_batch first = {.x = s.images.x, .y = s.images.y, .count = 16};
    LKT_OK(lks_model_step(s.m.model, &first, 0.05, NULL));
    return s;
}

static void subject_end(subject *s)
{
    lkt_end(&s->m);
    lkt_images_free(&s->images);
}

/* One of a team, who works at the same time as the others. */
typedef struct member {
    const subject *s;
    int64_t count;
    int part, parts;
    pthread_barrier_t *barrier;
    int meetings;
    float *out;
} member;

/* At each meeting another one is late: whoever does not wait for it reads what is not there yet. */
static void meet_late(void *user, int part)
{
    member *self = user;
    pthread_barrier_wait(self->barrier);
    if (++self->meetings % self->parts == part) usleep(200);
}

static void *take_part(void *user)
{
    member *self = user;
    const lki_program *program = &self->s->m.model->program;
    const size_t bytes = program->local_bytes + program->workspace_bytes;
    lki_pass pass = lki_program_pass(program, 0, program->replicas, self->count);
    pass.x = self->s->images.x;
    static char *memory; /* the first one's */
    char *own = lkt_scratch(bytes);
    if (self->part == 0) memory = own;
    pthread_barrier_wait(self->barrier);
    lki_team team = {.memory = memory,
                     .part = self->part,
                     .parts = self->parts,
                     .meet = meet_late,
                     .user = self};
    const lki_local local = {.memory = own, .kept = program->kept, .team = &team};
    for (int64_t r = 0; r < program->replicas; r++) {
        const lki_cohort cohort = lki_program_cohort(program, &pass, r, r + 1);
        if (cohort.count == 0) continue;
        if (lki_program_forward(program, &pass, &cohort, &local) != LKS_OK) abort();
        if (self->part == 0) lki_program_copy_output(program, &pass, &cohort, &local, self->out);
        pthread_barrier_wait(self->barrier);
    }
    free(own);
    return NULL;
}

static void predict_by_team(const subject *s, int64_t count, int parts, float *out)
{
    pthread_t thread[MOST];
    member team[MOST];
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, (unsigned)parts), 0);
    for (int i = 0; i < parts; i++) {
        team[i] = (member){s, count, i, parts, &barrier, 0, out};
        assert_int_equal(pthread_create(&thread[i], NULL, take_part, &team[i]), 0);
    }
    for (int i = 0; i < parts; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&barrier);
}

/* Of parts as many as there may be cores, of more than there are things to take. */
static void teams(void **state)
{
    static const int64_t counts[] = {1, 2, 8};
    const lki_vector *usual = lki_cpu_vector();
    (void)state;
    LKT_FOR_ISAS(v)
    for (int n = 0; n < NET_COUNT; n++) {
        if (lkt_in_part() && (v != usual || n > 1)) continue;
        lki_cpu_vector_use(v);
        subject s = subject_make(NETS[n], 6, 1, 48);
        for (int k = 0; k < 3; k++)
            for (int parts = 2; parts <= MOST; parts += k == 0 ? 1 : 3) {
                float expected[8 * CLASSES], found[8 * CLASSES] = {0};
                char what[40];
                LKT_OK(lks_model_predict(s.m.model, s.images.x, counts[k], expected));
                predict_by_team(&s, counts[k], parts, found);
                snprintf(what, sizeof what, "network %d by %d", n, parts);
                lkt_same(v, what, found, expected, counts[k] * CLASSES);
            }
        subject_end(&s);
    }
    lki_cpu_vector_use(usual);
}

/* Segments that begin with a stage of all and end with one of the first alone, again and again. */
static void pieces(void **state)
{
    enum { COUNT = 70 };
    float expected[COUNT * CLASSES], found[COUNT * CLASSES] = {0};
    subject s = subject_make(wide_net, 1, 1, COUNT);
    (void)state;
    LKT_OK(lks_model_predict(s.m.model, s.images.x, COUNT, expected));
    predict_by_team(&s, COUNT, 3, found);
    lkt_same(lki_cpu_vector(), "pieces", found, expected, COUNT * CLASSES);
    subject_end(&s);
}

/* Whatever is asked for at once, and however many workers there are. */
static void workers_and_calls(void **state)
{
    static const int workers[] = {1, 2, 3, 5};
    static const int64_t counts[] = {1, 2, 3, 7, 256};
    const int64_t most = lkt_in_part() ? 24 : SAMPLES;
    (void)state;
    for (int n = 0; n < (lkt_in_part() ? 2 : NET_COUNT); n++) {
        float expected[SAMPLES * CLASSES], found[SAMPLES * CLASSES] = {0};
        lks_metrics all = {0};
        for (int w = 0; w < 4; w++) {
            if (lkt_in_part() && w % 2 == 0 && w > 0) continue;
            subject s = subject_make(NETS[n], 6, workers[w], 256);
            for (int k = 0; k < 5; k++) {
                lks_metrics sum = {0};
                const int64_t samples = counts[k] == 256 ? most : 24;
                float *out = w == 0 && k == 0 ? expected : found;
                if (k == 0) LKT_OK(lks_model_predict(s.m.model, s.images.x, most, expected));
                for (int64_t i = 0; i < samples; i += counts[k]) {
                    const int64_t rest = samples - i, some = rest < counts[k] ? rest : counts[k];
                    const lks_batch batch = {.x = (const uint8_t *)s.images.x + i * PIXELS,
                                             .y = s.images.y + i,
                                             .count = some};
                    LKT_OK(lks_model_predict(s.m.model, batch.x, some, out + i * CLASSES));
                    if (counts[k] != 256) LKT_OK(lks_model_evaluate(s.m.model, &batch, &sum));
                }
                assert_memory_equal(out, expected, sizeof(float) * (size_t)(samples * CLASSES));
                if (w == 0 && k == 0) all = sum;
                if (counts[k] != 256) assert_memory_equal(&sum, &all, sizeof sum);
            }
            subject_end(&s);
        }
    }
}

/* Calls of one sample between steps: workers who are left out of some jobs have all of the others. */
static void among_steps(void **state)
{
    uint64_t hash[2];
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        subject s = subject_make(lkt_net_mlp, 6, 2, 48);
        for (int step = 0; step < 40; step++) {
            const lks_batch batch = {.x = s.images.x, .y = s.images.y, .count = 48};
            float out[CLASSES];
            for (int call = 0; call < step % 4 && turn == 1; call++)
                LKT_OK(lks_model_predict(s.m.model, s.images.x, 1, out));
            if (step % 8 == 7 && turn == 1) usleep(2000); /* all sleep */
            LKT_OK(lks_model_step(s.m.model, &batch, 0.05, NULL));
        }
        hash[turn] = lkt_state_hash(s.m.model);
        subject_end(&s);
    }
    assert_int_equal(hash[0], hash[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(teams),
        cmocka_unit_test(pieces),
        cmocka_unit_test(workers_and_calls),
        cmocka_unit_test(among_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
