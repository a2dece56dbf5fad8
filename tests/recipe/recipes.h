/* Recipes of a test. */
#ifndef LKT_RECIPE_RECIPES_H
#define LKT_RECIPE_RECIPES_H

#include <lockstep/recipe.h>

#include "cli/program.h"

/* The key is the path of a name in the test's folder. */
static inline void set_path(lks_recipe *recipe, const char *key, const char *name)
{
    char assignment[4200];
    snprintf(assignment, sizeof assignment, "%s=%s", key, in_folder(name));
    LKT_OK(lks_recipe_set(recipe, assignment));
}

#endif
