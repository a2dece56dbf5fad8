/* Hashes of state. */
#include "numeric/hash.h"

#include <stdio.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for a streaming state on the stack */
#include <xxhash.h>

#include "base/check.h"
#include "base/memory.h"

struct lki_hash_stream {
    XXH3_state_t state; /* aligned to 64 bytes, as lki_alloc() aligns */
    lks_context *context;
};

static void add_i64(XXH3_state_t *state, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> 8 * i);
    XXH3_64bits_update(state, bytes, sizeof bytes);
}

uint64_t lki_hash(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

lks_status lki_hash_stream_open(lki_hash_stream **out, lks_context *context)
{
    *out = NULL;
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(lki_hash_stream), "a hash"));
    *out = memory;
    (*out)->context = context;
    XXH3_64bits_reset(&(*out)->state);
    return LKS_OK;
}

void lki_hash_stream_add(lki_hash_stream *stream, const void *data, size_t bytes)
{
    XXH3_64bits_update(&stream->state, data, bytes);
}

uint64_t lki_hash_stream_close(lki_hash_stream *stream)
{
    if (!stream) return 0;
    const uint64_t hash = XXH3_64bits_digest(&stream->state);
    lki_free(stream->context, stream, sizeof *stream);
    return hash;
}

uint64_t lki_hash_header(const char *name, lks_dtype dtype, const lks_shape *shape)
{
    const char *type = lks_dtype_name(dtype);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, name, strlen(name) + 1);
    XXH3_64bits_update(&state, type, strlen(type) + 1);
    add_i64(&state, (uint64_t)shape->ndim);
    for (int i = 0; i < shape->ndim; i++) add_i64(&state, (uint64_t)shape->dim[i]);
    return XXH3_64bits_digest(&state);
}

uint64_t lki_hash_link(uint64_t previous, int64_t step, uint64_t state)
{
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    add_i64(&hash, previous);
    add_i64(&hash, (uint64_t)step);
    add_i64(&hash, state);
    return XXH3_64bits_digest(&hash);
}

void lki_xxhash_version(char *out, size_t size)
{
    const unsigned version = XXH_versionNumber();
    snprintf(out, size, "xxHash %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
}
