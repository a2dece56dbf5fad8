/* Members of a zip archive in memory, stored or deflated, of any size (zip64). */
#ifndef LKI_DATA_NUMPY_ZIP_H
#define LKI_DATA_NUMPY_ZIP_H

#include "base/file.h"

/* Borrows the bytes it was opened from. */
typedef struct lki_zip {
    const uint8_t *data, *list; /* the list of members, which stands at the end of the data */
    size_t bytes, list_bytes;
    const char *path; /* for messages; borrowed */
} lki_zip;

/* By its first bytes. */
bool lki_zip_is(const uint8_t *data, size_t bytes);
/* Finds the list, and looks at every entry of it. */
lks_status lki_zip_open(lki_zip *out, const uint8_t *data, size_t bytes, const char *path);
bool lki_zip_has(const lki_zip *zip, const char *name);
/* The name of a member, in the list's order from 0: `bytes` of the archive's; NULL: there are no more. */
const char *lki_zip_member(const lki_zip *zip, int64_t number, size_t *bytes);

/*
 * The bytes of the member `name`, checked against its CRC: those of a stored one are the archive's own, those
 * of a deflated one are in `inflated`, which is zeroed but for its context, and the caller's to close.
 */
lks_status lki_zip_read(const lki_zip *zip, const char *name, const uint8_t **out, size_t *bytes,
                        lki_file *inflated);

#endif
