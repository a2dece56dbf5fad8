#include <stddef.h>
#include <string.h>

#include "core/backend.h"

extern const lki_backend lki_ref_backend;
#ifdef LKI_HAVE_CPU
extern const lki_backend lki_cpu_backend;
#endif

const lki_backend *const lki_backends[] = {
#ifdef LKI_HAVE_CPU
    &lki_cpu_backend,
#endif
    &lki_ref_backend,
    NULL,
};

static const lki_backend *lent;

void lki_backend_lend(const lki_backend *backend)
{
    lent = backend;
}

const lki_backend *lki_backend_find(const char *name)
{
    for (int i = 0; lki_backends[i] != NULL; i++) {
        if (strcmp(lki_backends[i]->name, name) == 0) return lki_backends[i];
    }
    return lent != NULL && strcmp(lent->name, name) == 0 ? lent : NULL;
}
