/* Files: mapped or inflated for reading, whole or not at all for writing. */
#ifndef LKI_BASE_FILE_H
#define LKI_BASE_FILE_H

#include <lockstep/context.h>

/* The bytes of a file: mapped, or inflated into memory where it is gzip (by its first two bytes,
 * whatever the name). Errors say path and reason; damaged or truncated gzip is LKS_E_FORMAT. */
typedef struct lki_file {
    const uint8_t *data;
    size_t bytes;
    bool mapped;
    lks_context *context;
} lki_file;
lks_status lki_file_open(lki_file *out, lks_context *context, const char *path);
void lki_file_close(lki_file *file); /* zeroed is fine */

/*
 * Writing: to a temporary file beside `path` (".<name>.tmp-<pid>"), then commit = fsync, rename,
 * fsync of the folder. Abandon removes the temporary. After a failed write everything else but
 * abandon returns that failure. Full disk and read-only folders get their own sentence.
 */
typedef struct lki_writer lki_writer;
lks_status lki_writer_open(lki_writer **out, lks_context *context, const char *path);
lks_status lki_writer_write(lki_writer *writer, const void *data, size_t bytes);
lks_status lki_writer_commit(lki_writer *writer); /* frees the writer, also when it fails */
void lki_writer_abandon(lki_writer *writer);      /* NULL is fine */

/* Creates a folder and its parents where missing, and sees that files can be written there. */
lks_status lki_folder_make(const char *path);

#endif
