/* doctor: space and speed of the folder for checkpoints. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/process.h"

enum { PIECE = 1 << 20, PIECES = 16 };

/* The folder, or the nearest above it that exists: `train` makes the rest. */
static const char *nearest(cli_doctor *d, const char *folder)
{
    char *path = pool_format(&d->pool, "%s", folder);
    struct stat info;
    while (stat(path, &info) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        while (slash != NULL && slash > path && slash[1] == '\0') { /* slashes at its end */
            *slash = '\0';
            slash = strrchr(path, '/');
        }
        if (slash == NULL) return ".";
        if (slash == path) return "/";
        *slash = '\0';
    }
    return path;
}

/* Writes, flushes and removes a file, by a template of mkstemp(); 0, or the
 * error. */
static int write_and_sync(char *path, const char *piece, double *write_seconds,
                          double *sync_seconds)
{
    const int file = mkostemp(path, O_CLOEXEC);
    if (file < 0) return errno;
    const double began = process_clock();
    int error = 0;
    for (int i = 0; i < PIECES && error == 0; i++) {
        const ssize_t written = write(file, piece, PIECE);
        if (written < 0) error = errno;
        if (written >= 0 && written < PIECE) error = ENOSPC;
    }
    const double written = process_clock();
    if (error == 0 && fsync(file) != 0) error = errno;
    *write_seconds = written - began;
    *sync_seconds = process_clock() - written;
    if (close(file) != 0 && error == 0) error = errno;
    unlink(path);
    return error;
}

static void check_space(cli_doctor *d, const char *path)
{
    static const double LITTLE = 1 << 30;
    struct statvfs space;
    if (statvfs(path, &space) != 0) {
        doctor_add(d, "free space", "not known");
        return;
    }
    const double bytes = (double)space.f_bavail * (double)space.f_frsize;
    doctor_finding *f = doctor_add(d, "free space", "%s", doctor_size(d, bytes));
    f->values = json_pack("{s:f}", "bytes", bytes);
    if (bytes < LITTLE)
        doctor_raise(d, f, LEVEL_WARNING,
                     "little is left: a checkpoint that does not fit ends the training (the last "
                     "one stays); make room, or choose another folder");
    if (space.f_files > 0 && space.f_favail < 16)
        doctor_raise(d, f, LEVEL_WARNING, "no more files can be made there; make room");
}

void doctor_folder(cli_doctor *d)
{
    if (d->folder == NULL) return;
    static const double SLOW_SYNC = 1.0;
    const char *path = nearest(d, d->folder);
    char *file = pool_format(&d->pool, "%s/.lockstep-doctor-XXXXXX", path);
    char *piece = pool_alloc(&d->pool, PIECE);
    double writing = 0, syncing = 0;
    for (int i = 0; i < PIECE; i++) piece[i] = (char)((unsigned)i * 2654435761u >> 24);
    const int error = write_and_sync(file, piece, &writing, &syncing);
    if (error != 0) {
        doctor_finding *f = doctor_add(d, "folder", "%.300s cannot be written to: %s", d->folder,
                                       strerror(error));
        doctor_raise(d, f, LEVEL_ERROR,
                     "no checkpoint can be saved there; choose another folder, or mend its "
                     "permissions, space or limits");
        return;
    }
    doctor_finding *f = doctor_add(d, "folder", "%.300s%s: %s written in %.0f ms, fsync in %.0f ms",
                                   d->folder, strcmp(path, d->folder) != 0 ? " (will be made)" : "",
                                   doctor_size(d, (double)PIECE * PIECES), 1e3 * writing,
                                   1e3 * syncing);
    f->values = json_pack("{s:f, s:f, s:i}", "write", writing, "fsync", syncing, "bytes",
                          PIECE * PIECES);
    if (writing + syncing > SLOW_SYNC)
        doctor_raise(d, f, LEVEL_WARNING,
                     "every checkpoint waits for this; save less often (checkpoint.every_epochs), "
                     "or to a local disk");
    check_space(d, path);
}
