/* Options of a thing that has a table of attributes: read into its struct. */
#ifndef LKI_RECIPE_OPTIONS_H
#define LKI_RECIPE_OPTIONS_H

#include "core/attribute.h"
#include "recipe/config.h"

typedef struct lki_options {
    lki_heap *heap;
    const lki_attributes *table;
    void *values;         /* the struct, all zero before the first option */
    lki_setting *setting; /* [table->count] */
} lki_options;

/* An empty struct of so many bytes, in the heap. */
LKS_MUSTUSE lks_status lki_options_begin(lki_options *out, lki_heap *heap,
                                         const lki_attributes *table, size_t bytes);
/* An entry of a list, `- relu` or `- conv2d: {...}`: its name and, in *body, its options (NULL: none). NULL: it
 * is written otherwise. */
const char *lki_options_name(const lki_yaml *node, const lki_yaml **body);
/* One option; sentences begin with "<where>: <what> <option>". */
LKS_MUSTUSE lks_status lki_options_read(lki_options *options, const lki_attribute *attribute,
                                        const char *what, const lki_yaml *node, const char *where);
/* One that has been read elsewhere, as a key of the configuration. Not set: nothing happens. */
void lki_options_take(lki_options *options, const lki_attribute *attribute,
                      const lki_setting *setting);
/* Behind the last: lists that share a count get it, those of one repeat it. where: "" is none. */
LKS_MUSTUSE lks_status lki_options_end(lki_options *options, const char *where);

/* Puts what was set into a struct; lists of floats are for lki_options_end(). */
void lki_option_store(const lki_attribute *attribute, void *values, const lki_setting *setting);

/* Puts what the keys beside `name`, such as optimizer.name, say into the struct that the table is of. A key
 * that is a number and an attribute that is NOT: whatever it says, it is not so. */
void lki_options_store(const lki_attributes *table, void *values, const lki_config *config,
                       lki_key name);

/* The value that an attribute has for the parser. */
lki_type lki_option_type(const lki_attribute *attribute);

#endif
