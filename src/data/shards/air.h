/*
 * Columns of air, drawn, and the radiation through them: a stand-in for the data of kosmoss (4,128 inputs, 552 outputs) with
 * its shapes, from a model of a few lines (docs/shards.md has its formulas). A row is a function of seed and number alone, of
 * exact operations and the functions of numeric/real.h: the same bits on every machine.
 */
#ifndef LKI_DATA_SHARDS_AIR_H
#define LKI_DATA_SHARDS_AIR_H

#include <stdint.h>

enum {
    LKI_AIR_LAYERS = 137,
    LKI_AIR_LEVELS = LKI_AIR_LAYERS + 1, /* between layers, from the top on */
    LKI_AIR_SCALARS = 17,
    LKI_AIR_PROFILES = 27,
    LKI_AIR_INPUTS = 2 * LKI_AIR_LEVELS + (LKI_AIR_LAYERS - 1) + LKI_AIR_SCALARS +
                     LKI_AIR_PROFILES * LKI_AIR_LAYERS,
    LKI_AIR_OUTPUTS = 4 * LKI_AIR_LEVELS
};

/* x: temperature and pressure of levels, overlap of layers, scalars, profiles of layers. y: fluxes through levels: shortwave down
 * and up, longwave down and up, in W/m2. */
void lki_air_column(uint64_t seed, int64_t row, float x[LKI_AIR_INPUTS], float y[LKI_AIR_OUTPUTS]);

#endif
