#include "recipe/run/fits.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "numeric/fixed.h"

/* Of one target, in deviations of the training: of its values and of the errors. */
typedef struct fit {
    lki_fixed values, squares, errors, squared_errors;
} fit;

struct lki_fits {
    const lks_unit *unit;                 /* [targets], or NULL: mean 0, deviation 1 */
    int64_t targets, samples, not_finite; /* or too large for a sum */
    fit fit[];                            /* [targets] */
};

lks_status lki_fits_make(lki_fits **out, const lks_dataset *dataset)
{
    const lks_shape shape = lks_dataset_get_info(dataset).target_shape;
    const int64_t targets = lks_shape_elements(&shape);
    *out = calloc(1, sizeof **out + (size_t)targets * sizeof *(*out)->fit);
    if (*out == NULL)
        return LKI_FAIL(LKS_E_NOMEM, "no memory for the sums of %lld targets", (long long)targets);
    (*out)->unit = lks_dataset_units(dataset);
    (*out)->targets = targets;
    return LKS_OK;
}

void lki_fits_free(lki_fits *fits)
{
    free(fits);
}

/* Of a square: lki_fixed_add() would take less. */
static const double MOST = 0x1p62;

static lks_unit unit_of(const lki_fits *f, int64_t target)
{
    return f->unit != NULL ? f->unit[target] : (lks_unit){.deviation = 1, .standardised = true};
}

static void add_sample(lki_fits *f, const float *output, const float *wanted)
{
    f->samples++;
    for (int64_t t = 0; t < f->targets; t++) {
        const lks_unit unit = unit_of(f, t);
        double error = (double)output[t] - (double)wanted[t], value = wanted[t];
        if (!unit.standardised) {
            error /= unit.deviation;
            value = (value - unit.mean) / unit.deviation;
        }
        const double largest = fmax(fabs(error), fabs(value));
        if (isnan(error) || largest * largest > MOST) {
            f->not_finite++;
            continue;
        }
        lki_fixed_add(&f->fit[t].values, value);
        lki_fixed_add(&f->fit[t].squares, value * value);
        lki_fixed_add(&f->fit[t].errors, fabs(error));
        lki_fixed_add(&f->fit[t].squared_errors, error * error);
    }
}

void lki_fits_add(lki_fits *f, int64_t samples, const float *output, const float *wanted)
{
    for (int64_t i = 0; i < samples; i++)
        add_sample(f, output + i * f->targets, wanted + i * f->targets);
}

static void merge(fit *to, const fit *from)
{
    lki_fixed_merge(&to->values, from->values);
    lki_fixed_merge(&to->squares, from->squares);
    lki_fixed_merge(&to->errors, from->errors);
    lki_fixed_merge(&to->squared_errors, from->squared_errors);
}

lks_status lki_fits_gather(lki_fits *f, lks_comm *comm)
{
    const int ranks = lks_comm_size(comm);
    const size_t bytes = (size_t)f->targets * sizeof *f->fit;
    int64_t own[2] = {f->samples, f->not_finite};
    if (ranks == 1) return LKS_OK;
    int64_t *counts = calloc((size_t)ranks, sizeof own);
    fit *all = calloc((size_t)ranks, bytes);
    lks_status status = counts == NULL || all == NULL
                            ? LKI_FAIL(LKS_E_NOMEM, "no memory for the sums of %d processes", ranks)
                            : LKS_OK;
    status = lks_comm_agree(comm, status);
    if (status == LKS_OK) status = lks_comm_all_gather(comm, own, sizeof own, counts);
    if (status == LKS_OK) status = lks_comm_all_gather(comm, f->fit, bytes, all);
    for (int r = 0; r < ranks && status == LKS_OK; r++) {
        if (r == 0) f->samples = f->not_finite = 0;
        f->samples += counts[2 * r];
        f->not_finite += counts[2 * r + 1];
        for (int64_t t = 0; t < f->targets; t++) {
            if (r == 0) f->fit[t] = (fit){0};
            merge(&f->fit[t], &all[r * f->targets + t]);
        }
    }
    free(all);
    free(counts);
    return status;
}

static lks_fit fit_of(const lki_fits *f, int64_t target)
{
    const fit *one = &f->fit[target];
    const lks_unit unit = unit_of(f, target);
    const double n = (double)f->samples, sum = lki_fixed_value(one->values);
    const double errors = lki_fixed_value(one->squared_errors);
    const double squares = lki_fixed_value(one->squares), spread = squares - sum * sum / n;
    /* What roundings may make of values that are all the same: each to a multiple of 2^-32, and of the result. */
    const double noise = n * 0x1p-32 * (1 + fabs(sum / n)) + 4 * DBL_EPSILON * squares;
    if (f->not_finite > 0 || f->samples == 0)
        return (lks_fit){unit.name, (double)NAN, (double)NAN, (double)NAN};
    return (lks_fit){.name = unit.name,
                     .r2 = spread > noise ? 1 - errors / spread : (double)NAN,
                     .mae = lki_fixed_value(one->errors) / n * unit.deviation,
                     .rmse = sqrt(errors / n) * unit.deviation};
}

void lki_fits_get(const lki_fits *f, lks_fit *out)
{
    for (int64_t t = 0; t < f->targets; t++) out[t] = fit_of(f, t);
}
