/*
 * Modules: shared objects with a transport, one for each MPI. They lie in
 *
 *   $LKS_MODULES       a folder, or one module; where this is set, nowhere else
 *   BUILD/modules      of a library or program that lies in the folder of a build
 *   LIBDIR/lockstep    of an installed one, wherever the tree was moved to
 */
#ifndef LKI_COMM_MODULES_H
#define LKI_COMM_MODULES_H

#include "comm/launcher.h"
#include "comm/transport.h"

#include <lockstep/status.h>

enum { LKI_MODULE_PATH = 512, LKI_MODULES_MOST = 16 };

typedef struct lki_module {
    char path[LKI_MODULE_PATH];
    char name[64]; /* "openmpi" of ".../liblockstep-openmpi.so" */
    lki_kin kin;
} lki_module;

typedef struct lki_modules {
    int count;
    lki_module module[LKI_MODULES_MOST]; /* best first */
    char searched[2 * LKI_MODULE_PATH];  /* the folders, for a sentence */
} lki_modules;

/* False where this program cannot load any, as one that was linked statically. */
bool lki_modules_can_load(void);
void lki_modules_find(lki_modules *out);
/* It stays loaded: an MPI does not survive being unloaded. */
lks_status lki_module_load(const lki_transport **out, const char *path);

/* What the MPI says that this process has loaded already, "Open MPI v4.1.4, ..."; NULL: there is none. */
const char *lki_mpi_in_process(char *out, int size);

#endif
