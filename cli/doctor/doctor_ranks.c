/* doctor: training in several processes: the modules for MPI, and who started this one. */
#include <string.h>

#include <lockstep/tools.h>

#include "cli/doctor/doctor.h"

static void check_launcher(cli_doctor *d)
{
    const lks_launch launch = lks_launch_get();
    if (launch.launcher == NULL) return;
    if (launch.size < 0)
        doctor_add(d, "launcher", "%s", launch.launcher);
    else
        doctor_add(d, "launcher", "%s, %lld process%s", launch.launcher, (long long)launch.size,
                   launch.size == 1 ? "" : "es");
}

void doctor_ranks(cli_doctor *d)
{
    enum { MOST = 8 };
    lks_mpi_module *module = pool_alloc(&d->pool, MOST * sizeof *module);
    char searched[1024];
    const int found = lks_mpi_modules(module, MOST, searched, sizeof searched);
    const int count = found < MOST ? found : MOST;
    check_launcher(d);
    for (int i = 0; i < count; i++) {
        char library[128] = "";
        const lks_status status = lks_mpi_library(library, sizeof library, module[i].path);
        const char *slash = strrchr(module[i].path,
                                    '/'); /* a line breaks between file and folder */
        const int folder = slash != NULL ? (int)(slash - module[i].path) : 0;
        doctor_finding *f = doctor_add(d, "MPI", "%s, %s%s%.*s",
                                       status == LKS_OK ? library : "cannot be loaded",
                                       slash != NULL ? slash + 1 : module[i].path,
                                       slash != NULL ? " in " : "", folder, module[i].path);
        f->values = json_pack("{s:s, s:s}", "name", module[i].name, "library", library);
        if (status != LKS_OK) doctor_raise(d, f, LEVEL_WARNING, "%s", lks_last_error()->message);
    }
    if (count == 0) doctor_add(d, "MPI", "no module in %s: one process alone trains", searched);
}
