/*
 * gzip data. Input: 0, and any bytes to inflate; or the number of members (1 to 3) that the rest is
 * packed into, which must come back.
 */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/inflate.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"

/* One gzip member; returns its size. */
static size_t pack(uint8_t *out, size_t room, const uint8_t *data, size_t bytes)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)data,
                       .avail_in = (uInt)bytes,
                       .next_out = out,
                       .avail_out = (uInt)room};
    FUZZ_CHECK(deflateInit2(&stream, (int)(bytes % 10), Z_DEFLATED, 16 + MAX_WBITS, 8,
                            Z_DEFAULT_STRATEGY) == Z_OK);
    FUZZ_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&stream);
    return room - stream.avail_out;
}

static void round_trip(const uint8_t *data, size_t bytes, size_t members)
{
    const size_t room = bytes + 200;
    uint8_t *packed = malloc(members * room);
    size_t used = 0;
    lki_file file = {0};
    FUZZ_CHECK(packed != NULL);
    for (size_t i = 0; i < members; i++) {
        const size_t from = bytes * i / members, to = bytes * (i + 1) / members;
        used += pack(packed + used, room, data + from, to - from);
    }
    FUZZ_CHECK(lki_gzip_inflate(&file, packed, used, "packed") == LKS_OK);
    FUZZ_CHECK(file.bytes == bytes && (bytes == 0 || memcmp(file.data, data, bytes) == 0));
    lki_file_close(&file);
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    if (data[0] > 0) {
        round_trip(data + 1, bytes - 1, 1 + data[0] % 3);
        return 0;
    }
    lki_file file = {0};
    const lks_status status = lki_gzip_inflate(&file, data + 1, bytes - 1, "input");
    if (status != LKS_OK) {
        FUZZ_CHECK(file.data == NULL);
        fuzz_check_failure(status);
        return 0;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < file.bytes; i++) sum += file.data[i];
    FUZZ_CHECK(sum <= 255u * file.bytes);
    lki_file_close(&file);
    return 0;
}
