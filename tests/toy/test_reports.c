/* What a training leaves for people, drawn and read by the program's own parts: the plot of costs, from values whose places
 * are known, and lines of train --format json, of a file that grows and one that is begun anew. */
#include "cli/program.h"

#include <unistd.h>

#include "cli/report/cost.h"
#include "cli/report/run_log.h"

enum { ROWS = 20, COLUMNS = 60 };
static cost_history costs;
static char plot[OUTPUT_SIZE], row[ROWS][COLUMNS + 1];
static char labels[80], most[10], least[10];
static int count;

/* The plot of the costs, taken apart. */
static void draw(void)
{
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    assert_non_null(freopen("plot.txt", "w", stdout));
    cost_plot(&costs);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    read_text(plot, "plot.txt");
    char *line = strstr(plot, "\nCost Function Over Epochs\n");
    assert_non_null(line);
    line += 27;
    snprintf(most, sizeof most, "%.8s", line);
    for (int r = 0; r < ROWS; r++) {
        line = strchr(line, '\n') + 1;
        assert_memory_equal(line, "         ", 9);
        assert_int_equal(strcspn(line + 9, "\n"), COLUMNS);
        snprintf(row[r], sizeof row[r], "%.60s", line + 9);
        assert_int_equal(row[r][0], r + 1 < ROWS ? '|' : '-');
    }
    line = strchr(line, '\n') + 1;
    snprintf(least, sizeof least, "%.8s", line);
    assert_int_equal(sscanf(strrchr(line, '\x80') + 1, " %d epochs", &count), 1);
    line = strchr(line, '\n') + 1;
    snprintf(labels, sizeof labels, "%.*s", (int)strcspn(line, "\n"), line);
    for (int c = 0; c < COLUMNS; c++) assert_int_equal(row[ROWS - 1][c], '-');
}

/* 59 costs stand in 59 columns; of a straight line each in the row of its share of 18. */
static void every_cost_has_its_place(void **state)
{
    (void)state;
    costs.count = 0;
    for (int i = 0; i < 59; i++) cost_add(&costs, 58 - i);
    draw();
    assert_string_equal(most, " 58.0000");
    assert_string_equal(least, "  0.0000");
    assert_int_equal(count, 59);
    assert_string_equal(labels,
                        "          0           14          29          44          59          ");
    for (int i = 0; i < 59; i++)
        for (int r = 0; r + 1 < ROWS; r++)
            assert_int_equal(row[r][1 + i], r == (36 * i + 58) / 116 ? '*' : ' ');
}

/* Of two costs in a column the lower stands there; what is between neighbours is drawn through. */
static void the_lowest_of_a_column_wins(void **state)
{
    (void)state;
    costs.count = 0;
    for (int i = 0; i < 117; i++) cost_add(&costs, i % 2 == 0);
    draw();
    for (int c = 1; c < COLUMNS; c++)
        for (int r = 0; r + 1 < ROWS; r++)
            assert_int_equal(row[r][c], c < 59   ? (r == 18 ? '*' : ' ')
                                        : r == 0 ? '*'
                                        : r < 18 ? '|'
                                                 : ' ');
}

static void costs_without_a_range(void **state)
{
    (void)state;
    costs.count = 0;
    cost_plot(&costs); /* nothing */
    for (int n = 1; n <= 2; n++) {
        cost_add(&costs, 0.25);
        draw();
        assert_string_equal(most, "  0.2500");
        assert_string_equal(least, "  0.2500");
        assert_int_equal(row[0][1], '*');
        assert_int_equal(row[0][59], n == 2 ? '*' : ' ');
    }
}

/* As many as are kept; and all of them are in the file. */
static void the_first_costs_are_kept(void **state)
{
    static char text[OUTPUT_SIZE];
    (void)state;
    costs.count = 0;
    for (int i = 0; i <= COST_VALUES; i++) cost_add(&costs, i);
    assert_int_equal(costs.count, 2000);
    assert_int_equal(cost_save(&costs), LKS_OK);
    read_text(text, "cost_history.csv");
    assert_memory_equal(text, "epoch,cost\n0,0.000000\n1,1.000000\n", 33);
    assert_string_equal(text + strlen(text) - 17, "1999,1999.000000\n");
}

static const char *const lines[] = {
    "{\"event\": \"start\", \"epochs\": 2, \"steps\": 4, \"workers\": 1}\n",
    "{\"event\": \"step\", \"step\": 1}\n",
    "{\"event\": \"step\", \"step\": 2}\n",
    "{\"event\": \"epoch\", \"epoch\": 1}\n",
};

static json_int_t steps_of(const run_log *log)
{
    return json_integer_value(json_object_get(log->record, "steps"));
}

/* It goes on where it was, and from the beginning of a file that is shorter than what has been read. */
static void lines_are_read_once(void **state)
{
    run_log log = {0};
    char text[400] = "";
    (void)state;
    for (int i = 0; i < 4; i++) {
        write_text("run.log", strcat(text, lines[i]));
        assert_int_equal(run_log_read(&log, "run.log"), LKS_OK);
        assert_int_equal(log.end, strlen(text));
    }
    assert_int_equal(steps_of(&log), 2);
    assert_int_equal(json_array_size(json_object_get(log.record, "epochs")), 1);
    write_text("run.log", lines[1]);
    assert_int_equal(run_log_read(&log, "run.log"), LKS_OK);
    assert_int_equal(log.end, strlen(lines[1]));
    assert_int_equal(steps_of(&log), 1);
    assert_int_equal(json_array_size(json_object_get(log.record, "epochs")), 0);
    run_log_clear(&log);
}

static int in_the_folder(void **state)
{
    return set_up(state) == 0 && chdir(folder) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cost_has_its_place), cmocka_unit_test(the_lowest_of_a_column_wins),
        cmocka_unit_test(costs_without_a_range),    cmocka_unit_test(the_first_costs_are_kept),
        cmocka_unit_test(lines_are_read_once),
    };
    return cmocka_run_group_tests(tests, in_the_folder, tear_down);
}
