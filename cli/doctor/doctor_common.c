/* doctor: the checks of a host in their order, and findings as text and JSON; for one process and for several. */
#include "cli/doctor/doctor.h"

#include <stdio.h>

#include "cli/out/say.h"
#include "cli/out/text.h"

static const char *const levels[] = {"ok", "note", "warning", "error"};

const char *doctor_level_name(doctor_level level)
{
    return levels[level];
}

doctor_level doctor_worst(const cli_doctor *doctor, int counts[4])
{
    doctor_level worst = LEVEL_OK;
    for (int i = 0; i < doctor->count; i++) {
        const doctor_level level = doctor->finding[i].level;
        counts[level]++;
        if (level > worst) worst = level;
    }
    return worst;
}

int doctor_exit_code(doctor_level worst)
{
    return worst == LEVEL_WARNING ? EXIT_WARNING : worst == LEVEL_ERROR ? EXIT_ERROR : 0;
}

static void print_line(const char *mark, const char *text, const char *level, const char *name,
                       int width)
{
    const int indent = printf("  %-8s %-18s %s", level, name, mark);
    text_print_wrapped(stdout, text, indent, indent, width);
}

void doctor_print_finding(const doctor_finding *f, const char *name, int width)
{
    print_line("", f->found, levels[f->level], name, width);
    if (f->advice != NULL) print_line("-> ", f->advice, "", "", width);
}

void doctor_print_counts(const cli_doctor *doctor)
{
    int counts[4] = {0};
    if (doctor_worst(doctor, counts) == LEVEL_OK)
        say("\nnothing to remark");
    else
        say("\n%d error%s, %d warning%s, %d note%s", counts[LEVEL_ERROR],
            TEXT_S(counts[LEVEL_ERROR]), counts[LEVEL_WARNING], TEXT_S(counts[LEVEL_WARNING]),
            counts[LEVEL_NOTE], TEXT_S(counts[LEVEL_NOTE]));
}

json_t *doctor_finding_json(const doctor_finding *f)
{
    json_t *check = json_object();
    json_object_set_new(check, "area", json_string(f->area));
    json_object_set_new(check, "name", json_string(f->name));
    json_object_set_new(check, "level", json_string(levels[f->level]));
    json_object_set_new(check, "found", json_string(f->found));
    json_object_set_new(check, "advice", f->advice != NULL ? json_string(f->advice) : json_null());
    if (f->values != NULL) json_object_set(check, "values", f->values);
    return check;
}

void doctor_look(cli_doctor *doctor, bool alone)
{
    static const struct {
        const char *area;
        void (*check)(cli_doctor *doctor);
        bool alone;
    } checks[] = {
        {"Hardware", doctor_hardware, false},
        {"Hardware", doctor_memory, false},
        {"Program", doctor_build, true},
        {"Program", doctor_arithmetic, false},
        {"Program", doctor_ranks, true},
        {"Limits", doctor_limits, false},
        {"Environment", doctor_environment, false},
        {"Time", doctor_noise, true},
        {"Time", doctor_bf16, true},
        {"Output", doctor_folder, false},
        {"Output", doctor_terminal, true},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (checks[i].alone && !alone) continue;
        doctor->area = checks[i].area;
        checks[i].check(doctor);
    }
}
