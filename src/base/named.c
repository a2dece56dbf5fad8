#include "base/named.h"

#include <stddef.h>
#include <string.h>

const void *lki_named_at(const lki_named *named, int number)
{
    return number >= 0 && number < named->count ? named->list[number] : NULL;
}

const void *lki_named_find(const lki_named *named, const char *name)
{
    for (int i = 0; name != NULL && i < named->count; i++)
        if (strcmp(*(const char *const *)named->list[i], name) == 0) return named->list[i];
    return NULL;
}
