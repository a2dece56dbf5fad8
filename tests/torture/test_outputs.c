/*
 * Every file that a verb writes, whichever it is: a call that fails leaves the file that was there, or
 * the whole new one, and the program ends with a sentence and an exit code; so does a kill, but for
 * these two. And standard output that cannot be written is a failure.
 */
#include "torture/scene.h"

enum { OUTPUTS = 4, ARGUMENTS = 20 };

/* A command, in the attempt's folder; its inputs are in the folder above. */
static const struct job {
    const char *arguments[ARGUMENTS];
    const char *output[OUTPUTS]; /* that it writes */
    bool timed;                  /* they tell how long it took: no two are the same */
    bool fresh;                  /* what is there already is refused */
    bool with_png;
} jobs[] = {
    {{"report", "../a.json", "../b.json", "--svg", "c.svg", "--html", "c.html"},
     {"c.svg", "c.html"},
     false,
     false,
     false},
    {{"data", "digits", "--out", ".", "--samples", "20", "--test-samples", "10"},
     {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
      "t10k-labels-idx1-ubyte"},
     false,
     true,
     false},
    {{"data", "show", "digits", "--count", "4", "--out", "s.png"}, {"s.png"}, false, false, true},
    {{"bench", "../c.yaml", "--steps", "2", "--workers", "1", "--record", "bench.json"},
     {"bench.json"},
     true,
     false,
     false},
    {{"train", "../v.yaml", "--save-model", "--record", "v.json", "--workers", "1"},
     {"mlp.safetensors", "v.json"},
     true,
     false,
     false},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static const char old[] = "what was there\n";

static void begin(const struct job *job)
{
    static const char *arguments[ARGUMENTS + 2];
    clear_attempt();
    arguments[0] = "lockstep";
    memcpy(arguments + 1, job->arguments, sizeof job->arguments);
    command = arguments;
    for (int i = 0; i < OUTPUTS && job->output[i] != NULL && !job->fresh; i++) {
        FILE *file = fopen(in_attempt(job->output[i]), "w");
        assert_non_null(file);
        fputs(old, file);
        assert_int_equal(fclose(file), 0);
    }
}

typedef struct bytes {
    void *data;
    size_t count;
} bytes;

static bool is(const bytes *found, const void *data, size_t count)
{
    return found->data != NULL && found->count == count && memcmp(found->data, data, count) == 0;
}

/* A record that has come to its end. */
static bool is_json(const bytes *found)
{
    json_t *json = json_loadb(found->data, found->count, 0, NULL);
    const bool good = json_object_size(json) > 3;
    json_decref(json);
    return good;
}

/* The outputs of a job that is left alone; false where it needs a library that is not here. */
static bool keep(const struct job *job, bytes new[OUTPUTS])
{
    begin(job);
    launch("lkt_shim_files", NULL, "1");
    if (job->with_png && strstr(last.err, "libpng") != NULL) return false;
    if (last.code != 0) fail_msg("%s ends with %d:\n%s", job->arguments[0], last.code, last.err);
    for (int i = 0; i < OUTPUTS && job->output[i] != NULL; i++) {
        new[i].data = read_bytes(in_attempt(job->output[i]), &new[i].count);
        assert_true(new[i].count > 15);
    }
    return true;
}

static void check_outputs(const struct job *job, const char *fault, const bytes new[OUTPUTS])
{
    int whole = 0, files = 0;
    for (int i = 0; i < OUTPUTS && job->output[i] != NULL; i++, files++) {
        const char *name = job->output[i];
        const bool json = strcmp(name + strlen(name) - 5, ".json") == 0;
        bytes found;
        found.data = read_bytes(in_attempt(name), &found.count);
        const bool is_old = job->fresh ? found.data == NULL : is(&found, old, sizeof old - 1);
        const bool is_new = job->timed && json ? is_json(&found)
                                               : is(&found, new[i].data, new[i].count);
        free(found.data);
        if (!is_old && !is_new) BROKEN(fault, "%s is neither the old file nor the new", name);
        whole += is_new;
    }
    if (last.code == 0 && whole < files) BROKEN(fault, "a file is not there, and nobody says it");
}

static void check_folder(const struct job *job, const char *fault)
{
    DIR *all = opendir(attempt);
    assert_non_null(all);
    for (const struct dirent *entry; (entry = readdir(all));) {
        bool known = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        for (int i = 0; i < OUTPUTS && job->output[i] != NULL; i++)
            known |= strcmp(entry->d_name, job->output[i]) == 0;
        if (!known) BROKEN(fault, "a file that nobody expects: %s", entry->d_name);
    }
    closedir(all);
}

/* Returns whether it ended as if nothing were. */
static bool suffer(const struct job *job, const char *fault, const bytes new[OUTPUTS])
{
    begin(job);
    launch("lkt_shim_files", fault, "1");
    if (!says_sentences()) BROKEN(fault, "the program says something strange");
    if (last.code < 0 || last.code > 9) BROKEN(fault, "the program does not fail well");
    if (last.code > 0 && last.err[0] == '\0') BROKEN(fault, "the program does not say why");
    check_outputs(job, fault, new);
    check_folder(job, fault);
    return last.code == 0;
}

/* Ended within or before a call: an unfinished file may be left. */
static void die(const struct job *job, const char *fault, const bytes new[OUTPUTS])
{
    begin(job);
    launch("lkt_shim_files", fault, "1");
    if (last.code != 1000 + SIGKILL) BROKEN(fault, "the program was not killed");
    check_outputs(job, fault, new);
}

static bool needs_space(const call *c)
{
    return strcmp(c->kind, "create") == 0 || strcmp(c->kind, "write") == 0 ||
           strcmp(c->kind, "flush") == 0;
}

static void files_are_the_old_or_the_new(void **state)
{
    (void)state;
    static char alone[TEXT_SIZE];
    for (const struct job *job = jobs; job < jobs + JOBS; job++) {
        bytes new[OUTPUTS] = {0};
        int failed = 0, spaces = 0;
        if (!keep(job, new)) continue;
        memcpy(alone, last.calls, sizeof alone);
        const int calls = count_calls(alone);
        for (int n = 1; n <= calls; n += stride(1)) {
            const call c = call_of(alone, n);
            char fault[32];
            snprintf(fault, sizeof fault, "%d fail", n);
            failed += !suffer(job, fault, new);
            snprintf(fault, sizeof fault, "%d kill", n);
            die(job, fault, new);
            if (!needs_space(&c)) continue;
            snprintf(fault, sizeof fault, "%d half", n);
            if (strcmp(c.kind, "write") == 0) die(job, fault, new);
            snprintf(fault, sizeof fault, "%d full", n);
            if (suffer(job, fault, new)) BROKEN(fault, "nobody notices that the disk is full");
            spaces++;
        }
        print_message("%s %s: %d calls, %d failures said\n", job->arguments[0], job->arguments[1],
                      calls, failed);
        assert_true(calls > 5 && (lkt_in_part() || (spaces > 0 && failed >= spaces)));
        for (int i = 0; i < OUTPUTS; i++) free(new[i].data);
    }
    command = NULL;
}

/* Tables and pictures go where the shell says; a full disk there is a failure as well. */
static void standard_output_is_full(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "predict ../c.yaml --init ../w.safetensors",
        "predict ../c.yaml --init ../w.safetensors --format csv --probabilities --outputs",
        "predict ../c.yaml --init ../w.safetensors --format json",
        "eval ../c.yaml --init ../w.safetensors",
        "info ../c.yaml",
        "info ../w.safetensors",
        "compare ../a.json ../b.json",
        "compare ../w.safetensors ../w.safetensors",
        "report ../a.json",
        "data stats digits",
        "data show digits --count 2",
        "verify ../c.yaml --workers 1,2 --steps 2",
        "train ../c.yaml --steps 2",
        "train ../c.yaml --steps 2 --format csv",
        "train ../c.yaml --steps 2 --format json",
        "train ../c.yaml --print-config",
        "op 'relu in=2x3' --seconds 0.001",
    };
    const char *build = getenv("LKT_BUILD");
    if (access("/dev/full", W_OK) != 0) skip();
    clear_attempt();
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char line[2 * PATH_SIZE + 400], path[PATH_SIZE];
        snprintf(line, sizeof line, "cd '%s' && '%s/cli/lockstep' %s >/dev/full 2>../err.txt",
                 attempt, build != NULL ? build : "build/release", commands[i]);
        const int status = system(line);
        snprintf(path, sizeof path, "%s/err.txt", folder);
        read_text(path, last.err, sizeof last.err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 3)
            fail_msg("%s ends with %d:\n%s", commands[i], status, last.err);
        if (strstr(last.err, "lockstep: standard output could not be written: No space left on ") ==
            NULL)
            fail_msg("%s says:\n%s", commands[i], last.err);
    }
}

static int set_up(void **state)
{
    char path[PATH_SIZE];
    if (open_scene(state) != 0) return -1;
    snprintf(path, sizeof path, "%s/v.yaml", folder); /* the best is the first of its epochs */
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("data: {name: digits, samples: 60, test_samples: 20}\n"
          "model: {name: mlp, hidden: [8]}\n"
          "train: {epochs: 4, batch_size: 15, replicas: 3, hash_every: 4}\n"
          "optimizer: {name: sgd, lr: 30}\n"
          "validation: {samples: 15, patience: 2}\n"
          "log: {quiet: true}\n",
          file);
    assert_int_equal(fclose(file), 0);
    static const char *const names[] = {"a.json", "b.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(json_dump_file(record, path, 0), 0);
    }
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    return rename(in_attempt("mlp.safetensors"), path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_the_old_or_the_new),
        cmocka_unit_test(standard_output_is_full),
    };
    return cmocka_run_group_tests(tests, set_up, close_scene);
}
