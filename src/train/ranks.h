/* A model of several processes: rank 0 reads and writes files, the others get from it what it has read. */
#ifndef LKI_TRAIN_RANKS_H
#define LKI_TRAIN_RANKS_H

#include <lockstep/checkpoint.h>
#include <lockstep/comm.h>

/* This process reads and writes for all of the model's: always, where it is the only one. */
static inline bool lki_leads(const lks_model *model)
{
    return lks_comm_rank(lks_model_comm(model)) == 0;
}

/* Every process calls it with what rank 0's work came to, the others with LKS_OK; every one gets that. */
static inline lks_status lki_agree(const lks_model *model, lks_status mine)
{
    return lks_comm_agree(lks_model_comm(model), mine);
}

/* Refuses to write one of the models of processes that have stepped alone; on all of them. */
lks_status lki_check_together(const lks_model *model);
/* This entry of the state becomes what rank 0 gives, which has `bytes` bytes; on the others `values` is room for
 * them. */
lks_status lki_spread_entry(lks_model *model, int index, void *values, size_t bytes);
/* Rank 0's run becomes everybody's: `run` is filled in on the others (for lks_run_clear()). Its version of
 * the numerics is this program's there. */
lks_status lki_spread_run(const lks_model *model, lks_run *run);
#endif
