/* The progress bar, on a terminal of a known width. */
#define _XOPEN_SOURCE 700
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <time.h>

/* Runs a training with the terminal as its standard error, and as its output unless that goes to
 * out.txt; returns all that the terminal got. */
static const char *on_terminal(int columns, bool output_too, const char *arguments)
{
    static char seen[OUTPUT_SIZE];
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
        printf("skipped: no pseudo-terminals here (%s)\n", strerror(errno));
        skip();
    }
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    char command[8192];
    snprintf(command, sizeof command, "cd '%s' && exec '%s' %s >'%s' 2>'%s'", folder, program(),
             arguments, output_too ? ptsname(terminal) : "out.txt", ptsname(terminal));
    const int other = open(ptsname(terminal), O_RDWR | O_NOCTTY); /* open until all is read */
    const pid_t child = fork();
    if (child == 0) {
        setenv("TERM", "xterm", 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(fcntl(terminal, F_SETFL, O_NONBLOCK), 0);
    size_t used = 0;
    for (int status = 0, done = 0;;) {
        const ssize_t got = read(terminal, seen + used, sizeof seen - 1 - used);
        if (got > 0) used += (size_t)got;
        assert_true(used < sizeof seen - 1);
        if (got > 0) continue;
        if (done) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        done = waitpid(child, &status, WNOHANG) == child;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    close(other);
    close(terminal);
    seen[used] = '\0';
    return seen;
}

/* Half a second or more, even on a fast machine: the bar is drawn every tenth. */
static const char longer[] = "data: {name: digits, samples: 2000, test_samples: 10}\n"
                             "model: {name: mlp, hidden: [512]}\n"
                             "train: {steps: 600, batch_size: 10, replicas: 2, workers: 1}\n";

/* Number of times the bar was drawn; fails when a line is wider than the terminal. */
static int drawings(const char *seen, int columns)
{
    int count = 0;
    for (const char *at = seen; (at = strstr(at, "\r\033[K")) != NULL;) {
        at += 4;
        const size_t width = strcspn(at, "\r\n");
        if (strncmp(at, "epoch ", 6) != 0) continue;
        if (width >= (size_t)columns) fail_msg("wider than %d: %.*s", columns, (int)width, at);
        count++;
    }
    return count;
}

static void the_bar_is_drawn_and_removed(void **state)
{
    (void)state;
    write_text("c.yaml", longer);
    const double began = (double)time(NULL);
    const char *seen = on_terminal(100, true, "train c.yaml");
    const double seconds = (double)time(NULL) - began + 1;
    const int count = drawings(seen, 100);
    if (count < 1) fail_msg("no bar in: %s", seen);
    assert_true(count <= 10 * seconds + 1);
    assert_non_null(strstr(seen, "] "));
    assert_non_null(strstr(seen, "  loss "));
    assert_non_null(strstr(seen, "  ETA "));
    assert_non_null(strstr(seen, " samples/s"));
    /* It takes the place of the lines, and none is left over at the end. */
    assert_null(strstr(seen, "Train Epoch"));
    const char *at = seen, *clear = seen;
    while ((at = strstr(at, "\r\033[K")) != NULL) clear = at += 4;
    assert_int_not_equal(strncmp(clear, "epoch ", 6), 0);
    assert_non_null(strstr(clear, "hash "));
}

static void it_fits_any_width(void **state)
{
    (void)state;
    static const int widths[] = {200, 60, 40, 24};
    write_text("c.yaml", longer);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        assert_true(drawings(on_terminal(widths[i], true, "train c.yaml"), widths[i]) > 0);
    assert_int_equal(drawings(on_terminal(10, true, "train c.yaml"), 10), 0);
}

static void lines_go_to_the_file_and_the_bar_to_the_terminal(void **state)
{
    (void)state;
    write_text("c.yaml", longer);
    assert_true(drawings(on_terminal(80, false, "train c.yaml"), 80) > 0);
    read_text(last.out, "out.txt");
    expect_out("Train Epoch: 1 [0/2000 (0%)]\tLoss: ");
    assert_null(strchr(last.out, '\033'));
    assert_null(strchr(last.out, '\r'));
    const char *seen = on_terminal(80, true, "train c.yaml --quiet");
    assert_null(strchr(seen, '\033'));
    assert_int_equal(strncmp(seen, "hash ", 5), 0);
    seen = on_terminal(80, true, "train c.yaml --log-interval 100"); /* asked for: both */
    assert_non_null(strstr(seen, "Train Epoch: 1 [1000/2000 (50%)]"));
    assert_true(drawings(seen, 80) > 0);
    seen = on_terminal(80, true, "train c.yaml --log-format json --steps 100");
    assert_null(strchr(seen, '\033'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_bar_is_drawn_and_removed),
        TEST(it_fits_any_width),
        TEST(lines_go_to_the_file_and_the_bar_to_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
