#include "numeric/eigen.h"

#include <math.h>
#include <stdbool.h>

/* Rotations about all pairs of axes square what is left beside the diagonal, once it is small; ten rounds are many. */
enum { ROUNDS = 40 };

/* Rows p and q, which stand `step` apart from element to element: c*p - s*q and s*p + c*q. */
static void rotate(double *p, double *q, int n, int step, double c, double s)
{
    for (int i = 0; i < n; i++, p += step, q += step) {
        const double x = *p, y = *q;
        *p = c * x - s * y;
        *q = s * x + c * y;
    }
}

/* Makes a[p][q] zero. */
static void eliminate(double *a, double *vector, int n, int p, int q)
{
    const double tau = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    const double t = (tau >= 0 ? 1 : -1) / (fabs(tau) + sqrt(1 + tau * tau));
    const double c = 1 / sqrt(1 + t * t), s = t * c;
    rotate(a + p * n, a + q * n, n, 1, c, s);
    rotate(a + p, a + q, n, n, c, s);
    rotate(vector + p * n, vector + q * n, n, 1, c, s);
    a[p * n + q] = a[q * n + p] = 0;
}

/* Whether an element is nothing beside those of the diagonal in its row and column. */
static bool is_nothing(const double *a, int n, int p, int q)
{
    const double size = fabs(a[p * n + p]) + fabs(a[q * n + q]), x = fabs(a[p * n + q]);
    return size + x * 0x1p10 == size;
}

static void swap(double *x, double *y, int n)
{
    for (int i = 0; i < n; i++) {
        const double kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* Descending; the sign of each vector as it is promised. */
static void order(double *value, double *vector, int n)
{
    for (int i = 0; i < n; i++) {
        int most = i;
        for (int k = i + 1; k < n; k++)
            if (value[k] > value[most]) most = k;
        swap(value + i, value + most, 1);
        swap(vector + i * n, vector + most * n, n);
        int largest = 0;
        for (int k = 1; k < n; k++)
            if (fabs(vector[i * n + k]) > fabs(vector[i * n + largest])) largest = k;
        const double sign = vector[i * n + largest] < 0 ? -1 : 1;
        for (int k = 0; k < n; k++) vector[i * n + k] *= sign;
    }
}

void lki_eigen_symmetric(double *a, double *value, double *vector, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            if (k > i) a[i * n + k] = a[k * n + i];
            vector[i * n + k] = i == k ? 1 : 0;
        }
    bool left = true;
    for (int round = 0; round < ROUNDS && left; round++) {
        left = false;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                if (is_nothing(a, n, p, q)) continue;
                eliminate(a, vector, n, p, q);
                left = true;
            }
    }
    for (int i = 0; i < n; i++) value[i] = a[i * n + i];
    order(value, vector, n);
}
