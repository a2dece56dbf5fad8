/*
 * Where a worker's time goes, while somebody asks (lks_profile_start): a step is cut into laps, each
 * from the end of the one before, so that the laps of a worker add up to the step without a gap.
 *
 *   worker 0  |start|forward|forward|..|backward|tree|metrics|wait|rows|update|wait|prepare|end|
 *
 * A lap costs a reading of the clock and two additions; where nobody asks, one branch.
 */
#ifndef LKI_PROGRAM_LAPS_H
#define LKI_PROGRAM_LAPS_H

#include <stddef.h>
#include <stdint.h>

/* What a lap is counted for: one of these, or a phase of a stage, see lki_lap_of(). */
typedef enum lki_lap_id {
    LKI_LAP_START,           /* from the caller's call to the job: checks, waking up */
    LKI_LAP_TREE,            /* sums of gradients over replicas */
    LKI_LAP_METRICS,         /* loss and accuracy */
    LKI_LAP_WAIT_GRADIENTS,  /* at the barrier behind the replicas */
    LKI_LAP_RANKS,           /* worker 0 exchanges with other processes, others wait for it */
    LKI_LAP_WAIT_PARAMETERS, /* at the barrier behind the update */
    LKI_LAP_HASH,            /* of parameters and buffers */
    LKI_LAP_END,             /* from the end of the job until the caller goes on */
    LKI_LAP_STAGES,          /* here those of stages begin */
} lki_lap_id;

typedef enum lki_phase {
    LKI_PHASE_FORWARD,
    LKI_PHASE_BACKWARD,
    LKI_PHASE_ROWS,    /* gradients by rows */
    LKI_PHASE_UPDATE,  /* of parameters and buffers */
    LKI_PHASE_PREPARE, /* packing parameters */
    LKI_PHASES,
} lki_phase;

typedef struct lki_lap_sum {
    int64_t nanoseconds, calls;
} lki_lap_sum;

/* Of one worker. */
typedef struct lki_laps {
    int64_t last; /* clock when the last lap ended */
    lki_lap_sum *sum;
} lki_laps;

static inline int lki_lap_of(ptrdiff_t stage, lki_phase phase)
{
    return LKI_LAP_STAGES + (int)stage * LKI_PHASES + (int)phase;
}

int64_t lki_laps_clock(void); /* nanoseconds; steady */
void lki_laps_add(lki_laps *laps, int id, int calls);

/* The time since the last lap was for `id`; laps NULL: nobody asks. */
static inline void lki_lap(lki_laps *laps, int id)
{
    if (laps != NULL) lki_laps_add(laps, id, 1);
}
/* The same for a part of a call whose end is counted. */
static inline void lki_lap_part(lki_laps *laps, int id)
{
    if (laps != NULL) lki_laps_add(laps, id, 0);
}

#endif
