/*
 * What the program prints: results to standard output, everything else to standard error, and exit
 * codes. On a terminal, a status line (the progress bar) is kept below the other lines.
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdbool.h>
#include <stdio.h>

#include <lockstep/context.h>

#include "cli/exit_code.h"

/* No line of the help is wider, whatever it is printed on. */
enum { HELP_WIDTH = 80 };

/* A line on standard output; on a terminal broken between words, where it is too long. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "lockstep: <sentence>" on standard error, with "?" for control characters; broken in the same way. */
void say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "lockstep: <sentence>: <command>"; on a terminal the command is whole on lines of its own, to copy. */
void say_command(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says lines of the library's log in the same way: an lks_log_fn, and options of a context with it. */
void say_log(void *user, lks_log_level level, const char *line);
extern const lks_context_opts say_logged;

/* Draws `line` (no newline, not wider than the terminal) on standard error in place of the last;
 * NULL removes it. */
void say_status(const char *line);

/* Draws a status line "<head>  45% [###....]  <field>  <field>". `share` is from 0 to 1. A field that
 * is empty or has no room is left out, the bar gets what they leave, and where there is no room for
 * the head nothing is drawn. */
void say_bar(const char *head, double share, const char *const *fields, int count);

/* Columns of the terminal on standard error; 0 when it is none that a line can be redrawn on. */
int say_width(void);

/* Columns of the terminal on standard output; 0 when it is none, or one without colours. */
int say_columns(void);

/* Whether standard output is a terminal with colours, which NO_COLOR does not forbid. */
bool say_colour(void);

/* Of several processes one talks. For the others: from here on results and sentences go nowhere; or behind
 * what is in <folder>/ranks/rank-<rank>.log, if that can be written; and a sentence for standard error all
 * the same, where nobody else may be left to say it. */
void say_nothing(void);
void say_into(const char *folder, int rank);
void say_aloud(int rank, const char *sentence);
/* A sentence for standard error from any thread, whatever the others are doing. */
void say_urgent(const char *sentence);

/* Whether characters beyond ASCII can be shown, by LC_ALL, LC_CTYPE or LANG. */
bool say_unicode(void);

/* LKS_E_IO when something could not be written to standard output. */
LKS_MUSTUSE lks_status say_flush(void);

#endif
