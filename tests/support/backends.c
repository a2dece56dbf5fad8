#include "support/backends.h"

#include <stdlib.h>
#include <string.h>

#include "support/far.h"
#include "support/test.h"

const lki_kernel *lkt_kernel(const lki_backend *backend, lki_op_id op)
{
    for (int i = 0; backend->impl[i] != NULL; i++)
        if (backend->impl[i]->count == 1 && (backend->impl[i]->pattern[0].ops >> op & 1u) != 0)
            return backend->impl[i]->kernel;
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

static const lki_backend *only(void)
{
    const char *name = getenv("LKT_DEVICE");
    if (name == NULL) return NULL;
    if (strcmp(name, "far") == 0) lki_backend_lend(lkt_far(true));
    const lki_backend *found = lki_backend_find(name);
    if (found == NULL) fail_msg("LKT_DEVICE is '%s', which is not in this build", name);
    return found;
}

const lki_backend *const *lkt_registered(void)
{
    return only() != NULL ? lkt_backends() : lki_backends;
}

const lki_backend *const *lkt_backends(void)
{
    static const lki_backend *complete[16];
    int count = 0;
    if (only() != NULL) {
        complete[count++] = only();
    } else {
        for (int b = 0; lki_backends[b] != NULL && count < 15; b++)
            if (is_complete(lki_backends[b])) complete[count++] = lki_backends[b];
    }
    complete[count] = NULL;
    return complete;
}

const char *lkt_device(const char *usual)
{
    return only() != NULL ? only()->name : usual;
}
