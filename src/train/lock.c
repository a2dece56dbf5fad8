/* The lock of a run's folder: flock() on a file in it, so that it ends with its process. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

#include "base/check.h"
#include "base/context.h"
#include "base/file.h"
#include "base/memory.h"
#include "train/saved.h"

enum { TRIES = 100, HOST_SIZE = 128 };

struct lks_folder_lock {
    lks_context *context;
    int descriptor; /* -1: there are no locks here */
    char path[PATH_MAX];
};

static lks_status fail_busy(const char *folder, int descriptor)
{
    char text[HOST_SIZE + 32] = "", host[HOST_SIZE] = "", shown[LKI_NAME_TEXT];
    char holder[LKI_NAME_TEXT + 64] = "";
    long process = 0;
    if (pread(descriptor, text, sizeof text - 1, 0) > 0 &&
        sscanf(text, "%ld %127s", &process, host) == 2)
        snprintf(holder, sizeof holder, " (process %ld on %s)", process,
                 lki_name_print(host, shown));
    return LKI_FAIL(LKS_E_IO,
                    "the folder '%.300s' is in use by another training%s; wait for its end, or "
                    "give another folder",
                    folder, holder);
}

/* For the sentence that another process will say; the lock is good without it. */
static void sign(int descriptor)
{
    char text[HOST_SIZE + 32], host[HOST_SIZE] = "";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof host, "this machine");
    const int length = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
    if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text, (size_t)length, 0) < length)
        (void)!ftruncate(descriptor, 0);
}

/* The file that was locked still has its name: whoever had the lock before may have removed it. */
static bool is_in_place(int descriptor, const char *path)
{
    struct stat locked, named;
    return fstat(descriptor, &locked) == 0 && stat(path, &named) == 0 &&
           locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

static lks_status lock_take(lks_folder_lock *lock, const char *folder)
{
    for (int i = 0; i < TRIES; i++) {
        const int descriptor = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (descriptor < 0) return lki_fail_io("lock the folder", folder, errno);
        const int error = lki_lock(descriptor);
        if (error == EWOULDBLOCK) {
            const lks_status status = fail_busy(folder, descriptor);
            close(descriptor);
            return status;
        }
        if (error != 0) {
            close(descriptor);
            unlink(lock->path);
            lki_log_line(lock->context, LKS_LOG_WARN,
                         "the folder '%.300s' cannot be locked on its file system (%s): see that "
                         "no other training writes to it",
                         folder, strerror(error));
            return LKS_OK;
        }
        if (is_in_place(descriptor, lock->path)) {
            sign(descriptor);
            lki_log_line(lock->context, LKS_LOG_DEBUG, "locked the folder '%.400s'", folder);
            lock->descriptor = descriptor;
            return LKS_OK;
        }
        close(descriptor);
    }
    return LKI_FAIL(LKS_E_IO,
                    "the folder '%.300s' cannot be locked: others take and leave its "
                    "lock all the time; try again",
                    folder);
}

lks_status lks_checkpoint_lock(lks_folder_lock **out, lks_context *context, const char *folder)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    void *memory;
    *out = NULL;
    if (folder == NULL) return LKI_FAIL_NULL(folder);
    LKI_TRY(lki_folder_make(folder));
    LKI_TRY(lki_alloc(context, &memory, sizeof(lks_folder_lock), "a folder's lock"));
    lks_folder_lock *lock = memory;
    lock->context = context;
    lock->descriptor = -1;
    const int length = snprintf(lock->path, sizeof lock->path, "%s/.lockstep.lock", folder);
    const lks_status status = length < PATH_MAX
                                  ? lock_take(lock, folder)
                                  : lki_fail_io("lock the folder", folder, ENAMETOOLONG);
    if (status != LKS_OK) {
        lki_free(context, lock, sizeof *lock);
        return status;
    }
    *out = lock;
    return LKS_OK;
}

void lks_checkpoint_unlock(lks_folder_lock *lock)
{
    if (!lock) return;
    if (lock->descriptor >= 0) {
        unlink(lock->path); /* while it is locked, so that it is ours */
        close(lock->descriptor);
    }
    lki_free(lock->context, lock, sizeof *lock);
}
