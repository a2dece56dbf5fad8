/*
 *   6 bytes     0x93, "NUMPY"
 *   2 bytes     version: 1, 2 or 3, and 0
 *   2 bytes     length of the header, little-endian; 4 bytes from version 2 on
 *   the header  a dictionary as Python writes it, filled up with spaces and ended by a new line:
 *               {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *   the rest    elements
 *
 * Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
#include "data/numpy/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "base/memory.h"

static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
static const char kinds[] = "biuf"; /* in the order of lki_npy_kind */
enum { VERSION = sizeof magic, LENGTH = VERSION + 2 };

bool lki_npy_is(const uint8_t *data, size_t bytes)
{
    return bytes >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

/* ---------------------------------------------------------------- the dictionary */

typedef struct reader {
    const char *begin, *at, *end;
    const char *path;
} reader;

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}

/* Takes these characters if they come next, behind any blanks. */
static bool takes(reader *r, const char *word)
{
    const size_t length = strlen(word);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

static lks_status fail_syntax(const reader *r, const char *expected)
{
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': the header of the .npy data has no %s at its character %zu; it is "
                    "damaged, write it again with numpy.save()",
                    r->path, expected, (size_t)(r->at - r->begin));
}

/* A text in quotes, without what would have to be unescaped, as long as `out` has room. */
static bool read_quoted(reader *r, char *out, size_t size)
{
    size_t length = 0;
    const char quote = takes(r, "'") ? '\'' : '"';
    if (quote == '"' && !takes(r, "\"")) return false;
    while (r->at < r->end && *r->at != quote) {
        if (length + 1 >= size || *r->at < ' ' || *r->at > '~' || *r->at == '\\') return false;
        out[length++] = *r->at++;
    }
    out[length] = '\0';
    return r->at < r->end && *r->at++ == quote;
}

/* "(60000, 28, 28)", "(3,)", "()"; Python 2 has written 3L. */
static lks_status read_shape(lki_npy *out, reader *r)
{
    if (!takes(r, "(")) return fail_syntax(r, "shape");
    while (!takes(r, ")")) {
        int64_t size = 0;
        const char *first = r->at;
        for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
            if (__builtin_mul_overflow(size, (int64_t)10, &size) ||
                __builtin_add_overflow(size, (int64_t)(*r->at - '0'), &size))
                return fail_syntax(r, "size that fits in memory");
        if (r->at == first) return fail_syntax(r, "size of a dimension");
        (void)takes(r, "L");
        if (out->ndim == LKI_NPY_DIMS)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s' has more than %d dimensions, expected at most so many", r->path,
                            LKI_NPY_DIMS);
        out->dim[out->ndim++] = size;
        if (!takes(r, ",") && (r->at == r->end || *r->at != ')'))
            return fail_syntax(r, "',' or ')'");
    }
    return LKS_OK;
}

/* What NumPy calls the types of other letters. */
static const char *name_of(char letter)
{
    static const struct {
        char letter;
        const char *name;
    } others[] = {{'O', "Python objects"},  {'S', "text"},  {'U', "text"},  {'a', "text"},
                  {'c', "complex numbers"}, {'M', "dates"}, {'m', "times"}, {'V', "records"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].letter == letter) return others[i].name;
    return "elements of an unknown type";
}

/* "<f4", "|u1" */
static lks_status read_type(lki_npy *out, reader *r)
{
    static const char *const names[] = {"bool", "int", "uint", "float"};
    char text[LKI_NPY_TYPE] = "";
    if (takes(r, "["))
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' holds records of several fields, expected numbers; save each field "
                        "as an array of its own",
                        r->path);
    if (!read_quoted(r, text, sizeof text)) return fail_syntax(r, "type");
    const char *at = text, order = strchr("<>=|", text[0]) != NULL ? *at++ : '=';
    const char *kind = at[0] != '\0' ? strchr(kinds, at[0]) : NULL;
    const int digit = at[0] != '\0' ? at[1] - '0' : 0;
    const bool size_is_one = digit == 1 || digit == 2 || digit == 4 || digit == 8;
    if (kind == NULL || !size_is_one || at[2] != '\0' || (*kind == 'b' && digit != 1) ||
        (*kind == 'f' && digit == 1))
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' holds %s ('%s'), expected integers, floats of 2, 4 or 8 bytes, or "
                        "truth values; convert the array first, with astype()",
                        r->path, kind == NULL ? name_of(at[0]) : "numbers of another size", text);
    out->kind = (lki_npy_kind)(kind - kinds);
    out->size = (size_t)digit;
    out->big = order == '>';
    snprintf(out->type, sizeof out->type, "%s%.0d", names[out->kind],
             out->kind == LKI_NPY_BOOL ? 0 : 8 * digit);
    return LKS_OK;
}

/* Each of the three keys once, in any order. */
static lks_status read_dictionary(lki_npy *out, reader *r)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned found = 0;
    char key[LKI_NPY_TYPE];
    if (!takes(r, "{")) return fail_syntax(r, "dictionary");
    while (!takes(r, "}")) {
        unsigned k = 0;
        if (!read_quoted(r, key, sizeof key)) return fail_syntax(r, "key");
        while (k < 3 && strcmp(keys[k], key) != 0) k++;
        if (k == 3 || (found >> k & 1) != 0) return fail_syntax(r, "key that is known and new");
        found |= 1u << k;
        if (!takes(r, ":")) return fail_syntax(r, "':'");
        if (k == 0) {
            LKI_TRY(read_type(out, r));
        } else if (k == 2) {
            LKI_TRY(read_shape(out, r));
        } else {
            out->fortran = takes(r, "True");
            if (!out->fortran && !takes(r, "False")) return fail_syntax(r, "True or False");
        }
        if (!takes(r, ",") && (r->at == r->end || *r->at != '}')) return fail_syntax(r, "','");
    }
    skip_blanks(r);
    if (r->at != r->end) return fail_syntax(r, "end");
    return found == 7 ? LKS_OK : fail_syntax(r, "descr, fortran_order and shape");
}

/* ---------------------------------------------------------------- the file */

static lks_status fail_truncated(const char *path, size_t bytes, size_t head)
{
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' ends within its header, after %zu of %zu bytes; it is truncated, copy or "
                    "write it again",
                    path, bytes, head);
}

/* Where the elements begin. */
static lks_status read_head(lki_npy *out, size_t *begin, const uint8_t *data, size_t bytes,
                            const char *path)
{
    if (!lki_npy_is(data, bytes))
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is no .npy file: it does not begin with the byte 93 and NUMPY; "
                        "write it with numpy.save()",
                        path);
    const int version = bytes > VERSION ? data[VERSION] : 1;
    if (version < 1 || version > 3)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is of version %d of the .npy format, expected 1, 2 or 3; write it "
                        "again with numpy.save()",
                        path, version);
    const size_t width = version == 1 ? 2 : 4, head = LENGTH + width;
    if (bytes < head) return fail_truncated(path, bytes, head);
    size_t length = 0;
    for (size_t i = 0; i < width; i++) length |= (size_t)data[LENGTH + i] << 8 * i;
    if (bytes - head < length) return fail_truncated(path, bytes, head + length);
    const char *text = (const char *)data + head;
    reader r = {.begin = text, .at = text, .end = text + length, .path = path};
    *begin = head + length;
    return read_dictionary(out, &r);
}

/* Of all elements; SIZE_MAX where no memory could hold them. */
static size_t bytes_of(const lki_npy *npy)
{
    size_t bytes = npy->size;
    for (int i = 0; i < npy->ndim; i++)
        if (npy->dim[i] == 0) return 0;
    for (int i = 0; i < npy->ndim; i++) bytes = lki_times(bytes, (size_t)npy->dim[i]);
    return bytes;
}

lks_status lki_npy_read(lki_npy *out, const uint8_t *data, size_t bytes, const char *path)
{
    size_t begin = 0;
    *out = (lki_npy){.ndim = 0};
    LKI_TRY(read_head(out, &begin, data, bytes, path));
    const size_t found = bytes - begin, promised = bytes_of(out);
    if (found < promised)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %zu byte%s of elements, fewer than its header promises; it is "
                        "truncated, copy or write it again",
                        path, found, LKI_S(found));
    if (found > promised)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %zu byte%s behind the elements that its header promises, "
                        "expected none; one array is in a file, write it again with numpy.save()",
                        path, found - promised, LKI_S(found - promised));
    out->data = data + begin;
    out->elements = (int64_t)(promised / out->size);
    return LKS_OK;
}

void lki_npy_strides(const lki_npy *npy, int64_t stride[LKI_NPY_DIMS])
{
    int64_t next = 1;
    for (int i = 0; i < npy->ndim; i++) {
        const int d = npy->fortran ? i : npy->ndim - 1 - i;
        stride[d] = next;
        next *= npy->dim[d];
    }
}

/* ---------------------------------------------------------------- elements */

static uint64_t read_bits(const lki_npy *npy, const uint8_t *from)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < npy->size; i++)
        bits |= (uint64_t)from[npy->big ? npy->size - 1 - i : i] << 8 * i;
    return bits;
}

int64_t lki_npy_integer(const lki_npy *npy, const uint8_t *from)
{
    const uint64_t bits = read_bits(npy, from), sign = (uint64_t)1 << (8 * npy->size - 1);
    if (npy->kind == LKI_NPY_BOOL) return bits != 0;
    if (npy->kind == LKI_NPY_SIGNED) return (int64_t)((bits ^ sign) - sign);
    return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}

/* IEEE 754's binary16: sign, 5 bits of exponent, 10 of the fraction. Every one is a float of 4 bytes. */
static float from_half(uint32_t half)
{
    const uint32_t sign = half >> 15 << 31, exponent = half >> 10 & 31, fraction = half & 1023;
    uint32_t bits;
    if (exponent == 31) {
        bits = 0x7f800000u | fraction << 13;
    } else if (exponent > 0) {
        bits = (exponent + 112) << 23 | fraction << 13;
    } else if (fraction >
               0) { /* fraction * 2^-24: its highest bit becomes the one that is not written */
        const uint32_t top = 31 - (uint32_t)__builtin_clz(fraction);
        bits = (top + 103) << 23 | (fraction << (23 - top) & 0x7fffffu);
    } else {
        bits = 0;
    }
    bits |= sign;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

float lki_npy_float(const lki_npy *npy, const uint8_t *from)
{
    const uint64_t bits = read_bits(npy, from);
    const uint32_t low = (uint32_t)bits;
    double wide;
    float out;
    if (npy->kind == LKI_NPY_UNSIGNED) return (float)bits;
    if (npy->kind != LKI_NPY_FLOAT) return (float)lki_npy_integer(npy, from);
    if (npy->size == 2) return from_half(low);
    memcpy(&wide, &bits, sizeof wide);
    if (npy->size == 8) return (float)wide;
    memcpy(&out, &low, sizeof out);
    return out;
}

double lki_npy_double(const lki_npy *npy, const uint8_t *from)
{
    const uint64_t bits = read_bits(npy, from);
    double wide;
    if (npy->kind == LKI_NPY_UNSIGNED) return (double)bits;
    if (npy->kind != LKI_NPY_FLOAT) return (double)lki_npy_integer(npy, from);
    memcpy(&wide, &bits, sizeof wide);
    return npy->size == sizeof wide ? wide : (double)lki_npy_float(npy, from);
}

bool lki_npy_is_own_float(const lki_npy *npy)
{
    return npy->kind == LKI_NPY_FLOAT && npy->size == sizeof(float) && npy->big == LKI_NPY_OWN_BIG;
}

/* ---------------------------------------------------------------- writing */

_Static_assert((int)LKI_NPY_HEAD == (int)LKS_NPY_HEAD, "a buffer of tools is one of these");
size_t lks_npy_head(uint8_t out[LKS_NPY_HEAD], int64_t rows, int64_t columns)
{
    const lki_npy npy = {.kind = LKI_NPY_FLOAT,
                         .size = sizeof(float),
                         .big = LKI_NPY_OWN_BIG,
                         .ndim = 2,
                         .dim = {rows, columns}};
    return lki_npy_write_head(out, &npy, 1);
}

size_t lki_npy_write_head(uint8_t out[LKI_NPY_HEAD], const lki_npy *npy, int version)
{
    enum { ALIGN = 64 };
    char text[LKI_NPY_HEAD], shape[24 * LKI_NPY_DIMS] = "";
    size_t used = 0;
    for (int i = 0; i < npy->ndim; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%" PRId64 "%s", npy->dim[i],
                                 npy->ndim == 1      ? ","
                                 : i + 1 < npy->ndim ? ", "
                                                     : "");
    const size_t length = (size_t)snprintf(
        text, sizeof text, "{'descr': '%c%c%zu', 'fortran_order': %s, 'shape': (%s), }",
        npy->size == 1 ? '|'
        : npy->big     ? '>'
                       : '<',
        kinds[npy->kind], npy->size, npy->fortran ? "True" : "False", shape);
    const size_t width = version == 1 ? 2 : 4, head = LENGTH + width;
    const size_t bytes = (head + length + 1 + ALIGN - 1) / ALIGN * ALIGN;
    memset(out, ' ', bytes);
    memcpy(out, magic, sizeof magic);
    out[VERSION] = (uint8_t)version;
    out[VERSION + 1] = 0;
    for (size_t i = 0; i < width; i++) out[LENGTH + i] = (uint8_t)((bytes - head) >> 8 * i);
    memcpy(out + head, text, length);
    out[bytes - 1] = '\n';
    return bytes;
}
