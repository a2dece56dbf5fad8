/* Text that a model makes. */
#include "base/check.h"
#include "model/infer/draw.h"
#include "model/infer/follow.h"
#include "numeric/random.h"
#include "op/attention.h"
#include "op/recurrent.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct lks_generator {
    lks_context *context;
    lks_model *model;
    const lks_tokenizer *tokenizer;
    int64_t positions, used; /* tokens of a window; that there are */
    int32_t *window;         /* [positions], behind those that there are 0 */
    float *output; /* [positions][vocabulary]; of one position at a time the first alone */
    lki_follow follow;
    int64_t followed; /* the first so many tokens of the window have been followed, */
    int64_t gone;     /* and so many that are no longer in it; */
    bool slid; /* or it has slid from the first tokens, and what was left of them is of no use */
    int64_t drawn;
    lki_draw draw;
    lki_arena arena; /* of all arrays */
};

/* ---------------------------------------------------------------- the network */

static lks_status check_network(const lks_model *model)
{
    const lks_graph *graph = model->program.graph;
    const lks_shape *in = &graph->input->shape, *out = &model->program.output->shape;
    const int64_t vocabulary = ((const lks_input_opts *)graph->input->node->attr)->vocabulary;
    if (vocabulary == 0 || in->ndim != 1)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "a generator: the network's input are no tokens, one for each position; "
                        "train it on a text (docs/texts.md)");
    if (out->ndim != 2 || out->dim[0] != in->dim[0] || out->dim[1] != vocabulary) {
        char shape[128];
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "a generator: the network's output is %s, expected %" PRId64 "x%" PRId64
                        ", a number for each token at each position",
                        lki_shape_print(out, shape, sizeof shape), in->dim[0], vocabulary);
    }
    const lki_node *ahead = lki_graph_looks_ahead(graph);
    if (ahead == NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "a generator: %s '%s' looks ahead, at tokens that are not there yet; expected "
                    "layers of one direction, and attention that is causal",
                    lki_op_get(ahead->op)->name, ahead->name);
}

static lks_status check_generator_opts(const lks_generator_opts *opts, int64_t vocabulary)
{
    const int64_t size = opts->tokenizer != NULL ? lks_tokenizer_size(opts->tokenizer) : vocabulary;
    if (size != vocabulary)
        return LKI_FAIL(LKS_E_MISMATCH,
                        "a generator: the tokenizer has %" PRId64
                        " tokens, but the network's vocabulary has %" PRId64
                        "; give the one that it was trained with",
                        size, vocabulary);
    if (!(opts->temperature >= 0) || isinf(opts->temperature))
        return LKI_FAIL(LKS_E_INVALID,
                        "a generator: opts.temperature is %g, expected a number above 0, or 0 for "
                        "1; opts.most_probable draws nothing",
                        opts->temperature);
    if (opts->top_k < 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "a generator: opts.top_k is %" PRId64
                        ", expected at least 1, or 0 for all tokens",
                        opts->top_k);
    if (!(opts->top_p >= 0 && opts->top_p <= 1))
        return LKI_FAIL(LKS_E_INVALID,
                        "a generator: opts.top_p is %g, expected a number above 0 and up to 1, or "
                        "0 for 1",
                        opts->top_p);
    if (opts->stream < 0 || opts->stream > UINT32_MAX)
        return LKI_FAIL(LKS_E_INVALID,
                        "a generator: opts.stream is %" PRId64 ", expected 0 to 2^32 - 1",
                        opts->stream);
    return LKS_OK;
}

/* ---------------------------------------------------------------- one position at a time */

static bool follows(const lks_generator *g)
{
    return g->follow.graph != NULL && !g->slid;
}

/* The tokens of the window that have not been followed: what comes of the last one is in `output`. */
static lks_status follow_all(lks_generator *g)
{
    if (lki_follow_is_old(&g->follow)) g->followed = g->gone = 0;
    if (g->followed == g->used) return LKS_OK;
    LKI_TRY(lki_follow_predict(&g->follow, g->window + g->followed, g->used - g->followed,
                               g->gone + g->followed, g->output));
    g->followed = g->used;
    return LKS_OK;
}

/* ---------------------------------------------------------------- making */

static lks_status generator_fill(lks_generator *g, const lks_generator_opts *opts)
{
    const lks_shape *out = &g->model->program.output->shape;
    const int64_t size = out->dim[1];
    void *memory[4];
    const size_t bytes[] = {
        (size_t)out->dim[0] * sizeof *g->window,
        lki_times(lki_times((size_t)out->dim[0], (size_t)size), sizeof *g->output),
        (size_t)size * sizeof *g->draw.candidate, (size_t)size * sizeof *g->draw.weight};
    LKI_TRY(check_generator_opts(opts, size));
    LKI_TRY(lki_follow_make(&g->follow, g->model));
    for (int i = 0; i < 4; i++)
        LKI_TRY(lki_arena_alloc(&g->arena, &memory[i], bytes[i], "a generator"));
    g->tokenizer = opts->tokenizer;
    g->positions = out->dim[0];
    g->window = memory[0];
    g->output = memory[1];
    g->draw = (lki_draw){.most_probable = opts->most_probable,
                         .temperature = opts->temperature > 0 ? opts->temperature : 1,
                         .top_p = opts->top_p > 0 ? opts->top_p : 1,
                         .top_k = opts->top_k,
                         .stream = (uint32_t)opts->stream,
                         .key = lki_random_key(opts->seed, "sample", ""),
                         .size = size,
                         .candidate = memory[2],
                         .weight = memory[3]};
    return LKS_OK;
}

lks_status lks_generator_create(lks_generator **out, lks_model *model,
                                const lks_generator_opts *opts)
{
    static const lks_generator_opts usual;
    void *memory;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (model == NULL) return LKI_FAIL_NULL(model);
    LKI_TRY(check_network(model));
    LKI_TRY(lki_alloc(model->context, &memory, sizeof **out, "a generator"));
    lks_generator *g = memory;
    g->context = g->arena.context = model->context;
    g->model = model;
    const lks_status status = generator_fill(g, opts != NULL ? opts : &usual);
    if (status != LKS_OK) {
        lks_generator_destroy(g);
        return status;
    }
    *out = g;
    return LKS_OK;
}

void lks_generator_destroy(lks_generator *generator)
{
    if (generator == NULL) return;
    lki_follow_release(&generator->follow);
    lki_arena_release(&generator->arena);
    lki_free(generator->context, generator, sizeof *generator);
}

/* ---------------------------------------------------------------- tokens */

/* There is no place: the first tokens go. A network without an end has followed them. */
static lks_status slide(lks_generator *g, int64_t count)
{
    if (follows(g) && g->follow.endless) {
        LKI_TRY(follow_all(g));
        g->followed -= count;
        g->gone += count;
    } else {
        g->slid = true;
    }
    g->used -= count;
    memmove(g->window, g->window + count, (size_t)g->used * sizeof *g->window);
    return LKS_OK;
}

/* Puts tokens behind the others, at most a window of them. */
static lks_status put_tokens(lks_generator *g, const int32_t *tokens, int64_t count)
{
    if (g->used + count > g->positions) LKI_TRY(slide(g, g->used + count - g->positions));
    memcpy(g->window + g->used, tokens, (size_t)count * sizeof *tokens);
    g->used += count;
    return LKS_OK;
}

lks_status lks_generator_feed(lks_generator *generator, const int32_t *tokens, int64_t count)
{
    if (generator == NULL) return LKI_FAIL_NULL(generator);
    if (count < 0)
        return LKI_FAIL(LKS_E_INVALID, "a generator got %" PRId64 " tokens, expected at least 0",
                        count);
    if (count > 0 && tokens == NULL) return LKI_FAIL_NULL(tokens);
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= generator->draw.size)
            return LKI_FAIL(LKS_E_INVALID,
                            "a generator got token %" PRId32 ", expected 0 to %" PRId64, tokens[i],
                            generator->draw.size - 1);
    for (int64_t part; count > 0; tokens += part, count -= part) {
        part = count < generator->positions ? count : generator->positions;
        LKI_TRY(put_tokens(generator, tokens, part));
    }
    return LKS_OK;
}

lks_status lks_generator_feed_text(lks_generator *generator, const char *text, size_t bytes)
{
    int64_t count;
    void *tokens;
    if (generator == NULL) return LKI_FAIL_NULL(generator);
    if (text == NULL && bytes > 0) return LKI_FAIL_NULL(text);
    if (generator->tokenizer == NULL)
        return LKI_FAIL(LKS_E_STATE, "the generator has no tokenizer, which text takes; create it "
                                     "with one, or feed tokens");
    LKI_TRY(lks_tokenizer_encode(generator->tokenizer, text, bytes, NULL, 0, &count));
    const size_t room = lki_times((size_t)count, sizeof(int32_t));
    LKI_TRY(lki_alloc(generator->context, &tokens, room, "tokens"));
    lks_status status = lks_tokenizer_encode(generator->tokenizer, text, bytes, tokens, count,
                                             &count);
    if (status == LKS_OK) status = lks_generator_feed(generator, tokens, count);
    lki_free(generator->context, tokens, room);
    return status;
}

lks_status lks_generator_next(lks_generator *generator, int32_t *token)
{
    lks_generator *g = generator;
    if (generator == NULL) return LKI_FAIL_NULL(generator);
    if (token == NULL) return LKI_FAIL_NULL(token);
    if (g->used == 0)
        return LKI_FAIL(LKS_E_STATE, "the generator has no token to go on from; feed at least one");
    const float *outputs = g->output;
    if (follows(g)) {
        LKI_TRY(follow_all(g));
    } else {
        LKI_TRY(lks_model_predict(g->model, g->window, 1, g->output));
        outputs += (g->used - 1) * g->draw.size;
    }
    LKI_TRY(lki_draw_token(token, &g->draw, outputs, g->drawn));
    g->drawn++;
    return put_tokens(g, token, 1);
}
