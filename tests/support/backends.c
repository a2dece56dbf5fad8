#include "support/backends.h"

const lki_kernel *lkt_kernel(const lki_backend *backend, lki_op_id op)
{
    for (int i = 0; i < backend->impl_count; i++)
        if (backend->impl[i].count == 1 && (backend->impl[i].pattern[0].ops >> op & 1u) != 0)
            return backend->impl[i].kernel;
    return NULL;
}

static bool is_complete(const lki_backend *backend)
{
    for (int op = 0; op < LKI_OP_COUNT; op++)
        if (!lki_backend_computes(backend, (lki_op_id)op) && op != LKI_OP_INPUT &&
            op != LKI_OP_TARGET)
            return false;
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
