/* Tables of text on standard output, or of a page. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/pool.h"

typedef struct cli_table {
    int rows, columns;
    const char **title; /* of each column; clean text, as the cells are */
    const char **cell;  /* [row * columns + column] */
    const bool *right;  /* columns that are aligned to the right; NULL: none */
} cli_table;

/* Prints it, in parts that each begin with the first column where it is wider than `width`
 * characters (0: any width will do). */
void table_print(const cli_table *table, int width);
/* The same on a page of HTML; NULL: on standard output, as wide as that is. */
void table_print_on(FILE *page, const cli_table *table);

#endif
