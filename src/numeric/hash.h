/* XXH3-64, and the state hash of docs/numerics.md. Multi-byte values are hashed little-endian. */
#ifndef LKI_NUMERIC_HASH_H
#define LKI_NUMERIC_HASH_H

#include <stddef.h>
#include <stdint.h>

#include <lockstep/tensor.h>

enum { LKI_HASH_BLOCK = 256 * 1024 }; /* bytes of a tensor's values per block digest */

uint64_t lki_hash(const void *data, size_t bytes);

/* The same of bytes that come in parts: lki_hash() of all of them together. */
typedef struct lki_hash_stream lki_hash_stream;
lks_status lki_hash_stream_open(lki_hash_stream **out, lks_context *context);
void lki_hash_stream_add(lki_hash_stream *stream, const void *data, size_t bytes);
uint64_t lki_hash_stream_close(lki_hash_stream *stream); /* frees it; NULL is fine and gives 0 */

/* Digest of a state tensor's description: name, zero byte, dtype name, zero byte, ndim and dims as
 * i64. */
uint64_t lki_hash_header(const char *name, lks_dtype dtype, const lks_shape *shape);

/* link = H(previous, step, state) over 24 bytes. */
uint64_t lki_hash_link(uint64_t previous, int64_t step, uint64_t state);

/* The version of xxHash. */
void lki_xxhash_version(char *out, size_t size);

#endif
