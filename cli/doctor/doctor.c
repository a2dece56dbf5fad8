/* lockstep doctor */
#include "cli/doctor/doctor.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/doctor/doctor_across.h"
#include "cli/out/text.h"

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

static void doctor_print_json(const cli_doctor *doctor)
{
    int counts[4] = {0};
    json_t *checks = json_array();
    for (int i = 0; i < doctor->count; i++)
        json_array_append_new(checks, doctor_finding_json(&doctor->finding[i]));
    json_t *all = json_object();
    json_object_set_new(all, "version", json_string(lks_version()));
    json_object_set_new(all, "worst", json_string(doctor_level_name(doctor_worst(doctor, counts))));
    json_object_set_new(all, "checks", checks);
    text_say_json(all, 2);
    json_decref(all);
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
