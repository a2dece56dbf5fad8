/*
 * The JSON record of a checkpoint. Input: 0, and a whole file; or 1, and a file without its last
 * line, the checksum, which is added here. What is read is printed and read again, and must be the
 * same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "numeric/hash.h"
#include "train/run.h"

/* Prints what a text says; NULL when it is refused. */
static char *read_and_print(const void *text, size_t bytes)
{
    lks_run run = {0};
    lki_identity tensors = {0};
    char *printed = NULL;
    const lks_status status = lki_run_parse("input", text, bytes, &run, &tensors);
    if (status != LKS_OK) {
        FUZZ_CHECK(run.history == NULL && run.config == NULL);
        fuzz_check_failure(status);
        return NULL;
    }
    FUZZ_CHECK(run.progress.step >= 0 && run.global_batch >= 1 && run.replicas >= 1);
    FUZZ_CHECK(run.fingerprint != NULL && run.epochs >= 0);
    FUZZ_CHECK(lki_run_print(&run, "tensors", &tensors, &printed) == LKS_OK);
    lks_run_clear(&run);
    return printed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    char *text = malloc(bytes + 64), *once;
    FUZZ_CHECK(text != NULL);
    size_t length = bytes - 1;
    memcpy(text, data + 1, length);
    if (data[0] % 2 == 1) {
        length += (size_t)sprintf(text + length, ",\n  \"checksum\": \"%016llx\"\n}\n",
                                  (unsigned long long)lki_hash(text, length));
    }
    once = read_and_print(text, length);
    free(text);
    if (once == NULL) return 0;
    char *twice = read_and_print(once, strlen(once));
    FUZZ_CHECK(twice != NULL && strcmp(once, twice) == 0);
    free(once);
    free(twice);
    return 0;
}
