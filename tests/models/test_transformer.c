/*
 * Transformers of the zoo beside those of Hugging Face and of torch (tools/goldens/gpt.py): logits, and 20 steps of AdamW, with a
 * mask of padding, too; a GPT-2 file of Hugging Face; the same bits on any number of workers; and what is refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shape.h"
#include "core/cluster.h"
#include "core/graph.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

enum {
    SAMPLES = 4,
    CONTEXT = 16,
    VOCABULARY = 37,
    PADDING = VOCABULARY - 1,
    CLASSES = 5,
    SIDE = 8,
    PIXELS = SIDE * SIDE * 3,
    FEATURES = 3
};
enum { LOGITS = SAMPLES * CONTEXT * VOCABULARY };

static const int ends[SAMPLES] = {16, 9, 4, 1}; /* of padded samples */
static int32_t token[SAMPLES][CONTEXT], padded[SAMPLES][CONTEXT], next[SAMPLES][CONTEXT],
    label[SAMPLES];
static float image[SAMPLES][PIXELS], frame[SAMPLES][CONTEXT][FEATURES];

static float unit_of(int place, uint32_t salt)
{
    return (float)(lkt_hashed((uint32_t)place, salt) >> 8) * 0x1p-23f - 1;
}

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        for (int t = 0; t < CONTEXT; t++) {
            const uint32_t place = (uint32_t)(i * CONTEXT + t);
            token[i][t] = (int32_t)(lkt_hashed(place, 901) % VOCABULARY);
            next[i][t] = (int32_t)(lkt_hashed(place, 902) % VOCABULARY);
            padded[i][t] = t < ends[i] ? token[i][t] : PADDING;
        }
        for (int p = 0; p < PIXELS; p++) image[i][p] = unit_of(i * PIXELS + p, 903);
        for (int p = 0; p < ends[i] * FEATURES; p++)
            frame[i][p / FEATURES][p % FEATURES] = unit_of(i * CONTEXT * FEATURES + p, 904);
        label[i] = i % CLASSES;
    }
    return 0;
}

typedef struct net {
    const char *name; /* in the file */
    lks_tensor *(*build)(lks_graph *, lks_tensor *, const lks_transformer_opts *);
    lks_transformer_opts opts;
    enum { TOKENS, IMAGES, FRAMES } samples;
} net;

static const net nets[] = {
    {"gpt2",
     lks_gpt,
     {.outputs = VOCABULARY, .depth = 2, .heads = 3, .width = 24, .activation = LKS_MLP_GELU_TANH},
     TOKENS},
    {"llama",
     lks_gpt,
     {.outputs = VOCABULARY,
      .depth = 2,
      .heads = 4,
      .kv_heads = 2,
      .width = 24,
      .inner = 40,
      .norm = LKS_NORM_RMS,
      .activation = LKS_MLP_SWIGLU,
      .rotary = 10000,
      .no_bias = true},
     TOKENS},
    {"encoder",
     lks_encoder,
     {.outputs = CLASSES,
      .depth = 2,
      .heads = 3,
      .width = 24,
      .activation = LKS_MLP_RELU,
      .post_norm = true},
     TOKENS},
    {"vit", lks_vit, {.outputs = CLASSES, .depth = 2, .heads = 3, .width = 24, .patch = 4}, IMAGES},
    {"masked",
     lks_encoder,
     {.outputs = CLASSES,
      .depth = 2,
      .heads = 3,
      .width = 24,
      .activation = LKS_MLP_RELU,
      .post_norm = true,
      .masked = true,
      .padding = PADDING},
     TOKENS},
    {"class_token",
     lks_encoder,
     {.outputs = CLASSES,
      .depth = 2,
      .heads = 3,
      .width = 24,
      .activation = LKS_MLP_RELU,
      .post_norm = true,
      .masked = true,
      .padding = PADDING,
      .class_token = true},
     TOKENS},
    {"vit_token",
     lks_vit,
     {.outputs = CLASSES, .depth = 2, .heads = 3, .width = 24, .patch = 4, .class_token = true},
     IMAGES},
    {"post_norm",
     lks_gpt,
     {.outputs = VOCABULARY, .depth = 2, .heads = 3, .width = 24, .post_norm = true},
     TOKENS},
    {"frames",
     lks_encoder,
     {.outputs = CLASSES,
      .depth = 2,
      .heads = 3,
      .width = 24,
      .activation = LKS_MLP_RELU,
      .post_norm = true,
      .masked = true},
     FRAMES},
};
enum { NETS = sizeof nets / sizeof nets[0] };

static lks_batch batch_of(const net *n)
{
    return (lks_batch){.x = n->samples == IMAGES   ? (const void *)image
                            : n->samples == FRAMES ? (const void *)frame
                            : n->opts.masked       ? padded
                                                   : token,
                       .y = n->build == lks_gpt ? (const void *)next : label,
                       .count = SAMPLES};
}

static lks_tensor *input(lks_graph *g, const net *n)
{
    if (n->samples == IMAGES)
        return lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, 3)});
    if (n->samples == FRAMES)
        return lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT, FEATURES)});
    return lks_input(
        g,
        &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT), .dtype = LKS_I32, .vocabulary = VOCABULARY});
}

static lkt_model open_net(const char *device, const net *n, lks_model_opts opts)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 3});
    lks_tensor *x = n->build(m.graph, input(m.graph, n), &n->opts);
    const bool positions = n->build == lks_gpt;
    const lks_target_opts wanted = {.classes = positions ? VOCABULARY : CLASSES,
                                    .shape = positions ? LKS_SHAPE(CONTEXT) : (lks_shape){0}};
    opts.loss = lks_cross_entropy(m.graph, x, lks_target(m.graph, &wanted), NULL);
    opts.global_batch = SAMPLES;
    LKT_OK(lks_graph_status(m.graph));
    lkt_compile(&m, &opts);
    return m;
}

/* Every tensor of the file is a parameter of the model by its name and shape, and there are no others. */
static void write_tensors(lks_model *model, const json_t *tensors)
{
    size_t p;
    json_t *tensor;
    int64_t all = 0;
    json_array_foreach(tensors, p, tensor)
    {
        const char *name = json_string_value(json_array_get(tensor, 0));
        const json_t *shape = json_array_get(tensor, 1);
        const int at = lks_model_state_find(model, name);
        if (at < 0) fail_msg("there is no %s", name);
        const lks_state_info info = lks_model_state_info(model, at);
        if (strcmp(name, "patch_embed.proj.weight") != 0)
            assert_int_equal(info.shape.ndim, json_array_size(shape));
        all += lks_shape_elements(&info.shape);
        lkt_golden_write(model, name, (uint32_t)p,
                         (float)json_number_value(json_array_get(tensor, 2)),
                         (float)json_number_value(json_array_get(tensor, 3)));
    }
    assert_int_equal(lks_model_get_info(model).parameters, all);
}

/* Eight times what PyTorch's float32 errs by. */
static void compare(const char *who, const char *what, const json_t *golden, const double *found,
                    size_t count)
{
    const json_t *entry = json_object_get(golden, what), *values = json_object_get(entry, "values");
    const double most = 8 * lkt_json_number(entry, "float32");
    assert_int_equal(json_array_size(values), count);
    for (size_t i = 0; i < count; i++) {
        const double expected = json_number_value(json_array_get(values, i));
        if (!(fabs(found[i] - expected) <= most))
            fail_msg("%s: %s[%zu] is %.9g, PyTorch's %.9g", who, what, i, found[i], expected);
    }
}

static void compare_logits(lks_model *model, const net *n, const json_t *golden)
{
    static float out[LOGITS];
    static double found[LOGITS];
    const size_t count = n->build == lks_gpt ? LOGITS : SAMPLES * CLASSES;
    LKT_OK(lks_model_predict(model, batch_of(n).x, SAMPLES, out));
    for (size_t i = 0; i < count; i++) found[i] = (double)out[i];
    compare(n->name, "logits", golden, found, count);
}

static lks_optim optimizer(void)
{
    lks_optim optim = lks_adamw();
    optim.beta2 = .99;
    optim.weight_decay = .1;
    return optim;
}

static bool computes(int device)
{
    return lki_backend_computes(lkt_backends()[device], LKI_OP_ATTENTION);
}

static void twenty_steps_are_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/models/golden/transformers.json");
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (int k = 0; k < NETS && computes(d); k++) {
            const json_t *entry = json_object_get(golden, nets[k].name);
            const lks_batch batch = batch_of(&nets[k]);
            double losses[20];
            lkt_model m = open_net(lkt_backends()[d]->name, &nets[k],
                                   (lks_model_opts){.replicas = 1,
                                                    .optim = optimizer(),
                                                    .decay_of = LKS_DECAY_WEIGHTS,
                                                    .clip_norm = .5});
            write_tensors(m.model, json_object_get(entry, "tensors"));
            compare_logits(m.model, &nets[k], entry);
            for (int i = 0; i < 20; i++) {
                lks_metrics sum;
                LKT_OK(lks_model_step(m.model, &batch, 3e-3, &sum));
                losses[i] = lks_metrics_loss(&sum);
            }
            compare(nets[k].name, "losses", entry, losses, 20);
            lkt_end(&m);
        }
    json_decref(golden);
}

/* Of a layer whose matrix Hugging Face keeps the other way round. */
static bool is_turned(const char *name)
{
    return strstr(name, ".c_attn.weight") != NULL || strstr(name, ".c_proj.weight") != NULL ||
           strstr(name, ".c_fc.weight") != NULL;
}

/* A safetensors file as GPT2LMHeadModel saves it, of the model's values. */
static void write_gpt2(lks_model *model, const char *path)
{
    static char head[16384];
    static float value[4096];
    size_t used = (size_t)snprintf(head, sizeof head, "{\"__metadata__\":{\"format\":\"pt\"}"),
           at = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info s = lks_model_state_info(model, i);
        if (s.kind != LKS_PARAMETER) continue;
        char shape[64];
        if (s.shape.ndim == 1)
            snprintf(shape, sizeof shape, "%d", (int)s.shape.dim[0]);
        else
            snprintf(shape, sizeof shape, "%d,%d", (int)s.shape.dim[is_turned(s.name)],
                     (int)s.shape.dim[!is_turned(s.name)]);
        used += (size_t)snprintf(
            head + used, sizeof head - used,
            ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", s.name, shape,
            at, at + s.bytes);
        at += s.bytes;
    }
    used += (size_t)snprintf(head + used, sizeof head - used, "}");
    while (used % 8 != 0) head[used++] = ' ';
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const uint64_t length = used;
    fwrite(&length, sizeof length, 1, file);
    fwrite(head, 1, used, file);
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info s = lks_model_state_info(model, i);
        if (s.kind != LKS_PARAMETER) continue;
        assert_true(s.bytes <= sizeof value);
        LKT_OK(lks_model_state_read(model, i, value, s.bytes));
        const int64_t rows = s.shape.dim[0], columns = s.shape.ndim > 1 ? s.shape.dim[1] : 1;
        for (int64_t e = 0; e < rows * columns; e++)
            fwrite(&value[is_turned(s.name) ? e % rows * columns + e / rows : e], sizeof(float), 1,
                   file);
    }
    assert_int_equal(fclose(file), 0);
}

/* Into a model that has other values, whose logits then are GPT2LMHeadModel's; its own file stays as it is. */
static void files_of_gpt2_are_read(void **state)
{
    json_t *golden = lkt_json_load("tests/models/golden/transformers.json");
    const json_t *entry = json_object_get(golden, "gpt2");
    const lks_model_opts opts = {.replicas = 1};
    char path[512], own[512];
    (void)state;
    lkt_model from = open_net("ref", &nets[0], opts), to = open_net("ref", &nets[0], opts);
    write_tensors(from.model, json_object_get(entry, "tensors"));
    snprintf(path, sizeof path, "%s/gpt2.safetensors", lkt_make_folder());
    snprintf(own, sizeof own, "%.480s.own", path);
    write_gpt2(from.model, path);
    LKT_OK(lks_weights_load(to.model, path));
    compare_logits(to.model, &nets[0], entry);
    assert_true(lkt_state_hash(from.model) == lkt_state_hash(to.model));
    LKT_OK(lks_weights_save(from.model, own));
    lkt_model again = open_net("ref", &nets[0], opts);
    LKT_OK(lks_weights_load_matching(again.model, path));
    assert_true(lkt_state_hash(from.model) == lkt_state_hash(again.model));
    lkt_end(&again);
    again = open_net("ref", &nets[0], opts);
    LKT_OK(lks_weights_load(again.model, own));
    assert_true(lkt_state_hash(from.model) == lkt_state_hash(again.model));
    lkt_end(&again);
    lkt_end(&from);
    lkt_end(&to);
    lkt_remove_folder();
    json_decref(golden);
}

static uint64_t train(const char *device, net n, lks_model_opts opts)
{
    const lks_batch batch = batch_of(&n);
    uint64_t hash;
    n.opts.dropout = .1f;
    opts.replicas = 3;
    opts.optim = optimizer();
    opts.clip_norm = .5;
    opts.hash_every = 2;
    lkt_model m = open_net(device, &n, opts);
    for (int i = 0; i < 4; i++) LKT_OK(lks_model_step(m.model, &batch, 3e-3, NULL));
    LKT_OK(lks_model_hash(m.model, &hash));
    lkt_end(&m);
    return hash;
}

static void any_workers_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (int k = 0; k < NETS && computes(d); k++) {
            const char *device = lkt_backends()[d]->name;
            const uint64_t hash = train(device, nets[k], (lks_model_opts){.workers = 1});
            for (int p = 2; p <= 3; p++)
                assert_true(train(device, nets[k], (lks_model_opts){.workers = p}) == hash);
            assert_true(
                train(device, nets[k], (lks_model_opts){.workers = 2, .by_replica = true}) == hash);
            assert_true(train(device, nets[k], (lks_model_opts){.workers = 3, .recompute = true}) ==
                        hash);
        }
}

static void first_values_are_gpt2s(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    int residual = 0;
    assert_non_null(lks_gpt(m.graph, input(m.graph, &nets[0]), &nets[0].opts));
    for (const lki_node *node = m.graph->first; node != NULL; node = node->next) {
        if (node->param_count == 0 || !node->param[0].is_weight || node->param[0].of != NULL)
            continue;
        const bool last = strstr(node->name, "c_proj") != NULL;
        const float expected = last ? .02f / 2 : .02f; /* sqrt(2 * 2) */
        assert_int_equal(node->param[0].init.kind, LKS_INIT_NORMAL);
        assert_true(node->param[0].init.scale == expected);
        residual += last;
    }
    assert_int_equal(residual, 4);
    lkt_end(&m);
}

static void refuse(const char *sentence, const net *n, lks_transformer_opts opts)
{
    lkt_model m = lkt_begin(NULL);
    assert_null(n->build(m.graph, input(m.graph, n), &opts));
    LKT_FAILS(lks_graph_status(m.graph), sentence, lks_graph_status(m.graph));
    lkt_end(&m);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    refuse(
        "gpt: depth is 12, heads 5, width 24, patch 16; expected at least 1 each, and a width that "
        "heads divide",
        &nets[0], (lks_transformer_opts){.heads = 5, .width = 24});
    refuse("encoder: depth is -1", &nets[2], (lks_transformer_opts){.depth = -1});
    refuse("dense 'lm_head': its weight would be 9x24, but weight_of is 'transformer.wte', whose "
           "weight is 37x24",
           &nets[0], (lks_transformer_opts){.outputs = 9, .depth = 1, .heads = 3, .width = 24});
    refuse("vit: images are 8x8, which patches of 3x3 do not divide", &nets[3],
           (lks_transformer_opts){.patch = 3});
    refuse("encoder: padding is 3, but masked is false; set it, or drop padding", &nets[2],
           (lks_transformer_opts){.padding = 3});
    refuse("padding is 37, expected at most 36", &nets[2],
           (lks_transformer_opts){
               .depth = 1, .heads = 3, .width = 24, .masked = true, .padding = VOCABULARY});
    refuse("vit: masked is true, but samples are neither tokens nor frames, of which some could be "
           "padding; drop the option",
           &nets[3], (lks_transformer_opts){.masked = true});
    net padded_frames = nets[NETS - 1];
    refuse("encoder: padding is 2, but samples are no tokens: frames are padding where they are 0",
           &padded_frames, (lks_transformer_opts){.masked = true, .padding = 2});
    refuse(
        "encoder: class_token is a position in front of the frames, among which masked looks for "
        "padding; drop one of them",
        &padded_frames, (lks_transformer_opts){.masked = true, .class_token = true});
    refuse("vit: class_token is a learned position in front of others, but rotary is 100; drop one "
           "of them",
           &nets[3], (lks_transformer_opts){.class_token = true, .rotary = 100});
    net tokens = nets[3];
    tokens.samples = TOKENS;
    refuse("vit: the input has 1 dimension, expected an image", &tokens, (lks_transformer_opts){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twenty_steps_are_pytorchs),      cmocka_unit_test(files_of_gpt2_are_read),
        cmocka_unit_test(any_workers_have_the_same_bits), cmocka_unit_test(first_values_are_gpt2s),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
