/* What a schedule is: one file for each, a line in lockstep/optim.h, which has formulas and fields. */
#ifndef LKI_OPTIM_SCHEDULE_SCHEDULE_H
#define LKI_OPTIM_SCHEDULE_SCHEDULE_H

#include <lockstep/optim.h>

#include "core/attribute.h"

typedef struct lki_schedule_rule {
    const char *name; /* in a configuration */
    lks_schedule_kind kind;
    lki_attributes
        attributes; /* of lks_schedule; a configuration's "schedule" has keys of their names */
    /* The rate at t, which counts what the schedule counts, without warm-up; NULL: lr. A member of 0 has
     * its default here too: nothing parses the table in a step. */
    double (*rate)(const lks_schedule *schedule, int64_t t);
    /* NULL: the table says it all. What it cannot say of the members. */
    lks_status (*check)(const lks_schedule *schedule);
    bool per_step;    /* a configuration counts steps, if it does not say */
    bool from_losses; /* the rate is that of an lks_plateau */
    const char *needs,
        *example; /* a key that a configuration has to set, and a value; NULL: none */
} lki_schedule_rule;

#define X(KIND, name) extern const lki_schedule_rule lki_schedule_##name;
LKS_SCHEDULES(X)
#undef X

#define LKI_SCHEDULE_WORD(KIND, name) " " #name
/* "constant step ...": what a configuration may say. */
#define LKI_SCHEDULE_NAMES (&(LKS_SCHEDULES(LKI_SCHEDULE_WORD))[1])

/* NULL: there is none of that kind, number (from 0, in the order of the list), or name. */
const lki_schedule_rule *lki_schedule_of(lks_schedule_kind kind);
const lki_schedule_rule *lki_schedule_rule_at(int number);
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

/* Lines of tables. */
#define LKI_SCHEDULE_GAMMA                                                                         \
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, gamma, .range = "[0,)", .fallback = "0.1")
#define LKI_SCHEDULE_LENGTH                                                                        \
    LKI_ATTRIBUTE(INT, lks_schedule, length, .range = "[1,)", .most = INT64_MAX)
#define LKI_SCHEDULE_FINAL LKI_ATTRIBUTE(DOUBLE, lks_schedule, final_lr, .range = "[0,)")

#endif
