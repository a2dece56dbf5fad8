/*
 * Preloaded into the program: counts its allocations from the start of main(), and makes one fail,
 * or all from there on. Allocations of libraries that are not ours to mend (hwloc) are not
 * counted.
 *
 *   LKT_FAULT      "<n> memory", "<n> exhausted" (n and all that follow); "<n> thread":
 *                  pthread_create number n fails with EAGAIN
 *   LKT_FAULT_LOG  file that gets the number of allocations and of threads at the end
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library's own, under names that nobody replaces. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t items, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static int allocations, threads, fault_at;
static char fault[16] = "";
static bool counting; /* between the start and the end of main() */

static void find_next(const char *name, void *out, size_t bytes)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(out, &found, bytes);
}

/* Whether the call came from a library that ends the program when memory is short, or worse. */
static bool is_foreign(const void *caller)
{
    static const char *const names[] = {"/libhwloc"};
    Dl_info info;
    if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(info.dli_fname, names[i]) != NULL) return true;
    return false;
}

static bool fails(const void *caller)
{
    if (!counting || is_foreign(caller)) return false;
    const int number = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    const bool failed = (number == fault_at && strcmp(fault, "memory") == 0) ||
                        (fault_at > 0 && number >= fault_at && strcmp(fault, "exhausted") == 0);
    if (failed) errno = ENOMEM;
    return failed;
}

void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(items, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *memory = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, bytes);
    if (memory == NULL) return ENOMEM;
    *out = memory;
    return 0;
}

int pthread_create(pthread_t *out, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *user)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    find_next("pthread_create", &real, sizeof real);
    if (++threads == fault_at && strcmp(fault, "thread") == 0) return EAGAIN;
    return real(out, attributes, body, user);
}

static int (*program)(int, char **, char **);

static int counted_main(int argc, char **argv, char **environment)
{
    const char *given = getenv("LKT_FAULT"), *log = getenv("LKT_FAULT_LOG");
    if (given != NULL) sscanf(given, "%d %15s", &fault_at, fault);
    const int file = log != NULL ? open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    counting = true;
    const int code = program(argc, argv, environment);
    counting = false;
    if (file >= 0) dprintf(file, "%d allocations, %d threads\n", allocations, threads);
    return code;
}

/* Starts the program: every program calls it with its main(). */
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                      void (*start)(void), void (*stop)(void), void (*loader_stop)(void),
                      void *stack_end);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                      void (*start)(void), void (*stop)(void), void (*loader_stop)(void),
                      void *stack_end)
{
    int (*real)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                void (*)(void), void *);
    find_next("__libc_start_main", &real, sizeof real);
    program = main;
    return real(counted_main, argc, argv, start, stop, loader_stop, stack_end);
}
