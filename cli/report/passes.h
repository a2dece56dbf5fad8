/* The three passes of a training apart, each timed by itself: `lockstep bench --passes`. */
#ifndef CLI_REPORT_PASSES_H
#define CLI_REPORT_PASSES_H

#include <stdbool.h>

#include <lockstep/recipe.h>

typedef struct passes_extent {
    int64_t warmup, calls; /* of each pass; calls: 0 are those of the seconds */
    double seconds;        /* of all three */
    bool by_layer;         /* and each layer's part of them */
} passes_extent;

/* By one worker, every operation with its own kernel. Prints a line for each and one for all, and by layer a table; or an
 * object. */
lks_status passes_measure(lks_recipe *recipe, const passes_extent *extent, bool as_json);

#endif
