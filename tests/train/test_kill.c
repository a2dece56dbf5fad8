/*
 * A training that is killed with SIGKILL at random moments, and each time resumed with another
 * number of workers, ends with the hash and the record of the run that was left alone. LKT_KILLS
 * sets how many kills there are (default 15).
 */
#include "train/job.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EPOCHS = 20, SAVE_STEPS = 3 };

/* The whole of a process: trains, resuming what is there, and writes the hash into the pipe. */
static void train(const char *folder, int workers, int threads, int result)
{
    lks_run run;
    job *j = job_open(&(tiny_opts){.seed = 6, .workers = workers, .optim = lks_adam()}, threads);
    lks_train_opts opts = job_opts(j, folder);
    opts.schedule = (lks_schedule){.kind = LKS_COSINE, .lr = 0.05, .length = EPOCHS};
    opts.epochs = EPOCHS;
    opts.save_steps = SAVE_STEPS;
    opts.resume = true;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    /* Killed between its last save and its end: what that save had not tidied up, the next does. */
    if (j->saves == 0) LKT_OK(lks_checkpoint_save(j->net.model, &run, folder, 2));
    const uint64_t hash = tiny_hash(&j->net);
    assert_int_equal(write(result, &hash, sizeof hash), sizeof hash);
    lks_run_clear(&run);
    job_close(j);
}

/* Trains in a process of its own, which is killed after `delay` seconds (NaN: never). Returns
 * whether it came to the end. */
static bool live(const char *folder, int workers, int threads, double delay, uint64_t *hash)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        train(folder, workers, threads, ends[1]);
        _exit(0);
    }
    if (!isnan(delay)) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(delay * 1e9)}, NULL);
        kill(child, SIGKILL);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    const bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!finished && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
        fail_msg("with %d workers the training failed", workers);
    }
    if (finished) assert_int_equal(read(ends[0], hash, sizeof *hash), sizeof *hash);
    close(ends[0]);
    return finished;
}

/* Nothing but whole checkpoints: two, and the best. */
static void check_folder(const char *folder)
{
    int records = 0, tensors = 0, others = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (strcmp(dot, ".json") == 0) {
            records++;
        } else if (strcmp(dot, ".safetensors") == 0) {
            tensors++;
        } else if (entry->d_name[1] != '\0' && entry->d_name[1] != '.') {
            others++;
        }
    }
    closedir(open);
    assert_int_equal(records, tensors);
    assert_true(records == 2 || records == 3);
    assert_int_equal(others, 0);
}

static lks_run read_end(const char *folder)
{
    lks_run run;
    LKT_OK(lks_checkpoint_load(NULL, NULL, &run, folder, EPOCHS * JOB_BATCHES));
    return run;
}

static void ends_as_the_one_left_alone(void **state)
{
    (void)state;
    const char *given = getenv("LKT_KILLS"), *above = lkt_make_folder();
    const int wanted = given ? atoi(given) : 15;
    lkt_random random = lkt_random_make("kill", 20);
    char alone[4300], folder[4300];
    uint64_t expected, hash;
    snprintf(alone, sizeof alone, "%s/alone", above);
    assert_true(live(alone, 1, 1, (double)NAN, &expected));
    check_folder(alone);
    lks_run whole = read_end(alone);

    int kills = 0, runs = 0;
    do {
        snprintf(folder, sizeof folder, "%s/run-%d", above, ++runs);
        for (bool finished = false; !finished;) {
            /* From before the first step to many saves: 0.5 to 80 ms, every factor as likely. */
            const double delay = kills < wanted ? 0.0005 * exp(lkt_random_real(&random, 0.0, 5.08))
                                                : (double)NAN;
            const int workers = (int)lkt_random_from(&random, 1, 4);
            finished = live(folder, workers, (int)lkt_random_from(&random, 1, 3), delay, &hash);
            if (!finished) kills++;
        }
        assert_int_equal(hash, expected);
        check_folder(folder);
        lks_run run = read_end(folder);
        job_assert_same(&whole, &run);
        lks_run_clear(&run);
    } while (kills < wanted);
    print_message("%d kills in %d trainings\n", kills, runs);
    lks_run_clear(&whole);
    lkt_remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_as_the_one_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
