/* Files: reading, and writing whole or not at all. Damaged gzip is in test_gzip. */
#include "base/files.h"

/* What was written in parts of any size is what is read. */
static void writes_and_reads(void **state)
{
    enum { MOST = 400000 };
    uint8_t *data = malloc(MOST);
    assert_non_null(data);
    lkt_random random = lkt_random_make("writes_and_reads", 1);
    for (int i = 0; i < MOST; i++) data[i] = (uint8_t)lkt_random_bits(&random);
    data[0] = 1; /* not gzip */
    const char *name = in_folder(*state, "file");
    for (int round = 0; round < 40; round++) {
        const size_t total = round == 0 ? 0 : (size_t)lkt_random_below(&random, MOST);
        lki_writer *writer;
        LKT_OK(lki_writer_open(&writer, NULL, name));
        for (size_t at = 0; at < total;) {
            size_t part = (size_t)lkt_random_below(&random, round % 2 ? 1000 : 150000);
            if (part > total - at) part = total - at;
            LKT_OK(lki_writer_write(writer, data + at, part));
            at += part;
        }
        assert_int_equal(entries(*state), round == 0 ? 1 : 2); /* the temporary, and the old one */
        LKT_OK(lki_writer_commit(writer));
        assert_int_equal(entries(*state), 1);
        lki_file file;
        LKT_OK(lki_file_open(&file, NULL, name));
        assert_int_equal(file.bytes, total);
        if (total) assert_memory_equal(file.data, data, total);
        assert_int_equal(file.mapped, total > 0);
        lki_file_close(&file);
        assert_null(file.data);
        lki_file_close(&file); /* zeroed is fine */
    }
    free(data);
}

static void abandoned(void **state)
{
    const char *name = in_folder(*state, "file");
    LKT_OK(write_file(name, "old", 3));
    lki_writer *writer;
    LKT_OK(lki_writer_open(&writer, NULL, name));
    LKT_OK(lki_writer_write(writer, "new", 3));
    lki_writer_abandon(writer);
    lki_writer_abandon(NULL);
    assert_int_equal(entries(*state), 1);
    lki_file file;
    LKT_OK(lki_file_open(&file, NULL, name));
    assert_memory_equal(file.data, "old", 3);
    lki_file_close(&file);
}

/* Two writers of one file, as in two containers: neither takes the other's temporary file. */
static void two_writers(void **state)
{
    const char *name = in_folder(*state, "file");
    lki_writer *writer[2];
    LKT_OK(lki_writer_open(&writer[0], NULL, name));
    LKT_OK(lki_writer_open(&writer[1], NULL, name));
    lki_writer_tidy(writer[1]);
    assert_int_equal(entries(*state), 2);
    LKT_OK(lki_writer_write(writer[0], "first", 5));
    LKT_OK(lki_writer_write(writer[1], "second", 6));
    LKT_OK(lki_writer_commit(writer[0]));
    lki_file file;
    LKT_OK(lki_file_open(&file, NULL, name));
    assert_memory_equal(file.data, "first", file.bytes);
    lki_file_close(&file);
    LKT_OK(lki_writer_commit(writer[1]));
    LKT_OK(lki_file_open(&file, NULL, name));
    assert_memory_equal(file.data, "second", file.bytes);
    lki_file_close(&file);
    assert_int_equal(entries(*state), 1);
}

static int die_writing(void *user)
{
    lki_writer *writer;
    LKT_CHECK(lki_writer_open(&writer, NULL, in_folder(user, "file")) == LKS_OK);
    raise(SIGKILL);
    return 0;
}

static void make_entry(const char *folder, const char *name, int seconds_old)
{
    FILE *file = fopen(in_folder(folder, name), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    const struct timespec when = {.tv_sec = time(NULL) - seconds_old};
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){when, when}, 0), 0);
}

static bool there(const char *folder, const char *name)
{
    return access(in_folder(folder, name), F_OK) == 0;
}

/* What killed writers leave goes with the next one, by its lock: no number of a process is asked. */
static void leftovers(void **state)
{
    const char *folder = *state;
    lki_writer *writer, *other;
    assert_int_equal(lkt_in_child(die_writing, *state), 1000 + SIGKILL);
    assert_int_equal(entries(folder), 1);
    static const char *const stay[] = {
        ".other.lockstep-0123456789abcdef", /* of another name, and not old */
        ".file.lockstep-0123456789abcde",   ".file.lockstep-0123456789abcdeg",
        "file.lockstep-0123456789abcdef",   ".filelockstep-0123456789abcdef",
        ".file.tmp-0123456789abcdef",       ".lockstep-0123456789abcdef",
        "..lockstep-0123456789abcdef",
    };
    enum { STAY = sizeof stay / sizeof stay[0] };
    for (int i = 0; i < STAY; i++) make_entry(folder, stay[i], i == 0 ? 3000 : 100000);
    make_entry(folder, ".other.lockstep-0000000000000000", 4000);
    assert_int_equal(mkfifo(in_folder(folder, ".file.lockstep-1111111111111111"), 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK); /* so that it can be opened for writing */
    assert_true(reader >= 0);
    LKT_OK(lki_writer_open(&other, NULL, in_folder(folder, "file")));
    assert_int_equal(entries(folder), STAY + 4);
    LKT_OK(lki_writer_open(&writer, NULL, in_folder(folder, "file")));
    lki_writer_tidy(writer);
    for (int i = 0; i < STAY; i++)
        if (!there(folder, stay[i])) fail_msg("%s is gone", stay[i]);
    assert_true(there(folder, ".file.lockstep-1111111111111111"));
    assert_int_equal(entries(folder), STAY + 3); /* with those of both writers */
    LKT_OK(lki_writer_commit(other));
    LKT_OK(lki_writer_commit(writer));
    close(reader);
    make_entry(folder, ".file.lockstep-2222222222222222", 0);
    LKT_OK(lks_file_write(in_folder(folder, "file"), "x", 1)); /* tidies too */
    assert_int_equal(entries(folder), STAY + 2);
}

static void expect_content(const char *name, const char *content)
{
    lki_file file;
    LKT_OK(lki_file_open(&file, NULL, name));
    assert_int_equal(file.bytes, strlen(content));
    assert_memory_equal(file.data, content, file.bytes);
    lki_file_close(&file);
}

/* A link stays, and what it points to is replaced, wherever that is. */
static void links(void **state)
{
    const char *folder = *state;
    struct stat info;
    LKT_OK(lki_folder_make(in_folder(folder, "below")));
    LKT_OK(lks_file_write(in_folder(folder, "below/file"), "old", 3));
    assert_int_equal(symlink("below/two", in_folder(folder, "one")), 0);
    assert_int_equal(symlink("file", in_folder(folder, "below/two")), 0);
    LKT_OK(lks_file_write(in_folder(folder, "one"), "new", 3));
    assert_int_equal(lstat(in_folder(folder, "one"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(in_folder(folder, "below/two"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_content(in_folder(folder, "below/file"), "new");
    assert_int_equal(entries(in_folder(folder, "below")), 2);

    assert_int_equal(symlink("below/three", in_folder(folder, "new")), 0); /* not there yet */
    LKT_OK(lks_file_write(in_folder(folder, "new"), "third", 5));
    expect_content(in_folder(folder, "below/three"), "third");

    char target[4300];
    snprintf(target, sizeof target, "%s/below/file", folder);
    assert_int_equal(symlink(target, in_folder(folder, "absolute")), 0);
    LKT_OK(lks_file_write(in_folder(folder, "absolute"), "fourth", 6));
    expect_content(target, "fourth");

    assert_int_equal(symlink("loop", in_folder(folder, "loop")), 0);
    LKT_FAILS(LKS_E_IO, "cannot write '", lks_file_write(in_folder(folder, "loop"), "x", 1));
    assert_int_equal(symlink("below", in_folder(folder, "folder")), 0);
    LKT_FAILS(LKS_E_IO, "it is a folder", lks_file_write(in_folder(folder, "folder"), "x", 1));
    assert_int_equal(symlink("no/where", in_folder(folder, "nowhere")), 0);
    LKT_FAILS(LKS_E_IO, "no such file", lks_file_write(in_folder(folder, "nowhere"), "x", 1));
}

static int read_pipe(void *user)
{
    char text[32] = "";
    FILE *pipe = fopen(in_folder(user, "pipe"), "r");
    LKT_CHECK(pipe != NULL && fgets(text, sizeof text, pipe) != NULL);
    LKT_CHECK(strcmp(text, "into the pipe") == 0);
    return 0;
}

static int write_pipe(void *user)
{
    LKT_CHECK(lks_file_write(in_folder(user, "pipe"), "into the pipe", 13) == LKS_OK);
    return 0;
}

static int pipe_both(void *user)
{
    const pid_t writer = fork();
    if (writer == 0) _exit(write_pipe(user));
    return read_pipe(user);
}

/* A file that is standard output: what is printed and what is written to it both stay. */
static int write_to_output(void *user)
{
    const int file = open(in_folder(user, "out"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    LKT_CHECK(file >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    LKT_CHECK(write(STDOUT_FILENO, "printed, ", 9) == 9);
    LKT_CHECK(lks_file_write(path, "by name, ", 9) == LKS_OK);
    LKT_CHECK(symlink("/proc/self/fd/1", in_folder(user, "stdout")) == 0); /* as /dev/stdout */
    LKT_CHECK(lks_file_write(path, "written, ", 9) == LKS_OK);
    LKT_CHECK(write(STDOUT_FILENO, "printed", 7) == 7);
    return 0;
}

/* What is no regular file is never replaced, also where one might. */
static void devices(void **state)
{
    const char *folder = *state;
    struct stat before, after;
    int count = 0;
    if (lkt_make_device(in_folder(folder, "null"), 3)) {
        assert_int_equal(stat(path, &before), 0);
        LKT_OK(lks_file_write(path, "x", 1));
        assert_int_equal(symlink("null", in_folder(folder, "link")), 0);
        LKT_OK(lks_file_write(path, "x", 1));
        assert_int_equal(stat(in_folder(folder, "null"), &after), 0);
        assert_true(S_ISCHR(after.st_mode) && after.st_ino == before.st_ino);
        count += 2;
    }
    if (lkt_make_device(in_folder(folder, "full"), 7)) {
        LKT_FAILS(LKS_E_IO, "no space left on the device", lks_file_write(path, "x", 1));
        assert_int_equal(stat(path, &after), 0);
        assert_true(S_ISCHR(after.st_mode));
        count++;
    }
    assert_int_equal(entries(folder), count);
    assert_int_equal(mkfifo(in_folder(folder, "pipe"), 0600), 0);
    assert_int_equal(lkt_in_child(pipe_both, *state), 0);
    assert_int_equal(stat(in_folder(folder, "pipe"), &after), 0);
    assert_true(S_ISFIFO(after.st_mode));
    assert_int_equal(lkt_in_child(write_to_output, *state), 0);
    expect_content(in_folder(folder, "out"), "printed, by name, written, printed");
    assert_int_equal(entries(folder), count + 3);
    assert_int_equal(mknod(in_folder(folder, "socket"), S_IFSOCK | 0600, 0), 0);
    LKT_FAILS(LKS_E_IO, "it is a socket, expected a file", lks_file_write(path, "x", 1));
    LKT_FAILS(LKS_E_INVALID, "found NULL", lks_file_write(NULL, "x", 1));
    LKT_FAILS(LKS_E_INVALID, "found NULL", lks_file_write("x", NULL, 1));
    LKT_FAILS(LKS_E_INVALID, "found NULL", lks_file_try(NULL));
}

/* Trying says what writing would, and leaves everything as it is. */
static void tries(void **state)
{
    const char *folder = *state;
    LKT_OK(lks_file_try(in_folder(folder, "file")));
    assert_int_equal(entries(folder), 0);
    LKT_OK(lks_file_write(path, "old", 3));
    LKT_OK(lks_file_try(path));
    expect_content(path, "old");
    LKT_FAILS(LKS_E_IO, "no such file or folder", lks_file_try(in_folder(folder, "no/file")));
    LKT_FAILS(LKS_E_IO, "it is a folder", lks_file_try(folder));
    assert_int_equal(mkfifo(in_folder(folder, "pipe"), 0600), 0);
    LKT_OK(lks_file_try(path)); /* without a reader, and without waiting for one */
    assert_int_equal(entries(folder), 2);
}

static void cannot_open(void **state)
{
    lki_file file;
    LKT_FAILS(LKS_E_IO, "missing': there is no such file",
              lki_file_open(&file, NULL, in_folder(*state, "missing")));
    assert_null(file.data);
    LKT_FAILS(LKS_E_IO, "it is a folder, expected a file", lki_file_open(&file, NULL, *state));
    LKT_FAILS(LKS_E_IO, "cannot open ''", lki_file_open(&file, NULL, ""));
    assert_int_equal(mkfifo(in_folder(*state, "pipe"), 0600), 0);
    LKT_FAILS(LKS_E_IO, "not a regular file", lki_file_open(&file, NULL, path));
    LKT_FAILS(LKS_E_IO, "not a regular file", lki_file_open(&file, NULL, "/dev/null"));
    LKT_OK(write_file(in_folder(*state, "plain"), "x", 1));
    LKT_FAILS(LKS_E_IO, "a part of the path is not a folder",
              lki_file_open(&file, NULL, in_folder(*state, "plain/below")));
}

/* A path without a folder, and one in the root, have folders too. */
static void plain_names(void **state)
{
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    LKT_OK(write_file("plain", "x", 1));
    LKT_OK(write_file("./dotted", "x", 1));
    assert_int_equal(entries("."), 2);
    assert_int_equal(chdir(before), 0);
}

static void folders(void **state)
{
    LKT_OK(lki_folder_make(in_folder(*state, "a/b//c/")));
    LKT_OK(lki_folder_make(in_folder(*state, "a/b/c")));
    LKT_OK(write_file(in_folder(*state, "a/b/c/file"), "x", 1));
    LKT_FAILS(LKS_E_IO, "a part of the path is not a folder",
              lki_folder_make(in_folder(*state, "a/b/c/file")));
    LKT_FAILS(LKS_E_IO, "a part of the path is not a folder",
              lki_folder_make(in_folder(*state, "a/b/c/file/below")));
    LKT_FAILS(LKS_E_IO, "cannot make the folder ''", lki_folder_make(""));
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    LKT_FAILS(LKS_E_IO, "too long", lki_folder_make(longest));
    LKT_OK(lki_folder_make("/"));
    LKT_OK(lki_folder_make("."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(two_writers), IN_FOLDER(leftovers),   IN_FOLDER(links),
        IN_FOLDER(devices),     IN_FOLDER(tries),       IN_FOLDER(writes_and_reads),
        IN_FOLDER(abandoned),   IN_FOLDER(cannot_open), IN_FOLDER(plain_names),
        IN_FOLDER(folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
