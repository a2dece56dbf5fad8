/*
 * The backward pass of block.c. What is not 0 are the units at the places of maxima that relu and dropout
 * leave: they go into lists, and everything is one loop (sum_runs): runs of accumulators in registers, and
 * for each active unit of a list, value * run is added to them.
 *
 *              accumulators            list of (value, offset)      offset finds
 *   d_weight   [filter][kernel row]    units of this filter         the pixels under the unit in x
 *   d_x        a pixel, a row below    units of this window with    the run of that filter in the
 *                                      the maximum at one place     weight
 *
 * d_weight and d_bias take units in ascending position through the images of the replica. Pooled rows
 * come in strips, by a rule of the shape, and strips that together have 256 windows or more, if the last
 * of an image were whole, are a block: one accumulator from +0 for each element of d_weight. Blocks are
 * added in double, and so are all units of d_bias. Borders lie between strips, so whether a unit is
 * active moves none.
 *
 *   images   [ 0                      | 1                      | 2 ...
 *   strips     0      1      2      3   4      5      6      7   8      12 x 12 windows, 36 a strip
 *   blocks   [ 0 ............................................. | 1 ...  8 * 36 >= 256
 *
 * d_x: for each window and place, ascending, the sum over the units of this place, one accumulator from +0,
 * is added to the pixels: for all kernel rows at once where block_together() says so, else kernel row by kernel row
 * of a strip, for the weight's part of a kernel row to stay in the nearest cache.
 */
#include "backend/cpu/vector/conv/block_lists.h"

enum {
    WINDOWS = 256, /* of a block of d_weight, at least */
    MOST = 14      /* accumulators */
};

size_t LKI_ISA_NAME(lki_block_backward_bytes)(const lki_block_shape *s)
{
    const size_t windows = (size_t)(vector_block_strip_of(s) * s->columns),
                 filters = (size_t)s->filters;
    return (2 * windows * filters + 1) * sizeof(unit) +
           (filters + windows * (size_t)places_of(s)) * sizeof(int32_t);
}

/* Sums of a replica: of the weight [filter][kernel row][run], in floats the unfinished block, in doubles
 * the total of the blocks before it; of the bias [filter], in doubles. */
typedef struct sums {
    float *block;
    double *total, *bias;
    bool begins, ends; /* a block, with this strip */
    bool only;         /* no block of the replica came before its */
} sums;

/* The gradient of the bias will lie behind that of the weight. */
size_t LKI_ISA_NAME(lki_block_sums_bytes)(const lki_block_shape *s)
{
    return (size_t)(block_weights(s) + s->filters) * (sizeof(float) + sizeof(double));
}

/* Strips of an image, and of a block. */
static int64_t strips_of(const lki_block_shape *s)
{
    return (s->rows + vector_block_strip_of(s) - 1) / vector_block_strip_of(s);
}

static int64_t block_strips(const lki_block_shape *s)
{
    const int64_t windows = vector_block_strip_of(s) * s->columns;
    return (WINDOWS + windows - 1) / windows;
}

/* As the replica's strip of this number finds them. */
static sums sums_at(const lki_block_shape *s, void *memory, int64_t strip)
{
    const int64_t each = block_strips(s);
    double *total = memory;
    return (sums){.total = total,
                  .bias = total + block_weights(s),
                  .block = (float *)(void *)(total + block_weights(s) + s->filters),
                  .begins = strip % each == 0,
                  .ends = strip % each == each - 1,
                  .only = strip < each};
}

INLINE void zero_runs(const int count, vf *acc)
{
    UNROLL for (int i = 0; i < count; i++) acc[i] = vf_zero();
}

/* acc[r][v] += value * from[offset + r * row + v ...] for every unit, in their order. */
INLINE void sum_runs(const int R, const int V, vf *acc, const unit *list, int64_t count,
                     const float *from, int64_t row)
{
    for (int64_t n = 0; n < count; n++) {
        const vf value = vf_set(list[n].value);
        const float *run = from + list[n].offset;
        __asm__("" : "+r"(run)); /* one address and constants, not R * V addresses */
        UNROLL for (int r = 0; r < R; r++)
        {
            UNROLL for (int v = 0; v < V; v++)
                acc[r * V + v] = vf_fma(value, vf_load(run + r * row + v * LANES), acc[r * V + v]);
        }
    }
}

/* All kernel rows' runs are cut into pieces that registers hold: so many vectors of so many rows. */
typedef struct piece {
    int64_t row, rows, at, vectors;
} piece;

/* The first piece, or the one after p; false behind the last. */
INLINE bool next_piece(piece *p, int64_t rows, int64_t vectors)
{
    const int64_t three = LANES == 16 || TILE_ROWS == 12
                              ? 7
                              : 5; /* of two vectors: 14 registers, or 10 */
    p->row += p->rows;
    if (p->row == rows) {
        p->row = 0;
        p->at += p->vectors;
    }
    const int64_t v = vectors - p->at, r = rows - p->row;
    if (v == 0) return false;
    p->vectors = v >= 12 ? 12 : v >= 8 ? 8 : v >= 6 ? 6 : v >= 4 ? 4 : v >= 2 ? 2 : 1;
    const int64_t most = v >= 6 ? 1 : v >= 4 ? 3 : v >= 2 ? three : 7;
    p->rows = r >= 7 && most >= 7 ? 7 : r >= 5 && most >= 5 ? 5 : r >= 3 && most >= 3 ? 3 : 1;
    return true;
}

/* In a switch: F(rows, vectors) of the piece. */
#define PIECE(p) ((p).vectors * 8 + (p).rows)
#define PIECE_CASE(F, R, V)                                                                        \
    case V * 8 + R:                                                                                \
        F(R, V);                                                                                   \
        break;
// clang-format off
#define PIECE_CASES(F)                                                                             \
    PIECE_CASE(F, 1, 1) PIECE_CASE(F, 3, 1) PIECE_CASE(F, 5, 1) PIECE_CASE(F, 7, 1)                \
    PIECE_CASE(F, 1, 2) PIECE_CASE(F, 3, 2) PIECE_CASE(F, 5, 2) PIECE_CASE(F, 7, 2)                \
    PIECE_CASE(F, 1, 4) PIECE_CASE(F, 3, 4)                                                        \
    PIECE_CASE(F, 1, 6) PIECE_CASE(F, 1, 8) PIECE_CASE(F, 1, 12)
// clang-format on

/* A piece of the gradient of all filters' weights. */
INLINE void weight_piece(const int R, const int V, const lki_block_shape *s,
                         const lki_block_backward *b, const lists *l, const sums *to,
                         const piece *p)
{
    const int64_t run = block_run_padded(s), room = l->strip * s->columns;
    const int64_t row = s->in_columns * s->channels;
    for (int64_t f = 0; f < s->filters; f++) {
        const int64_t place = (f * s->kernel[0] + p->row) * run + p->at * LANES;
        float *block = to->block + place;
        double *total = to->total + place;
        vf acc[MOST];
        if (to->begins)
            zero_runs(R * V, acc);
        else
            UNROLL for (int i = 0; i < R * V; i++)
                acc[i] = vf_load(block + i / V * run + i % V * LANES);
        sum_runs(R, V, acc, l->by_filter + f * room, l->count[f],
                 b->x + p->row * row + p->at * LANES, row);
        UNROLL for (int i = 0; i < R * V; i++)
        {
            if (to->ends)
                vf_fold(total + i / V * run + i % V * LANES, acc[i], to->only);
            else
                vf_store(block + i / V * run + i % V * LANES, acc[i]);
        }
    }
}

static void strip_weight(const lki_block_shape *s, const lki_block_backward *b, const lists *l,
                         const sums *to)
{
    for (piece p = {0}; next_piece(&p, s->kernel[0], block_run_padded(s) / LANES);) {
#define WEIGHT(R, V) weight_piece(R, V, s, b, l, to, &p)
        switch (PIECE(p)) {
            PIECE_CASES(WEIGHT)
        }
#undef WEIGHT
    }
}

/* d_x += the sum of these units, for rows of V vectors, of whose last `tail` lanes are the run's. */
INLINE void data_piece(const int R, const int V, float *d_x, int64_t d_row, const unit *list,
                       int64_t count, const float *weight, int64_t row, int64_t tail)
{
    vf acc[MOST];
    zero_runs(R * V, acc);
    sum_runs(R, V, acc, list, count, weight, row);
    UNROLL for (int r = 0; r < R; r++)
    {
        UNROLL for (int v = 0; v < V; v++)
        {
            float *to = d_x + r * d_row + v * LANES;
            vf_put(to, vf_load(to) + acc[r * V + v], v < V - 1 ? LANES : tail);
        }
    }
}

/* All kernel rows from kh on, or that one alone. */
INLINE void data_pieces(const lki_block_shape *s, float *d_x, const unit *list, int64_t count,
                        const float *weight, int64_t rows)
{
    const int64_t run = block_run_padded(s), tail = block_run(s) - run + LANES;
    const int64_t d_row = s->in_columns * s->channels;
    for (piece p = {0}; next_piece(&p, rows, run / LANES);) {
        float *to = d_x + p.row * d_row + p.at * LANES;
        const float *from = weight + p.row * run + p.at * LANES;
        const int64_t rest = (p.at + p.vectors) * LANES == run ? tail : LANES;
#define DATA(R, V) data_piece(R, V, to, d_row, list, count, from, run, rest)
        switch (PIECE(p)) {
            PIECE_CASES(DATA)
        }
#undef DATA
    }
}

/* d_x under the windows of pooled rows [first, first + rows), for kernel rows [kh, kh + together). V: vectors
 * of a run without a tail of one kernel row, a constant where registers hold it; 0: any. */
INLINE void data_runs(const int V, const lki_block_shape *s, const lki_block_backward *b,
                      const lists *l, int64_t first, int64_t rows, int64_t kh, int64_t together)
{
    const float *weight = (const float *)b->packed + block_forward_floats(s);
    weight += kh * s->filters * block_run_padded(s);
    const int32_t *end = l->end;
    int32_t begin = 0;
    int32_t under[MOST_PLACES];
    for (int i = 0; i < places_of(s); i++) under[i] = under_place(s, i);
    const int places = (int)places_of(s);
    for (int64_t w = first * s->columns; w < (first + rows) * s->columns; w++) {
        float *window = b->d_x + under_window(s, w) + kh * s->in_columns * s->channels;
        for (int place = 0; place < places; begin = *end++, place++) {
            float *d_x = window + under[place];
            const unit *list = l->by_window + begin;
            const int64_t count = *end - begin;
            if (count == 0) continue;
            if (V > 0)
                data_piece(1, V, d_x, 0, list, count, weight, 0, LANES);
            else
                data_pieces(s, d_x, list, count, weight, together);
        }
    }
}

static void strip_data(const lki_block_shape *s, const lki_block_backward *b, const lists *l,
                       int64_t first, int64_t rows)
{
    if (block_together(s)) {
        data_runs(0, s, b, l, first, rows, 0, s->kernel[0]);
        return;
    }
    for (int64_t kh = 0; kh < s->kernel[0]; kh++)
        switch (block_run(s) % LANES == 0 ? block_run(s) / LANES : 0) {
        case 12:
            data_runs(12, s, b, l, first, rows, kh, 1);
            break;
        case 6:
            data_runs(6, s, b, l, first, rows, kh, 1);
            break;
        default:
            data_runs(0, s, b, l, first, rows, kh, 1);
        }
}

/* Pixels [first, last) of d_x, which no strip after this one adds to. */
static void vector_block_flush(const lki_block_shape *s, float *d_x, int64_t first, int64_t last)
{
    float *from = d_x + first * s->channels;
    FOR_VECTORS(i, n, (last - first) * s->channels)
    vf_put(from + i, vf_flush(vf_get(from + i, n)), n);
}

void LKI_ISA_NAME(lki_block_backward)(const lki_block_shape *s, const lki_block_backward *b)
{
    lists l = lists_in(s, b->workspace);
    int64_t strip = b->sample * strips_of(s);
    for (int64_t first = 0; first < s->rows; first += l.strip, strip++) {
        const bool last = s->rows - first <= l.strip;
        const int64_t rows = last ? s->rows - first : l.strip, windows = rows * s->columns;
        const sums to = b->sums != NULL ? sums_at(s, b->sums, strip) : (sums){0};
        if (b->sums != NULL && strip == 0) memset(to.bias, 0, sizeof(double) * (size_t)s->filters);
        gather(s, b, &l, to.bias, first * s->columns, windows);
        if (b->sums != NULL) strip_weight(s, b, &l, &to);
        if (b->d_x == NULL) continue;
        strip_data(s, b, &l, first, rows);
        vector_block_flush(s, b->d_x, s->step * first * s->in_columns,
                           (last ? s->in_rows : s->step * (first + rows)) * s->in_columns);
    }
}

/* In place: runs, which filled whole vectors, side by side. */
static void close_runs(const lki_block_shape *s, float *weight)
{
    const int64_t run = block_run(s), padded = block_run_padded(s);
    for (int64_t i = 1; padded > run && i < s->filters * s->kernel[0]; i++)
        memmove(weight + i * run, weight + i * padded, sizeof(float) * (size_t)run);
}

const float *LKI_ISA_NAME(lki_block_gradient)(const lki_block_shape *s, int64_t samples,
                                              void *memory)
{
    const int64_t strips = samples * strips_of(s), each = block_strips(s);
    const sums all = sums_at(s, memory, 0);
    for (int64_t i = 0; i < block_weights(s); i += LANES) {
        vf v = strips % each != 0 ? vf_load(all.block + i) : vf_zero();
        if (strips >= each) v = vf_total(all.total + i, v);
        vf_store(all.block + i, vf_flush(v));
    }
    close_runs(s, all.block);
    float *bias = all.block + s->filters * s->kernel[0] * block_run(s);
    for (int64_t f = 0; f < s->filters; f++) bias[f] = lki_flush((float)all.bias[f]);
    return all.block;
}
