/* Who may join. */
#include <string.h>

#include <lockstep/lockstep.h>

#include "cli/meet/lead.h"
#include "cli/out/text.h"
#include "cli/process.h"

static void refuse(peer *p, wire_reason reason, const char *text)
{
    wire_message m = {.type = WIRE_REFUSE, .reason = (uint8_t)reason};
    snprintf(m.text, sizeof m.text, "%s", text);
    peer_send(p, &m);
    peer_close(p);
}

static bool is_node(const leader *l, int node)
{
    if (node == 0) return true; /* this one */
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED && l->peers[i]->asked && l->peers[i]->node == node)
            return true;
    return false;
}

void lead_admit(leader *l, peer *p, const wire_message *join)
{
    const meet_plan *plan = l->plan;
    char text[WIRE_TEXT];
    wire_reason reason = WIRE_REASONS;
    const bool full = 1 + l->joined >= plan->nodes;
    const bool again = plan->launch->restarts > 0 || plan->least < plan->nodes;
    if (strcmp(join->id, plan->id) != 0) {
        reason = WIRE_OTHER_ID;
        snprintf(text, sizeof text, "--rdzv-id is '%.60s' here, and '%.60s' there", plan->id,
                 join->id);
    } else if (strcmp(join->version, lks_version()) != 0) {
        reason = WIRE_OTHER_VERSION;
        snprintf(text, sizeof text, "Lockstep is version %.60s here, and %.60s there",
                 lks_version(), join->version);
    } else if (l->working && (full || !again)) {
        reason = WIRE_LATE;
        snprintf(text, sizeof text, "all %d nodes are there, and the ranks have started",
                 plan->nodes);
    } else if (join->nodes != plan->nodes) {
        reason = WIRE_OTHER_NODES;
        snprintf(text, sizeof text, "--nnodes is %d here, and %d there", plan->nodes,
                 (int)join->nodes);
    } else if (strcmp(join->starter, plan->launch->starter->name) != 0) {
        reason = WIRE_OTHER_STARTER;
        snprintf(text, sizeof text, "the ranks are started by %s here, and by %.60s there",
                 plan->launch->starter->name, join->starter);
    } else if (join->node >= plan->nodes) {
        reason = WIRE_NO_RANK;
        snprintf(text, sizeof text, "--node-rank is %d, expected 0 to %d", (int)join->node,
                 plan->nodes - 1);
    } else if (join->node >= 0 && is_node(l, join->node)) {
        reason = WIRE_DUPLICATE;
        snprintf(text, sizeof text, "node %d is there already%s", (int)join->node,
                 join->node == 0 ? ": it is the one at the endpoint" : "");
    } else if (full) {
        reason = WIRE_LATE;
        snprintf(text, sizeof text, "all %d nodes are there", plan->nodes);
    }
    if (reason != WIRE_REASONS) {
        say_error("an agent of host %s is refused: %s", join->host, text);
        refuse(p, reason, text);
        return;
    }
    snprintf(p->host, sizeof p->host, "%s", join->host);
    p->node = join->node;
    p->asked = join->node >= 0;
    p->ranks = join->ranks;
    p->process = join->process;
    p->state = PEER_JOINED;
    p->since = process_clock();
    l->joined++;
    if (l->working)
        say_error("host %s has come to the rendezvous (process %ld), and joins at the next start",
                  p->host, p->process);
}
