/* The lock of a run's folder: one training at a time, however the one before has ended. */
#include "train/folder.h"
#include "train/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *lock_path(void)
{
    static char path[4300];
    snprintf(path, sizeof path, "%s/.lockstep.lock", folder);
    return path;
}

static bool leaves;
static int always; /* so many times, counted down */

/* In the C library's place: once, whoever had the lock leaves, and another comes, between a file's opening
 * and its locking. */
int flock(int descriptor, int operation)
{
    if (leaves || always > 0) {
        leaves = false;
        always--;
        assert_int_equal(unlink(lock_path()), 0);
        const int other = open(lock_path(), O_RDWR | O_CREAT, 0666);
        assert_true(other >= 0);
        close(other);
    }
    return (int)syscall(SYS_flock, descriptor, operation);
}

/* A lock on a file that has no name any more keeps nobody out. */
static void is_on_the_file_that_is_there(void **state)
{
    (void)state;
    lks_folder_lock *lock, *other;
    leaves = true;
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    assert_false(leaves);
    LKT_FAILS(LKS_E_IO, "in use by another training", lks_checkpoint_lock(&other, NULL, folder));
    lks_checkpoint_unlock(lock);
    assert_int_equal(access(lock_path(), F_OK), -1);
}

static int descriptors(void)
{
    const int next = dup(0);
    assert_true(next >= 0);
    close(next);
    return next;
}

/* Who always comes too late gives up after a hundred tries, and leaves no file open. */
static void is_not_waited_for(void **state)
{
    (void)state;
    lks_folder_lock *lock;
    const int before = descriptors();
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    lks_checkpoint_unlock(lock);
    always = 99;
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    assert_int_equal(always, 0);
    lks_checkpoint_unlock(lock);
    always = 101;
    LKT_FAILS(LKS_E_IO, "cannot be locked: others take and leave its lock all the time; try again",
              lks_checkpoint_lock(&lock, NULL, folder));
    assert_int_equal(always, 1);
    always = 0;
    assert_null(lock);
    assert_int_equal(descriptors(), before);
}

/* Its file says who has it, in one line, whatever was there before; a program that is started does not
 * inherit it, and it is no link to elsewhere. */
static void is_signed(void **state)
{
    (void)state;
    lks_folder_lock *lock;
    char host[256] = "", expected[400], found[400] = "", other[4300], target[4300];
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    lks_checkpoint_unlock(lock);
    FILE *file = fopen(lock_path(), "w");
    assert_non_null(file);
    fprintf(file, "%0200d", 1);
    assert_int_equal(fclose(file), 0);
    const int next = descriptors();
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(expected, sizeof expected, "%ld %s\n", (long)getpid(), host);
    assert_non_null(file = fopen(lock_path(), "r"));
    assert_true(fread(found, 1, sizeof found - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(found, expected);
    assert_true(fcntl(next, F_GETFD) & FD_CLOEXEC);
    lks_checkpoint_unlock(lock);
    assert_int_equal(descriptors(), next);

    snprintf(other, sizeof other, "%s/other", folder);
    assert_non_null(file = fopen(other, "w"));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(symlink("other", lock_path()), 0);
    LKT_FAILS(LKS_E_IO, "lock the folder", lks_checkpoint_lock(&lock, NULL, folder));
    assert_true(readlink(lock_path(), target, sizeof target) == 5);
    assert_int_equal(descriptors(), next);
}

/* A second one is refused, by this process too, and told who has it. */
static void is_had_once(void **state)
{
    (void)state;
    lks_folder_lock *lock, *other = (lks_folder_lock *)state;
    char host[256] = "", holder[400];
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(holder, sizeof holder,
             "' is in use by another training (process %ld on %s); wait for its end, or give "
             "another folder",
             (long)getpid(), host);
    LKT_FAILS(LKS_E_IO, holder, lks_checkpoint_lock(&other, NULL, folder));
    assert_null(other);
    assert_int_equal(truncate(lock_path(), 0), 0); /* it has not signed yet */
    LKT_FAILS(LKS_E_IO, "in use by another training; wait",
              lks_checkpoint_lock(&other, NULL, folder));
    lks_checkpoint_unlock(lock);
    assert_int_equal(access(lock_path(), F_OK), -1);
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    lks_checkpoint_unlock(lock);
    lks_checkpoint_unlock(NULL);
    LKT_FAILS(LKS_E_IO, "cannot make the folder", lks_checkpoint_lock(&lock, NULL, "/proc/x"));
    assert_null(lock);
}

/* Another program holds it, and says whatever it likes: the sentence stays one. */
static void may_say_anything(void **state)
{
    (void)state;
    static const struct row {
        const char *text, *said;
    } rows[] = {
        {"", "training; wait"},
        {"12", "training; wait"},
        {"a b\n", "training; wait"},
        {"7 \x1b[2Jhost\x7f", "(process 7 on ?[2Jhost?); wait"},
        {"99999999999999999999 x y", " on x); wait"},
        {"1 "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "\n",
         "aaaa...); wait"},
    };
    lks_folder_lock *other;
    assert_int_equal(mkdir(folder, 0777) != 0 && errno != EEXIST, 0);
    const int holder = open(lock_path(), O_RDWR | O_CREAT, 0666);
    assert_true(holder >= 0);
    assert_int_equal(flock(holder, LOCK_EX), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t bytes = strlen(rows[i].text);
        assert_int_equal(ftruncate(holder, 0), 0);
        assert_int_equal(pwrite(holder, rows[i].text, bytes, 0), bytes);
        LKT_FAILS(LKS_E_IO, rows[i].said, lks_checkpoint_lock(&other, NULL, folder));
    }
    close(holder);
    assert_int_equal(unlink(lock_path()), 0);
}

static int die_locked(void *user)
{
    lks_folder_lock *lock;
    LKT_CHECK(lks_checkpoint_lock(&lock, NULL, user) == LKS_OK);
    raise(SIGKILL);
    return 0;
}

static void ends_with_its_process(void **state)
{
    (void)state;
    lks_folder_lock *lock;
    assert_int_equal(lkt_in_child(die_locked, folder), 1000 + SIGKILL);
    assert_int_equal(access(lock_path(), F_OK), 0);
    LKT_OK(lks_checkpoint_lock(&lock, NULL, folder));
    lks_checkpoint_unlock(lock);
    assert_int_equal(access(lock_path(), F_OK), -1);
}

static char logged[1024];

static void keep_line(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (level == LKS_LOG_WARN) snprintf(logged, sizeof logged, "%s", line);
}

static int lock_without_locks(void *user)
{
    (void)user;
    lks_context *context;
    lks_folder_lock *lock, *other;
    if (!lkt_refuse(SYS_flock, ENOLCK)) return 77;
    LKT_CHECK(lks_context_create(&context, &(lks_context_opts){.log = keep_line}) == LKS_OK);
    LKT_CHECK(lks_checkpoint_lock(&lock, context, folder) == LKS_OK);
    LKT_CHECK(strstr(logged, "cannot be locked on its file system (") != NULL);
    LKT_CHECK(lks_checkpoint_lock(&other, context, folder) == LKS_OK);
    LKT_CHECK(access(lock_path(), F_OK) != 0);
    lks_checkpoint_unlock(lock);
    lks_checkpoint_unlock(other);
    lks_context_destroy(context);
    return 0;
}

/* Some network file systems have none: a warning, and the training goes on. */
static void may_not_be_had(void **state)
{
    (void)state;
    const int result = lkt_in_child(lock_without_locks, NULL);
    if (result == 77) skip();
    assert_int_equal(result, 0);
}

/* lks_train() takes it, unless its caller has. */
static void is_taken_by_trainings(void **state)
{
    (void)state;
    lks_folder_lock *lock;
    job *j = job_open(&(tiny_opts){0}, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.epochs = 0;
    opts.steps = 2;
    LKT_OK(lks_checkpoint_lock(&lock, j->net.context, folder));
    LKT_FAILS(LKS_E_IO, "in use by another training", lks_train(j->net.context, &opts, NULL));
    assert_int_equal(j->steps, 0);
    opts.lock = lock;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    assert_int_equal(access(lock_path(), F_OK), 0); /* still the caller's */
    lks_checkpoint_unlock(lock);
    opts.lock = NULL;
    opts.steps = 4;
    opts.resume = true;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    assert_int_equal(j->steps, 4);
    assert_int_equal(access(lock_path(), F_OK), -1);
    job_close(j);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(is_had_once),
        IN_FOLDER(is_on_the_file_that_is_there),
        IN_FOLDER(ends_with_its_process),
        IN_FOLDER(may_not_be_had),
        IN_FOLDER(is_taken_by_trainings),
        IN_FOLDER(is_not_waited_for),
        IN_FOLDER(is_signed),
        IN_FOLDER(may_say_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
