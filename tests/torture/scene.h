/*
 * One short training, and what is left of it after a call has failed or the program was killed.
 *
 * The training: 8 steps, saved every 2, two checkpoints kept, with a record and the weights at its
 * end. It runs in a folder of its own ("attempt"), where it writes
 *
 *   run/step-<n>.json, run/step-<n>.safetensors    run.json    mlp.safetensors
 *
 * Whatever happens, what stands under these names is whole; what a save had promised is there; and
 * the same command, run again, ends as the training that was left alone.
 */
#ifndef LKT_TORTURE_SCENE_H
#define LKT_TORTURE_SCENE_H

#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include <lockstep/checkpoint.h>

#include "train/run.h"

enum { TEXT_SIZE = 1 << 18, PATH_SIZE = 4300, STEPS = 8, EPOCHS = 2, PATIENCE = 120 /* seconds */ };

typedef struct ended {
    int code;                                         /* exit code; 1000 + n: signal n ended it */
    char out[4096], err[TEXT_SIZE], calls[TEXT_SIZE]; /* calls: the shim's log */
} ended;

static const char *folder;   /* of the whole test */
static char attempt[4200];   /* the working folder of the program */
static char hash[64];        /* last line of the training that was left alone */
static void *weights;        /* its mlp.safetensors */
static size_t weights_bytes; /* of them */
static json_t *record;       /* its run.json */
static ended last;           /* of launch() */

/* What launch() runs, with the program's name; NULL: the training. */
static const char *const *command;
static bool asked_to_stop;       /* the record and the weights may be those of any step */
static const char *signal_asked; /* "<n> <number>" for the shim of files; NULL: none */

static inline const char *in_attempt(const char *name)
{
    static char path[4][PATH_SIZE + 300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", attempt, name);
    return path[turn];
}

static inline int remove_one(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info, (void)flag, (void)walk;
    return remove(path);
}

/* An empty attempt. */
static inline void clear_attempt(void)
{
    nftw(attempt, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(mkdir(attempt, 0777), 0);
}

static inline void read_text(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    out[0] = '\0';
    if (file == NULL) return;
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* Bytes of a file, for free(); NULL where there is none. */
static inline void *read_bytes(const char *path, size_t *bytes)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    *bytes = 0;
    if (file == NULL) return NULL;
    assert_int_equal(fstat(fileno(file), &info), 0);
    uint8_t *data = malloc((size_t)info.st_size + 1);
    assert_non_null(data);
    *bytes = fread(data, 1, (size_t)info.st_size, file);
    fclose(file);
    return data;
}

/* In the child: the program, with the shim and the fault in its environment. */
static inline void become_program(const char *shim, const char *fault, const char *workers)
{
    const char *build = getenv("LKT_BUILD"), *sanitizer = getenv("ASAN_OPTIONS");
    char library[2 * PATH_SIZE], program[PATH_SIZE], options[1000];
    if (build == NULL) build = "build/release";
    snprintf(library, sizeof library, "%s/tests/lib%s.so%s%s%s", build, shim,
             command != NULL ? ":" : "", command != NULL ? build : "",
             command != NULL ? "/tests/liblkt_shim_clock.so" : ""); /* some verbs measure */
    snprintf(program, sizeof program, "%s/cli/lockstep", build);
    /* The sanitizer wants to be the first library; it works behind ours too. */
    snprintf(options, sizeof options, "%s%sverify_asan_link_order=0", sanitizer ? sanitizer : "",
             sanitizer ? ":" : "");
    if (chdir(attempt) != 0) _exit(125);
    setenv("ASAN_OPTIONS", options, 1);
    setenv("LKT_FAULT_LOG", "../calls.txt", 1);
    setenv("LKT_FAULT_PID", "7", 1);
    setenv("LKS_RUNS", "../notes", 1);
    if (fault != NULL) setenv("LKT_FAULT", fault, 1);
    if (signal_asked != NULL) setenv("LKT_SIGNAL", signal_asked, 1);
    const int out = open("../out.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open("../err.txt", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (out < 0 || err < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(125);
    close(out);
    close(err);
    setenv("LD_PRELOAD", library, 1);
    alarm(PATIENCE);
    if (command != NULL)
        execv(program, (char *const *)(uintptr_t)command);
    else
        execl(program, "lockstep", "train", "../c.yaml", "--out", "run", "--resume", "--record",
              "run.json", "--save-model", "--workers", workers, (char *)NULL);
    _exit(126);
}

/* Runs the training in the attempt's folder, or goes on with it, into `last`. */
static inline void launch(const char *shim, const char *fault, const char *workers)
{
    char path[PATH_SIZE];
    int status;
    snprintf(path, sizeof path, "%s/calls.txt", folder);
    unlink(path);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) become_program(shim, fault, workers);
    assert_int_equal(waitpid(child, &status, 0), child);
    last.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    read_text(path, last.calls, sizeof last.calls);
    snprintf(path, sizeof path, "%s/out.txt", folder);
    read_text(path, last.out, sizeof last.out);
    snprintf(path, sizeof path, "%s/err.txt", folder);
    read_text(path, last.err, sizeof last.err);
    if (last.code == 1000 + SIGALRM) fail_msg("with '%s' the program hangs", fault ? fault : "");
    if (last.code == 125 || last.code == 126) fail_msg("the program cannot be started");
}

/* Every line of standard error is a sentence of the program. */
static inline bool says_sentences(void)
{
    for (const char *line = last.err; *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (strncmp(line, "lockstep: ", 10) != 0 || end == NULL) return false;
        line = end + 1;
    }
    return true;
}

static inline bool is_expected_end(void)
{
    return last.code == 0 && strcmp(last.out, hash) == 0;
}

/* What went wrong, with all that is known of it. */
#define BROKEN(fault, ...)                                                                         \
    do {                                                                                           \
        fprintf(stderr, "with '%s', exit code %d:\n%s%s--- calls:\n%s", (fault), last.code,        \
                last.out, last.err, last.calls);                                                   \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

/* The step of "step-<n><ending>", or -1. */
static inline int64_t step_of(const char *name, const char *ending)
{
    int step, length = 0;
    if (sscanf(name, "step-%8d%n", &step, &length) != 1 || strcmp(name + length, ending) != 0)
        return -1;
    return step;
}

/* Reads all of a checkpoint, by its checksums. */
static inline void check_checkpoint(const char *fault, int64_t step)
{
    char name[100];
    lki_file file;
    lki_identity tensors;
    lks_tensor_file *state;
    lks_run run = {0};
    snprintf(name, sizeof name, "run/step-%08d.json", (int)step);
    LKT_OK(lki_file_open(&file, NULL, in_attempt(name)));
    if (lki_run_parse(name, file.data, file.bytes, &run, &tensors) != LKS_OK)
        BROKEN(fault, "%s", lks_last_error()->message);
    lki_file_close(&file);
    assert_int_equal(run.progress.step, step);
    lks_run_clear(&run);
    snprintf(name, sizeof name, "run/step-%08d.safetensors", (int)step);
    if (lki_tensor_file_open(&state, NULL, in_attempt(name), &tensors) != LKS_OK)
        BROKEN(fault, "%s", lks_last_error()->message);
    lks_tensor_file_close(state);
}

typedef struct contents {
    int64_t newest; /* checkpoint; -1: none */
    int records, tensors;
    int temporary; /* files that were not finished */
    bool finished; /* the training, by its record */
    bool locked;   /* the folder still has the file of its lock */
} contents;

/* The record has everything that the one of the training that was left alone has: all of it, or what
 * it was after an epoch, or when it was stopped. Returns whether the training has finished. */
static inline bool check_record(const char *fault, const char *path)
{
    json_t *found = json_load_file(path, 0, NULL);
    const bool finished = json_is_true(json_object_get(found, "finished"));
    const int64_t epochs = (int64_t)json_array_size(json_object_get(found, "epochs"));
    const int64_t steps = json_integer_value(json_object_get(found, "steps"));
    const char *key;
    json_t *value;
    json_object_foreach(record, key, value)
    {
        const json_t *same = json_object_get(found, key);
        if (strcmp(key, "test_confusion") == 0) {
            /* Formed at the end, and left out, with a warning, where that fails. */
            if (same != NULL && !(finished && json_equal(value, same)))
                BROKEN(fault, "the record has another '%s'", key);
        } else if (same == NULL) {
            BROKEN(fault, "the record has no '%s'", key);
        }
    }
    if (finished && !json_equal(json_object_get(record, "hash"), json_object_get(found, "hash")))
        BROKEN(fault, "the record has another hash");
    const bool whole = epochs >= 1 && steps == epochs * (STEPS / EPOCHS);
    const bool fits = asked_to_stop ? steps / (STEPS / EPOCHS) == epochs : whole;
    if (!fits || (finished && (!whole || epochs != EPOCHS)))
        BROKEN(fault, "the record has %d epochs, %d steps", (int)epochs, (int)steps);
    json_decref(found);
    return finished;
}

static inline contents check_checkpoints(const char *fault)
{
    contents found = {.newest = -1};
    DIR *run = opendir(in_attempt("run"));
    if (run == NULL) return found;
    for (const struct dirent *entry; (entry = readdir(run));) {
        const char *name = entry->d_name;
        char path[400];
        const int64_t step = step_of(name, ".json");
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
        snprintf(path, sizeof path, "run/%s", name);
        if (strcmp(name, ".lockstep.lock") == 0) {
            found.locked = true;
        } else if (name[0] == '.') {
            found.temporary++;
        } else if (step >= 0) {
            check_checkpoint(fault, step);
            found.records++;
            if (step > found.newest) found.newest = step;
        } else if (step_of(name, ".safetensors") >= 0) {
            lks_tensor_file *file; /* whole, even if it has no record */
            if (lks_tensor_file_open(&file, NULL, in_attempt(path)) != LKS_OK)
                BROKEN(fault, "%s", lks_last_error()->message);
            lks_tensor_file_close(file);
            found.tensors++;
        } else {
            BROKEN(fault, "a file that nobody expects: %s", path);
        }
    }
    closedir(run);
    return found;
}

/* Everything that the attempt has under a final name is whole. */
static inline contents check_contents(const char *fault)
{
    contents found = check_checkpoints(fault);
    DIR *all = opendir(attempt);
    assert_non_null(all);
    for (const struct dirent *entry; (entry = readdir(all));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "run") == 0) continue;
        if (name[0] == '.') {
            found.temporary++;
        } else if (strcmp(name, "run.json") == 0) {
            found.finished = check_record(fault, in_attempt(name));
        } else if (strcmp(name, "mlp.safetensors") == 0) {
            size_t bytes;
            void *data = read_bytes(in_attempt(name), &bytes);
            const bool is_last = bytes == weights_bytes && memcmp(data, weights, bytes) == 0;
            lks_tensor_file *file = NULL;
            if (asked_to_stop && (lks_tensor_file_open(&file, NULL, in_attempt(name)) != LKS_OK ||
                                  bytes != weights_bytes))
                BROKEN(fault, "the weights are not whole");
            lks_tensor_file_close(file);
            if (!is_last && !asked_to_stop)
                BROKEN(fault, "the weights are not those of the training");
            free(data);
        } else {
            BROKEN(fault, "a file that nobody expects: %s", name);
        }
    }
    closedir(all);
    return found;
}

/* The newest step of which a save came to its end, as far as the program could see: the record was
 * renamed and then its folder synced. -1: none. */
static inline int64_t promised(void)
{
    int64_t renamed = -1, result = -1;
    for (const char *line = last.calls; *line != '\0'; line = strchr(line, '\n') + 1) {
        char kind[16], outcome[16], path[300], to[300] = "";
        if (sscanf(line, "%*d %15s %15s %299[^\t\n]\t%299[^\n]", kind, outcome, path, to) < 3)
            continue;
        if (strcmp(outcome, "ok") != 0) continue;
        const char *name = strrchr(to, '/');
        if (strcmp(kind, "rename") == 0 && name != NULL && step_of(name + 1, ".json") >= 0)
            renamed = step_of(name + 1, ".json");
        if (strcmp(kind, "sync") == 0 && strcmp(path + strlen(path) - 4, "/run") == 0)
            result = renamed;
    }
    return result;
}

/* The same command again, with other workers: it ends as the one left alone, and what is saved then
 * tidies up. */
static inline void check_resumed(const char *fault)
{
    launch("lkt_shim_files", NULL, "2");
    if (!is_expected_end() || !says_sentences()) BROKEN(fault, "resumed, the training is another");
    const contents found = check_contents(fault);
    const bool tidy = found.records == found.tensors && found.records <= 3 && found.temporary == 0;
    if (found.newest != STEPS || found.records < 2 || (promised() >= 0 && !tidy))
        BROKEN(fault, "resumed, %d records, %d tensor files and %d temporary files are left",
               found.records, found.tensors, found.temporary);
    if (found.locked) BROKEN(fault, "resumed, the folder's lock is left");
    if (!found.finished || access(in_attempt("mlp.safetensors"), F_OK) != 0)
        BROKEN(fault, "resumed, there is no record of the end or no file of weights");
}

/* The folder, and the training that is left alone; its calls are in last.calls. */
static inline int open_scene(void **state)
{
    (void)state;
    char path[PATH_SIZE];
    folder = lkt_make_folder();
    snprintf(attempt, sizeof attempt, "%s/attempt", folder);
    snprintf(path, sizeof path, "%s/c.yaml", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("data: {name: digits, samples: 60, test_samples: 20, mean: 0.13}\n"
          "model: {name: mlp, hidden: [8], dropout: 0.1}\n"
          "train: {epochs: 2, batch_size: 15, replicas: 3, seed: 3, hash_every: 4}\n"
          "optimizer: {name: adam, lr: 0.01}\n"
          "checkpoint: {every_steps: 2, keep: 2}\n"
          "log: {quiet: true}\n",
          file);
    assert_int_equal(fclose(file), 0);
    clear_attempt();
    launch("lkt_shim_files", NULL, "1");
    if (last.code != 0 || sscanf(last.out, "hash %*16[0-9a-f] step %*d%*c") != 0)
        fail_msg("left alone, the training ends with %d:\n%s%s", last.code, last.out, last.err);
    snprintf(hash, sizeof hash, "%.63s", last.out);
    weights = read_bytes(in_attempt("mlp.safetensors"), &weights_bytes);
    assert_non_null(weights);
    record = json_load_file(in_attempt("run.json"), 0, NULL);
    assert_non_null(record);
    return 0;
}

static inline int close_scene(void **state)
{
    (void)state;
    free(weights);
    json_decref(record);
    lkt_remove_folder();
    return 0;
}

/* What call `number` of a log is, "write" for example, and of which file; "" where there is none. */
typedef struct call {
    char kind[16], path[300];
} call;

static inline call call_of(const char *calls, int number)
{
    call found = {.kind = ""};
    for (const char *line = calls; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (atoi(line) != number) continue;
        sscanf(line, "%*d %15s %*15s %299[^\t\n]", found.kind, found.path);
    }
    return found;
}

static inline int count_calls(const char *calls)
{
    int count = 0;
    for (const char *line = calls; *line != '\0'; line = strchr(line, '\n') + 1)
        if (atoi(line) > count) count = atoi(line);
    return count;
}

/* Sanitizers make every run slow: with one, only each fifth fault is tried. LKT_TORTURE=all: all of
 * them, whatever it takes. */
static inline int stride(int usual)
{
    const char *wanted = getenv("LKT_TORTURE");
    if (wanted != NULL && strcmp(wanted, "all") == 0) return 1;
    return lkt_in_part() ? 5 * usual : usual;
}

#endif
