/* Attention in double: softmax of scores, head by head, and its gradients; rotary positions with cosines and sines of float32. */
#include <math.h>
#include <string.h>

#include "support/exact.h"

enum { MOST = 512 }; /* positions, and channels of a head */

typedef struct shape {
    int64_t positions, heads, kv_heads, width, channels; /* channels: of a position of the input */
    bool causal;
    double rotary, scale;
} shape;

/* Half of the channels are turned with the other half; backward the other way round. */
static void turn(const shape *s, int64_t position, double *x, double direction)
{
    const int64_t half = s->width / 2;

    for (int64_t i = 0; i < half && s->rotary > 0; i++) {
        const double angle = (double)position * pow(s->rotary, -2 * (double)i / (double)s->width);
        const double c = (double)(float)cos(angle), d = direction * (double)(float)sin(angle);
        const double a = x[i], b = x[half + i];

        x[i] = a * c - b * d;
        x[half + i] = b * c + a * d;
    }
}

static double dot(const shape *s, const double *a, const double *b)
{
    double sum = 0;

    for (int64_t i = 0; i < s->width; i++) sum += a[i] * b[i];
    return sum;
}

/* Of one query: its weights, its output, and what its gradient adds to those of query, keys and values. */
static void attend(const shape *s, int64_t n, const double *x, double *dx, const double *q,
                   double *dq, const double *dy, double *y)
{
    double weight[MOST], most = -HUGE_VAL, sum = 0, mean = 0;
    const int64_t seen = s->causal ? n + 1 : s->positions, values = s->kv_heads * s->width;

    for (int64_t t = 0; t < seen; t++) {
        weight[t] = s->scale * dot(s, q, x + t * s->channels);
        most = fmax(most, weight[t]);
    }
    for (int64_t t = 0; t < seen; t++) sum += weight[t] = exp(weight[t] - most);
    for (int64_t t = 0; t < seen; t++) {
        weight[t] /= sum;
        for (int64_t i = 0; i < s->width; i++) {
            y[i] += weight[t] * x[t * s->channels + values + i];
            dx[t * s->channels + values + i] += weight[t] * dy[i];
        }
        mean += weight[t] * dot(s, dy, x + t * s->channels + values);
    }
    for (int64_t t = 0; t < seen; t++) {
        const double slope = s->scale * weight[t] *
                             (dot(s, dy, x + t * s->channels + values) - mean);

        for (int64_t i = 0; i < s->width; i++) {
            dq[i] += slope * x[t * s->channels + i];
            dx[t * s->channels + i] += slope * q[i];
        }
    }
}

static shape shape_of(const lki_node *node)
{
    const lks_attention_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    shape s = {.positions = in->dim[0],
               .channels = in->dim[1],
               .heads = opts->heads,
               .kv_heads = opts->kv_heads > 0 ? opts->kv_heads : opts->heads,
               .causal = opts->causal,
               .rotary = (double)opts->rotary};

    s.width = s.channels / (s.heads + 2 * s.kv_heads);
    s.scale = (double)(float)(1 / sqrt((double)s.width));
    return s;
}

static void turn_all(const shape *s, double *x, double direction)
{
    for (int64_t t = 0; t < s->positions; t++)
        for (int64_t h = 0; h < s->heads + s->kv_heads; h++)
            turn(s, t, x + t * s->channels + h * s->width, direction);
}

void lkt_exact_attention(const lki_node *node, int64_t count, double *in, const double *d_out,
                         double *out, double *d_in)
{
    const shape s = shape_of(node);
    const int64_t width = s.heads * s.width;

    assert_true(s.positions <= MOST && s.width <= MOST);
    for (int64_t sample = 0; sample < count; sample++) {
        double *x = in + sample * s.positions * s.channels;
        double *dx = d_in + sample * s.positions * s.channels;

        turn_all(&s, x, 1);
        for (int64_t t = 0; t < s.positions; t++)
            for (int64_t h = 0; h < s.heads; h++) {
                const int64_t own = t * s.channels + h * s.width;
                const int64_t key = width + h / (s.heads / s.kv_heads) * s.width;
                const int64_t at = (sample * s.positions + t) * width + h * s.width;

                attend(&s, t, x + key, dx + key, x + own, dx + own, d_out + at, out + at);
            }
        turn_all(&s, dx, -1);
    }
}
