/* safetensors files. What opens is whole: names, sizes and places fit, and every byte can be read. */
#include <string.h>

#include <lockstep/checkpoint.h>

#include "fuzz/fuzz.h"

/* The length that the header claims to have. */
static uint64_t header_bytes(const uint8_t *data)
{
    uint64_t bytes = 0;
    for (int i = 0; i < 8; i++) bytes |= (uint64_t)data[i] << (8 * i);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lks_tensor_file *file;
    const lks_status status = lks_tensor_file_open(&file, NULL, fuzz_file(0, data, bytes));
    if (status != LKS_OK) {
        FUZZ_CHECK(file == NULL);
        fuzz_check_failure(status);
        return 0;
    }
    size_t all = 0;
    uint64_t sum = 0;
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        const size_t width = lks_dtype_size(entry.dtype);
        FUZZ_CHECK((size_t)lks_shape_elements(&entry.shape) * width == entry.bytes);
        FUZZ_CHECK(entry.bytes == 0 || (uintptr_t)entry.data % width == 0);
        FUZZ_CHECK(lks_tensor_file_find(file, entry.name) == i);
        for (size_t k = 0; k < entry.bytes; k++) sum += ((const uint8_t *)entry.data)[k];
        all += entry.bytes;
    }
    FUZZ_CHECK(sum <= 255 * (uint64_t)all);
    const bool packed = data[0] == 0x1f && data[1] == 0x8b;
    FUZZ_CHECK(packed || 8 + header_bytes(data) + all == bytes);
    (void)lks_tensor_file_metadata(file, "format");
    lks_tensor_file_close(file);
    return 0;
}
