/* Lists of constants that have names, each in a file of its own: optimizers, schedules, networks. */
#ifndef LKI_BASE_NAMED_H
#define LKI_BASE_NAMED_H

typedef struct lki_named {
    const void *const *list; /* structs whose first member is their name, a const char * */
    int count;
} lki_named;

/* An array of pointers to them, as a value of lki_named. */
#define LKI_NAMED(array)                                                                           \
    {                                                                                              \
        array, (int)(sizeof(array) / sizeof(array)[0])                                             \
    }

/* NULL: there is none of that number (from 0), or name; the name may be NULL. */
const void *lki_named_at(const lki_named *named, int number);
const void *lki_named_find(const lki_named *named, const char *name);

#endif
