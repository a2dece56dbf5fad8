/*
 * The bits of this version are those of the machine on which hashes.json was written, whatever this
 * machine and build are. Where they are not, the first step and the first tensor that differ are named.
 *
 * LKT_HASHES=write prints a new file, for a change that is meant to change bits: see docs/numerics.md.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "compat/networks.h"
#include "core/graph.h"
#include "numeric/hash.h"
#include "optim/optimizer.h"
#include "support/backends.h"
#include "support/test.h"

enum { STEPS = 6, SAMPLES = 160 };

typedef struct values {
    uint8_t image[SAMPLES][KEPT_VALUES];
    float x[SAMPLES][KEPT_VALUES];
    int32_t label[SAMPLES];
    float y[SAMPLES][2];
    int32_t token[SAMPLES][KEPT_POSITIONS], class[SAMPLES][KEPT_POSITIONS];
} values;

static values *make_values(void)
{
    values *v = malloc(sizeof *v);
    assert_non_null(v);
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < KEPT_VALUES; k++)
            v->image[i][k] = (uint8_t)(((uint64_t)(i * KEPT_VALUES + k) * 2654435761u + 12345u) >>
                                       13);
        for (int k = 0; k < KEPT_VALUES; k++)
            v->x[i][k] = (float)v->image[i][(k * 7 + 3) % KEPT_VALUES] / 128 - 1;
        v->label[i] = (int32_t)(((uint64_t)i * 2246822519u >> 7) % KEPT_CLASSES);
        for (int k = 0; k < 2; k++) v->y[i][k] = v->x[i][k] * v->x[i][k + 5];
        for (int k = 0; k < KEPT_POSITIONS; k++) {
            v->token[i][k] = v->image[i][k] % KEPT_VOCABULARY;
            v->class[i][k] = v->image[i][k + 20] % (KEPT_CLASSES + 1) - 1; /* a sixth has none */
        }
    }
    return v;
}

/* One network while it is trained. */
typedef struct run {
    const kept_network *net;
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
} run;

static run open_run(const kept_network *net, const char *device, int workers)
{
    run r = {.net = net};
    LKT_OK(lks_context_create(&r.context, &(lks_context_opts){.device = device, .seed = 11}));
    LKT_OK(lks_graph_create(&r.graph, r.context));
    lks_model_opts opts = net->opts;
    opts.loss = net->build(r.graph);
    LKT_OK(lks_graph_status(r.graph));
    opts.global_batch = net->batch;
    opts.workers = workers;
    opts.hash_every = 2;
    opts.optim = net->optim();
    LKT_OK(lks_model_compile(&r.model, r.graph, &opts));
    return r;
}

static void close_run(run *r)
{
    lks_model_destroy(r->model);
    lks_graph_destroy(r->graph);
    lks_context_destroy(r->context);
}

/* Batches go round the samples; the last one is short. Where state is carried all are whole, and the fourth
 * after another begins anew. */
static void step(const run *r, const values *v, int number)
{
    const int64_t batch = r->net->batch, first = number * batch % (SAMPLES - batch + 1);
    const bool carries = lks_model_get_info(r->model).carried > 0;
    const int64_t count = !carries && number == STEPS - 1 && batch > 2 ? batch - 2 : batch;
    const void *x[] = {v->image[first], v->x[first], v->token[first]};
    const void *y[] = {&v->label[first], v->y[first], v->class[first]};
    const lks_batch b = {.x = x[r->net->data],
                         .y = y[r->net->data],
                         .count = count,
                         .continues = carries && number % 4 > 0};
    LKT_OK(lks_model_step(r->model, &b, r->net->lr, NULL));
}

enum { DIGEST = 8, MOST = 128 }; /* of characters, of tensors */

/* What is kept of a tensor: 32 bits of a hash of its values. */
static void digest(const run *r, int index, char out[DIGEST + 1])
{
    const lks_state_info info = lks_model_state_info(r->model, index);
    void *memory = malloc(info.bytes);
    assert_non_null(memory);
    LKT_OK(lks_model_state_read(r->model, index, memory, info.bytes));
    snprintf(out, DIGEST + 1, "%08x", (unsigned)lki_hash(memory, info.bytes));
    free(memory);
}

static bool is_kept(const run *r, int index)
{
    return lks_model_state_info(r->model, index).kind != LKS_GRADIENT;
}

/* Digests of all tensors of now, one behind the other. */
static json_t *digests(const run *r)
{
    char text[MOST * DIGEST + 1] = "", *to = text;
    for (int i = 0; i < lks_model_state_count(r->model); i++)
        if (is_kept(r, i)) {
            digest(r, i, to);
            to += DIGEST;
        }
    return json_string(text);
}

static void hash_text(const run *r, char out[17])
{
    uint64_t hash;
    LKT_OK(lks_model_hash(r->model, &hash));
    snprintf(out, 17, "%016llx", (unsigned long long)hash);
}

/* {"hash": ..., "steps": [digests, ...]}, the first before any step */
static json_t *written(const kept_network *net, const char *device, const values *v)
{
    run r = open_run(net, device, 1);
    json_t *steps = json_array();
    char hash[17];
    json_array_append_new(steps, digests(&r));
    for (int i = 0; i < STEPS; i++) {
        step(&r, v, i);
        json_array_append_new(steps, digests(&r));
    }
    hash_text(&r, hash);
    close_run(&r);
    return json_pack("{s:s, s:o}", "hash", hash, "steps", steps);
}

static void compare(const run *r, const json_t *expected, int number, const char *device)
{
    const json_t *steps = json_object_get(expected, "steps");
    const char *kept = json_string_value(json_array_get(steps, (size_t)number));
    assert_non_null(kept);
    size_t at = 0;
    for (int i = 0; i < lks_model_state_count(r->model); i++) {
        char found[DIGEST + 1];
        if (!is_kept(r, i)) continue;
        digest(r, i, found);
        if (strncmp(kept + at, found, DIGEST) != 0)
            fail_msg("network '%s' on %s (%s): behind step %d '%s' has other bits than are kept "
                     "(%s, expected %.8s)",
                     r->net->name, device, lks_context_fingerprint(r->context), number,
                     lks_model_state_info(r->model, i).name, found, kept + at);
        at += DIGEST;
    }
    assert_int_equal(at, strlen(kept));
}

static void check(const kept_network *net, const char *device, int workers, const values *v,
                  const json_t *kept)
{
    const char *computes = strcmp(device, "far") == 0 ? "ref" : device; /* far has its kernels */
    const json_t *expected = json_object_get(json_object_get(kept, net->name), computes);
    run r = open_run(net, device, workers);
    char hash[17];
    compare(&r, expected, 0, device);
    for (int i = 0; i < STEPS; i++) {
        step(&r, v, i);
        compare(&r, expected, i + 1, device);
    }
    hash_text(&r, hash);
    assert_string_equal(hash, json_string_value(json_object_get(expected, "hash")));
    close_run(&r);
}

static void bits_are_those_that_are_kept(void **state)
{
    (void)state;
    values *v = make_values();
    const char *mode = getenv("LKT_HASHES");
    const bool writes = mode != NULL && strcmp(mode, "write") == 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/compat/hashes.json", getenv("LKT_SOURCE"));
    json_error_t error;
    json_t *file = writes ? json_pack("{s:i, s:{}}", "numerics", LKS_NUMERICS, "networks")
                          : json_load_file(path, 0, &error);
    if (file == NULL) fail_msg("%s: %s", path, error.text);
    json_t *kept = json_object_get(file, "networks");
    assert_int_equal(json_integer_value(json_object_get(file, "numerics")), LKS_NUMERICS);
    for (int i = 0; i < KEPT_NETWORKS; i++) {
        json_t *devices = writes ? json_object() : NULL;
        for (const lki_backend *const *b = lkt_backends(); *b != NULL; b++)
            if (writes)
                json_object_set_new(devices, (*b)->name, written(&kept_networks[i], (*b)->name, v));
            else
                check(&kept_networks[i], (*b)->name,
                      1 + i % (int)kept_networks[i].opts.replicas % 3, v, kept);
        if (writes) json_object_set_new(kept, kept_networks[i].name, devices);
    }
    if (writes) {
        json_dumpf(file, stdout, JSON_INDENT(1));
        printf("\n");
    }
    json_decref(file);
    free(v);
}

/* A network for each operation, optimizer and option. */
static void everything_is_there(void **state)
{
    (void)state;
    bool ops[LKI_OP_COUNT] = {false};
    bool inits[LKS_INIT_IDENTITY + 1] = {false};
    bool options[10] = {false};
    const lki_optimizer *optimizer;
    unsigned optims = 0;
    for (int i = 0; i < KEPT_NETWORKS; i++) {
        const lks_model_opts *o = &kept_networks[i].opts;
        run r = open_run(&kept_networks[i], "ref", 1);
        for (const lki_node *node = r.graph->first; node != NULL; node = node->next) {
            ops[node->op] = true;
            for (int p = 0; p < node->param_count; p++) inits[node->param[p].init.kind] = true;
        }
        optims |= 1u << kept_networks[i].optim().kind;
        const bool has[] = {o->accumulate > 1,  o->decay_of != LKS_DECAY_ALL,
                            o->group_count > 0, o->clip_value > 0,
                            o->clip_norm > 0,   o->ema_decay > 0,
                            o->skip_not_finite, o->kernels.single,
                            o->kernels.bf16,    o->kernels.bf16_storage};
        for (size_t k = 0; k < sizeof options; k++) options[k] |= has[k];
        close_run(&r);
    }
    for (int i = 0; i < LKI_OP_COUNT; i++)
        if (!ops[i]) fail_msg("no network has %s", lki_op_get((lki_op_id)i)->name);
    for (int i = 0; (optimizer = lki_optimizer_at(i)) != NULL; i++)
        if (!(optims >> optimizer->kind & 1)) fail_msg("no network has %s", optimizer->name);
    for (size_t i = 0; i < sizeof inits; i++) assert_true(inits[i]);
    for (size_t i = 0; i < sizeof options; i++) assert_true(options[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_that_are_kept),
        cmocka_unit_test(everything_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
