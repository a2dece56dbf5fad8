#include "support/backends.h"

static bool is_complete(const lki_backend *backend)
{
    for (int op = 0; op < LKI_OP_COUNT; op++)
        if (backend->kernels[op] == NULL && op != LKI_OP_INPUT && op != LKI_OP_TARGET) return false;
    return backend->update != NULL && backend->add != NULL;
}

const lki_backend *const *lkt_backends(void)
{
    static const lki_backend *complete[16];
    int count = 0;
    for (int b = 0; lki_backends[b] != NULL && count < 15; b++)
        if (is_complete(lki_backends[b])) complete[count++] = lki_backends[b];
    complete[count] = NULL;
    return complete;
}
