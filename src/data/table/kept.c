#include "data/table/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "numeric/hash.h"

static const char head[] = "lockstep columns 1\n";

/* ---------------------------------------------------------------- writing */

/* Twice over the same: first to count, then to fill. */
typedef struct writer {
    char *to; /* NULL: counted */
    size_t bytes;
} writer;

static void put(writer *w, const char *text, size_t bytes)
{
    if (w->to != NULL) memcpy(w->to + w->bytes, text, bytes);
    w->bytes += bytes;
}

static void put_string(writer *w, const char *text)
{
    put(w, text, strlen(text));
}

/* Behind a tab. */
static void put_text(writer *w, const char *text, size_t bytes)
{
    put(w, "\t", 1);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\t') put(w, "\\t", 2);
        if (text[i] == '\n') put(w, "\\n", 2);
        if (text[i] == '\\') put(w, "\\\\", 2);
        if (strchr("\t\n\\", text[i]) == NULL || text[i] == '\0') put(w, &text[i], 1);
    }
}

static void put_bits(writer *w, double number)
{
    char text[32];
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    snprintf(text, sizeof text, "\t%016" PRIx64, bits);
    put_string(w, text);
}

static void put_feature(writer *w, const lki_feature *feature, bool target, bool classes)
{
    char text[64];
    const bool words = feature->text || classes;
    snprintf(text, sizeof text, "%s\t%s\t%d",
             classes ? "classes"
             : words ? "texts"
                     : "number",
             target ? "target" : "input", feature->column);
    put_string(w, text);
    if (words) {
        snprintf(text, sizeof text, "\t%" PRId64, feature->words);
        put_string(w, text);
    } else {
        put_bits(w, feature->unit.mean);
        put_bits(w, feature->unit.deviation);
        put_string(w, feature->unit.standardised ? "\t1" : "\t0");
    }
    put_text(w, feature->name, strlen(feature->name));
    for (int64_t i = 0; words && i < feature->words; i++) {
        const lki_word *word = &feature->word[i];
        snprintf(text, sizeof text, "%.0f", word->number);
        put_string(w, feature->text ? "\ntext" : "\ninteger");
        put_text(w, feature->text ? word->text : text, feature->text ? word->bytes : strlen(text));
    }
    put_string(w, "\n");
}

static void put_all(writer *w, const lki_encoding *e)
{
    put_string(w, head);
    put_string(w, e->fill ? "fill\t1\n" : "fill\t0\n");
    for (int i = 0; i < e->inputs; i++) put_feature(w, &e->input[i], false, false);
    for (int i = 0; i < e->targets; i++) put_feature(w, &e->target[i], true, e->classes > 0);
}

static lks_status write_file(const lki_encoding *e, const char *path, const char *text,
                             size_t bytes)
{
    char end[40];
    lki_writer *file;
    snprintf(end, sizeof end, "end\t%016" PRIx64 "\n", lki_hash(text, bytes));
    LKI_TRY(lki_writer_open(&file, e->context, path));
    lks_status status = lki_writer_write(file, text, bytes);
    if (status == LKS_OK) status = lki_writer_write(file, end, strlen(end));
    if (status == LKS_OK) return lki_writer_commit(file);
    lki_writer_abandon(file);
    return status;
}

lks_status lki_encoding_write(const lki_encoding *encoding, const char *path)
{
    writer w = {0};
    void *memory;
    put_all(&w, encoding);
    const size_t bytes = w.bytes;
    LKI_TRY(lki_alloc(encoding->context, &memory, bytes, "a file of columns"));
    w = (writer){.to = memory};
    put_all(&w, encoding);
    const lks_status status = write_file(encoding, path, memory, bytes);
    lki_free(encoding->context, memory, bytes);
    return status;
}

/* ---------------------------------------------------------------- reading */

typedef struct reader {
    lki_encoding *to;
    const char *path, *at, *end;
    int64_t lines; /* a feature or word takes at least one */
} reader;

static lks_status fail_damaged(const reader *r)
{
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' is damaged, or no file of a table's columns; copy it again, or predict "
                    "with the training's table",
                    r->path);
}

/* The next field of the line; false: it has ended. */
static bool field(reader *r, const char **text, size_t *bytes)
{
    if (r->at >= r->end || *r->at == '\n') return false;
    if (*r->at == '\t') r->at++;
    *text = r->at;
    while (r->at < r->end && *r->at != '\t' && *r->at != '\n') r->at++;
    *bytes = (size_t)(r->at - *text);
    return true;
}

static bool is_field(reader *r, const char *expected)
{
    const char *text;
    size_t bytes;
    return field(r, &text, &bytes) && bytes == strlen(expected) &&
           memcmp(text, expected, bytes) == 0;
}

static bool end_line(reader *r)
{
    return r->at < r->end && *r->at++ == '\n';
}

static bool number_field(reader *r, int base, uint64_t *out)
{
    const char *text;
    size_t bytes;
    *out = 0;
    if (!field(r, &text, &bytes) || bytes == 0 || bytes > 16) return false;
    for (size_t i = 0; i < bytes; i++) {
        const char *const digits = "0123456789abcdef";
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL || digit - digits >= base) return false;
        *out = *out * (uint64_t)base + (uint64_t)(digit - digits);
    }
    return true;
}

static bool bits_field(reader *r, double *out)
{
    uint64_t bits;
    if (!number_field(r, 16, &bits)) return false;
    memcpy(out, &bits, sizeof bits);
    return true;
}

/* *out stays NULL where there is no text. */
static lks_status text_field(reader *r, const char **out, size_t *bytes)
{
    const char *from;
    void *memory;
    *out = NULL;
    if (!field(r, &from, bytes)) return fail_damaged(r);
    const size_t all = *bytes;
    LKI_TRY(lki_arena_alloc(&r->to->arena, &memory, all + 1, "a text"));
    char *to = memory;
    for (size_t i = 0; i < all; i++) {
        const bool escaped = from[i] == '\\' && i + 1 < all;
        const char c = from[escaped ? ++i : i];
        *to++ = !escaped ? c : c == 't' ? '\t' : c == 'n' ? '\n' : c;
    }
    *bytes = (size_t)(to - (char *)memory);
    *to = '\0';
    *out = memory;
    return LKS_OK;
}

static lks_status read_words(reader *r, lki_feature *feature, uint64_t count)
{
    void *memory;
    if (count > (uint64_t)r->lines) return fail_damaged(r);
    LKI_TRY(lki_arena_alloc(&r->to->arena, &memory, (size_t)count * sizeof(lki_word) + 1, "texts"));
    feature->word = memory;
    feature->words = (int64_t)count;
    for (uint64_t i = 0; i < count; i++) {
        lki_word *word = &feature->word[i];
        *word = (lki_word){.text = ""};
        if (!end_line(r)) return fail_damaged(r);
        const bool text = r->at < r->end && *r->at == 't';
        if (!is_field(r, text ? "text" : "integer")) return fail_damaged(r);
        feature->text = text;
        LKI_TRY(text_field(r, &word->text, &word->bytes));
        if (text) continue;
        const bool minus = word->text[0] == '-';
        for (const char *c = word->text + minus; *c != '\0'; c++) {
            if (*c < '0' || *c > '9') return fail_damaged(r);
            word->number = word->number * 10 + (*c - '0');
        }
        if (minus) word->number = -word->number;
        word->bytes = 0; /* integers are compared by their number */
    }
    return LKS_OK;
}

/* A line behind its first field, and its words. */
static lks_status read_feature(reader *r, bool number, bool classes)
{
    lki_encoding *e = r->to;
    const char *kind;
    size_t bytes;
    uint64_t column, count, standardised;
    lki_feature feature = {.text = !number};
    if (!field(r, &kind, &bytes) || (bytes != strlen("input") && bytes != strlen("target")))
        return fail_damaged(r);
    const bool target = *kind == 't';
    if (!number_field(r, 10, &column) || column >= LKI_TABLE_COLUMNS || (classes && !target) ||
        (target && !number && !classes))
        return fail_damaged(r);
    feature.column = (int)column;
    if (number) {
        if (!bits_field(r, &feature.unit.mean) || !bits_field(r, &feature.unit.deviation) ||
            !number_field(r, 10, &standardised))
            return fail_damaged(r);
        feature.unit.standardised = standardised != 0;
    } else if (!number_field(r, 10, &count)) {
        return fail_damaged(r);
    }
    LKI_TRY(text_field(r, &feature.name, &bytes));
    feature.unit.name = feature.name;
    if (!number) LKI_TRY(read_words(r, &feature, count));
    if (!end_line(r)) return fail_damaged(r);
    if (!target) {
        feature.at = e->width;
        e->width += number ? 1 : feature.words;
    }
    if (classes) e->classes = feature.words;
    *(target ? &e->target[e->targets++] : &e->input[e->inputs++]) = feature;
    return LKS_OK;
}

static lks_status name_targets(lki_encoding *e)
{
    void *memory;
    const size_t classes = (size_t)e->classes, targets = (size_t)e->targets;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, classes * sizeof *e->class_name + 1, "names"));
    e->class_name = memory;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, targets * sizeof *e->unit + 1, "units"));
    for (int64_t c = 0; c < e->classes; c++)
        LKI_TRY(lki_encoding_call_class(e, c, e->target[0].word[c].text));
    if (classes == 0) e->unit = memory;
    for (size_t t = 0; classes == 0 && t < targets; t++) e->unit[t] = e->target[t].unit;
    return LKS_OK;
}

static lks_status read_lines(reader *r)
{
    lki_encoding *e = r->to;
    void *memory;
    uint64_t fill;
    for (const char *c = r->at; c < r->end; c++) r->lines += *c == '\n';
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, (size_t)r->lines * sizeof *e->input, "inputs"));
    e->input = memory;
    LKI_TRY(lki_arena_alloc(&e->arena, &memory, (size_t)r->lines * sizeof *e->target, "targets"));
    e->target = memory;
    if (!is_field(r, "fill") || !number_field(r, 10, &fill) || !end_line(r)) return fail_damaged(r);
    e->fill = fill != 0;
    while (r->at < r->end) {
        const bool number = *r->at == 'n', classes = *r->at == 'c';
        if (!is_field(r, number ? "number" : classes ? "classes" : "texts")) return fail_damaged(r);
        LKI_TRY(read_feature(r, number, classes));
    }
    const bool sentences = e->inputs == 1 && e->input[0].text && e->input[0].words == 0;
    if ((e->width < 1 && !sentences) || e->width > LKI_TABLE_WIDTH || e->targets < 1 ||
        (e->classes > 0 && e->targets != 1))
        return fail_damaged(r);
    return name_targets(e);
}

static lks_status read_file(reader *r, const lki_file *file)
{
    enum { END = 4 + 16 + 1 }; /* "end", a tab, the hash, a line end */
    const size_t begin = sizeof head - 1;
    char end[40];
    r->at = (const char *)file->data;
    if (file->bytes < begin + END || memcmp(r->at, head, begin) != 0) return fail_damaged(r);
    r->end = r->at + file->bytes - END;
    snprintf(end, sizeof end, "end\t%016" PRIx64 "\n", lki_hash(r->at, file->bytes - END));
    if (memcmp(r->end, end, END) != 0) return fail_damaged(r);
    r->at += begin;
    return read_lines(r);
}

lks_status lki_encoding_read(lki_encoding *out, lks_context *context, const char *path)
{
    lki_file file;
    *out = (lki_encoding){.context = context, .arena.context = context, .tells = true};
    reader r = {.to = out, .path = path};
    LKI_TRY(lki_file_open(&file, context, path));
    const lks_status status = read_file(&r, &file);
    lki_file_close(&file);
    return status;
}

/* ---------------------------------------------------------------- comparing */

static bool has_word(const lki_feature *feature, const lki_word *word)
{
    for (int64_t i = 0; i < feature->words; i++)
        if (feature->word[i].bytes == word->bytes && feature->word[i].number == word->number &&
            memcmp(feature->word[i].text, word->text, word->bytes) == 0)
            return true;
    return false;
}

/* A word of `a` that `b` does not have; NULL: there is none. */
static const lki_word *other_word(const lki_feature *a, const lki_feature *b)
{
    for (int64_t i = 0; i < a->words; i++)
        if (!has_word(b, &a->word[i])) return &a->word[i];
    return NULL;
}

static lks_status same_column(const lki_feature *was, const lki_feature *is, const char *path)
{
    if (strcmp(was->name, is->name) == 0 && was->text == is->text) return LKS_OK;
    return LKI_FAIL(LKS_E_MISMATCH,
                    "'%s' has the column '%.60s' with %s where the table of the training has "
                    "'%.60s' with %s",
                    path, is->name, is->text ? "texts" : "numbers", was->name,
                    was->text ? "texts" : "numbers");
}

static lks_status same_feature(const lki_feature *was, const lki_feature *is, const char *path)
{
    const lki_word *fresh = other_word(is, was), *gone = other_word(was, is);
    if (fresh != NULL || gone != NULL) {
        char number[32];
        const lki_word *word = fresh != NULL ? fresh : gone;
        snprintf(number, sizeof number, "%.0f", word->number);
        return LKI_FAIL(
            LKS_E_MISMATCH,
            "'%s': rows of the training %s '%.60s' in column '%.60s', %s; give the "
            "table that was trained with, or predict with --table",
            path, fresh != NULL ? "have" : "do not have", was->text ? word->text : number, is->name,
            fresh != NULL ? "which the checkpoint's had not" : "which the checkpoint's had");
    }
    if (was->words > 0 || (was->unit.mean == is->unit.mean && /* as they were measured */
                           was->unit.deviation == is->unit.deviation &&
                           was->unit.standardised == is->unit.standardised))
        return LKS_OK;
    if (was->unit.standardised != is->unit.standardised)
        return LKI_FAIL(
            LKS_E_MISMATCH,
            "'%s': data.standardize is %s, but the training of the checkpoint had %s; set "
            "it as it was, or predict with --table",
            path, is->unit.standardised ? "true" : "false",
            was->unit.standardised ? "true" : "false");
    return LKI_FAIL(LKS_E_MISMATCH,
                    "'%s': column '%.60s' has mean %g and deviation %g in the rows of the "
                    "training, but %g and %g in those of the checkpoint's; give the table that was "
                    "trained with, or predict with --table",
                    path, is->name, is->unit.mean, is->unit.deviation, was->unit.mean,
                    was->unit.deviation);
}

lks_status lki_encoding_same(const lki_encoding *training, const lki_encoding *found,
                             const char *path)
{
    if (training->inputs != found->inputs || training->targets != found->targets)
        return LKI_FAIL(LKS_E_MISMATCH,
                        "'%s' has %d inputs and %d targets, but the table of the training had %d "
                        "and %d",
                        path, found->inputs, found->targets, training->inputs, training->targets);
    for (int values = 0; values < 2; values++) {
        lks_status (*same)(const lki_feature *, const lki_feature *,
                           const char *) = values ? same_feature : same_column;
        for (int i = 0; i < found->inputs; i++)
            LKI_TRY(same(&training->input[i], &found->input[i], path));
        for (int i = 0; i < found->targets; i++)
            LKI_TRY(same(&training->target[i], &found->target[i], path));
    }
    return LKS_OK;
}
