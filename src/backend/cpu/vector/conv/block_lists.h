/* Which units of a strip of pooled rows pass a gradient on: lists of them, of block_backward.c. */
#ifndef LKI_CPU_VECTOR_BLOCK_LISTS_H
#define LKI_CPU_VECTOR_BLOCK_LISTS_H

#include "backend/cpu/vector/conv/block.h"

enum { STRIP_BYTES = 28 * 1024 }; /* of x under a strip: the first-level cache, less a little */

typedef struct unit {
    float value;
    int32_t offset;
} unit;

/* Workspace: the active units of a strip of pooled rows. */
typedef struct lists {
    int64_t strip;   /* most pooled rows */
    unit *by_filter; /* [filters][strip * columns] */
    int32_t *count;  /* [filters] */
    unit *by_window; /* window by window, place by place; and room for one more */
    int32_t *end;    /* [strip * columns][places]: in by_window */
} lists;

static int64_t vector_block_strip_of(const lki_block_shape *s)
{
    const int64_t row = s->in_columns * s->channels * (int64_t)sizeof(float);
    const int64_t under = STRIP_BYTES / row - s->kernel[0] + 1; /* rows of the convolution */
    const int64_t rows = (under - s->window + s->step) / s->step;
    return rows < 1 ? 1 : rows < s->rows ? rows : s->rows;
}

INLINE int64_t places_of(const lki_block_shape *s)
{
    return s->window * s->window;
}

static lists lists_in(const lki_block_shape *s, char *memory)
{
    lists l = {.strip = vector_block_strip_of(s)};
    const size_t windows = (size_t)(l.strip * s->columns), filters = (size_t)s->filters;
    l.by_filter = (unit *)(void *)memory;
    l.by_window = l.by_filter + windows * filters;
    l.count = (int32_t *)(void *)(l.by_window + windows * filters + 1);
    l.end = l.count + filters;
    return l;
}

/* Of a filter in the packed weight. */
INLINE int64_t filter_floats(const lki_block_shape *s)
{
    return block_run_padded(s) * (block_together(s) ? s->kernel[0] : 1);
}

/* Of pooled pixel `position`: where x is under its first place, and from place to place. */
INLINE int32_t under_window(const lki_block_shape *s, int64_t position)
{
    const int64_t r = position / s->columns, c = position % s->columns;
    return (int32_t)((r * s->in_columns + c) * s->step * s->channels);
}
INLINE int32_t under_place(const lki_block_shape *s, int64_t place)
{
    return (int32_t)((place / s->window * s->in_columns + place % s->window) * s->channels);
}

/* One window: its active units into both lists, places in ascending order; and into the bias. */
INLINE int32_t gather_window(const int places, const lki_block_shape *s,
                             const lki_block_backward *b, const int32_t *from_place, lists *l,
                             double *bias, int64_t window, int64_t position, int32_t used)
{
    const int64_t size = filter_floats(s), room = l->strip * s->columns;
    const uint8_t *where = b->where + position * lki_block_where(s);
    const float *d_out = b->d_out + position * s->filters;
    const int32_t base = under_window(s, position);
    for (int place = 0; place < places; place++) {
        const int32_t under = base + from_place[place];
        for (int64_t f = 0; f < s->filters; f += 32) {
            uint32_t bits = bytes_equal(where + f, (uint8_t)place);
            if (s->filters - f < 32) bits &= (1u << (s->filters - f)) - 1;
            for (; bits != 0; bits &= bits - 1) {
                const int64_t filter = f + __builtin_ctz(bits);
                const float value = d_out[filter] * b->scale;
                l->by_window[used++] = (unit){.value = value, .offset = (int32_t)(filter * size)};
                l->by_filter[filter * room + l->count[filter]++] = (unit){.value = value,
                                                                          .offset = under};
                if (bias != NULL) bias[filter] += (double)value;
            }
        }
        l->end[window * places + place] = used;
    }
    return used;
}

/* The list by windows of few filters, without a branch: a unit that is elsewhere or off is written as well, and
 * the next one over it. */
static void gather_windows(const lki_block_shape *s, const lki_block_backward *b, lists *l,
                           int64_t first, int64_t windows)
{
    int32_t used = 0, *end = l->end;
    unit units[32];
    for (int64_t w = first; w < first + windows; w++) {
        const uint8_t *where = b->where + w * lki_block_where(s);
        for (int64_t f = 0; f < s->filters; f++)
            units[f] = (unit){.value = b->d_out[w * s->filters + f] * b->scale,
                              .offset = (int32_t)(f * filter_floats(s))};
        for (int place = 0; place < places_of(s); place++) {
            for (int64_t f = 0; f < s->filters; f++) {
                l->by_window[used] = units[f];
                used += where[f] == place;
            }
            *end++ = used;
        }
    }
}

/* The list by filters of n <= LANES filters from f on, and their bias, without a branch: a unit that is off
 * is written as well, and the next one over it. */
static void gather_filters(const lki_block_shape *s, const lki_block_backward *b, lists *l,
                           double *bias, int64_t first, int64_t windows, int64_t f, int64_t n)
{
    const vf scale = vf_set(b->scale);
    double sum[LANES] = {0};
    unit *to[LANES];
    int32_t under[LKI_BLOCK_OFF] = {0};
    for (int i = 0; i < places_of(s); i++) under[i] = under_place(s, i);
    for (int64_t i = 0; i < n; i++) {
        to[i] = l->by_filter + (f + i) * l->strip * s->columns;
        sum[i] = bias[f + i];
    }
    vd low = vd_load(sum), high = vd_load(sum + LANES / 2);
    for (int64_t w = first; w < first + windows; w++) {
        const int32_t base = under_window(s, w);
        const uint8_t *where = b->where + w * lki_block_where(s) + f;
        const vm on = vm_equal(vi_from_bytes(where) & vi_set(LKI_BLOCK_OFF), vi_set(0));
        const vf all = vf_get(b->d_out + w * s->filters + f, n) * scale;
        const vf value = vf_blend(on, all, vf_zero());
        float values[LANES];
        vf_store(values, value);
        low += vf_low(value);
        high += vf_high(value);
        for (int64_t i = 0; i < n; i++) {
            const uint32_t at = where[i];
            *to[i] = (unit){.value = values[i], .offset = base + under[at % LKI_BLOCK_OFF]};
            to[i] += 1 - at / LKI_BLOCK_OFF;
        }
    }
    vd_store(sum, low);
    vd_store(sum + LANES / 2, high);
    for (int64_t i = 0; i < n; i++) {
        l->count[f + i] = (int32_t)(to[i] - (l->by_filter + (f + i) * l->strip * s->columns));
        bias[f + i] = sum[i];
    }
}

/* Where few filters fill no 32 bits, half of them may be active, as of a first convolution, which needs no list by
 * windows: branches would not be foreseen. */
static void gather(const lki_block_shape *s, const lki_block_backward *b, lists *l, double *bias,
                   int64_t first, int64_t windows)
{
    const bool few = (s->filters < 32 || b->d_x == NULL) && bias != NULL;
    memset(l->count, 0, sizeof(int32_t) * (size_t)s->filters);
    FOR_VECTORS(f, n, few ? s->filters : 0) gather_filters(s, b, l, bias, first, windows, f, n);
    if (few && b->d_x != NULL) gather_windows(s, b, l, first, windows);
    int32_t used = 0;
    int32_t under[MOST_PLACES];
    for (int i = 0; i < places_of(s); i++) under[i] = under_place(s, i);
    for (int64_t w = 0; !few && w < windows; w++)
        used = s->window == 2 ? gather_window(4, s, b, under, l, bias, w, first + w, used)
                              : gather_window(9, s, b, under, l, bias, w, first + w, used);
}

#endif
