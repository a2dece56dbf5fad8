/* Models whose balance is told at every link that the worker with most replicas is slow, so that their ranges
 * change there. */
#ifndef LKT_CUTS_H
#define LKT_CUTS_H

#include <lockstep/model.h>

/* One that was compiled with LKS_BALANCE_AUTO; where each worker has one replica alone nothing changes. */
void lkt_cut_often(lks_model *model);

#endif
