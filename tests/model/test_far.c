/* The device far gives ref's bits, and ends a program that touches its memory from outside. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/far.h"
#include "support/runs.h"
#include "support/test.h"

static void hashes_are_refs(void **state)
{
    (void)state;
    const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual, lkt_net_gated,
                            lkt_net_joined};
    const lks_optim optims[] = {lks_adadelta(), lks_adamp(), lks_adam(), lks_sgd(.9f), lks_adamw()};
    lki_backend_lend(lkt_far(true));
    for (int n = 0; n < 5; n++)
        for (int k = 0; k < 2; k++) {
            lkt_run run = {.device = "ref",
                           .net = nets[n],
                           .samples = 37,
                           .batch = 23,
                           .steps = 3,
                           .mixup = k ? 0.5 : 0,
                           .opts = {.replicas = 5,
                                    .workers = 1 + 2 * k,
                                    .hash_every = 2,
                                    .optim = optims[n],
                                    .by_replica = n == 4,
                                    .clip_norm = k,
                                    .clip_value = n % 2 ? 0.01 : 0,
                                    .ema_decay = k ? 0.9 : 0}};
            lks_metrics near[2], far[2];
            const uint64_t expected = lkt_run_hash(&run, near);
            run.device = "far";
            const uint64_t found = lkt_run_hash(&run, far);
            if (found != expected || memcmp(near, far, sizeof near) != 0)
                fail_msg("network %d, %d workers: hash %016llx, ref's is %016llx", n, 1 + 2 * k,
                         (unsigned long long)found, (unsigned long long)expected);
        }
}

static void note_line(void *user, const char *line)
{
    char *found = user;
    if (strncmp(line, "copies of batches", strlen("copies of batches")) == 0)
        snprintf(found, 100, "%s", line);
}

/* Batches are copied, which takes memory: 23 images, labels and mixes, each rounded up to 64 bytes. */
static void copies_of_batches_are_counted(void **state)
{
    (void)state;
    lki_backend_lend(lkt_far(true));
    int64_t bytes[2];
    char line[2][100] = {"", ""};
    for (int k = 0; k < 2; k++) {
        lks_context *context;
        lks_graph *graph;
        lks_model *model;
        LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = k ? "far" : "ref"}));
        LKT_OK(lks_graph_create(&graph, context));
        LKT_OK(lks_model_compile(
            &model, graph,
            &(lks_model_opts){
                .loss = lkt_net_mlp(graph), .global_batch = 23, .replicas = 2, .workers = 1}));
        bytes[k] = (int64_t)lks_model_get_info(model).memory_bytes;
        LKT_OK(lks_model_describe(model, LKS_DESCRIBE_MEMORY, note_line, line[k]));
        lks_model_destroy(model);
        lks_graph_destroy(graph);
        lks_context_destroy(context);
    }
    assert_int_equal(bytes[1] - bytes[0], 8320 + 128 + 192); /* of 23 * 360, 23 * 4, 23 * 8 */
    assert_string_equal(line[0], "");
    assert_non_null(strstr(line[1], " 8640 bytes"));
}

/* What the host may use is no limit; the device says so where it has no room. */
static void its_memory_is_its_own(void **state)
{
    (void)state;
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lki_backend_lend(lkt_far(true));
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = "far"}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(1 << 15)});
    for (int i = 0; i < 256; i++) /* of 4 GiB */
        x = lks_dense(graph, x, &(lks_dense_opts){.units = 1 << 15});
    LKT_FAILS(LKS_E_NOMEM, "no memory for ",
              lks_model_compile(&model, graph, &(lks_model_opts){.output = x, .global_batch = 1}));
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

/* What a child does wrong. */
typedef struct offence {
    bool keys;
    void (*commit)(lks_context *context, float *there);
} offence;

static void reads(lks_context *context, float *there)
{
    (void)context;
    const volatile float *value = there;
    (void)*value;
}

static void writes(lks_context *context, float *there)
{
    (void)context;
    *(volatile float *)there = 1;
}

static void reads_behind(lks_context *context, float *there)
{
    (void)context;
    float four[4];
    lki_backend_find("far")->memory->copy_out(four, there + LKI_ALIGN / sizeof(float) - 3,
                                              sizeof four);
}

static void gives_the_hosts(lks_context *context, float *there)
{
    (void)context;
    float own[4] = {0};
    lki_backend_find("far")->add(4, there, own);
}

static void frees_twice(lks_context *context, float *there)
{
    const lki_memory *memory = lki_backend_find("far")->memory;
    memory->free(context, there, 4 * sizeof *there);
    memory->free(context, there, 4 * sizeof *there);
}

static int offend(void *user)
{
    const offence *o = user;
    lks_context *context;
    void *there;
    signal(SIGSEGV, SIG_DFL); /* sanitizers have handlers */
    signal(SIGABRT, SIG_DFL);
    const lki_backend *far = lkt_far(o->keys);
    lki_backend_lend(far);
    LKT_CHECK(lks_context_create(&context, &(lks_context_opts){.device = "far"}) == LKS_OK);
    LKT_CHECK(far->memory->alloc(context, &there, 4 * sizeof(float), "four floats") == LKS_OK);
    float four[4] = {1, 2, 3, 4}, back[4];
    far->memory->copy_in(there, four, sizeof four);
    far->add(4, there, there);
    far->memory->copy_out(back, there, sizeof back);
    LKT_CHECK(back[3] == 8.0f);
    o->commit(context, there);
    return 0;
}

/* Before far is used here: a child that is told so does without keys. */
static void touching_its_memory_ends_a_program(void **state)
{
    (void)state;
    const struct {
        void (*commit)(lks_context *context, float *there);
        int signal;
    } rows[] = {{reads, SIGSEGV},
                {writes, SIGSEGV},
                {reads_behind, SIGABRT},
                {gives_the_hosts, SIGABRT},
                {frees_twice, SIGABRT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int keys = 0; keys < 2; keys++) {
            offence o = {.keys = keys, .commit = rows[i].commit};
            const int found = lkt_in_child(offend, &o);
            if (found != 1000 + rows[i].signal)
                fail_msg("offence %d ends with %d, expected signal %d", (int)i, found,
                         rows[i].signal);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touching_its_memory_ends_a_program),
        cmocka_unit_test(hashes_are_refs),
        cmocka_unit_test(its_memory_is_its_own),
        cmocka_unit_test(copies_of_batches_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
