#include "cli/verbs/record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool all_objects(const json_t *json)
{
    size_t i;
    const char *key;
    json_t *item;
    json_array_foreach(json, i, item) if (!json_is_object(item)) return false;
    json_object_foreach((json_t *)json, key, item) if (!json_is_object(item)) return false;
    return true;
}

static bool is_record(const json_t *json)
{
    const json_t *epochs = json_object_get(json, "epochs"),
                 *config = json_object_get(json, "config");
    return json_is_string(json_object_get(json, "hash")) && json_is_array(epochs) &&
           json_is_object(config) && all_objects(epochs) && all_objects(config);
}

lks_status record_read(json_t **out, const char *path)
{
    json_error_t error;
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return lks_fail(LKS_E_IO, "%.300s cannot be opened: %s", path, strerror(errno));
    errno = 0;
    json_t *json = json_loadf(file, 0, &error);
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed != 0) {
        json_decref(json);
        return lks_fail(LKS_E_IO,
                        "%.300s cannot be read: %s; expected a record, as train "
                        "--record writes it",
                        path, strerror(failed));
    }
    if (json == NULL && json_error_code(&error) == json_error_out_of_memory)
        return lks_fail(LKS_E_NOMEM, "no memory to read %.300s", path);
    if (json == NULL)
        return lks_fail(LKS_E_FORMAT,
                        "%.300s:%d: not JSON: %s; expected a record, as train --record writes it",
                        path, error.line, error.text);
    if (is_record(json)) {
        *out = json;
        return LKS_OK;
    }
    json_decref(json);
    return lks_fail(LKS_E_FORMAT,
                    "%.300s is no record of a training (train with --record FILE makes one)", path);
}
