#include "cli/launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <lockstep/context.h>

static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT};
enum { STOPS = sizeof stops / sizeof *stops };

int spawn_watch_signals(void)
{
    static int file = -1;
    sigset_t set;
    struct sigaction before;
    if (file >= 0) return file;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (int i = 0; i < STOPS; i++)
        if (sigaction(stops[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(&set, stops[i]);
    signal(SIGCHLD, SIG_DFL); /* whoever started us may have ignored it */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) return -1;
    file = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return file;
}

int spawn_pending_signal(void)
{
    sigset_t set;
    if (sigpending(&set) != 0) return 0;
    for (int i = 0; i < STOPS; i++)
        if (sigismember(&set, stops[i]) == 1) return stops[i];
    return 0;
}

/* In the child: does not return. What fails goes through `failed`. */
static void become(char **argv, const int ends[][2], const spawn_file *files, int count, int number,
                   pid_t parent, int failed)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, number);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (getppid() != parent) _exit(127);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    for (int i = 0; i < count; i++)
        dup2(files[i].into > 0 ? files[i].into : ends[i][1], files[i].stream);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    const int error = errno;
    (void)!write(failed, &error, sizeof error);
    _exit(127);
}

lks_status spawn(pid_t *child, char **argv, spawn_file *files, int count, int number)
{
    enum { MOST = 3 };
    int ends[MOST][2], failed[2] = {-1, -1}, error = 0;
    bool good = count <= MOST && pipe2(failed, O_CLOEXEC) == 0;
    for (int i = 0; i < MOST; i++) ends[i][0] = ends[i][1] = -1;
    for (int i = 0; i < count && good; i++)
        good = files[i].into > 0 || pipe2(ends[i], O_CLOEXEC) == 0;
    const pid_t parent = getpid();
    *child = good ? fork() : -1;
    if (*child == 0) become(argv, (const int(*)[2])ends, files, count, number, parent, failed[1]);
    if (*child < 0) error = errno;
    close(failed[1]);
    for (int i = 0; i < count; i++) {
        close(ends[i][1]);
        files[i].read = ends[i][0];
    }
    if (*child > 0 && read(failed[0], &error, sizeof error) != sizeof error) error = 0;
    close(failed[0]);
    if (error == 0) return LKS_OK;
    for (int i = 0; i < count; i++) close(ends[i][0]);
    return lks_fail(error == ENOENT || error == EACCES ? LKS_E_IO : LKS_E_NOMEM,
                    "'%.300s' cannot be started: %s", argv[0], strerror(error));
}
