#include "cli/running/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool running_folder(char out[PATH_MAX], bool make)
{
    struct stat info;
    const char *given = getenv("LKS_RUNS");
    const int length = given != NULL && *given != '\0'
                           ? snprintf(out, PATH_MAX, "%s", given)
                           : snprintf(out, PATH_MAX, "/tmp/lockstep-%ld", (long)geteuid());
    if (length < 0 || length >= PATH_MAX - RUNNING_NAME) return false;
    if (make) (void)!mkdir(out, 0700);
    /* In /tmp anybody may have made it: then nothing in it is believed. */
    return lstat(out, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}
