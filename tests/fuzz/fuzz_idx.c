/*
 * IDX files, plain or gzip. Input: number of classes to ask for (0: counted); 0, or 1 where labels
 * come too; a byte for the length of the labels' file; that file; the images' file.
 */
#include <stdlib.h>
#include <string.h>

#include <lockstep/data.h>

#include "fuzz/fuzz.h"

/* `images` NULL: they were packed, and are not compared. */
static void read_some(lks_dataset *set, const uint8_t *images, size_t file_bytes)
{
    const lks_dataset_info info = lks_dataset_get_info(set);
    uint64_t hash;
    FUZZ_CHECK(info.samples > 0 && info.classes > 0 && info.classes <= 256);
    const size_t bytes = (size_t)lks_shape_elements(&info.shape);
    FUZZ_CHECK(bytes > 0 && bytes < (size_t)1 << 30);
    uint8_t *x = malloc(bytes);
    FUZZ_CHECK(x != NULL);
    for (int64_t i = 0; i < info.samples && i < 100; i++) {
        const int64_t index = i % 2 == 0 ? i / 2 : info.samples - 1 - i / 2;
        int32_t label = -1;
        FUZZ_CHECK(lks_dataset_read(set, index, x, &label) == LKS_OK);
        FUZZ_CHECK(label >= 0 && label < info.classes);
        if (images == NULL) continue;
        FUZZ_CHECK(memcmp(x, images + file_bytes - (size_t)(info.samples - index) * bytes, bytes) ==
                   0);
    }
    FUZZ_CHECK(lks_dataset_read(set, info.samples, x, x) != LKS_OK);
    FUZZ_CHECK(lks_dataset_hash(set, &hash) == LKS_OK);
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lks_dataset *set;
    if (bytes < 3) return 0;
    const int64_t classes = data[0];
    const bool labelled = data[1] % 2 == 1;
    const size_t rest = bytes - 3, head = data[2] < rest ? data[2] : rest;
    const char *labels = fuzz_file(0, data + 3, head);
    const char *images = fuzz_file(1, data + 3 + head, rest - head);
    const lks_status status = lks_dataset_open_idx(&set, NULL, images, labelled ? labels : NULL,
                                                   classes);
    if (status == LKS_OK) {
        const uint8_t *file = data + 3 + head;
        const bool packed = file[0] == 0x1f && file[1] == 0x8b;
        read_some(set, packed ? NULL : file, rest - head);
    } else {
        FUZZ_CHECK(set == NULL);
        fuzz_check_failure(status);
    }
    lks_dataset_destroy(set);
    return 0;
}
