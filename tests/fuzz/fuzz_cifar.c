/*
 * What CIFAR comes in. Input: 0, and a pickle, whose array `data` has rows of 2 bytes; or 1, and a tar archive
 * in which `batch` is looked for.
 */
#include <stdlib.h>
#include <string.h>

#include "data/pickle.h"
#include "data/tar.h"
#include "fuzz/fuzz.h"

static void read_pickle(const uint8_t *data, size_t bytes)
{
    enum { MOST = 64 };
    lki_pickle pickle;
    const uint8_t *pixels;
    int64_t rows = 0;
    int32_t labels[MOST];
    lks_status status = lki_pickle_read(&pickle, NULL, data, bytes, "input");
    if (status == LKS_OK) status = lki_pickle_array(&pickle, "data", 2, &pixels, &rows);
    if (status == LKS_OK) {
        FUZZ_CHECK(rows >= 1 && pixels >= data && pixels + 2 * rows <= data + bytes);
        FUZZ_CHECK(lki_pickle_has(&pickle, "data"));
        const int64_t count = rows < MOST ? rows : MOST;
        status = lki_pickle_integers(&pickle, "labels", count, labels);
        for (int64_t i = 0; i < count && status == LKS_OK; i++) FUZZ_CHECK(labels[i] >= 0);
    }
    if (status != LKS_OK) fuzz_check_failure(status);
    lki_pickle_close(&pickle);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *found;
    size_t size;
    if (bytes == 0) return 0;
    if (data[0] % 2 == 0) {
        read_pickle(data + 1, bytes - 1);
        return 0;
    }
    const lks_status status = lki_tar_find(&found, &size, data + 1, bytes - 1, "input", "batch");
    if (status != LKS_OK) {
        FUZZ_CHECK(found == NULL);
        fuzz_check_failure(status);
    } else if (found != NULL) {
        FUZZ_CHECK(found > data && size <= (size_t)(data + bytes - found));
    }
    return 0;
}
