/* The hub: mailboxes for every pair of ranks, and who is gone. */
#include "support/ranks/fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

/* What one rank sent to another: a copy, as the sender may be gone before it is read. */
typedef struct message {
    struct message *next;
    int flight, delay; /* polls of the receiver before it is there */
    size_t bytes;
    char data[];
} message;

typedef struct flight {
    bool up;
    int hold; /* polls before the arrays are free */
    lki_piece *send, *receive;
    char **sent; /* copies: what is sent must stay as it is until it has landed */
    int sends, receives;
    bool *came;
    float *values, *all; /* of an all_reduce */
    size_t count;
} flight;

typedef struct link {
    lkt_hub *hub;
    int rank, starts;
    uint64_t drawn;
    flight flights[LKI_MAX_FLIGHTS];
    enum state { HERE, LEFT, DEAD, GAVE_UP } state;
    lki_fault last_words;
    void *shared; /* what this rank has given to all */
} link;

enum { MOST_LEFT = 4 * LKT_MOST_RANKS };
struct lkt_hub {
    lkt_hub_opts opts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    message *box[LKT_MOST_RANKS][LKT_MOST_RANKS]; /* [to][from], the oldest first */
    link links[LKT_MOST_RANKS];
    int sharing, shares;   /* ranks that are at it, and how often all were */
    void *left[MOST_LEFT]; /* memory that not all have let go of */
    int lefts;
};

typedef struct seat {
    lkt_hub *hub;
    int rank;
} seat;

static void say(lki_fault *fault, int rank, const char *text)
{
    fault->rank = rank;
    snprintf(fault->text, sizeof fault->text, "%s", text);
}

/* 0 .. delay, by the seed, the rank and how often it has drawn. */
static int draw(link *own)
{
    lkt_random random = {own->hub->opts.seed * 1000003u + (uint64_t)own->rank * 7919u +
                         own->drawn++};
    return (int)lkt_random_below(&random, own->hub->opts.delay + 1);
}

static int fake_open(void **out, const void *how, lki_fault *fault)
{
    const seat *mine = how;
    (void)fault;
    link *own = &mine->hub->links[mine->rank];
    own->hub = mine->hub;
    own->rank = mine->rank;
    *out = own;
    return 0;
}

static void land(flight *f)
{
    for (int i = 0; i < f->sends; i++) free(f->sent[i]);
    free(f->sent);
    free(f->send);
    free(f->receive);
    free(f->came);
    free(f->all);
    memset(f, 0, sizeof *f);
}

/* Called with the lock. */
static void leave(link *own, enum state state)
{
    if (own->state == HERE) own->state = state;
    for (int i = 0; i < LKI_MAX_FLIGHTS; i++) land(&own->flights[i]);
    pthread_cond_broadcast(&own->hub->changed);
}

static void fake_close(void *user)
{
    link *own = user;
    pthread_mutex_lock(&own->hub->lock);
    leave(own, LEFT);
    pthread_mutex_unlock(&own->hub->lock);
}

static int fake_rank(const void *user)
{
    return ((const link *)user)->rank;
}

static int fake_size(const void *user)
{
    return ((const link *)user)->hub->opts.size;
}

/* Whether this start fails as the options want it. Called with the lock. */
static bool fails(link *own, lki_fault *fault)
{
    const lkt_hub_opts *opts = &own->hub->opts;
    own->starts++;
    if (own->rank == opts->die_rank && own->starts == opts->die_at) leave(own, DEAD);
    if (own->state == DEAD) say(fault, own->rank, "is dead");
    if (own->state == DEAD) return true;
    if (own->rank != opts->fail_rank || own->starts != opts->fail_at) return false;
    say(fault, own->rank, "failed as it was told to");
    return true;
}

/* Called with the lock. */
static void flip(const link *own, const lki_piece *piece, message *sent, bool gathered)
{
    lkt_flip *flip = own->hub->opts.flip;
    if (flip == NULL || own->rank != flip->rank || flip->gathers != gathered) return;
    if (piece->bytes == 0 || ++flip->seen != flip->at) return;
    sent->data[flip->byte % piece->bytes] ^= (char)(1 << flip->at % 8);
    flip->to = piece->rank;
}

static void post(link *own, const lki_piece *piece, int number, bool gathered)
{
    message *sent = malloc(sizeof *sent + piece->bytes), **last;
    *sent = (message){.flight = number, .bytes = piece->bytes, .delay = draw(own)};
    if (piece->bytes > 0) memcpy(sent->data, piece->data, piece->bytes);
    flip(own, piece, sent, gathered);
    for (last = &own->hub->box[piece->rank][own->rank]; *last; last = &(*last)->next) continue;
    *last = sent;
}

static void *copy(const void *data, size_t bytes)
{
    void *made = malloc(bytes + 1);
    if (bytes > 0) memcpy(made, data, bytes);
    return made;
}

/* Called with the lock. */
static void begin(link *own, int number, const lki_piece *send, int sends, const lki_piece *receive,
                  int receives, bool gathered)
{
    flight *f = &own->flights[number];
    if (f->up) abort(); /* comm.c takes no number twice */
    *f = (flight){.up = true, .hold = draw(own), .sends = sends, .receives = receives};
    f->send = copy(send, (size_t)sends * sizeof *send);
    f->receive = copy(receive, (size_t)receives * sizeof *receive);
    f->sent = calloc((size_t)sends + 1, sizeof *f->sent);
    f->came = calloc((size_t)receives + 1, sizeof *f->came);
    for (int i = 0; i < sends; i++) {
        if (send[i].rank == own->rank) abort(); /* nobody gives a piece to oneself */
        f->sent[i] = copy(send[i].data, send[i].bytes);
        post(own, &send[i], number, gathered);
    }
}

static int fake_start(void *user, int number, const lki_piece *send, int sends,
                      const lki_piece *receive, int receives, lki_fault *fault)
{
    link *own = user;
    pthread_mutex_lock(&own->hub->lock);
    const bool failed = fails(own, fault);
    if (!failed) begin(own, number, send, sends, receive, receives, false);
    pthread_mutex_unlock(&own->hub->lock);
    return failed;
}

/* To and from everybody else. Called with the lock. */
static void begin_gather(link *own, int number, const void *mine, size_t bytes, char *all)
{
    lki_piece send[LKT_MOST_RANKS], receive[LKT_MOST_RANKS];
    int count = 0;
    for (int r = 0; r < own->hub->opts.size; r++) {
        char *place = all + (size_t)r * bytes;
        if (r == own->rank && place != mine && bytes > 0) memcpy(place, mine, bytes);
        if (r == own->rank) continue;
        send[count] = (lki_piece){r, (void *)(uintptr_t)mine, bytes};
        receive[count++] = (lki_piece){r, place, bytes};
    }
    begin(own, number, send, count, receive, count, true);
}

static int fake_gather(void *user, int number, const void *mine, size_t bytes, void *all,
                       lki_fault *fault)
{
    link *own = user;
    pthread_mutex_lock(&own->hub->lock);
    const bool failed = fails(own, fault);
    if (!failed) begin_gather(own, number, mine, bytes, all);
    pthread_mutex_unlock(&own->hub->lock);
    return failed;
}

static int fake_all_reduce(void *user, int number, float *values, size_t count, lki_fault *fault)
{
    link *own = user;
    pthread_mutex_lock(&own->hub->lock);
    const bool failed = fails(own, fault);
    if (!failed) {
        float *all = calloc((size_t)own->hub->opts.size * count + 1, sizeof *all);
        begin_gather(own, number, values, count * sizeof *values, (char *)all);
        own->flights[number].values = values;
        own->flights[number].all = all;
        own->flights[number].count = count;
    }
    pthread_mutex_unlock(&own->hub->lock);
    return failed;
}

/* What a piece waits for, if it is there: the first message of its pair and flight. */
static message **find(link *own, int from, int number)
{
    message **at = &own->hub->box[own->rank][from];
    while (*at != NULL && (*at)->flight != number) at = &(*at)->next;
    return *at != NULL && (*at)->delay <= 0 ? at : NULL;
}

static bool receive(link *own, flight *f, int number, int i, lki_fault *fault)
{
    const lki_piece *piece = &f->receive[i];
    message **at = find(own, piece->rank, number), *here;
    if (at == NULL) return true;
    here = *at;
    *at = here->next;
    f->came[i] = true;
    const bool fits = here->bytes == piece->bytes;
    if (fits && piece->bytes > 0) memcpy(piece->data, here->data, piece->bytes);
    if (!fits) say(fault, piece->rank, "sent another number of bytes than was expected");
    free(here);
    return fits;
}

/* Whether a rank that this flight waits for will never send. */
static bool in_vain(link *own, flight *f, int number, lki_fault *fault)
{
    const char *const words[] = {[LEFT] = "has left", [DEAD] = "is gone"};
    for (int i = 0; i < f->receives; i++) {
        const int from = f->receive[i].rank;
        const enum state state = own->hub->links[from].state;
        if (f->came[i] || state == HERE) continue;
        message *at = own->hub->box[own->rank][from];
        while (at != NULL && at->flight != number) at = at->next;
        if (at != NULL) continue;
        if (state == GAVE_UP) *fault = own->hub->links[from].last_words;
        if (state != GAVE_UP) say(fault, from, words[state]);
        return true;
    }
    return false;
}

static bool changed(const flight *f)
{
    for (int i = 0; i < f->sends; i++)
        if (f->send[i].bytes > 0 && memcmp(f->send[i].data, f->sent[i], f->send[i].bytes) != 0)
            return true;
    return false;
}

/* The library's own order: backwards. */
static void add_up(link *own, flight *f)
{
    const int size = own->hub->opts.size;
    for (size_t i = 0; i < f->count; i++) {
        float sum = 0;
        for (int r = size - 1; r >= 0; r--) sum += f->all[(size_t)r * f->count + i];
        f->values[i] = sum;
    }
}

/* Called with the lock. */
static int poll_one(link *own, int number, bool *landed, lki_fault *fault)
{
    flight *f = &own->flights[number];
    bool stuck[LKT_MOST_RANKS] = {false};
    if (!f->up) abort(); /* nobody polls what has landed */
    for (int r = 0; r < own->hub->opts.size; r++)
        for (message *m = own->hub->box[own->rank][r]; m; m = m->next) m->delay--;
    if (own->state != HERE) say(fault, own->rank, "is dead");
    if (own->state != HERE || in_vain(own, f, number, fault)) return 1;
    bool all = f->hold-- <= 0;
    for (int i = 0; i < f->receives; i++) {
        const int from = f->receive[i].rank;
        if (!f->came[i] && !stuck[from] && !receive(own, f, number, i, fault)) return 1;
        stuck[from] = !f->came[i];
        all = all && f->came[i];
    }
    if (all && changed(f)) say(fault, own->rank, "changed an array that was on its way");
    if (all && changed(f)) return 1;
    if (all && f->values != NULL) add_up(own, f);
    if (all) land(f);
    *landed = all;
    return 0;
}

static int fake_poll(void *user, int number, bool *landed, lki_fault *fault)
{
    link *own = user;
    pthread_mutex_lock(&own->hub->lock);
    const int failed = poll_one(own, number, landed, fault);
    pthread_mutex_unlock(&own->hub->lock);
    return failed;
}

static int fake_missing(void *user, int number)
{
    link *own = user;
    int missing = -1;
    pthread_mutex_lock(&own->hub->lock);
    const flight *f = &own->flights[number];
    for (int i = 0; missing < 0 && i < f->receives; i++)
        if (!f->came[i]) missing = f->receive[i].rank;
    pthread_mutex_unlock(&own->hub->lock);
    return missing;
}

/* Waits until everybody is here; false where somebody never will. Called with the lock. */
static bool meet(link *own, lki_fault *fault)
{
    lkt_hub *hub = own->hub;
    const int turn = hub->shares;
    if (++hub->sharing == hub->opts.size) {
        hub->sharing = 0;
        hub->shares++;
        pthread_cond_broadcast(&hub->changed);
    }
    while (hub->shares == turn) {
        for (int r = 0; r < hub->opts.size; r++) {
            if (hub->links[r].state == HERE) continue;
            if (hub->links[r].state == GAVE_UP) *fault = hub->links[r].last_words;
            if (hub->links[r].state != GAVE_UP) say(fault, r, "is gone");
            return false;
        }
        pthread_cond_wait(&hub->changed, &hub->lock);
    }
    return true;
}

static int fake_share(void *user, size_t bytes, void **base, lki_fault *fault)
{
    link *own = user;
    lkt_hub *hub = own->hub;
    pthread_mutex_lock(&hub->lock);
    if (posix_memalign(&base[own->rank], 64, bytes + 1) != 0) abort();
    own->shared = memset(base[own->rank], 0, bytes + 1);
    bool met = !fails(own, fault) && meet(own, fault);
    for (int r = 0; met && hub->opts.share && r < hub->opts.size; r++)
        base[r] = hub->links[r].shared;
    met = met && meet(own, fault); /* before the next time overwrites it */
    if (!met) free(base[own->rank]);
    pthread_mutex_unlock(&hub->lock);
    return !met;
}

/* Where not all have come, some may still be at it: then it stays until the end of the hub. */
static void fake_unshare(void *user, void *mine)
{
    link *own = user;
    lki_fault fault;
    pthread_mutex_lock(&own->hub->lock);
    if (own->hub->lefts == MOST_LEFT) abort();
    if (own->state == HERE && meet(own, &fault))
        free(mine);
    else
        own->hub->left[own->hub->lefts++] = mine;
    pthread_mutex_unlock(&own->hub->lock);
}

static void fake_give_up(void *user, const lki_fault *fault)
{
    link *own = user;
    pthread_mutex_lock(&own->hub->lock);
    own->last_words = *fault;
    leave(own, GAVE_UP);
    pthread_mutex_unlock(&own->hub->lock);
}

static void fake_abort(void *user, int code)
{
    lki_fault fault = {.rank = ((link *)user)->rank, .code = (int)LKS_E_COMM};
    snprintf(fault.text, sizeof fault.text, "rank %d has aborted with code %d", fault.rank, code);
    fake_give_up(user, &fault);
}

static const lki_transport fake = {.name = "fake",
                                   .abi = LKI_TRANSPORT_ABI,
                                   .library = "threads 1.0",
                                   .open = fake_open,
                                   .close = fake_close,
                                   .rank = fake_rank,
                                   .size = fake_size,
                                   .start = fake_start,
                                   .gather = fake_gather,
                                   .all_reduce = fake_all_reduce,
                                   .poll = fake_poll,
                                   .missing = fake_missing,
                                   .share = fake_share,
                                   .unshare = fake_unshare,
                                   .give_up = fake_give_up,
                                   .abort = fake_abort};

lkt_hub *lkt_hub_make(const lkt_hub_opts *opts)
{
    lkt_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL || opts->size < 1 || opts->size > LKT_MOST_RANKS) abort();
    hub->opts = *opts;
    pthread_mutex_init(&hub->lock, NULL);
    pthread_cond_init(&hub->changed, NULL);
    return hub;
}

void lkt_hub_free(lkt_hub *hub)
{
    for (int to = 0; to < LKT_MOST_RANKS; to++)
        for (int from = 0; from < LKT_MOST_RANKS; from++)
            for (message *m = hub->box[to][from], *next; m != NULL; m = next) {
                next = m->next;
                free(m);
            }
    while (hub->lefts > 0) free(hub->left[--hub->lefts]);
    pthread_cond_destroy(&hub->changed);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

lks_status lkt_hub_join(lkt_hub *hub, int rank, const lks_comm_opts *opts, lks_comm **out)
{
    /* A watch goes by time: whoever wants one says so. */
    lks_comm_opts quiet = opts != NULL ? *opts : (lks_comm_opts){0};
    quiet.watch_s = quiet.watch_s == 0 ? -1 : quiet.watch_s;
    return lki_comm_open(out, &fake, &(seat){hub, rank}, &quiet);
}
