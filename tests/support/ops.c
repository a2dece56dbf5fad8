/* Cases: filling them, and the library's trials with assertions. */
#include "support/ops.h"

void *lkt_case_memory(lkt_case *c, size_t bytes)
{
    void *memory;

    LKT_OK(lki_trial_memory(c, &memory, bytes));
    return memory;
}

const lki_backend *lkt_ref(void)
{
    return lki_backend_find("ref");
}

const lki_node *lkt_first(const lkt_case *c)
{
    return lki_trial_first(c);
}

const lki_node *lkt_last(const lkt_case *c)
{
    return lki_trial_last(c);
}

int64_t lkt_in_elements(const lkt_case *c, int i)
{
    return lki_trial_in_elements(c, i);
}

int64_t lkt_out_elements(const lkt_case *c)
{
    return lki_trial_out_elements(c);
}

int64_t lkt_param_elements(const lkt_case *c, int slot)
{
    return lki_trial_param_elements(c, slot);
}

bool lkt_has_gradient(const lkt_case *c, int i)
{
    return lki_trial_has_gradient(c, i);
}

const char *lkt_describe(const lkt_case *c)
{
    static char text[1024];

    return lki_trial_describe(c, text, sizeof text);
}

void lkt_case_begin(lkt_case *c)
{
    *c = (lkt_case){0};
    LKT_OK(lks_context_create(&c->context, &(lks_context_opts){.device = "ref"}));
    LKT_OK(lks_graph_create(&c->graph, c->context));
}

void lkt_case_free(lkt_case *c)
{
    lki_trial_release(c);
    lks_graph_destroy(c->graph);
    lks_context_destroy(c->context);
    *c = (lkt_case){0};
}

static float draw(lkt_fill fill, lkt_random *random)
{
    if (fill == LKT_EXACT) return (float)lkt_random_from(random, -8, 8) / 8.0f;
    return (float)lkt_random_real(random, -1.0, 1.0);
}

/* Odd multiples of 1/16 around zero, each once, in random order. */
static void fill_spaced(float *out, int64_t count, lkt_random *random)
{
    for (int64_t i = 0; i < count; i++) out[i] = (float)(2 * i + 1 - count / 2 * 2) / 16.0f;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = lkt_random_below(random, i + 1);
        const float kept = out[i];

        out[i] = out[j];
        out[j] = kept;
    }
}

static void *fill_floats(lkt_case *c, int64_t count, lkt_fill fill, lkt_random *random)
{
    float *out = lkt_case_memory(c, (size_t)count * sizeof *out);

    for (int64_t i = 0; i < count; i++) out[i] = draw(fill, random);
    return out;
}

/* Of positions an eighth has none. */
static int32_t random_class(const lks_tensor *tensor, lkt_random *random)
{
    const lki_node *node = tensor->node;

    if (node->op == LKI_OP_INPUT)
        return (int32_t)lkt_random_below(random, ((const lks_input_opts *)node->attr)->vocabulary);
    if (tensor->shape.ndim > 0 && lkt_random_below(random, 8) == 0) return LKS_NO_CLASS;
    return (int32_t)lkt_random_below(random, ((const lks_target_opts *)node->attr)->classes);
}

static void fill_in(lkt_case *c, int i, lkt_fill fill, lkt_random *random)
{
    const lks_tensor *tensor = c->cluster.in[i];
    const int64_t count = lkt_in_elements(c, i);

    if (tensor->dtype == LKS_F32) {
        /* Distances to targets are spaced, too, by eighths. */
        const bool eighths = fill == LKT_SPACED && tensor->node->op == LKI_OP_TARGET;
        c->in[i] = fill_floats(c, count, eighths ? LKT_EXACT : fill, random);
        if (fill == LKT_SPACED && i == 0) fill_spaced(c->in[i], count, random);
        return;
    }
    c->in[i] = lkt_case_memory(c, (size_t)count * lks_dtype_size(tensor->dtype));
    for (int64_t e = 0; e < count; e++) {
        if (tensor->dtype == LKS_U8)
            ((uint8_t *)c->in[i])[e] = (uint8_t)(fill == LKT_EXACT
                                                     ? 255 * lkt_random_below(random, 2)
                                                     : lkt_random_below(random, 256));
        else
            ((int32_t *)c->in[i])[e] = random_class(tensor, random);
    }
}

/* Of half of the cases with classes: some samples are mixed with their own class, some have all of one weight. */
static void fill_mix(lkt_case *c, lkt_fill fill, lkt_random *random)
{
    for (int i = 0; i < c->cluster.in_count; i++) {
        const lks_tensor *target = c->cluster.in[i];

        if (target->dtype != LKS_I32 || target->shape.ndim > 0 ||
            target->node->op != LKI_OP_TARGET || lkt_random_below(random, 2) == 0)
            continue;
        c->mix = lkt_case_memory(c, (size_t)c->count * sizeof *c->mix);
        for (int64_t n = 0; n < c->count; n++) {
            c->mix[n].label = (int32_t)lkt_random_below(
                random, ((const lks_target_opts *)target->node->attr)->classes);
            c->mix[n].weight = fill == LKT_EXACT || n % 5 == 0
                                   ? (float)lkt_random_below(random, 5) / 4.0f
                                   : (float)lkt_random_real(random, 0.0, 1.0);
        }
    }
}

static void fill_buffers(lkt_case *c, const lki_node *node, lkt_random *random)
{
    for (int i = 0; i < node->buffer_count; i++) {
        const int64_t count = lks_shape_elements(&node->buffer[i].shape);

        c->buffer[i] = lkt_case_memory(c, (size_t)count * lks_dtype_size(node->buffer[i].dtype));
        for (int64_t e = 0; e < count; e++) {
            if (node->buffer[i].dtype == LKS_I64)
                ((int64_t *)c->buffer[i])[e] = 0;
            else
                ((float *)c->buffer[i])[e] = (float)lkt_random_real(random, 0.5, 2.0);
        }
    }
}

/* Of half of the cases with a node that carries. */
static void fill_begins(lkt_case *c, const lki_node *node, lkt_random *random)
{
    const int64_t count = c->count * node->carries;

    if (count == 0 || lkt_random_chance(random, 2)) return;
    c->begins = lkt_case_memory(c, (size_t)count * sizeof *c->begins);
    for (int64_t e = 0; e < count; e++) c->begins[e] = (float)lkt_random_real(random, -1.0, 1.0);
}

static bool depends_on(const lki_node *node, const lki_node *first)
{
    if (node == first) return true;
    for (int i = 0; i < node->in_count; i++)
        if (depends_on(node->in[i]->node, first)) return true;
    return false;
}

void lkt_case_end(lkt_case *c, lks_tensor *first, lks_tensor *last, int64_t count, lkt_fill fill,
                  lkt_random *random)
{
    LKT_OK(lks_graph_status(c->graph));
    for (const lki_node *node = first->node; node != last->node->next; node = node->next) {
        if (!depends_on(node, first->node) || !depends_on(last->node, node)) continue;
        assert_true(c->cluster.count < LKI_MAX_CLUSTER);
        c->cluster.node[c->cluster.count++] = node;
    }
    lkt_case_fill(c, count, fill, random);
}

void lkt_case_fill(lkt_case *c, int64_t count, lkt_fill fill, lkt_random *random)
{
    assert_true(lki_cluster_close(&c->cluster));
    c->count = count;
    c->position = lkt_random_below(random, 1000);
    c->step = lkt_random_bits(random);
    c->key = lkt_random_bits(random);
    c->training = true;
    for (int i = 0; i < c->cluster.in_count; i++) fill_in(c, i, fill, random);
    for (int i = 0; i < c->cluster.param_count; i++)
        c->param[i] = fill_floats(c, lkt_param_elements(c, i), fill, random);
    if (c->cluster.counted != NULL) fill_buffers(c, c->cluster.counted, random);
    c->d_out = fill_floats(c, lkt_out_elements(c), fill, random);
    fill_mix(c, fill, random);
    fill_begins(c, lki_cluster_tail(&c->cluster), random);
}

void lkt_stage_open(lkt_case *c, const lki_kernel *kernel, const lki_cluster *cluster,
                    int64_t slice, unsigned skip_in, lkt_stage *out)
{
    LKT_OK(lki_trial_stage_open(c, kernel, cluster, slice, skip_in, out));
}

void lkt_stage_close(lkt_stage *stage)
{
    lki_trial_stage_close(stage);
}

void lkt_run(lkt_case *c, const lki_backend *backend, const lki_kernel *fused, const lkt_how *how,
             lkt_result *out)
{
    LKT_OK(lki_trial_run(c, backend, fused, how, out));
}

void lkt_bounds_make(lkt_case *c, const lkt_how *how, const lkt_result *ref, lkt_bounds *out)
{
    LKT_OK(lki_bounds_make(c, how, ref, out));
}
