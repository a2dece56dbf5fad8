#include "data/table/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/float.h"
#include "numeric/decimal.h"

/* Parts of a time, in the order in which they are written. */
enum { YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, PARTS };
enum { LONGEST = 40, DAY_SECONDS = 86400, EVERY_MONTH_HAS = 28, YEAR_DIGITS = 4 };

/* What all times of a column have in common. */
typedef struct form {
    int parts;          /* how many of them there are */
    char before[PARTS]; /* what stands in front of each but the first */
    bool zulu;          /* a Z ends it */
    int digits[PARTS];  /* of a number below 10: 1 or 2; 0: none has been seen */
} form;

typedef struct instant {
    int64_t part[PARTS];
} instant;

/* ---------------------------------------------------------------- the Gregorian calendar */

/* Days since the first of March of the year 0: years that begin with March have their leap day at the end. */
static int64_t day_number(const instant *t)
{
    const int64_t month = (t->part[MONTH] + 9) % 12, year = t->part[YEAR] - month / 10;
    return 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + t->part[DAY] -
           1;
}

static void set_day(instant *out, int64_t number)
{
    enum { DAYS_4 = 1460, DAYS_100 = 36524, DAYS_400 = 146097 };
    const int64_t rest = number % DAYS_400;
    const int64_t year = (rest - rest / DAYS_4 + rest / DAYS_100 - rest / (DAYS_400 - 1)) / 365;
    const int64_t day = rest - (365 * year + year / 4 - year / 100), month = (5 * day + 2) / 153;
    out->part[DAY] = day - (153 * month + 2) / 5 + 1;
    out->part[MONTH] = month < 10 ? month + 3 : month - 9;
    out->part[YEAR] = year + number / DAYS_400 * 400 + month / 10;
}

static bool is_date(const instant *t)
{
    instant same = {0};
    if (t->part[YEAR] < 1 || t->part[MONTH] < 1 || t->part[MONTH] > 12 || t->part[DAY] < 1 ||
        t->part[DAY] > 31)
        return false;
    set_day(&same, day_number(t));
    return same.part[DAY] == t->part[DAY]; /* 2021-02-29 is none */
}

static bool is_instant(const instant *t)
{
    return is_date(t) && t->part[HOUR] < 24 && t->part[MINUTE] < 60 && t->part[SECOND] < 60;
}

static int64_t second_of_day(const instant *t)
{
    return (t->part[HOUR] * 60 + t->part[MINUTE]) * 60 + t->part[SECOND];
}

static int64_t seconds_of(const instant *t)
{
    return day_number(t) * DAY_SECONDS + second_of_day(t);
}

static int64_t months_of(const instant *t)
{
    return t->part[YEAR] * 12 + t->part[MONTH] - 1;
}

/* ---------------------------------------------------------------- as texts */

typedef struct cursor {
    const char *at, *end;
} cursor;

/* One or two digits, of years four. */
static bool read_part(cursor *c, int part, instant *out, int *digits)
{
    const int most = part == YEAR ? YEAR_DIGITS : 2;
    for (*digits = 0; *digits < most && c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        out->part[part] = out->part[part] * 10 + *c->at - '0';
        ++*digits;
    }
    return *digits > 0 && (part != YEAR || *digits == YEAR_DIGITS);
}

static bool may_stand_before(int part, char sign, const form *f)
{
    if (part == MONTH) return sign == '-' || sign == '/';
    if (part == DAY) return sign == f->before[MONTH];
    if (part == HOUR) return sign == ' ' || sign == 'T';
    return sign == ':';
}

/* The time of a text, and its form; false: it has none. */
static bool read_instant(instant *out, form *f, cursor c)
{
    *out = (instant){{0, 1, 1, 0, 0, 0}};
    *f = (form){0};
    while (f->parts < PARTS) {
        const int part = f->parts;
        int digits;
        out->part[part] = 0;
        if (!read_part(&c, part, out, &digits)) return false;
        if (part != YEAR && out->part[part] < 10) f->digits[part] = digits;
        f->parts++;
        if (c.at == c.end || *c.at == 'Z') break;
        if (f->parts == PARTS || !may_stand_before(f->parts, *c.at, f)) return false;
        f->before[f->parts] = *c.at++;
    }
    f->zulu = c.at < c.end && *c.at == 'Z';
    c.at += f->zulu;
    return c.at == c.end && f->parts != 1 && f->parts != HOUR + 1 && is_instant(out);
}

/* Whether `one` has the form of those before it, which then is that of both. */
static bool join_forms(form *all, const form *one)
{
    if (all->parts == 0) *all = *one;
    if (all->parts != one->parts || all->zulu != one->zulu ||
        memcmp(all->before, one->before, sizeof all->before) != 0)
        return false;
    for (int i = 0; i < PARTS; i++) {
        if (all->digits[i] == 0) all->digits[i] = one->digits[i];
        if (one->digits[i] != 0 && one->digits[i] != all->digits[i]) return false;
    }
    return true;
}

static void write_instant(char out[LONGEST], const instant *t, const form *f)
{
    size_t used = (size_t)snprintf(out, LONGEST, "%04d", (int)t->part[YEAR]);
    for (int i = 1; i < f->parts; i++)
        used += (size_t)snprintf(out + used, LONGEST - used, "%c%0*d", f->before[i],
                                 f->digits[i] == 1 ? 1 : 2, (int)t->part[i]);
    snprintf(out + used, LONGEST - used, "%s", f->zulu ? "Z" : "");
}

/* ---------------------------------------------------------------- numbers */

/* Steps are counted in units of the last decimal that a number of the column has, up to so many. */
static const int64_t MOST_UNITS = 100000000000000000;

typedef struct numbers {
    int decimals; /* the most of any */
    bool differ;  /* others have fewer */
    bool counted; /* all are digits and a point, and no more units */
    int64_t last, step;
} numbers;

static int decimals_of(cursor c)
{
    const char *point = memchr(c.at, '.', (size_t)(c.end - c.at));
    return point != NULL ? (int)(c.end - point) - 1 : 0;
}

/* False: it has an exponent, or too many units. */
static bool count_units(int64_t *out, cursor c, int decimals)
{
    const bool negative = c.at < c.end && *c.at == '-';
    int64_t units = 0;
    for (const char *at = c.at + negative; at < c.end; at++) {
        if (*at == '.') continue;
        if (*at < '0' || *at > '9' || units > MOST_UNITS) return false;
        units = units * 10 + *at - '0';
    }
    for (int k = decimals_of(c); k < decimals && units <= MOST_UNITS; k++) units *= 10;
    *out = negative ? -units : units;
    return units <= MOST_UNITS;
}

static void write_number(char out[LONGEST], int64_t units, const numbers *n)
{
    const uint64_t size = units < 0 ? -(uint64_t)units : (uint64_t)units;
    char digits[LONGEST];
    int decimals = n->decimals;
    /* At least one digit in front of the point. */
    const int count = snprintf(digits, sizeof digits, "%0*" PRIu64, decimals + 1, size);
    const int whole = count - decimals;
    while (n->differ && decimals > 0 && digits[whole + decimals - 1] == '0') decimals--;
    snprintf(out, LONGEST, "%s%.*s%s%.*s", units < 0 ? "-" : "", whole, digits,
             decimals > 0 ? "." : "", decimals, digits + whole);
}

/* ---------------------------------------------------------------- columns */

typedef struct column {
    int number;
    size_t bytes; /* of all its texts, with a '\0' behind each */
    int64_t back; /* the first row whose time is before that of the row before; 0: none is */
    form form;    /* of dates; */
    instant last;
    int64_t seconds, months; /* of every step; 0: they differ */
    bool has_numbers;        /* in their place these */
    numbers numbers;
} column;

static cursor text_of(const lki_table *table, int64_t row, int number)
{
    size_t bytes;
    const lki_cell cell = lki_table_cell(table, row, number);
    const char *text = lki_table_text(table, cell, &bytes);
    return (cursor){text, text + bytes};
}

/* From `before` to `now`, in months: 0 where these are not the same day and time of it. */
static int64_t months_between(const instant *before, const instant *now)
{
    const bool same = before->part[DAY] == now->part[DAY] && now->part[DAY] <= EVERY_MONTH_HAS &&
                      second_of_day(before) == second_of_day(now);
    return same ? months_of(now) - months_of(before) : 0;
}

static void follow(column *c, int64_t row, const instant *now)
{
    const instant before = c->last;
    c->last = *now;
    if (row == 0) return;
    const int64_t seconds = seconds_of(now) - seconds_of(&before);
    const int64_t months = months_between(&before, now);
    if (seconds < 0 && c->back == 0) c->back = row;
    if (row == 1) {
        c->seconds = seconds;
        c->months = months;
    }
    if (c->seconds != seconds) c->seconds = 0;
    if (c->months != months) c->months = 0;
}

static size_t bytes_of(cursor text)
{
    return (size_t)(text.end - text.at);
}

/* As many as a message may have. */
static int shown_bytes(cursor text)
{
    return (int)(bytes_of(text) < LONGEST ? bytes_of(text) : LONGEST);
}

/* The rows from the first on that have a time. */
static int64_t take_dates(column *out, const lki_table *table, int number)
{
    *out = (column){.number = number};
    for (int64_t row = 0; row < table->rows; row++) {
        const cursor text = text_of(table, row, number);
        instant now;
        form one;
        if (!read_instant(&now, &one, text) || !join_forms(&out->form, &one)) return row;
        follow(out, row, &now);
        out->bytes += bytes_of(text) + 1;
    }
    return table->rows;
}

static void follow_number(numbers *n, int64_t row, cursor text)
{
    int64_t now = 0;
    n->counted = n->counted && count_units(&now, text, n->decimals);
    if (row == 1) n->step = now - n->last;
    if (row > 1 && n->step != now - n->last) n->step = 0;
    n->last = now;
}

/* Likewise. */
static int64_t take_numbers(column *out, const lki_table *table, int number)
{
    numbers *n = &out->numbers;
    *out = (column){.number = number, .has_numbers = true, .numbers.counted = true};
    double before = 0;
    for (int64_t row = 0; row < table->rows; row++) {
        const cursor text = text_of(table, row, number);
        const int decimals = decimals_of(text);
        double value;
        if (!lki_decimal_read(text.at, bytes_of(text), &value)) return row;
        n->differ = n->differ || (row > 0 && decimals != n->decimals);
        if (decimals > n->decimals) n->decimals = decimals;
        if (row > 0 && value < before && out->back == 0) out->back = row;
        before = value;
        out->bytes += bytes_of(text) + 1;
    }
    n->counted = n->decimals < LONGEST / 2;
    for (int64_t row = 0; row < table->rows; row++)
        follow_number(n, row, text_of(table, row, number));
    return table->rows;
}

/* Behind the last; false: nobody knows. */
static bool next_instant(instant *out, const column *c)
{
    *out = c->last;
    if (c->months > 0) { /* first: the years of 2021 to 2024 are as many seconds each, too */
        const int64_t next = months_of(&c->last) + c->months;
        out->part[YEAR] = next / 12;
        out->part[MONTH] = next % 12 + 1;
    } else if (c->seconds > 0) {
        const int64_t next = seconds_of(&c->last) + c->seconds, second = next % DAY_SECONDS;
        set_day(out, next / DAY_SECONDS);
        out->part[HOUR] = second / 3600;
        out->part[MINUTE] = second / 60 % 60;
        out->part[SECOND] = second % 60;
    }
    return c->seconds > 0 || c->months > 0;
}

/* The same, as it would stand in the file. */
static bool write_next(char out[LONGEST], const column *c)
{
    const numbers *n = &c->numbers;
    instant next;
    if (c->has_numbers && n->counted && n->step > 0) {
        write_number(out, n->last + n->step, n);
        return true;
    }
    if (c->has_numbers || !next_instant(&next, c)) return false;
    write_instant(out, &next, &c->form);
    return true;
}

static lks_status copy_times(const char **out, lki_arena *arena, const lki_table *table,
                             const column *c)
{
    void *memory;
    char next[LONGEST];
    LKI_TRY(lki_arena_alloc(arena, &memory, c->bytes, "times of a series"));
    char *to = memory;
    for (int64_t row = 0; row < table->rows; row++) {
        const cursor text = text_of(table, row, c->number);
        const size_t bytes = bytes_of(text);
        out[row] = memcpy(to, text.at, bytes);
        to[bytes] = '\0';
        to += bytes + 1;
    }
    if (!write_next(next, c)) return LKS_OK;
    return lki_arena_string(arena, &out[table->rows], next);
}

/* The first column of dates; false: there is none. */
static bool find_dates(column *out, const lki_table *table)
{
    for (int number = 0; number < table->columns; number++)
        if (table->column[number].kind == LKI_COLUMN_TEXTS &&
            take_dates(out, table, number) == table->rows)
            return true;
    return false;
}

static lks_status take_named(column *out, const lki_table *table, int number)
{
    const char *name = table->column[number].name;
    char place[LKI_TABLE_PLACE];
    if (table->column[number].kind != LKI_COLUMN_TEXTS)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s': column '%.60s' has the times (data.time), but is left out; drop it "
                        "from data.ignore",
                        table->path, name);
    const int64_t dates = take_dates(out, table, number);
    if (dates == table->rows) return LKS_OK;
    const unsigned saved = lki_float_enter();
    const int64_t count = take_numbers(out, table, number);
    lki_float_leave(saved);
    if (count == table->rows) return LKS_OK;
    const int64_t row = dates > count ? dates : count;
    const cursor text = text_of(table, row, number);
    return LKI_FAIL(
        LKS_E_FORMAT,
        "%s: column '%.60s' has '%.*s', expected times (data.time): numbers, or dates of "
        "one form such as 2016-07-01 00:00",
        lki_table_place(table, row, place), name, shown_bytes(text), text.at);
}

/* A file with the latest rows first is learned backwards: the next row is then the one before. */
static void warn_of_order(lks_context *context, const lki_table *table, const column *c)
{
    char place[LKI_TABLE_PLACE];
    const cursor text = text_of(table, c->back, c->number);
    const cursor before = text_of(table, c->back - 1, c->number);
    lki_log_line(context, LKS_LOG_WARN,
                 "%s: column '%.60s' has %.*s behind %.*s, but rows of a series are taken in their "
                 "order; sort the file by its times, the earliest first",
                 lki_table_place(table, c->back, place), table->column[c->number].name,
                 shown_bytes(text), text.at, shown_bytes(before), before.at);
}

lks_status lki_times_of(const char *const **out, lki_arena *arena, const lki_table *table,
                        const char *name)
{
    column found;
    void *memory;
    int number;
    *out = NULL;
    if (name == NULL && !find_dates(&found, table)) return LKS_OK;
    if (name != NULL) {
        if (lki_table_find(&number, table, name) != LKS_OK) return LKS_OK;
        LKI_TRY(take_named(&found, table, number));
    }
    if (found.back > 0) warn_of_order(arena->context, table, &found);
    LKI_TRY(lki_arena_alloc(arena, &memory,
                            lki_times((size_t)table->rows + 1, sizeof(const char *)),
                            "times of a series"));
    *out = memory;
    return copy_times(memory, arena, table, &found);
}
