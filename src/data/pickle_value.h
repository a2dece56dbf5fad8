/* What a pickle is read into: values that live in its arena. */
#ifndef LKI_DATA_PICKLE_VALUE_H
#define LKI_DATA_PICKLE_VALUE_H

#include "data/pickle.h"

typedef enum lki_pickle_kind {
    LKI_PICKLE_NONE,
    LKI_PICKLE_INTEGER,
    LKI_PICKLE_TEXT,
    LKI_PICKLE_LIST,
    LKI_PICKLE_TUPLE,
    LKI_PICKLE_DICTIONARY,
    LKI_PICKLE_CLASS,
    LKI_PICKLE_DTYPE,
    LKI_PICKLE_ARRAY,
    LKI_PICKLE_MARK
} lki_pickle_kind;
typedef struct lki_pickle_list {
    const lki_pickle_value **at;
    size_t count, room;
} lki_pickle_list;

struct lki_pickle_value {
    lki_pickle_kind kind;
    int64_t number;       /* INTEGER, CLASS */
    const uint8_t *bytes; /* TEXT; of ARRAY its elements, NULL before they are set */
    size_t size;
    lki_pickle_list items;                /* of a DICTIONARY: key, value, key, value ... */
    const lki_pickle_value *shape, *type; /* ARRAY */
};

/* Whether it is this text. */
bool lki_pickle_is(const lki_pickle_value *value, const char *word);

#endif
