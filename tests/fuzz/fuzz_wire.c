/* Frames between agents, from somebody who may be anybody: what is read is written as the same bytes. */
#include <string.h>

#include "cli/meet/wire.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char words[WIRE_BODY];
    static uint8_t body[WIRE_BODY];
    wire_message message;
    wire_type type;
    size_t length;
    bool good;
    if (bytes < WIRE_HEADER) return 0;
    /* As it stands, and what a sealed frame would have in it. */
    for (int sealed = 0; sealed < 2; sealed++) {
        if (!wire_header_read(&type, &length, data, sealed == 1)) continue;
        FUZZ_CHECK(wire_is_sealed(type) == (sealed == 1));
        FUZZ_CHECK(length <= WIRE_BODY + WIRE_TAG);
        uint8_t header[WIRE_HEADER];
        wire_header_write(header, type, length);
        FUZZ_CHECK(memcmp(header, data, WIRE_HEADER) == 0);
        if (!wire_read(&message, type, data + WIRE_HEADER, bytes - WIRE_HEADER, words)) continue;
        const size_t written = wire_write(body, sizeof body, &message, &good);
        FUZZ_CHECK(good && written == bytes - WIRE_HEADER);
        FUZZ_CHECK(memcmp(body, data + WIRE_HEADER, written) == 0);
    }
    return 0;
}
