/* The counting allocator. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

/*
 *   base                memory
 *   | header ... (align)| the block ... | guard |
 *
 * The last bytes before `memory` say where `base` is and how large the block is.
 */
typedef struct header {
    uint64_t mark;
    void *base;
    size_t bytes;
} header;

enum { GUARD = 16, GUARD_BYTE = 0xA5, FRESH_BYTE = 0xC3 };
static const uint64_t LIVE = UINT64_C(0x6c69766520626c6b), DEAD = UINT64_C(0x6465616420626c6b);

static void *heap_alloc(void *user, size_t bytes, size_t align)
{
    lkt_heap *heap = user;
    heap->allocations++;
    if (heap->fail_at && (heap->allocations == heap->fail_at ||
                          (heap->fail_from_there && heap->allocations > heap->fail_at))) {
        return NULL;
    }
    const size_t room = (sizeof(header) + align - 1) / align * align;
    void *base;
    if (posix_memalign(&base, align, room + bytes + GUARD) != 0) return NULL;
    uint8_t *memory = (uint8_t *)base + room;
    const header about = {.mark = LIVE, .base = base, .bytes = bytes};
    memcpy(memory - sizeof about, &about, sizeof about);
    memset(memory, FRESH_BYTE, bytes);
    memset(memory + bytes, GUARD_BYTE, GUARD);
    heap->live++;
    heap->live_bytes += bytes;
    if (heap->live_bytes > heap->most_bytes) heap->most_bytes = heap->live_bytes;
    return memory;
}

static void heap_release(void *user, void *memory, size_t bytes)
{
    lkt_heap *heap = user;
    heap->releases++;
    header about;
    memcpy(&about, (uint8_t *)memory - sizeof about, sizeof about);
    if (about.mark != LIVE || about.bytes != bytes) {
        print_error("heap: a release of %zu bytes, but the block has %zu%s\n", bytes, about.bytes,
                    about.mark == LIVE ? "" : " and is not live");
        heap->errors++;
        return;
    }
    for (size_t i = 0; i < GUARD; i++) {
        if (((uint8_t *)memory)[bytes + i] == GUARD_BYTE) continue;
        print_error("heap: byte %zu past the end of %zu bytes was written\n", i, bytes);
        heap->errors++;
        break;
    }
    about.mark = DEAD;
    memcpy((uint8_t *)memory - sizeof about, &about, sizeof about);
    heap->live--;
    heap->live_bytes -= bytes;
    free(about.base);
}

lks_allocator lkt_heap_allocator(lkt_heap *heap)
{
    return (lks_allocator){.alloc = heap_alloc, .release = heap_release, .user = heap};
}
