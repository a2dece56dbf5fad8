/* Trainings of a test. */
#ifndef LKT_VERBS_STOPS_H
#define LKT_VERBS_STOPS_H

#include <signal.h>
#include <jansson.h>

#include <lockstep/context.h>

#include "verbs/background.h"

static json_t *read_json(const char *name)
{
    json_t *json = json_load_file(in_folder(name), 0, NULL);
    if (json == NULL) fail_msg("%s is not JSON", name);
    return json;
}

#endif
