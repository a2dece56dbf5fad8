/* The command lines that mpiexec gives its ssh, and what of them may be started. */
#include "support/test.h"

#include <string.h>

#include "cli/meet/meet.h"

static void daemons_are_found_in_their_lines(void **state)
{
    (void)state;
    static const struct row {
        const char *line, *name, *words; /* words with '|' behind each; NULL: refused */
    } rows[] = {
        /* as Open MPI 4.1 and MPICH 4.0 write them */
        {" orted -mca ess \"env\" -mca ess_base_vpid 1 -mca orte_hnp_uri "
         "\"1.0;tcp://10.77.0.1:4\" ",
         "orted", "-mca|ess|env|-mca|ess_base_vpid|1|-mca|orte_hnp_uri|1.0;tcp://10.77.0.1:4|"},
        {"PATH=/opt/bin:$PATH ; export PATH ; /opt/bin/prted --debug", "prted", "--debug|"},
        {"\"/usr/bin/hydra_pmi_proxy\" --control-port host1:36897 --proxy-id 1", "hydra_pmi_proxy",
         "--control-port|host1:36897|--proxy-id|1|"},
        {"orted", "orted", ""},
        {"orted 'a b' \"c \\\" d\" e\\ f '' 'g\\'", "orted", "a b|c \" d|e f||g\\|"},
        {"orted 'no end", NULL, NULL},
        {"/bin/sh -c 'rm -r x'", NULL, NULL},
        {"orted.sh -x", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[64], words[512], found[512] = "";
        uint16_t count;
        const bool good = reach_parse(name, sizeof name, words, sizeof words, &count, rows[i].line);
        if (good != (rows[i].name != NULL)) fail_msg("%s: %d", rows[i].line, good);
        if (!good) continue;
        assert_string_equal(name, rows[i].name);
        const char *at = words;
        for (int word = 0; word < count; word++, at += strlen(at) + 1) {
            strcat(found, at);
            strcat(found, "|");
        }
        assert_string_equal(found, rows[i].words);
    }
    char name[64], words[8];
    uint16_t count;
    assert_false(reach_parse(name, sizeof name, words, sizeof words, &count, "orted longer words"));
    assert_true(reach_is_daemon("prted"));
    assert_false(reach_is_daemon("/bin/orted"));
    assert_false(reach_is_daemon("sh"));
}

static void it_is_called_by_its_name(void **state)
{
    (void)state;
    assert_true(reach_is_called("/tmp/lockstep-a/reach"));
    assert_false(reach_is_called("reach"));
    assert_false(reach_is_called("/usr/bin/lockstep"));
    assert_false(reach_is_called("/usr/bin/reach2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemons_are_found_in_their_lines),
        cmocka_unit_test(it_is_called_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
