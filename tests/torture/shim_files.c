/*
 * Preloaded into the program: counts what it asks of its files, and makes one of these calls go
 * wrong. Files of the system (/proc, /sys, /usr, ...) and standard error are not counted.
 *
 *   LKT_FAULT      "<n> <what>", n from 1, over all kinds of calls:
 *                    fail   call n fails, with an error that is typical of it
 *                    full   from call n on, everything that needs space fails with ENOSPC
 *                    kill   SIGKILL before call n
 *                    half   call n, a write, writes half of its bytes; then SIGKILL
 *                    short  call n, a write, writes half of its bytes
 *                    again  call n fails with EINTR, before it has done anything
 *   LKT_SIGNAL     "<n> <number>": the process gets this signal before call n, whatever goes wrong
 *   LKT_FAULT_LOG  file that gets a line for each call: number, kind, "ok" or the error's number,
 *                  path (of a rename: from, tab, to)
 *   LKT_FAULT_PID  what getpid() says: processes of containers often have the same number
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum kind {
    OPEN,
    CREATE,
    FOLDER,
    WRITE,
    FLUSH,
    SYNC,
    SYNC_ALL,
    RENAME,
    REMOVE,
    CLOSE,
    LIST,
    ENTRY,
    LOCK,
    MAP,
    STAT
} kind;

static const struct kind_row {
    const char *name;
    int error;        /* that is typical of it */
    bool needs_space; /* on the disk */
} kinds[] = {
    [OPEN] = {"open", EMFILE, false},    [CREATE] = {"create", EMFILE, true},
    [FOLDER] = {"folder", ENOSPC, true}, [WRITE] = {"write", EIO, true},
    [FLUSH] = {"flush", EIO, true},      [SYNC] = {"sync", EIO, true},
    [SYNC_ALL] = {"syncfs", EIO, true},  [RENAME] = {"rename", EIO, false},
    [REMOVE] = {"remove", EPERM, false}, [CLOSE] = {"close", EIO, false},
    [LIST] = {"list", EMFILE, false},    [ENTRY] = {"entry", EIO, false},
    [LOCK] = {"lock", ENOLCK, false},    [MAP] = {"map", ENOMEM, false},
    [STAT] = {"stat", EIO, false},
};

enum { STREAM_FAILED = 0x20 }; /* ferror(), in the GNU C library */

static int count, fault_at, signal_at, signal_number, log_descriptor = -1;
static char fault[16] = "";

__attribute__((constructor)) static void read_environment(void)
{
    const char *given = getenv("LKT_FAULT"), *log = getenv("LKT_FAULT_LOG");
    const char *asked = getenv("LKT_SIGNAL");
    if (asked != NULL) sscanf(asked, "%d %d", &signal_at, &signal_number);
    if (given != NULL) sscanf(given, "%d %15s", &fault_at, fault);
    if (log != NULL)
        log_descriptor = (int)syscall(SYS_openat, AT_FDCWD, log,
                                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void find_next(const char *name, void *out, size_t bytes)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(out, &found, bytes);
}

/* Declares `real`, the function behind ours. ISO C keeps pointers of functions apart from void *. */
#define NEXT(declaration, name)                                                                    \
    declaration;                                                                                   \
    find_next(name, &real, sizeof real);

static bool is_ours(const char *path)
{
    static const char *const others[] = {"/proc/", "/sys/", "/etc/", "/usr/", "/lib", "/dev/"};
    if (strncmp(path, "/dev/shm/", 9) == 0) return true; /* a folder like others */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(path, others[i], strlen(others[i])) == 0) return false;
    return path[0] != '\0';
}

static const char *path_of(int descriptor, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    /* Pipes and the like have no path that begins with '/'. */
    if (descriptor < 0 || descriptor == STDERR_FILENO || path[0] != '/') path[0] = '\0';
    return path;
}

static void end_process(void)
{
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

/* Before a call: its number, or 0 where it is not counted. */
static int begin(const char *path)
{
    if (!is_ours(path)) return 0;
    const int number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    if (number == signal_at) syscall(SYS_kill, syscall(SYS_getpid), signal_number);
    if (number == fault_at && strcmp(fault, "kill") == 0) end_process();
    return number;
}

/* Whether the call is to fail; errno is set. */
static bool fails(int number, kind what)
{
    const bool here = number != 0 && number == fault_at;
    const bool behind = number != 0 && fault_at > 0 && number >= fault_at;
    if (here && strcmp(fault, "fail") == 0) {
        errno = kinds[what].error;
    } else if (behind && strcmp(fault, "full") == 0 && kinds[what].needs_space) {
        errno = ENOSPC;
    } else if (here && strcmp(fault, "again") == 0) {
        errno = EINTR;
    } else {
        return false;
    }
    return true;
}

/* After it. */
static void end(int number, kind what, bool good, const char *path, const char *to)
{
    const int error = errno;
    char outcome[16] = "ok", line[2 * PATH_MAX + 64];
    if (number == 0 || log_descriptor < 0) return;
    if (!good) snprintf(outcome, sizeof outcome, "%d", error);
    const int length = snprintf(line, sizeof line, "%d %s %s %s%s%s\n", number, kinds[what].name,
                                outcome, path, to != NULL ? "\t" : "", to != NULL ? to : "");
    syscall(SYS_write, log_descriptor, line, (size_t)length);
    errno = error;
}

pid_t getpid(void)
{
    const char *given = getenv("LKT_FAULT_PID");
    return given != NULL ? atoi(given) : (pid_t)syscall(SYS_getpid);
}

int open(const char *path, int flags, ...)
{
    NEXT(int (*real)(const char *, int, ...), "open")
    va_list args;
    va_start(args, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    const kind what = (flags & O_CREAT) != 0 ? CREATE : OPEN;
    const int number = begin(path);
    const int descriptor = fails(number, what) ? -1 : real(path, flags, mode);
    end(number, what, descriptor >= 0, path, NULL);
    return descriptor;
}

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    NEXT(FILE * (*real)(const char *, const char *), "fopen")
    const kind what = mode[0] == 'r' ? OPEN : CREATE;
    const int number = begin(path);
    FILE *file = fails(number, what) ? NULL : real(path, mode);
    end(number, what, file != NULL, path, NULL);
    return file;
}

DIR *opendir(const char *path)
{
    NEXT(DIR * (*real)(const char *), "opendir")
    const int number = begin(path);
    DIR *folder = fails(number, LIST) ? NULL : real(path);
    end(number, LIST, folder != NULL, path, NULL);
    return folder;
}

/* Of those of a folder, and of its end. */
struct dirent *readdir(DIR *folder)
{
    NEXT(struct dirent * (*real)(DIR *), "readdir")
    char path[PATH_MAX];
    const int number = begin(path_of(dirfd(folder), path));
    const bool failed = fails(number, ENTRY);
    const int error = errno;
    struct dirent *entry = failed ? NULL : real(folder);
    if (failed) errno = error;
    end(number, ENTRY, !failed, path, NULL);
    return entry;
}

int fstat(int descriptor, struct stat *out)
{
    NEXT(int (*real)(int, struct stat *), "fstat")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    const int result = fails(number, STAT) ? -1 : real(descriptor, out);
    end(number, STAT, result == 0, path, NULL);
    return result;
}

int flock(int descriptor, int how)
{
    NEXT(int (*real)(int, int), "flock")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    const int result = fails(number, LOCK) ? -1 : real(descriptor, how);
    end(number, LOCK, result == 0, path, NULL);
    return result;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int descriptor, off_t offset)
{
    NEXT(void *(*real)(void *, size_t, int, int, int, off_t), "mmap")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    void *memory = fails(number, MAP) ? MAP_FAILED
                                      : real(at, bytes, protection, flags, descriptor, offset);
    end(number, MAP, memory != MAP_FAILED, path, NULL);
    return memory;
}

ssize_t write(int descriptor, const void *data, size_t bytes)
{
    NEXT(ssize_t(*real)(int, const void *, size_t), "write")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    const bool here = number != 0 && number == fault_at;
    const bool half = here && strcmp(fault, "half") == 0;
    if ((half || (here && strcmp(fault, "short") == 0)) && bytes > 1) bytes /= 2;
    const ssize_t done = fails(number, WRITE) ? -1 : real(descriptor, data, bytes);
    if (half) end_process();
    end(number, WRITE, done >= 0, path, NULL);
    return done;
}

/* What the stream has kept goes to the file here. */
int fflush(FILE *file)
{
    NEXT(int (*real)(FILE *), "fflush")
    char path[PATH_MAX];
    const bool has_bytes = file != NULL && __fpending(file) > 0;
    const int number = has_bytes ? begin(path_of(fileno(file), path)) : 0;
    const bool failed = fails(number, FLUSH);
    const int result = failed ? EOF : real(file);
    if (failed) file->_flags |= STREAM_FAILED;
    end(number, FLUSH, result == 0, path, NULL);
    return result;
}

int fsync(int descriptor)
{
    NEXT(int (*real)(int), "fsync")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    const int result = fails(number, SYNC) ? -1 : real(descriptor);
    end(number, SYNC, result == 0, path, NULL);
    return result;
}

int syncfs(int descriptor)
{
    NEXT(int (*real)(int), "syncfs")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    const int result = fails(number, SYNC_ALL) ? -1 : real(descriptor);
    end(number, SYNC_ALL, result == 0, path, NULL);
    return result;
}

/* As Linux does it: the descriptor is gone also where closing fails. */
int close(int descriptor)
{
    NEXT(int (*real)(int), "close")
    char path[PATH_MAX];
    const int number = begin(path_of(descriptor, path));
    const bool failed = fails(number, CLOSE);
    const int error = errno, result = real(descriptor);
    if (failed) errno = error;
    end(number, CLOSE, !failed && result == 0, path, NULL);
    return failed ? -1 : result;
}

int fclose(FILE *file)
{
    NEXT(int (*real)(FILE *), "fclose")
    char path[PATH_MAX];
    const int number = begin(path_of(fileno(file), path));
    const bool failed = fails(number, CLOSE);
    const int error = errno, result = real(file);
    if (failed) errno = error;
    end(number, CLOSE, !failed && result == 0, path, NULL);
    return failed ? EOF : result;
}

int rename(const char *from, const char *to)
{
    NEXT(int (*real)(const char *, const char *), "rename")
    const int number = begin(from);
    const int result = fails(number, RENAME) ? -1 : real(from, to);
    end(number, RENAME, result == 0, from, to);
    return result;
}

int unlink(const char *path)
{
    NEXT(int (*real)(const char *), "unlink")
    const int number = begin(path);
    const int result = fails(number, REMOVE) ? -1 : real(path);
    end(number, REMOVE, result == 0, path, NULL);
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(int (*real)(const char *, mode_t), "mkdir")
    const int number = begin(path);
    const int result = fails(number, FOLDER) ? -1 : real(path, mode);
    end(number, FOLDER, result == 0, path, NULL);
    return result;
}
