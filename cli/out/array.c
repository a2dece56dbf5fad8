#include "cli/out/array.h"

#include <stdio.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/out/say.h"

lks_status array_check_place(void)
{
    if (!isatty(STDOUT_FILENO)) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--format npy writes the bytes of an array, and standard output "
                                   "is a terminal; send it to a file: > predicted.npy");
}

void array_begin(array *a, cli_pool *pool, int64_t rows, int64_t columns)
{
    a->columns = columns;
    a->values = pool_alloc(pool, (size_t)(rows * columns) * sizeof *a->values);
}

void array_add(array *a, double value)
{
    a->values[a->used++] = (float)value;
}

lks_status array_print(const array *a)
{
    uint8_t head[LKS_NPY_HEAD];
    const size_t bytes = lks_npy_head(head, a->used / a->columns, a->columns);
    fwrite(head, 1, bytes, stdout);
    fwrite(a->values, sizeof *a->values, (size_t)a->used, stdout);
    return say_flush();
}
