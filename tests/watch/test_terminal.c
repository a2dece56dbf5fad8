/* watch on a terminal: what is drawn while the file changes, where, and what there is room for. */
#include "cli/terminal.h"
#include "watch/watched.h"

/* It waits for the file, draws what comes in the place of what was there, and ends with the run; in any width. */
static void a_terminal_shows_what_comes(void **state)
{
    (void)state;
    static const int widths[] = {100, 60, 30};
    records("1 hour");
    for (int i = 0; i < 3; i++) {
        int widest = 0, line = 0;
        shell("%s run.json; (sleep 1.5; cp -p half.json run.json; sleep 2; cp whole.json new; "
              "mv new run.json) >/dev/null 2>&1 &",
              i == 1 ? ": >" : "rm -f");
        const char *seen = on_terminal(widths[i], true, "watch run.json");
        const char *waits = strstr(seen, "waiting for run.json");
        const char *half = strstr(seen, "run: epoch 2 of 10, step ");
        const char *whole = strstr(seen, "run: finished, epoch 2 of 2");
        assert_true(waits != NULL && half > waits && whole > half);
        assert_non_null(strstr(seen, "\033[J"));
        const char *up = strstr(half, "\033[J");
        int rows = 0, moved = 0;
        for (const char *c = half; c < up; c++) rows += *c == '\n';
        assert_int_equal(sscanf(up, "\033[J\033[%dA", &moved), 1);
        assert_int_equal(moved, rows);
        assert_true(rows < 24);
        for (const char *c = strchr(half, '\n'); *c != '\0'; c++) {
            if (*c == '\033')
                c += strcspn(c, "AJKmH");
            else
                line = *c == '\n' ? 0 : line + (*c != '\r');
            if (line > widest) widest = line;
        }
        assert_true(widest <= widths[i]);
    }
    int code;
    on_terminal_until(SIGINT, &code, 100, true, "watch half.json");
    assert_int_equal(code, 128 + SIGINT); /* not by itself */
}

/* The lines of each drawing: all of them are cleared behind their text, what was below them is cleared too, and the
 * next one begins so many rows higher. Returns how many drawings there are; the last one is where all ends. */
static int check_drawings(const char *seen, int *lines)
{
    int drawings = 0;
    for (const char *at = seen;; drawings++) {
        char up[32];
        *lines = 0;
        for (; strncmp(at, "\033[J", 3) != 0; ++*lines) {
            const char *end = strchr(at, '\n');
            assert_true(end != NULL && end - at >= 4);
            assert_memory_equal(end - 4, "\033[K\r\n", 5);
            at = end + 1;
        }
        at += 3;
        if (*at == '\0') return drawings + 1;
        snprintf(up, sizeof up, "\033[%dA\r", *lines);
        assert_memory_equal(at, up, strlen(up));
        at += strlen(up);
    }
}

static void drawings_are_in_one_place(void **state)
{
    (void)state;
    int lines;
    records("1 hour");
    shell("rm -f run.json; (sleep 1; cp -p half.json run.json; sleep 1.5; cp whole.json new; "
          "mv new run.json) >/dev/null 2>&1 &");
    assert_true(check_drawings(on_terminal(80, true, "watch run.json"), &lines) >= 3);
    assert_int_equal(check_drawings(on_terminal(80, true, "watch whole.json"), &lines), 1);
}

/* A row is left for the cursor; panels that have no room below what is said are left out. */
static void panels_are_as_many_as_there_is_room_for(void **state)
{
    (void)state;
    int facts, both, one, usual;
    records("now");
    terminal_rows = 3;
    const char *seen = on_terminal(80, true, "watch whole.json");
    assert_true(strstr(seen, "Loss") == NULL && strstr(seen, "Accuracy") == NULL);
    check_drawings(seen, &facts);
    terminal_rows = 100;
    seen = on_terminal(80, true, "watch whole.json");
    assert_true(strstr(seen, "Loss") != NULL && strstr(seen, "Accuracy") != NULL);
    check_drawings(seen, &both);
    terminal_rows = both + 1;
    check_drawings(on_terminal(80, true, "watch whole.json"), &one);
    assert_int_equal(one, both);
    terminal_rows = both;
    seen = on_terminal(80, true, "watch whole.json");
    assert_true(strstr(seen, "Loss") != NULL && strstr(seen, "Accuracy") == NULL);
    check_drawings(seen, &one);
    assert_true(one > facts && one < both);
    terminal_rows = one + 1;
    check_drawings(on_terminal(80, true, "watch whole.json"), &usual);
    assert_int_equal(usual, one);
    terminal_rows = one;
    check_drawings(on_terminal(80, true, "watch whole.json"), &usual);
    assert_int_equal(usual, facts);
    assert_true(one < 24 &&
                both >= 24); /* so 24 rows, where nobody says how many there are, have one */
    terminal_rows = 0;
    check_drawings(on_terminal(80, true, "watch whole.json"), &usual);
    assert_int_equal(usual, one);
    terminal_rows = 24;
}

/* The bar of a fifth, in what the rest of its line leaves. */
static void bars_have_the_room_that_is_left(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *line;
    } cases[] = {{71, "\n[########................................]  20%  ETA 5 min 20 s\033"},
                 {70, "\n[########................................]  20%  ETA 5 min 20 s\033"},
                 {69, "\n[#######................................]  20%  ETA 5 min 20 s\033"},
                 {38, "\n[#.......]  20%  ETA 5 min 20 s\033"},
                 {37, "\n20%  ETA 5 min 20 s\033"}};
    int code;
    records("1 hour");
    terminal_mark = "\033[J";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *seen = on_terminal_until(SIGINT, &code, cases[i].columns, true,
                                             "watch half.json");
        assert_int_equal(code, 128 + SIGINT);
        if (strstr(seen, cases[i].line) == NULL) fail_msg("%d: %s", cases[i].columns, seen);
    }
}

/* Also while the file says nothing new: of 320 seconds 100 have passed. */
static void time_passes_each_second(void **state)
{
    (void)state;
    int code, drawn = 0, before = 0;
    records("100 seconds ago");
    terminal_mark = "\033[J";
    terminal_marks = 3;
    const char *at = on_terminal_until(SIGINT, &code, 80, true, "watch half.json");
    assert_int_equal(code, 128 + SIGINT);
    for (; (at = strstr(at, "ETA ")) != NULL; at++, drawn++) {
        int minutes, seconds;
        assert_int_equal(sscanf(at, "ETA %d min %d s", &minutes, &seconds), 2);
        seconds += 60 * minutes;
        if (drawn == 0) assert_in_range(seconds, 200, 220);
        if (drawn > 0) assert_in_range(before - seconds, 1, 5);
        before = seconds;
    }
    assert_true(drawn >= 3);
    terminal_marks = 1;
}

/* Drawn again on a clean screen until all have ended. */
static void a_folder_has_the_screen(void **state)
{
    (void)state;
    static const char begin[] = "\033[H\033[K\033[J";
    int drawings = 0;
    const char *last_one = NULL;
    records("1 hour");
    shell("mkdir -p d/sub; cp whole.json d/b.json; cp -p half.json d/sub/a.json; (sleep 1.5; "
          "cp whole.json new; mv new d/sub/a.json) >/dev/null 2>&1 &");
    const char *seen = on_terminal(100, true, "watch d");
    assert_memory_equal(seen, begin, sizeof begin - 1);
    assert_non_null(strstr(seen, " 5 min 20 s left"));
    for (const char *at = seen; (at = strstr(at, begin)) != NULL; at++, drawings++) last_one = at;
    assert_true(drawings >= 2);
    assert_null(strchr(last_one + sizeof begin - 1, '\033'));
    assert_null(strstr(last_one, " left"));
    const char *b = strstr(last_one, "\nb "), *a = strstr(last_one, "\nsub/a ");
    assert_true(b != NULL && a > b);
    assert_non_null(strstr(b, " finished"));
    assert_non_null(strstr(a, " finished"));
    int code;
    shell("cp half.json d/sub/a.json");
    on_terminal_until(SIGINT, &code, 100, true, "watch d");
    assert_int_equal(code, 128 + SIGINT); /* not by itself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_terminal_shows_what_comes),
        TEST(drawings_are_in_one_place),
        TEST(panels_are_as_many_as_there_is_room_for),
        TEST(bars_have_the_room_that_is_left),
        TEST(time_passes_each_second),
        TEST(a_folder_has_the_screen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
