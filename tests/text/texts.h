/* Texts and vocabulary files for tests. */
#ifndef LKT_TEXT_TEXTS_H
#define LKT_TEXT_TEXTS_H

#include <stdlib.h>
#include <string.h>

#include <lockstep/text.h>
#include <lockstep/tools.h>

#include "data/folder.h"

/* A path in the test's folder; two are kept. */
static inline const char *in(const char *name)
{
    static char path[2][4200];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline const char *write_text(const char *name, const char *text, size_t bytes)
{
    const char *path = in(name);
    LKT_OK(lks_file_write(path, text, bytes));
    return path;
}

static inline lks_tokenizer *build(const lks_vocabulary_opts *opts, const char *text)
{
    lks_tokenizer *tokenizer;
    const size_t bytes = strlen(text);
    LKT_OK(lks_tokenizer_build(&tokenizer, context, opts, &text, &bytes, 1));
    return tokenizer;
}

/* The tokens of a text, as numbers between spaces. */
static inline void encodes_to(const lks_tokenizer *tokenizer, const char *text,
                              const char *expected)
{
    int32_t ids[64];
    int64_t count;
    char found[300] = "";
    LKT_OK(lks_tokenizer_encode(tokenizer, text, strlen(text), ids, 64, &count));
    assert_in_range(count, 0, 64);
    for (int64_t i = 0; i < count; i++)
        sprintf(found + strlen(found), "%s%d", i > 0 ? " " : "", ids[i]);
    assert_string_equal(found, expected);
}

/* The bytes of a file of the shared data sets, freed by the caller; NULL: it is not there. */
static inline char *shared_text(const char *name, size_t *bytes)
{
    char path[4300];
    const char *shared = lkt_data_folder();
    *bytes = 0;
    if (shared == NULL) return NULL;
    snprintf(path, sizeof path, "%s/%s", shared, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, file), *bytes);
    fclose(file);
    return text;
}

#endif
