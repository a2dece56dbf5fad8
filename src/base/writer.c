/* Writing files whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

enum { BUFFER = 64 * 1024, LINKS = 40, TRIES = 100, DIGITS = 16, OLD_SECONDS = 3600 };

#define MARK ".lockstep-"

struct lki_writer {
    lks_context *context;
    int descriptor;
    bool unsynced;     /* the disk may have it later */
    bool direct;       /* into what is there: no temporary, no rename */
    lks_error failure; /* the first one; status LKS_OK while all is well */
    size_t buffered;
    uint8_t buffer[BUFFER];
    char path[PATH_MAX];   /* as it was given */
    char target[PATH_MAX]; /* behind all symbolic links */
    char folder[PATH_MAX];
    const char *name; /* in target */
    char temporary[PATH_MAX];
};

int lki_lock(int descriptor)
{
    while (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

/* ---------------------------------------------------------------- temporary files */

/* A name that no other process will think of; O_EXCL answers for the rest. */
static uint64_t random_bits(void)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == (ssize_t)sizeof bits) return bits;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec) * 0x9e3779b97f4a7c15u ^
           (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&now;
}

/* Creates and locks it; 0 or the error. */
static int create_temporary(lki_writer *writer)
{
    for (int i = 0; i < TRIES; i++) {
        const int length = snprintf(writer->temporary, sizeof writer->temporary,
                                    "%s/.%.200s" MARK "%016llx", writer->folder, writer->name,
                                    (unsigned long long)random_bits());
        if (length < 0 || length >= PATH_MAX) return ENAMETOOLONG;
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor < 0 && errno == EEXIST) continue;
        if (writer->descriptor < 0) return errno;
        /* Before it was locked, another process may have taken it for a leftover: it has the lock
         * now, or the file is gone. */
        if (lki_lock(writer->descriptor) != EWOULDBLOCK && access(writer->temporary, F_OK) == 0)
            return 0;
        close(writer->descriptor);
        unlink(writer->temporary);
    }
    return EEXIST;
}

bool lki_temporary_is(const char *entry, const char *begin)
{
    const size_t length = strlen(entry), mark = sizeof MARK - 1;
    if (length <= 1 + mark + DIGITS || entry[0] != '.') return false;
    const char *end = entry + length - mark - DIGITS;
    return strncmp(end, MARK, mark) == 0 && strspn(end + mark, "0123456789abcdef") == DIGITS &&
           (size_t)(end - entry) > strlen(begin) && strncmp(entry + 1, begin, strlen(begin)) == 0;
}

static void remove_leftover(const char *folder, const char *entry, time_t changed_before)
{
    char path[PATH_MAX];
    struct stat info;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, entry);
    if (length < 0 || length >= PATH_MAX) return;
    /* For writing, because locks over a network ask for that. */
    const int descriptor = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_mtime <= changed_before &&
        lki_lock(descriptor) == 0) {
        unlink(path);
    }
    close(descriptor);
}

void lki_temporary_remove(const char *folder, const char *entry)
{
    remove_leftover(folder, entry, time(NULL) + OLD_SECONDS);
}

void lki_writer_tidy(const lki_writer *writer)
{
    const char *current = strrchr(writer->temporary, '/');
    char own[NAME_MAX + 1];
    DIR *folder = writer->direct ? NULL : opendir(writer->folder);
    if (!folder) return;
    snprintf(own, sizeof own, "%.200s" MARK, writer->name);
    const time_t now = time(NULL);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (!lki_temporary_is(entry->d_name, "") || strcmp(entry->d_name, current + 1) == 0)
            continue;
        const bool same = strncmp(entry->d_name + 1, own, strlen(own)) == 0;
        remove_leftover(writer->folder, entry->d_name,
                        same ? now + OLD_SECONDS : now - OLD_SECONDS);
    }
    closedir(folder);
}

/* ---------------------------------------------------------------- open */

/* The path behind all symbolic links, also where nothing is there yet. */
static int follow(const char *path, char target[PATH_MAX])
{
    char link[PATH_MAX];
    if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX) return ENAMETOOLONG;
    for (int i = 0; i < LINKS; i++) {
        const ssize_t length = readlink(target, link, sizeof link - 1);
        if (length < 0) return errno == EINVAL || errno == ENOENT ? 0 : errno;
        link[length] = '\0';
        const char *slash = strrchr(target, '/');
        const size_t before = link[0] == '/' || !slash ? 0 : (size_t)(slash + 1 - target);
        if (before + (size_t)length >= PATH_MAX) return ENAMETOOLONG;
        memcpy(target + before, link, (size_t)length + 1);
    }
    return ELOOP;
}

static int fill_names(lki_writer *writer)
{
    const int error = follow(writer->path, writer->target);
    if (error != 0) return error;
    const char *slash = strrchr(writer->target, '/');
    writer->name = slash ? slash + 1 : writer->target;
    if (*writer->name == '\0') return EISDIR;
    const int length = slash == writer->target ? 1 : slash ? (int)(slash - writer->target) : 1;
    snprintf(writer->folder, sizeof writer->folder, "%.*s", length, slash ? writer->target : ".");
    return 0;
}

/* The standard stream that goes to this file, or -1. It has a place in the file, or a mode, that
 * opening it once more would not have. */
static int standard_stream(const struct stat *info)
{
    struct stat stream;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        if (fstat(i, &stream) == 0 && stream.st_dev == info->st_dev &&
            stream.st_ino == info->st_ino)
            return i;
    return -1;
}

bool lki_file_is_replaced(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return true;
    return S_ISREG(info.st_mode) && standard_stream(&info) < 0;
}

/* With `only_try` a pipe is not opened: its reader would notice. */
static lks_status open_target(lki_writer *writer, bool only_try)
{
    struct stat info;
    const bool there = stat(writer->path, &info) == 0;
    if (!there && errno != ENOENT) return lki_fail_io("write", writer->path, errno);
    if (there && S_ISDIR(info.st_mode)) return lki_fail_io("write", writer->path, EISDIR);
    const int stream = there ? standard_stream(&info) : -1;
    if (there && stream < 0 && (S_ISBLK(info.st_mode) || S_ISSOCK(info.st_mode)))
        return LKI_FAIL(LKS_E_IO, "cannot write '%s': it is a %s, expected a file", writer->path,
                        S_ISBLK(info.st_mode) ? "disk" : "socket");
    writer->direct = stream >= 0 || (there && !S_ISREG(info.st_mode));
    int error = 0;
    if (writer->direct && only_try) {
        if (access(writer->path, W_OK) != 0) error = errno;
    } else if (writer->direct) {
        writer->descriptor = stream >= 0 ? fcntl(stream, F_DUPFD_CLOEXEC, 0)
                                         : open(writer->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (writer->descriptor < 0) error = errno;
    } else {
        error = fill_names(writer);
        if (error == 0) error = create_temporary(writer);
    }
    return error == 0 ? LKS_OK : lki_fail_io("write", writer->path, error);
}

static lks_status open_writer(lki_writer **out, lks_context *context, const char *path,
                              bool only_try)
{
    *out = NULL;
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(lki_writer), "a file's write buffer"));
    lki_writer *writer = memory;
    writer->context = context;
    writer->descriptor = -1;
    const bool fits = snprintf(writer->path, sizeof writer->path, "%s", path) < PATH_MAX;
    const lks_status status = fits ? open_target(writer, only_try)
                                   : lki_fail_io("write", path, ENAMETOOLONG);
    if (status != LKS_OK) {
        lki_free(context, writer, sizeof *writer);
        return status;
    }
    *out = writer;
    return LKS_OK;
}

lks_status lki_writer_open(lki_writer **out, lks_context *context, const char *path)
{
    return open_writer(out, context, path, false);
}

/* ---------------------------------------------------------------- write */

/* Keeps the failure that the thread's record holds, for the calls that follow. */
static lks_status keep_failure(lki_writer *writer, lks_status status)
{
    if (status != LKS_OK) writer->failure = *lks_last_error();
    return status;
}

static lks_status writer_write_all(lki_writer *writer, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t done = write(writer->descriptor, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return keep_failure(writer, lki_fail_io("write", writer->path, errno));
        data += done;
        bytes -= (size_t)done;
    }
    return LKS_OK;
}

static lks_status writer_flush(lki_writer *writer)
{
    const size_t bytes = writer->buffered;
    writer->buffered = 0;
    return writer_write_all(writer, writer->buffer, bytes);
}

/* Passes the first failure on again. */
static lks_status writer_check(const lki_writer *writer)
{
    if (writer->failure.status != LKS_OK) lki_error_restore(&writer->failure);
    return writer->failure.status;
}

lks_status lki_writer_write(lki_writer *writer, const void *data, size_t bytes)
{
    LKI_TRY(writer_check(writer));
    if (bytes == 0) return LKS_OK;
    if (bytes > BUFFER - writer->buffered) LKI_TRY(writer_flush(writer));
    if (bytes >= BUFFER) return writer_write_all(writer, data, bytes);
    memcpy(writer->buffer + writer->buffered, data, bytes);
    writer->buffered += bytes;
    return LKS_OK;
}

/* ---------------------------------------------------------------- commit */

/* Makes the rename last: without this a power cut may bring the old file back. */
static lks_status sync_folder(const lki_writer *writer)
{
    const int descriptor = open(writer->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return lki_fail_io("sync the folder", writer->folder, errno);
    lks_status status = LKS_OK;
    if (fsync(descriptor) != 0 && errno != EINVAL &&
        errno != ENOSYS) { /* some cannot, and say so */
        status = lki_fail_io("sync the folder", writer->folder, errno);
    }
    close(descriptor);
    return status;
}

/* Everything up to the rename; 0 or the error. A second descriptor keeps the lock over the closing
 * of the first, which may still fail: without it the file would look like a leftover. */
static int commit_temporary(lki_writer *writer)
{
    int error = !writer->unsynced && fsync(writer->descriptor) != 0 ? errno : 0;
    const int lock = error == 0 ? fcntl(writer->descriptor, F_DUPFD_CLOEXEC, 0) : -1;
    if (error == 0 && lock < 0) error = errno;
    const int closed = close(writer->descriptor);
    writer->descriptor = -1;
    if (error == 0 && closed != 0) error = errno;
    if (error == 0 && rename(writer->temporary, writer->target) != 0) error = errno;
    if (lock >= 0) close(lock);
    return error;
}

lks_status lki_writer_commit(lki_writer *writer)
{
    lks_status status = writer_check(writer);
    if (status == LKS_OK) status = writer_flush(writer);
    if (status == LKS_OK && !writer->direct) {
        const int error = commit_temporary(writer);
        if (error != 0) status = lki_fail_io("write", writer->path, error);
    }
    if (status == LKS_OK && !writer->direct) {
        if (!writer->unsynced) status = sync_folder(writer);
        lki_free(writer->context, writer, sizeof *writer);
        return status;
    }
    lki_writer_abandon(writer);
    return status;
}

void lki_writer_abandon(lki_writer *writer)
{
    if (!writer) return;
    if (writer->descriptor >= 0) close(writer->descriptor);
    if (!writer->direct) unlink(writer->temporary);
    lki_free(writer->context, writer, sizeof *writer);
}

/* ---------------------------------------------------------------- in one call */

static lks_status write_file(const char *path, const void *data, size_t bytes, bool unsynced)
{
    if (!path || (!data && bytes > 0)) {
        return LKI_FAIL(LKS_E_INVALID, "a file to write needs a path and its bytes; found NULL");
    }
    lki_writer *writer;
    LKI_TRY(lki_writer_open(&writer, NULL, path));
    writer->unsynced = unsynced;
    lki_writer_tidy(writer);
    const lks_status status = lki_writer_write(writer, data, bytes);
    if (status == LKS_OK) return lki_writer_commit(writer);
    lki_writer_abandon(writer);
    return status;
}

lks_status lks_file_write(const char *path, const void *data, size_t bytes)
{
    return write_file(path, data, bytes, false);
}

lks_status lks_file_update(const char *path, const void *data, size_t bytes)
{
    return write_file(path, data, bytes, true);
}

lks_status lks_file_try(const char *path)
{
    if (!path) return LKI_FAIL(LKS_E_INVALID, "a file to write needs a path; found NULL");
    lki_writer *writer;
    LKI_TRY(open_writer(&writer, NULL, path, true));
    lki_writer_abandon(writer);
    return LKS_OK;
}
