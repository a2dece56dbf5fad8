/*
 * Tables that Python has pickled: a dictionary with arrays of bytes and lists of integers, as CIFAR's Python
 * version has. Only what such files are made of is understood, and nothing is executed: of the objects that a
 * pickle can name there are NumPy's array and dtype alone, which are filled in here.
 */
#ifndef LKI_DATA_PICKLE_H
#define LKI_DATA_PICKLE_H

#include "base/memory.h"

typedef struct lki_pickle_value lki_pickle_value;

/* Borrows the bytes it was read from. */
typedef struct lki_pickle {
    lki_arena arena;
    const lki_pickle_value *root; /* a dictionary */
    const char *path;             /* for messages; borrowed */
} lki_pickle;

/* Everything of it is freed by lki_pickle_close(), also after a failure. */
lks_status lki_pickle_read(lki_pickle *out, lks_context *context, const uint8_t *data, size_t bytes,
                           const char *path);
void lki_pickle_close(lki_pickle *pickle);

/* The array of bytes that the dictionary has as `key`: rows of `columns`, in C's order. */
lks_status lki_pickle_array(const lki_pickle *pickle, const char *key, int64_t columns,
                            const uint8_t **out, int64_t *rows);

bool lki_pickle_has(const lki_pickle *pickle, const char *key);
/* The list of `count` integers that it has as `key`. */
lks_status lki_pickle_integers(const lki_pickle *pickle, const char *key, int64_t count,
                               int32_t *out);

#endif
