/* How well numbers are predicted: exact sums over samples, so that any number of processes has the same bits. */
#ifndef LKI_RECIPE_RUN_FITS_H
#define LKI_RECIPE_RUN_FITS_H

#include <lockstep/tools.h>

typedef struct lki_fits lki_fits;

/* Of the targets of a data set without classes, which must outlive them. Free them. */
LKS_MUSTUSE lks_status lki_fits_make(lki_fits **out, const lks_dataset *dataset);
void lki_fits_free(lki_fits *fits);
/* So many samples more, [samples][targets] each. */
void lki_fits_add(lki_fits *fits, int64_t samples, const float *output, const float *wanted);
/* The sums of all processes. Collective. And what they say, into out[targets]. */
LKS_MUSTUSE lks_status lki_fits_gather(lki_fits *fits, lks_comm *comm);
void lki_fits_get(const lki_fits *fits, lks_fit *out);

#endif
