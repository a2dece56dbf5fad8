/* lockstep data mnist, from servers on loopback that behave well or badly (server.py). */
#include "cli/terminal.h"

#include <signal.h>
#include <sys/stat.h>

#include "verbs/full_disk.h"

static const char *const files[4] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                     "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};

static pid_t server;
static int port;

/* Starts the server; it serves the real files where they are at hand. */
static int set_up_server(void **state)
{
    static const char *const proxies[] = {"http_proxy",  "https_proxy", "all_proxy", "no_proxy",
                                          "HTTPS_PROXY", "ALL_PROXY",   "NO_PROXY"};
    set_up(state);
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++) unsetenv(proxies[i]);
    char root[4096], script[4096], log[4096], line[32] = "";
    const char *data = lkt_data_folder();
    snprintf(root, sizeof root, "%s/mnist", data != NULL ? data : folder);
    snprintf(script, sizeof script, "%s", source("tests/verbs/server.py"));
    snprintf(log, sizeof log, "%s", in_folder("server.log"));
    int ends[2];
    if (pipe(ends) != 0) return 1;
    server = fork();
    if (server == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execlp("python3", "python3", script, root, log, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *out = fdopen(ends[0], "r");
    const bool good = out != NULL && fgets(line, sizeof line, out) != NULL;
    port = atoi(line);
    if (out != NULL) fclose(out);
    return good && port > 0 ? 0 : 1;
}

static int tear_down_server(void **state)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return tear_down(state);
}

static void need_real_files(void)
{
    if (lkt_data_folder() != NULL) return;
    print_message("no real data: skipped\n");
    skip();
}

/* "--mirror http://127.0.0.1:<port>/<kind>" for each of the kinds. */
static const char *from(const char *kinds)
{
    static char text[2048];
    char copy[256];
    size_t used = 0;
    snprintf(copy, sizeof copy, "%s", kinds);
    for (char *kind = strtok(copy, " "); kind != NULL; kind = strtok(NULL, " "))
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 " --mirror http://127.0.0.1:%d/%s", port, kind);
    return text;
}

static void get(const char *kinds)
{
    run("data mnist --out d%s", from(kinds));
}

/* All four files are there, as published, and nothing else but the lock. */
static void expect_complete(void)
{
    expect_ok();
    expect_out("mnist is complete in d\n");
    for (int i = 0; i < 4; i++)
        assert_int_equal(shell("cmp 'd/%s' '%s/mnist/%s'", files[i], lkt_data_folder(), files[i]),
                         0);
    assert_int_equal(shell("test $(ls d | wc -l) = 4"), 0);
}

static const char *log_of_server(void)
{
    static char text[OUTPUT_SIZE];
    read_text(text, "server.log");
    return text;
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (; (text = strstr(text, part)) != NULL; text++) found++;
    return found;
}

static void whole_files_arrive_and_stay(void **state)
{
    (void)state;
    need_real_files();
    get("ok/"); /* a slash at the end is no other address */
    expect_complete();
    expect(0, "lockstep: getting http://127.0.0.1:");
    expect_out("d/t10k-labels-idx1-ubyte.gz: 4542 bytes, as published\n");
    assert_int_equal(count(log_of_server(), "/ok/"), 4);
    shell("chmod a-w d");
    get("ok"); /* nothing is asked for again, or written */
    shell("chmod u+w d");
    expect_complete();
    expect_out("d/t10k-labels-idx1-ubyte.gz: there already, as published\n");
    assert_int_equal(count(log_of_server(), "/ok/"), 4);
    run("train '%s' --data d --steps 1 --batch-size 8", source("configs/mnist.yaml"));
    expect_ok();
    /* Unpacked, they count as well; one is missing. */
    shell("gunzip d/*.gz && mv d/train-labels-idx1-ubyte d/train-labels.idx1-ubyte && "
          "rm d/t10k-labels-idx1-ubyte");
    get("ok");
    expect_ok();
    expect_out("d/train-labels.idx1-ubyte: there already");
    assert_int_equal(count(log_of_server(), "/ok/"), 5);
}

static void the_default_folder_is_where_training_looks(void **state)
{
    (void)state;
    need_real_files();
    run("data mnist%s", from("ok"));
    expect_ok();
    run("train '%s' --steps 1 --batch-size 8", source("configs/mnist.yaml"));
    expect_ok();
}

static void broken_connections_are_continued(void **state)
{
    (void)state;
    need_real_files();
    get("cut");
    expect_complete();
    expect(0, "; going on at byte 4194304\n");
    const char *log = log_of_server();
    assert_non_null(strstr(log, "/cut/train-images-idx3-ubyte.gz -\n"));
    assert_non_null(strstr(log, "/cut/train-images-idx3-ubyte.gz bytes=4194304-\n"));
}

static void a_killed_download_is_resumed(void **state)
{
    (void)state;
    need_real_files();
    assert_int_equal(shell(":; '%s' data mnist --out d%s >out.txt 2>&1 & echo $! >pid; "
                           "for i in $(seq 500); do sleep 0.02; test -s "
                           "d/train-images-idx3-ubyte.gz.part && break; done; kill -9 $(cat pid)",
                           program(), from("slow")),
                     0);
    assert_true(there("d/train-images-idx3-ubyte.gz.part"));
    assert_false(there("d/train-images-idx3-ubyte.gz"));
    get("ok");
    expect_complete();
    const char *again = strstr(log_of_server(), "/ok/train-images-idx3-ubyte.gz bytes=");
    assert_non_null(again);
    assert_true(strtoll(strchr(again, '=') + 1, NULL, 10) >= 1);
}

/* What a .part may hold, and a server may make of it. */
static void any_part_is_settled(void **state)
{
    (void)state;
    need_real_files();
    shell("mkdir d && head -c 1000 '%s/mnist/%s' >d/%s.part", lkt_data_folder(), files[0],
          files[0]);
    shell("cp '%s/mnist/%s' d/%s.part", lkt_data_folder(), files[1], files[1]); /* all of it */
    shell("head -c 2000 /dev/zero >d/%s.part", files[2]);                       /* something else */
    shell("head -c 9999 /dev/zero >d/%s.part", files[3]);                       /* and too much */
    get("ok");
    expect_complete();
    const char *log = log_of_server();
    assert_non_null(strstr(log, "/ok/train-images-idx3-ubyte.gz bytes=1000-\n"));
    assert_null(strstr(log, "/ok/train-labels"));
    assert_non_null(strstr(log, "/ok/t10k-images-idx3-ubyte.gz bytes=2000-\n"));
    assert_non_null(strstr(log, "/ok/t10k-images-idx3-ubyte.gz -\n"));
    assert_non_null(strstr(log, "/ok/t10k-labels-idx1-ubyte.gz bytes=9999-\n"));
    assert_non_null(strstr(log, "/ok/t10k-labels-idx1-ubyte.gz -\n"));
    shell("mv d/%s d/%s.part && truncate -s 500000 d/%s.part", files[2], files[2], files[2]);
    get("norange"); /* the answer is the whole file */
    expect_complete();
    assert_non_null(strstr(log_of_server(), "/norange/t10k-images-idx3-ubyte.gz bytes=500000-\n"));
    assert_int_equal(count(log_of_server(), "/norange/"), 1);
}

static void the_next_place_is_tried(void **state)
{
    (void)state;
    need_real_files();
    get("missing broken page wrong long loop redirect");
    expect_complete();
    expect(0, ": the server answers with error 404; trying the next place\n");
    expect(0, ": the server answers with error 500; trying the next place\n");
    expect(0, ": it sends 27 bytes, but the file has 9912422; trying the next place\n");
    expect(0, ": its SHA-256 is not that of the published file; trying the next place\n");
    expect(0, ": it sends more than the 9912422 bytes of the file; trying the next place\n");
    expect(0, "edirects"); /* libcurl's words */
    assert_non_null(strstr(log_of_server(), "/redirect/train-images"));
}

/* Nothing is left behind by what failed. */
static void wrong_files_are_not_kept(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *sentence;
        int code;
    } cases[] = {
        {"wrong", ": its SHA-256 is not that of the published file; no other place is left", 4},
        {"page", ": it sends 27 bytes, but the file has 9912422; no other place is left", 4},
        {"long", ": it sends more than the 9912422 bytes of the file; no other place", 4},
        {"missing",
         ": the server answers with error 404; no other place is left: name one with "
         "--mirror URL, or try again later",
         3},
        {"loop", "; no other place is left", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        get(cases[i].kind);
        expect(cases[i].code, cases[i].sentence);
        assert_int_equal(shell("test $(ls d | wc -l) = 0"), 0);
        assert_string_equal(last.out, "");
    }
    run("data mnist --out d --mirror http://127.0.0.1:1/none");
    expect(3, "onnect"); /* libcurl's words */
    run("data mnist --out d --mirror file://%s/none", folder);
    expect(3, "no other place is left");
    /* Of an archive the same holds. */
    shell("echo other >cifar-10-binary.tar.gz");
    run("data cifar10 --out d%s", from("missing"));
    expect(3, "/missing/cifar-10-binary.tar.gz: the server answers with error 404; no other place "
              "is left");
    run("data cifar10 --out d --mirror file://%s", folder);
    expect(4, "cifar-10-binary.tar.gz: it sends 6 bytes, but the file has 170052171; no other "
              "place is left");
    assert_int_equal(shell("test $(ls d | wc -l) = 0"), 0);
}

static void a_place_that_hangs_is_given_up(void **state)
{
    (void)state;
    const time_t began = time(NULL);
    run("data mnist --out d --patience 1%s", from("mute half"));
    expect(3, "/mute/train-images-idx3-ubyte.gz: nothing came for 1 second; trying the next");
    expect(3, "/half/train-images-idx3-ubyte.gz: nothing came for 1 second; going on at byte 49");
    assert_true(time(NULL) - began < 60);
    assert_true(there("d/train-images-idx3-ubyte.gz.part")); /* for the next run */
}

static void no_space_is_said(void **state)
{
    (void)state;
    char arguments[8192];
    snprintf(arguments, sizeof arguments, "data mnist --out d%s", from("wrong"));
    run_on_full_disk(arguments);
    expect(3, "what is downloaded cannot be written: No space left on device");
    assert_int_equal(shell("test $(ls d | wc -l) = 0"), 0);
    last.code = shell("ulimit -f 8; exec '%s' data mnist --out d%s 2>err.txt", program(),
                      from("wrong"));
    read_text(last.err, "err.txt");
    expect(3, "what is downloaded cannot be written: File too large");
    assert_false(there("d/train-images-idx3-ubyte.gz"));
}

static void two_at_once_get_it_once(void **state)
{
    (void)state;
    need_real_files();
    /* The second starts while the first is held in a download, and lets it go by waiting. */
    last.code = shell(":; '%s' data mnist --out d%s >one.txt 2>>err.txt & first=$!; "
                      "until [ -s server.log ]; do sleep 0.01; done; "
                      "'%s' data mnist --out d%s >two.txt 2>>err.txt & second=$!; "
                      "until grep -q waiting err.txt; do sleep 0.01; done; "
                      "touch go; wait $first && wait $second",
                      program(), from("held"), program(), from("held"));
    shell("cat one.txt two.txt >out.txt");
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
    expect_complete();
    expect(0, "another process gets files into d; waiting for it\n");
    assert_int_equal(count(log_of_server(), "/held/"), 4);
    assert_int_equal(count(last.out, "bytes, as published"), 4);
    assert_int_equal(count(last.out, "there already, as published"), 4);
}

static void progress_is_drawn_on_a_terminal(void **state)
{
    (void)state;
    char arguments[1024];
    need_real_files();
    snprintf(arguments, sizeof arguments, "data mnist --out d%s", from("slow"));
    const char *seen = on_terminal(100, true, arguments);
    assert_true(count(seen, "\r\033[Ktrain-images-idx3-ubyte ") > 3);
    assert_non_null(strstr(seen, "#"));
    assert_non_null(strstr(seen, " of 9.9 MB  ETA 0:0"));
    assert_non_null(strstr(seen, " MB/s"));
    assert_non_null(strstr(seen, "mnist is complete in d\r\n"));
}

static void what_is_there_is_not_overwritten(void **state)
{
    (void)state;
    shell("mkdir d && echo mine >d/%s", files[2]);
    get("missing");
    expect(3, "d/t10k-images-idx3-ubyte.gz is there already and is not the file that was "
              "published; remove it, or choose another folder with --out DIR");
    assert_int_equal(shell("grep -q mine d/%s", files[2]), 0);
    shell("rm d/* && echo mine >d/t10k-images.idx3-ubyte");
    get("missing");
    expect(3, "d/t10k-images.idx3-ubyte is there already and is not the file");
    run("data fashion --out d --mirror http://127.0.0.1:1/");
    expect(3, "d/t10k-images.idx3-ubyte is there already and is not the file that was published "
              "(packed)");
    run("data mnist --out err.txt/d%s", from("missing"));
    expect(3, "err.txt/d");
    shell("mkdir -m 500 sealed");
    if (geteuid() != 0) {
        run("data mnist --out sealed%s", from("missing"));
        expect(3, "cannot write to the folder 'sealed': no permission");
    }
}

static void a_proxy_is_used(void **state)
{
    (void)state;
    char address[64];
    snprintf(address, sizeof address, "http://127.0.0.1:%d", port);
    setenv("http_proxy", address, 1);
    run("data mnist --out d --mirror http://data.example/missing");
    unsetenv("http_proxy");
    expect(3, "http://data.example/missing/train-images-idx3-ubyte.gz: the server answers with "
              "error 404");
    assert_non_null(strstr(log_of_server(), "/missing/train-images"));
}

static void a_folder_is_a_place_too(void **state)
{
    (void)state;
    need_real_files();
    run("data mnist --out d --mirror 'file://%s/mnist'", lkt_data_folder());
    expect_complete();
}

static void options_are_checked(void **state)
{
    (void)state;
    run("data mnist --patience 0");
    expect(2, "--patience is '0', expected seconds, more than 0 and at most a day");
    run("data mnist --patience soon");
    expect(2, "--patience is 'soon'");
    /* Documented are three; libcurl has more, and guesses. */
    static const char *const others[] = {"ftp://127.0.0.1:1/x", "127.0.0.1:1/x", "/x", "gopher:"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        run("data mnist --out d --mirror http://127.0.0.1:1/none --mirror '%s'", others[i]);
        expect(2,
               "', expected the address of a folder that begins with http://, https:// or file://");
        assert_false(there("d"));
    }
    run("data mnits");
    expect(2, "unknown data set 'mnits'; the nearest is mnist; expected digits, mnist, fashion, "
              "cifar10 or cifar100");
    unsetenv("HOME");
    run("data fashion");
    expect(2, "data fashion has no folder to write to: neither XDG_DATA_HOME nor HOME is set; "
              "give --out DIR");
}

#define WITH_SERVER(name) cmocka_unit_test_setup_teardown(name, set_up_server, tear_down_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(whole_files_arrive_and_stay),
        WITH_SERVER(the_default_folder_is_where_training_looks),
        WITH_SERVER(broken_connections_are_continued),
        WITH_SERVER(a_killed_download_is_resumed),
        WITH_SERVER(any_part_is_settled),
        WITH_SERVER(the_next_place_is_tried),
        WITH_SERVER(wrong_files_are_not_kept),
        WITH_SERVER(a_place_that_hangs_is_given_up),
        WITH_SERVER(no_space_is_said),
        WITH_SERVER(two_at_once_get_it_once),
        WITH_SERVER(progress_is_drawn_on_a_terminal),
        WITH_SERVER(what_is_there_is_not_overwritten),
        WITH_SERVER(a_proxy_is_used),
        TEST(a_folder_is_a_place_too),
        TEST(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
