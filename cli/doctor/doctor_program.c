/* doctor: libraries, instruction set, arithmetic, limits, environment, terminal. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
typedef __rlimit_resource_t limit_kind;
#else
typedef int limit_kind;
#endif

#include <yaml.h>

#include <lockstep/context.h>
#include <lockstep/tools.h>

#include "cli/data/fetch.h"
#include "cli/doctor/doctor.h"
#include "cli/out/say.h"
#include "cli/out/text.h"
#include "recipe/board/png.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* A variable that is there, and why that is worth a note. */
static bool note_variable(cli_doctor *d, const char *name, const char *advice)
{
    const char *value = variable(name);
    if (value == NULL) return false;
    doctor_raise(d, doctor_add(d, name, "%.100s", value), LEVEL_NOTE, "%s", advice);
    return true;
}

/* What the backend says of itself stands behind the last semicolon of the fingerprint: "cpu: avx2". */
static void check_device(cli_doctor *d)
{
    lks_context *context;
    const char *asked = getenv("LKS_ISA");
    if (lks_context_create(&context, &say_logged) != LKS_OK) {
        doctor_finding *f = doctor_add(d, "device", "none can be used: %s",
                                       lks_last_error()->message);
        doctor_raise(d, f, LEVEL_ERROR, "no training runs until this is mended%s",
                     asked != NULL ? "; unset LKS_ISA" : "");
        return;
    }
    const char *last = strrchr(lks_context_fingerprint(context), ';');
    const char *colon = last != NULL ? strstr(last, "cpu: ") : NULL;
    const char *isa = colon != NULL ? colon + strlen("cpu: ") : "none";
    doctor_finding *f = doctor_add(d, "device", "%s", last != NULL ? last + 2 : "");
    f->values = json_pack("{s:s, s:s, s:s}", "device", lks_context_device(context), "instructions",
                          isa, "fingerprint", lks_context_fingerprint(context));
    if (strcmp(lks_context_device(context), "cpu") != 0)
        doctor_raise(d, f, LEVEL_WARNING,
                     "the fast backend was left out, and the reference is slower many times; "
                     "build without LKS_CPU=OFF");
    else if (asked != NULL)
        doctor_raise(d, f, LEVEL_NOTE,
                     "LKS_ISA chose this; unset it for the fastest, with the same bits");
#if !defined(FP_FAST_FMAF) /* portable kernels are built for the least processor of their kind */
    else if (strcmp(isa, "portable") == 0)
        doctor_raise(d, f, LEVEL_WARNING,
                     "the processor, or the virtual machine, has no fused multiply-add (FMA) with "
                     "AVX2, so each is computed in software and training is slower tens of times, "
                     "with the same bits; use a processor, or a model of the virtual one, that has "
                     "both");
#endif
    lks_context_destroy(context);
}

static void check_downloads(cli_doctor *d)
{
    cli_fetch *fetch;
    if (fetch_open(&fetch) == LKS_OK) {
        const char *version = fetch_version(fetch); /* its own first */
        doctor_add(d, "downloads", "by %.*s", (int)strcspn(version, " "), version);
        fetch_close(fetch);
        return;
    }
    doctor_raise(d, doctor_add(d, "downloads", "not possible"), LEVEL_NOTE, "%s",
                 lks_last_error()->message);
}

void doctor_build(cli_doctor *d)
{
    char libraries[256];
    check_device(d);
    lks_libraries(libraries, sizeof libraries);
#if defined(__GLIBC__)
    const char *libc = pool_format(&d->pool, ", glibc %s", gnu_get_libc_version());
#else
    const char *libc = "";
#endif
    doctor_finding *f = doctor_add(d, "libraries", "%s, jansson %s, libyaml %s, libpng %s%s",
                                   libraries, jansson_version_str(), yaml_get_version_string(),
                                   lki_png_version(), libc);
    if (strstr(libraries, "hwloc") == NULL)
        doctor_raise(d, f, LEVEL_NOTE,
                     "hwloc is not built in; which CPUs share a core is read from the kernel's "
                     "files instead");
    check_downloads(d);
    f = doctor_add(d, "build", "lockstep %s, %s", lks_version(), lks_build_info());
    if (strstr(lks_build_info(), "Debug") != NULL)
        doctor_raise(d, f, LEVEL_WARNING,
                     "a Debug build is slower many times; configure with --preset release");
    note_variable(d, "LD_PRELOAD",
                  "a library is put before all others; unset it if timings or results surprise "
                  "you");
}

void doctor_arithmetic(cli_doctor *d)
{
    const volatile float least = FLT_MIN;
    const volatile float half = least / 2;
    const bool flushed = !(half > 0), nearest = fegetround() == FE_TONEAREST;
    doctor_finding *f = doctor_add(d, "denormals", "%s, %s",
                                   flushed ? "flushed to zero" : "kept, as the standard asks",
                                   nearest ? "round to nearest" : "another rounding");
    f->values = json_pack("{s:b, s:b}", "flushed", flushed, "nearest", nearest);
    if (flushed || !nearest)
        doctor_raise(d, f, LEVEL_NOTE,
                     "a library changed the state of this thread (-ffast-math?); workers set "
                     "their own, so training is not touched, but other code may be");
}

static const char *limit_text(cli_doctor *d, rlim_t limit, bool bytes)
{
    if (limit == RLIM_INFINITY) return "unlimited";
    return bytes ? doctor_size(d, (double)limit)
                 : pool_format(&d->pool, "%llu", (unsigned long long)limit);
}

/* Each limit with what is too little, and what then happens. */
void doctor_limits(cli_doctor *d)
{
    static const struct {
        const char *name;
        limit_kind resource;
        bool bytes;
        rlim_t least;
        const char *advice;
    } rows[] = {
        {"stack", RLIMIT_STACK, true, 512 << 10,
         "threads get stacks of this size and may overflow it; ulimit -s 8192"},
        {"open files", RLIMIT_NOFILE, false, 64,
         "data, checkpoints and libraries need a few dozen; ulimit -n 1024"},
        {"address space", RLIMIT_AS, true, 1 << 30,
         "a larger network ends with out of memory; ulimit -v unlimited"},
        {"file size", RLIMIT_FSIZE, true, 1 << 30,
         "a checkpoint larger than this cannot be written; ulimit -f unlimited"},
        {"processor time", RLIMIT_CPU, false, 86400,
         "the kernel ends the training after so many seconds, summed over its workers; ulimit -t "
         "unlimited"},
        {"processes", RLIMIT_NPROC, false, 64,
         "workers and loaders are threads and count as processes; ulimit -u 4096"},
        {"locked memory", RLIMIT_MEMLOCK, true, 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rlimit limit;
        if (getrlimit(rows[i].resource, &limit) != 0) {
            doctor_add(d, rows[i].name, "not known");
            continue;
        }
        const rlim_t now = limit.rlim_cur;
        doctor_finding *f = doctor_add(d, rows[i].name, "%s", limit_text(d, now, rows[i].bytes));
        f->values = now == RLIM_INFINITY ? json_pack("{s:n}", "limit")
                                         : json_pack("{s:I}", "limit", (json_int_t)now);
        if (now != RLIM_INFINITY && now < rows[i].least)
            doctor_raise(d, f, LEVEL_WARNING, "%s", rows[i].advice);
    }
}

static void check_threads(cli_doctor *d)
{
    static const char unused[] = "Lockstep's workers are not chosen by this; use --workers, or "
                                 "train.workers";
    static const char bind[] = "Lockstep does not read this, and binds its workers itself";
    static const struct {
        const char *name, *advice;
    } rows[] = {
        {"OMP_NUM_THREADS", unused},      {"OMP_THREAD_LIMIT", unused}, {"MKL_NUM_THREADS", unused},
        {"OPENBLAS_NUM_THREADS", unused}, {"OMP_PROC_BIND", bind},      {"OMP_PLACES", bind},
        {"GOMP_CPU_AFFINITY", bind},      {"KMP_AFFINITY", bind},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        any |= note_variable(d, rows[i].name, rows[i].advice);
    if (!any) doctor_add(d, "threads", "no variable of OpenMP is set");
}

static int number_in(const char *name)
{
    const char *value = variable(name);
    return value != NULL ? atoi(value) : 0;
}

static void check_slurm(cli_doctor *d)
{
    const char *job = variable("SLURM_JOB_ID");
    if (job == NULL) {
        doctor_add(d, "Slurm", "not in a job");
        return;
    }
    const int tasks = number_in("SLURM_NTASKS"), each = number_in("SLURM_CPUS_PER_TASK");
    const int usable = lks_cores();
    const char *per_task = each > 0 ? pool_format(&d->pool, "%d", each) : "not known";
    doctor_finding *f = doctor_add(d, "Slurm", "job %.40s, %d task%s, CPUs per task: %s", job,
                                   tasks > 0 ? tasks : 1, tasks > 1 ? "s" : "", per_task);
    f->values = json_pack("{s:i, s:i, s:i}", "tasks", tasks, "cpus_per_task", each, "usable",
                          usable);
    if (each > usable)
        doctor_raise(d, f, LEVEL_WARNING,
                     "the job has %d CPUs per task, but only %d can be used here; start the "
                     "program with srun --cpus-per-task=%d --cpu-bind=cores",
                     each, usable, each);
}

void doctor_environment(cli_doctor *d)
{
    check_threads(d);
    check_slurm(d);
}

void doctor_terminal(cli_doctor *d)
{
    const int columns = say_columns();
    const char *term = variable("TERM");
    const char *what = !isatty(STDOUT_FILENO) ? "no terminal on standard output"
                       : columns == 0         ? "a terminal that cannot redraw a line"
                                      : pool_format(&d->pool, "%d column%s, TERM=%.40s", columns,
                                                    TEXT_S(columns), term != NULL ? term : "");
    doctor_finding *f = doctor_add(d, "terminal", "%s, %s", what,
                                   say_unicode() ? "UTF-8" : "ASCII only");
    f->values = json_pack("{s:i, s:b}", "columns", columns, "unicode", say_unicode());
}
