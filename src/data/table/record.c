#include "data/table/record.h"

#include <string.h>
#include <strings.h>

#include "base/eight.h"
#include "numeric/decimal.h"

const uint8_t *lki_csv_record_end(const lki_csv *csv, const uint8_t *at, bool inside)
{
    for (;;) {
        const uint8_t *feed = memchr(at, '\n', (size_t)(csv->end - at));
        if (feed == NULL) feed = csv->end;
        if (!csv->quotes) return feed;
        for (; (at = memchr(at, '"', (size_t)(feed - at))) != NULL; at++) inside = !inside;
        if (!inside || feed == csv->end) return feed;
        at = feed + 1;
    }
}

const uint8_t *lki_csv_next(const lki_csv *csv, const uint8_t *end)
{
    return end < csv->end ? end + 1 : end;
}

bool lki_csv_record_is_empty(const uint8_t *at, const uint8_t *end)
{
    return at == end || (end - at == 1 && *at == '\r');
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\r';
}

/* Behind the opening quote. */
static const uint8_t *read_quoted(const lki_csv *csv, const uint8_t *at, const uint8_t *end,
                                  lki_field *out)
{
    out->text = at;
    at = memchr(at, '"', (size_t)(end - at));
    while (at != NULL && at + 1 < end && at[1] == '"')
        at = memchr(at + 2, '"', (size_t)(end - at - 2));
    out->bytes = (size_t)((at != NULL ? at : end) - out->text);
    if (at == NULL) {
        out->wrong = "opens a quote that nothing closes";
        return end;
    }
    at++;
    while (at < end && *at != csv->separator && is_blank(*at)) at++;
    if (at < end && *at != csv->separator) out->wrong = "has text behind its closing quote";
    return at;
}

/*
 * Where a field without quotes ends; *quote: there is one in it. Eight bytes are looked at in one go, of what is behind the record,
 * too: where a loop over a text ends cannot be foreseen.
 */
static const uint8_t *plain_end(const lki_csv *csv, const uint8_t *at, const uint8_t *end,
                                bool *quote)
{
    const uint64_t separators = lki_eight_of(csv->separator), quotes = lki_eight_of('"');
    *quote = false;
    while (at < end && csv->end - at >= 8) {
        const uint64_t x = lki_eight_load(at), stops = lki_eight_zeros(x ^ separators);
        const int most = end - at < 8 ? (int)(end - at) : 8;
        const int found = stops != 0 ? __builtin_ctzll(stops) / 8 : 8;
        const int count = found < most ? found : most;
        *quote |= count > 0 && lki_eight_zeros(x ^ quotes) << (64 - 8 * count) != 0;
        at += count;
        if (count < 8) return at;
    }
    for (; at < end && *at != csv->separator; at++) *quote |= *at == '"';
    return at;
}

const uint8_t *lki_csv_field(const lki_csv *csv, const uint8_t *at, const uint8_t *end,
                             lki_field *out)
{
    bool quote;
    out->wrong = NULL;
    while (at < end && *at == ' ') at++;
    if (at < end && *at == '"') return read_quoted(csv, at + 1, end, out);
    const uint8_t *stop = plain_end(csv, at, end, &quote);
    out->text = at;
    out->bytes = (size_t)(stop - at);
    while (out->bytes > 0 && is_blank(at[out->bytes - 1])) out->bytes--;
    if (quote)
        out->wrong = "has a quote in the middle; put it between quotes, and double those inside";
    return stop;
}

int64_t lki_csv_field_count(const lki_csv *csv, const uint8_t *at, const uint8_t *end)
{
    lki_field field;
    for (int64_t count = 1;; count++) {
        at = lki_csv_field(csv, at, end, &field);
        if (field.wrong != NULL) return -1;
        if (at == end) return count;
        at++;
    }
}

char *lki_csv_unquote(char *to, const void *text, size_t bytes)
{
    const char *from = text;
    for (size_t i = 0; i < bytes; i++) {
        *to++ = from[i];
        i += from[i] == '"' && i + 1 < bytes && from[i + 1] == '"';
    }
    *to = '\0';
    return to;
}

bool lki_csv_field_is_missing(const lki_field *field)
{
    static const char *const words[] = {"na", "n/a", "nan", "null", "none", "<na>", "#n/a"};
    if (field->bytes == 0) return true;
    if (field->bytes > 4 || strchr("nN<#", field->text[0]) == NULL) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (field->bytes == strlen(words[i]) &&
            strncasecmp((const char *)field->text, words[i], field->bytes) == 0)
            return true;
    return false;
}

bool lki_csv_field_has_comma(const lki_field *field)
{
    char plain[32];
    const uint8_t *text = field->text;
    size_t kept = 0, commas = 0, apart = 3; /* digits between a comma and the next */
    double number;
    bool thousands = true;
    if (field->bytes > sizeof plain) return false;
    for (size_t i = 0; i < field->bytes; i++, apart++) {
        if (text[i] != ',' && text[i] != '.') plain[kept++] = (char)text[i];
        if (text[i] != ',') continue;
        if (i == 0 || i + 1 == field->bytes || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
            return false;
        thousands &= commas++ == 0 || apart == 3;
        apart = (size_t)-1;
    }
    return commas > 0 && thousands && lki_decimal_read(plain, kept, &number);
}
