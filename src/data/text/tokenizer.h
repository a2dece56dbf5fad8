/*
 * The inside of a tokenizer. A kind of them is a constant in a file of its own, and a line in list.h.
 */
#ifndef LKI_DATA_TEXT_TOKENIZER_H
#define LKI_DATA_TEXT_TOKENIZER_H

#include <lockstep/text.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/text/list.h"

/* A file of several that are one text, and where in that it begins. */
typedef struct lki_joined_file {
    const char *name;
    size_t first;
} lki_joined_file;

/* A text, or a piece of one. */
typedef struct lki_passage {
    const char *text;
    size_t bytes;
    /* For messages: */
    const char *name;            /* a path, or NULL */
    size_t first;                /* of the text's bytes */
    const lki_joined_file *part; /* [parts], which the text is made of; NULL: it is of one piece */
    int parts;
} lki_passage;

typedef struct lki_tokenizer_kind {
    const char *name;
    const char *file; /* what it is called in the folder of a run */
    /* Whether a file is of this kind, by its first bytes. */
    bool (*is)(const uint8_t *data, size_t bytes);
    /* Fill in size, hash, unknown, end and own; memory is of the tokenizer's arena. `build` is NULL where a
     * vocabulary is only read. */
    lks_status (*read)(lks_tokenizer *tokenizer, const char *path, const uint8_t *data,
                       size_t bytes);
    lks_status (*build)(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                        const lki_passage *texts, int count);
    void (*close)(lks_tokenizer *tokenizer); /* of what is not in the arena; NULL: nothing */
    lks_status (*write)(const lks_tokenizer *tokenizer, lki_writer *writer);
    /* As lks_tokenizer_encode(). Called by several threads at once. */
    lks_status (*encode)(const lks_tokenizer *tokenizer, const lki_passage *passage, int32_t *ids,
                         int64_t room, int64_t *count);
    const char *(*token)(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes);
    /* The first place from `at` on, 0 < at <= bytes, in front of which a text may be cut: what stands before it
     * and from it on has the same tokens alone as together. `bytes`: none. */
    size_t (*cut)(const lks_tokenizer *tokenizer, const char *text, size_t bytes, size_t at);
} lki_tokenizer_kind;

struct lks_tokenizer {
    const lki_tokenizer_kind *kind;
    lks_context *context;
    lki_arena arena; /* of all that it has */
    int64_t size;
    uint64_t hash;
    int32_t unknown; /* -1: none */
    int each;        /* the most tokens that a byte of a text may become */
    int32_t
        end; /* what a text file has behind its last line where that has no line feed; -1: nothing */
    void *own; /* of its kind */
};

#define LKI_TOKENIZER_DECLARE(id) extern const lki_tokenizer_kind lki_##id##_tokenizer;
LKI_TOKENIZER_LIST(LKI_TOKENIZER_DECLARE)

/* As lks_tokenizer_build(), of passages that have names. */
lks_status lki_tokenizer_build(lks_tokenizer **out, lks_context *context,
                               const lks_vocabulary_opts *opts, const lki_passage *texts,
                               int count);

#endif
