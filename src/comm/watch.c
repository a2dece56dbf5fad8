#include "comm/watch.h"

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "machine/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Beats in a period; of a period a rank may be silent so much, so that it has been named when the period is over. */
enum { WATCH_BEATS = 4, WATCH_STRANGERS = 16 };
#define WATCH_SILENCE 0.9

enum { WATCH_BEAT = 1, WATCH_GOODBYE, WATCH_LOSS };

typedef struct watch_word {
    int32_t kind;
    lki_loss loss; /* of a beat: step and phase */
} watch_word;

/* Somebody at the other end of a connection. */
typedef struct watch_line {
    int file;     /* -1: none */
    bool known;   /* it has said who it is */
    bool there;   /* and has heard the answer: one who was tired of waiting for it has not ended */
    bool deaf;    /* takes no more */
    double heard; /* last */
    int64_t step;
    char phase[sizeof((lki_loss *)NULL)->phase];
    size_t used; /* of what has come */
    union {
        watch_word word;
        lki_door_hello hello;
        char bytes[sizeof(watch_word)];
    } in;
} watch_line;

struct lki_watch {
    lki_watch_opts opts;
    lki_door door;
    pthread_t thread;
    int wake, listener; /* -1: none */
    pid_t parent;
    /* Of rank 0: line r is rank r's, and behind them are strangers; of others line 0 is rank 0's. */
    int lines;
    watch_line *line;
    struct pollfd *file;
    double ran, last; /* seconds that this process ran, while others might have been heard */
    double beaten, lost_at;
    bool called;
    bool full; /* nobody who calls can be let in: no more files may be open */
    lki_loss loss;
    atomic_bool lost, said;
};

static void watch_send(watch_line *line, const watch_word *word)
{
    if (line->file < 0 || !line->known || line->deaf) return;
    line->deaf = send(line->file, word, sizeof *word, MSG_NOSIGNAL | MSG_DONTWAIT) !=
                 (ssize_t)sizeof *word;
}

static void watch_send_all(lki_watch *watch, const watch_word *word)
{
    for (int i = 0; i < watch->lines; i++) watch_send(&watch->line[i], word);
}

static watch_word watch_where(const lki_watch *watch)
{
    watch_word word;
    memset(&word, 0, sizeof word);
    word.kind = WATCH_BEAT;
    word.loss.step = atomic_load_explicit(&watch->opts.spot->step, memory_order_relaxed);
    const char *phase = atomic_load_explicit(&watch->opts.spot->phase, memory_order_relaxed);
    snprintf(word.loss.phase, sizeof word.loss.phase, "%s", phase != NULL ? phase : "");
    return word;
}

/* The first loss is why the next ones are lost. */
static void watch_lose(lki_watch *watch, const lki_loss *loss)
{
    if (atomic_load(&watch->lost)) return;
    watch->loss = *loss;
    watch->loss.phase[sizeof loss->phase - 1] = '\0';
    watch->lost_at = watch->ran;
    atomic_store_explicit(&watch->lost, true, memory_order_release);
    watch_word word;
    memset(&word, 0, sizeof word);
    word.kind = WATCH_LOSS;
    word.loss = watch->loss;
    watch_send_all(watch, &word);
    if (watch->opts.tell != NULL) watch->opts.tell(watch->opts.user, &watch->loss, false);
}

static void watch_drop(watch_line *line)
{
    close(line->file);
    *line = (watch_line){.file = -1};
}

/* Line i has ended (nothing can come), or is silent. */
static void watch_lose_line(lki_watch *watch, int i, lki_end how)
{
    const watch_line *line = &watch->line[i];
    lki_loss loss = {.rank = i, .how = (int32_t)how, .step = line->step};
    loss.silent_s = watch->ran - line->heard;
    memcpy(loss.phase, line->phase, sizeof loss.phase);
    if (line->there) watch_lose(watch, &loss);
}

/* A stranger has said enough to be known, or not. */
static void watch_admit(lki_watch *watch, int i)
{
    watch_line *line = &watch->line[i];
    const int rank = line->in.hello.rank;
    if (lki_door_knows(&watch->door, &line->in.hello, watch->opts.size) &&
        watch->line[rank].file < 0 && !watch->line[rank].deaf &&
        lki_door_welcome(&watch->door, line->file)) {
        watch->line[rank] = *line;
        watch->line[rank].known = true;
        watch->line[rank].used = 0;
        watch->line[rank].heard = watch->ran;
        const watch_word word = watch_where(watch);
        watch_send(&watch->line[rank], &word);
        *line = (watch_line){.file = -1};
        return;
    }
    watch_drop(line);
}

static void watch_hear(lki_watch *watch, int i)
{
    watch_line *line = &watch->line[i];
    const watch_word *word = &line->in.word;
    line->used = 0;
    line->heard = watch->ran;
    line->there = true;
    if (word->kind == WATCH_LOSS) {
        watch_lose(watch, &word->loss);
    } else if (word->kind == WATCH_GOODBYE) {
        watch_drop(line);
        line->deaf = true; /* its place is taken: nobody comes twice */
    } else {
        line->step = word->loss.step;
        memcpy(line->phase, word->loss.phase, sizeof line->phase);
        line->phase[sizeof line->phase - 1] = '\0';
    }
}

/* All that has come from line i. */
static void watch_read(lki_watch *watch, int i)
{
    watch_line *line = &watch->line[i];
    for (bool known = line->known; line->file >= 0 && line->known == known;) {
        const size_t size = known ? sizeof line->in.word : sizeof line->in.hello;
        const ssize_t got = recv(line->file, line->in.bytes + line->used, size - line->used,
                                 MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (got <= 0) {
            watch_lose_line(watch, i, LKI_END_PROCESS);
            watch_drop(line);
            return;
        }
        line->used += (size_t)got;
        if (line->used < size) continue;
        if (known)
            watch_hear(watch, i);
        else
            watch_admit(watch, i);
    }
}

/* A stranger who says nothing makes room for the next. */
static void watch_accept(lki_watch *watch)
{
    for (;;) {
        const int file = accept4(watch->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (file < 0) {
            watch->full = errno != EAGAIN && errno != EWOULDBLOCK;
            return;
        }
        int place = watch->opts.size;
        for (int i = watch->opts.size; i < watch->lines; i++) {
            if (watch->line[place].file < 0) break;
            if (watch->line[i].file < 0 || watch->line[i].heard < watch->line[place].heard)
                place = i;
        }
        if (watch->line[place].file >= 0) watch_drop(&watch->line[place]);
        watch->line[place] = (watch_line){.file = file, .heard = watch->ran};
        watch_read(watch, place);
    }
}

static void watch_beat(lki_watch *watch)
{
    const watch_word word = watch_where(watch);
    watch->beaten = watch->ran;
    if (watch->opts.child && getppid() != watch->parent) {
        lki_loss loss = word.loss;
        loss.rank = watch->opts.rank;
        loss.how = LKI_END_PARENT;
        watch_lose(watch, &loss);
    }
    watch_send_all(watch, &word);
}

/* A process that was stopped has not listened meanwhile, and what it did not hear may be there by now: what
 * lies between two looks counts as two of them at most. */
static void watch_clock(lki_watch *watch, double look)
{
    const double now = lki_seconds(), since = now - watch->last;
    watch->ran += since < 2 * look ? since : 2 * look;
    watch->last = now;
}

/* What is due after all has been read that has come. */
static void watch_look(lki_watch *watch)
{
    const double period = watch->door.period_s;
    if (watch->ran - watch->beaten >= period / WATCH_BEATS) watch_beat(watch);
    for (int i = 0; i < watch->lines; i++) {
        const watch_line *line = &watch->line[i];
        if (line->file < 0 || watch->ran - line->heard < WATCH_SILENCE * period) continue;
        if (line->there)
            watch_lose_line(watch, i, LKI_END_SILENCE);
        else
            watch_drop(&watch->line[i]);
    }
    if (!atomic_load(&watch->lost) || watch->called || watch->ran - watch->lost_at < period) return;
    watch->called = true;
    if (!atomic_load(&watch->said) && watch->opts.tell != NULL)
        watch->opts.tell(watch->opts.user, &watch->loss, true);
}

static void *watch_run(void *user)
{
    lki_watch *watch = user;
    const double look = watch->door.period_s / (4 * WATCH_BEATS);
    const int timeout = look > 1e-3 ? (int)(1e3 * look) : 1;
    for (;;) {
        watch->file[0] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
        /* Who cannot be let in would be heard again at once: the next look is soon enough. */
        const int caller = watch->full ? -1 : watch->listener;
        watch->file[1] = (struct pollfd){.fd = caller, .events = POLLIN};
        for (int i = 0; i < watch->lines; i++)
            watch->file[2 + i] = (struct pollfd){.fd = watch->line[i].file, .events = POLLIN};
        (void)poll(watch->file, (nfds_t)watch->lines + 2, timeout);
        watch_clock(watch, look);
        if (watch->file[0].revents != 0) break;
        for (int i = 0; i < watch->lines; i++)
            if (watch->line[i].file >= 0) watch_read(watch, i);
        if (watch->listener >= 0) watch_accept(watch);
        watch_look(watch);
    }
    watch_word word;
    memset(&word, 0, sizeof word);
    word.kind = WATCH_GOODBYE;
    watch_send_all(watch, &word);
    return NULL;
}

static void watch_free(lki_watch *watch)
{
    for (int i = 0; watch->line != NULL && i < watch->lines; i++)
        if (watch->line[i].file >= 0) close(watch->line[i].file);
    if (watch->listener >= 0) close(watch->listener);
    if (watch->wake >= 0) close(watch->wake);
    lki_free(NULL, watch->file, ((size_t)watch->lines + 2) * sizeof *watch->file);
    lki_free(NULL, watch->line, (size_t)watch->lines * sizeof *watch->line);
    lki_free(NULL, watch, sizeof *watch);
}

static lks_status watch_start(lki_watch *watch)
{
    const size_t lines = (size_t)watch->lines;
    LKI_TRY(lki_alloc(NULL, (void **)&watch->line, lines * sizeof *watch->line, "watching ranks"));
    for (size_t i = 0; i < lines; i++) watch->line[i].file = -1;
    LKI_TRY(lki_alloc(NULL, (void **)&watch->file, (lines + 2) * sizeof *watch->file,
                      "watching ranks"));
    watch->parent = getppid();
    watch->last = lki_seconds();
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return watch->wake >= 0 ? LKS_OK : LKI_FAIL(LKS_E_NOMEM, "watching ranks: %s", strerror(errno));
}

/* What fails here leaves nothing behind. */
static lks_status watch_create(lki_watch **out, const lki_door *door, const lki_watch_opts *opts,
                               int listener, int entered)
{
    lki_watch *watch = NULL;
    LKI_TRY(lki_alloc(NULL, (void **)&watch, sizeof *watch, "watching ranks"));
    watch->opts = *opts;
    watch->door = *door;
    watch->listener = listener;
    watch->wake = -1;
    watch->lines = opts->rank == 0 ? opts->size + WATCH_STRANGERS : 1;
    lks_status status = watch_start(watch);
    if (status == LKS_OK && entered >= 0) {
        watch->line[0].file = entered;
        watch->line[0].known = watch->line[0].there = true;
        watch_beat(watch); /* whoever ends soon was heard of */
    }
    if (status == LKS_OK && lki_thread_start(&watch->thread, watch_run, watch) != 0)
        status = LKI_FAIL(LKS_E_NOMEM, "the system starts no thread that watches ranks");
    if (status != LKS_OK) {
        if (entered >= 0 && watch->line != NULL) watch->line[0].file = -1;
        watch->listener = -1;
        watch_free(watch);
        return status;
    }
    *out = watch;
    return LKS_OK;
}

lks_status lki_watch_open(lki_watch **out, lki_door *door, const lki_watch_opts *opts)
{
    *out = NULL;
    memset(door, 0, sizeof *door);
    if (opts->rank != 0 || opts->period_s < 0) return LKS_OK;
    const int listener = lki_door_open(door, opts->period_s, opts->near);
    if (listener < 0) return LKS_OK;
    const lks_status status = watch_create(out, door, opts, listener, -1);
    if (status != LKS_OK) close(listener);
    return status;
}

lks_status lki_watch_join(lki_watch **out, const lki_door *door, const lki_watch_opts *opts)
{
    *out = NULL;
    if (!(door->period_s > 0)) return LKS_OK;
    const int file = lki_door_enter(door, opts->rank);
    if (file < 0) return LKS_OK;
    const lks_status status = watch_create(out, door, opts, -1, file);
    if (status != LKS_OK) close(file);
    return status;
}

const lki_loss *lki_watch_loss(const lki_watch *watch)
{
    if (watch == NULL || !atomic_load_explicit(&watch->lost, memory_order_acquire)) return NULL;
    return &watch->loss;
}

const lki_loss *lki_watch_ask(const lki_watch *watch, double seconds)
{
    const lki_loss *loss = lki_watch_loss(watch);
    for (int i = 0; watch != NULL && loss == NULL && i < (int)(1e3 * seconds); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        loss = lki_watch_loss(watch);
    }
    return loss;
}

void lki_watch_said(lki_watch *watch)
{
    atomic_store(&watch->said, true);
}

void lki_watch_end(lki_watch *watch, bool forked)
{
    if (watch == NULL) return;
    if (!forked) {
        const uint64_t one = 1;
        (void)!write(watch->wake, &one, sizeof one);
        pthread_join(watch->thread, NULL);
    }
    watch_free(watch);
}
