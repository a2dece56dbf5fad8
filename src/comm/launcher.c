#include "comm/launcher.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

/*
 * Each is set for every process of a start of several. srun stands last, as mpirun and mpiexec start their
 * own daemons by it inside an allocation; and SLURM_NTASKS and SLURM_PROCID do not count, as the script of a
 * batch job has them too, and so has the shell of salloc.
 */
static const struct {
    const char *size, *rank, *name, *alone;
    lki_kin kin;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun (Open MPI)",
     "mpirun -n 1 --bind-to none", LKI_KIN_OPENMPI},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "mpiexec (MVAPICH)", "mpiexec -n 1",
     LKI_KIN_MPICH},
    {"PMI_SIZE", "PMI_RANK", "mpiexec (MPICH)", "mpiexec -n 1", LKI_KIN_MPICH},
    {"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "mpiexec (MPICH)", "mpiexec -n 1", LKI_KIN_MPICH},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", "srun --ntasks=1 --cpus-per-task=N",
     LKI_KIN_NONE},
};

static int64_t launcher_number(const char *variable)
{
    const char *text = getenv(variable);
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9') return -1;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' ? number : -1;
}

static bool is_srun(const lki_launcher *launcher)
{
    return launcher_number("SLURM_STEP_NUM_TASKS") == launcher->size &&
           launcher_number("SLURM_PROCID") == launcher->rank && getenv("HYDI_CONTROL_FD") == NULL;
}

lki_launcher lki_launcher_find(void)
{
    lki_launcher found = {.size = -1, .rank = -1};
    const bool pmix = getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const int64_t size = launcher_number(launchers[i].size);
        if (size < 1) continue;
        found = (lki_launcher){.name = launchers[i].name,
                               .variable = launchers[i].size,
                               .alone = launchers[i].alone,
                               .size = size,
                               .rank = launcher_number(launchers[i].rank),
                               .kin = launchers[i].kin};
        break;
    }
    if (found.kin == LKI_KIN_MPICH && is_srun(&found)) found.name = "srun --mpi=pmi2";
    if (found.kin == LKI_KIN_NONE && found.name != NULL && pmix) {
        found.name = "srun --mpi=pmix";
        found.kin = LKI_KIN_OPENMPI;
    }
    if (found.name == NULL && pmix) /* without one the number of processes is known to MPI alone */
        found = (lki_launcher){.name = "a launcher with PMIx",
                               .variable = "PMIX_NAMESPACE",
                               .alone = "it with one process",
                               .size = -1,
                               .rank = launcher_number("PMIX_RANK"),
                               .kin = LKI_KIN_OPENMPI};
    return found;
}

int lki_launcher_cores(void)
{
    const lki_launcher found = lki_launcher_find();
    const int64_t cores = launcher_number("SLURM_CPUS_PER_TASK");
    const bool srun = found.name != NULL && strncmp(found.name, "srun", 4) == 0;
    return srun && cores > 0 && cores < INT32_MAX ? (int)cores : 0;
}

bool lki_launcher_several(const lki_launcher *launcher)
{
    return launcher->name != NULL && launcher->size != 1;
}

lks_launch lks_launch_get(void)
{
    const lki_launcher found = lki_launcher_find();
    return (lks_launch){.launcher = found.name,
                        .variable = found.variable,
                        .alone = found.alone,
                        .size = found.size,
                        .rank = found.rank};
}
