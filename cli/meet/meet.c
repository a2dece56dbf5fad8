/* Which agent leads. */
#include "cli/meet/meet.h"

#include <unistd.h>

lks_status meet_run(meet_plan *plan, int *code)
{
    int listener = -1;
    lks_status status = seal_begin();
    if (status == LKS_OK && plan->node <= 0) status = meet_listen(&listener, plan);
    if (status != LKS_OK) return status;
    if (listener < 0) return meet_follow(plan, code);
    status = meet_lead(plan, listener, code);
    close(listener);
    return status;
}
