/* lockstep report */

#include "cli/cli.h"
#include "cli/out/output.h"
#include "cli/out/table.h"
#include "cli/report/runs.h"
#include "cli/verbs/record.h"

static void runs_report_print_runs(const cli_runs *runs, cli_pool *pool, int width)
{
    const char *cells[RUNS_MOST * RUN_COLUMNS], *titles[RUN_COLUMNS];
    bool right[RUN_COLUMNS];
    run_column used[RUN_COLUMNS];
    int columns = 0;
    for (int c = 0; c < RUN_COLUMNS; c++)
        if (run_column_is_used(runs, (run_column)c)) used[columns++] = (run_column)c;
    for (int c = 0; c < columns; c++) {
        titles[c] = run_titles[used[c]];
        right[c] = run_column_is_number(used[c]);
        for (int r = 0; r < runs->count; r++) cells[r * columns + c] = runs->cell[r][used[c]].text;
    }
    if (runs->count > 1) { /* the letters of the curves */
        titles[0] = "  run";
        for (int r = 0; r < runs->count; r++)
            cells[r * columns] = pool_format(pool, "%c %s", plot_letter(r), runs->name[r]);
    }
    table_print(&(cli_table){runs->count, columns, titles, cells, right}, width);
    for (int i = 0; i < runs->same; i++) {
        const int at = printf("\nThe same bits: ") - 1;
        text_print_wrapped(stdout, runs->same_run[i], at, at, width);
    }
}

/* A row for each setting and a column for each run, or the other way round: as few columns as can
 * be. */
static void runs_report_print_differences(const cli_runs *runs, cli_pool *pool, int width)
{
    const bool by_run = runs->count > runs->differing;
    const int rows = by_run ? runs->count : runs->differing;
    const int columns = 1 + (by_run ? runs->differing : runs->count);
    const char **cells = pool_alloc(pool, (size_t)(rows * columns) * sizeof *cells);
    const char **titles = pool_alloc(pool, (size_t)columns * sizeof *titles);
    if (runs->count < 2) return;
    titles[0] = by_run ? "  run" : "setting";
    for (int r = 0; r < runs->count; r++) {
        const char *name = pool_format(pool, "%c %s", plot_letter(r), runs->name[r]);
        *(by_run ? &cells[r * columns] : &titles[1 + r]) = name;
    }
    for (int i = 0, found = 0; i < runs->settings; i++) {
        const run_setting *s = &runs->setting[i];
        if (!s->differs) continue;
        *(by_run ? &titles[1 + found] : &cells[found * columns]) = s->key;
        for (int r = 0; r < runs->count; r++)
            cells[by_run ? r * columns + 1 + found : found * columns + 1 + r] = s->text[r];
        found++;
    }
    say(runs->differing == 0 ? "\nAll runs have the same configuration." : "\nDifferences:");
    if (runs->differing > 0) table_print(&(cli_table){rows, columns, titles, cells, NULL}, width);
}

static void print_curves(const cli_runs *runs)
{
    const plot_terminal terminal = plot_here(runs->count > 1);
    for (int i = 0; i < runs->panels; i++) {
        putchar('\n');
        plot_print_text(stdout, &runs->panel[i], &terminal);
    }
}

static void print_svg(FILE *out, const void *user)
{
    const cli_runs *runs = user;
    plot_print_svg(out, &(plot_figure){.panels = runs->panels,
                                       .panel = runs->panel,
                                       .names = runs->count,
                                       .name = runs->name,
                                       .whole = true});
}

static void print_html(FILE *out, const void *user)
{
    runs_print_html(out, user);
}

lks_status runs_write_files(const cli_args *cli, const cli_runs *runs)
{
    const char *svg = cli->local[LOCAL_SVG], *html = cli->local[LOCAL_HTML];
    if (svg != NULL && runs->panels == 0)
        return lks_fail(LKS_E_INVALID,
                        "there is no epoch in these records, so there are no curves for %.200s",
                        svg);
    lks_status status = svg != NULL ? text_write_file(svg, print_svg, runs) : LKS_OK;
    if (status == LKS_OK && html != NULL) status = text_write_file(html, print_html, runs);
    return status;
}

lks_status runs_check_files(const cli_args *cli)
{
    const char *svg = cli->local[LOCAL_SVG], *html = cli->local[LOCAL_HTML];
    lks_status status = output_differ(svg, html);
    if (status == LKS_OK) status = output_check(cli, NULL, "--svg", svg, false);
    if (status == LKS_OK) status = output_check(cli, NULL, "--html", html, false);
    return status;
}

void runs_print(const cli_runs *runs, cli_pool *pool)
{
    const int width = say_columns();
    runs_report_print_runs(runs, pool, width);
    runs_report_print_differences(runs, pool, width);
    print_curves(runs);
}

lks_status verb_report(const cli_args *cli, int *code)
{
    cli_pool pool = {0};
    cli_runs *runs = pool_alloc(&pool, sizeof *runs);
    (void)code;
    for (int i = 0; i < cli->operands; i++)
        cli->operand[i] = record_place(cli->pool, cli->operand[i]);
    lks_status status = runs_check_files(cli);
    if (status == LKS_OK) status = runs_read(runs, cli->operands, cli->operand, NULL);
    if (status == LKS_OK) status = runs_write_files(cli, runs);
    if (status == LKS_OK) {
        runs_print(runs, &pool);
        runs_print_scores(runs, &pool, NULL);
    }
    runs_clear(runs);
    pool_clear(&pool);
    return status;
}
