/*
 * The program is killed before every call of a short training that has to do with its files, and in
 * the middle of every write: what it had saved is there, and the training that is resumed ends as
 * the one that was left alone. (Behind a call is before the next: no file changes in between.)
 */
#include "torture/scene.h"

static char alone[TEXT_SIZE]; /* calls of the training that is left alone */

static void kill_at(int number, const char *how)
{
    char fault[32];
    snprintf(fault, sizeof fault, "%d %s", number, how);
    clear_attempt();
    launch("lkt_shim_files", fault, "1");
    if (last.code != 1000 + SIGKILL) BROKEN(fault, "the program was not killed");
    const int64_t kept = promised();
    const contents left = check_contents(fault);
    if (left.newest < kept) BROKEN(fault, "the checkpoint of step %d is lost", (int)kept);
    if (left.temporary > 1) BROKEN(fault, "%d unfinished files are left", left.temporary);
    check_resumed(fault);
}

static void before_every_call(void **state)
{
    (void)state;
    const int count = count_calls(alone);
    assert_true(count > 80);
    for (int n = 1; n <= count; n += stride(1)) kill_at(n, "kill");
    print_message("%d kills\n", (count + stride(1) - 1) / stride(1));
}

static void in_every_write(void **state)
{
    (void)state;
    int writes = 0;
    for (int n = 1; n <= count_calls(alone); n++) {
        if (strcmp(call_of(alone, n).kind, "write") != 0) continue;
        if (++writes % stride(1) == 0) kill_at(n, "half");
    }
    assert_true(writes > 10);
}

static int set_up(void **state)
{
    const int result = open_scene(state);
    memcpy(alone, last.calls, sizeof alone);
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_every_call),
        cmocka_unit_test(in_every_write),
    };
    return cmocka_run_group_tests(tests, set_up, close_scene);
}
