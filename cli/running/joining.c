#include "cli/running/joining.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/launch/launch.h"
#include "cli/out/say.h"
#include "cli/process.h"
#include "cli/running/running.h"
#include "recipe/text/setting.h"

enum { MOST = 4096, TEXT = 512 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t joined;
    pthread_t thread;
    bool begun, done;
    double seconds;
} joining = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The value of a variable among `bytes` bytes of an environment; NULL: it is not there. */
static const char *value_in(const char *environment, size_t bytes, const char *name)
{
    const size_t length = strlen(name);
    for (size_t at = 0; at < bytes; at += strlen(environment + at) + 1)
        if (strncmp(environment + at, name, length) == 0 && environment[at + length] == '=')
            return environment + at + length + 1;
    return NULL;
}

/* The rank of a process that this job's launcher has started as this one; -1: it is none. */
static int64_t rank_of(const char *process)
{
    static const char *const jobs[] = {"LKS_LAUNCH", "PMIX_NAMESPACE"};
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    static char text[1 << 18]; /* of the one thread that calls this */
    int64_t number, rank;
    if (!lki_text_is_int(process, &number) || !running_is_ours(number) || running_is_launch(number))
        return -1;
    const size_t bytes = process_read(text, sizeof text, number, "environ");
    bool same = false;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs && !same; i++) {
        const char *own = getenv(jobs[i]), *its = value_in(text, bytes, jobs[i]);
        same = own != NULL && its != NULL && strcmp(own, its) == 0;
    }
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks && same; i++) {
        const char *its = value_in(text, bytes, ranks[i]);
        if (its != NULL && lki_text_is_int(its, &rank) && rank >= 0 && rank < MOST) return rank;
    }
    return -1;
}

/* Which ranks run on this host; how many. */
static int see_ranks(bool seen[MOST])
{
    int count = 0;
    DIR *open = opendir("/proc");
    if (open == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        const int64_t rank = rank_of(entry->d_name);
        if (rank < 0 || seen[rank]) continue;
        seen[rank] = true;
        count++;
    }
    closedir(open);
    return count;
}

/* " 1, 2, ...": the ranks that are not seen, as far as they fit. */
static void list_missing(char text[TEXT], const bool seen[MOST], int64_t size)
{
    for (int64_t i = 0, used = 0; i < size && i < MOST && used < TEXT - 40; i++)
        if (!seen[i])
            used += snprintf(text + used, (size_t)(TEXT - used), "%s %lld", used > 0 ? "," : "",
                             (long long)i);
}

/* The first rank that is here says it, and its launcher ends the others. Where all of them belong to this host, those that are not seen are named. */
static void give_up(void)
{
    static bool seen[MOST];
    char missing[TEXT] = "", sentence[2 * TEXT];
    launch_place place;
    const lks_launch launch = lks_launch_get();
    const bool placed = launch_get_place(&place) && place.local_ranks == launch.size;
    const int count = see_ranks(seen);
    for (int64_t i = 0; i < launch.rank && i < MOST; i++) {
        if (!seen[i]) continue;
        nanosleep(&(struct timespec){.tv_sec = 5}, NULL); /* it has to see this one */
        _exit(exit_code_of(LKS_E_TIMEOUT));
    }
    if (placed && count > 0 && count < launch.size) list_missing(missing, seen, launch.size);
    snprintf(sentence, sizeof sentence,
             "not all of the %lld processes that %s was to start have joined within %g s%s%s%s",
             (long long)launch.size, launch.launcher, joining.seconds,
             *missing != '\0' ? "; on this host there is no rank" : "", missing,
             "; see what became of them there, or allow more time (--comm-timeout)");
    say_urgent(sentence);
    _exit(exit_code_of(LKS_E_TIMEOUT));
}

static void *wait_for_all(void *user)
{
    struct timespec until;
    int error = 0;
    (void)user;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)joining.seconds;
    until.tv_nsec += (long)(1e9 * (joining.seconds - (double)(time_t)joining.seconds));
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&joining.lock);
    while (!joining.done && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&joining.joined, &joining.lock, &until);
    const bool done = joining.done;
    pthread_mutex_unlock(&joining.lock);
    if (!done) give_up();
    return NULL;
}

void joining_begin(double seconds)
{
    pthread_condattr_t attributes;
    if (lks_launch_get().size <= 1) return;
    joining.seconds = seconds;
    joining.done = false;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&joining.joined, &attributes);
    pthread_condattr_destroy(&attributes);
    joining.begun = pthread_create(&joining.thread, NULL, wait_for_all, NULL) == 0;
}

void joining_end(void)
{
    if (!joining.begun) return;
    pthread_mutex_lock(&joining.lock);
    joining.done = true;
    pthread_cond_signal(&joining.joined);
    pthread_mutex_unlock(&joining.lock);
    pthread_join(joining.thread, NULL);
    pthread_cond_destroy(&joining.joined);
    joining.begun = false;
}
