#include "recipe/zoo/zoo.h"

#include <stdio.h>
#include <string.h>

static const lki_zoo_network *const networks[] = {
#define X(id) &lki_zoo_##id,
    LKI_ZOO_LIST(X)
#undef X
};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

const lki_zoo_network *lki_zoo_find(const char *name)
{
    for (int i = 0; name != NULL && i < NETWORKS; i++)
        if (strcmp(networks[i]->name, name) == 0) return networks[i];
    return NULL;
}

const char *lki_zoo_names(char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < NETWORKS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0              ? ""
                                 : i == NETWORKS - 1 ? " or "
                                                     : ", ",
                                 networks[i]->name);
    return out;
}
