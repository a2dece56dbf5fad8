/* The three passes of a training apart, each timed by itself: `lockstep bench --passes`. */
#ifndef CLI_REPORT_PASSES_H
#define CLI_REPORT_PASSES_H

#include <stdbool.h>

#include <lockstep/recipe.h>

/* By one worker, every operation with its own kernel, for about so many seconds. Prints a line for each and one for all;
 * or an object. */
lks_status passes_measure(lks_recipe *recipe, double seconds, bool as_json);

#endif
