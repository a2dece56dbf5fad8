/* Tokens for people: as text, and how often each occurs. */
#ifndef CLI_DATA_TOKENS_H
#define CLI_DATA_TOKENS_H

#include <lockstep/text.h>

#include "cli/pool.h"

/* A text in memory that grows; free(text). */
typedef struct tokens_buffer {
    char *text;
    size_t used, room;
} tokens_buffer;

/* A token as people see it: line feeds and their like as \n and \t. False: no memory. */
bool tokens_put(tokens_buffer *buffer, const lks_tokenizer *tokenizer, int32_t id);
lks_status tokens_no_memory(const char *what);

typedef struct tokens_place {
    int64_t count;
    int32_t id;
} tokens_place;

typedef struct tokens_counts {
    const lks_tokenizer *tokenizer;
    int64_t tokens, size;
    int64_t *count;      /* [size] */
    tokens_place *order; /* [size]: the most frequent first, once that is settled */
} tokens_counts;

/* All 0; freed also after a failure. */
LKS_MUSTUSE lks_status tokens_counts_make(tokens_counts *out, const lks_dataset *data);
void tokens_counts_settle(tokens_counts *counts);
void tokens_counts_free(tokens_counts *counts);

/* "vocabulary ...", its hash and what of it is unknown; the last alone; a table of the most frequent. */
void tokens_say_vocabulary(const tokens_counts *counts);
void tokens_say_unknown(const tokens_counts *counts);
void tokens_say_frequent(const tokens_counts *counts, cli_pool *pool);
/* All that there are, none of which is known: ", all of them unknown". */
const char *tokens_all_unknown(const tokens_counts *counts);

#endif
