/* Several configurations in one file: a map `configs` of names, and what each sets behind what the rest of the file
 * sets for all. "FILE#NAME" is one of them, FILE alone the one that is called "default". */
#ifndef LKI_RECIPE_TEXT_CONFIGS_H
#define LKI_RECIPE_TEXT_CONFIGS_H

#include "recipe/text/yaml.h"

#define LKI_CONFIGS "configs"

/* The file of "FILE#NAME", and the name in it; NULL: there is none, or there is a file of that whole name. */
const char *lki_configs_split(const char **name, lki_heap *heap, const char *path);

/* What the configuration of that name (NULL: "default") sets; NULL: nothing. LKS_E_INVALID, with all names, where
 * there is none of that name. */
LKS_MUSTUSE lks_status lki_configs_find(const lki_yaml **out, const char *path, const char *name,
                                        const lki_yaml *root);

#endif
