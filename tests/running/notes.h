/* Trainings that run, and the notes that they keep. */
#ifndef LKT_RUNNING_NOTES_H
#define LKT_RUNNING_NOTES_H

#include "verbs/background.h"

#include "cli/running/running.h"

static const char endless[] = "data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}\n"
                              "model: {name: mlp, hidden: [16]}\n"
                              "train: {epochs: 1000000, batch_size: 50, replicas: 4, workers: 1}\n"
                              "log: {quiet: true}\n";

static inline void begin(void)
{
    write_text("c.yaml", endless);
    setenv("LKS_RUNS", in_folder("runs"), 1);
}

/* Waits until so many ranks have made a step, and gives them. */
static inline json_t *wait_for_ranks(size_t count)
{
    for (int i = 0; i < 1200; i++) {
        json_t *all = json_array();
        bool steps = true;
        run("ps --format json");
        expect(0, "");
        for (char *line = strtok(last.out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            json_t *rank = read_json_text(line);
            steps &= json_number_of(rank, "step") > 0;
            json_array_append_new(all, rank);
        }
        if (steps && json_array_size(all) == count) return all;
        json_decref(all);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fail_msg("%zu ranks do not come", count);
    return NULL;
}

static inline void write_note(const running_note *note, const char *name, size_t bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", in_folder("runs"), name);
    unlink(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(note, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void read_note_of(running_note *note, pid_t process)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", in_folder("runs"), (int)process);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(note, 1, sizeof *note, file), sizeof *note);
    fclose(file);
}

#endif
