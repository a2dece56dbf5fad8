/* The program where no file takes a byte. */
#ifndef LKT_VERBS_FULL_DISK_H
#define LKT_VERBS_FULL_DISK_H

#include "cli/program.h"

#include <errno.h>
#include <sys/syscall.h>

static int refuse_writes(void *command)
{
    if (!lkt_refuse(SYS_write, ENOSPC)) return 77;
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    return 127;
}

/* As run(), but each write to a file fails as on a full disk; the test is skipped where that cannot be
 * arranged. */
static void run_on_full_disk(const char *arguments)
{
    char command[16384];
    snprintf(command, sizeof command, "cd '%s' && exec '%s' %s 2>err.txt", folder, program(),
             arguments);
    last.code = lkt_in_child(refuse_writes, command);
    if (last.code == 77) {
        print_message("no seccomp here: skipped\n");
        skip();
    }
    read_text(last.err, "err.txt");
}

#endif
