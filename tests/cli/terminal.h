/* Running the program on a terminal of a known width. */
#ifndef LKT_CLI_TERMINAL_H
#define LKT_CLI_TERMINAL_H

#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>

static int terminal_rows = 24; /* 0: it does not know its height */

/* The signal is sent when the terminal has got so many of these. */
static const char *terminal_mark = "[K";
static int terminal_marks = 1;

static inline int marks_in(const char *seen, size_t used)
{
    const size_t length = strlen(terminal_mark);
    int count = 0;
    for (const char *at = seen;
         (at = memmem(at, used - (size_t)(at - seen), terminal_mark, length)) != NULL; at += length)
        count++;
    return count;
}

/* A terminal's outer end; without terminals the test is skipped. */
static inline int open_terminal(void)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
        printf("skipped: no pseudo-terminals here (%s)\n", strerror(errno));
        skip();
    }
    return terminal;
}

/* Runs the program with the terminal as its standard error, and as its output unless that goes to
 * out.txt; returns all that the terminal got, and its exit code. A number that is no 0 is a signal for it, when
 * it has drawn its bar; the code is 128 and that number where it ends by it. */
static inline const char *on_terminal_until(int number, int *code, int columns, bool output_too,
                                            const char *arguments)
{
    static char seen[OUTPUT_SIZE];
    const int terminal = open_terminal();
    struct winsize size = {.ws_row = (unsigned short)terminal_rows,
                           .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    char command[8192];
    snprintf(command, sizeof command, "cd '%s' && exec '%s' %s >'%s' 2>'%s'", folder, program(),
             arguments, output_too ? ptsname(terminal) : "out.txt", ptsname(terminal));
    const int other = open(ptsname(terminal), O_RDWR | O_NOCTTY); /* open until all is read */
    const pid_t child = fork();
    if (child == 0) {
        setenv("TERM", "xterm", 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(fcntl(terminal, F_SETFL, O_NONBLOCK), 0);
    size_t used = 0;
    for (int status = 0, done = 0;;) {
        const ssize_t got = read(terminal, seen + used, sizeof seen - 1 - used);
        if (got > 0) used += (size_t)got;
        assert_true(used < sizeof seen - 1);
        if (number != 0 && marks_in(seen, used) >= terminal_marks) {
            kill(child, number);
            number = 0;
        }
        if (got > 0) continue;
        if (done) {
            *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            break;
        }
        done = waitpid(child, &status, WNOHANG) == child;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    close(other);
    close(terminal);
    seen[used] = '\0';
    return seen;
}

/* The same of what has no mistake. */
static inline const char *on_terminal(int columns, bool output_too, const char *arguments)
{
    int code;
    const char *seen = on_terminal_until(0, &code, columns, output_too, arguments);
    assert_true(code == 0 || code == 10); /* doctor has a warning */
    return seen;
}

#endif
