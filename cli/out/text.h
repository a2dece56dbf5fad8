/* Text made from values: numbers, JSON and YAML, and files that appear whole or not at all. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <lockstep/status.h>

#include "cli/pool.h"

enum { TEXT_NUMBER_SIZE = 32 };

/* The end of a noun behind a number: say("%d step%s", n, TEXT_S(n)). */
#define TEXT_S(count) ((count) == 1 ? "" : "s")

/* From here on it is noted where JSON finds no memory, so that a value may lack parts. */
void text_watch_memory(void);
/* LKS_E_NOMEM when that has happened: text_json() gives nothing from then on, and no file is
 * written. */
LKS_MUSTUSE lks_status text_memory(void);

/* JSON on one line, or with `indent` > 0 on several; numbers at their shortest, NaN as null. */
void text_print_json(FILE *out, const json_t *json, int indent);

/* The same on standard output, and the end of its line. */
void text_say_json(const json_t *json, int indent);

/* The same value as YAML on one line, with quotes only where they are needed. */
void text_print_yaml(FILE *out, const json_t *json);

/* JSON as text on one line; free() it. NULL: no memory. */
char *text_json(const json_t *json);

/* YAML as text on one line in the pool; empty where there is no memory, which text_memory() tells. */
const char *text_yaml(cli_pool *pool, const json_t *json);

/* A number that may be NaN, as JSON: then null. */
json_t *text_json_real(double number);

/* Writes a file as lks_file_write() does, behind what standard output has kept. */
LKS_MUSTUSE lks_status text_write_bytes(const char *path, const void *data, size_t bytes);

/* The same; `print` prints what is in it. */
typedef void (*text_printer)(FILE *out, const void *user);
LKS_MUSTUSE lks_status text_write_file(const char *path, text_printer print, const void *user);

/* The same with JSON in it. */
LKS_MUSTUSE lks_status text_write_json(const char *path, const json_t *json);

/* Text between tags or in an attribute of XML or HTML; it must be clean. */
void text_print_xml(FILE *out, const char *text);

/* A copy in the pool for people's eyes, whatever the bytes are: control characters and what is no
 * UTF-8 become '?'. */
const char *text_clean(cli_pool *pool, const char *text);

/* Whether the name of a file ends in one of these (".png"), in letters of any size; the last is NULL. */
bool text_has_end(const char *const *ends, const char *name);

/* "12%" in the pool, of a share from 0 to 1; "-" of any other number, which is none. */
const char *text_share(cli_pool *pool, double share);

/* Prints text and a line end, broken between words so that no line is wider than `width` (0: any
 * width will do). The cursor is at `used`, further lines begin at `indent`. */
void text_print_wrapped(FILE *out, const char *text, int used, int indent, int width);

/* Prints a line as it is, spaces and all, and its end, but broken between words where it is wider than
 * `width` (0: any width will do). Further lines begin under its last column, if it has columns (two
 * spaces or more between them) in its left half, else two further in. */
void text_print_line(FILE *out, const char *line, int width);

/* Columns of a terminal that UTF-8 takes, and the bytes of it that fit into `most` of them. */
int text_length(const char *text);
int text_bytes(const char *text, int most);
/* Spaces that fill it up to so many columns; 0 where it has more. */
int text_gap(const char *text, int width);

#endif
