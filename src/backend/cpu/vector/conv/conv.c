/*
 * Convolutions, NHWC: forward and data gradient as products of register tiles (tile.h), whose rows
 * are pixels and whose columns are filters (backward: input channels).
 *
 *   forward   panels [group][block of filters ][tap         ][channel][PANEL]
 *   backward  panels [group][block of channels][tap reversed][filter ][PANEL]
 *
 * The terms of a sum are numbered (tile.h) over taps in the panels' order, over channels. Where these
 * are many they are cut into blocks of `depth` channels by a rule of the shape, so that a block's part
 * of a panel stays in the second-level cache; numbers start from 0 in each, and the groups of all
 * blocks of channels are added in one total:
 *
 *   channels   [ 0 .. depth              | depth .. 2 depth        | ...
 *   numbers      0 ... (taps in turn) ...   0 .....................   0 ...
 *   total        its groups                 + its groups              + ...
 *
 * In between, the totals of WAITING pixels wait in the workspace.
 *
 * The data gradient of a stride s is s * s sweeps, or one for each pixel if these are fewer: pixels
 * whose row and column have the same rest modulo the stride see the same taps.
 */
#include "backend/cpu/vector/conv/line.h"
#include "backend/cpu/vector/conv/phase.h"
#include "numeric/tree.h"

enum {
    STRIP = 96,   /* pixels, at least, that all panels pass over in turn */
    WAITING = 256 /* pixels, at most or one row, whose totals wait */
};

/* Channels of a block of the sum; all where the result is narrow. */
static int64_t block_depth(const lki_conv_shape *s, int64_t depth, int64_t columns)
{
    return columns < LKI_NARROW ? depth : lki_conv_block(conv_taps(s), depth);
}

static size_t vector_conv_floats(int64_t count)
{
    return sizeof(float) * (size_t)count;
}

/* All samples, groups and panels. a_group and c_group are floats of a group's channels in a pixel. */
typedef struct passes {
    const lki_conv_shape *shape;
    int64_t count, a_group, c_group;
    int part, parts;    /* of c; 0, 0: all of it */
    const float *plain; /* not NULL: panels are formed of this, one after the other, */
    float *panel;       /* here */
    float *copy;        /* of a strip (line.h) */
    /* Of each column of c, where its rows lie side by side; NULL: not wanted. */
    const lki_norm_moments *moments;
} passes;

/* Those of columns from this one on. */
static lki_norm_moments moments_from(const lki_norm_moments *m, int64_t column)
{
    return (lki_norm_moments){
        .pivot = m->pivot + column, .sum = m->sum + column, .square = m->square + column};
}

/* One panel over some rows, block by block of the depth. */
static void run_panel(const passes *p, const sweep *base, int64_t panel)
{
    const int64_t each = conv_blocks(p->c_group);
    const int64_t group = panel / each, column = panel % each * PANEL;
    const int64_t left = p->c_group - column, taps = p->shape->kernel[0] * p->shape->kernel[1];
    const int64_t step = block_depth(p->shape, base->all_depth, p->c_group);
    sweep whole = *base;
    whole.a += group * p->a_group;
    if (p->plain != NULL)
        whole.b = p->panel;
    else
        whole.b += panel * taps * whole.all_depth * PANEL;
    whole.c += group * p->c_group + column;
    whole.columns = left < PANEL ? left : PANEL;
    whole.narrow = p->c_group < LKI_NARROW;
    if (whole.bias != NULL) whole.bias += group * p->c_group + column;
    for (int64_t d = 0; d < whole.all_depth; d += step) {
        sweep s = whole;
        s.a += d;
        s.b += d * PANEL;
        s.depth = whole.all_depth - d < step ? whole.all_depth - d : step;
        s.pace = s.taps[0] * s.taps[1] == 1 && s.a_pixel[1] == s.all_depth ? 16 : 0;
        s.first = d == 0;
        s.last = d + s.depth == whole.all_depth;
        s.lead = (s.skipped[0] * s.all + s.skipped[1]) * s.depth;
        s.gap = (s.all - s.taps[1]) * s.depth;
        s.many = !s.first || !s.last ||
                 s.lead + (s.gap + s.taps[1] * s.depth) * s.taps[0] > LKI_BLOCK_TERMS;
        /* Taps of a row whose values lie side by side, in a and in b, are one longer tap. */
        if (s.depth == s.a_tap[1] && s.depth * PANEL == s.b_tap[1] && s.taps[1] > 1) {
            s.depth *= s.taps[1];
            s.taps[1] = 1;
        }
        sweep_grid(&s);
    }
    if (p->moments == NULL) return;
    const float *y = whole.c + whole.row * whole.c_pixel[0]; /* in the nearest cache still */
    const lki_norm_moments moments = moments_from(p->moments, group * p->c_group + column);
    const int64_t pixels = whole.rows * whole.grid[1];
    LKI_ISA_NAME(lki_vector_norm_moments)(pixels, whole.columns, whole.c_pixel[1], y, &moments);
}

/* Rows [first, first + rows) of all samples; of a line pixels, and copied ones of so many channels where that is not 0. */
static sweep sweep_part(const passes *p, const sweep *all, bool line, int64_t copied, int64_t first,
                        int64_t rows)
{
    sweep s = *all;
    s.row = line ? 0 : first;
    s.rows = line ? 1 : rows;
    if (!line) return s;
    if (copied > 0)
        line_copy(&s, first, rows, copied, p->copy);
    else
        s.a += first * s.a_pixel[1];
    s.c += first * s.c_pixel[1];
    s.grid[0] = 1;
    s.grid[1] = rows;
    return s;
}

static void run_all(const passes *p, const sweep *base)
{
    const int64_t channels = p->shape->groups * p->a_group;
    const int64_t panels = p->shape->groups * conv_blocks(p->c_group);
    const int64_t all_taps = p->shape->kernel[0] * p->shape->kernel[1];
    const int64_t taps = base->taps[0] * base->taps[1];
    const bool as_is = is_line(base, p->count), formed = p->plain != NULL;
    const bool copies = !as_is && !formed && line_pays(base, channels, p->c_group);
    const bool line = as_is || copies, strips = copies || (as_is && taps == 1 && !formed);
    const bool large = conv_large(panels * all_taps * base->all_depth * PANEL);
    const bool waits = block_depth(p->shape, base->all_depth, p->c_group) < base->all_depth;
    const bool one = large && !strips; /* a panel passes over all samples */
    const int64_t width = line ? 1 : base->grid[1];
    const int64_t all = p->count * base->grid[0] * base->grid[1] / width;
    int64_t strip = one ? all : (STRIP + width - 1) / width;
    if (waits) strip = width < WAITING ? WAITING / width : 1;
    if (strips) strip = line_strip(taps * channels);
    int64_t panel = 0, last = panels, begin = 0, end = all;
    if (large)
        lki_part_of(p->part, p->parts, panels, &panel, &last);
    else
        lki_part_of(p->part, p->parts, all, &begin, &end);
    for (const int64_t together = one ? 1 : last - panel; panel < last; panel += together) {
        if (formed) LKI_ISA_NAME(lki_conv_form_reversed)(p->shape, p->plain, panel, p->panel);
        for (int64_t first = begin; first < end; first += strip) {
            const sweep s = sweep_part(p, base, line, copies ? channels : 0, first,
                                       end - first < strip ? end - first : strip);
            for (int64_t i = panel; i < panel + together; i++) run_panel(p, &s, i);
        }
    }
}

/* The workspace of both passes: what waits, a panel that is formed, and behind it images with their border. */
static int64_t waiting_pixels(const lki_conv_shape *s)
{
    const int64_t width = s->in[1] > s->out[1] ? s->in[1] : s->out[1];
    return width > WAITING ? width : WAITING;
}

static int64_t panel_at(const lki_conv_shape *s)
{
    return 2 * PANEL * waiting_pixels(s) + TILE_ROWS * PANEL;
}

static int64_t waiting_floats(const lki_conv_shape *s)
{
    return panel_at(s) + (conv_forms_reversed(s) ? s->filters * PANEL : 0);
}

static tile_wait waiting(const lki_conv_shape *s, void *workspace)
{
    double *total = workspace;
    return (tile_wait){.total = total,
                       .group = (float *)(void *)(total + PANEL * waiting_pixels(s))};
}

/* Images with their border behind that, and a copy of pixels behind them. */
static size_t framed_bytes(const frame *f, int64_t count)
{
    return frame_needed(f) ? lki_align(frame_bytes(f, count)) : 0;
}
static float *copy_at(const lki_conv_shape *s, const frame *f, int64_t count, void *workspace)
{
    return (float *)workspace + waiting_floats(s) + framed_bytes(f, count) / sizeof(float);
}
/* The images that a sweep reads, and where its taps lie in them: of each axis the pixel under tap 0 of the grid's
 * first pixel, and from pixel to pixel of the grid, from tap to tap. */
typedef struct reach {
    const float *images;
    int64_t size[2], channels;
    int64_t origin[2], pixel[2], tap[2];
} reach;

/* Whether tiles are of one pixel of many samples: rows of few pixels would make tiles of as few rows. Samples that are
 * 4,096 bytes apart would fill their set of the first-level cache. */
static bool by_samples(const int64_t size[2], int64_t channels, int64_t columns, int64_t count)
{
    return columns < FEW_COLUMNS && columns < count && size[0] * size[1] * channels % 1024 != 0;
}

/* One pixel of the grid in all samples: taps beyond the image are left out. */
static sweep sweep_of_pixel(const sweep *all, const reach *r, int64_t row, int64_t column)
{
    const int64_t at[2] = {row, column}, floats[2] = {r->size[1] * r->channels, r->channels};
    sweep s = *all;
    for (int i = 0; i < 2; i++) {
        const int64_t from = r->origin[i] + at[i] * r->pixel[i], tap = r->tap[i];
        const int64_t first = from < 0 ? (tap - 1 - from) / tap : 0;
        const int64_t end = from < r->size[i] ? (r->size[i] - 1 - from) / tap + 1 : 0;
        s.taps[i] = (end < all->taps[i] ? end : all->taps[i]) - first;
        if (s.taps[i] < 0) s.taps[i] = 0;
        s.skipped[i] += first;
        s.a += (from + first * tap) * floats[i];
        s.b += first * s.b_tap[i];
        s.a_tap[i] = tap * floats[i];
        s.c += at[i] * s.c_pixel[i];
    }
    s.grid[0] = 1;
    s.a_pixel[1] = s.a_sample;
    s.c_pixel[1] = s.c_sample;
    return s;
}

static void run_by_samples(const passes *p, sweep *base, const reach *r)
{
    passes one = *p;
    one.count = 1;
    one.moments = NULL;
    base->a = r->images;
    base->a_sample = r->size[0] * r->size[1] * r->channels;
    for (int64_t y = 0; y < base->grid[0]; y++)
        for (int64_t x = 0; x < base->grid[1]; x++) {
            sweep s = sweep_of_pixel(base, r, y, x);
            s.grid[1] = p->count;
            run_all(&one, &s);
        }
    if (p->moments == NULL) return;
    const int64_t pixels = p->count * base->grid[0] * base->grid[1], columns = base->c_pixel[1];
    LKI_ISA_NAME(lki_vector_norm_moments)(pixels, columns, columns, base->c, p->moments);
}

/* The images with their border lie behind what waits in the workspace, where one is needed. */
static void run_framed(const passes *p, sweep *base, const reach *r, const frame *f,
                       void *workspace)
{
    const bool copied = frame_needed(f);
    const int64_t floats[2] = {f->size[1] * r->channels, r->channels};
    base->a = copied ? (float *)workspace + waiting_floats(p->shape) : r->images;
    base->a_sample = frame_floats(f);
    for (int i = 0; i < 2; i++) {
        base->a_tap[i] = r->tap[i] * floats[i];
        base->a_pixel[i] = r->pixel[i] * floats[i];
        base->a += (f->before[i] + r->origin[i]) * floats[i];
    }
    run_all(p, base);
}

static void fill_frames(const passes *p, const reach *r, const frame *f, void *workspace)
{
    const int64_t image = r->size[0] * r->size[1] * r->channels;
    float *to = (float *)workspace + waiting_floats(p->shape);
    for (int64_t n = 0; frame_needed(f) && n < p->count; n++)
        LKI_ISA_NAME(lki_conv_fill)(f, r->images + n * image, to + n * frame_floats(f));
}

static void run_forward(const lki_conv_shape *s, int64_t count, const float *x,
                        lki_conv_weight weight, const float *bias, bool relu, float *y,
                        const lki_norm_moments *moments, void *workspace)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    const int64_t channels = s->channels / s->groups;
    const reach r = {.images = x,
                     .size = {s->in[0], s->in[1]},
                     .channels = s->channels,
                     .origin = {-s->padding[0], -s->padding[1]},
                     .pixel = {s->stride[0], s->stride[1]},
                     .tap = {s->dilation[0], s->dilation[1]}};
    sweep base = {
        .taps = {s->kernel[0], s->kernel[1]},
        .all = s->before[1] + s->kernel[1] + s->behind[1],
        .skipped = {s->before[0], s->before[1]},
        .b_tap = {s->kernel[1] * channels * PANEL, channels * PANEL},
        .all_depth = channels,
        .grid = {s->out[0], s->out[1]},
        .c_pixel = {s->out[1] * s->filters, s->filters},
        .c_sample = s->out[0] * s->out[1] * s->filters,
        .b = weight.packed,
        .c = y,
        .bias = bias,
        .relu = relu,
        .at = waiting(s, workspace),
    };
    const passes p = {.shape = s,
                      .count = count,
                      .a_group = channels,
                      .c_group = s->filters / s->groups,
                      .part = s->part,
                      .parts = s->parts,
                      .copy = copy_at(s, &f, count, workspace),
                      .moments = moments};
    if (by_samples(s->in, s->channels, s->out[1], count)) {
        run_by_samples(&p, &base, &r);
        return;
    }
    fill_frames(&p, &r, &f, workspace);
    run_framed(&p, &base, &r, &f, workspace);
}

static void vector_conv_forward(const lki_conv_shape *s, int64_t count, const float *x,
                                lki_conv_weight weight, const float *bias, bool relu, float *y,
                                void *workspace)
{
    run_forward(s, count, x, weight, bias, relu, y, NULL, workspace);
}

static void vector_conv_forward_moments(const lki_conv_shape *s, int64_t count, const float *x,
                                        lki_conv_weight weight, const float *bias, float *y,
                                        const lki_norm_moments *moments, void *workspace)
{
    run_forward(s, count, x, weight, bias, false, y, moments, workspace);
}

/* The border that the output's gradient needs. */
static frame gradient_frame(const lki_conv_shape *s)
{
    frame f = {.channels = s->filters};
    for (int i = 0; i < 2; i++) {
        for (int64_t pixel = 0; pixel < phases(s, i); pixel++) {
            const phase p = phase_of(s, i, pixel);
            if (p.taps == 0) continue;
            const int64_t last = p.out + (p.taps - 1) * p.out_step + p.pixels;
            if (-p.out > f.before[i]) f.before[i] = -p.out;
            if (last - s->out[i] > f.after[i]) f.after[i] = last - s->out[i];
        }
        f.size[i] = f.before[i] + s->out[i] + f.after[i];
    }
    return f;
}

/* Pixels that no tap reaches. */
static void vector_conv_clear(const passes *p, const sweep *s)
{
    for (int64_t n = 0; n < p->count; n++)
        for (int64_t y = 0; y < s->grid[0]; y++)
            for (int64_t x = 0; x < s->grid[1]; x++)
                memset(s->c + n * s->c_sample + y * s->c_pixel[0] + x * s->c_pixel[1], 0,
                       vector_conv_floats(p->shape->channels));
}

/* The same with all taps of the weight: terms have the numbers that they have there. */
static lki_conv_shape whole_of(const lki_conv_shape *s)
{
    lki_conv_shape whole = *s;
    for (int i = 0; i < 2; i++) {
        whole.kernel[i] += s->before[i] + s->behind[i];
        whole.padding[i] += s->before[i] * s->dilation[i];
    }
    return whole;
}

/* Taps of a phase that are left out in front of its first one, the last of the kernel. */
static int64_t left_out(const lki_conv_shape *s, const phase *whole, const phase *there, int way)
{
    return (whole->tap - there->tap - s->before[way]) / whole->step;
}

static void vector_conv_backward(const lki_conv_shape *s, int64_t count, const float *d_y,
                                 lki_conv_weight weight, float *d_x, bool add, void *workspace)
{
    const frame f = gradient_frame(s);
    const lki_conv_shape whole = whole_of(s);
    const int64_t filters = s->filters / s->groups, out_row = s->in[1] * s->channels;
    const float *b = (const float *)weight.packed + conv_panel_floats(s);
    const passes p = {.shape = s,
                      .count = count,
                      .a_group = filters,
                      .c_group = s->channels / s->groups,
                      .plain = conv_forms_reversed(s) ? weight.plain : NULL,
                      .panel = (float *)workspace + panel_at(s),
                      .copy = copy_at(s, &f, count, workspace)};
    reach r = {
        .images = d_y, .size = {s->out[0], s->out[1]}, .channels = s->filters, .pixel = {1, 1}};
    const int64_t columns = phases(s, 1), all = phases(s, 0) * columns;
    const bool small = by_samples(s->out, s->filters, phase_of(s, 1, 0).pixels, count);
    if (!small) fill_frames(&p, &r, &f, workspace);
    for (int64_t i = 0; i < all; i++) {
        const phase v = phase_of(s, 0, i / columns), h = phase_of(s, 1, i % columns);
        const phase v_all = phase_of(&whole, 0, i / columns),
                    h_all = phase_of(&whole, 1, i % columns);
        const int64_t reversed = (s->kernel[0] - 1 - v.tap) * s->kernel[1] + s->kernel[1] - 1 -
                                 h.tap;
        sweep base = {
            .taps = {v.taps, h.taps},
            .all = h_all.taps,
            .b_tap = {v.step * s->kernel[1] * filters * PANEL, h.step * filters * PANEL},
            .all_depth = filters,
            .grid = {v.pixels, h.pixels},
            .c_pixel = {s->stride[0] * out_row, s->stride[1] * s->channels},
            .b = b + reversed * filters * PANEL,
            .c = d_x + v.pixel * out_row + h.pixel * s->channels,
            .c_sample = s->in[0] * out_row,
            .add = add,
            .at = waiting(s, workspace),
        };
        if (v.taps == 0 || h.taps == 0) {
            if (!add) vector_conv_clear(&p, &base);
            continue;
        }
        base.skipped[0] = left_out(s, &v_all, &v, 0);
        base.skipped[1] = left_out(s, &h_all, &h, 1);
        for (int way = 0; way < 2; way++) {
            r.origin[way] = way == 0 ? v.out : h.out;
            r.tap[way] = way == 0 ? v.out_step : h.out_step;
        }
        if (small)
            run_by_samples(&p, &base, &r);
        else
            run_framed(&p, &base, &r, &f, workspace);
    }
}

static size_t vector_conv_packed_bytes(const lki_conv_shape *s)
{
    const int64_t blocks = conv_forms_reversed(s) ? 0 : conv_blocks(s->channels / s->groups);
    return vector_conv_floats(conv_panel_floats(s) +
                              blocks * s->kernel[0] * s->kernel[1] * s->filters * PANEL);
}

static size_t vector_conv_workspace_bytes(const lki_conv_shape *s, int64_t count)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s), g = gradient_frame(s);
    const size_t forward_bytes = lki_plus(framed_bytes(&f, count), line_bytes(s, s->channels));
    const size_t backward_bytes = lki_plus(framed_bytes(&g, count), line_bytes(s, s->filters));
    const size_t weight_bytes = LKI_ISA_NAME(lki_conv_weight_bytes)(s, count);
    const size_t most = forward_bytes > backward_bytes ? forward_bytes : backward_bytes;
    const size_t both = lki_plus(vector_conv_floats(waiting_floats(s)), most);
    return both > weight_bytes ? both : weight_bytes;
}

const lki_vector_conv LKI_ISA_NAME(lki_vector_conv) = {
    .packed_bytes = vector_conv_packed_bytes,
    .pack = LKI_ISA_NAME(lki_conv_pack),
    .workspace_bytes = vector_conv_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_conv_sums_bytes),
    .forward = vector_conv_forward,
    .forward_moments = vector_conv_forward_moments,
    .backward = vector_conv_backward,
    .backward_weight = LKI_ISA_NAME(lki_conv_weight),
};
