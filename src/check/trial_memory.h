/*
 * Memory of trials (trial.h), from the side of what runs them. Arrays are the host's, and what tests and
 * people read and write. A device with memory of its own is given twins: lki_trial_send() before it runs,
 * lki_trial_fetch() behind.
 */
#ifndef LKI_CHECK_TRIAL_MEMORY_H
#define LKI_CHECK_TRIAL_MEMORY_H

#include "check/trial.h"

/* As lki_trial_memory(), of what only kernels read and write. */
lks_status lki_trial_scratch(lki_trial *t, void **out, size_t bytes);
/* Copies what the host has written to where t->memory is read; scratch only once. Nothing where that is the
 * host's. */
lks_status lki_trial_send(lki_trial *t);
/* Copies it back; of scratch the guards. */
void lki_trial_fetch(lki_trial *t);
/* Where kernels find what is the host's at `memory`; NULL of NULL. */
void *lki_trial_there(const lki_trial *t, const void *memory);
/* Every byte of scratch 0xff. */
void lki_trial_spoil(const lki_trial *t, void *memory, size_t bytes);
/* Nobody has written since; also where the host does not see it. */
bool lki_trial_spoilt(const lki_trial *t, const void *memory, size_t bytes);
/* Nothing was written past the end of an array. */
bool lki_trial_guarded(const lki_trial *t);
/* Of what kernels must not change. */
uint64_t lki_trial_hash_inputs(const lki_trial *t);

#endif
