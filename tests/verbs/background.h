/* The program in the background of a test. */
#ifndef LKT_CLI_BACKGROUND_H
#define LKT_CLI_BACKGROUND_H

#include "cli/program.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

/* Waits until a file of the folder has this text. */
static inline void wait_for(const char *name, const char *text)
{
    static char found[OUTPUT_SIZE];
    for (int i = 0; i < 6000; i++) { /* five minutes: costs nothing where it passes */
        if (there(name)) {
            read_text(found, name);
            if (strstr(found, text) != NULL) return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fail_msg("%s does not get \"%s\":\n%s", name, text, found);
}

/* Starts a training in the background, its output in out.txt and err.txt. It ends with the test, also one that fails. */
static inline pid_t start(const char *arguments)
{
    char command[8192];
    snprintf(command, sizeof command, "cd '%s' && exec '%s' %s >out.txt 2>err.txt", folder,
             program(), arguments);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static inline void finish(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    last.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
}

#endif
