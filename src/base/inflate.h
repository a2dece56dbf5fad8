/* gzip files (RFC 1952), and what zip files have inside (RFC 1951), in memory. */
#ifndef LKI_BASE_INFLATE_H
#define LKI_BASE_INFLATE_H

#include <stddef.h>

#include "base/file.h"

/* By its first two bytes. A safetensors file may begin with them, for its header's length does; but
 * where that has '{', the first byte of the header, gzip has 0, 2 or 4, how hard it was tried. */
bool lki_gzip_is(const uint8_t *data, size_t bytes);

/*
 * Fills out->data and out->bytes (out->context is the caller's) from one or more gzip members.
 * Memory grows with what is really there, never with what a header claims. `path` is for messages.
 */
lks_status lki_gzip_inflate(lki_file *out, const uint8_t *data, size_t bytes, const char *path);

/* The same from deflate data without a frame, as the members of a zip file are, which must give `size` bytes. */
lks_status lki_deflate_inflate(lki_file *out, const uint8_t *data, size_t bytes, size_t size,
                               const char *path);

/* CRC-32, as zip files have it. */
uint32_t lki_crc32(const uint8_t *data, size_t bytes);

/* The version of zlib. */
void lki_zlib_version(char *out, size_t size);

#endif
