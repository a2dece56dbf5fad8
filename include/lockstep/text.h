/* Text as tokens: vocabularies of words, characters and bytes, and data sets of texts. */
#ifndef LOCKSTEP_TEXT_H
#define LOCKSTEP_TEXT_H

#include <lockstep/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What turns text into numbers and back: 0 to size - 1. It is read by any threads at once. */
typedef struct lks_tokenizer lks_tokenizer;

/*
 * What a token is.
 *   WORD  what stands between spaces, tabs and the like; every line feed is the token <eos>, and a word that
 *         the vocabulary has not is <unk> (as the Penn Treebank's texts of T. Mikolov have it)
 *   CHAR  a code point; text is UTF-8
 *   BYTE  a byte; the vocabulary has all 256
 *   BPE   bytes that often stand together, as GPT-2 has them; their file is Hugging Face's tokenizer.json
 */
#define LKS_LEVELS(X)                                                                              \
    X(WORD, word)                                                                                  \
    X(CHAR, char)                                                                                  \
    X(BYTE, byte)                                                                                  \
    X(BPE, bpe)

#define LKS_KIND(KIND, name) LKS_LEVEL_##KIND,
typedef enum lks_level { LKS_LEVELS(LKS_KIND) } lks_level;
#undef LKS_KIND

typedef struct lks_vocabulary_opts {
    lks_level level;
    int64_t
        words; /* WORD: the most tokens, <unk> and <eos> among them; 0: all words get one. BPE: the most tokens,
                      256 bytes among them; 0: 4,096 */
    /* WORD: numbered as they appear, not the most frequent first (those that are equally frequent: as
     * they appear). Which ones are kept is the same. Characters are numbered in the order of code points. */
    bool by_appearance;
} lks_vocabulary_opts;

/* A vocabulary file as lks_tokenizer_write() writes it, or a tokenizer.json of GPT-2's kind: which it is, its content
 * says. */
LKS_API LKS_MUSTUSE lks_status lks_tokenizer_open(lks_tokenizer **out, lks_context *context,
                                                  const char *path);
/* Makes a vocabulary from `count` texts, one behind the other; they are not kept. */
LKS_API LKS_MUSTUSE lks_status lks_tokenizer_build(lks_tokenizer **out, lks_context *context,
                                                   const lks_vocabulary_opts *opts,
                                                   const char *const *texts, const size_t *bytes,
                                                   int count);
LKS_API void lks_tokenizer_destroy(lks_tokenizer *tokenizer); /* NULL is fine */

LKS_API int64_t lks_tokenizer_size(const lks_tokenizer *tokenizer);
/* Identity: equal for the same vocabulary, wherever its file lies. */
LKS_API uint64_t lks_tokenizer_hash(const lks_tokenizer *tokenizer);
/* "word", "char", "byte", "bpe". */
LKS_API const char *lks_tokenizer_level(const lks_tokenizer *tokenizer);
/* The token of what the vocabulary has not, or -1: such a text is refused. */
LKS_API int32_t lks_tokenizer_unknown(const lks_tokenizer *tokenizer);

/* Writes the first `room` tokens of a text to `ids`; *count is how many it has, also above room. There are
 * never more of them than bytes; than twice as many where a tokenizer.json has add_prefix_space. LKS_E_FORMAT names the byte that is no UTF-8, or of no token. */
LKS_API LKS_MUSTUSE lks_status lks_tokenizer_encode(const lks_tokenizer *tokenizer,
                                                    const char *text, size_t bytes, int32_t *ids,
                                                    int64_t room, int64_t *count);

/*
 * What a token stands for when text is written, as long as the tokenizer lives; not ended by a zero byte. A text is its
 * tokens' bytes one after the other: a word has a space in front, <eos> is a line feed. NULL: no such token.
 */
LKS_API const char *lks_tokenizer_token(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* Writes the vocabulary's file, whole or not at all. */
LKS_API LKS_MUSTUSE lks_status lks_tokenizer_write(const lks_tokenizer *tokenizer,
                                                   const char *path);

/*
 * A text as samples to predict the next token from: windows of `context` tokens, one every `stride`, with the token
 * behind each as its target (LKS_I32, all of a vocabulary's size). The last window ends with the text: where the text
 * has no more tokens its samples have token 0, and LKS_NO_CLASS as target. So with stride = context every token but the
 * first is predicted once. `path` is a file, or a folder whose texts (.txt, .txt.gz, .tokens) are one, in the byte order of their names.
 */
typedef struct lks_text_opts {
    const lks_tokenizer *tokenizer; /* required; it must outlive the data set */
    int64_t context;                /* default 128; the text must have at least one token more */
    int64_t stride;                 /* default: context */
    int64_t
        columns; /* the text in so many columns of equal length, one behind the other (its tail is left out), whose windows
                        are samples in turn: sample t * columns + c is window t of column c; default: none */
    bool
        anywhere; /* of as many samples each begins anew in each epoch, anywhere, as drawn by the context's seed */
    const char
        *cache; /* a folder where tokens are kept, to be mapped; default: they are in memory */
    int threads; /* that make tokens; default: as many as this process has cores; never changes a bit */
} lks_text_opts;
LKS_API LKS_MUSTUSE lks_status lks_dataset_open_text(lks_dataset **out, lks_context *context,
                                                     const char *path, const lks_text_opts *opts);
/* What its tokens stand for, as long as the data set lives (of a table's texts those from 1 on); NULL: it has none. */
LKS_API const lks_tokenizer *lks_dataset_tokenizer(const lks_dataset *dataset);
/* Writes tokens [first, first + count) of its text, as far as there are some; how many there are in all: 0 where it is
 * none. */
LKS_API int64_t lks_dataset_tokens(const lks_dataset *dataset, int64_t first, int64_t count,
                                   int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
