#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/out/say.h"

static double main_began;

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Only what is safe in a signal's handler: no formatting, no clean-up. */
static void on_lost_page(int number, siginfo_t *info, void *context)
{
    static const char words[] =
        "lockstep: a file that is being read became shorter, or its disk failed; put it back "
        "whole, "
        "then run the same command again (a training with --out: with --resume)\n";
    (void)context;
    if (info->si_code == BUS_ADRERR && write(STDERR_FILENO, words, sizeof words - 1) > 0)
        _exit(exit_code_of(LKS_E_IO));
    signal(number, SIG_DFL); /* any other fault comes back, and ends the program as usual */
}

/* A standard stream that is closed would be the number of the next file that is opened, a checkpoint's
 * for example, and lines would be written into it. This one refuses to be read, or written. */
static void keep_standard_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            (void)!open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void process_begin(void)
{
    main_began = process_clock();
    keep_standard_streams();
    struct sigaction action = {.sa_sigaction = on_lost_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not become so large is an error to report */
}

double process_clock(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

void process_write(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t done = write(file, bytes, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        bytes += done;
        count -= (size_t)done;
    }
}

size_t process_read(char *out, size_t size, int64_t process, const char *what)
{
    char path[64];
    size_t bytes = 0;
    if (process > 0)
        snprintf(path, sizeof path, "/proc/%lld/%s", (long long)process, what);
    else
        snprintf(path, sizeof path, "/proc/self/%s", what);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        bytes = fread(out, 1, size - 1, file);
        fclose(file);
    }
    out[bytes] = '\0';
    return bytes;
}

int64_t process_stat(int64_t process, int field)
{
    char text[1024];
    process_read(text, sizeof text, process, "stat");
    const char *at = strrchr(text, ')'); /* the name before it may have anything in it */
    if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') return -1;
    at++; /* before the 3rd, the state */
    for (int i = 3; i < field && at != NULL; i++) at = strchr(at + 1, ' ');
    long long value = -1;
    return at != NULL && sscanf(at, "%lld", &value) == 1 ? (int64_t)value : -1;
}

/* Negative: not known. */
static double start_since_boot(void)
{
    const int64_t ticks = process_stat(0, PROCESS_START);
    return ticks < 0 ? -1 : (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

double process_seconds(const char **from)
{
    const double in_main = process_clock() - main_began;
    const double start = start_since_boot();
    const double total = seconds_of(CLOCK_BOOTTIME) - start;
    /* In a container the two clocks may not belong together: then it is out of all reason. */
    if (start > 0 && total >= in_main - 0.02 && total <= in_main + 10) {
        *from = "process start";
        return total;
    }
    *from = "main";
    return in_main;
}
