/* A program outside of the tree, in C and in C++. */
#include <lockstep/lockstep.h>
#include <stdio.h>

int main(void)
{
    const int rows = 28;
    const lks_shape shape = LKS_SHAPE(rows, rows + 1, 3), number = LKS_SHAPE(7);
    lks_context *context;
    if (shape.ndim != 3 || number.ndim != 1 || lks_shape_elements(&shape) != 28 * 29 * 3 ||
        number.dim[0] != 7)
        return puts("LKS_SHAPE is wrong");
    if (lks_context_create(&context, NULL) != LKS_OK) return puts(lks_last_error()->message);
    printf("lockstep %s on %s\n", lks_version(), lks_context_device(context));
    lks_context_destroy(context);
    return 0;
}
