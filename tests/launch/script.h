/* Ranks that are a script, which says who it is, ends as it is told to, or stays. */
#ifndef LKT_LAUNCH_SCRIPT_H
#define LKT_LAUNCH_SCRIPT_H

#include "verbs/background.h"

#include <signal.h>

/* Hydra can lose what is said, or fail, where ranks end within milliseconds on a busy machine: they take a while.
 * Behind "ready" nothing is substituted: bash reads the command of a trap that comes in the middle of $(...) as its end. */
static const char script[] =
    "sleep 0.2\nR=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} minute=$(seq 600)\n"
    "miss() { text=\"! $1 rank $1 (host a, pid 5): it froze\"\n"
    "  printf '\\036 %s %s b 7 %s\\n' $LKS_LAUNCH $R \"$text\" >&2; }\n"
    "case $1 in\n"
    "hello) echo out $R; echo err $R >&2; grep Cpus_allowed_list /proc/self/status ;;\n"
    "fail) echo begin $R\n"
    "  if [ $R = 1 ]; then for i in $(seq 50); do echo line $i; done; exit 7; fi\n"
    "  sleep 60 ;;\n"
    "segv) [ $R = 1 ] && kill -SEGV $$; sleep 60 ;;\n"
    "own) echo of its own >>logs/rank-$R.log; [ $R = 1 ] && exit 3; sleep 60 ;;\n"
    "again) echo start $LKS_RESTART; [ $R = 0 ] && echo up >up.$LKS_RESTART\n"
    "  until [ -e up.$LKS_RESTART ]; do sleep 0.02; done\n"
    "  [ $LKS_RESTART -ge $2 ] || { [ $R = 1 ] && { sleep 0.3; kill -KILL $$; }; sleep 60; }; "
    "sleep 0.2 ;;\n"
    "once) [ $LKS_RESTART = 0 ] || exit 0; [ $R = 1 ] && exit 4; sleep 60 ;;\n"
    "miss) miss 0; sleep 0.3; exit 12 ;;\n"
    "blame) [ $R = 1 ] && { sleep 0.15; kill -KILL $$; }; miss 1; kill -SEGV $$ ;;\n"
    "late) [ $R = 1 ] && { sleep $2; kill -KILL $$; }; sleep $3; miss 1; sleep 0.1\n"
    "  sleep $2; touch late; sleep 60 ;;\n"
    "most) [ $R = 2 ] && sleep 60; exit 5 ;;\n"
    "leave) for f in $(seq 3 254); do eval \"exec $f>&-\"; done\n" /* as a daemon does */
    "  setsid bash rank.sh stay >/dev/null 2>&1 &\n"
    "  until [ -e ready.$R ]; do sleep 0.02; done ;;\n"
    "asked) trap 'miss 0; exit 12' TERM USR1 USR2; echo ready $R >ready.$R\n"
    "  for i in $minute; do sleep 0.1; done ;;\n"
    "same) echo the same >&2; exit ${2:-5} ;;\n"
    "save) trap 'sleep 0.3; echo saved $R; exit 143' TERM\n"
    "  trap 'sleep 0.3; echo saved $R; exit 138' USR1\n"
    "  echo ready $R >ready.$R; for i in $minute; do sleep 0.1; done ;;\n"
    "talk) trap 'echo saved >saved.$R; exit 143' TERM\n"
    "  for i in $minute; do echo line $i; sleep 0.1; done ;;\n"
    "stay) trap '' TERM INT USR1 HUP; echo ready $R >ready.$R\n"
    "  for i in $minute; do sleep 0.1; done ;;\n"
    "esac\n";

static const struct mpi {
    const char *name, *program;
} mpis[] = {{"openmpi", "mpiexec.openmpi"}, {"mpich", "mpiexec.hydra"}};

/* A folder with the script, and modules, which --by asks for. */
static inline bool begin(const struct mpi *mpi)
{
    if (shell("command -v %s >/dev/null", mpi->program) != 0) {
        print_message("%s is not installed: its cases are left out\n", mpi->program);
        return false;
    }
    shell("rm -rf logs ready.* saved.* up.* *.txt run modules; mkdir -p modules; touch "
          "modules/liblockstep-%s.so",
          mpi->name);
    write_text("rank.sh", script);
    write_text("c.yaml", tiny);
    setenv("LKS_MODULES", in_folder("modules"), 1);
    return true;
}

#define EACH_MPI(mpi)                                                                              \
    for (const struct mpi *mpi = mpis; mpi < mpis + 2; mpi++)                                      \
        if (begin(mpi))

static inline pid_t start_ranks(const struct mpi *mpi, const char *what)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments,
             "launch -n 2 --by %s --log-dir logs --program bash -- rank.sh %s", mpi->name, what);
    const pid_t child = start(arguments);
    wait_for("ready.0", "ready");
    wait_for("ready.1", "ready");
    return child;
}

/* Processes whose command line has the test's folder or its script; a zombie is none. */
static inline int processes(void)
{
    return shell(
        "n=0; for p in /proc/[0-9]*; do [ \"$(readlink $p/cwd)\" = \"$PWD\" ] && "
        "[ ${p#/proc/} != $$ ] && ! grep -q '^State:.Z' $p/status && "
        "grep -qE 'rank.sh|lockstep' $p/cmdline && n=$((n + 1)); done 2>/dev/null; exit $n");
}

static inline void expect_nobody(double seconds)
{
    for (int i = 0; i < (int)(seconds / 0.05); i++) {
        if (processes() == 0) return;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fail_msg("%d processes are left", processes());
}

#endif
