/* lockstep ps and stop on other hosts: a script stands in for ssh, whose hosts have notes of their own or answer wrongly. */
#include "verbs/background.h"

#include <signal.h>

#include "cli/process.h"
#include "cli/running/row.h"

static const char endless[] = "data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}\n"
                              "model: {name: mlp, hidden: [16]}\n"
                              "train: {epochs: 1000000, batch_size: 50, replicas: 4, workers: 1}\n"
                              "log: {quiet: true}\n";

#define ROW(run, rank, size, host, process, folder, others)                                        \
    "{\"run\": " run ", \"rank\": " rank ", \"size\": " size ", \"host\": \"" host                 \
    "\", \"first_host\": \"" host "\", \"pid\": " process                                          \
    ", \"start_ticks\": 7, \"step\": 3, \"steps\": 9, \"samples_per_second\": 80, \"waited\": "    \
    "0.25, \"rss_bytes\": 5000000, \"device\": \"cpu\", \"folder\": \"" folder                     \
    "\", \"config\": \"c.yaml\", \"other_hosts\": \"" others "\"}\n"

/* As of ssh, the words behind the host are one line for a shell there. Host b has the folder "there" where this one
 * has "here". */
static const char agent[] =
    "#!/bin/sh\n"
    "echo \"$@\" >>asked.txt\n"
    "while [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
    "host=$1; shift\n"
    "case $host in\n"
    "b|b2) exec sh -c \"$(echo \"$*\" | sed s,/here,/there,)\" ;;\n"
    "me) exec sh -c \"$*\" ;;\n"
    "none) ;;\n"
    "hangs) sleep 60 & echo $! >child.txt; wait ;;\n"
    "quiet) exec >/dev/null 2>&1; sleep 60 ;;\n"
    "leaves) sleep 60 & echo $! >left.txt; cat row-*.txt ;;\n"
    "rubbish) printf 'Welcome \\033[2J\\n'; cat row-1.txt ;;\n"
    "cut) printf %s \"$(cat row-1.txt)\" ;;\n"
    "million) yes x | head -n 1000000 ;;\n"
    "endless) exec yes \"$(cat row-1.txt)\" ;;\n"
    "lacks) exec sh -c 'exec /nowhere/lockstep' ;;\n"
    "refuses) printf 'Warning: new\\nPermission \\033[1mdenied\\377\\r\\n' >&2; exit 255 ;;\n"
    "fails) exit 3 ;;\n"
    "row-*) case $* in *stop*) echo 'lockstep: it goes on' >&2; exit 13 ;; esac; cat $host.txt ;;\n"
    "esac\n";

#define ASK "--agent ./agent --comm-timeout 20 --hosts "

static void begin(void)
{
    write_text("c.yaml", endless);
    write_text("agent", agent);
    assert_int_equal(shell("chmod +x agent; mkdir -m 700 here there"), 0);
    write_text("row-1.txt", ROW("11", "0", "2", "one", "11", "/a/first", "other, two"));
    write_text("row-2.txt", ROW("11", "0", "1", "two", "11", "/a/second", ""));
    setenv("LKS_RUNS", in_folder("here"), 1);
}

static pid_t start_in(const char *notes, const char *arguments)
{
    setenv("LKS_RUNS", in_folder(notes), 1);
    const pid_t child = start(arguments);
    setenv("LKS_RUNS", in_folder("here"), 1);
    return child;
}

/* Waits until that many ranks are to be seen. */
static void wait_for_ranks(const char *arguments, int count)
{
    for (int i = 0; i < 1200; i++) {
        run("ps --format json %s", arguments);
        int lines = 0;
        for (const char *at = last.out; (at = strstr(at, "\"run\"")) != NULL; at++) lines++;
        if (lines == count) return;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fail_msg("%d ranks do not come: %s%s", count, last.out, last.err);
}

static int count_out(const char *part)
{
    int count = 0;
    for (const char *at = last.out; (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

/* A rank elsewhere is what it is there; this host is asked by its own name without help, and counts once. */
static void ranks_elsewhere_are_seen(void **state)
{
    (void)state;
    char own[256], text[64];
    static char asked[OUTPUT_SIZE];
    begin();
    const pid_t here = start_in("here", "train c.yaml --out mine"),
                there = start_in("there", "train c.yaml --out other");
    wait_for_ranks("", 1);
    wait_for_ranks(ASK "b", 1);
    assert_string_equal(last.err, "");
    json_t *rank = read_json_text(last.out);
    assert_true(json_number_of(rank, "pid") == there && json_number_of(rank, "run") == there);
    assert_true(json_number_of(rank, "size") == 1 && json_number_of(rank, "steps") == 10000000);
    assert_true(json_number_of(rank, "rss_bytes") > 1e6);
    assert_true(json_is_null(json_object_get(rank, "waited")));
    assert_string_equal(json_string_value(json_object_get(rank, "config")), "c.yaml");
    assert_string_equal(json_string_value(json_object_get(rank, "device")), "cpu");
    json_decref(rank);
    assert_int_equal(gethostname(own, sizeof own), 0);
    unlink(in_folder("asked.txt"));
    run("ps " ASK "localhost,%s:2,b:3,me,b2,none", own);
    expect(0, "");
    assert_int_equal(count_out("/mine"), 1);
    assert_int_equal(count_out("/other"), 1);
    read_text(asked, "asked.txt");
    assert_null(strstr(asked, own));
    assert_null(strstr(asked, "localhost"));
    snprintf(text, sizeof text, "\nme env LKS_RUNS=");
    assert_true(strstr(asked, text) != NULL || strncmp(asked, text + 1, strlen(text) - 1) == 0);
    shell(
        "mkdir bin; cp agent bin/ssh; rm asked.txt; PATH=$PWD/bin:$PATH '%s' ps --hosts b >out.txt",
        program());
    assert_int_equal(shell("grep -q '^-x -oBatchMode=yes b env LKS_RUNS=' asked.txt && grep -q "
                           "/other out.txt"),
                     0);
    FILE *many = fopen(in_folder("row-many.txt"), "w"); /* more than a pipe holds */
    for (int i = 1; i <= 700; i++) {
        fprintf(many, "{\"pid\": %d, ", i);
        fputs(strstr(ROW("11", "0", "1", "two", "11", "/a/many", ""), "\"run\""), many);
    }
    fclose(many);
    shell("sed -i 's/\"pid\": 11, \"start/\"start/' row-many.txt");
    run("ps --format json " ASK "row-many");
    expect(0, "");
    assert_int_equal(count_out("/a/many"), 700);
    run("ps " ASK "none,row-2");
    expect(0, "");
    expect_out(" 11   0/1  two ");
    expect_out("     25%  5 MB  cpu     /a/second\n");
    run("ps " ASK "none");
    expect(0, "");
    assert_string_equal(last.out, "No training of yours runs on these hosts.\n");
    kill(here, SIGKILL);
    kill(there, SIGKILL);
    waitpid(here, NULL, 0);
    waitpid(there, NULL, 0);
}

/* Each wrong host has one sentence, and the others' rows are printed. */
static void wrong_hosts_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"rubbish", "does: 'Welcome ?[2J?{\"run\": 11"},
        {"cut", "does: '{\"run\": 11, \"rank\": 0, "},
        {"million", "does: 'x?x?x?"},
        {"endless", "it answers too much"},
        {"lacks", "that it could run"},
        {"refuses", "Permission ?[1mdenied?\n"},
        {"fails", "./agent ended with code 3"},
    };
    char hosts[256] = "row-2", text[256];
    int lines = 0;
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        snprintf(hosts + strlen(hosts), sizeof hosts - strlen(hosts), ",%s", cases[i][0]);
    run("ps " ASK "%s", hosts);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "lockstep: host %s cannot be asked: ", cases[i][0]);
        expect(12, text);
        const char *line = strstr(last.err, text), *reason = strstr(line, cases[i][1]);
        if (reason == NULL || reason > strchr(line, '\n')) fail_msg("%s: %s", cases[i][0], line);
    }
    assert_int_equal(count_out("/a/"), 1);
    for (const char *c = last.err; *c != '\0'; c++) lines += *c == '\n';
    assert_int_equal(lines, sizeof cases / sizeof *cases);
    run("ps " ASK "fails");
    expect(12, "");
    assert_string_equal(last.out, "No training of yours runs on the hosts that have answered.\n");
    run("ps --hosts row-2 --agent ./nothing");
    expect(12, "host row-2 cannot be asked: './nothing' cannot be started: No such file");
}

/* All have the same seconds, and what runs then is ended with what it has started. */
static void silent_hosts_are_not_waited_for(void **state)
{
    (void)state;
    static char child[OUTPUT_SIZE];
    double seconds = 0.3;
    begin();
    const double before = process_clock();
    do /* row-2 shall come in time, however slow the machine is */
        run("ps --agent ./agent --hosts hangs,row-2,quiet --comm-timeout %g", seconds *= 2);
    while (count_out("/a/second") == 0 && seconds < 10);
    assert_true(process_clock() - before < 50);
    assert_int_equal(count_out("/a/second"), 1);
    expect(12, "lockstep: host hangs cannot be asked: it has not answered within ");
    expect(12, "lockstep: host quiet cannot be asked: it has not answered within ");
    read_text(child, "child.txt");
    for (int i = 0; i < 100 && process_stat(atoi(child), PROCESS_START) >= 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(process_stat(atoi(child), PROCESS_START), -1);
}

/* What a host leaves behind holds its output open, and is not waited for. */
static void what_is_left_behind_is_not_waited_for(void **state)
{
    (void)state;
    begin();
    const double before = process_clock();
    run("ps " ASK "leaves");
    assert_true(process_clock() - before < 19);
    expect(0, "");
    assert_int_equal(count_out("/a/"), 2);
    assert_int_equal(shell("kill $(cat left.txt)"), 0);
}

static void what_is_typed_is_checked(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 2; i++) {
        const char *verb = i == 0 ? "ps" : "stop 1 --yes";
        run("%s --hosts '-oProxyCommand=touch$IFS./bad'", verb);
        expect(2, "--hosts is '-oProxyCommand=touch$IFS./bad', expected names");
        run("%s --hosts b,b", verb);
        expect(2, "--hosts names 'b' twice");
        run("%s --hosts b --comm-timeout 0", verb);
        expect(2, "--comm-timeout is '0', expected seconds, more than 0");
    }
    /* A shell there gets the folder of notes as one word. */
    assert_int_equal(shell("mkdir -m 700 \"it's \\$(touch bad); touch bad\""), 0);
    setenv("LKS_RUNS", in_folder("it's $(touch bad); touch bad"), 1);
    run("ps " ASK "me");
    expect(0, "");
    assert_string_equal(last.out, "No training of yours runs on these hosts.\n");
    assert_false(there("bad"));
}

/* Where nobody has looked, and only by names that can be typed. */
static void other_hosts_of_a_run_are_named(void **state)
{
    (void)state;
    begin();
    run("ps " ASK "row-1");
    expect(0, "run 11 has ranks on other,two too, where nobody has looked; look there by: "
              "lockstep ps --hosts one,other,two\n");
    run("ps " ASK "row-1,two");
    expect(0, "run 11 has ranks on other too, where nobody has looked; look there by: "
              "lockstep ps --hosts one,other\n");
    write_text("row-3.txt", ROW("11", "0", "2", "a;b", "11", "/a/first", "$(x), c d, -o, two"));
    run("ps " ASK "row-3");
    expect(0, "run 11 has ranks on c,d,two too, where nobody has looked; look there by: "
              "lockstep ps --hosts c,d,two\n");
    run("ps " ASK "row-2");
    assert_string_equal(last.err, "");
}

/* It is saved where it runs, and has ended when stop does. */
static void a_run_elsewhere_is_stopped(void **state)
{
    (void)state;
    char number[32];
    begin();
    pid_t child = start_in("there", "train c.yaml --out other");
    wait_for_ranks(ASK "b", 1);
    snprintf(number, sizeof number, "%d", (int)child);
    run("stop %s --yes", number);
    expect(2, "is on this host; lockstep ps shows those that are, by number and folder, and with "
              "--hosts those on others");
    run("stop %s --yes " ASK "none", number);
    expect(2, "is on this host, nor on none; lockstep ps");
    run("stop %s " ASK "b </dev/null", number);
    expect(2, "standard input is no terminal; give --yes");
    run("stop %s --yes --agent ./agent --hosts b,hangs --comm-timeout 0.5", number);
    expect(12, "host hangs cannot be asked: it has not answered within 0.5 s");
    expect(12, "nothing was stopped, as another run of that name may be where nobody has answered");
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    shell("'%s' stop %s --yes " ASK "none,b >stopped.txt 2>&1 &", program(), number);
    finish(child);
    assert_int_equal(last.code, 143);
    wait_for("stopped.txt", " has ended\n");
    assert_int_equal(shell("ls other/step-*.safetensors >list.txt"), 0);

    child = start_in("there", "train c.yaml");
    wait_for_ranks(ASK "b", 1);
    snprintf(number, sizeof number, "%d", (int)child);
    shell("'%s' stop %s --yes " ASK "b >stopped.txt 2>&1 &", program(), number);
    finish(child);
    wait_for("stopped.txt", "it had no --out: nothing of it is saved");
    child = start_in("there", "train c.yaml --out third"); /* by its folder, as it is from here */
    wait_for_ranks(ASK "b", 1);
    shell("'%s' stop third --yes " ASK "b >stopped.txt 2>&1 &", program());
    finish(child);
    wait_for("stopped.txt", " has ended\n");
}

/* Runs of one number are told apart, and what a host cannot do is said. */
static void several_runs_are_refused(void **state)
{
    (void)state;
    begin();
    unlink(in_folder("asked.txt"));
    run("stop 11 --yes " ASK "row-1,row-2");
    expect(2, "'11' names 2 runs: run 11 in /a/first on one, run 11 in /a/second on two; give the "
              "number or the folder of one, or stop it on its own host");
    write_text("row-3.txt",
               ROW("11", "0", "1", "one", "12", "/a/third", "")); /* hosts of one name */
    run("stop 11 --yes " ASK "row-1,row-3");
    expect(2, "'11' names 2 runs: run 11 in /a/first on one, run 11 in /a/third on one");
    write_text("row-3.txt", ROW("11", "1", "2", "two", "12", "/a/third", ""));
    run("stop 11 --yes " ASK "row-1,row-3");
    expect(2, "'11' names 2 runs: run 11 in /a/first on one, run 11 in /a/third on two");
    assert_int_equal(shell("grep stop asked.txt"), 1);
    run("stop 11 --yes " ASK "row-2");
    expect(12, "run 11 is not known to have ended: host row-2: it goes on");
    run("stop /a/second --yes " ASK "row-1,row-2");
    expect(12, "run 11 is not known to have ended: host row-2: it goes on");
    assert_int_equal(shell("grep -c 'stop 11 --yes$' asked.txt >list.txt; grep -qx 2 list.txt"), 0);
}

/* A run of this host is stopped by its first rank here, whatever the others' places. */
static void a_run_of_this_host_is_stopped_here(void **state)
{
    (void)state;
    begin();
    pid_t child = start_in("here", "train c.yaml --out mine");
    wait_for_ranks("", 1);
    unlink(in_folder("asked.txt"));
    shell("'%s' stop mine --yes " ASK "me,row-1 >stopped.txt 2>&1 &", program());
    finish(child);
    assert_int_equal(last.code, 143);
    wait_for("stopped.txt", " has ended\n");
    assert_int_equal(shell("grep stop asked.txt"), 1);

    child = start_in("here", "train c.yaml"); /* it says that it is the second rank of a run */
    wait_for_ranks("", 1);
    running_note note;
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", in_folder("here"), (int)child);
    FILE *file = fopen(path, "r+b");
    assert_int_equal(fread(&note, sizeof note, 1, file), 1);
    note.run = 11;
    note.rank = 1;
    note.size = 2;
    strcpy(note.lead, "one");
    rewind(file);
    assert_int_equal(fwrite(&note, sizeof note, 1, file), 1);
    fclose(file);
    run("ps " ASK "localhost,row-1");
    expect_out(" 0/2  one ");
    expect_out(" 1/2  ");
    shell("'%s' stop 11 --yes " ASK "row-1 >stopped.txt 2>&1 &", program());
    finish(child);
    assert_int_equal(last.code, 143);
    wait_for("stopped.txt", "run 11 has ended\n");
    assert_int_equal(shell("grep stop asked.txt"), 1);
}

static int read_answer(running_ranks *list, const char *text)
{
    static cli_pool pool;
    *list = (running_ranks){0};
    return row_read(list, text, strlen(text), "host", &pool) ? list->count : -1;
}

/* Of an answer with `from` in the place of `what`. */
static void expect_refused(const char *what, const char *from)
{
    static const char row[] = ROW("11", "0", "2", "one", "12", "/a", "two");
    static char text[8192];
    running_ranks list;
    assert_int_equal(read_answer(&list, row), 1);
    const char *at = strstr(row, what);
    assert_non_null(at);
    snprintf(text, sizeof text, "%s%.*s%s%s", row, (int)(at - row), row, from, at + strlen(what));
    if (read_answer(&list, text) != -1) fail_msg("taken: %s", text);
    assert_int_equal(list.count, 0); /* nor what came before it */
}

static void answers_are_read_strictly(void **state)
{
    (void)state;
    running_ranks list;
    char longer[700] = "\"config\": \"";
    static const char *const wrong[][2] = {
        {"\"run\": 11", "\"run\": 0"},
        {"\"run\": 11", "\"run\": \"11\""},
        {"\"run\": 11", "\"ran\": 11"},
        {"\"run\": 11", "\"run\": 11.5"},
        {"\"run\": 11", "\"run\": 11e99"},
        {"\"run\": 11", "\"run\": 99999999999999999999"},
        {"\"run\": 11", "\"run\": 1, \"run\": 1"},
        {"\"rank\": 0", "\"rank\": 2"},
        {"\"rank\": 0", "\"rank\": -1"},
        {"\"pid\": 12", "\"pid\": 0"},
        {"\"step\": 3", "\"step\": -3"},
        {"\"steps\": 9", "\"steps\": -9"},
        {"_second\": 80", "_second\": -80"},
        {"\"waited\": 0.25", "\"waited\": \"no\""},
        {"\"rss_bytes\": 5", "\"rss_bytes\": 0."},
        {"start_ticks\": 7", "start_ticks\": -7"},
        {"\"cpu\"", "\"0123456789012345678901234567890123456789\""},
        {"\"cpu\"", "\"c\\u0000pu\""},
        {"\"cpu\"", "null"},
        {"}\n", "}"},
        {"}\n", "} {}\n"},
        {"}\n", "}\n\n"},
        {"{", "[{"},
        {"\"rss_bytes\": 5", "\"rss_bytes\": 9223372036854"},
    };
    assert_int_equal(read_answer(&list, ""), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(wrong[i][0], wrong[i][1]);
    memset(longer + strlen(longer), 'c', RUNNING_PATH - strlen("c.yaml")); /* no room for its end */
    expect_refused("\"config\": \"", longer);
    assert_int_equal(read_answer(&list, ROW("11", "0", "2", "one", "12", "/a", "two")
                                            ROW("11", "1", "2", "two", "13", "", "one")),
                     2);
    const running_rank *rank = &list.rank[0];
    assert_true(rank->note.run == 11 && rank->note.rank == 0 && rank->note.size == 2);
    assert_true(rank->note.process == 12 && rank->note.start == 7 && rank->note.step == 3);
    assert_true(rank->note.steps == 9 && rank->note.rate == 80 && rank->note.waited == 250);
    assert_true(rank->resident == 5000000);
    assert_string_equal(rank->note.host, "one");
    assert_string_equal(rank->note.lead, "one");
    assert_string_equal(rank->note.others, "two");
    assert_string_equal(rank->note.folder, "/a");
    assert_string_equal(rank->note.config, "c.yaml");
    assert_string_equal(rank->note.device, "cpu");
    assert_string_equal(rank->from, "host");
    assert_int_equal(list.rank[1].note.rank, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranks_elsewhere_are_seen),           TEST(wrong_hosts_are_named),
        TEST(silent_hosts_are_not_waited_for),    TEST(what_is_left_behind_is_not_waited_for),
        TEST(what_is_typed_is_checked),           TEST(other_hosts_of_a_run_are_named),
        TEST(a_run_elsewhere_is_stopped),         TEST(several_runs_are_refused),
        TEST(a_run_of_this_host_is_stopped_here), TEST(answers_are_read_strictly),
    };
    return cmocka_run_group_tests_name("across", tests, NULL, NULL);
}
