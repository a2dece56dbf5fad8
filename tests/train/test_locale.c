/* A program in a locale whose numbers have a comma writes the checkpoints that others read, and reads
 * theirs. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "support/locale.h"
#include "train/folder.h"
#include "train/job.h"

static const char *locales[] = {"C", "de_DE.UTF-8"};

/* Trains to its end, or stops behind step `stop`; returns the hash. */
static uint64_t train(const char *path, int64_t stop)
{
    const tiny_opts net = {.seed = 4, .workers = 2, .optim = lks_adam()};
    lks_run run;
    job *j = job_open(&net, -1);
    lks_train_opts opts = job_opts(j, path);
    opts.resume = true;
    j->stop_step = stop;
    const lks_status status = lks_train(j->net.context, &opts, &run);
    assert_int_equal(status, stop > 0 ? LKS_E_STOPPED : LKS_OK);
    const uint64_t hash = tiny_hash(&j->net);
    lks_run_clear(&run);
    job_close(j);
    return hash;
}

static void checkpoints(void **state)
{
    (void)state;
    char parent[4200];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(folder, '/') - folder), folder);
    if (!lkt_comma_locale(parent)) skip();
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) { /* stopped in one, resumed in the other */
        char path[4300];
        snprintf(path, sizeof path, "%s-%d", folder, i);
        assert_non_null(setlocale(LC_ALL, locales[i]));
        train(path, 5);
        assert_non_null(setlocale(LC_ALL, locales[1 - i]));
        hash[i] = train(path, 0);
    }
    setlocale(LC_ALL, "C");
    assert_int_equal(hash[0], hash[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(checkpoints, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
