/* The ranks, and after a death the ranks again. */
#include <stdlib.h>
#include <sys/random.h>

#include "cli/launch/launch.h"
#include "cli/launch/spawn.h"
#include "cli/out/text.h"

static lks_status draw_token(launch_plan *plan)
{
    unsigned char bytes[8];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return lks_fail(LKS_E_IO, "the system gives no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(plan->token + 2 * i, 3, "%02x", bytes[i]);
    return LKS_OK;
}

/* Whether there is another start, which it says; `count` are those so far that a death was the cause of. */
static bool goes_on(const launch_plan *plan, launch_cause cause, int *count)
{
    const launch_meeting *meeting = plan->meeting;
    const char *from = plan->saves ? "the last checkpoint" : "the beginning, as nothing is saved";
    if (cause == LAUNCH_GROWS) return true;
    if (cause != LAUNCH_DIED) return false;
    if (meeting != NULL && meeting->is_smaller(meeting->user)) {
        say_error("a host is gone: restart from %s", from);
        return true;
    }
    if (*count == plan->restarts) {
        if (*count > 0)
            say_error("there %s %d restart%s, and no more: --max-restarts",
                      *count > 1 ? "were" : "was", *count, TEXT_S(*count));
        return false;
    }
    ++*count;
    say_error("restart %d of %d from %s", *count, plan->restarts, from);
    return true;
}

lks_status launch_run(launch_plan *plan, int *code)
{
    launch_end end;
    char text[16];
    int starts = 0, count = 0;
    for (;;) {
        lks_status status = draw_token(plan);
        snprintf(text, sizeof text, "%d", starts++);
        setenv("LKS_RESTART", text, 1);
        if (status == LKS_OK) status = launch_once(plan, &end);
        if (status != LKS_OK) return status;
        *code = end.code;
        if (!goes_on(plan, end.cause, &count)) return LKS_OK;
        if (plan->resumed != NULL) plan->rank = plan->resumed;
        int asked = 0;
        if (plan->meeting != NULL) status = plan->meeting->gather(plan->meeting->user, &asked);
        if (asked == 0 && status == LKS_OK && spawn_pending_signal() != 0)
            asked = 128 + spawn_pending_signal();
        if (status != LKS_OK || asked != 0) {
            *code = asked;
            return status;
        }
    }
}
