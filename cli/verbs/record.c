#include "cli/verbs/record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In a folder: that of a training, and of one of a sweep. */
#define IN_FOLDER   "/record.json"
#define IN_SWEEPING "/run.json"

char *record_place(cli_pool *pool, char *path)
{
    static const char *const names[] = {IN_FOLDER, IN_SWEEPING};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *inside = pool_format(pool, "%s%s", path, names[i]);
        if (access(inside, F_OK) == 0) return inside;
    }
    return path;
}

const char *record_stem(cli_pool *pool, const char *path)
{
    static const char *const ends[] = {IN_FOLDER, IN_SWEEPING, ".json"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && strcmp(path + length - end, ends[i]) == 0 &&
            path[length - end - 1] != '/')
            return pool_copy(pool, path, length - end);
    }
    return path;
}

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
    const bool no_memory = errno == ENOMEM; /* of which the reader may say nothing */
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed != 0) {
        json_decref(json);
        return lks_fail(LKS_E_IO,
                        "%.300s cannot be read: %s; expected a record, as train "
                        "--out or --record writes it",
                        path, strerror(failed));
    }
    if (no_memory) {
        json_decref(json);
        return lks_fail(LKS_E_NOMEM, "no memory to read %.300s", path);
    }
    if (json == NULL)
        return lks_fail(
            LKS_E_FORMAT,
            "%.300s:%d: not JSON: %s; expected a record, as train --out or --record writes it",
            path, error.line, error.text);
    if (is_record(json)) {
        *out = json;
        return LKS_OK;
    }
    json_decref(json);
    return lks_fail(LKS_E_FORMAT,
                    "%.300s is no record of a training (train with --out or --record makes one)",
                    path);
}
