/* lockstep doctor */
#include "cli/doctor/doctor.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/doctor/doctor_across.h"
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

/* Each finding on one line, or on as many as a terminal needs. */
static void doctor_print_text(const cli_doctor *doctor)
{
    const int width = say_columns();
    const char *area = "";
    for (int i = 0; i < doctor->count; i++) {
        const doctor_finding *f = &doctor->finding[i];
        if (strcmp(f->area, area) != 0) say("%s%s", i > 0 ? "\n" : "", f->area);
        area = f->area;
        doctor_print_finding(f, f->name, width);
    }
    doctor_print_counts(doctor);
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

static void doctor_print_json(const cli_doctor *doctor)
{
    int counts[4] = {0};
    json_t *checks = json_array();
    for (int i = 0; i < doctor->count; i++)
        json_array_append_new(checks, doctor_finding_json(&doctor->finding[i]));
    json_t *all = json_object();
    json_object_set_new(all, "version", json_string(lks_version()));
    json_object_set_new(all, "worst", json_string(levels[doctor_worst(doctor, counts)]));
    json_object_set_new(all, "checks", checks);
    text_print_json(stdout, all, 2);
    putchar('\n');
    json_decref(all);
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
        {"Output", doctor_folder, false},
        {"Output", doctor_terminal, true},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (checks[i].alone && !alone) continue;
        doctor->area = checks[i].area;
        checks[i].check(doctor);
    }
}

static lks_status look_alone(const cli_args *cli, int *code)
{
    lks_recipe *recipe;
    const lks_status status = cli_configure(&recipe, cli, NULL);
    if (status != LKS_OK) return status;
    cli_pool pool = {0};
    cli_doctor *doctor = pool_alloc(&pool, sizeof *doctor);
    int counts[4] = {0};
    doctor->root = cli->local[LOCAL_ROOT] != NULL ? cli->local[LOCAL_ROOT] : "";
    doctor->folder = lks_recipe_text(recipe, "checkpoint.path");
    doctor_look(doctor, true);
    if (strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0)
        doctor_print_json(doctor);
    else
        doctor_print_text(doctor);
    *code = doctor_exit_code(doctor_worst(doctor, counts));
    for (int i = 0; i < doctor->count; i++) json_decref(doctor->finding[i].values);
    pool_clear(&doctor->pool);
    pool_clear(&pool);
    lks_recipe_close(recipe);
    return LKS_OK;
}

lks_status verb_doctor(const cli_args *cli, int *code)
{
    if (cli->local[LOCAL_LAUNCH] != NULL) return doctor_launch(cli, code);
    const lks_status status = doctor_no_launch(cli);
    if (status != LKS_OK) return status;
    return lks_launch_get().size > 1 ? doctor_across(cli, code) : look_alone(cli, code);
}
