#include "models/zoo.h"

#include <stdio.h>

#include "base/named.h"

static const void *const networks[] = {
#define X(name) &lki_zoo_##name,
    LKS_NETWORKS(X)
#undef X
};
static const lki_named named = LKI_NAMED(networks);

const lki_zoo_network *lki_zoo_at(int number)
{
    return lki_named_at(&named, number);
}

const lki_zoo_network *lki_zoo_find(const char *name)
{
    return lki_named_find(&named, name);
}

const char *lki_zoo_names(char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < named.count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0                 ? ""
                                 : i == named.count - 1 ? " or "
                                                        : ", ",
                                 lki_zoo_at(i)->name);
    return out;
}
