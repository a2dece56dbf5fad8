/*
 * Every call of a short training that has to do with its files fails, one in each run: never a
 * checkpoint lost, always a sentence and an exit code, and the training that is resumed ends as the
 * one that was left alone.
 */
#include "torture/scene.h"

static char alone[TEXT_SIZE]; /* calls of the training that is left alone */

/* Calls whose failure may be passed over, and why. */
static const struct harmless {
    const char *kind, *end; /* of the path */
} harmless[] = {
    {"close", "c.yaml"}, /* all of it has been read */
    {"close", "/run"},   /* the folder has been synced */
    {"close", "attempt"},
    {"close", ".json"}, /* of a checkpoint that has been read */
    {"close", ".safetensors"},
    {"list", "run"}, /* for old checkpoints and leftovers, which the next save removes */
    {"list", "."},   /* for leftovers of other writers */
    {"entry", "attempt"},
    {"lock", ""}, /* a file system without locks: leftovers of a kill stay; of the folder: said */
    {"write", ".lockstep.lock"}, /* who has the folder is not said to another training */
    {"stat", ".lockstep.lock"},  /* it is locked once more */
    {"close", ".lockstep.lock"},
    {"close", ".lockstep.lock (deleted)"},
    {"stat", "out.txt"}, /* whether standard output is the file to be written: it is not */
    {"remove", ""},      /* of an old checkpoint: a warning is said, the next save tries again */
    {"folder", "run"},   /* it was there already */
};

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), last_part = strlen(end);
    return length >= last_part && strcmp(text + length - last_part, end) == 0;
}

/* Call n failed in a run that ended as if nothing were. */
static bool is_harmless(int n)
{
    const call failed = call_of(last.calls, n), next = call_of(last.calls, n + 1);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i].kind, failed.kind) == 0 && ends_with(failed.path, harmless[i].end))
            return true;
    /* Of the note for lockstep ps, without which a training goes on. */
    if (strstr(failed.path, "/notes") != NULL) return true;
    /* Of a file that was made to see that it can be. */
    if (strcmp(failed.kind, "close") == 0 && strcmp(next.kind, "remove") == 0) return true;
    /* Of the old checkpoints, of which none is removed then. */
    if (strcmp(failed.kind, "entry") == 0 && strstr(last.err, "its old checkpoints stay") != NULL)
        return true;
    /* Of the record after an epoch, which is said. */
    return strstr(last.err, "lockstep: the record: ") != NULL;
}

/* The last line of standard error is more than the news that it starts, or where it goes on. */
static bool says_why(void)
{
    size_t length = strlen(last.err);
    if (length == 0 || !says_sentences()) return false;
    char *line = last.err + length - 1;
    while (line > last.err && line[-1] != '\n') line--;
    return strstr(line, "starting afresh") == NULL && strstr(line, "continuing from") == NULL;
}

/* One run with this fault, in the attempt as it is. Returns whether it ended as if nothing were. */
static bool suffer(const char *fault)
{
    launch("lkt_shim_files", fault, "1");
    const int64_t kept = promised();
    const bool good = is_expected_end();
    if (!good && (last.code < 1 || last.code > 9)) BROKEN(fault, "the program does not fail well");
    if (!good && !says_why()) BROKEN(fault, "the program does not say why");
    if (good && !says_sentences()) BROKEN(fault, "the program says something strange");
    const contents left = check_contents(fault);
    if (left.newest < kept) BROKEN(fault, "the checkpoint of step %d is lost", (int)kept);
    if (left.temporary > 0) BROKEN(fault, "an unfinished file is left");
    if (!good) check_resumed(fault);
    return good;
}

/* An error that only one call meets. */
static void of_one_call(void **state)
{
    (void)state;
    int passed = 0, count = count_calls(alone);
    assert_true(count > 80);
    for (int n = 1; n <= count; n += stride(1)) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d fail", n);
        clear_attempt();
        if (!suffer(fault)) continue;
        const call failed = call_of(last.calls, n);
        if (!is_harmless(n)) {
            BROKEN(fault, "nobody notices that '%s' of %s fails", failed.kind, failed.path);
        }
        passed++;
    }
    print_message("%d calls, %d of them harmless\n", count, passed);
}

/* A disk that is full from some moment on. */
static void of_all_that_need_space(void **state)
{
    (void)state;
    int count = count_calls(alone), tried = 0;
    for (int n = 1; n <= count; n++) {
        char fault[32];
        const call first = call_of(alone, n);
        const bool needs_space = strcmp(first.kind, "create") == 0 ||
                                 strcmp(first.kind, "write") == 0 ||
                                 strcmp(first.kind, "flush") == 0;
        if (!needs_space || ++tried % stride(1) != 0) continue;
        snprintf(fault, sizeof fault, "%d full", n);
        clear_attempt();
        if (suffer(fault)) BROKEN(fault, "nobody notices that the disk is full");
        if (strstr(first.path, "out.txt") == NULL && strstr(last.err, "space") == NULL &&
            last.code != 0)
            BROKEN(fault, "nobody says that the disk is full");
    }
    assert_true(tried > 20);
}

/* The kernel may take less than it is given, or be interrupted: no failure at all. */
static void not_of_halves(void **state)
{
    (void)state;
    int tried = 0;
    for (int n = 1; n <= count_calls(alone); n++) {
        static const char *const kinds[] = {"short", "again"};
        if (strcmp(call_of(alone, n).kind, "write") != 0) continue;
        for (int i = 0; i < 2; i++) {
            char fault[32];
            if (++tried % stride(1) != 0) continue;
            snprintf(fault, sizeof fault, "%d %s", n, kinds[i]);
            clear_attempt();
            launch("lkt_shim_files", fault, "1");
            if (!is_expected_end()) BROKEN(fault, "the program gives up");
            check_contents(fault);
        }
    }
    assert_true(tried > 10);
}

/* The folder that a training left which was stopped in the middle: the files, by other names. */
static void link_folder(const char *from, const char *to)
{
    char path[2][PATH_SIZE + 300];
    DIR *open = opendir(from);
    assert_non_null(open);
    assert_int_equal(mkdir(to, 0777), 0);
    for (const struct dirent *entry; (entry = readdir(open));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path[0], sizeof path[0], "%s/%s", from, entry->d_name);
        snprintf(path[1], sizeof path[1], "%s/%s", to, entry->d_name);
        assert_int_equal(link(path[0], path[1]), 0);
    }
    closedir(open);
}

/* The call that ended the first save: its folder was synced. 0: there was none. */
static int first_save(void)
{
    for (int n = 1; n <= count_calls(last.calls); n++) {
        const call c = call_of(last.calls, n);
        if (strcmp(c.kind, "sync") == 0 && ends_with(c.path, "/run")) return n;
    }
    return 0;
}

/* A training that goes on: what it reads, and its first save. */
static void of_a_training_that_is_resumed(void **state)
{
    (void)state;
    char begun[PATH_SIZE], fault[32];
    int saves = 0, stop = 1, passed = 0;
    for (; saves < 2; stop++)
        saves += strcmp(call_of(alone, stop).kind, "rename") == 0 &&
                 strstr(call_of(alone, stop).path, "run/.step-") != NULL &&
                 strstr(call_of(alone, stop).path, ".json") != NULL;
    snprintf(fault, sizeof fault, "%d kill", stop + 4); /* its folder has been synced */
    clear_attempt();
    launch("lkt_shim_files", fault, "1");
    assert_int_equal(last.code, 1000 + SIGKILL);
    assert_int_equal(check_contents(fault).newest, 4);
    snprintf(begun, sizeof begun, "%s/begun", folder);
    assert_int_equal(rename(in_attempt("run"), begun), 0);

    bool saved = false;
    for (int n = 1; !saved; n += stride(1)) {
        assert_true(n < 100);
        snprintf(fault, sizeof fault, "%d fail", n);
        clear_attempt();
        link_folder(begun, in_attempt("run"));
        const bool good = suffer(fault);
        const call failed = call_of(last.calls, n);
        if (good && !is_harmless(n))
            BROKEN(fault, "nobody notices that '%s' of %s fails", failed.kind, failed.path);
        passed += good;
        saved = good && first_save() > 0 && n > first_save();
    }
    print_message("%d harmless\n", passed);
}

/* SIGHUP and SIGUSR1 come while a checkpoint is saved, and ask for another one: calls of the rest of the
 * run fail. */
static void of_a_training_that_is_stopped(void **state)
{
    (void)state;
    static const int numbers[] = {SIGHUP, SIGUSR1};
    char asked[32], fault[32];
    int at = 1;
    while (strcmp(call_of(alone, at).kind, "rename") != 0) at++;
    for (int i = 0; i < 2; i++) {
        int passed = 0, calls;
        snprintf(asked, sizeof asked, "%d %d", at, numbers[i]);
        signal_asked = asked;
        clear_attempt();
        launch("lkt_shim_files", NULL, "1");
        signal_asked = NULL;
        const int code = last.code;
        assert_int_equal(code, 128 + numbers[i]);
        if (strstr(last.err, "to continue: ") == NULL)
            BROKEN(asked, "it does not say how to go on");
        calls = count_calls(last.calls);
        asked_to_stop = true;
        const contents left = check_contents("a signal");
        assert_true(left.newest > 0 && left.newest < STEPS && left.temporary == 0 && !left.locked);
        for (int n = at + 1; n <= calls; n += stride(1)) {
            snprintf(fault, sizeof fault, "%d fail", n);
            signal_asked = asked;
            clear_attempt();
            launch("lkt_shim_files", fault, "1");
            signal_asked = NULL; /* the one that goes on is left alone */
            const call failed = call_of(last.calls, n);
            const bool good = last.code == code;
            if (!says_sentences() || last.err[0] == '\0')
                BROKEN(fault, "the program does not say why");
            if (good && !is_harmless(n))
                BROKEN(fault, "nobody notices that '%s' of %s fails", failed.kind, failed.path);
            if (!good && (last.code < 1 || last.code > 9)) BROKEN(fault, "it does not fail well");
            const int64_t kept = promised();
            const contents found = check_contents(fault);
            if (found.newest < kept) BROKEN(fault, "the checkpoint of step %d is lost", (int)kept);
            if (found.temporary > 0) BROKEN(fault, "an unfinished file is left");
            asked_to_stop = false;
            check_resumed(fault);
            asked_to_stop = true;
            passed += good;
        }
        asked_to_stop = false;
        print_message("signal %d: %d calls, %d harmless\n", numbers[i], calls - at, passed);
    }
}

/* What makes checkpoints survive a power cut as well: a file is synced behind its last write, before
 * it gets its name; and the tensors have their name for good before the record gets its own. */
static void are_seen_in_a_safe_order(void **state)
{
    (void)state;
    char written[300] = "", synced[300] = "";
    bool folder_synced = true;
    int renames = 0, walks = 0, records = 0;
    for (int n = 1; n <= count_calls(alone); n++) {
        const call c = call_of(alone, n);
        const char *name = strrchr(c.path, '/');
        name = name != NULL ? name + 1 : c.path;
        walks += strcmp(c.kind, "list") == 0 && strcmp(c.path, "run") == 0;
        if (strcmp(c.kind, "write") == 0 || strcmp(c.kind, "flush") == 0) {
            snprintf(written, sizeof written, "%s", name);
            synced[0] = '\0';
        } else if (strcmp(c.kind, "sync") == 0 && strcmp(name, "run") == 0) {
            folder_synced = true;
        } else if (strcmp(c.kind, "sync") == 0) {
            snprintf(synced, sizeof synced, "%s", name);
        } else if (strcmp(c.kind, "rename") == 0) {
            renames++;
            assert_string_equal(name, written);
            if (strncmp(name, ".run.json.", 10) == 0 && ++records <= EPOCHS)
                continue; /* not the last */
            assert_string_equal(name, synced);
            if (strncmp(c.path, "run/", 4) != 0) continue;
            if (!folder_synced) fail_msg("call %d: the name before is not safe yet", n);
            folder_synced = false;
        } else if (strcmp(c.kind, "remove") == 0) {
            if (!folder_synced) fail_msg("call %d: removed before the new one is safe", n);
        }
    }
    assert_int_equal(renames, 2 * STEPS / 2 + EPOCHS + 2); /* the record at each epoch too */
    assert_int_equal(walks,
                     2 + STEPS / 2); /* twice at the start and at each save, whatever is kept */
}

static int set_up(void **state)
{
    const int result = open_scene(state);
    memcpy(alone, last.calls, sizeof alone);
    assert_true(result != 0 || count_calls(alone) > 80);
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_seen_in_a_safe_order),
        cmocka_unit_test(of_one_call),
        cmocka_unit_test(of_all_that_need_space),
        cmocka_unit_test(not_of_halves),
        cmocka_unit_test(of_a_training_that_is_resumed),
        cmocka_unit_test(of_a_training_that_is_stopped),
    };
    return cmocka_run_group_tests(tests, set_up, close_scene);
}
