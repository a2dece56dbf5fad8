/* The agent at the endpoint: others join it, and it starts the ranks of all. */
#include "cli/meet/lead.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/out/text.h"
#include "cli/process.h"

/* A folder of this user's alone with the socket, and this program under the name of ssh's place. */
static lks_status open_reach(leader *l)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(l->folder, sizeof l->folder, "/tmp/lockstep-XXXXXX");
    l->asks = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = l->asks >= 0 && mkdtemp(l->folder) != NULL;
    if (good) {
        snprintf(at.sun_path, sizeof at.sun_path, "%.60s/socket", l->folder);
        snprintf(l->path, sizeof l->path, "%s/reach", l->folder);
        good = bind(l->asks, (struct sockaddr *)&at, sizeof at) == 0 && listen(l->asks, 128) == 0 &&
               symlink(l->plan->launch->self, l->path) == 0;
    }
    l->plan->launch->agent = l->path;
    return good ? LKS_OK
                : lks_fail(LKS_E_IO, "there is no place for a socket in /tmp: %s", strerror(errno));
}

static void close_reach(leader *l)
{
    char path[128];
    if (l->asks < 0) return;
    close(l->asks);
    snprintf(path, sizeof path, "%s/socket", l->folder);
    unlink(path);
    unlink(l->path);
    rmdir(l->folder);
}

static void *serve(void *user)
{
    leader *l = user;
    while (!atomic_load(&l->stop)) {
        lead_turn(l, 50);
        if (l->growing || !lead_can_grow(l)) continue;
        l->growing = true;
        say_error("more hosts are there: ranks save, and start again with them");
        lead_order(l, LAUNCH_GROW);
    }
    return NULL;
}

/* While ranks run, a thread serves the agents. */
static lks_status begin_serving(leader *l)
{
    sigset_t all, before;
    char old;
    while (read(l->plan->launch->orders, &old, 1) == 1) continue; /* orders to those before */
    lead_number(l);
    l->working = true;
    l->growing = false;
    atomic_store(&l->stop, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&l->thread, NULL, serve, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) return LKS_OK;
    l->working = false;
    return lks_fail(LKS_E_NOMEM, "no thread for the rendezvous: %s", strerror(error));
}

static void end_serving(leader *l)
{
    if (!l->working) return;
    atomic_store(&l->stop, true);
    pthread_join(l->thread, NULL);
    l->working = false;
}

static bool is_smaller(void *user)
{
    leader *l = user;
    end_serving(l);
    return lead_is_smaller(l);
}

static lks_status gather_again(void *user, int *code)
{
    leader *l = user;
    end_serving(l);
    const lks_status status = lead_gather(l, code);
    return status == LKS_OK && *code == 0 ? begin_serving(l) : status;
}

static lks_status work(leader *l, int *code)
{
    int orders[2];
    launch_plan *launch = l->plan->launch;
    const launch_meeting meeting = {l, is_smaller, gather_again};
    if (pipe2(orders, O_CLOEXEC | O_NONBLOCK) != 0)
        return lks_fail(LKS_E_NOMEM, "no pipe for the rendezvous: %s", strerror(errno));
    launch->orders = orders[0];
    l->orders = orders[1];
    launch->meeting = &meeting;
    lks_status status = begin_serving(l);
    if (status == LKS_OK) status = launch_run(launch, code);
    end_serving(l);
    close(orders[0]);
    close(orders[1]);
    return status;
}

void lead_dismiss(leader *l, int code)
{
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED)
            peer_send(l->peers[i], &(wire_message){.type = WIRE_BYE, .code = code});
    const double until = process_clock() + PEER_FINISH_S;
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED) peer_finish(l->peers[i], until);
}

lks_status meet_lead(const meet_plan *plan, int listener, int *code)
{
    const char *left = NULL;
    leader *l = calloc(1, sizeof *l);
    if (l == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for a rendezvous");
    l->plan = plan;
    l->listener = listener;
    l->asks = -1;
    lks_status status = meet_make_key(l->key, &left, plan);
    if (status == LKS_OK) status = lead_gather(l, code);
    if (status == LKS_OK) status = open_reach(l);
    if (status == LKS_OK) status = work(l, code);
    const int end = status == LKS_OK ? *code : exit_code_of(status);
    lead_dismiss(l, end);
    for (int i = 0; i < l->count; i++) peer_destroy(l->peers[i]);
    if (l->strangers > 0)
        say_error("%d connection%s to the rendezvous had no proof of the secret, and had no answer",
                  l->strangers, TEXT_S(l->strangers));
    close_reach(l);
    if (left != NULL) unlink(left);
    free(l->daemons);
    free(l);
    return status;
}
