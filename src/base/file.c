/* Reading files, and making folders. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "base/inflate.h"
#include "base/memory.h"

lks_status lki_fail_io(const char *what, const char *path, int error)
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
    if (descriptor < 0) return lki_fail_io("open", path, errno);
    lks_status status = LKS_OK;
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        status = lki_fail_io("open", path, errno);
    } else if (S_ISDIR(info.st_mode)) {
        status = lki_fail_io("open", path, EISDIR);
    } else if (!S_ISREG(info.st_mode)) {
        status = LKI_FAIL(LKS_E_IO, "cannot open '%s': it is not a regular file", path);
    } else if (info.st_size > 0) { /* an empty file cannot be mapped */
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED) {
            status = lki_fail_io("map", path, errno);
        } else {
            out->data = data;
            out->bytes = (size_t)info.st_size;
            out->mapped = true;
        }
    }
    close(descriptor);
    if (status != LKS_OK) return status;
    if (!lki_gzip_is(out->data, out->bytes)) {
        lki_log_line(context, LKS_LOG_DEBUG, "opened '%.400s': %zu byte%s, mapped", path,
                     out->bytes, LKI_S(out->bytes));
        return LKS_OK;
    }
    const double begin = lki_seconds();
    const lki_file packed = *out;
    *out = (lki_file){.context = context};
    status = lki_gzip_inflate(out, packed.data, packed.bytes, path);
    munmap((void *)(uintptr_t)packed.data, packed.bytes);
    if (status == LKS_OK)
        lki_log_line(context, LKS_LOG_DEBUG,
                     "opened '%.400s': %zu byte%s, inflated to %zu in %.3f s", path, packed.bytes,
                     LKI_S(packed.bytes), out->bytes, lki_seconds() - begin);
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

bool lki_folder_is(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

const struct dirent *lki_folder_next(DIR *folder, int *error)
{
    errno = 0; /* the end of a folder leaves it as it is */
    const struct dirent *entry = readdir(folder);
    *error = entry == NULL ? errno : 0;
    return entry;
}

lks_status lki_folder_make(const char *path)
{
    char part[PATH_MAX];
    const size_t length = strlen(path);
    if (length == 0) return lki_fail_io("make the folder", path, ENOENT);
    if (length >= sizeof part) return lki_fail_io("make the folder", path, ENAMETOOLONG);
    for (size_t end = 1; end <= length; end++) {
        if (path[end] != '/' && path[end] != '\0') continue;
        memcpy(part, path, end);
        part[end] = '\0';
        if (mkdir(part, 0777) == 0) continue;
        const int error = errno;
        struct stat info;
        if (stat(part, &info) == 0 && S_ISDIR(info.st_mode)) continue;
        return lki_fail_io("make the folder", path, error == EEXIST ? ENOTDIR : error);
    }
    if (access(path, W_OK | X_OK) != 0) return lki_fail_io("write to the folder", path, errno);
    return LKS_OK;
}
