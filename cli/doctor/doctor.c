/* lockstep doctor */
#include "cli/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"

static const char *const levels[] = {"ok", "note", "warning", "error"};

static doctor_level worst_of(const cli_doctor *doctor, int counts[4])
{
    doctor_level worst = LEVEL_OK;
    for (int i = 0; i < doctor->count; i++) {
        const doctor_level level = doctor->finding[i].level;
        counts[level]++;
        if (level > worst) worst = level;
    }
    return worst;
}

static void print_finding(const char *mark, const char *text, const char *level, const char *name,
                          int width)
{
    const int indent = printf("  %-8s %-18s %s", level, name, mark);
    text_print_wrapped(stdout, text, indent, indent, width);
}

/* Each finding on one line, or on as many as a terminal needs. */
static void doctor_print_text(const cli_doctor *doctor)
{
    const int width = say_columns();
    int counts[4] = {0};
    const char *area = "";
    for (int i = 0; i < doctor->count; i++) {
        const doctor_finding *f = &doctor->finding[i];
        if (strcmp(f->area, area) != 0) say("%s%s", i > 0 ? "\n" : "", f->area);
        area = f->area;
        print_finding("", f->found, levels[f->level], f->name, width);
        if (f->advice != NULL) print_finding("-> ", f->advice, "", "", width);
    }
    if (worst_of(doctor, counts) == LEVEL_OK)
        say("\nnothing to remark");
    else
        say("\n%d error%s, %d warning%s, %d note%s", counts[LEVEL_ERROR],
            TEXT_S(counts[LEVEL_ERROR]), counts[LEVEL_WARNING], TEXT_S(counts[LEVEL_WARNING]),
            counts[LEVEL_NOTE], TEXT_S(counts[LEVEL_NOTE]));
}

static void doctor_print_json(const cli_doctor *doctor)
{
    int counts[4] = {0};
    json_t *checks = json_array();
    for (int i = 0; i < doctor->count; i++) {
        const doctor_finding *f = &doctor->finding[i];
        json_t *check = json_object();
        json_object_set_new(check, "area", json_string(f->area));
        json_object_set_new(check, "name", json_string(f->name));
        json_object_set_new(check, "level", json_string(levels[f->level]));
        json_object_set_new(check, "found", json_string(f->found));
        json_object_set_new(check, "advice",
                            f->advice != NULL ? json_string(f->advice) : json_null());
        if (f->values != NULL) json_object_set(check, "values", f->values);
        json_array_append_new(checks, check);
    }
    json_t *all = json_object();
    json_object_set_new(all, "version", json_string(lks_version()));
    json_object_set_new(all, "worst", json_string(levels[worst_of(doctor, counts)]));
    json_object_set_new(all, "checks", checks);
    text_print_json(stdout, all, 2);
    putchar('\n');
    json_decref(all);
}

static void doctor_look(cli_doctor *doctor)
{
    static const struct {
        const char *area;
        void (*check)(cli_doctor *doctor);
    } checks[] = {
        {"Hardware", doctor_hardware},       {"Hardware", doctor_memory}, {"Program", doctor_build},
        {"Program", doctor_arithmetic},      {"Program", doctor_ranks},   {"Limits", doctor_limits},
        {"Environment", doctor_environment}, {"Time", doctor_noise},      {"Output", doctor_folder},
        {"Output", doctor_terminal},
    };
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        doctor->area = checks[i].area;
        checks[i].check(doctor);
    }
}

lks_status verb_doctor(const cli_args *cli, int *code)
{
    lks_recipe *recipe;
    const lks_status status = cli_configure(&recipe, cli, NULL);
    if (status != LKS_OK) return status;
    cli_pool pool = {0};
    cli_doctor *doctor = pool_alloc(&pool, sizeof *doctor);
    int counts[4] = {0};
    doctor->root = cli->local[LOCAL_ROOT] != NULL ? cli->local[LOCAL_ROOT] : "";
    doctor->folder = lks_recipe_text(recipe, "checkpoint.path");
    doctor_look(doctor);
    if (strcmp(lks_recipe_text(recipe, "log.format"), "json") == 0)
        doctor_print_json(doctor);
    else
        doctor_print_text(doctor);
    const doctor_level worst = worst_of(doctor, counts);
    if (worst == LEVEL_WARNING) *code = EXIT_WARNING;
    if (worst == LEVEL_ERROR) *code = EXIT_ERROR;
    for (int i = 0; i < doctor->count; i++) json_decref(doctor->finding[i].values);
    pool_clear(&doctor->pool);
    pool_clear(&pool);
    lks_recipe_close(recipe);
    return LKS_OK;
}
