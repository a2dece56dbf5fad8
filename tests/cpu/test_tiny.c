/* Values at the borders below which they count as 0 (core/backend.h), denormal ones among them: vector
 * functions against scalar loops, to the bit, on every instruction set. */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

#include "base/float.h"
#include "numeric/fma.h"

/* Around 0, the least denormal and normal numbers, 2^-110, 2^-86, 2^-63, 2^-50, and usual ones. */
static const float BORDER[] = {
    0,
    0x1p-149f,
    0x1.8p-140f,
    0x1.fffffcp-127f,
    0x1p-126f,
    0x1.fffffep-111f,
    0x1p-110f,
    0x1.000002p-110f,
    0x1.8p-87f,
    0x1.3p-70f,
    0x1.8p-64f,
    0x1.fffffep-64f,
    0x1p-63f,
    0x1.000002p-63f,
    0x1.8p-63f,
    0x1.fffffep-63f,
    0x1.fffffep-51f,
    0x1p-50f,
    0x1.000002p-50f,
    0x1.7p-40f,
    0x1.1p-32f,
    0x1.9p-31f,
    0x1.234568p-10f,
    1,
    3,
    0x1.5p20f,
};
enum { BORDERS = sizeof BORDER / sizeof *BORDER, N = 4 * BORDERS * BORDERS + 5 };

static float border(lkt_random *random, bool negative)
{
    const float size = BORDER[lkt_random_below(random, BORDERS)];
    return negative && lkt_random_bits(random) & 1 ? -size : size;
}

static float flush_below(float x, float least)
{
    return fabsf(x) < least ? 0 : x;
}

static float flush(float x)
{
    return flush_below(x, 0x1p-63f);
}

static float square_flush(float x)
{
    return flush_below(x, 0x1p-110f);
}

/* Every pair of the borders with every sign, then some. */
static void pairs(float *a, float *b)
{
    for (int i = 0; i < N; i++) {
        a[i] = i & 1 ? -BORDER[i / 4 % BORDERS] : BORDER[i / 4 % BORDERS];
        b[i] = i & 2 ? -BORDER[i / 4 / BORDERS % BORDERS] : BORDER[i / 4 / BORDERS % BORDERS];
    }
}

static void elements(void **state)
{
    static float a[N], b[N], c[N], found[N], expected[N];
    static uint8_t dropped[N];
    (void)state;
    pairs(a, b);
    for (int i = 0; i < N; i++) c[i] = b[(i + 7) % N], dropped[i] = i % 3 == 0;
    LKT_FOR_ISAS(v)
    {
        const lki_vector_element *e = v->element;
        const unsigned saved = lki_float_enter();
#define SAME(name, call, formula)                                                                  \
    do {                                                                                           \
        memcpy(found, c, sizeof c);                                                                \
        call;                                                                                      \
        for (int i = 0; i < N; i++) expected[i] = formula;                                         \
        lkt_same(v, name, found, expected, N);                                                     \
    } while (0)
        SAME("add", e->add(N, found, b), c[i] + b[i]);
        SAME("sum", e->sum(N, a, b, found), flush(a[i] + b[i]));
        SAME("pass", e->pass(N, b, found, false), b[i]);
        SAME("pass, added", e->pass(N, b, found, true), flush(c[i] + b[i]));
        SAME("relu", e->relu(N, b, found), b[i] > 0 ? b[i] : 0);
        SAME("relu_backward", e->relu_backward(N, a, b, found, true),
             flush(c[i] + (a[i] > 0 ? b[i] : 0)));
        SAME("move", e->move(1, N, b, N, found, N, true), flush(c[i] + b[i]));
        SAME("transpose", e->transpose(N / 13, 13, b, found, true),
             i >= N / 13 * 13 ? c[i] : flush(c[i] + b[i % (N / 13) * 13 + i / (N / 13)]));
        SAME("dropout", v->dropout->apply(N, dropped, 1.25f, b, found, false),
             dropped[i] ? 0 : flush(b[i] * 1.25f));
        SAME("dropout, added", v->dropout->apply(N, dropped, 1.25f, b, found, true),
             flush(c[i] + (dropped[i] ? 0 : b[i] * 1.25f)));
        SAME("approach", e->approach(N, 0.25f, found, b), flush(lki_fma(0.25f, b[i] - c[i], c[i])));
#undef SAME
        lki_float_leave(saved);
    }
}

/* What is not a number, or has no end, is not small. */
static void nan_stays(void **state)
{
    static float bad[37], zero[37], found[37];
    (void)state;
    for (int i = 0; i < 37; i++) bad[i] = i % 2 == 0 ? NAN : -INFINITY;
    LKT_FOR_ISAS(v)
    {
        v->element->sum(37, bad, zero, found);
        for (int i = 0; i < 37; i++) assert_true(i % 2 == 0 ? isnan(found[i]) : isinf(found[i]));
        v->element->transpose(1, 37, bad, found, false);
        for (int i = 0; i < 37; i++) assert_true(i % 2 == 0 ? isnan(found[i]) : isinf(found[i]));
    }
    assert_true(isnan(lki_flush(NAN)) && isnan(lki_round((double)NAN)));
    assert_true(isinf(lki_flush(INFINITY)) && isinf(lki_round(-(double)INFINITY)));
}

/* One element of an update. */
typedef struct element {
    float w, state[LKI_MAX_STATES], sum;
} element;

/* A number that is computed from hyperparameters, where it meets an element. */
static float constant(double x)
{
    return fabs(x) < 0x1p-63 ? 0 : (float)x;
}

static float epsilon_of(double x)
{
    return x > 0 && x < 0x1p-126 ? 0x1p-126f : (float)x;
}

static float decayed(float average, float c, float x)
{
    return lki_fma(c, x, lki_fma(-c, average, average));
}

static float decayed_square(float average, float c, float x)
{
    return lki_fma(c * x, x, lki_fma(-c, average, average));
}

static float gradient(const lki_update *u, const element *e, double decay)
{
    const float g = flush(e->sum * u->scale);
    return decay != 0 ? flush(lki_fma(constant(decay), e->w, g)) : g;
}

static float counted(float g)
{
    return flush_below(g, 0x1p-50f);
}

static void sgd(const lki_update *u, element *e)
{
    const lks_optim *o = &u->optim;
    float g = gradient(u, e, o->weight_decay);
    if (o->momentum != 0) {
        const float mu = constant(o->momentum), m = mu * e->state[0];
        e->state[0] = flush(u->step == 1 ? g : lki_fma(constant(1 - o->dampening), g, m));
        g = o->nesterov ? lki_fma(mu, e->state[0], g) : e->state[0];
    }
    e->w = flush(lki_fma(constant(-u->lr), g, e->w));
}

static void adam(const lki_update *u, element *e)
{
    const lks_optim *o = &u->optim;
    const bool decoupled = o->kind == LKS_ADAMW;
    const double root = sqrt(u->correction2);
    const float g = counted(gradient(u, e, decoupled ? 0 : o->weight_decay));
    const float v = decayed_square(e->state[1], constant(1 - o->beta2), g);
    e->state[0] = flush(decayed(e->state[0], constant(1 - o->beta1), g));
    e->state[1] = square_flush(v);
    if (decoupled) e->w = lki_fma(constant(-(u->lr * o->weight_decay)), e->w, e->w);
    e->w = flush(lki_fma(constant(-(u->lr / u->correction1 * root)),
                         e->state[0] / (sqrtf(v) + epsilon_of(root * o->epsilon)), e->w));
}

static void adadelta(const lki_update *u, element *e)
{
    const lks_optim *o = &u->optim;
    const float g = counted(gradient(u, e, o->weight_decay)), c = constant(1 - o->rho);
    const float v = decayed_square(e->state[0], c, g), epsilon = epsilon_of(o->epsilon);
    const float d = flush(sqrtf(e->state[1] + epsilon) / sqrtf(v + epsilon) * g);
    e->state[0] = square_flush(v);
    e->state[1] = square_flush(decayed_square(e->state[1], c, counted(d)));
    e->w = flush(lki_fma(constant(-u->lr), d, e->w));
}

static void rmsprop(const lki_update *u, element *e)
{
    const lks_optim *o = &u->optim;
    const float g = counted(gradient(u, e, o->weight_decay)), c = constant(1 - o->alpha);
    const float v = decayed_square(e->state[0], c, g);
    float spread = v;
    e->state[0] = square_flush(v);
    if (o->centered) {
        e->state[1] = flush(decayed(e->state[1], c, g));
        spread = square_flush(lki_fma(-e->state[1], e->state[1], v));
        if (spread < 0) spread = 0;
    }
    float d = g / (sqrtf(spread) + epsilon_of(o->epsilon));
    if (o->momentum != 0) d = e->state[2] = flush(lki_fma(constant(o->momentum), e->state[2], d));
    e->w = flush(lki_fma(constant(-u->lr), d, e->w));
}

static void adamp(const lki_update *u, element *e)
{
    const lks_optim *o = &u->optim;
    const double ratio = u->projected ? o->wd_ratio : 1;
    const float p = lki_fma(-u->along, e->w, e->sum);
    const float kept = lki_fma(constant(-(u->lr * o->weight_decay * ratio)), e->w, e->w);
    e->w = flush(lki_fma(constant(-(u->lr / u->correction1)), p, kept));
}

/* The state, and the direction in the place of the sum. */
static void direction(const lki_update *u, element *e)
{
    const lks_optim *o = &u->optim;
    const double root = sqrt(u->correction2);
    const float g = counted(e->sum * u->scale), c1 = constant(1 - o->beta1);
    const float v = decayed_square(e->state[1], constant(1 - o->beta2), g);
    e->state[0] = flush(decayed(e->state[0], c1, g));
    e->state[1] = square_flush(v);
    const float p = o->nesterov ? lki_fma(constant(o->beta1), e->state[0], c1 * g) : e->state[0];
    e->sum = flush(constant(root) * (p / (sqrtf(v) + epsilon_of(root * o->epsilon))));
}

static void update_one(const lki_update *u, element *e)
{
    static void (*const of[])(const lki_update *, element *) = {
        [LKS_SGD] = sgd,    [LKS_ADAM] = adam,       [LKS_ADADELTA] = adadelta,
        [LKS_ADAMW] = adam, [LKS_RMSPROP] = rmsprop, [LKS_ADAMP] = adamp};
    of[u->optim.kind](u, e);
}

/* Values as they are after many steps; what stands for a square is not negative. */
static void draw(lkt_random *random, lks_optim_kind kind, element *e)
{
    const bool squares[LKI_MAX_STATES] = {kind == LKS_ADADELTA || kind == LKS_RMSPROP,
                                          kind != LKS_SGD && kind != LKS_RMSPROP, false};
    *e = (element){.w = border(random, true), .sum = border(random, true)};
    for (int i = 0; i < LKI_MAX_STATES; i++) e->state[i] = border(random, !squares[i]);
}

static void check_update(const lki_vector *v, const lki_update *u, lkt_random *random)
{
    enum { COUNT = 4099 };
    static element e[COUNT];
    static float w[COUNT], s[LKI_MAX_STATES][COUNT], sums[COUNT], expected[5][COUNT];
    float *const states[LKI_MAX_STATES] = {s[0], s[1], s[2]};
    const bool directs = u->optim.kind == LKS_ADAMP && !u->projected;
    for (int i = 0; i < COUNT; i++) {
        draw(random, u->optim.kind, &e[i]);
        w[i] = e[i].w, sums[i] = e[i].sum;
        for (int k = 0; k < LKI_MAX_STATES; k++) s[k][i] = e[i].state[k];
    }
    if (directs)
        v->element->direction(u, COUNT, w, states, sums, (double[LKI_ROW_SUMS]){0});
    else
        v->element->update(u, COUNT, w, states, sums);
    for (int i = 0; i < COUNT; i++) {
        if (directs)
            direction(u, &e[i]);
        else
            update_one(u, &e[i]);
        expected[0][i] = e[i].w, expected[4][i] = e[i].sum;
        for (int k = 0; k < LKI_MAX_STATES; k++) expected[1 + k][i] = e[i].state[k];
    }
    lkt_same(v, "w", w, expected[0], COUNT);
    for (int k = 0; k < LKI_MAX_STATES; k++) lkt_same(v, "state", s[k], expected[1 + k], COUNT);
    lkt_same(v, "sums", sums, expected[4], COUNT);
}

static void optimizers(void **state)
{
    const lks_optim list[] = {
        lks_sgd(0),
        {.kind = LKS_SGD, .weight_decay = 1e-4, .momentum = 0.9},
        {.kind = LKS_SGD, .momentum = 1e-20, .dampening = 0.3},
        {.kind = LKS_SGD, .weight_decay = 1e-25, .momentum = 0.5, .nesterov = true},
        lks_adam(),
        {.kind = LKS_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-44, .weight_decay = 0.1},
        lks_adamw(),
        lks_adadelta(),
        {.kind = LKS_ADADELTA, .rho = 0.999, .epsilon = 1e-30, .weight_decay = 1e-3},
        lks_rmsprop(),
        {.kind = LKS_RMSPROP, .alpha = 0.9, .epsilon = 1e-8, .centered = true, .momentum = 0.8},
        {.kind = LKS_RMSPROP, .alpha = 0.9999, .epsilon = 1e-8, .weight_decay = 1e-2},
        lks_adamp(),
        {.kind = LKS_ADAMP, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .nesterov = true},
    };
    lkt_random random = lkt_random_make("optimizers", 90);
    (void)state;
    LKT_FOR_ISAS(v)
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int step = 1; step < 4; step++) {
            const lki_update u = {.optim = list[i],
                                  .lr = step == 2 ? 1e-22 : 1e-3,
                                  .scale = 1.0f / 61,
                                  .step = step,
                                  .correction1 = 0.271,
                                  .correction2 = 0.002997001,
                                  .along = 0.375f,
                                  .projected = step > 1};
            const unsigned saved = lki_float_enter();
            check_update(v, &u, &random);
            lki_float_leave(saved);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif
