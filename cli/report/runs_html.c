/* The report as one page that needs nothing else: styles, curves and a few lines of script. */
#include <math.h>

#include "cli/out/text.h"
#include "cli/report/runs.h"

#include <lockstep/status.h>

/* Nothing may be loaded from anywhere. */
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
    "<title>Lockstep report</title>\n<style>\n"
    ":root{--ink:#1b1d21;--soft:#5d636e;--line:#dfe1e6;--paper:#fff;--row:#f6f7f9}\n"
    "@media screen and (prefers-color-scheme:dark){"
    ":root{--ink:#e6e8ec;--soft:#9aa0ac;--line:#2d3139;--paper:#16181d;--row:#1d2026}}\n"
    "body{margin:2rem auto;padding:0 1.5rem;max-width:1240px;color:var(--ink);"
    "background:var(--paper);font:15px/1.45 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,"
    "sans-serif}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .6rem}\n"
    "p{margin:.3rem 0;color:var(--soft)}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:13px}\n"
    "th,td{padding:.3rem .7rem .3rem 0;text-align:left;white-space:nowrap;vertical-align:top}\n"
    "th{border-bottom:1px solid var(--soft);font-weight:600}\n"
    "td{border-bottom:1px solid var(--line)}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums}\n"
    ".k{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px}\n"
    ".v{white-space:normal;overflow-wrap:anywhere;max-width:34rem}\n"
    /* So that all columns, to the hash at the end, are on the page: titles and words take more lines. */
    "#runs th{white-space:normal;vertical-align:bottom;padding-right:.9rem}\n"
    "#runs td{padding-right:.9rem}#runs td:not(.n):not(.k){white-space:normal}\n"
    "#runs td:first-child{overflow-wrap:anywhere;min-width:4rem;max-width:16rem}\n"
    "tbody tr:hover{background:var(--row)}\n"
    "th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--soft)}\n"
    "th[aria-sort=ascending] button::after{content:' \\25B2';font-size:9px}\n"
    "th[aria-sort=descending] button::after{content:' \\25BC';font-size:9px}\n"
    "svg{max-width:100%;height:auto}summary{cursor:pointer;color:var(--soft)}\n"
    "@page{size:landscape}\n"
    "@media print{body{margin:0;max-width:none;font-size:11px}table{font-size:9px}"
    "th,td{padding-right:.5rem}}\n"
    "</style>\n</head>\n<body>\n<h1>Lockstep report</h1>\n";

/* A click on a title sorts by that column, a second one the other way round. */
static const char script[] =
    "<script>\n"
    "for (const button of document.querySelectorAll('#runs th button')) {\n"
    "  button.addEventListener('click', () => {\n"
    "    const title = button.parentNode, at = title.cellIndex;\n"
    "    const down = title.getAttribute('aria-sort') === 'ascending';\n"
    "    for (const other of title.parentNode.cells) other.removeAttribute('aria-sort');\n"
    "    title.setAttribute('aria-sort', down ? 'descending' : 'ascending');\n"
    "    const body = document.querySelector('#runs tbody');\n"
    "    const key = row => row.cells[at].dataset.n;\n"
    "    const compare = (a, b) => key(a) !== undefined && key(b) !== undefined\n"
    "      ? key(a) - key(b)\n"
    "      : row_text(a).localeCompare(row_text(b));\n"
    "    const row_text = row => row.cells[at].textContent;\n"
    "    const rows = [...body.rows].sort(compare);\n"
    "    if (down) rows.reverse();\n"
    "    body.append(...rows);\n"
    "  });\n"
    "}\n"
    "</script>\n";

static void runs_html_print_runs(FILE *out, const cli_runs *runs)
{
    fputs("<div class=\"wide\"><table id=\"runs\">\n<thead><tr>", out);
    for (int c = 0; c < RUN_COLUMNS; c++) {
        if (!run_column_is_used(runs, (run_column)c)) continue;
        fprintf(out, "<th%s><button>%s</button></th>",
                run_column_is_number((run_column)c) ? " class=\"n\"" : "", run_titles[c]);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int r = 0; r < runs->count; r++) {
        fputs("<tr>", out);
        for (int c = 0; c < RUN_COLUMNS; c++) {
            const run_cell *cell = &runs->cell[r][c];
            if (!run_column_is_used(runs, (run_column)c)) continue;
            fputs(run_column_is_number((run_column)c) ? "<td class=\"n\""
                  : c == RUN_HASH                     ? "<td class=\"k\""
                                                      : "<td",
                  out);
            if (isfinite(cell->number)) fprintf(out, " data-n=\"%.17g\"", cell->number);
            fputc('>', out);
            text_print_xml(out, cell->text);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table></div>\n", out);
    for (int i = 0; i < runs->same; i++) {
        fputs("<p>The same bits: ", out);
        text_print_xml(out, runs->same_run[i]);
        fputs("</p>\n", out);
    }
}

static void runs_html_print_cell(FILE *out, const char *tag, const char *text)
{
    fprintf(out, "<%s>", tag);
    text_print_xml(out, text);
    fprintf(out, "</%.2s>", tag);
}

static void begin_table(FILE *out, const char *title)
{
    fputs("<div class=\"wide\"><table>\n<thead><tr>", out);
    runs_html_print_cell(out, "th", title);
}

/* Settings that differ: a row for each and a column for each run, or the other way round, as few
 * columns as can be. */
static void runs_html_print_differences(FILE *out, const cli_runs *runs)
{
    const bool by_run = runs->count > runs->differing;
    begin_table(out, by_run ? "run" : "setting");
    for (int i = 0; i < runs->settings && by_run; i++)
        if (runs->setting[i].differs)
            runs_html_print_cell(out, "th class=\"k\"", runs->setting[i].key);
    for (int r = 0; r < runs->count && !by_run; r++) runs_html_print_cell(out, "th", runs->name[r]);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int r = 0; r < runs->count && by_run; r++) {
        fputs("<tr>", out);
        runs_html_print_cell(out, "td", runs->name[r]);
        for (int i = 0; i < runs->settings; i++)
            if (runs->setting[i].differs)
                runs_html_print_cell(out, "td class=\"k v\"", runs->setting[i].text[r]);
        fputs("</tr>\n", out);
    }
    for (int i = 0; i < runs->settings && !by_run; i++) {
        if (!runs->setting[i].differs) continue;
        fputs("<tr>", out);
        runs_html_print_cell(out, "td class=\"k\"", runs->setting[i].key);
        for (int r = 0; r < runs->count; r++)
            runs_html_print_cell(out, "td class=\"k v\"", runs->setting[i].text[r]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table></div>\n", out);
}

/* Settings that all runs share. */
static void print_shared(FILE *out, const cli_runs *runs)
{
    begin_table(out, "setting");
    fputs("<th>value</th></tr></thead>\n<tbody>\n", out);
    for (int i = 0; i < runs->settings; i++) {
        if (runs->setting[i].differs) continue;
        fputs("<tr>", out);
        runs_html_print_cell(out, "td class=\"k\"", runs->setting[i].key);
        runs_html_print_cell(out, "td class=\"k v\"", runs->setting[i].text[0]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table></div>\n", out);
}

void runs_print_html(FILE *out, const cli_runs *runs)
{
    cli_pool pool = {0};
    fprintf(out, "%s<p>%d run%s, by lockstep %s</p>\n", head, runs->count, TEXT_S(runs->count),
            lks_version());
    fputs("<h2>Runs</h2>\n", out);
    runs_html_print_runs(out, runs);
    if (runs->panels > 0) {
        fputs("<h2>Curves</h2>\n", out);
        plot_print_svg(out, &(plot_figure){.panels = runs->panels,
                                           .panel = runs->panel,
                                           .names = runs->count,
                                           .name = runs->name});
    }
    runs_print_scores(runs, &pool, out);
    if (runs->count > 1) fputs("<h2>Differences</h2>\n", out);
    if (runs->differing > 0)
        runs_html_print_differences(out, runs);
    else if (runs->count > 1)
        fputs("<p>None: all runs have the same configuration.</p>\n", out);
    fputs(runs->count > 1 ? "<h2>What all runs share</h2>\n" : "<h2>Configuration</h2>\n", out);
    fprintf(out, "<details%s><summary>%d setting%s</summary>\n", runs->count > 1 ? "" : " open",
            runs->settings - runs->differing, TEXT_S(runs->settings - runs->differing));
    print_shared(out, runs);
    fprintf(out, "</details>\n%s</body>\n</html>\n", script);
    pool_clear(&pool);
}
