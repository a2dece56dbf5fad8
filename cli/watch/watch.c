/* lockstep watch: how a training is doing, by the record that it writes after every epoch, or the lines that it
 * prints for every step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/verbs/record.h"
#include "cli/watch/watch.h"

enum { USUAL_ROWS = 24, BAR = 40, MOST_CURVES = 3 };

static const char *of_all(cli_pool *pool, double all)
{
    return all > 0 && all < 1e15 ? pool_format(pool, " of %.0f", all) : "";
}

/* "[####....]  ", as long as what is behind it leaves room for. */
static const char *bar_text(cli_pool *pool, double share, int width)
{
    enum { BEHIND = 30, SHORTEST = 8 };
    const int length = width - BEHIND > BAR ? BAR : width - BEHIND;
    if (length < SHORTEST) return "";
    char *bar = pool_format(pool, "[%*s]  ", length, "");
    memset(bar + 1, '.', (size_t)length);
    memset(bar + 1, '#', (size_t)(share * length));
    return bar;
}

/* "run: epoch 3 of 14, step 1173 of 5474"; and while it runs, how much that is and what is left. */
static void print_progress(FILE *out, const view *v, cli_pool *pool, int width)
{
    const progress p = view_progress(v);
    const run_cell *cell = v->runs->cell[0];
    const double share = p.step / p.steps;
    const char *line = pool_format(pool, "%s: %sepoch %.0f%s", cell[RUN_NAME].text,
                                   p.finished ? "finished, " : "", cell[RUN_EPOCHS].number,
                                   of_all(pool, p.epochs));
    if (p.step >= 0)
        line = pool_format(pool, "%s, step %.0f%s", line, p.step, of_all(pool, p.steps));
    if (p.finished && !isnan(cell[RUN_TIME].number))
        line = pool_format(pool, "%s, %s", line, cell[RUN_TIME].text);
    text_print_line(out, line, width);
    if (p.finished) return;
    const bool overdue = view_is_overdue(&p);
    if (share >= 0 && share <= 1)
        text_print_line(out,
                        pool_format(pool, "%s%.0f%%%s%s", bar_text(pool, share, width), 100 * share,
                                    overdue ? "" : "  ETA ",
                                    overdue ? "" : runs_time(pool, p.left)),
                        width);
    if (overdue)
        text_print_line(
            out, pool_format(pool, "nothing new for %s: has it ended?", runs_time(pool, p.age)),
            width);
}

/* What it trains, as far as the file says it. */
static const char *trained_text(const run_cell *cell, cli_pool *pool)
{
    static const struct {
        run_column column;
        const char *before;
    } parts[] = {{RUN_MODEL, ""},       {RUN_DATA, ""},      {RUN_WORKERS, "workers "},
                 {RUN_BATCH, "batch "}, {RUN_OPTIMIZER, ""}, {RUN_LR, "lr "}};
    const char *line = "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (cell[parts[i].column].text[0] != '-')
            line = pool_format(pool, "%s%s%s%s", line, *line != '\0' ? ", " : "", parts[i].before,
                               cell[parts[i].column].text);
    return line;
}

/* What it trains, how fast, and the best of what came out. */
static void print_facts(FILE *out, const view *v, cli_pool *pool, int width)
{
    const run_cell *cell = v->runs->cell[0];
    const json_t *record = v->runs->run[0].record, *step = json_object_get(record, "last_step");
    const double bytes = watch_memory(record), waited = watch_waited(record);
    const json_t *epochs = json_object_get(record, "epochs"),
                 *last = json_array_get(epochs, json_array_size(epochs) - 1);
    const double in_step = runs_number_of(step, "tokens_per_second"),
                 tokens = in_step >= 0 ? in_step : runs_number_of(last, "tokens_per_second");
    const double rate = runs_number_of(step, "samples_per_second"),
                 loss = runs_number_of(step, "loss");
    char count[TEXT_NUMBER_SIZE];
    text_print_line(out, trained_text(cell, pool), width);
    const char *line = pool_format(pool, "%s samples/s", cell[RUN_SPEED].text);
    if (rate >= 0 && rate < 1e15)
        line = pool_format(pool, "%s samples/s, loss %.4f", lks_text_count(count, (int64_t)rate),
                           loss);
    if (tokens >= 0 && tokens < 1e15)
        line = pool_format(pool, "%s, %s tokens/s", line, lks_text_count(count, (int64_t)tokens));
    if (!isnan(waited)) line = pool_format(pool, "%s, communication %.0f%%", line, 100 * waited);
    if (bytes > 0 && bytes < 1e18)
        line = pool_format(pool, "%s, %.0f MB of memory", line, bytes / 1e6);
    if (!isnan(cell[RUN_VALID_BEST].number))
        line = pool_format(pool, "%s, best validation %s%%", line, cell[RUN_VALID_BEST].text);
    if (!isnan(cell[RUN_BEST].number))
        line = pool_format(pool, "%s, best test %s%%", line, cell[RUN_BEST].text);
    text_print_line(out, line, width);
}

/* Curves of one run in one panel, below an empty line, with a line that says what the letters are; NULL: there
 * is nothing to draw. free() it. */
static char *panel_text(const view *v, cli_pool *pool, bool accuracy, const plot_terminal *terminal)
{
    static const run_series losses[] = {RUN_TRAIN_LOSS, RUN_VALID_LOSS, RUN_TEST_LOSS},
                            accuracies[] = {RUN_VALID_ACCURACY, RUN_TEST_ACCURACY};
    static const char *const names[RUN_SERIES] = {"training", "validation", "test", "validation",
                                                  "test"};
    plot_curve curve[MOST_CURVES];
    plot_panel panel = {.title = accuracy ? "Accuracy, %" : "Loss",
                        .may_log = !accuracy,
                        .is_percent = accuracy,
                        .curve = curve};
    char *text = NULL;
    size_t bytes;
    for (int i = 0; i < (accuracy ? 2 : MOST_CURVES); i++) {
        const run_series series = accuracy ? accuracies[i] : losses[i];
        curve[panel.curves] = v->runs->run[0].curve[series];
        if (curve[panel.curves].points == 0) continue;
        curve[panel.curves].name = names[series];
        curve[panel.curves].style = panel.curves;
        panel.curves++;
    }
    FILE *out = plot_fit(&panel) ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL) return NULL;
    fputc('\n', out);
    plot_print_text(out, &panel, terminal);
    const char *legend = "";
    for (int i = 0; i < panel.curves; i++)
        legend = pool_format(pool, "%s%s%c: %s", legend, i > 0 ? ", " : "",
                             plot_letter(curve[i].style), curve[i].name);
    text_print_line(out, legend, terminal->width);
    fclose(out);
    return text;
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) lines += *text == '\n';
    return lines;
}

/* In the place of what was drawn before; panels that the terminal has no rows for are left out. */
static void watch_put(view *v, const char *text)
{
    if (v->drawn > 0) printf("\033[%dA\r", v->drawn);
    v->drawn = v->live ? lines_of(text) : 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        printf("%.*s%s\n", (int)strcspn(line, "\n"), line, v->live ? "\033[K" : "");
    if (v->live) fputs("\033[J", stdout);
}

static int terminal_rows(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row
                                                                           : USUAL_ROWS;
}

static lks_status view_draw(view *v)
{
    const plot_terminal terminal = plot_here(true);
    const int width = terminal.width;
    cli_pool pool = {0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for what is drawn");
    if (v->there) {
        print_progress(out, v, &pool, width);
        print_facts(out, v, &pool, width);
        watch_print_ranks(out, v->runs->run[0].record, &pool, width);
        fflush(out);
        int room = v->live ? terminal_rows() - 1 - lines_of(text) : INT32_MAX;
        for (int i = 0; i < 2; i++) {
            char *panel = panel_text(v, &pool, i == 1, &terminal);
            if (panel != NULL && lines_of(panel) <= room) {
                fputs(panel, out);
                room -= lines_of(panel);
            }
            free(panel);
        }
    } else {
        text_print_line(
            out,
            pool_format(&pool,
                        "waiting for %s: train --record writes it behind every epoch, and every "
                        "ten seconds; > of train --format json with every step",
                        text_clean(&pool, v->path)),
            width);
    }
    fclose(out);
    watch_put(v, text);
    free(text);
    pool_clear(&pool);
    return say_flush();
}

lks_status verb_watch(const cli_args *cli, int *code)
{
    view v = {.path = record_place(cli->pool, cli->operand[0]),
              .live = say_columns() > 0,
              .runs = pool_alloc(cli->pool, sizeof *v.runs)};
    struct stat about;
    (void)code;
    if (stat(v.path, &about) == 0 && S_ISDIR(about.st_mode)) return watch_folder(cli, v.path);
    for (;;) {
        lks_status status = view_read(&v);
        if (status == LKS_OK) status = view_draw(&v);
        if (status != LKS_OK || !v.live ||
            (v.there && json_is_true(json_object_get(v.runs->run[0].record, "finished")))) {
            view_clear(&v);
            return status;
        }
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}
