#include "cli/out/text.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <lockstep/context.h>

#include "recipe/text/emit.h"

static bool memory_lacked;

static void *json_memory(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) memory_lacked = true;
    return memory;
}

void text_watch_memory(void)
{
    json_set_alloc_funcs(json_memory, free);
}

lks_status text_memory(void)
{
    if (!memory_lacked) return LKS_OK;
    return lks_fail(LKS_E_NOMEM, "out of memory: what was printed may lack parts");
}

static void emit_list(lki_emit *e, const json_t *json);
static void emit_map(lki_emit *e, const json_t *json);

static void text_emit(lki_emit *e, const json_t *json)
{
    switch (json != NULL ? json_typeof(json) : JSON_NULL) { /* NULL: there was no memory for it */
    case JSON_OBJECT:
        emit_map(e, json);
        break;
    case JSON_ARRAY:
        emit_list(e, json);
        break;
    case JSON_STRING:
        lki_emit_string(e, json_string_value(json));
        break;
    case JSON_INTEGER:
        lki_emit_int(e, json_integer_value(json));
        break;
    case JSON_REAL:
        lki_emit_real(e, json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lki_emit_bool(e, json_is_true(json));
        break;
    case JSON_NULL:
        lki_emit_null(e);
        break;
    }
}

static void emit_list(lki_emit *e, const json_t *json)
{
    size_t i;
    const json_t *item;
    lki_emit_open(e, '[', !json_is_object(json_array_get(json, 0))); /* numbers share a line */
    json_array_foreach(json, i, item) text_emit(e, item);
    lki_emit_close(e, ']');
}

static void emit_map(lki_emit *e, const json_t *json)
{
    const char *key;
    json_t *value;
    lki_emit_open(e, '{', false);
    json_object_foreach((json_t *)json, key, value)
    {
        lki_emit_key(e, key);
        text_emit(e, value);
    }
    lki_emit_close(e, '}');
}

/* free() it; NULL: no memory, which is noted. */
static char *text_of(const json_t *json, bool yaml, int indent)
{
    lki_emit emit = {.yaml = yaml, .indent = indent};
    lks_status status = LKS_OK;
    text_emit(&emit, json);
    char *text = lki_emit_take(&emit, "JSON", &status);
    if (text == NULL) memory_lacked = true;
    return text;
}

static void print_text(FILE *out, char *text)
{
    if (text != NULL) fputs(text, out);
    free(text);
}

void text_print_json(FILE *out, const json_t *json, int indent)
{
    print_text(out, text_of(json, false, indent));
}

void text_say_json(const json_t *json, int indent)
{
    text_print_json(stdout, json, indent);
    putchar('\n');
}

void text_print_yaml(FILE *out, const json_t *json)
{
    print_text(out, text_of(json, true, 0));
}

char *text_json(const json_t *json)
{
    char *text = text_of(json, false, 0);
    if (!memory_lacked) return text;
    free(text);
    return NULL;
}

const char *text_yaml(cli_pool *pool, const json_t *json)
{
    char *text = text_of(json, true, 0);
    const char *copy = memory_lacked || text == NULL ? "" : pool_copy(pool, text, strlen(text));
    free(text);
    return copy;
}

json_t *text_json_real(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

typedef lks_status (*writer)(const char *path, const void *data, size_t bytes);

static lks_status write_by(writer write_file, const char *path, const void *data, size_t bytes)
{
    fflush(stdout); /* which may be that file */
    /* A pipe whose reader is gone is a failure to report. */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    const lks_status status = write_file(path, data, bytes);
    if (before != SIG_ERR) signal(SIGPIPE, before);
    return status;
}

lks_status text_write_bytes(const char *path, const void *data, size_t bytes)
{
    return write_by(lks_file_write, path, data, bytes);
}

static lks_status print_by(writer write_file, const char *path, text_printer print_file,
                           const void *user)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) print_file(out, user);
    bool good = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) != 0) good = false;
    if (!good || memory_lacked) {
        free(text);
        return lks_fail(LKS_E_NOMEM, "no memory for what is to be written to %.300s", path);
    }
    const lks_status status = write_by(write_file, path, text, bytes);
    free(text);
    return status;
}

lks_status text_write_file(const char *path, text_printer print_file, const void *user)
{
    return print_by(lks_file_write, path, print_file, user);
}

static void print_json_file(FILE *out, const void *json)
{
    text_print_json(out, json, 2);
    fputc('\n', out);
}

lks_status text_write_json(const char *path, const json_t *json)
{
    return text_write_file(path, print_json_file, json);
}

void text_print_xml(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* The character of UTF-8 that begins here; *bytes: of it, 1 where that is none. */
static uint32_t character(const char *text, int *bytes)
{
    const uint8_t *at = (const uint8_t *)text;
    const int more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : at[0] >= 0xc0 ? 1 : 0;
    uint32_t c = more == 0 ? at[0] : at[0] & (0x3fu >> more);
    *bytes = 1;
    for (; *bytes <= more && (at[*bytes] & 0xc0) == 0x80; ++*bytes)
        c = c << 6 | (at[*bytes] & 0x3f);
    return c;
}

/* Bytes of the character that the text begins with; 0 when it is no UTF-8, or one that is not for
 * people's eyes: a control character, a surrogate, one that XML does not have. */
static int character_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (*c < 0x80) return *c >= 0x20 && *c != 0x7f;
    const int more = (*c >= 0xc2) + (*c >= 0xe0) + (*c >= 0xf0);
    if (more == 0 || *c > 0xf4) return 0;
    int bytes;
    const uint32_t code = character(text, &bytes);
    if (bytes <= more) return 0;
    static const uint32_t least[] = {0, 0xa0, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return 0;
    return (code & 0xfffe) != 0xfffe ? bytes : 0;
}

const char *text_clean(cli_pool *pool, const char *text)
{
    char *copy = pool_copy(pool, text, strlen(text));
    for (char *c = copy; *c != '\0';) {
        const int bytes = character_bytes(c);
        if (bytes == 0) *c = '?';
        c += bytes > 0 ? bytes : 1;
    }
    return copy;
}

bool text_has_end(const char *const *ends, const char *name)
{
    const char *end = strrchr(name, '.');
    for (; end != NULL && *ends != NULL; ends++)
        if (strcasecmp(end, *ends) == 0) return true;
    return false;
}

const char *text_share(cli_pool *pool, double share)
{
    return share >= 0 && share <= 1 ? pool_format(pool, "%.0f%%", 100 * share) : "-";
}

/* Columns of a terminal that it takes: none of what stands over the one before, two of East Asian ones and pictures. */
static int columns_of(uint32_t c)
{
    static const struct {
        uint32_t first, last;
        int columns;
    } others[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},   {0x200b, 0x200f, 0},
                  {0x2e80, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},
                  {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},
                  {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2},
                  {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (c >= others[i].first && c <= others[i].last) return others[i].columns;
    return 1;
}

/* Of so many bytes of it, or to its end. */
static int length_of(const char *text, size_t bytes)
{
    int length = 0;
    for (size_t i = 0; i < bytes && text[i] != '\0';) {
        int more;
        length += columns_of(character(text + i, &more));
        i += (size_t)more;
    }
    return length;
}

int text_length(const char *text)
{
    return length_of(text, SIZE_MAX);
}

int text_gap(const char *text, int width)
{
    const int length = text_length(text);
    return length < width ? width - length : 0;
}

int text_bytes(const char *text, int most)
{
    int bytes = 0;
    while (text[bytes] != '\0') {
        int more;
        most -= columns_of(character(text + bytes, &more));
        if (most < 0) break;
        bytes += more;
    }
    return bytes;
}

void text_print_wrapped(FILE *out, const char *text, int used, int indent, int width)
{
    bool begun = false; /* a line, with a word */
    while (*text != '\0') {
        const int bytes = (int)strcspn(text, " ");
        const int length = length_of(text, (size_t)bytes);
        if (begun && width > 0 && used + 1 + length > width) {
            fprintf(out, "\n%*s", indent, "");
            used = indent;
            begun = false;
        }
        fprintf(out, "%s%.*s", begun ? " " : "", bytes, text);
        used += begun + length;
        begun = true;
        text += bytes + (int)strspn(text + bytes, " ");
    }
    fputc('\n', out);
}

/* Where the lines after the first begin. */
static int line_indent(const char *line, int width)
{
    const int lead = (int)strspn(line, " ");
    int column = lead, indent = lead + 2;
    for (const char *c = line + lead; *c != '\0' && column < width / 2; c++) {
        if (c[0] != ' ' && c > line + lead + 1 && c[-1] == ' ' && c[-2] == ' ') indent = column;
        column += (*c & 0xc0) != 0x80;
    }
    return indent;
}

void text_print_line(FILE *out, const char *line, int width)
{
    const int indent = line_indent(line, width);
    const char *begin = line, *end = NULL; /* of what fits; NULL: no word has ended */
    int column = 0;
    bool words = false; /* on this line */
    for (const char *c = line; width > 0 && *c != '\0'; c++) {
        if (*c == ' ' && words && c[-1] != ' ') end = c;
        words |= *c != ' ';
        column += (*c & 0xc0) != 0x80;
        if (column <= width || end == NULL) continue;
        fprintf(out, "%.*s\n%*s", (int)(end - begin), begin, indent, "");
        begin = end + strspn(end, " ");
        c = begin - 1;
        end = NULL;
        words = false;
        column = indent;
    }
    fprintf(out, "%s\n", begin);
}
