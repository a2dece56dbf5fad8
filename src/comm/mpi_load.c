/* The way over MPI: which module fits the launcher, and a refusal where none does. */
#include "comm/comm.h"
#include "comm/modules.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kin_module[] = {
    [LKI_KIN_OPENMPI] = "liblockstep-openmpi.so", [LKI_KIN_MPICH] = "liblockstep-mpich.so"};
static const char *const kin_name[] = {[LKI_KIN_OPENMPI] = "Open MPI", [LKI_KIN_MPICH] = "MPICH"};
static const char *const kin_start[] = {[LKI_KIN_OPENMPI] = "mpirun.openmpi or srun --mpi=pmix",
                                        [LKI_KIN_MPICH] = "mpiexec.mpich or srun --mpi=pmi2"};

/* "mpirun (Open MPI) started 3 processes (OMPI_COMM_WORLD_SIZE=3)" */
static const char *load_started(char *out, size_t size, const lki_launcher *launcher)
{
    if (launcher->size < 0)
        snprintf(out, size, "%s started this process (%s)", launcher->name, launcher->variable);
    else
        snprintf(out, size, "%s started %lld processes (%s=%lld)", launcher->name,
                 (long long)launcher->size, launcher->variable, (long long)launcher->size);
    return out;
}

static lks_status load_refuse(const lki_launcher *launcher, const lki_modules *all)
{
    char started[160] = "";
    const lki_kin kin = launcher->kin;
    if (launcher->name != NULL) load_started(started, sizeof started, launcher);
    if (!lki_modules_can_load())
        return LKI_FAIL(
            LKS_E_COMM,
            "%s%sthis program was linked statically and cannot load MPI; use the one that "
            "was not",
            started, launcher->name != NULL ? ", and " : "");
    if (launcher->name == NULL)
        return LKI_FAIL(
            LKS_E_COMM,
            "there is no module for MPI in %s; install lockstep-openmpi or lockstep-mpich, "
            "or name the folder of one in LKS_MODULES",
            all->searched);
    if (kin == LKI_KIN_NONE)
        return LKI_FAIL(
            LKS_E_COMM,
            "%s without a way for MPI to join them; start them with srun --mpi=pmix "
            "(Open MPI) or srun --mpi=pmi2 (MPICH), or unset %s where each is to have a run "
            "of its own",
            started, launcher->variable);
    const lki_module *other = all->count > 0 ? &all->module[0] : NULL;
    return LKI_FAIL(
        LKS_E_COMM,
        "%s, but there is no module for %s (%s) in %.200s; install it, or name its folder "
        "in LKS_MODULES%s%s%s%s",
        started, kin_name[kin], kin_module[kin], all->searched,
        other != NULL ? ", or start by " : "", other != NULL ? kin_start[other->kin] : "",
        other != NULL ? ", for which there is " : "", other != NULL ? other->name : "");
}

/* What a program has loaded must not meet another MPI, whose functions have the same names. */
static bool load_is_inside(const lki_module *module, const char *inside)
{
    static const char *const names[][2] = {
        {"openmpi", "Open MPI"}, {"mpich", "MPICH"}, {"intelmpi", "Intel"}, {"mvapich", "MVAPICH"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(module->name, names[i][0], strlen(names[i][0])) == 0)
            return strncmp(inside, names[i][1], strlen(names[i][1])) == 0;
    return false;
}

static lks_status load_choose(const lki_module **out, const lki_modules *all,
                              const lki_launcher *launcher, const char *inside)
{
    const char *asked = getenv("LKS_MODULES");
    for (int i = 0; i < all->count; i++) {
        const lki_module *m = &all->module[i];
        const bool named = asked != NULL &&
                           strcmp(m->path, asked) == 0; /* itself, not its folder */
        const bool fits = launcher->name == NULL || m->kin == launcher->kin;
        *out = m;
        if (inside != NULL ? load_is_inside(m, inside) : named || fits) return LKS_OK;
    }
    if (inside == NULL) return load_refuse(launcher, all);
    return LKI_FAIL(
        LKS_E_COMM,
        "this program has loaded '%.100s', and there is no module for it in %s; build one "
        "with its mpicc, or name its folder in LKS_MODULES",
        inside, all->searched);
}

/* What has been loaded; there is one MPI in a process. */
static struct {
    const lki_transport *module;
    lki_transport checked;
    char path[LKI_MODULE_PATH];
} loaded;

/* Joins, and looks whether the launcher and MPI mean the same: a rank that finds itself alone, as under the
 * launcher of another MPI, would train what all the others train as well. */
static int load_open(void **link, const void *how, lki_fault *fault)
{
    const lki_launcher launcher = lki_launcher_find();
    char started[160];
    const int failed = loaded.module->open(link, how, fault);
    if (failed || how != NULL || launcher.size < 1) return failed;
    const int size = loaded.module->size(*link);
    if (size == launcher.size) return 0;
    loaded.module->close(*link);
    *link = NULL;
    snprintf(
        fault->text, sizeof fault->text,
        "%s, but %s finds %d: the launcher is another MPI's than the module '%.100s'; start by the "
        "launcher of %s, or name the fitting module in LKS_MODULES",
        load_started(started, sizeof started, &launcher), loaded.module->library, size, loaded.path,
        loaded.module->library);
    return -1;
}

static bool load_launched(void)
{
    const lki_launcher launcher = lki_launcher_find();
    return lki_launcher_several(&launcher);
}

static lks_status load_find(const lki_transport **out, const void *how)
{
    const lki_launcher launcher = lki_launcher_find();
    const lki_module *module = NULL;
    lki_modules all;
    char inside[128];
    (void)how;
    *out = &loaded.checked;
    if (loaded.module != NULL) return LKS_OK;
    lki_modules_find(&all);
    const char *there = lki_mpi_in_process(inside, sizeof inside);
    LKI_TRY(load_choose(&module, &all, &launcher, there));
    LKI_TRY(lki_module_load(&loaded.module, module->path));
    snprintf(loaded.path, sizeof loaded.path, "%s", module->path);
    loaded.checked = *loaded.module;
    loaded.checked.open = load_open;
    return LKS_OK;
}

const lki_way lki_mpi_way = {.name = "mpi", .launched = load_launched, .find = load_find};
