/* A program outside of the tree, in C and in C++. */
#include <lockstep/lockstep.h>
#include <stdio.h>

int main(void)
{
    lks_context *context;
    if (lks_context_create(&context, NULL) != LKS_OK) return puts(lks_last_error()->message);
    printf("lockstep %s on %s\n", lks_version(), lks_context_device(context));
    lks_context_destroy(context);
    return 0;
}
