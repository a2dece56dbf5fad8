/* How well numbers are predicted, target by target. */
#ifndef CLI_FITS_H
#define CLI_FITS_H

#include "cli/cli.h"

/* R2 and errors of every target, in its units. */
typedef struct fits {
    int64_t count;
    lks_fit *fit; /* [count]; NULL: the data has classes */
} fits;

/* A target's name, or else its number. */
const char *fits_name(const fits *f, cli_pool *pool, int64_t i);
/* A table on a page of HTML, or, NULL, on standard output; of many targets the mean and the worst, or `all`. */
void fits_print(const fits *f, cli_pool *pool, FILE *page, bool all);

#endif
