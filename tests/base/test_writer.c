/* Files that cannot be written: the old one stays, and nothing is left. */
#include "base/files.h"

static void cannot_write(void **state)
{
    lki_writer *writer = (lki_writer *)state;
    LKT_FAILS(LKS_E_IO, "there is no such file or folder",
              lki_writer_open(&writer, NULL, in_folder(*state, "missing/file")));
    assert_null(writer);
    LKT_FAILS(LKS_E_IO, "it is a folder", lki_writer_open(&writer, NULL, *state));
    LKT_FAILS(LKS_E_IO, "it is a folder", lki_writer_open(&writer, NULL, in_folder(*state, "")));
    LKT_FAILS(LKS_E_IO, "it is a folder",
              lki_writer_open(&writer, NULL, in_folder(*state, "missing/")));
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    LKT_FAILS(LKS_E_IO, "too long", lki_writer_open(&writer, NULL, longest));
    char long_name[300];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    LKT_FAILS(LKS_E_IO, "too long", lki_writer_open(&writer, NULL, in_folder(*state, long_name)));
    assert_int_equal(entries(*state), 0);
}

/* A call that the kernel refuses while a file of two buffers is written: the sentence, and that the
 * old file and nothing else is there. */
typedef struct refusal {
    const char *folder;
    long call;
    int error;
    const char *sentence;
    bool no_seccomp;
} refusal;

static int write_refused(void *user)
{
    const refusal *how = user;
    static uint8_t data[200000];
    const char *name = in_folder(how->folder, "file");
    if (!lkt_refuse(how->call, how->error)) return 77;
    lki_writer *writer;
    lks_status status = lki_writer_open(&writer, NULL, name);
    if (status == LKS_OK) {
        status = lki_writer_write(writer, data, sizeof data);
        if (status != LKS_OK) { /* everything after gives the same failure */
            lks_fail(LKS_E_BUG, "another");
            LKT_CHECK(lki_writer_write(writer, "x", 1) == status);
            LKT_CHECK(strstr(lks_last_error()->message, how->sentence));
            lks_fail(LKS_E_BUG, "another");
        }
        status = lki_writer_commit(writer);
    } else {
        LKT_CHECK(writer == NULL);
    }
    LKT_CHECK(status == LKS_E_IO && lks_last_error()->status == LKS_E_IO);
    LKT_CHECK(strstr(lks_last_error()->message, how->sentence));
    return 0;
}

static void check_old_file(const char *folder)
{
    assert_int_equal(entries(folder), 1);
    lki_file file;
    LKT_OK(lki_file_open(&file, NULL, in_folder(folder, "file")));
    assert_int_equal(file.bytes, 3);
    assert_memory_equal(file.data, "old", 3);
    lki_file_close(&file);
}

static void refused_writes(void **state)
{
    refusal ways[] = {
        {.call = SYS_write,
         .error = ENOSPC,
         .sentence = "': no space left on the device; free some"},
        {.call = SYS_write, .error = EDQUOT, .sentence = "the disk quota is used up"},
        {.call = SYS_write, .error = EIO, .sentence = "error"},
        {.call = SYS_fsync, .error = ENOSPC, .sentence = "no space left on the device"},
        {.call = SYS_openat, .error = EROFS, .sentence = "the file system is read-only; give"},
        {.call = SYS_openat, .error = EACCES, .sentence = "no permission; change the permissions"},
#ifdef SYS_rename
        {.call = SYS_rename, .error = EACCES, .sentence = "no permission"},
#endif
    };
    LKT_OK(write_file(in_folder(*state, "file"), "old", 3));
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        ways[i].folder = *state;
        const int result = lkt_in_child(write_refused, &ways[i]);
        if (result == 77) {
            print_message("the kernel lets no process refuse its own calls (seccomp)\n");
            skip();
        }
        assert_int_equal(result, 0);
        check_old_file(*state);
    }
}

/* A folder that is there, but takes no files. */
static int prepare_refused(void *user)
{
#ifdef SYS_access
    const int call = SYS_access;
#else
    const int call = SYS_faccessat;
#endif
    if (!lkt_refuse(call, EROFS)) return 77;
    LKT_CHECK(lki_folder_make(user) == LKS_E_IO);
    LKT_CHECK(strstr(lks_last_error()->message, "cannot write to the folder '"));
    LKT_CHECK(strstr(lks_last_error()->message, "the file system is read-only; give"));
    return 0;
}

static void refused_folders(void **state)
{
    LKT_OK(lki_folder_make(*state));
    const int result = lkt_in_child(prepare_refused, *state);
    if (result == 77) skip();
    assert_int_equal(result, 0);
}

/* The same with a limit on the size of files, which needs no seccomp. */
static int write_beyond_limit(void *user)
{
    const char *name = in_folder(user, "file");
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {.rlim_cur = 100000, .rlim_max = 100000};
    LKT_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    static uint8_t data[200000];
    LKT_CHECK(write_file(name, data, 100000) == LKS_OK);
    LKT_CHECK(write_file(name, "old", 3) == LKS_OK);
    LKT_CHECK(write_file(name, data, 100001) == LKS_E_IO);
    LKT_CHECK(strstr(lks_last_error()->message, "larger than is allowed"));
    return 0;
}

static void size_limit(void **state)
{
    assert_int_equal(lkt_in_child(write_beyond_limit, *state), 0);
    check_old_file(*state);
}

static void read_only_folder(void **state)
{
    if (geteuid() == 0) {
        print_message("root may write anywhere: not tested with a real folder, but refused_writes "
                      "has the same errors\n");
        skip();
    }
    LKT_OK(write_file(in_folder(*state, "file"), "old", 3));
    assert_int_equal(chmod(*state, 0500), 0);
    LKT_FAILS(LKS_E_IO, "no permission", write_file(path, "new", 3));
    LKT_FAILS(LKS_E_IO, "no permission", lki_folder_make(in_folder(*state, "below")));
    assert_int_equal(chmod(*state, 0700), 0);
    assert_int_equal(chmod(in_folder(*state, "file"), 0), 0);
    lki_file file;
    LKT_FAILS(LKS_E_IO, "no permission", lki_file_open(&file, NULL, path));
}

static void no_memory(void **state)
{
    lkt_heap heap = {.fail_at = 1};
    lks_context context = {.opts = {.allocator = lkt_heap_allocator(&heap)}};
    assert_int_equal(pthread_mutex_init(&context.lock, NULL), 0);
    lki_writer *writer = (lki_writer *)state;
    LKT_FAILS(LKS_E_NOMEM, "write buffer",
              lki_writer_open(&writer, &context, in_folder(*state, "file")));
    assert_null(writer);
    assert_int_equal(entries(*state), 0);
    LKT_OK(lki_writer_open(&writer, &context, path));
    LKT_OK(lki_writer_commit(writer));
    LKT_OK(lki_writer_open(&writer, &context, path));
    lki_writer_abandon(writer);
    LKT_FAILS(LKS_E_IO, "it is a folder", lki_writer_open(&writer, &context, *state));
    assert_int_equal(heap.live, 0);
    assert_int_equal(heap.errors, 0);
    pthread_mutex_destroy(&context.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(cannot_write),     IN_FOLDER(refused_writes),  IN_FOLDER(size_limit),
        IN_FOLDER(read_only_folder), IN_FOLDER(refused_folders), IN_FOLDER(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
