/*
 * Bounds on the difference between a backend and ref: convolutions by Winograd's algorithm, y = A' [sum over
 * channels of U * V] A with U = G g G' and V = B' d B (docs/numerics.md, 3).
 *
 * A transform in two passes errs by r roundings of each term at most, in each pass, so by 2 r u |B'| |d| |B|
 * (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1): r is 1 for B of size 4, 2
 * for B of size 6 (two fused multiply-adds in turn), 2 and 3 for A. U is rounded once. The products are summed as
 * bounds_sums.c says, and errors of all size^2 sums meet in y:
 *
 *     |error| <= u [(2 r_B + 1) |A'| (sum |G| |g| |G'| * |B'| |d| |B|) |A| + 2 r_A S] + product_bound(S, Q)
 *     S = |A'| (sum |U * V|) |A|,    Q = (A * A)' (sum (U * V)^2) (A * A)          * element by element
 *
 * The gradient of the weight, G' [sum over tiles of V * Y] G with Y = A dy A', likewise: Y errs as V does, the sum over
 * tiles is rounded, and G is applied in double.
 *
 * The last tile along an axis, of n < side pixels, has side - n points less, and so an A and a B of its own; r is 3 for B of
 * five points. Its places without a point are zeros here.
 *
 * The factor 1.1 covers products of u and the roundings of S and Q.
 */
#include "check/bounds.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "core/winograd.h"

enum { MOST = 6, MOST_TAPS = 5 };

/* A convolution of images x of `depth` channels to `columns`, kernel x kernel taps; those of a pair lie at weight + depth *
 * depth_step + column * column_step. */
typedef struct pass {
    int side, kernel;
    int64_t depth, columns, in[2], out[2], before[2];
    const float *x, *weight;
    int64_t depth_step, column_step;
    bool reversed;
} pass;

typedef struct matrices {
    int size;
    double a[MOST][4], b[MOST][MOST], g[MOST][MOST_TAPS]; /* A, B' and G */
} matrices;

static const matrices WHOLE_2 = {
    .size = 4,
    .a = {{1, 0}, {1, 1}, {1, -1}, {0, -1}},
    .b = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
    .g = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
};

/* Those of the whole tile with six points, 0, p, -p, q, -q and infinity. */
static matrices whole_6(int side)
{
    const int kernel = 7 - side;
    const double points[5] = {0, 0.75, -0.75, 1.5, -1.5}, p = 0.5625, q = 2.25;
    matrices m = {.size = 6};
    for (int i = 0; i < 5; i++) {
        const double x = points[i], other = i < 3 ? q : p;
        double scale = 1, power = 1;
        for (int k = 0; k < 5; k++) scale *= k == i ? 1 : x - points[k];
        for (int k = 0; k < MOST_TAPS; k++, power *= x) {
            if (k < side) m.a[i][k] = power;
            if (k < kernel) m.g[i][k] = power / scale;
        }
        if (i == 0) continue;
        m.b[i][1] = -other * x, m.b[i][2] = -other, m.b[i][3] = x, m.b[i][4] = 1;
    }
    for (int i = 0; i < 2; i++) {
        m.b[5 * i][i] = p * q, m.b[5 * i][2 + i] = -(p + q), m.b[5 * i][4 + i] = 1;
    }
    m.a[5][side - 1] = m.g[5][kernel - 1] = 1;
    return m;
}

/* Those of a tile of n pixels: B' has the polynomials of its finite points, times the differences to points that it
 * has not, as G stays. Rows of points that are missing are 0. */
static matrices part_of(int side, int kernel, int n)
{
    static const double points[2][5] = {{0, 1, -1}, {0, 0.75, -0.75, 1.5, -1.5}};
    const bool four = side + kernel - 1 == 4;
    const matrices whole = four ? WHOLE_2 : whole_6(side);
    const int last = whole.size - 1, most = n + kernel - 3; /* the last finite point */
    const double *x = points[!four], sign = four ? -1 : 1;
    matrices m = {.size = whole.size};
    if (n == side) return whole;
    memcpy(m.g, whole.g, sizeof m.g);
    for (int i = 0; i <= last; i++) {
        double *b = m.b[i];
        if (i > most && i < last) continue;
        b[0] = i == 0 || i == last ? sign : 1;
        for (int k = 0, degree = 0; k <= most; k++) {
            if (k == i) continue;
            for (int j = ++degree; j > 0; j--) b[j] = b[j - 1] - x[k] * b[j];
            b[0] *= -x[k];
        }
        for (int k = most + 1; k < last && i < last; k++)
            for (int j = 0; j <= most; j++) b[j] *= x[i] - x[k];
        for (int k = 0; k < n && i < last; k++) m.a[i][k] = whole.a[i][k];
    }
    m.a[last][n - 1] = sign;
    return m;
}

/* Of a tile, along rows and columns. */
typedef struct ways {
    matrices m[2];
    int pixels[2];
} ways;

static ways ways_of(const pass *w, int64_t row, int64_t column)
{
    const int64_t left[2] = {w->out[0] - row, w->out[1] - column};
    ways all;
    for (int i = 0; i < 2; i++) {
        all.pixels[i] = left[i] < w->side ? (int)left[i] : w->side;
        all.m[i] = part_of(w->side, w->kernel, all.pixels[i]);
    }
    return all;
}

/* L x R', rows x columns of x `columns` wide, where L and R are `rows` by `columns` with rows of `step`; with their
 * absolute values if `sizes`. */
static void both_ways(const double *left, const double *right, int step, int rows, int columns,
                      bool sizes, const double *x, double *out)
{
    double half[MOST][MOST] = {{0}};
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            for (int k = 0; k < columns; k++) {
                const double l = left[i * step + k], v = x[k * columns + j];
                half[i][j] += sizes ? fabs(l * v) : l * v;
            }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++) {
            out[i * rows + j] = 0;
            for (int k = 0; k < columns; k++) {
                const double r = right[j * step + k];
                out[i * rows + j] += sizes ? fabs(r) * half[i][k] : r * half[i][k];
            }
        }
}

/* A patch or the taps of a filter, transformed: values and sizes. */
typedef struct square {
    double value[MOST * MOST], size[MOST * MOST];
} square;

static void transform(const double *left, const double *right, int step, int rows, int columns,
                      const double *x, square *out)
{
    both_ways(left, right, step, rows, columns, false, x, out->value);
    both_ways(left, right, step, rows, columns, true, x, out->size);
}

static void patch(const pass *w, const ways *m, const float *image, int64_t depth, int64_t row,
                  int64_t column, square *out)
{
    const int size = m->m[0].size;
    double d[MOST * MOST];
    for (int i = 0; i < size * size; i++) {
        const int64_t y = row + i / size, x = column + i % size;
        const bool there = y >= 0 && y < w->in[0] && x >= 0 && x < w->in[1];
        d[i] = there ? (double)image[(y * w->in[1] + x) * w->depth + depth] : 0.0;
    }
    transform(&m->m[0].b[0][0], &m->m[1].b[0][0], MOST, size, size, d, out);
}

static void taps(const pass *w, const matrices *m, int64_t depth, int64_t column, square *out)
{
    const float *from = w->weight + depth * w->depth_step + column * w->column_step;
    const int all = w->kernel * w->kernel;
    double g[MOST_TAPS * MOST_TAPS];
    for (int t = 0; t < all; t++) g[t] = (double)from[w->reversed ? all - 1 - t : t];
    transform(&m->g[0][0], &m->g[0][0], MOST_TAPS, m->size, w->kernel, g, out);
}

/* What B's transform of a tile errs by, in roundings along both ways. */
static double rounded_in(const pass *w, const ways *m)
{
    double sum = 0;
    for (int i = 0; i < 2; i++)
        sum += m->m[i].size == 4 ? 1 : m->pixels[i] + w->kernel - 1 == 5 ? 3 : 2;
    return sum;
}

/* A pixel (i, j) of a tile: weighted sums over the places. */
static double pixel_bound(const pass *w, const ways *m, int i, int j, const double *loose,
                          const double *tight, const double *squares)
{
    const int size = m->m[0].size;
    const double out = size == 4 ? 2 : 3;
    double all = 0, magnitude = 0, sum = 0;
    for (int p = 0; p < size * size; p++) {
        const double gain = fabs(m->m[0].a[p / size][i] * m->m[1].a[p % size][j]);
        all += gain * loose[p];
        magnitude += gain * tight[p];
        sum += gain * gain * squares[p];
    }
    return 1.1 * LKI_U * ((rounded_in(w, m) + 1) * all + 2 * out * magnitude) +
           lki_products_bound((double)w->depth, magnitude, sum);
}

static void add_tile(const pass *w, const ways *m, const square *v, const square *u, int64_t row,
                     int64_t column, double *bound)
{
    const int places = m->m[0].size * m->m[0].size;
    for (int64_t f = 0; f < w->columns; f++) {
        double loose[MOST * MOST] = {0}, tight[MOST * MOST] = {0}, squares[MOST * MOST] = {0};
        for (int64_t d = 0; d < w->depth; d++)
            for (int p = 0; p < places; p++) {
                const square *one = &u[d * w->columns + f];
                const double product = v[d].value[p] * one->value[p];
                loose[p] += v[d].size[p] * one->size[p];
                tight[p] += fabs(product);
                squares[p] += product * product;
            }
        for (int i = 0; i < m->pixels[0]; i++)
            for (int j = 0; j < m->pixels[1]; j++)
                bound[((row + i) * w->out[1] + column + j) * w->columns + f] += pixel_bound(
                    w, m, i, j, loose, tight, squares);
    }
}

static lks_status add_pass(lki_trial *c, const pass *w, double *bound)
{
    const matrices whole = part_of(w->side, w->kernel, w->side);
    void *memory;
    LKI_TRY(lki_trial_memory(c, &memory, (size_t)(w->depth * (w->columns + 1)) * sizeof(square)));
    square *u = memory, *v = u + w->depth * w->columns;
    for (int64_t d = 0; d < w->depth; d++)
        for (int64_t f = 0; f < w->columns; f++) taps(w, &whole, d, f, &u[d * w->columns + f]);
    for (int64_t n = 0; n < c->count; n++)
        for (int64_t row = 0; row < w->out[0]; row += w->side)
            for (int64_t column = 0; column < w->out[1]; column += w->side) {
                const ways m = ways_of(w, row, column);
                for (int64_t d = 0; d < w->depth; d++)
                    patch(w, &m, w->x + n * w->in[0] * w->in[1] * w->depth, d, row - w->before[0],
                          column - w->before[1], &v[d]);
                add_tile(w, &m, v, u, row, column, bound + n * w->out[0] * w->out[1] * w->columns);
            }
    return LKS_OK;
}

/* A y of a tile, in the place of a patch. */
static void gradient(const pass *w, const ways *m, const float *d_y, int64_t column, int64_t row,
                     int64_t first, square *out)
{
    double d[MOST * MOST] = {0};
    for (int i = 0; i < m->pixels[0]; i++)
        for (int j = 0; j < m->pixels[1]; j++)
            d[i * w->side + j] = (double)
                d_y[((row + i) * w->out[1] + first + j) * w->columns + column];
    transform(&m->m[0].a[0][0], &m->m[1].a[0][0], 4, m->m[0].size, w->side, d, out);
}

/* The sums of one channel and filter over all tiles. */
typedef struct weight_sums {
    double loose[MOST * MOST], tight[MOST * MOST], squares[MOST * MOST];
} weight_sums;

static void add_image(const pass *w, const float *image, const float *d_y, square *v, square *y,
                      weight_sums *sums)
{
    for (int64_t row = 0; row < w->out[0]; row += w->side)
        for (int64_t column = 0; column < w->out[1]; column += w->side) {
            const ways m = ways_of(w, row, column);
            for (int64_t d = 0; d < w->depth; d++)
                patch(w, &m, image, d, row - w->before[0], column - w->before[1], &v[d]);
            for (int64_t f = 0; f < w->columns; f++) gradient(w, &m, d_y, f, row, column, &y[f]);
            for (int64_t k = 0; k < w->depth * w->columns; k++)
                for (int p = 0; p < m.m[0].size * m.m[0].size; p++) {
                    const square *a = &v[k / w->columns], *b = &y[k % w->columns];
                    const double product = a->value[p] * b->value[p];
                    sums[k].loose[p] += a->size[p] * b->size[p];
                    sums[k].tight[p] += fabs(product);
                    sums[k].squares[p] += product * product;
                }
        }
}

/* The gradient of the weight, of 3 x 3 taps: r is 1 and 3 for A here, and dU is rounded once more. */
static lks_status add_weight(lki_trial *c, const pass *w, double *bound)
{
    const matrices m = part_of(w->side, w->kernel, w->side);
    const int64_t pairs = w->depth * w->columns;
    const double rounded = w->side == 2 ? 2 * (1 + 1) : 2 * (3 + 3);
    const double tiles = (double)(c->count * ((w->out[0] + w->side - 1) / w->side) *
                                  ((w->out[1] + w->side - 1) / w->side));
    void *memory;
    LKI_TRY(lki_trial_memory(c, &memory, (size_t)(w->depth + w->columns) * sizeof(square)));
    square *v = memory, *y = v + w->depth;
    LKI_TRY(lki_trial_memory(c, &memory, (size_t)pairs * sizeof(weight_sums)));
    weight_sums *sums = memory;
    for (int64_t k = 0; k < pairs; k++) sums[k] = (weight_sums){0};
    for (int64_t n = 0; n < c->count; n++)
        add_image(w, w->x + n * w->in[0] * w->in[1] * w->depth,
                  c->d_out + n * w->out[0] * w->out[1] * w->columns, v, y, sums);
    for (int64_t k = 0; k < 9 * pairs; k++) {
        const int64_t f = k / 9 / w->depth, d = k / 9 % w->depth;
        const weight_sums *at = &sums[d * w->columns + f];
        double loose = 0, tight = 0, squares = 0;
        for (int p = 0; p < m.size * m.size; p++) {
            const double gain = fabs(m.g[p / m.size][k % 9 / 3] * m.g[p % m.size][k % 3]);
            loose += gain * at->loose[p];
            tight += gain * at->tight[p];
            squares += gain * gain * at->squares[p];
        }
        bound[k] += 1.1 * LKI_U * (rounded * loose + tight) +
                    lki_products_bound(tiles, tight, squares);
    }
    return LKS_OK;
}

/* Forward, the gradient of the weight, and that of the input, which is forward with reversed taps. */
static lks_status add_passes(lki_trial *c, int side, bool backward, bool wants_in, lki_bounds *out)
{
    const lki_node *node = lki_trial_first(c);
    const lks_conv2d_opts *opts = node->attr;
    const int64_t *in = node->in[0]->shape.dim, *to = node->out.shape.dim;
    const int64_t channels = in[2], filters = to[2], kernel = opts->kernel[0];
    const int64_t all = kernel * kernel;
    const pass forward = {.side = side,
                          .kernel = (int)kernel,
                          .depth = channels,
                          .columns = filters,
                          .in = {in[0], in[1]},
                          .out = {to[0], to[1]},
                          .before = {opts->padding[0], opts->padding[1]},
                          .x = c->in[0],
                          .weight = c->param[0],
                          .depth_step = all,
                          .column_step = all * channels};
    const pass back = {.side = side,
                       .kernel = (int)kernel,
                       .depth = filters,
                       .columns = channels,
                       .in = {to[0], to[1]},
                       .out = {in[0], in[1]},
                       .before = {kernel - 1 - opts->padding[0], kernel - 1 - opts->padding[1]},
                       .x = c->d_out,
                       .weight = c->param[0],
                       .depth_step = all * channels,
                       .column_step = all,
                       .reversed = true};

    LKI_TRY(add_pass(c, &forward, out->out));
    if (!backward) return LKS_OK;
    if (lki_winograd_has_weight(side, kernel, channels, filters))
        LKI_TRY(add_weight(c, &forward, out->d_param[0]));
    return wants_in ? add_pass(c, &back, out->d_in[0]) : LKS_OK;
}

lks_status lki_bounds_conv2d(lki_trial *c, bool backward, const lki_trial_result *ref,
                             lki_bounds *out)
{
    const int side = lki_winograd_side(lki_trial_first(c), &c->switches);

    LKI_TRY(lki_bounds_products(c, backward, ref, out));
    return side > 0 ? add_passes(c, side, backward, ref->d_in[0] != NULL, out) : LKS_OK;
}
