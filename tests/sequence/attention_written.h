/* Attention by the formulas of docs/numerics.md, 3, in scalar loops. */
#ifndef LKT_ATTENTION_WRITTEN_H
#define LKT_ATTENTION_WRITTEN_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric/fma.h"
#include "numeric/random.h"
#include "numeric/rotary.h"
#include "op/attention.h"
#include "support/ops.h"

/* e^a of vector/activation.h. */
static inline float exponential(float a)
{
    if (a < -43.66f) return 0.0f;
    const float shift = 0x1.8p23f, k = lki_fma(a, 0x1.715476p+0f, shift) - shift;
    const float r = lki_fma(k, -0x1.7f7d1cp-20f, lki_fma(k, -0x1.62e4p-1f, a));
    float q = 0x1.9dfbbep-13f;
    q = lki_fma(q, r, 0x1.6d4cbep-10f);
    q = lki_fma(q, r, 0x1.11130ep-7f);
    q = lki_fma(q, r, 0x1.5554e8p-5f);
    q = lki_fma(q, r, 0x1.555554p-3f);
    q = lki_fma(q, r, 0.5f);
    return (1.0f + lki_fma(r * r, q, r)) * ldexpf(1.0f, (int)k);
}

/* A head of a sample, by the formulas of docs/numerics.md, 3. Arrays are [positions][width], or [positions][positions]. */
typedef struct written {
    const lkt_case *c;
    lki_attention a;
    int64_t n, head;
    float keep, *cosine, *sine;
    uint8_t *dropped;
    float *q, *k, *v, *s, *d_s, *p, *d_q, *d_k, *d_v;
} written;

static inline bool sees(const written *w, int64_t i, int64_t j)
{
    const int32_t *tokens = w->a.masked ? (const int32_t *)w->c->in[1] + w->n * w->a.positions
                                        : NULL;

    return (!w->a.causal || j <= i) && (tokens == NULL || tokens[j] != w->a.padding);
}

/* Of row t of x, from the case's numbers or gradients. */
static inline void turn(const written *w, int64_t t, float sign, float *x)
{
    const int64_t half = w->a.head_width / 2;

    for (int64_t d = 0; w->a.rotary > 0.0f && d < half; d++) {
        const float c = w->cosine[t * half + d], s = sign * w->sine[t * half + d];
        const float a = x[d], b = x[d + half];

        x[d] = lki_flush(lki_fma(a, c, -(b * s)));
        x[d + half] = lki_flush(lki_fma(b, c, a * s));
    }
}

static inline float product(const float *x, const float *y, int64_t width)
{
    float all = 0.0f;

    for (int64_t d = 0; d < width; d += 64) {
        float chain = 0.0f;

        for (int64_t e = d; e < width && e < d + 64; e++) chain = lki_fma(x[e], y[e], chain);
        all = d == 0 ? chain : all + chain;
    }
    return all;
}

static inline float lanes(float lane[16])
{
    for (int w = 8; w > 0; w /= 2)
        for (int l = 0; l < w; l++) lane[l] += lane[l + w];
    return lane[0];
}

/* One row forward; most and inverse for backward. */
static inline void row_forward(written *w, int64_t i, float *out, float *most, float *inverse)
{
    const int64_t t = w->a.positions, width = w->a.head_width;
    float lane[16] = {0}, *o = calloc((size_t)width, sizeof *o), m = -INFINITY;

    for (int64_t b = 0; b < t; b += 64) {
        const int64_t end = b + 64 < t ? b + 64 : t;
        float next = m, sum[16] = {0};

        for (int64_t j = b; j < end; j++)
            if (sees(w, i, j)) next = fmaxf(next, w->s[i * t + j]);
        if (next == -INFINITY) continue;
        const float c = m == -INFINITY ? 0.0f : exponential(m - next);
        for (int64_t j = b; j < end; j++) {
            const float p = sees(w, i, j) ? exponential(w->s[i * t + j] - next) : 0.0f;

            sum[j % 16] += p;
            w->p[i * t + j] = w->dropped[i * t + j] ? 0.0f : p;
        }
        for (int64_t d = 0; d < width; d++) {
            float chain = 0.0f;

            for (int64_t j = b; j < end; j++)
                if (sees(w, i, j)) chain = lki_fma(w->p[i * t + j], w->v[j * width + d], chain);
            o[d] = lki_flush(lki_fma(o[d], c, chain));
        }
        for (int l = 0; l < 16; l++) lane[l] = lki_fma(lane[l], c, sum[l]);
        m = next;
    }
    const float l = lanes(lane);
    *inverse = l == 0.0f ? 0.0f : 1.0f / l;
    *most = m == -INFINITY ? 0.0f : m;
    const float factor = *inverse * w->keep;
    for (int64_t d = 0; d < width; d++) out[d] = lki_flush(o[d] * factor);
    free(o);
}

/* Weights behind dropout, and gradients of scores. */
static inline void row_slopes(written *w, int64_t i, const float *out, const float *d_out,
                              float most, float inverse)
{
    const int64_t t = w->a.positions, width = w->a.head_width;
    float lane[16] = {0};

    for (int64_t d = 0; d < width; d++) lane[d % 16] = lki_fma(out[d], d_out[d], lane[d % 16]);
    const float mean = lanes(lane);
    for (int64_t j = 0; j < t; j++) {
        w->p[i * t + j] = w->d_s[i * t + j] = 0.0f;
        if (!sees(w, i, j)) continue;
        const float p = lki_flush(exponential(w->s[i * t + j] - most) * inverse);
        const bool drops = w->dropped[i * t + j];
        const float d_p = drops ? 0.0f : product(d_out, w->v + j * width, width);

        w->p[i * t + j] = drops ? 0.0f : p;
        w->d_s[i * t + j] = lki_flush(p * lki_fma(d_p, w->keep, -mean));
    }
}

/* total[d] += sums over blocks of `count` terms of x[r * step] y[r][d], flushed. */
static inline void add_products(float *total, const float *x, int64_t step, const float *y,
                                int64_t y_row, int64_t count, int64_t width)
{
    for (int64_t d = 0; d < width; d++) {
        for (int64_t b = 0; b < count; b += 64) {
            float chain = 0.0f;

            for (int64_t r = b; r < count && r < b + 64; r++)
                chain = lki_fma(x[r * step], y[r * y_row + d], chain);
            total[d] = lki_flush(total[d] + chain);
        }
    }
}

static inline void put(written *w, int64_t t, const float *total, float factor, bool turns,
                       float *to)
{
    float *x = calloc((size_t)w->a.head_width, sizeof *x);

    for (int64_t d = 0; d < w->a.head_width; d++) x[d] = lki_flush(total[d] * factor);
    if (turns) turn(w, t, -1.0f, x);
    memcpy(to, x, sizeof *x * (size_t)w->a.head_width);
    free(x);
}

static inline void head_as_written(written *w, float *out, float *d_in)
{
    const lki_attention *a = &w->a;
    const int64_t t = a->positions, width = a->head_width, kv = w->head / a->group;
    const int64_t out_row = a->heads * width;
    const float *x = (const float *)w->c->in[0] + w->n * t * a->width;
    const float *d_out = w->c->d_out + w->n * t * out_row + w->head * width;
    float *y = out + w->n * t * out_row + w->head * width, *d_x = d_in + w->n * t * a->width;
    const bool first = w->head % a->group == 0, last = (w->head + 1) % a->group == 0;

    memset(w->dropped, 0, (size_t)(t * t));
    if (a->dropout > 0.0f) {
        const lki_bernoulli drop = lki_bernoulli_make((double)a->dropout);
        lki_bernoulli_draw(&drop, w->c->key, w->c->step, (uint32_t)(w->c->position + w->n),
                           w->head * t * t, t * t, w->dropped);
    }
    for (int64_t i = 0; i < t; i++) {
        const float *row = x + i * a->width;
        const size_t bytes = sizeof *x * (size_t)width;
        memcpy(w->q + i * width, row + w->head * width, bytes);
        memcpy(w->k + i * width, row + (a->heads + kv) * width, bytes);
        memcpy(w->v + i * width, row + (a->heads + a->kv_heads + kv) * width, bytes);
        turn(w, i, 1.0f, w->q + i * width);
        turn(w, i, 1.0f, w->k + i * width);
    }
    if (first) memset(w->d_k, 0, sizeof *x * (size_t)(t * width));
    if (first) memset(w->d_v, 0, sizeof *x * (size_t)(t * width));
    for (int64_t i = 0; i < t; i++) {
        float most, inverse;

        for (int64_t j = 0; j < t; j++)
            w->s[i * t + j] = product(w->q + i * width, w->k + j * width, width) * a->scale;
        row_forward(w, i, y + i * out_row, &most, &inverse);
        row_slopes(w, i, y + i * out_row, d_out + i * out_row, most, inverse);
        memset(w->d_q, 0, sizeof *x * (size_t)width);
        add_products(w->d_q, w->d_s + i * t, 1, w->k, width, t, width);
        put(w, i, w->d_q, a->scale, true, d_x + i * a->width + w->head * width);
    }
    for (int64_t j = 0; j < t; j++) {
        float *to = d_x + j * a->width + (a->heads + kv) * width;

        add_products(w->d_k + j * width, w->d_s + j, t, w->q, width, t, width);
        add_products(w->d_v + j * width, w->p + j, t, d_out, out_row, t, width);
        if (last) put(w, j, w->d_k + j * width, a->scale, true, to);
        if (last) put(w, j, w->d_v + j * width, w->keep, false, to + a->kv_heads * width);
    }
}

static inline void as_written(const lkt_case *c, float *out, float *d_in)
{
    written w = {.c = c, .a = lki_attention_of(lkt_first(c))};
    const int64_t t = w.a.positions, wide = t * (w.a.head_width + 1);
    float *memory = calloc((size_t)(9 * wide + 3 * t * t), sizeof *memory);
    float **const at[] = {&w.q, &w.k, &w.v, &w.d_q, &w.d_k, &w.d_v, &w.cosine, &w.sine};

    for (int i = 0; i < 8; i++) *at[i] = memory + i * wide;
    w.s = memory + 9 * wide;
    w.d_s = w.s + t * t;
    w.p = w.d_s + t * t;
    w.dropped = malloc((size_t)(t * t));
    w.keep = 1.0f;
    if (w.a.dropout > 0.0f)
        w.keep = (float)(1.0 / (1.0 - lki_bernoulli_make((double)w.a.dropout).probability));
    if (w.a.rotary > 0.0f) lki_rotary((double)w.a.rotary, t, w.a.head_width, w.cosine, w.sine);
    for (w.n = 0; w.n < c->count; w.n++)
        for (w.head = 0; w.head < w.a.heads; w.head++) head_as_written(&w, out, d_in);
    free(w.dropped);
    free(memory);
}

#endif
