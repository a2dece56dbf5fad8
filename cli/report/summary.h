/* How a training begins with log.format: lightning: the lines of PyTorch Lightning, as kosmoss shows them. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include <lockstep/recipe.h>

#include "cli/pool.h"

/* Seed, processes, and a table of the network's layers with their parameters. */
void summary_print(cli_pool *pool, const lks_recipe *recipe, const lks_recipe_parts *parts);

/* "488 K": at least 100 of a unit are cut to whole ones, fewer have one digit behind the point; below 1,000 as it is. */
const char *summary_count(cli_pool *pool, int64_t count);

#endif
