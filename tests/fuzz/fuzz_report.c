/*
 * Records of trainings, as `lockstep report` reads them: up to four, divided by a byte 0x1e. The
 * page and the curves have no tag but their own, whatever stands in the records.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/runs.h"
#include "fuzz/fuzz.h"

static bool is_own(const char *tag, size_t length)
{
    static const char *const tags[] = {
        "!DOCTYPE", "html", "head",    "meta",    "title",    "style",    "body", "h1",   "h2",
        "p",        "div",  "table",   "thead",   "tbody",    "tr",       "th",   "td",   "button",
        "details",  "svg",  "summary", "script",  "g",        "path",     "line", "text", "rect",
        "circle",   "desc", "tspan",   "polygon", "clipPath", "polyline", "use",  "defs", "figure",
    };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (strlen(tags[i]) == length && strncmp(tags[i], tag, length) == 0) return true;
    return false;
}

static void check_tags(const char *text)
{
    for (const char *at = text; (at = strchr(at, '<')) != NULL;) {
        at += 1 + (at[1] == '/');
        size_t length = 0;
        while (at[length] == '!' || isalnum((unsigned char)at[length])) length++;
        if (!is_own(at, length)) fprintf(stderr, "tag <%.40s\n", at);
        FUZZ_CHECK(is_own(at, length));
    }
}

static void check_page(const cli_runs *runs)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    FUZZ_CHECK(out != NULL);
    runs_print_html(out, runs);
    FUZZ_CHECK(fclose(out) == 0 && strlen(text) == bytes);
    /* The page's own script comes last, and has a "<" or two. */
    char *script = strstr(text, "<script>\n");
    FUZZ_CHECK(script != NULL);
    *script = '\0';
    check_tags(text);
    free(text);
}

static char *print_curves(const cli_runs *runs, bool as_text)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    FUZZ_CHECK(out != NULL);
    for (int i = 0; i < runs->panels && as_text; i++)
        plot_print_text(out, &runs->panel[i],
                        &(plot_terminal){.width = 60 + i, .letters = true, .unicode = i % 2 == 0});
    if (!as_text && runs->panels > 0)
        plot_print_svg(out, &(plot_figure){.panels = runs->panels,
                                           .panel = runs->panel,
                                           .names = runs->count,
                                           .name = runs->name,
                                           .whole = true});
    FUZZ_CHECK(fclose(out) == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *paths[FUZZ_FILES];
    int count = 0;
    static cli_runs runs;
    const uint8_t *end = data + bytes;
    for (const uint8_t *from = data; from != NULL && count < FUZZ_FILES; count++) {
        const uint8_t *cut = from < end ? memchr(from, 0x1e, (size_t)(end - from)) : NULL;
        const uint8_t *to = cut != NULL ? cut : end;
        paths[count] = (char *)(uintptr_t)fuzz_file(count, from, (size_t)(to - from));
        from = cut != NULL ? cut + 1 : NULL;
    }
    const lks_status status = runs_read(&runs, count, paths, NULL);
    if (status == LKS_OK) {
        char *svg = print_curves(&runs, false);
        check_page(&runs);
        check_tags(svg);
        free(print_curves(&runs, true));
        free(svg);
    } else {
        fuzz_check_failure(status);
    }
    runs_clear(&runs);
    return 0;
}
