/* gzip files in memory (RFC 1952). */
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

/* The version of zlib. */
void lki_zlib_version(char *out, size_t size);

#endif
