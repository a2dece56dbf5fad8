/*
 * `lockstep data shard` is killed before every call that has to do with its files, and in the middle of every write, with one
 * thread and with two: what stands under a final name is whole, the metadata stands for all of them or is not there, and the same
 * command ends with the files of the run that was left alone.
 */
#include "torture/scene.h"

#include "data/numpy/npy.h"

enum { ROWS = 7, SHARDS = 4, FILES = 2 * SHARDS + 2, METADATA = 2 * SHARDS };

static const struct option_row {
    const char *command[12];
} with_threads[] = {
    {{"lockstep", "data", "shard", "../x.npy", "../y.npy", "--out", "o", "--rows", "2", "--threads",
      "1"}},
    {{"lockstep", "data", "shard", "../x.npy", "../y.npy", "--out", "o", "--rows", "2", "--threads",
      "2"}},
};

/* Of the run that was left alone: shards of samples, of targets, metadata.json, config.yaml. */
#define SHARD(array, number) "o/data/processed/flattened-1000/" array "/" number ".npy"
static struct {
    const char *name;
    void *data;
    size_t bytes;
} expected[FILES] = {
    {.name = SHARD("x", "0")}, {.name = SHARD("x", "1")}, {.name = SHARD("x", "2")},
    {.name = SHARD("x", "3")}, {.name = SHARD("y", "0")}, {.name = SHARD("y", "1")},
    {.name = SHARD("y", "2")}, {.name = SHARD("y", "3")}, {.name = "o/metadata.json"},
    {.name = "o/config.yaml"},
};

static bool is_whole(const char *fault, int file)
{
    size_t bytes;
    void *data = read_bytes(in_attempt(expected[file].name), &bytes);
    if (data != NULL && (bytes != expected[file].bytes || memcmp(data, expected[file].data, bytes)))
        BROKEN(fault, "%s has other bytes", expected[file].name);
    free(data);
    return data != NULL;
}

/* The shards of which both files are there. */
static int whole_shards(const char *fault)
{
    int count = 0, files = 0;
    for (int i = 0; i < SHARDS; i++) {
        const int both = is_whole(fault, i) + is_whole(fault, SHARDS + i);
        files += both;
        count += both == 2;
    }
    if (is_whole(fault, METADATA) && !(is_whole(fault, METADATA + 1) && files == 2 * SHARDS))
        BROKEN(fault, "the metadata stands for %d of %d files", files, 2 * SHARDS);
    return count;
}

static int found_files;

static int count_file(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)path, (void)info, (void)walk;
    found_files += flag == FTW_F;
    return 0;
}

/* The same command: it keeps what is whole, and leaves nothing else. */
static void go_on(const char *fault, int kept)
{
    char says[80];
    launch("lkt_shim_files", NULL, "1");
    if (last.code != 0 || !says_sentences()) BROKEN(fault, "the next run does not end well");
    snprintf(says, sizeof says, "%d shard%s had been written by an earlier run", kept,
             kept == 1 ? "" : "s");
    if ((strstr(last.err, says) != NULL) != (kept > 0))
        BROKEN(fault, "the next run does not keep %d shards", kept);
    for (int i = 0; i < FILES; i++)
        if (!is_whole(fault, i)) BROKEN(fault, "the next run has not made %s", expected[i].name);
    found_files = 0;
    nftw(attempt, count_file, 16, FTW_PHYS);
    if (found_files != FILES) BROKEN(fault, "behind the next run there are %d files", found_files);
}

/* What is there without its metadata is no data. */
static void expect_no_data(const char *fault)
{
    static const char *const check[] = {"lockstep", "data", "check", "o", NULL};
    const char *const *shard = command;
    command = check;
    launch("lkt_shim_files", NULL, "1");
    if (last.code == 0 || !says_sentences()) BROKEN(fault, "what is not whole counts as data");
    command = shard;
}

/* Returns whether the call was reached: with two threads there may be fewer. */
static bool kill_at(int number, const char *how)
{
    char fault[32];
    snprintf(fault, sizeof fault, "%d %s", number, how);
    clear_attempt();
    launch("lkt_shim_files", fault, "1");
    const bool killed = last.code == 1000 + SIGKILL;
    if (!killed && (last.code != 0 || command == with_threads[0].command))
        BROKEN(fault, "the program was not killed");
    const int kept = whole_shards(fault);
    if (number % 10 == 0 && access(in_attempt(expected[METADATA].name), F_OK) != 0)
        expect_no_data(fault);
    go_on(fault, kept);
    return killed;
}

static void a_kill_leaves_what_is_whole(void **state)
{
    (void)state;
    static char alone[TEXT_SIZE];
    for (int threads = 0; threads < 2; threads++) {
        int kills = 0, halves = 0;
        clear_attempt();
        command = with_threads[threads].command;
        go_on("", 0);
        memcpy(alone, last.calls, sizeof alone);
        const int calls = count_calls(alone);
        for (int n = 1; n <= calls; n += stride(1)) {
            kills += kill_at(n, "kill");
            if (strcmp(call_of(alone, n).kind, "write") == 0) halves += kill_at(n, "half");
        }
        print_message("%d calls, %d kills, %d of them in a write\n", calls, kills + halves, halves);
        assert_true(lkt_in_part() || (kills > 80 && halves > SHARDS));
    }
    command = NULL;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

/* A power cut may not leave the metadata without a shard: between the last shard and the metadata all is synced. */
static void the_metadata_is_behind_all_on_the_disk(void **state)
{
    (void)state;
    bool synced = false;
    int shards = 0;
    clear_attempt();
    command = with_threads[0].command;
    go_on("", 0);
    for (const char *line = last.calls; *line != '\0'; line = strchr(line, '\n') + 1) {
        char kind[16], outcome[16], path[300], to[300] = "";
        if (sscanf(line, "%*d %15s %15s %299[^\t\n]\t%299[^\n]", kind, outcome, path, to) < 3)
            continue;
        if (strcmp(outcome, "ok") != 0) continue;
        if (strcmp(kind, "syncfs") == 0) synced = true;
        if (strcmp(kind, "rename") != 0) continue;
        if (ends_with(to, ".npy")) synced = false;
        shards += ends_with(to, ".npy");
        if (ends_with(to, "/metadata.json")) assert_true(synced && shards == 2 * SHARDS);
    }
    assert_true(synced);
    command = NULL;
}

static void write_array(const char *name, int columns)
{
    uint8_t head[LKI_NPY_HEAD];
    const lki_npy npy = {.kind = LKI_NPY_FLOAT, .size = 4, .ndim = 2, .dim = {ROWS, columns}};
    FILE *file = fopen(in_attempt(name), "wb");
    assert_non_null(file);
    const size_t bytes = lki_npy_write_head(head, &npy, 1);
    assert_int_equal(fwrite(head, 1, bytes, file), bytes);
    for (int i = 0; i < ROWS * columns; i++)
        assert_int_equal(fwrite(&(float){(float)(i * 7)}, 4, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    folder = lkt_make_folder();
    snprintf(attempt, sizeof attempt, "%s/attempt", folder);
    clear_attempt();
    write_array("../x.npy", 3);
    write_array("../y.npy", 1);
    command = with_threads[0].command;
    launch("lkt_shim_files", NULL, "1");
    if (last.code != 0) fail_msg("left alone, it ends with %d:\n%s", last.code, last.err);
    for (int i = 0; i < FILES; i++) {
        expected[i].data = read_bytes(in_attempt(expected[i].name), &expected[i].bytes);
        assert_non_null(expected[i].data);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++) free(expected[i].data);
    lkt_remove_folder();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_kill_leaves_what_is_whole),
                                       cmocka_unit_test(the_metadata_is_behind_all_on_the_disk)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
