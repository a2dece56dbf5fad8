/* Reading and writing files. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/inflate.h"
#include "base/memory.h"

/* Why a file or folder could not be had, and what to do. */
static lks_status fail_io(const char *what, const char *path, int error)
{
    const char *advice = NULL;
    switch (error) {
    case ENOSPC:
        advice = "no space left on the device; free some or give another folder";
        break;
    case EDQUOT:
        advice = "the disk quota is used up; free some or give another folder";
        break;
    case EFBIG:
        advice = "the file would be larger than is allowed (see ulimit -f)";
        break;
    case EROFS:
        advice = "the file system is read-only; give another folder";
        break;
    case EACCES:
    case EPERM:
        advice = "no permission; change the permissions or give another path";
        break;
    case ENOENT:
        advice = "there is no such file or folder";
        break;
    case ENOTDIR:
        advice = "a part of the path is not a folder";
        break;
    case EISDIR:
        advice = "it is a folder, expected a file";
        break;
    default:
        break;
    }
    if (!advice) advice = strerror(error);
    /* Of a path that would leave no space for the reason, the end says most. */
    const size_t length = strlen(path), most = 400;
    const bool cut = length > most;
    return LKI_FAIL(LKS_E_IO, "cannot %s '%s%s': %s", what, cut ? "..." : "",
                    cut ? path + length - most : path, advice);
}

lks_status lki_file_open(lki_file *out, lks_context *context, const char *path)
{
    *out = (lki_file){.context = context};
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* pipes do not wait */
    if (descriptor < 0) return fail_io("open", path, errno);
    lks_status status = LKS_OK;
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        status = fail_io("open", path, errno);
    } else if (S_ISDIR(info.st_mode)) {
        status = fail_io("open", path, EISDIR);
    } else if (!S_ISREG(info.st_mode)) {
        status = LKI_FAIL(LKS_E_IO, "cannot open '%s': it is not a regular file", path);
    } else if (info.st_size > 0) { /* an empty file cannot be mapped */
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED) {
            status = fail_io("map", path, errno);
        } else {
            out->data = data;
            out->bytes = (size_t)info.st_size;
            out->mapped = true;
        }
    }
    close(descriptor);
    if (status != LKS_OK || !lki_gzip_is(out->data, out->bytes)) return status;

    const lki_file packed = *out;
    *out = (lki_file){.context = context};
    status = lki_gzip_inflate(out, packed.data, packed.bytes, path);
    munmap((void *)(uintptr_t)packed.data, packed.bytes);
    return status;
}

void lki_file_close(lki_file *file)
{
    void *data = (void *)(uintptr_t)file->data;
    if (file->mapped) {
        munmap(data, file->bytes);
    } else {
        lki_free(file->context, data, file->bytes);
    }
    *file = (lki_file){.data = NULL};
}

/* Writing. */

enum { BUFFER = 64 * 1024 };

struct lki_writer {
    lks_context *context;
    int descriptor;
    lks_error failure; /* the first one; status LKS_OK while all is well */
    size_t buffered;
    uint8_t buffer[BUFFER];
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    char folder[PATH_MAX];
};

/* Keeps the failure that the thread's record holds, for the calls that follow. */
static lks_status keep_failure(lki_writer *writer, lks_status status)
{
    if (status != LKS_OK) writer->failure = *lks_last_error();
    return status;
}

static lks_status fill_names(lki_writer *writer, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (*name == '\0') return fail_io("write", path, EISDIR);
    const int folder_length = slash == path ? 1 : slash ? (int)(slash - path) : 1;
    const int lengths[] = {
        snprintf(writer->path, sizeof writer->path, "%s", path),
        snprintf(writer->folder, sizeof writer->folder, "%.*s", folder_length, slash ? path : "."),
        snprintf(writer->temporary, sizeof writer->temporary, "%.*s.%s.tmp-%ld",
                 slash ? (int)(name - path) : 0, path, name, (long)getpid())};
    for (int i = 0; i < 3; i++) {
        if (lengths[i] < 0 || lengths[i] >= PATH_MAX) return fail_io("write", path, ENAMETOOLONG);
    }
    return LKS_OK;
}

lks_status lki_writer_open(lki_writer **out, lks_context *context, const char *path)
{
    *out = NULL;
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(lki_writer), "a file's write buffer"));
    lki_writer *writer = memory;
    writer->context = context;
    writer->descriptor = -1;
    lks_status status = fill_names(writer, path);
    struct stat info;
    if (status == LKS_OK && stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        status = S_ISDIR(info.st_mode)
                     ? fail_io("write", path, EISDIR)
                     : LKI_FAIL(LKS_E_IO, "cannot write '%s': it is not a regular file", path);
    }
    if (status == LKS_OK) {
        writer->descriptor = open(writer->temporary,
                                  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (writer->descriptor < 0) status = fail_io("write", path, errno);
    }
    if (status != LKS_OK) {
        lki_free(context, writer, sizeof *writer);
        return status;
    }
    *out = writer;
    return LKS_OK;
}

static lks_status write_all(lki_writer *writer, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t done = write(writer->descriptor, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return keep_failure(writer, fail_io("write", writer->path, errno));
        data += done;
        bytes -= (size_t)done;
    }
    return LKS_OK;
}

static lks_status flush(lki_writer *writer)
{
    const size_t bytes = writer->buffered;
    writer->buffered = 0;
    return write_all(writer, writer->buffer, bytes);
}

/* Passes the first failure on again. */
static lks_status check(const lki_writer *writer)
{
    if (writer->failure.status != LKS_OK) lki_error_restore(&writer->failure);
    return writer->failure.status;
}

lks_status lki_writer_write(lki_writer *writer, const void *data, size_t bytes)
{
    LKI_TRY(check(writer));
    if (bytes == 0) return LKS_OK;
    if (bytes > BUFFER - writer->buffered) LKI_TRY(flush(writer));
    if (bytes >= BUFFER) return write_all(writer, data, bytes);
    memcpy(writer->buffer + writer->buffered, data, bytes);
    writer->buffered += bytes;
    return LKS_OK;
}

/* Makes the rename last: without this a power cut may bring the old file back. */
static lks_status sync_folder(const lki_writer *writer)
{
    const int descriptor = open(writer->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return fail_io("sync the folder", writer->folder, errno);
    lks_status status = LKS_OK;
    if (fsync(descriptor) != 0 && errno != EINVAL &&
        errno != ENOSYS) { /* some cannot, and say so */
        status = fail_io("sync the folder", writer->folder, errno);
    }
    close(descriptor);
    return status;
}

lks_status lki_writer_commit(lki_writer *writer)
{
    lks_status status = check(writer);
    if (status == LKS_OK) status = flush(writer);
    if (status == LKS_OK && fsync(writer->descriptor) != 0) {
        status = fail_io("write", writer->path, errno);
    }
    const int closed = close(writer->descriptor);
    writer->descriptor = -1;
    if (status == LKS_OK && closed != 0) status = fail_io("write", writer->path, errno);
    if (status == LKS_OK && rename(writer->temporary, writer->path) != 0) {
        status = fail_io("write", writer->path, errno);
    }
    if (status != LKS_OK) {
        lki_writer_abandon(writer);
        return status;
    }
    status = sync_folder(writer);
    lki_free(writer->context, writer, sizeof *writer);
    return status;
}

void lki_writer_abandon(lki_writer *writer)
{
    if (!writer) return;
    if (writer->descriptor >= 0) close(writer->descriptor);
    unlink(writer->temporary);
    lki_free(writer->context, writer, sizeof *writer);
}

lks_status lki_folder_make(const char *path)
{
    char part[PATH_MAX];
    const size_t length = strlen(path);
    if (length == 0) return fail_io("make the folder", path, ENOENT);
    if (length >= sizeof part) return fail_io("make the folder", path, ENAMETOOLONG);
    for (size_t end = 1; end <= length; end++) {
        if (path[end] != '/' && path[end] != '\0') continue;
        memcpy(part, path, end);
        part[end] = '\0';
        if (mkdir(part, 0777) == 0) continue;
        const int error = errno;
        struct stat info;
        if (stat(part, &info) == 0 && S_ISDIR(info.st_mode)) continue;
        return fail_io("make the folder", path, error == EEXIST ? ENOTDIR : error);
    }
    if (access(path, W_OK | X_OK) != 0) return fail_io("write to the folder", path, errno);
    return LKS_OK;
}
