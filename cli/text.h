/* Text made from values: numbers, JSON and YAML, and files that appear whole or not at all. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <lockstep/status.h>

enum { TEXT_NUMBER_SIZE = 32 };

/* The shortest decimal number that reads back as the same double; nan, inf as such. */
const char *text_number(char text[TEXT_NUMBER_SIZE], double number);

/* 60000 -> "60,000" */
const char *text_count(char text[TEXT_NUMBER_SIZE], int64_t count);

/* JSON on one line, or with `indent` > 0 on several; numbers at their shortest, NaN as null. */
void text_print_json(FILE *out, const json_t *json, int indent);

/* The same value as YAML on one line, with quotes only where they are needed. */
void text_print_yaml(FILE *out, const json_t *json);

/* The same as text on one line; free() it. NULL: no memory. */
char *text_json(const json_t *json);

/* A number that may be NaN, as JSON: then null. */
json_t *text_json_real(double number);

/* Writes JSON to a file by a temporary file, fsync and rename. */
LKS_MUSTUSE lks_status text_write_json(const char *path, const json_t *json);

#endif
