#include "cli/report/run_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool run_log_is(const char *path)
{
    static const char begin[] = "{\"event\":";
    char text[sizeof begin] = "";
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    const bool whole = fread(text, 1, sizeof begin - 1, file) == sizeof begin - 1;
    fclose(file);
    return whole && memcmp(text, begin, sizeof begin - 1) == 0;
}

static void run_log_copy(json_t *to, const char *name, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    if (value != NULL) json_object_set(to, name, value);
}

static void take_start(json_t *record, const json_t *event)
{
    static const char *const keys[] = {"workers", "replicas", "parameters", "train_samples",
                                       "global_batch"};
    json_t *train = json_object_get(json_object_get(record, "config"), "train");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        run_log_copy(record, keys[i], event, keys[i]);
    run_log_copy(train, "epochs", event, "epochs");
    run_log_copy(train, "steps", event, "steps");
}

/* A run that goes on from a checkpoint has some epochs again. */
static void take_epoch(json_t *record, json_t *event)
{
    json_t *epochs = json_object_get(record, "epochs");
    const json_int_t number = json_integer_value(json_object_get(event, "epoch"));
    size_t count = json_array_size(epochs);
    for (; count > 0; count--) {
        const json_t *last = json_array_get(epochs, count - 1);
        if (json_integer_value(json_object_get(last, "epoch")) < number) break;
        json_array_remove(epochs, count - 1);
    }
    json_array_append(epochs, event);
    run_log_copy(record, "epoch_step", record, "steps");
    run_log_copy(record, "ranks", event, "ranks");
}

static void take_event(json_t *record, json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    if (name == NULL) return;
    if (strcmp(name, "start") == 0) take_start(record, event);
    if (strcmp(name, "epoch") == 0) take_epoch(record, event);
    if (strcmp(name, "step") == 0) json_object_set(record, "last_step", event);
    if (strcmp(name, "step") == 0) run_log_copy(record, "ranks", event, "ranks");
    if (strcmp(name, "step") == 0 || strcmp(name, "end") == 0) {
        run_log_copy(record, "steps", event, "step");
        run_log_copy(record, "finished", event, "finished");
        run_log_copy(record, "hash", event, "hash");
    }
}

static lks_status take_lines(run_log *log, FILE *file, const char *path)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    lks_status status = LKS_OK;
    while (status == LKS_OK && (bytes = getline(&line, &room, file)) > 0 &&
           line[bytes - 1] == '\n') { /* one that is being written has no end yet */
        json_error_t error;
        json_t *event = json_loadb(line, (size_t)bytes, 0, &error);
        if (json_is_object(event)) {
            take_event(log->record, event);
            log->end += (long)bytes;
        } else {
            status = lks_fail(LKS_E_FORMAT,
                              "%.300s: byte %ld begins no line of train --format json: %s", path,
                              log->end, event == NULL ? error.text : "no object");
        }
        json_decref(event);
    }
    free(line);
    return status;
}

lks_status run_log_read(run_log *log, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return lks_fail(LKS_E_IO, "%.300s cannot be opened: %s", path, strerror(errno));
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) < log->end) run_log_clear(log);
    if (log->record == NULL)
        log->record = json_pack("{s:s, s:[], s:{s:{}}, s:b, s:i}", "hash", "", "epochs", "config",
                                "train", "finished", 0, "steps", 0);
    lks_status status = log->record != NULL
                            ? LKS_OK
                            : lks_fail(LKS_E_NOMEM, "no memory to read %.300s", path);
    if (status == LKS_OK && fseek(file, log->end, SEEK_SET) == 0)
        status = take_lines(log, file, path);
    fclose(file);
    return status;
}

void run_log_clear(run_log *log)
{
    json_decref(log->record);
    *log = (run_log){0};
}
