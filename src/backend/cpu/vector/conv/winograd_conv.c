/* Winograd's convolutions with what conv.c has behind the sums: bias, what is there already, relu, moments. Their
 * data gradient is the same with the taps turned round and channels in the place of filters. Large weights, and those
 * of 5 x 5 taps, have a direct gradient. */
#include "backend/cpu/vector/conv/conv.h"
#include "backend/cpu/vector/conv/winograd_lines.h"
#include "core/winograd.h"

/* A tile of so many pixels and n columns. */
INLINE void put_tile(const winograd *w, const int rows, const int columns, vf y[][4], vf bias,
                     int64_t n, float *to)
{
    UNROLL_4 for (int i = 0; i < rows; i++) UNROLL_4 for (int j = 0; j < columns; j++)
    {
        float *at = to + (i * w->out[1] + j) * w->columns;
        vf value = y[i][j] + bias;
        if (w->add) value = vf_get(at, n) + value;
        vf_put(at, w->relu ? vf_relu_flush(value) : vf_flush(value), n);
    }
}

INLINE void put_strip(const int side, const int size, const winograd_strip *s)
{
    const winograd copy = *s->pass, *w = &copy; /* which no store changes */
    winograd_places places;
    winograd_tile t = winograd_first(w, s->first);
    winograd_tile ahead = winograd_first(w, s->first + FETCH_AHEAD);
    vf half[WINOGRAD_MOST][WINOGRAD_MOST] = {{{0}}}, y[4][4] = {{{0}}};
    winograd_begin(w, PANEL, s->plane, &places);
    for (int64_t k = 0; k < s->tiles; k++) {
        float *tile = w->y + winograd_at_tile(w, &t);
        winograd_fetch_panel(side, w, &ahead, w->y, s->column, true);
        for (int64_t v = s->column; v < s->column + PANEL && v < w->columns; v += LANES) {
            const int64_t n = w->columns - v < LANES ? w->columns - v : LANES;
            const vf bias = w->bias != NULL ? vf_get(w->bias + v, n) : vf_zero();
            float *to = tile + v;
            if (winograd_whole(side, &t) && n == LANES) {
                vf whole[4][4];
                winograd_result_whole(side, size, s->m + v - s->column, places.at, whole);
                put_tile(w, side, side, whole, bias, LANES, to);
            } else {
                winograd_result(side, size, &t, s->m + v - s->column, places.at, half, y);
                put_tile(w, t.pixels[0], t.pixels[1], y, bias, n, to);
            }
        }
        winograd_further(side, size, &t, &places);
        winograd_next(w, &t);
        winograd_next(w, &ahead);
    }
}

static void winograd_put_2(const winograd_strip *s)
{
    put_strip(2, 4, s);
}

static void winograd_put_4(const winograd_strip *s)
{
    put_strip(4, 6, s);
}

static void winograd_put_5(const winograd_strip *s)
{
    put_strip(2, 6, s);
}

void LKI_ISA_NAME(lki_winograd_put)(const winograd_strip *s)
{
    if (s->pass->size == 4)
        winograd_put_2(s);
    else if (s->pass->side == 4)
        winograd_put_4(s);
    else
        winograd_put_5(s);
}

/* Whether U is formed where it is used, not once an update for all: it takes no memory then, and time in every call. A large
 * one, whose sums are of one group. */
static bool forms_weight(const lki_conv_shape *s)
{
    const int64_t size = winograd_size(s->winograd, s->kernel[0]);
    return s->frugal && winograd_large(size, s->channels, s->filters) &&
           s->channels <= LKI_GROUP_TERMS && s->filters <= LKI_GROUP_TERMS;
}

static winograd forward_pass(const lki_conv_shape *s, int64_t count, const float *taps)
{
    const int64_t all = s->kernel[0] * s->kernel[1];
    winograd w = winograd_of(s, count);
    w.put = LKI_ISA_NAME(lki_winograd_put);
    w.forms = forms_weight(s);
    w.weight = (winograd_weight){.taps = taps,
                                 .side = w.side,
                                 .size = w.size,
                                 .depth = w.depth,
                                 .columns = w.columns,
                                 .depth_step = all,
                                 .column_step = all * s->channels};
    return w;
}

static winograd gradient_pass(const lki_conv_shape *s, int64_t count, const float *taps)
{
    const int64_t reach = s->kernel[0] - 1, all = s->kernel[0] * s->kernel[1];
    return (winograd){.side = s->winograd,
                      .size = winograd_size(s->winograd, s->kernel[0]),
                      .depth = s->filters,
                      .columns = s->channels,
                      .in = {s->out[0], s->out[1]},
                      .out = {s->in[0], s->in[1]},
                      .before = {reach - s->padding[0], reach - s->padding[1]},
                      .count = count,
                      .put = LKI_ISA_NAME(lki_winograd_put),
                      .forms = forms_weight(s),
                      .weight = {.taps = taps,
                                 .side = s->winograd,
                                 .size = winograd_size(s->winograd, s->kernel[0]),
                                 .depth = s->filters,
                                 .columns = s->channels,
                                 .depth_step = all * s->channels,
                                 .column_step = all,
                                 .reversed = true}};
}

/* U of both passes, forward's first. */
static int64_t forward_u(const lki_conv_shape *s)
{
    return winograd_floats(winograd_size(s->winograd, s->kernel[0]), s->channels, s->filters);
}

static size_t vector_winograd_packed_bytes(const lki_conv_shape *s)
{
    const int64_t size = winograd_size(s->winograd, s->kernel[0]);
    const int64_t backward = winograd_floats(size, s->filters, s->channels);
    return forms_weight(s) ? 0 : sizeof(float) * (size_t)(forward_u(s) + backward);
}

static void vector_winograd_pack(const lki_conv_shape *s, const float *weight, void *packed,
                                 int part, int parts)
{
    if (forms_weight(s)) return;
    const winograd forward = forward_pass(s, 0, weight), backward = gradient_pass(s, 0, weight);
    LKI_ISA_NAME(lki_winograd_pack)(&forward.weight, packed, part, parts);
    LKI_ISA_NAME(lki_winograd_pack)(&backward.weight, (float *)packed + forward_u(s), part, parts);
}

static bool has_weight(const lki_conv_shape *s)
{
    return lki_winograd_has_weight(s->winograd, s->kernel[0], s->channels, s->filters);
}

static size_t vector_winograd_workspace_bytes(const lki_conv_shape *s, int64_t count)
{
    const winograd forward = forward_pass(s, count, NULL), backward = gradient_pass(s, count, NULL);
    const size_t bytes[] = {LKI_ISA_NAME(lki_winograd_bytes)(&forward),
                            LKI_ISA_NAME(lki_winograd_bytes)(&backward),
                            has_weight(s) ? LKI_ISA_NAME(lki_winograd_weight_bytes)(s)
                                          : LKI_ISA_NAME(lki_conv_weight_bytes)(s, count)};
    size_t most = bytes[0];
    for (int i = 1; i < 3; i++) most = bytes[i] > most ? bytes[i] : most;
    return most;
}

static void vector_winograd_forward(const lki_conv_shape *s, int64_t count, const float *x,
                                    lki_conv_weight weight, const float *bias, bool relu, float *y,
                                    void *workspace)
{
    winograd w = forward_pass(s, count, weight.plain);
    w.x = x;
    if (!w.forms) w.u = weight.packed;
    w.bias = bias;
    w.relu = relu;
    w.y = y;
    LKI_ISA_NAME(lki_winograd_run)(&w, workspace);
}

static void vector_winograd_forward_moments(const lki_conv_shape *s, int64_t count, const float *x,
                                            lki_conv_weight weight, const float *bias, float *y,
                                            const lki_norm_moments *moments, void *workspace)
{
    vector_winograd_forward(s, count, x, weight, bias, false, y, workspace);
    LKI_ISA_NAME(lki_vector_norm_moments)
    (count * s->out[0] * s->out[1], s->filters, s->filters, y, moments);
}

static void vector_winograd_backward(const lki_conv_shape *s, int64_t count, const float *d_y,
                                     lki_conv_weight weight, float *d_x, bool add, void *workspace)
{
    winograd w = gradient_pass(s, count, weight.plain);
    w.x = d_y;
    if (!w.forms) w.u = (const float *)weight.packed + forward_u(s);
    w.add = add;
    w.y = d_x;
    LKI_ISA_NAME(lki_winograd_run)(&w, workspace);
}

static size_t vector_winograd_sums_bytes(const lki_conv_shape *s)
{
    return has_weight(s) ? LKI_ISA_NAME(lki_winograd_sums_bytes)(s)
                         : LKI_ISA_NAME(lki_conv_sums_bytes)(s);
}

static void vector_winograd_backward_weight(const lki_conv_shape *s, int64_t count,
                                            const lki_conv_gradient *g)
{
    if (has_weight(s))
        LKI_ISA_NAME(lki_winograd_weight)(s, count, g);
    else
        LKI_ISA_NAME(lki_conv_weight)(s, count, g);
}

const lki_vector_conv LKI_ISA_NAME(lki_vector_winograd) = {
    .packed_bytes = vector_winograd_packed_bytes,
    .pack = vector_winograd_pack,
    .workspace_bytes = vector_winograd_workspace_bytes,
    .sums_bytes = vector_winograd_sums_bytes,
    .forward = vector_winograd_forward,
    .forward_moments = vector_winograd_forward_moments,
    .backward = vector_winograd_backward,
    .backward_weight = vector_winograd_backward_weight,
};
