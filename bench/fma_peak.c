/*
 * How many floating-point operations a second the cores can do at most: lks_peak() on one core and
 * on all. Every speed in a table of this project is given beside it, measured in the same run,
 * because clocks vary.
 *
 *   bench_fma_peak [seconds per measurement, default 0.5]
 *
 * Prints one JSON line: {"cores": 2, "one_core": 98.1, "all_cores": 195.0}, rates in units of 10^9 a
 * second.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/tools.h>

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    lks_context *context;
    double one, all;
    lks_status status = lks_context_create(&context, NULL);
    if (status == LKS_OK) status = lks_peak(&one, context, 1, seconds);
    if (status == LKS_OK) status = lks_peak(&all, context, lks_cores(), seconds);
    if (status != LKS_OK) {
        fprintf(stderr, "fma_peak: %s\n", lks_last_error()->message);
        return 1;
    }
    printf("{\"cores\": %d, \"one_core\": %.1f, \"all_cores\": %.1f}\n", lks_cores(), one * 1e-9,
           all * 1e-9);
    lks_context_destroy(context);
    return 0;
}
