/*
 * What can be said of a thing that has a name: an operation, an optimizer, a network, ... One table
 * declares it, and its defaults, checks and printed form, the options of a layer, keys of
 * configurations, help and documents follow from that.
 *
 * The values are the members of a plain struct in which zero means the default.
 */
#ifndef LKI_CORE_ATTRIBUTE_H
#define LKI_CORE_ATTRIBUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

typedef enum lki_attribute_type {
    LKI_INT,    /* int64_t */
    LKI_SHORT,  /* int */
    LKI_FLOAT,  /* float */
    LKI_DOUBLE, /* double */
    LKI_BOOL,   /* bool */
    LKI_NOT,    /* bool, true where the attribute is false: `bias` is the member no_bias */
    LKI_PAIR,   /* int64_t[2], height and width */
    LKI_WORD,   /* an enum; `range` has the words for 0, 1, ... */
    LKI_INIT,   /* lks_init, whose kind it names; its numbers are attributes of their own behind it,
                   with `part` set */
    LKI_FLOATS, /* const float *, with an int at `count`, which several may share */
    LKI_INTS,   /* int64_t[], with an int at `count`; checked by whoever has it, so is the count */
    LKI_SHAPE,  /* lks_shape */
    LKI_DTYPE,  /* lks_dtype */
    LKI_TEXT,   /* const char * */
} lki_attribute_type;

typedef struct lki_attribute {
    const char *name;
    lki_attribute_type type;
    size_t offset, size; /* of the member */
    size_t count;        /* FLOATS, INTS: where the int is that counts them */
    /* Where each number lies: "[1,)", "(0,1]"; of WORD and INIT the words, "erf tanh". NULL: anywhere. */
    const char *range;
    int64_t most; /* of integers; 0: LKI_ATTRIBUTE_MOST. In no help, as nobody comes near it */
    /* As it would be typed. The name of an attribute before it: the value of that. NULL: zero, or nothing. */
    const char *fallback;
    bool required;    /* has no default, and is always printed */
    bool part;        /* of the init before it: checked and printed with that */
    const char *key;  /* of a configuration, where that has another name; */
    int place;        /* and which number of that, if it is a list */
    const char *help; /* what it is, in a few words; NULL: its name says it */
} lki_attribute;

typedef struct lki_attributes {
    const lki_attribute *list;
    int count;
} lki_attributes;

enum { LKI_ATTRIBUTE_MOST = 1 << 24 };

/* A line of a table: the member `field` of `struct_`, and what else there is to say. */
#define LKI_ATTRIBUTE(type_, struct_, field, ...)                                                  \
    {                                                                                              \
        .name = #field, .type = LKI_##type_, .offset = offsetof(struct_, field),                   \
        .size = sizeof(((struct_ *)NULL)->field), __VA_ARGS__                                      \
    }
/* The member no_`word` of a struct. */
#define LKI_ATTRIBUTE_NOT(struct_, word)                                                           \
    {                                                                                              \
        .name = #word, .type = LKI_NOT, .offset = offsetof(struct_, no_##word),                    \
        .size = sizeof(bool), .fallback = "true"                                                   \
    }
/* The member padding, behind masked. */
#define LKI_PADDING(struct_)                                                                       \
    LKI_ATTRIBUTE(INT, struct_, padding, .range = "[0,)", .most = INT32_MAX, .fallback = "0",      \
                  .help = "that token")
/* A table as a value of lki_attributes. */
#define LKI_ATTRIBUTES(table)                                                                      \
    {                                                                                              \
        table, (int)(sizeof(table) / sizeof(table)[0])                                             \
    }

/* Replaces zeros by defaults. */
void lki_attributes_fill(const lki_attributes *table, void *values);
/* Each value lies in its range; `who` begins the sentence: "conv2d 'conv1'". Lists are left out. */
lks_status lki_attributes_check(const lki_attributes *table, const void *values, const char *who);
/* The same of the lists, once their count is known to be right. A NULL is as many zeros. */
lks_status lki_attributes_check_lists(const lki_attributes *table, const void *values,
                                      const char *who);
/* Where a text is too long, of each list so many are printed, and how many more there are. */
enum { LKI_LIST_PRINTED = 64 };
/* As they would be typed, "filters=32 kernel=3x3": what has its default is left out. Writes at most
 * `size` bytes, which is at least 1, and returns how long the text is without that limit. */
size_t lki_attributes_print(const lki_attributes *table, const void *values, char *buffer,
                            size_t size);

/* Its name in a configuration. */
static inline const char *lki_attribute_key(const lki_attribute *attribute)
{
    return attribute->key != NULL ? attribute->key : attribute->name;
}

/* NULL: there is none of that name. */
const lki_attribute *lki_attribute_find(const lki_attributes *table, const char *name);

/* What its value may be: "an integer of at least 1", "erf or tanh". */
void lki_attribute_describe(const lki_attribute *attribute, char *text, size_t size);

#endif
