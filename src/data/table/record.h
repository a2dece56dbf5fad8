/* Records and fields of CSV text. */
#ifndef LKI_DATA_TABLE_RECORD_H
#define LKI_DATA_TABLE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lki_csv {
    const uint8_t *data, *end;
    uint8_t separator;
    bool quotes; /* whether there is one anywhere */
} lki_csv;

/* The line feed that ends the record at `at`, or the end of the text. `inside`: `at` is between quotes. */
const uint8_t *lki_csv_record_end(const lki_csv *csv, const uint8_t *at, bool inside);
/* Where the record behind the one that ends at `end` begins, or the end of the text. */
const uint8_t *lki_csv_next(const lki_csv *csv, const uint8_t *end);
/* Whether the record [at, end) is an empty line. */
bool lki_csv_record_is_empty(const uint8_t *at, const uint8_t *end);

typedef struct lki_field {
    const uint8_t *text; /* without spaces and quotes around it */
    size_t bytes;
    const char *wrong; /* what is wrong with its quotes; NULL: nothing */
} lki_field;

/* The field at `at` of a record that ends at `end`. Returns where it ends: at a separator, or at `end`. */
const uint8_t *lki_csv_field(const lki_csv *csv, const uint8_t *at, const uint8_t *end,
                             lki_field *out);
/* How many there are in a record; -1: quotes are wrong. */
int64_t lki_csv_field_count(const lki_csv *csv, const uint8_t *at, const uint8_t *end);

/* Copies what a field says, with doubled quotes made single, and a zero byte behind it; returns where that is. */
char *lki_csv_unquote(char *to, const void *text, size_t bytes);
/* Whether it says that there is no value. */
bool lki_csv_field_is_missing(const lki_field *field);
/* Whether it is a number as others write it: "0,5", "1.234,5" or "1,234,567.8"; what "1,2,3" is nobody knows. */
bool lki_csv_field_has_comma(const lki_field *field);

#endif
