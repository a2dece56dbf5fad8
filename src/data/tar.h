/* Members of a tar archive in memory (POSIX ustar, and what GNU and pax add to it). */
#ifndef LKI_DATA_TAR_H
#define LKI_DATA_TAR_H

#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

/* *out: the bytes of the regular file whose path ends with `name` behind a '/', or is it; NULL where there is
 * none. `path` is the archive's, for messages. */
lks_status lki_tar_find(const uint8_t **out, size_t *size, const uint8_t *data, size_t bytes,
                        const char *path, const char *name);

#endif
