/* Files in a folder of a test. */
#ifndef LKT_BASE_FILES_H
#define LKT_BASE_FILES_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/context.h"
#include "base/file.h"
#include "support/test.h"

static char path[4300];

/* The path of a name in the test's folder; valid until the next call. */
static const char *in_folder(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int entries(const char *folder)
{
    DIR *open_folder = opendir(folder);
    int found = 0;
    while (open_folder && readdir(open_folder)) found++;
    if (open_folder) closedir(open_folder);
    return found - 2; /* without "." and ".." */
}

static lks_status write_file(const char *name, const void *data, size_t bytes)
{
    lki_writer *writer;
    lks_status status = lki_writer_open(&writer, NULL, name);
    if (status != LKS_OK) return status;
    status = lki_writer_write(writer, data, bytes);
    const lks_status committed = lki_writer_commit(writer);
    return status != LKS_OK ? status : committed;
}

static int setup(void **state)
{
    *state = (void *)(uintptr_t)lkt_make_folder();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
