/* Exit codes. */
#ifndef CLI_EXIT_CODE_H
#define CLI_EXIT_CODE_H

#include <stdbool.h>
#include <stdio.h>

#include <lockstep/status.h>

enum { EXIT_DIFFERENT = 1, EXIT_INVALID = 2, EXIT_WARNING = 10, EXIT_ERROR = 11 };

/* The exit code for a status, and the table of all codes as --help prints it. */
int exit_code_of(lks_status status);
void exit_codes_print(FILE *out);
/* Row `row` of that table, from 0; false behind the last. */
bool exit_code_row(int row, int *code, const char **text);

#endif
