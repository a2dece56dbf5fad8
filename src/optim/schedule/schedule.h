/* What a schedule is: one file for each, a line in list.h. Formulas and fields: lockstep/optim.h. */
#ifndef LKI_OPTIM_SCHEDULE_SCHEDULE_H
#define LKI_OPTIM_SCHEDULE_SCHEDULE_H

#include <lockstep/optim.h>

#include "optim/schedule/list.h"

typedef struct lki_schedule_rule {
    const char *name; /* in a configuration */
    lks_schedule_kind kind;
    /* The rate at t, which counts what the schedule counts, without warm-up; NULL: lr. */
    double (*rate)(const lks_schedule *schedule, int64_t t);
    lks_status (*check)(const lks_schedule *schedule); /* of its own fields; NULL: it has none */
    bool per_step;    /* a configuration counts steps, if it does not say */
    bool from_losses; /* the rate is that of an lks_plateau */
    const char *needs,
        *example; /* a key that a configuration has to set, and a value; NULL: none */
} lki_schedule_rule;

#define X(id) extern const lki_schedule_rule lki_schedule_##id;
LKI_SCHEDULE_LIST(X)
#undef X

/* NULL: there is none of that kind, or name. */
const lki_schedule_rule *lki_schedule_of(lks_schedule_kind kind);
const lki_schedule_rule *lki_schedule_find(const char *name);

/* What schedules share: common.c. */
static inline double lki_or_default(double value, double standard)
{
    return value != 0.0 ? value : standard;
}
/* From `begin` to `end` by half a cosine, of whose `span` a part is `done` and the `rest` is left. */
double lki_half_cosine(double begin, double end, double done, double rest, double span);
/* The part of the schedule's length that is done at t, in its units. */
double lki_schedule_done(const lks_schedule *schedule, int64_t t);
/* low <= value, or low < value where `above`, and finite. */
lks_status lki_schedule_at_least(const char *field, double value, double low, bool above);
/* There is a length; and a last rate. */
lks_status lki_schedule_check_length(const lks_schedule *schedule, const char *name);
lks_status lki_schedule_check_end(const lks_schedule *schedule, const char *name);

#endif
