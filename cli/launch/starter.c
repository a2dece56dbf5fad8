/* Which program starts the ranks, and its command line. */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/launch/launch.h"

/* Open MPI passes SIGUSR1 and SIGUSR2 on, and sends SIGTERM to ranks when it is told to end. Hydra passes on
 * what it gets; when it ends ranks it has a page to say about it, and when it is killed they end, too. srun
 * kills at SIGTERM, and passes SIGUSR1 and SIGUSR2 on; by its plugin for processes to watchers alone or to
 * ranks too, and a program may not live through SIGUSR2. That ranks get SIGTERM is Slurm's way to say that
 * the time is up. A killed srun leaves its tasks behind, so it is given longer to end. */
static const launch_starter starters[] = {
    {.name = "openmpi",
     .module = "openmpi",
     .tries = {"mpiexec.openmpi", "mpirun.openmpi", "mpiexec", "mpirun"},
     .sign = "Open MPI|OpenRTE|PRRTE",
     .soft = SIGUSR2,
     .hard = SIGTERM,
     .quit = SIGTERM,
     .user = SIGUSR1,
     .end_s = 0.5},
    {.name = "mpich",
     .module = "mpich",
     .tries = {"mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun"},
     .sign = "HYDRA",
     .soft = SIGTERM,
     .hard = SIGKILL,
     .quit = SIGQUIT,
     .user = SIGUSR1,
     .end_s = 0.5},
    {.name = "srun",
     .tries = {"srun"},
     .soft = SIGUSR1,
     .hard = SIGTERM,
     .quit = SIGQUIT,
     .user = SIGUSR1,
     .end_s = 2},
};
enum { STARTERS = sizeof starters / sizeof *starters, SRUN = STARTERS - 1 };

/* By its folder's own name: Open MPI infers from that where it is installed, and from /bin, which is a link
 * to /usr/bin, that it is nowhere. */
static char *in_path(cli_pool *pool, const char *name)
{
    const char *path = getenv("PATH");
    char folder[PATH_MAX];
    for (const char *at = path; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char *file = pool_format(pool, "%.*s/%s", (int)length, at, name);
        if (length > 0 && access(file, X_OK) == 0)
            return realpath(pool_format(pool, "%.*s", (int)length, at), folder) != NULL
                       ? pool_format(pool, "%s/%s", folder, name)
                       : file;
        at += length + (at[length] == ':');
    }
    return NULL;
}

/* Whether `program --version` prints one of the words in `sign` ("a|b"). */
static bool says(cli_pool *pool, char *program, const char *sign)
{
    char text[4096], *const command[] = {program, NULL};
    FILE *pipe = popen(
        pool_format(pool, "%s --version 2>/dev/null </dev/null", cli_words(pool, command)), "r");
    if (pipe == NULL) return false;
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    pclose(pipe);
    char *words = pool_copy(pool, sign, strlen(sign));
    for (char *word; (word = strsep(&words, "|")) != NULL;)
        if (strstr(text, word) != NULL) return true;
    return false;
}

/* The program of a starter; NULL: it is not installed. Names that end in the MPI's own are its own. */
static char *find_program(cli_pool *pool, const launch_starter *starter)
{
    for (int i = 0; starter->tries[i] != NULL; i++) {
        char *file = in_path(pool, starter->tries[i]);
        const bool own = strchr(starter->tries[i], '.') != NULL || starter->sign == NULL;
        if (file != NULL && (own || says(pool, file, starter->sign))) return file;
    }
    return NULL;
}

bool launch_has_module(cli_pool *pool, const char *name)
{
    enum { MOST = 16 };
    lks_mpi_module *module = pool_alloc(pool, MOST * sizeof *module);
    const int found = lks_mpi_modules(module, MOST, NULL, 0);
    for (int i = 0; i < found && i < MOST; i++)
        if (strncmp(module[i].name, name, strlen(name)) == 0) return true;
    return false;
}

const char *launch_module_places(cli_pool *pool)
{
    enum { SIZE = 1024 };
    char *places = pool_alloc(pool, SIZE);
    lks_mpi_modules(NULL, 0, places, SIZE);
    return places;
}

lks_status launch_name_starter(launch_plan *plan, const char *name)
{
    for (int i = 0; i < STARTERS && name != NULL; i++)
        if (strcmp(starters[i].name, name) == 0) plan->starter = &starters[i];
    if (plan->starter != NULL) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "--by is '%.60s', expected openmpi, mpich or srun",
                    name != NULL ? name : "");
}

static lks_status by_name(launch_plan *plan, const char *name, bool own)
{
    const lks_status status = launch_name_starter(plan, name);
    if (status != LKS_OK) return status;
    plan->program = find_program(plan->pool, plan->starter);
    if (plan->program == NULL)
        return lks_fail(LKS_E_INVALID,
                        "--by is %s, but there is no %s in PATH; install it, or start the ranks by "
                        "another",
                        name, plan->starter->tries[0]);
    if (!own && plan->starter->module != NULL &&
        !launch_has_module(plan->pool, plan->starter->module))
        return lks_fail(LKS_E_UNSUPPORTED,
                        "there is no module for %s: liblockstep-%s.so is in none of %s; install or "
                        "build it, or set LKS_MODULES to its folder",
                        name, plan->starter->module, launch_module_places(plan->pool));
    return LKS_OK;
}

lks_status launch_choose(launch_plan *plan, const char *name, bool own)
{
    bool module = false;
    if (name == NULL && !plan->meets && getenv("SLURM_JOB_ID") != NULL &&
        in_path(plan->pool, "srun") != NULL)
        name = "srun";
    if (name != NULL) return by_name(plan, name, own);
    for (int i = 0; i < SRUN; i++) {
        const bool there = own || launch_has_module(plan->pool, starters[i].module);
        module |= there;
        if (!there) continue;
        plan->starter = &starters[i];
        plan->program = find_program(plan->pool, plan->starter);
        if (plan->program != NULL) return LKS_OK;
    }
    plan->starter = NULL;
    if (!module)
        return lks_fail(
            LKS_E_UNSUPPORTED,
            "there is no module for MPI: neither liblockstep-openmpi.so nor "
            "liblockstep-mpich.so is in %s; install lockstep-openmpi or lockstep-mpich, "
            "or an MPI (libopenmpi-dev or libmpich-dev) and build Lockstep again, or set "
            "LKS_MODULES to its folder",
            launch_module_places(plan->pool));
    return lks_fail(LKS_E_UNSUPPORTED,
                    "there is a module for MPI, but no mpiexec in PATH that belongs to it; install "
                    "Open MPI (openmpi-bin) or MPICH (mpich)");
}
