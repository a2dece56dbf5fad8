/* What a training says with log.format: sc20: the lines of NERSC's tutorial at SC20. */
#ifndef CLI_SC20_H
#define CLI_SC20_H

#include <lockstep/trainer.h>

/* In front of the first step. */
void sc20_begin(void);
/* Of batch number `batch` of an epoch, from 0 on: samples (`unit`: "img"; or "tokens") a second since the line before. */
void sc20_step(const lks_step_event *event, double rate, const char *unit);
/* The time of an epoch, and losses; with `shares` accuracies, of 1. Validation is the test where there is no other. */
void sc20_epoch(const lks_epoch *epoch, bool shares);

#endif
