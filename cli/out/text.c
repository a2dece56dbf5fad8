#include "cli/out/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/context.h>

#include "recipe/text/setting.h"

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

/* The fewest digits that read back as the same number. Up to 15 always come back as they were, but of
 * denormal numbers, so that 15 without their last zeros are the fewest, where they are enough. */
static int shortest(double number)
{
    char text[TEXT_NUMBER_SIZE];
    int digits = fabs(number) < DBL_MIN ? 1 : 15;
    for (; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, number);
        if (strtod(text, NULL) == number) break;
    }
    if (digits != 15) return digits;
    for (const char *end = strchr(text, 'e'); end[-1] == '0'; end--) digits--;
    return digits > 0 ? digits : 1;
}

const char *text_number(char text[TEXT_NUMBER_SIZE], double number)
{
    if (!isfinite(number)) {
        snprintf(text, TEXT_NUMBER_SIZE, "%s", isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
        return text;
    }
    snprintf(text, TEXT_NUMBER_SIZE, "%.*g", shortest(number), number);
    /* Readers of YAML and JSON tell 1.0 from 1, and some take 1e-6 for a text. */
    char *rest = text + strspn(text, "-0123456789");
    if (*rest != '.') {
        memmove(rest + 2, rest, strlen(rest) + 1);
        memcpy(rest, ".0", 2);
    }
    return text;
}

const char *text_count(char text[TEXT_NUMBER_SIZE], int64_t count)
{
    char digits[TEXT_NUMBER_SIZE];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, count);
    int used = 0;
    for (int i = 0; i < length; i++) {
        const int rest = length - i;
        if (i > 0 && rest % 3 == 0 && digits[i - 1] != '-') text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

/* A text that YAML reads as itself without quotes. */
static bool is_plain(const char *text)
{
    int64_t i;
    double f;
    bool b;
    const lki_yaml node = {.kind = LKI_YAML_SCALAR, .plain = true, .text = text};
    if (!isalnum((unsigned char)*text) && *text != '/' && *text != '_') return false;
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("_-./", *c) == NULL) return false;
    return !lki_yaml_is_null(&node) && !lki_text_is_int(text, &i) && !lki_text_is_float(text, &f) &&
           !lki_text_is_bool(text, &b);
}

/* The code of a character of one to three bytes, and how many they are; longer ones are passed over. */
static unsigned code_point(const unsigned char *c, int *bytes)
{
    *bytes = *c < 0xc0 ? 1 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : 4;
    if (*bytes == 2) return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
    if (*bytes == 3) return (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
    return *bytes == 1 ? *c : 0x10000;
}

/* Characters that JSON has as they are, but that YAML does not take, or takes for line breaks. */
static bool is_special(unsigned code)
{
    return (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
           code == 0xfffe || code == 0xffff;
}

static void print_yaml_quoted(FILE *out, const char *quoted)
{
    int bytes;
    for (const char *c = quoted; *c != '\0'; c += bytes) {
        const unsigned code = code_point((const unsigned char *)c, &bytes);
        if (is_special(code))
            fprintf(out, "\\u%04x", code);
        else
            fwrite(c, 1, (size_t)bytes, out);
    }
}

/* Most texts are: records have thousands. */
static bool is_without_escapes(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') return false;
    return true;
}

static void print_string(FILE *out, const char *text, bool yaml)
{
    if (yaml && is_plain(text)) {
        fputs(text, out);
        return;
    }
    if (is_without_escapes(text)) {
        fprintf(out, "\"%s\"", text);
        return;
    }
    json_t *json = json_string(text);
    char *quoted = json != NULL ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    if (yaml && quoted != NULL)
        print_yaml_quoted(out, quoted);
    else
        fputs(quoted != NULL ? quoted : "\"\"", out);
    free(quoted);
    json_decref(json);
}

typedef struct print_style {
    bool yaml;
    int indent;
} print_style;

static void new_line(FILE *out, print_style style, int depth)
{
    if (style.indent > 0) fprintf(out, "\n%*s", style.indent * depth, "");
}

static void text_print(FILE *out, const json_t *json, print_style style, int depth);

static void text_print_list(FILE *out, const json_t *json, print_style style, int depth)
{
    size_t i;
    const json_t *item;
    fputc('[', out);
    const bool flat = !json_is_object(json_array_get(json, 0)); /* numbers share a line */
    json_array_foreach(json, i, item)
    {
        if (i > 0) fputs(flat || style.indent == 0 ? ", " : ",", out);
        if (!flat) new_line(out, style, depth + 1);
        text_print(out, item, style, depth + 1);
    }
    if (!flat) new_line(out, style, depth);
    fputc(']', out);
}

static void print_map(FILE *out, const json_t *json, print_style style, int depth)
{
    int count = 0;
    const char *key;
    json_t *value;
    fputc('{', out);
    json_object_foreach((json_t *)json, key, value)
    {
        if (count++ > 0) fputs(style.indent == 0 ? ", " : ",", out);
        new_line(out, style, depth + 1);
        print_string(out, key, style.yaml);
        fputs(": ", out);
        text_print(out, value, style, depth + 1);
    }
    if (count > 0) new_line(out, style, depth);
    fputc('}', out);
}

static void text_print(FILE *out, const json_t *json, print_style style, int depth)
{
    char number[TEXT_NUMBER_SIZE];
    if (json == NULL) return; /* there was no memory for it */
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        print_map(out, json, style, depth);
        break;
    case JSON_ARRAY:
        text_print_list(out, json, style, depth);
        break;
    case JSON_STRING:
        print_string(out, json_string_value(json), style.yaml);
        break;
    case JSON_INTEGER:
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        break;
    case JSON_REAL:
        fputs(text_number(number, json_real_value(json)), out);
        break;
    case JSON_TRUE:
        fputs("true", out);
        break;
    case JSON_FALSE:
        fputs("false", out);
        break;
    case JSON_NULL:
        fputs("null", out);
        break;
    }
}

void text_print_json(FILE *out, const json_t *json, int indent)
{
    text_print(out, json, (print_style){.indent = indent}, 0);
}

void text_print_yaml(FILE *out, const json_t *json)
{
    text_print(out, json, (print_style){.yaml = true}, 0);
}

char *text_json(const json_t *json)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    text_print_json(out, json, 0);
    const bool good = !ferror(out) && !memory_lacked;
    if (fclose(out) == 0 && good) return text;
    free(text);
    return NULL;
}

const char *text_yaml(cli_pool *pool, const json_t *json)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) text_print_yaml(out, json);
    const bool good = out != NULL && !ferror(out);
    if ((out != NULL && fclose(out) != 0) || !good) memory_lacked = true;
    const char *copy = memory_lacked ? "" : pool_copy(pool, text, bytes);
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

/* Bytes of the character that the text begins with; 0 when it is no UTF-8, or one that is not for
 * people's eyes: a control character, a surrogate, one that XML does not have. */
static int character_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (*c < 0x80) return *c >= 0x20 && *c != 0x7f;
    const int more = (*c >= 0xc2) + (*c >= 0xe0) + (*c >= 0xf0);
    if (more == 0 || *c > 0xf4) return 0;
    unsigned long code = *c & (0x3fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (c[i] & 0x3fu);
    }
    static const unsigned long least[] = {0, 0xa0, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return 0;
    return (code & 0xfffe) != 0xfffe ? more + 1 : 0;
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

int text_length(const char *text)
{
    int length = 0;
    for (; *text != '\0'; text++) length += (*text & 0xc0) != 0x80;
    return length;
}

int text_bytes(const char *text, int most)
{
    int bytes = 0;
    for (; text[bytes] != '\0'; bytes++)
        if ((text[bytes] & 0xc0) != 0x80 && most-- == 0) break;
    return bytes;
}

void text_print_wrapped(FILE *out, const char *text, int used, int indent, int width)
{
    bool begun = false; /* a line, with a word */
    while (*text != '\0') {
        const int bytes = (int)strcspn(text, " ");
        int length = 0;
        for (int i = 0; i < bytes; i++) length += (text[i] & 0xc0) != 0x80;
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
