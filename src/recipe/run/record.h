/* What records and lines for programs say of an epoch, and of forecasts. */
#ifndef LKI_RECIPE_RUN_RECORD_H
#define LKI_RECIPE_RUN_RECORD_H

#include <lockstep/recipe.h>
#include <lockstep/tools.h>

#include "recipe/text/emit.h"

/* With no more classes every sample is among its five largest outputs, which curves and tables do not show. */
enum { LKI_TOP = 5 };

/* Its keys and values, into a map that is open; what was not evaluated is left out. */
void lki_emit_epoch(lki_emit *emit, const lks_epoch *epoch);

/* Errors of the forecasts of one time ahead: means over its targets, fit[count] and unit[count], in deviations of the
 * training, as forecasts are compared. */
typedef struct lki_ahead {
    double mse, mae;
} lki_ahead;
lki_ahead lki_ahead_of(const lks_fit *fit, const lks_unit *unit, int64_t count);

/* How workers have come to other shares: cuts.c. */
void lki_cuts_emit(lki_emit *e, const lks_recipe *recipe);

/* paces.c: "ranks", what each process does, where there are several. */
void lki_paces_emit(lki_emit *e, const lks_recipe *recipe);

/* csv.c: log.csv, with the epochs so far. */
LKS_MUSTUSE lks_status lki_csv_write(const lks_recipe *recipe);

#endif
