/* Files: mapped or inflated for reading, whole or not at all for writing. */
#ifndef LKI_BASE_FILE_H
#define LKI_BASE_FILE_H

#include <dirent.h>

#include <lockstep/context.h>

/* The bytes of a file: mapped, or inflated into memory where it is gzip (by its first bytes,
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
 * Writing: to a temporary file beside `path`, then commit = fsync, rename, fsync of the folder.
 * Abandon removes the temporary. After a failed write everything else but abandon returns that
 * failure. Full disk and read-only folders get their own sentence.
 *
 * Where `path` is a symbolic link, what it points to is replaced and the link stays. A device or a
 * pipe, and what standard output or error go to, are written to as they are.
 *
 * The temporary is named ".<name>.lockstep-<16 hex digits>", at random, and is locked while its
 * writer lives: that, and no number of a process, tells it from what a killed one has left behind,
 * also where processes of several containers or machines share the folder.
 */
typedef struct lki_writer lki_writer;
lks_status lki_writer_open(lki_writer **out, lks_context *context, const char *path);
/* Removes what killed writers have left in its folder: files of the same name, and those of other
 * names that are over an hour old (some file systems do not show another machine's locks). */
void lki_writer_tidy(const lki_writer *writer);
lks_status lki_writer_write(lki_writer *writer, const void *data, size_t bytes);
lks_status lki_writer_commit(lki_writer *writer); /* frees the writer, also when it fails */
void lki_writer_abandon(lki_writer *writer);      /* NULL is fine */

/* Whether `path` is, or would be, a file that a writer replaces: no device, no pipe, and nothing that
 * standard output or error go to, where what is written once stays. */
bool lki_file_is_replaced(const char *path);

/* Whether an entry of a folder is a temporary file of a writer whose name begins with `begin`. */
bool lki_temporary_is(const char *entry, const char *begin);
/* Removes it, unless its writer lives or the file system cannot tell. */
void lki_temporary_remove(const char *folder, const char *entry);

/* Locks a file for this descriptor without waiting, until it is closed or its process ends. 0, or
 * EWOULDBLOCK where another one has it, or the error of a file system without locks. */
int lki_lock(int descriptor);

/* Fails with LKS_E_IO: why a file or folder could not be had, and what to do. `what` is "open", for
 * example. */
lks_status lki_fail_io(const char *what, const char *path, int error);

/* Whether it is a folder, or a link to one. */
bool lki_folder_is(const char *path);

/* The next entry of an open folder; NULL behind the last, with 0, or with why there may be more. */
const struct dirent *lki_folder_next(DIR *folder, int *error);

/* Creates a folder and its parents where missing, and sees that files can be written there. */
lks_status lki_folder_make(const char *path);

#endif
