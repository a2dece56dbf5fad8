#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_check(bool good, const char *file, int line, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, what,
            lks_last_error()->message);
    abort();
}

void fuzz_check_failure(lks_status status)
{
    const lks_error *error = lks_last_error();
    FUZZ_CHECK(status == error->status);
    FUZZ_CHECK(status != LKS_E_BUG);
    FUZZ_CHECK(memchr(error->message, '\0', sizeof error->message) != NULL);
    FUZZ_CHECK(strlen(error->message) > 10);
}

const char *fuzz_file(int slot, const void *data, size_t bytes)
{
    static int descriptor[FUZZ_FILES] = {-1, -1, -1, -1};
    static char path[FUZZ_FILES][40];
    if (descriptor[slot] < 0) {
        descriptor[slot] = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path[slot], sizeof path[slot], "/proc/self/fd/%d", descriptor[slot]);
    }
    FUZZ_CHECK(ftruncate(descriptor[slot], 0) == 0);
    FUZZ_CHECK(pwrite(descriptor[slot], data, bytes, 0) == (ssize_t)bytes);
    return path[slot];
}
