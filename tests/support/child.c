/* Tests in a child process, and system calls that fail there. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

int lkt_in_child(int (*body)(void *user), void *user)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0) fail_msg("cannot start a child process");
    if (child == 0) {
        const int result = body(user);
        fflush(NULL);
        _exit(result);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static bool install(struct sock_filter *code, size_t count)
{
    const struct sock_fprog program = {.len = (unsigned short)count, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define LOAD(field)                                                                                \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define RESULT(value) BPF_STMT(BPF_RET | BPF_K, (value))
/* Skips `otherwise` instructions unless the comparison holds. */
#define IF(comparison, value, otherwise)                                                           \
    BPF_JUMP(BPF_JMP | (comparison) | BPF_K, (uint32_t)(value), 0, (otherwise))

bool lkt_refuse(long call, int error)
{
    /* Arguments are 64 bits wide; the low half comes first on the machines that we know. */
    struct sock_filter any[] = {
        LOAD(nr),
        IF(BPF_JEQ, call, 3),
        LOAD(args[0]),
        IF(BPF_JGT, STDERR_FILENO, 1),
        RESULT(SECCOMP_RET_ERRNO | (uint32_t)error),
        RESULT(SECCOMP_RET_ALLOW),
    };
    struct sock_filter creating[] = {
        LOAD(nr),
        IF(BPF_JEQ, call, 3),
        LOAD(args[2]),
        IF(BPF_JSET, O_CREAT, 1),
        RESULT(SECCOMP_RET_ERRNO | (uint32_t)error),
        RESULT(SECCOMP_RET_ALLOW),
    };
    return call == SYS_openat ? install(creating, 6) : install(any, 6);
}

bool lkt_allow_futex_only(void)
{
    struct sock_filter code[] = {
        LOAD(nr),
        IF(BPF_JEQ, SYS_futex, 1),
        RESULT(SECCOMP_RET_ALLOW),
        IF(BPF_JEQ, SYS_exit_group, 1),
        RESULT(SECCOMP_RET_ALLOW),
        RESULT(SECCOMP_RET_KILL_PROCESS),
    };
    return install(code, 6);
}

bool lkt_emulated(void)
{
    return getenv("LKT_EMULATED") != NULL;
}

bool lkt_sanitized(void)
{
    return LKT_SANITIZER || lkt_emulated();
}

bool lkt_in_part(void)
{
    return lkt_sanitized() || getenv("LKT_PART") != NULL;
}
