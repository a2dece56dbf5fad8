/* Event files that a run before this one has left: what is kept of them is whole, and kept again. */
#include "fuzz/fuzz.h"
#include "recipe/board/events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (int64_t step = 0; step < 4; step++) {
        const size_t kept = lki_events_keep(data, bytes, step);
        FUZZ_CHECK(kept <= bytes);
        FUZZ_CHECK(lki_events_keep(data, kept, step) == kept);
        FUZZ_CHECK(lki_events_keep(data, kept, INT64_MAX) == kept);
    }
    return 0;
}
