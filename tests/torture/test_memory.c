/*
 * Allocations of a short training fail, one in each run or all from one on, and threads cannot be
 * started: the program ends with a sentence and an exit code, or as if nothing had happened, and
 * what it leaves is whole. Allocations of other libraries that end the program themselves
 * (hwloc) are spared.
 */
#include "torture/scene.h"

static int allocations, threads; /* of the training that is left alone */

static bool suffer(const char *fault)
{
    clear_attempt();
    launch("lkt_shim_memory", fault, "3");
    const bool good = is_expected_end();
    if (!says_sentences()) BROKEN(fault, "the program says something strange");
    if (!good && (last.code < 1 || last.code > 9)) BROKEN(fault, "the program does not fail well");
    if (!good && last.err[0] == '\0') BROKEN(fault, "the program does not say why");
    if (check_contents(fault).temporary > 0) BROKEN(fault, "an unfinished file is left");
    return good;
}

static void of_one_block(void **state)
{
    (void)state;
    int good = 0, tried = 0;
    if (lkt_sanitized()) skip(); /* it has an allocator of its own */
    for (int n = 1; n <= allocations; n += stride(1 + allocations / 150)) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d memory", n);
        good += suffer(fault);
        tried++;
        if (tried % stride(10) == 0) check_resumed(fault);
    }
    print_message("%d of %d allocations, %d of them harmless\n", tried, allocations, good);
}

static void of_all_from_one_on(void **state)
{
    (void)state;
    if (lkt_sanitized()) skip();
    for (int n = 1; n <= allocations; n += stride(1 + allocations / 50)) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d exhausted", n);
        suffer(fault);
    }
}

/* The warning that there are none is all that a training says which has come to its end without them. */
static bool lacks_scores(void)
{
    json_t *found = json_load_file(in_attempt("run.json"), 0, NULL);
    const bool lacks = found != NULL && json_object_get(found, "test_confusion") == NULL;
    json_decref(found);
    return lacks;
}

static void of_threads(void **state)
{
    (void)state;
    if (lkt_sanitized()) skip();
    assert_true(threads >= 3);
    for (int n = 1; n <= threads; n++) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d thread", n);
        if (suffer(fault) && !lacks_scores())
            BROKEN(fault, "nobody notices that a thread is missing");
        check_resumed(fault);
    }
}

/* A checkpoint, a record or weights that are whole are not called damaged, or of another network: whoever reads that
 * removes them. */
static void of_one_block_of_a_reader(void **state)
{
    (void)state;
    int all;
    if (lkt_sanitized()) skip();
    clear_attempt();
    launch("lkt_shim_memory", NULL, "1");
    assert_int_equal(last.code, 0);
    launch("lkt_shim_memory", NULL, "1"); /* nothing is left to train */
    assert_int_equal(last.code, 0);
    assert_int_equal(sscanf(last.calls, "%d allocations", &all), 1);
    for (int n = 1; n <= all; n += stride(1 + all / 150)) {
        char fault[32];
        snprintf(fault, sizeof fault, "%d memory", n);
        launch("lkt_shim_memory", fault, "1");
        const bool lacks = last.code == 7 || strstr(last.err, strerror(ENOMEM)) != NULL;
        if (last.code != 0 && !lacks) BROKEN(fault, "it says that something else is wrong");
    }
}

static int set_up(void **state)
{
    const int result = open_scene(state);
    if (lkt_sanitized()) return result;
    clear_attempt();
    launch("lkt_shim_memory", NULL, "3");
    if (sscanf(last.calls, "%d allocations, %d threads", &allocations, &threads) != 2) return 1;
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_one_block),
        cmocka_unit_test(of_one_block_of_a_reader),
        cmocka_unit_test(of_all_from_one_on),
        cmocka_unit_test(of_threads),
    };
    return cmocka_run_group_tests(tests, set_up, close_scene);
}
