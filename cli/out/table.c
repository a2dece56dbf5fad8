#include "cli/out/table.h"

#include "cli/out/say.h"
#include "cli/out/text.h"

enum { GAP = 2 };

static int width_of(const cli_table *t, int column)
{
    int width = text_length(t->title[column]);
    for (int row = 0; row < t->rows; row++) {
        const int length = text_length(t->cell[row * t->columns + column]);
        if (length > width) width = length;
    }
    return width;
}

static void table_print_cell(const cli_table *t, const char *text, int column, bool last)
{
    const int pad = text_gap(text, width_of(t, column));
    const bool right = t->right != NULL && t->right[column];
    printf("%*s%s", right ? pad : 0, "", text);
    if (!last) printf("%*s", (right ? 0 : pad) + GAP, "");
}

/* The first column, and those from `first` to before `end`; row -1 is the titles. */
static void table_print_row(const cli_table *t, int row, int first, int end)
{
    const char *const *text = row < 0 ? t->title : t->cell + row * t->columns;
    table_print_cell(t, text[0], 0, first == end);
    for (int column = first; column < end; column++)
        table_print_cell(t, text[column], column, column == end - 1);
    putchar('\n');
}

void table_print(const cli_table *t, int width)
{
    int first = 1;
    do {
        int used = width_of(t, 0), end = first;
        while (end < t->columns) {
            used += GAP + width_of(t, end);
            if (width > 0 && used > width && end > first) break;
            end++;
        }
        if (first > 1) putchar('\n');
        for (int row = -1; row < t->rows; row++) table_print_row(t, row, first, end);
        first = end;
    } while (first < t->columns);
}

static void print_page_row(FILE *page, const cli_table *t, const char *tag, const char *const *text)
{
    fputs("<tr>", page);
    for (int column = 0; column < t->columns; column++) {
        const bool right = t->right != NULL && t->right[column];
        fprintf(page, "<%s%s>", tag, right ? " class=\"n\"" : "");
        text_print_xml(page, text[column]);
        fprintf(page, "</%s>", tag);
    }
    fputs("</tr>\n", page);
}

void table_print_on(FILE *page, const cli_table *t)
{
    if (page == NULL) {
        table_print(t, say_columns());
        return;
    }
    fputs("<div class=\"wide\"><table>\n<thead>", page);
    print_page_row(page, t, "th", t->title);
    fputs("</thead>\n<tbody>\n", page);
    for (int row = 0; row < t->rows; row++)
        print_page_row(page, t, "td", t->cell + row * t->columns);
    fputs("</tbody>\n</table></div>\n", page);
}
