/* Files of the toy network (atomwalk12/deep-bridge-survey): network_config.txt with its lines of KEY=INT, and the JSON
 * file beside it. They become the configuration that says the same. */
#ifndef LKI_RECIPE_TEXT_NETWORK_FILE_H
#define LKI_RECIPE_TEXT_NETWORK_FILE_H

#include "recipe/text/yaml.h"

/* Whether a file's name says that it has lines of KEY=INT: ".txt". */
bool lki_network_file_has_lines(const char *path);
/* Whether a JSON or YAML file is of that kind: it has a section `network`. */
bool lki_network_file_is(const lki_yaml *root);

/* What the file says, as a configuration with the lines of the file. Errors begin with the path, line and key.
 * `variant`: what is switched on beside it, "bias", "fc_relu" or "bias,fc_relu"; NULL: nothing. */
LKS_MUSTUSE lks_status lki_network_file_read(const lki_yaml **out, lki_heap *heap, const char *path,
                                             const char *variant);
LKS_MUSTUSE lks_status lki_network_file_lines(const lki_yaml **out, lki_heap *heap,
                                              const char *path, const char *variant,
                                              const char *text);
LKS_MUSTUSE lks_status lki_network_file_tree(const lki_yaml **out, lki_heap *heap, const char *path,
                                             const char *variant, const lki_yaml *root);

#endif
