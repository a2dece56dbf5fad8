/* Pictures by a table: CSV as in RFC 4180, also with semicolons or tabs, or columns between tabs, without quotes. */
#include "data/pictures/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/file.h"

enum { FIELD = PATH_MAX, COLUMNS = 2 };

typedef struct table {
    const char *path;
    const uint8_t *at, *end;
    char separator;
    bool quotes; /* may be around fields */
    int64_t line;
    char field[COLUMNS][FIELD]; /* of the row, as far as there are as many */
    int fields;
} table;

static lks_status fail_row(const table *t, const char *found)
{
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%.300s', line %" PRId64
                    ": %s; expected a file and its class in the first two "
                    "columns",
                    t->path, t->line, found);
}

static bool ends_row(const table *t)
{
    return t->at == t->end || *t->at == '\n' ||
           (*t->at == '\r' && t->at + 1 < t->end && t->at[1] == '\n');
}

/* One field into `out`, up to what ends it; quotes are doubled inside of quotes. */
static lks_status read_field(table *t, char out[FIELD])
{
    const int64_t line = t->line;
    const bool quoted = t->at < t->end && *t->at == '"' && t->quotes;
    bool closed = !quoted;
    size_t used = 0;
    if (quoted) t->at++;
    while (quoted ? t->at < t->end : !ends_row(t) && *t->at != (uint8_t)t->separator) {
        if (quoted && *t->at == '"') {
            t->at++;
            closed = t->at == t->end || *t->at != '"';
            if (closed) break;
        }
        if (*t->at == '\n') t->line++;
        if (*t->at == '\0') return fail_row(t, "it has a zero byte");
        if (used + 1 >= FIELD) return fail_row(t, "a field is too long");
        out[used++] = (char)*t->at++;
    }
    out[used] = '\0';
    if (!closed || (!ends_row(t) && *t->at != (uint8_t)t->separator)) {
        t->line = line;
        return fail_row(t, "a quote is not closed, or something follows it");
    }
    return LKS_OK;
}

static lks_status read_row(table *t)
{
    char ignored[FIELD];
    t->line++;
    for (t->fields = 0;; t->at++) {
        LKI_TRY(read_field(t, t->fields < COLUMNS ? t->field[t->fields] : ignored));
        t->fields++;
        if (ends_row(t)) break;
    }
    if (t->at < t->end && *t->at == '\r') t->at++;
    if (t->at < t->end) t->at++;
    return LKS_OK;
}

/* Without spaces around it. */
static void trim(char *field)
{
    const size_t before = strspn(field, " \t");
    size_t length = strlen(field + before);
    memmove(field, field + before, length + 1);
    while (length > 0 && (field[length - 1] == ' ' || field[length - 1] == '\t')) length--;
    field[length] = '\0';
}

/* What is between the columns of the first line: spreadsheets write semicolons where commas are in numbers. Names of
 * files have commas and semicolons more often than tabs, so tabs count first. */
static char separator_of(const uint8_t *at, const uint8_t *end)
{
    bool found[128] = {false}, quoted = false;
    for (; at < end && (quoted || *at != '\n'); at++) {
        if (*at == '"') quoted = !quoted;
        if (!quoted && *at < sizeof found) found[*at] = true;
    }
    return found['\t'] ? '\t' : found[';'] && !found[','] ? ';' : ',';
}

/* The row's picture; with `title` it may be the titles. */
static lks_status take_row(lki_pictures *out, table *t, const char *folder, bool title, bool test)
{
    char path[PATH_MAX];
    struct stat about;
    const char *name = t->field[0];
    if (t->fields == 1 && name[0] == '\0') return LKS_OK; /* an empty line */
    if (t->fields < COLUMNS)
        return fail_row(t, t->separator == ';'    ? "it has one column between semicolons"
                           : t->separator == '\t' ? "it has one column between tabs"
                                                  : "it has one column between commas");
    trim(t->field[1]);
    if (name[0] == '\0' || t->field[1][0] == '\0') return fail_row(t, "a field is empty");
    const int length = name[0] == '/' ? snprintf(path, sizeof path, "%s", name)
                                      : snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length >= PATH_MAX) return fail_row(t, "the path is too long");
    /* Titles name no file, but a folder may be called as one of them is. */
    if (title && (stat(path, &about) != 0 || S_ISDIR(about.st_mode))) return LKS_OK;
    return lki_pictures_add(out, path, t->field[1], strlen(t->field[1]), test);
}

lks_status lki_pictures_read_table(lki_pictures *out, const char *path, const char *folder,
                                   char separator, bool titles, bool test)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf}; /* of UTF-8, as spreadsheets write it */
    lki_file file;
    LKI_TRY(lki_file_open(&file, out->arena.context, path));
    lks_status status = LKS_OK;
    table t = {.path = path, .separator = separator, .quotes = separator == '\0'};
    if (file.bytes > 0) { /* an empty one has no address */
        t.at = file.data;
        t.end = file.data + file.bytes;
    }
    if (file.bytes >= sizeof mark && memcmp(file.data, mark, sizeof mark) == 0) t.at += sizeof mark;
    if (separator == '\0') t.separator = separator_of(t.at, t.end);
    for (bool first = true; status == LKS_OK && t.at < t.end; first = false) {
        status = read_row(&t);
        if (status == LKS_OK) status = take_row(out, &t, folder, titles && first, test);
    }
    lki_file_close(&file);
    return status;
}
