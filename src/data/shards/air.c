#include "data/shards/air.h"

#include "numeric/random.h"
#include "numeric/real.h"

enum { LAYERS = LKI_AIR_LAYERS, LEVELS = LKI_AIR_LEVELS, BANDS = 6, GASES = 9, AEROSOLS = 11 };

static const double gravity = 9.80665, gas_constant = 287.06, boltzmann = 5.670374419e-8,
                    diffusivity = 1.66;

/* Numbers in [0, 1) of a row, one after the other. */
typedef struct draw {
    uint64_t key;
    uint32_t counter[4], word[4];
    int used;
} draw;

static double next(draw *d)
{
    if (d->used % 4 == 0) {
        lki_philox(d->key, d->counter, d->word);
        d->counter[3]++;
    }
    return (double)d->word[d->used++ % 4] * 0x1p-32;
}

static double between(draw *d, double least, double most)
{
    return least + (most - least) * next(d);
}

typedef struct air {
    double pressure[LEVELS], temperature[LEVELS];
    double mass[LAYERS];                    /* kg/m2 */
    double warmth[LAYERS], overlap[LAYERS]; /* temperature; of the layer and that below */
    double vapour[LAYERS], ozone[LAYERS], liquid[LAYERS], ice[LAYERS], cover[LAYERS];
    double skin, zenith, irradiance, albedo[2][BANDS], emissivity[2], gas[GASES], aerosol[AEROSOLS];
} air;

/* ---------------------------------------------------------------- what is drawn */

static void draw_levels(air *a, draw *d)
{
    const double surface = between(d, 95000, 103000), ground = a->skin + between(d, -2, 2);
    const double above = between(d, 195, 220), bend = next(d);
    const double wave = between(d, 0, 3), turns = between(d, 1, 3), phase = next(d);
    for (int k = 0; k < LEVELS; k++) {
        const double s = (double)k / LAYERS, at = s * turns + phase;
        a->pressure[k] = 1 + (surface - 1) * (s * s);
        const double share = a->pressure[k] / surface; /* its square root is near s */
        a->temperature[k] = above + (ground - above) * (bend * s + (1 - bend) * share) +
                            wave * lki_sin_2pi(at - (double)(int)at);
    }
}

static double least_of(double a, double b)
{
    return a < b ? a : b;
}

/* Saturation by Tetens: 611 Pa exp(17.27 (T - 273.16) / (T - 35.86)). */
static double saturation(double temperature, double pressure)
{
    return 0.622 * 611 * lki_exp(17.27 * (temperature - 273.16) / (temperature - 35.86)) / pressure;
}

/* A parabola of 1 at its centre, 0 outside. */
static double hump(double s, double centre, double width)
{
    const double off = (s - centre) / width, h = 1 - off * off;
    return h > 0 ? h : 0;
}

static void draw_layers(air *a, draw *d)
{
    const double humidity = between(d, 0.2, 0.9), ozone = between(d, 4e-6, 1.2e-5);
    double centre[2], width[2], water[2], cover[2];
    for (int i = 0; i < 2; i++) {
        centre[i] = between(d, 0.5, 0.95);
        width[i] = between(d, 0.03, 0.1);
        water[i] = between(d, 0, 4e-4);
        cover[i] = between(d, -0.5, 1);
        if (cover[i] < 0) cover[i] = water[i] = 0; /* no cloud here */
    }
    for (int k = 0; k < LAYERS; k++) {
        const double s = (k + 0.5) / LAYERS, p = (a->pressure[k] + a->pressure[k + 1]) / 2;
        const double t = (a->temperature[k] + a->temperature[k + 1]) / 2;
        const double cold = (t - 250) / 23, warm = cold < 0 ? 0 : least_of(cold, 1);
        const double h[2] = {hump(s, centre[0], width[0]), hump(s, centre[1], width[1])};
        const double condensed = water[0] * h[0] + water[1] * h[1];
        a->warmth[k] = t;
        a->mass[k] = (a->pressure[k + 1] - a->pressure[k]) / gravity;
        a->vapour[k] = 3e-6 + least_of(humidity * (s * s) * saturation(t, p), 0.04 * s * s * s);
        a->ozone[k] = ozone / (1 + (s - 0.12) * (s - 0.12) * 250);
        a->cover[k] = least_of(cover[0] * h[0] + cover[1] * h[1], 1);
        a->liquid[k] = condensed * warm;
        a->ice[k] = condensed * (1 - warm);
        a->overlap[k] = lki_exp(-(gas_constant * t / gravity) * (a->mass[k] * gravity / p) / 2000);
    }
}

static void draw_air(air *a, draw *d)
{
    const double bright = between(d, 0.05, 0.6);
    a->skin = between(d, 250, 305);
    a->zenith = next(d);
    a->irradiance = between(d, 1320, 1412);
    for (int i = 0; i < 2; i++)
        for (int b = 0; b < BANDS; b++) a->albedo[i][b] = bright + between(d, -0.04, 0.04);
    for (int i = 0; i < 2; i++) a->emissivity[i] = between(d, 0.92, 1);
    for (int i = 0; i < GASES; i++) a->gas[i] = between(d, 0.9, 1.1);
    for (int i = 0; i < AEROSOLS; i++) a->aerosol[i] = 1e-8 * next(d);
    draw_levels(a, d);
    draw_layers(a, d);
}

/* ---------------------------------------------------------------- radiation */

/* Of grey layers that absorb and emit; from the top down, then from the ground up. */
static void longwave(const air *a, double down[LEVELS], double up[LEVELS])
{
    const double ground = (a->emissivity[0] + a->emissivity[1]) / 2;
    double passes[LAYERS], emits[LAYERS];
    down[0] = 0;
    for (int k = 0; k < LAYERS; k++) {
        const double square = a->warmth[k] * a->warmth[k], water = a->liquid[k] + a->ice[k];
        const double depth = a->mass[k] * (1.2e-4 * a->gas[0] + 0.1 * a->vapour[k] + 70 * water);
        passes[k] = lki_exp(-diffusivity * depth);
        emits[k] = (1 - passes[k]) * boltzmann * (square * square);
        down[k + 1] = down[k] * passes[k] + emits[k];
    }
    const double square = a->skin * a->skin;
    up[LAYERS] = ground * boltzmann * (square * square) + (1 - ground) * down[LAYERS];
    for (int k = LAYERS - 1; k >= 0; k--) up[k] = up[k + 1] * passes[k] + emits[k];
}

/* Layers that scatter, and absorb; reflection of all below a level is found from the ground up, by adding layers. */
static void shortwave(const air *a, double down[LEVELS], double up[LEVELS])
{
    double passes[LAYERS], below[LEVELS], ground = 0;
    for (int i = 0; i < 2; i++)
        for (int b = 0; b < BANDS; b++) ground += a->albedo[i][b] / (2 * BANDS);
    below[LAYERS] = ground;
    double reflects[LAYERS];
    for (int k = LAYERS - 1; k >= 0; k--) {
        const double slant = a->zenith > 0.05 ? a->zenith : 0.05;
        const double water = a->liquid[k] + a->ice[k];
        const double gone = a->mass[k] * (0.004 * a->vapour[k] + 3 * a->ozone[k]) / slant;
        const double scattered = a->mass[k] * (2e-5 + 0.15 * 120 * water);
        const double stays = lki_exp(-gone);
        reflects[k] = stays * scattered / (2 + scattered);
        passes[k] = stays * 2 / (2 + scattered);
        below[k] = reflects[k] +
                   passes[k] * passes[k] * below[k + 1] / (1 - reflects[k] * below[k + 1]);
    }
    down[0] = a->irradiance * a->zenith;
    for (int k = 0; k < LAYERS; k++)
        down[k + 1] = down[k] * passes[k] / (1 - reflects[k] * below[k + 1]);
    for (int k = 0; k < LEVELS; k++) up[k] = down[k] * below[k];
}

/* ---------------------------------------------------------------- a row */

static float *put(float *out, const double *values, int count)
{
    for (int i = 0; i < count; i++) *out++ = (float)values[i];
    return out;
}

/* A share of each layer's air that is the same everywhere below, and less above. */
static float *put_gas(float *out, double share)
{
    for (int k = 0; k < LAYERS; k++) {
        const double s = (k + 0.5) / LAYERS;
        *out++ = (float)(share * (s < 0.2 ? 0.5 + 2.5 * s : 1));
    }
    return out;
}

static float *put_profiles(float *x, const air *a)
{
    static const double usual[GASES] = {6e-4, 5e-7, 1e-6, 0.23, 1.2e-9, 2.3e-9, 7e-10, 5e-10, 1e-7};
    double radius[2][LAYERS];
    for (int k = 0; k < LAYERS; k++) {
        radius[0][k] = a->liquid[k] > 0 ? 4e-6 + 1e-5 * a->cover[k] : 4e-6;
        radius[1][k] = 2e-5 + 3e-7 * (a->warmth[k] - 190);
    }
    x = put(x, a->vapour, LAYERS);
    x = put(x, a->ozone, LAYERS);
    for (int i = 0; i < GASES; i++) x = put_gas(x, usual[i] * a->gas[i]);
    x = put(x, a->cover, LAYERS);
    x = put(x, a->liquid, LAYERS);
    x = put(x, a->ice, LAYERS);
    for (int i = 0; i < 2; i++) x = put(x, radius[i], LAYERS);
    for (int i = 0; i < AEROSOLS; i++) x = put_gas(x, a->aerosol[i]);
    return x;
}

void lki_air_column(uint64_t seed, int64_t row, float x[LKI_AIR_INPUTS], float y[LKI_AIR_OUTPUTS])
{
    air a;
    double down[LEVELS], up[LEVELS];
    draw d = {.key = lki_random_key(seed, "air", "column"),
              .counter = {(uint32_t)row, (uint32_t)((uint64_t)row >> 32)}};
    draw_air(&a, &d);
    x = put(x, a.temperature, LEVELS);
    x = put(x, a.pressure, LEVELS);
    x = put(x, a.overlap, LAYERS - 1);
    x = put(x, &a.skin, 1);
    x = put(x, &a.zenith, 1);
    x = put(x, a.albedo[0], BANDS);
    x = put(x, a.albedo[1], BANDS);
    x = put(x, a.emissivity, 2);
    x = put(x, &a.irradiance, 1);
    put_profiles(x, &a);
    shortwave(&a, down, up);
    y = put(put(y, down, LEVELS), up, LEVELS);
    longwave(&a, down, up);
    put(put(y, down, LEVELS), up, LEVELS);
}
