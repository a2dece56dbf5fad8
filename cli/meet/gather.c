/* Who takes part: before the first start, and before every other. */
#include <string.h>
#include <unistd.h>

#include "cli/launch/spawn.h"
#include "cli/meet/lead.h"
#include "cli/out/text.h"
#include "cli/process.h"

/* Where fewer than all may begin, how long the others are waited for behind the last that came; and while
 * ranks run, which are asked to end for them. */
#define LAST_CALL_S 10.0
#define COMPANY_S   1.0
/* An agent that has said nothing for longer may be on its way to be lost. */
#define SILENT_S (1.5 * PEER_BEAT_S)

static bool is_elastic(const leader *l)
{
    return l->plan->least < l->plan->nodes;
}

static bool is_any_silent(const leader *l)
{
    const double now = process_clock();
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED && now - l->peers[i]->heard > SILENT_S) return true;
    return false;
}

static double last_joined(const leader *l, double last)
{
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED && l->peers[i]->since > last)
            last = l->peers[i]->since;
    return last;
}

bool lead_is_smaller(leader *l)
{
    int left = 0;
    do lead_turn(l, 0); /* what has come while nobody looked */
    while (is_any_silent(l) && (lead_turn(l, 20), true));
    for (int i = 0; i < l->count; i++)
        left += l->peers[i]->state == PEER_JOINED && l->peers[i]->working;
    return is_elastic(l) && left < l->members;
}

bool lead_can_grow(const leader *l)
{
    bool any = false;
    for (int i = 0; i < l->count; i++)
        any |= l->peers[i]->state == PEER_JOINED && !l->peers[i]->working;
    return any && l->plan->launch->saves &&
           (1 + l->joined == l->plan->nodes || process_clock() - last_joined(l, 0) > COMPANY_S);
}

static lks_status too_few(const leader *l)
{
    char missing[512] = "";
    size_t used = 0;
    for (int node = 1; node < l->plan->nodes && used < sizeof missing - 16; node++) {
        bool there = false, unknown = false;
        for (int i = 0; i < l->count; i++) {
            there |= l->peers[i]->state == PEER_JOINED && l->peers[i]->node == node;
            unknown |= l->peers[i]->state == PEER_JOINED && !l->peers[i]->asked;
        }
        if (!there && !unknown)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%d",
                                     used > 0 ? ", " : "", node);
    }
    return lks_fail(LKS_E_TIMEOUT,
                    "of %s%d nodes %d came to the rendezvous in %g s%s%s; start the same command "
                    "on each, or give a longer --rdzv-timeout",
                    is_elastic(l) ? "at least " : "", l->plan->least, 1 + l->joined,
                    l->plan->timeout, used > 0 ? "; missing: node " : "", missing);
}

static bool are_enough(const leader *l, bool again, double since)
{
    const int there = 1 + l->joined;
    if (is_any_silent(l)) return false;
    if (there >= l->plan->nodes) return true;
    return there >= l->plan->least &&
           (again || process_clock() - last_joined(l, since) > LAST_CALL_S);
}

lks_status lead_gather(leader *l, int *code)
{
    const bool again = l->began;
    const double since = process_clock(), until = since + l->plan->timeout;
    bool said = !again;
    *code = 0;
    while (!are_enough(l, again, since)) {
        const double left = until - process_clock();
        if (spawn_pending_signal() != 0) {
            *code = 128 + spawn_pending_signal();
            return LKS_OK;
        }
        if (left <= 0) return too_few(l);
        if (!said && 1 + l->joined < l->plan->least) {
            said = true;
            say_error("%d of %d hosts %s there; waiting %g s for the same command on another",
                      1 + l->joined, l->plan->nodes, l->joined > 0 ? "are" : "is",
                      l->plan->timeout);
        }
        lead_turn(l, left < 0.02 ? (int)(1000 * left) + 1 : 20);
    }
    return LKS_OK;
}

/* By node rank: those that were asked for, the others as they came in between. The number of all. */
static int put_in_order(leader *l, peer **order)
{
    int count = 0;
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED && l->peers[i]->asked)
            order[l->peers[i]->node] = l->peers[i];
    for (int i = 0, at = 1; i < l->count; i++) {
        if (l->peers[i]->state != PEER_JOINED || l->peers[i]->asked) continue;
        while (order[at] != NULL) at++;
        order[at] = l->peers[i];
    }
    for (int at = 1; at < l->plan->nodes; at++) /* some may not be there */
        if (order[at] != NULL) order[++count] = order[at];
    return count;
}

void lead_number(leader *l)
{
    launch_plan *launch = l->plan->launch;
    peer **order = pool_alloc(launch->pool, ((size_t)l->plan->nodes + 1) * sizeof *order);
    const int members = put_in_order(l, order), before = l->members;
    char *self = pool_alloc(launch->pool, WIRE_TEXT);
    if (gethostname(self, WIRE_TEXT - 1) != 0) snprintf(self, WIRE_TEXT, "localhost");
    launch->host = pool_alloc(launch->pool, ((size_t)members + 1) * sizeof *launch->host);
    launch->host[0] = (launch_host){self, l->plan->ranks};
    launch->hosts = 1;
    launch->ranks = l->plan->ranks;
    for (int i = 1; i <= members; i++) {
        int at = 0; /* agents of one host are one host to mpiexec */
        while (at < launch->hosts && strcmp(launch->host[at].name, order[i]->host) != 0) at++;
        if (at == launch->hosts)
            launch->host[launch->hosts++] = (launch_host){
                pool_copy(launch->pool, order[i]->host, strlen(order[i]->host)), 0};
        launch->host[at].slots += order[i]->ranks;
        launch->ranks += order[i]->ranks;
    }
    for (int i = 1, first = l->plan->ranks; i <= members; first += order[i++]->ranks) {
        order[i]->working = true;
        if (!order[i]->asked) order[i]->node = i;
        peer_send(order[i], &(wire_message){.type = WIRE_WELCOME,
                                            .node = i,
                                            .nodes = 1 + members,
                                            .first = first,
                                            .ranks = launch->ranks});
    }
    l->members = members;
    const bool again = l->began;
    l->began = true;
    if (again && before != members)
        say_error("it goes on with %d of %d hosts: %d rank%s", 1 + members, l->plan->nodes,
                  launch->ranks, TEXT_S(launch->ranks));
}
