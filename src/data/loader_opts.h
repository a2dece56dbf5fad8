/* What may be asked of a loader. */
#ifndef LKI_DATA_LOADER_OPTS_H
#define LKI_DATA_LOADER_OPTS_H

#include <lockstep/data.h>

/* Fills in defaults; or a sentence. */
lks_status lki_loader_check(const lks_dataset *set, lks_loader_opts *opts);
lks_status lki_loader_check_shares(const lks_dataset *set, const lks_loader_opts *opts);

#endif
